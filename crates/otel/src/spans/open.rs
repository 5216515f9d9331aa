//! A span's beginning and its end, in the protocol's terms.

use vocab::TraceContext;

use crate::attribute::{Attributes, ERROR_TYPE};
use crate::wire::{Code, Event, Kind, Link, Span, Status};

/// The flag of a span that says whether its parent is known to be remote, and the one that says so.
const REMOTE_KNOWN: u32 = 0x100;
const REMOTE: u32 = 0x200;
/// As many events as a span keeps: one turn may ask for any number of calls that are denied.
const EVENTS: usize = 128;

/// Where a span stands in its trace.
pub(super) struct Origin {
    pub(super) context: TraceContext,
    pub(super) parent: Option<[u8; 8]>,
    /// Whether the parent is somebody else's.
    pub(super) remote: bool,
}

pub(super) fn begin(origin: Origin, start: u64, name: String) -> Span {
    let Origin { context, parent, remote } = origin;
    Span {
        trace_id: context.trace_id.to_vec(),
        span_id: context.span_id.to_vec(),
        parent_span_id: parent.map(|id| id.to_vec()).unwrap_or_default(),
        name,
        kind: Kind::Internal.into(),
        start_time_unix_nano: start,
        flags: u32::from(context.sampled) | REMOTE_KNOWN | if remote { REMOTE } else { 0 },
        ..Span::default()
    }
}

/// Ends a span, never before it began.
pub(super) fn end(mut span: Span, at: u64) -> Span {
    span.end_time_unix_nano = at.max(span.start_time_unix_nano);
    let beyond = span.events.len().saturating_sub(EVENTS);
    span.events.truncate(EVENTS);
    span.dropped_events_count = u32::try_from(beyond).unwrap_or(u32::MAX);
    span
}

/// Marks a span as one that failed; `kind` is of few values.
pub(super) fn fail(mut span: Span, attributes: Attributes<'_>, kind: &str, message: String) -> Span {
    span.attributes.extend(attributes.text(ERROR_TYPE, kind).into_list());
    span.status = Some(Status { message, code: Code::Error.into() });
    span
}

pub(super) fn happened(at: u64, name: &str, attributes: Attributes<'_>) -> Event {
    Event { time_unix_nano: at, name: name.to_owned(), attributes: attributes.into_list() }
}

pub(super) fn link(context: TraceContext) -> Link {
    let TraceContext { trace_id, span_id, sampled } = context;
    Link { trace_id: trace_id.to_vec(), span_id: span_id.to_vec(), flags: u32::from(sampled) | REMOTE_KNOWN }
}
