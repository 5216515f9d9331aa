//! What a session came to, counted while its lines go by.
//!
//! A session that ended says it itself. One that runs or was killed does not, so the lines are counted.

use std::path::Path;

use record::TraceLine;
use serde::Serialize;

/// The sums over a session. `status` is `ok`, `failed`, …, or how things stand without an end.
#[derive(Debug, Default, Serialize)]
pub(super) struct Totals {
    pub(super) status: String,
    pub(super) error: Option<String>,
    pub(super) tasks: u64,
    pub(super) turns: u64,
    pub(super) tool_calls: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) duration_ms: u64,
    #[serde(skip)]
    pub(super) received: u64,
    #[serde(skip)]
    began: Option<u64>,
}

impl Totals {
    /// Takes the next line. Numbers in a trace are anybody's, so sums stop at their limit.
    pub(super) fn add(&mut self, line: &TraceLine) {
        let number = |name| line.u64(name).unwrap_or(0);
        let began = *self.began.get_or_insert(line.timestamp);
        self.duration_ms = line.timestamp.saturating_sub(began);
        match line.event_type.as_str() {
            "task_received" => self.received += 1,
            "task_start" => self.tasks += 1,
            "inference" => {
                self.turns += 1;
                self.tool_calls = self.tool_calls.saturating_add(number("tool_calls"));
                self.input_tokens = self.input_tokens.saturating_add(number("input_tokens"));
                self.output_tokens = self.output_tokens.saturating_add(number("output_tokens"));
            }
            "compaction" => {
                self.input_tokens = self.input_tokens.saturating_add(number("input_tokens"));
                self.output_tokens = self.output_tokens.saturating_add(number("output_tokens"));
            }
            "session_end" => {
                let text = |name| line.str(name).map(str::to_owned);
                *self = Self {
                    status: text("status").unwrap_or_default(),
                    error: text("error"),
                    tasks: number("tasks"),
                    turns: number("turns"),
                    tool_calls: number("tool_calls"),
                    input_tokens: number("input_tokens"),
                    output_tokens: number("output_tokens"),
                    duration_ms: number("duration_ms"),
                    ..*self
                };
            }
            _ => {}
        }
    }

    /// Says how a session stands whose lines held no end. Of a damaged trace nobody knows: its end may
    /// stand in what could not be read.
    pub(super) fn conclude(&mut self, path: &Path, damaged: bool) {
        if damaged {
            self.status = "damaged".into();
        } else if self.status.is_empty() {
            self.status = if self.began.is_some() { super::unended(path) } else { "empty" }.into();
        }
    }

    /// Tasks that came in and never started.
    pub(super) fn waiting(&self) -> u64 {
        self.received.saturating_sub(self.tasks)
    }
}
