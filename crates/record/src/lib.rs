//! What a session leaves behind: its trace, its conversations, and the means to read and check both.

mod append;
mod digest;
mod error;
mod event;
mod home;
mod key;
mod line;
mod lines;
mod trace;

pub use digest::Digest;
pub use error::{Error, LineFault, Unsafe};
pub use event::{
    ActionReview, Body, CallDenied, CallId, CallStatus, Capture, Decision, EVENTS, Event, EventSpec, Inference,
    InferenceError, KeyRule, KeySpec, ReviewPhase, ReviewTarget, SessionEnd, SessionStart, Shell, SkillCall, TargetOf,
    TaskEnd, TaskReceived, TaskStart, ToolCallEvent, Verdict, reference_markdown,
};
pub use home::Home;
pub use key::{PublicKey, TraceKey};
pub use lines::MAX_LINE;
pub use trace::{
    BreakReason, Continued, Ending, Step, StepKind, TraceLine, TraceOptions, TraceReader, TraceSummary, TraceWriter,
    Unsigned, VerifyReport, VerifyStatus, verify,
};
