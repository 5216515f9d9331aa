//! Takes a driver's deltas to the watcher as they come, redacted across chunk borders.
//!
//! What a channel holds back is shown when the channel changes or the call ends. An attempt that failed
//! goes on record here, because only the driver knows that it made one.

use std::time::Duration;

use record::{Error as RecordError, InferenceError};
use secrets::{Redactor, StreamRedactor};
use vocab::{Delta, DeltaSink, DriverError};

use crate::Frame;
use crate::outbox::{Outbox, Place, millis};

/// The sink of one inference call.
pub(crate) struct Relay<'o> {
    outbox: &'o mut Outbox,
    place: &'o Place,
    text: StreamRedactor,
    thinking: StreamRedactor,
    /// The attempt that is under way, from 1.
    attempt: u32,
    fault: Option<RecordError>,
}

impl<'o> Relay<'o> {
    pub(crate) fn new(outbox: &'o mut Outbox, place: &'o Place) -> Self {
        let (text, thinking) = (StreamRedactor::new(outbox.redactor()), StreamRedactor::new(outbox.redactor()));
        Self { outbox, place, text, thinking, attempt: 1, fault: None }
    }

    /// Shows what is held back and records the error that ended the call, if one did; gives the fault
    /// that came up on the way.
    pub(crate) fn finish(mut self, error: Option<&DriverError>) -> Result<(), RecordError> {
        self.flush();
        if let Some(error) = error {
            self.failed(error, None);
        }
        self.fault.map_or(Ok(()), Err)
    }

    fn flush(&mut self) {
        let thinking = self.thinking.finish();
        if !thinking.as_str().is_empty() {
            self.outbox.frame(&self.place.task, &Frame::Thinking(thinking.as_str()));
        }
        let text = self.text.finish();
        if !text.as_str().is_empty() {
            self.outbox.frame(&self.place.task, &Frame::Text(text.as_str()));
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
        if let Err(fault) = self.outbox.event(Some(&self.place.parent), line) {
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
            Delta::Text(piece) => {
                let piece = self.text.push(piece);
                if !piece.as_str().is_empty() {
                    self.outbox.frame(&self.place.task, &Frame::Text(piece.as_str()));
                }
            }
            Delta::Thinking(piece) => {
                let piece = self.thinking.push(piece);
                if !piece.as_str().is_empty() {
                    self.outbox.frame(&self.place.task, &Frame::Thinking(piece.as_str()));
                }
            }
            Delta::ToolCallStarted { id, name } => {
                self.flush();
                self.outbox.frame(&self.place.task, &Frame::ToolCallStarted { tool_name: name, tool_call_id: id });
            }
            Delta::Restarted { error, delay, attempt } => {
                self.flush();
                let error = redacted(error.clone(), self.outbox.redactor());
                self.failed(&error, Some(delay));
                self.attempt = attempt;
                self.outbox.frame(&self.place.task, &Frame::Retrying { error: &error, delay, attempt });
            }
        }
    }
}
