//! Takes a driver's deltas to the watcher as they come, redacted across chunk borders.
//!
//! What a channel holds back is shown when the channel changes or the call ends. An attempt that failed
//! goes on record here, because only the driver knows that it made one.

use std::time::{Duration, Instant};

use record::{Error as RecordError, InferenceError};
use secrets::{Redactor, StreamRedactor};
use vocab::{Delta, DeltaSink, DriverError, TraceContext};

use crate::Frame;
use crate::outbox::{Outbox, Place, millis};
use crate::telemetry::Span;

/// The sink of one inference call.
pub(crate) struct Relay<'o> {
    outbox: &'o Outbox,
    place: &'o Place,
    text: StreamRedactor,
    thinking: StreamRedactor,
    /// The attempt that is under way, from 1.
    attempt: u32,
    fault: Option<RecordError>,
    span: TraceContext,
    began: Instant,
    /// Whether text, and whether reasoning was shown.
    said: (bool, bool),
    /// Whether what is said is for nobody who watches.
    quiet: bool,
}

impl<'o> Relay<'o> {
    pub(crate) fn new(outbox: &'o Outbox, place: &'o Place, span: TraceContext) -> Self {
        let (text, thinking) = (StreamRedactor::new(outbox.redactor()), StreamRedactor::new(outbox.redactor()));
        let began = Instant::now();
        let said = (false, false);
        Self { outbox, place, span, text, thinking, said, attempt: 1, began, fault: None, quiet: false }
    }

    /// For a call whose answer is not part of the reply: failures alone are told.
    pub(crate) fn quiet(outbox: &'o Outbox, place: &'o Place, span: TraceContext) -> Self {
        Self { quiet: true, ..Self::new(outbox, place, span) }
    }

    /// Shows what is held back and records the error that ended the call, if one did; gives the fault
    /// that came up on the way.
    pub(crate) fn finish(mut self, error: Option<&DriverError>) -> Result<(), RecordError> {
        self.flush();
        let (text, thinking) = self.said;
        if thinking {
            self.outbox.text_ended(self.place, true);
        }
        if text {
            self.outbox.text_ended(self.place, false);
        }
        if let Some(error) = error {
            self.failed(error, None);
        }
        self.fault.map_or(Ok(()), Err)
    }

    fn flush(&mut self) {
        let thinking = self.thinking.finish();
        self.show_thinking(thinking.as_str());
        let text = self.text.finish();
        self.show_text(text.as_str());
    }

    fn show_text(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.said.0 = true;
            self.outbox.frame(self.place, &Frame::Text(piece));
        }
    }

    fn show_thinking(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.said.1 = true;
            self.outbox.frame(self.place, &Frame::Thinking(piece));
        }
    }

    fn failed(&mut self, error: &DriverError, delay: Option<Duration>) {
        let line = InferenceError {
            turn: self.place.turn,
            task_id: &self.place.task,
            attempt: self.attempt,
            kind: error.kind,
            http_status: error.status,
            message: &error.message,
            retry_in_ms: delay.map(millis),
        };
        let span = Span { context: self.span, parent: None, took: self.began.elapsed() };
        if let Err(fault) = self.outbox.measured(Some(&self.place.parent), line, Some(span)) {
            self.fault.get_or_insert(fault);
        }
    }
}

/// A provider's words may repeat what it was sent.
pub(crate) fn redacted(error: DriverError, redactor: &Redactor) -> DriverError {
    DriverError { message: redactor.redact_owned(error.message).into_string(), ..error }
}

impl DeltaSink for Relay<'_> {
    fn delta(&mut self, delta: Delta<'_>) {
        match delta {
            Delta::Text(_) | Delta::Thinking(_) | Delta::ToolCallStarted { .. } if self.quiet => {}
            Delta::Text(piece) => {
                let piece = self.text.push(piece);
                self.show_text(piece.as_str());
            }
            Delta::Thinking(piece) => {
                let piece = self.thinking.push(piece);
                self.show_thinking(piece.as_str());
            }
            Delta::ToolCallStarted { id, name } => {
                self.flush();
                self.outbox.frame(self.place, &Frame::ToolCallStarted { tool_name: name, tool_call_id: id });
            }
            Delta::Restarted { error, delay, attempt } => {
                self.flush();
                let error = redacted(error.clone(), self.outbox.redactor());
                self.failed(&error, Some(delay));
                self.attempt = attempt;
                self.outbox.frame(self.place, &Frame::Retrying { error: &error, delay, attempt });
            }
        }
    }
}
