//! Every event of a trace, declared once: the types, what is written and the reference page all come
//! from the table in `event/table.rs`.
//!
//! An event borrows what it tells, because the writer turns it into a line at once. Bodies are typed
//! as bodies, so that `trace.capture` is applied in one place and no event can leak one. The envelope
//! and the chain are the writer's business.

mod field;
mod table;
mod words;

pub use field::{Body, CallId, EventSpec, KeyRule, KeySpec, ReviewTarget, TargetOf};
pub use table::{
    ActionReview, CallDenied, Compaction, ControlApplied, ControlChange, ControlRefused, EVENTS, Event,
    GatewayCredential, Inference, InferenceError, InputReceived, InputRequired, McpCall, RequestRouted, SessionEnd,
    SessionStart, Shell, SkillCall, SubagentEnd, SubagentStart, TaskEnd, TaskReceived, TaskStart, ToolCallEvent,
    reference_markdown,
};
pub use words::{CallStatus, Capture, Decision, ReviewPhase, SubagentStatus, Verdict};
