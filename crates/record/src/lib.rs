//! What a session leaves behind: its trace, its conversations, and the means to read and check both.
//!
//! Only this crate writes records, and every text that it writes passes a [`secrets::Redactor`] first.
//! A trace is a chain of lines with a signed end ([`verify`] finds what was changed); a conversation is
//! the exact history of a context. A line that cannot be written is an error that stops the task.
//! Nothing here renders, and nothing decides what is recorded.
//!
//! ```
//! use record::{Capture, Home, SessionEnd, TaskReceived, TraceKey, TraceOptions, TraceWriter, VerifyStatus, verify};
//! use vocab::{ContextId, EndStatus, Origin, SessionId, TaskId, TaskSource};
//! # let dir = tempfile::tempdir()?;
//! # let start = record::SessionStart {
//! #     mur_version: "0.1.0", capsule: "demo", capsule_version: "0.1.0", pid: 1, workdir: dir.path(), driver: "scripted",
//! #     model: "script", scripted: Some(true), capture: Capture::Content, tools: &[], resumed_from: None, parent: None, control: None,
//! #     inference_choices: None, effective_grants: None,
//! # };
//! # let end = SessionEnd {
//! #     status: EndStatus::Ok, error: None, tasks: 1, turns: 0, tool_calls: 0, input_tokens: 0, output_tokens: 0, duration_ms: 0,
//! # };
//! let home = Home::at(&dir.path().join("home"))?;
//! let session = SessionId::new();
//! home.create_session_dir(&session)?;
//! let mut trace = TraceWriter::create(
//!     &home.trace_path(&session),
//!     TraceOptions {
//!         session: session.clone(),
//!         capture: Capture::Content,
//!         redactor: secrets::Redactor::new(),
//!         clock: std::sync::Arc::new(vocab::SystemClock),
//!     },
//! )?;
//! trace.append(None, start)?;
//! let origin = Origin::User;
//! let task = trace.append(None, TaskReceived {
//!     task_id: &TaskId::new(),
//!     context_id: &ContextId::new(),
//!     source: TaskSource::Cli,
//!     origin,
//!     trust: origin.trust(None),
//!     lane: origin.lane(),
//!     bytes: 5,
//!     from_task_id: None,
//!     from_tool_call_id: None,
//! })?;
//! // … events whose parent is `Some(&task)` …
//! let key = TraceKey::load_or_create(&home)?;
//! trace.finish(&end, Some(&key))?;
//!
//! let report = verify(&home.trace_path(&session), Some(&session), Some(&key.public()))?;
//! assert_eq!((report.lines, report.status), (3, VerifyStatus::Verified));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod append;
mod conversation;
mod digest;
mod error;
mod event;
mod home;
mod key;
mod line;
mod lines;
mod regular;
mod running;
mod trace;

pub use conversation::{
    ConversationReader, ConversationWriter, Reopened, compact, message_from_line, message_line, pair_up,
};
pub use digest::Digest;
pub use error::{Error, LineFault, Unsafe};
pub use event::{
    ActionReview, Body, CallDenied, CallId, CallStatus, Capture, Compaction, ControlApplied, ControlChange,
    ControlRefused, Decision, EVENTS, Event, EventSpec, GatewayCredential, Inference, InferenceError, InputReceived,
    InputRequired, KeyRule, KeySpec, McpCall, RequestRouted, ReviewPhase, ReviewTarget, SessionEnd, SessionStart,
    Shell, SkillCall, SubagentEnd, SubagentStart, SubagentStatus, TargetOf, TaskEnd, TaskReceived, TaskStart,
    ToolCallEvent, Verdict, reference_markdown,
};
pub use home::Home;
pub use key::{PublicKey, TraceKey};
pub use lines::MAX_LINE;
pub use running::{Running, RunningSession, TokenKind, process_start};
pub use trace::{
    BreakReason, Continued, Ending, Step, StepKind, TraceLine, TraceOptions, TraceReader, TraceSummary, TraceWriter,
    Unsigned, VerifyReport, VerifyStatus, verify,
};
