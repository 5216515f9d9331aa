//! What a session tells whoever measures it: the trace's own events, with the spans they belong to.
//!
//! The runtime mints the span ids, because a call to a provider passes its own on; it exports nothing.

use std::time::Duration;

use record::{Event, SessionEnd};
use vocab::{TaskId, TraceContext};

/// The span that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its own ids.
    pub context: TraceContext,
    /// The span above it; nothing at the root of a trace, or where the event's parent says it.
    pub parent: Option<[u8; 8]>,
    /// How long it took, for one that is over.
    pub took: Duration,
}

/// Somebody who measures. It must not block, and is told of texts as they are: what it keeps of them
/// has to pass the session's redactor first.
pub trait Telemetry: Send + Sync {
    /// An event went on record. `span` comes with `session_start`, `task_start`, `inference`,
    /// `inference_error` and the lines of a call.
    fn event(&self, event: &Event<'_>, span: Option<Span>);

    /// An inference call was given up because its task was stopped: no event tells of it, but its span
    /// was passed on.
    fn given_up(&self, task: &TaskId, turn: u32, span: Span);

    /// The session's last line went on record.
    fn end(&self, end: &SessionEnd<'_>);
}
