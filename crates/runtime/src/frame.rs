//! What a session tells those who watch it, as it happens.
//!
//! The text in a frame has passed the redactor; an artifact's text is the very one that the model reads.

use std::time::Duration;

use policy::Shown;
use vocab::{DriverError, EndStatus, TaskId};

use crate::SubagentProgress;

/// One thing that happened in a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame<'a> {
    /// The task began.
    Working,
    /// A piece of the model's reply.
    Text(&'a str),
    /// A piece of the model's reasoning.
    Thinking(&'a str),
    /// The model began to ask for a tool; its input still comes.
    ToolCallStarted {
        /// The tool's name.
        tool_name: &'a str,
        /// The provider's id of the call.
        tool_call_id: &'a str,
    },
    /// A reviewed call goes to its tool.
    ToolRunning {
        /// The tool's name.
        tool_name: &'a str,
        /// The provider's id of the call.
        tool_call_id: &'a str,
        /// What the call is about, on one line.
        summary: &'a str,
    },
    /// A tool waits for an answer.
    InputRequired {
        /// What it asks.
        prompt: &'a str,
    },
    /// A call has its result.
    Artifact(Artifact<'a>),
    /// The model's answer failed and is asked for again; text of this turn up to here is void.
    Retrying {
        /// What failed.
        error: &'a DriverError,
        /// How long until the next attempt.
        delay: Duration,
        /// Its number, from 2.
        attempt: u32,
    },
    /// Older turns of the conversation are being summarised.
    Summarising,
    /// Something is going on in a subagent, of this session or further down.
    Subagent(&'a SubagentProgress),
    /// A turn of the model is complete: no further text of it comes.
    TurnEnded {
        /// Whether tool calls follow.
        tool_calls: u32,
    },
    /// Something that the operator should know; a code of the diagnostics page and a sentence.
    Warning {
        /// Such as `W-RUN-001`.
        code: &'static str,
        /// One sentence.
        text: &'a str,
    },
    /// The task is over.
    Ended {
        /// How.
        status: EndStatus,
        /// The final reply.
        reply: &'a str,
        /// One sentence, unless it ended well.
        reason: Option<&'a str>,
    },
}

/// A call's result, as the model reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Artifact<'a> {
    /// The tool's name.
    pub tool_name: &'a str,
    /// The provider's id of the call.
    pub tool_call_id: &'a str,
    /// The source under which it is fenced.
    pub fence_source: Option<&'a str>,
    /// The result.
    pub shown: &'a Shown,
    /// From dispatch to result; nothing for a call that never ran.
    pub duration: Option<Duration>,
}

/// Somebody who watches. It must not block: a watcher that is slow is that watcher's own problem.
pub trait Observer: Send {
    /// Takes one frame of one task.
    fn frame(&mut self, task: &TaskId, frame: &Frame<'_>);
}

/// Nobody.
impl Observer for () {
    fn frame(&mut self, _: &TaskId, _: &Frame<'_>) {}
}
