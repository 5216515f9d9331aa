//! What an agent did, step by step: the rows of `mur trace steps`.
//!
//! A row is made of one line, so that a trace of any length can be shown as it is read. How a row looks
//! is the caller's.

use super::reader::TraceLine;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Step {
    /// When, Unix time in milliseconds.
    pub timestamp: u64,
    /// The task.
    pub task_id: Option<String>,
    /// The turn within the task, from 0.
    pub turn: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub kind: StepKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum StepKind {
    /// A task began.
    Task {
        /// `trusted` or `untrusted`.
        trust: String,
        /// Its text as the model saw it; `None` unless bodies are kept.
        text: Option<String>,
    },
    /// The model answered.
    Inference {
        /// What the runtime did next.
        decision: String,
        /// How many calls it asked for.
        tool_calls: u64,
        /// Input tokens.
        input_tokens: u64,
        /// Output tokens.
        output_tokens: u64,
        /// How long it took.
        duration_ms: u64,
    },
    /// An attempt to reach the model failed.
    InferenceError {
        /// The kind of failure.
        kind: String,
        /// What went wrong.
        message: String,
    },
    /// Older turns were summarised, or could not be.
    Compaction {
        /// `ok` or `error`.
        status: String,
        /// Messages that the summary stands for.
        messages_replaced: u64,
        /// The next request before, in tokens.
        before_tokens: u64,
        /// The next request after, in tokens.
        after_tokens: u64,
        /// How long it took.
        duration_ms: u64,
    },
    /// A tool or a skill ran.
    ToolCall {
        /// Its name.
        tool: String,
        /// `ok` or `error`.
        status: String,
        /// Bytes that the model got.
        output_bytes: u64,
        /// How long it ran.
        duration_ms: u64,
    },
    /// A call did not run.
    Denied {
        /// The tool's name.
        tool: String,
        /// Why, as a code.
        reason: String,
    },
    /// A task ended.
    TaskEnd {
        /// `ok`, `failed`, …
        status: String,
        /// Why, when it did not end well.
        error: Option<String>,
        /// How long it took.
        duration_ms: u64,
    },
}

impl Step {
    /// The row of a line; `None` for lines that are no step of their own.
    #[must_use]
    pub fn of(line: &TraceLine) -> Option<Self> {
        let text = |name| line.str(name).unwrap_or_default().to_owned();
        let number = |name| line.u64(name).unwrap_or(0);
        let kind = match line.event_type.as_str() {
            "task_start" => StepKind::Task { trust: text("trust"), text: line.str("text").map(str::to_owned) },
            "inference" => StepKind::Inference {
                decision: text("decision"),
                tool_calls: number("tool_calls"),
                input_tokens: number("input_tokens"),
                output_tokens: number("output_tokens"),
                duration_ms: number("duration_ms"),
            },
            "inference_error" => StepKind::InferenceError { kind: text("kind"), message: text("message") },
            "compaction" => StepKind::Compaction {
                status: text("status"),
                messages_replaced: number("messages_replaced"),
                before_tokens: number("before_tokens"),
                after_tokens: number("after_tokens"),
                duration_ms: number("duration_ms"),
            },
            "tool_call" | "skill_call" => StepKind::ToolCall {
                tool: text("tool_name"),
                status: text("status"),
                output_bytes: number("output_bytes"),
                duration_ms: number("duration_ms"),
            },
            "call_denied" => StepKind::Denied { tool: text("tool"), reason: text("reason") },
            "task_end" => StepKind::TaskEnd {
                status: text("status"),
                error: line.str("error").map(str::to_owned),
                duration_ms: number("duration_ms"),
            },
            _ => return None,
        };
        Some(Self {
            timestamp: line.timestamp,
            task_id: line.str("task_id").map(str::to_owned),
            turn: line.u64("turn"),
            kind,
        })
    }
}
