//! Tasks: where they come from, how far they are trusted, how they end.
//!
//! The trust class is derived here, from the origin and the sender, and nowhere else; a sender never
//! states its own class.

use serde::{Deserialize, Serialize};

/// Who put a task into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// `mur run --task`, or a local operator.
    User,
    /// A timer.
    Schedule,
    /// The runtime itself.
    System,
    /// Anything that came over HTTP without a better claim.
    Event,
    /// Another capsule.
    Peer,
    /// Delegated or detached work that finished.
    Completion,
}

impl Origin {
    /// The origin as it stands in records and in a fence's source name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Schedule => "schedule",
            Self::System => "system",
            Self::Event => "event",
            Self::Peer => "peer",
            Self::Completion => "completion",
        }
    }

    /// The class of a task of this origin. `sender` is the class of the authenticated sender, if
    /// there is one; it counts for [`Origin::Peer`] and [`Origin::Completion`] alone.
    #[must_use]
    pub fn trust(self, sender: Option<Trust>) -> Trust {
        match self {
            Self::User | Self::Schedule | Self::System => Trust::Trusted,
            Self::Event => Trust::Untrusted,
            Self::Peer | Self::Completion => sender.unwrap_or(Trust::Untrusted),
        }
    }

    /// The lane in which a task of this origin waits.
    #[must_use]
    pub fn lane(self) -> Lane {
        match self {
            Self::User => Lane::User,
            Self::Peer => Lane::Peer,
            Self::Schedule | Self::System | Self::Event | Self::Completion => Lane::Background,
        }
    }
}

/// Whether a task's text is the operator's word or somebody's data. Recorded; it decides the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The operator instructing their own capsule.
    Trusted,
    /// Data; it reaches the model inside a fence.
    Untrusted,
}

impl Trust {
    /// The class as it stands in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Untrusted => "untrusted",
        }
    }
}

/// Queue lanes, most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Work of the operator.
    User,
    /// Work of other capsules.
    Peer,
    /// Everything else.
    Background,
}

/// The way by which a task entered the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskSource {
    /// `mur run --task`.
    Cli,
    /// A request at the session's address.
    A2a,
    /// A call of `spawn_subagent` in the session above.
    Parent,
    /// A command that went on in the background and has ended.
    Runtime,
}

/// Where a task stands, in the words of the A2A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// It waits for its turn.
    Submitted,
    /// The agent works on it.
    Working,
    /// A tool waits for an answer of whoever sent the task.
    InputRequired,
    /// The agent gave its final reply.
    Completed,
    /// It could not go on.
    Failed,
    /// Somebody canceled it.
    Canceled,
    /// It was never started.
    Rejected,
}

impl TaskState {
    /// The state as it stands on the stream.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
        }
    }

    /// Whether nothing more comes of the task.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Submitted | Self::Working | Self::InputRequired => false,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => true,
        }
    }
}

impl From<EndStatus> for TaskState {
    fn from(status: EndStatus) -> Self {
        match status {
            EndStatus::Ok => Self::Completed,
            EndStatus::Canceled => Self::Canceled,
            EndStatus::Rejected => Self::Rejected,
            EndStatus::Failed
            | EndStatus::SpendCeilingReached
            | EndStatus::MaxTurnsReached
            | EndStatus::Interrupted => Self::Failed,
        }
    }
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndStatus {
    /// The agent gave its final reply.
    Ok,
    /// It could not go on; a sentence says why.
    Failed,
    /// Somebody canceled it.
    Canceled,
    /// It was never started.
    Rejected,
    /// The next call would have passed `inference.max_session_tokens`.
    SpendCeilingReached,
    /// `inference.max_turns` turns went by without a final reply.
    MaxTurnsReached,
    /// The session was told to end.
    Interrupted,
}

impl EndStatus {
    /// The status as it stands in records and on stderr.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
            Self::SpendCeilingReached => "spend_ceiling_reached",
            Self::MaxTurnsReached => "max_turns_reached",
            Self::Interrupted => "interrupted",
        }
    }
}
