//! What frames tell, in types. What is unknown, or not in its form, is nothing: sessions of tomorrow may say
//! more.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::frames::Frame;

/// What a frame tells.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    Status(Status),
    Artifact(Artifact),
    Text(Piece),
    Thinking(Piece),
    ToolCall(ToolCall),
    /// Older frames are gone: the first that there is.
    Gap {
        first_available_id: u64,
    },
    /// So many frames were too fast for this connection.
    Lagged {
        skipped: u64,
    },
    Error {
        error: String,
    },
    Closed,
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Status {
    #[serde(rename = "id")]
    pub(crate) task: String,
    #[serde(default)]
    pub(crate) context_id: String,
    pub(crate) status: State,
    #[serde(default, rename = "final")]
    pub(crate) last: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct State {
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) response: Option<String>,
}

/// A call's result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Artifact {
    #[serde(rename = "id")]
    pub(crate) task: String,
    pub(crate) artifact: CallResult,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct CallResult {
    pub(crate) tool_name: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    pub(crate) fence_source: Option<String>,
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(default)]
    pub(crate) duration_ms: Option<u64>,
    #[serde(default)]
    pub(crate) exit_code: Option<i64>,
}

impl CallResult {
    /// The result's text, without images.
    pub(crate) fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
            _ => String::new(),
        }
    }
}

/// A piece of what the model writes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Piece {
    #[serde(rename = "id")]
    pub(crate) task: String,
    pub(crate) text: String,
    #[serde(default, rename = "final")]
    pub(crate) last: bool,
}

/// The model began to ask for a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ToolCall {
    #[serde(rename = "id")]
    pub(crate) task: String,
    pub(crate) tool_name: String,
}

impl Told {
    /// Reads a frame.
    pub(crate) fn of(frame: &Frame) -> Option<Self> {
        let number = |name| frame.data.get(name).and_then(Value::as_u64);
        match frame.event.as_str() {
            "status" => read(&frame.data).map(Self::Status),
            "artifact" => read(&frame.data).map(Self::Artifact),
            "text" => read(&frame.data).map(Self::Text),
            "thinking" => read(&frame.data).map(Self::Thinking),
            "tool-call-started" => read(&frame.data).map(Self::ToolCall),
            "gap" => Some(Self::Gap { first_available_id: number("first_available_id")? }),
            "lagged" => Some(Self::Lagged { skipped: number("skipped")? }),
            "error" => Some(Self::Error { error: frame.data.get("error")?.as_str()?.to_owned() }),
            "capsule-closed" => Some(Self::Closed),
            _ => None,
        }
    }

    /// The task that it is about, where it is about one.
    pub(crate) fn task(&self) -> Option<&str> {
        match self {
            Self::Status(status) => Some(&status.task),
            Self::Artifact(artifact) => Some(&artifact.task),
            Self::Text(piece) | Self::Thinking(piece) => Some(&piece.task),
            Self::ToolCall(call) => Some(&call.task),
            Self::Gap { .. } | Self::Lagged { .. } | Self::Error { .. } | Self::Closed => None,
        }
    }
}

fn read<T: DeserializeOwned>(data: &Value) -> Option<T> {
    T::deserialize(data).ok()
}
