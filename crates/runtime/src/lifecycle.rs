//! How a session takes tasks and when it ends: `lifecycle` of the manifest.

use std::time::Duration;

/// Which tasks are taken at the session's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// None.
    None,
    /// One at a time; a second is rejected while the first is under way.
    Single,
    /// As many as the queue holds.
    Queue,
}

/// What a session does when nothing is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterTask {
    /// It ends, once it has run a task.
    Exit,
    /// It waits for the next task.
    Sleep,
}

/// A session's ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifecycle {
    /// Which tasks it takes.
    pub acceptance: Acceptance,
    /// When it ends.
    pub after_task: AfterTask,
    /// How many tasks may wait, the running one not counted.
    pub queue_depth: usize,
    /// Whether tasks of one context share a conversation.
    pub threaded: bool,
    /// How long a task waits for an answer that a tool asked for.
    pub input_timeout: Duration,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            acceptance: Acceptance::Single,
            after_task: AfterTask::Exit,
            queue_depth: 8,
            threaded: false,
            input_timeout: Duration::from_secs(600),
        }
    }
}
