//! Sessions and tasks: the agent loop, and what carries it out.
//!
//! The loop is a pure state machine ([`TaskLoop`]); [`Session`] interprets its effects with a driver, a
//! registry of tools, a policy and the records. Tasks come in and are watched through a
//! [`SessionHandle`], from any thread. It starts no process, opens no socket and knows no
//! provider: those come in as traits, so a whole session runs against fakes in a test.
//!
//! ```
//! use runtime::{Effect, Estimate, Event, Limits, Summary, TaskLoop};
//! use vocab::StateEffect;
//! let limits = Limits { max_turns: 1, max_tokens: 100, max_session_tokens: None };
//! let mut task = TaskLoop::new(limits, 0);
//! let any = |_: &str| StateEffect::Read;
//! assert_eq!(task.step(Event::Started, &any), [Effect::Estimate]);
//! let estimate = Estimate { input: 7, window: 1000, summary: Summary::Undeclared };
//! assert_eq!(task.step(Event::Estimated(estimate), &any), [Effect::Infer { turn: 0 }]);
//! ```

mod background;
mod board;
mod caller;
mod compaction;
mod control;
mod credentials;
mod dispatch;
mod engine;
mod frame;
mod gauge;
mod handle;
mod inquiry;
mod lifecycle;
mod outbox;
mod prompt;
mod registry;
mod relay;
mod route;
mod run;
mod scrub;
mod session;
mod stop;
mod stream;
mod subagent;
mod summarise;
mod summary;
mod switch;
mod talk;
mod telemetry;

pub use board::TaskView;
pub use caller::{Caller, Claim};
pub use compaction::Compaction;
pub use control::{
    ChoiceCredential, Control, ControlDeclared, ControlEvent, ControlRefusal, DriverChoice, Principal, Refused,
    Setting, SettingChange,
};
pub use credentials::CredentialTrace;
pub use engine::{Session, Setup, Tally, TaskReport};
pub use frame::{Artifact, Frame, Observer};
pub use handle::{NewTask, RequestError, SessionHandle, SessionInfo, is_action_name};
pub use lifecycle::{Acceptance, AfterTask, Lifecycle};
pub use prompt::{ContextDocument, SkillEntry, system_prompt};
pub use registry::{MissingGrant, Registry};
pub use route::Guidance;
pub use session::{Closing, Effect, End, Estimate, Event, Group, Limits, StopCause, Summary, TaskLoop};
pub use stream::{Batch, FRAMES_KEPT, Stream, StreamArtifact, StreamEvent, StreamFrame};
pub use subagent::{
    Ancestor, ChildFault, ChildProcess, ChildSpec, Children, Delegation, ModelSpec, ParentGone, ParentLink,
    SubagentProgress,
};
pub use telemetry::{Span, Telemetry};
