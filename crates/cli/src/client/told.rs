//! What frames tell, in types. What is unknown, or not in its form, is nothing: sessions of tomorrow may say
//! more.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::frames::Frame;

/// The most words of a turn that are kept.
const LONGEST: usize = 32 << 20;

/// The words of a turn, as far as they were seen. Beyond a bound they are not kept, and equal no reply.
#[derive(Debug, Default)]
pub(crate) struct Said {
    text: String,
    too_much: bool,
}

impl Said {
    pub(crate) fn add(&mut self, piece: &str) {
        self.too_much |= self.text.len() + piece.len() > LONGEST;
        if self.too_much {
            self.text.clear();
        } else {
            self.text.push_str(piece);
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether they are this reply.
    pub(crate) fn is(&self, reply: &str) -> bool {
        !self.too_much && self.text.trim() == reply.trim()
    }
}

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

impl Status {
    /// Whether the task has ended, or goes on with an answer alone.
    pub(crate) fn ends_the_wait(&self) -> bool {
        self.last || self.status.state == "input-required"
    }

    /// It as the data of a frame.
    pub(crate) fn frame(&self) -> Value {
        let State { state, message, response } = &self.status;
        let mut status = Map::new();
        status.insert("state".into(), state.as_str().into());
        for (key, text) in [("message", message), ("response", response)] {
            status.extend(text.as_deref().map(|text| (key.to_owned(), text.into())));
        }
        json!({"id": self.task, "context_id": self.context_id, "status": status, "final": self.last})
    }

    /// The same of a task as A2A gives it, 1.0 or 0.3.
    pub(crate) fn of_task(task: &Value) -> Option<Self> {
        let text = |of: &Value| -> Option<String> {
            Some(of.get("parts")?.as_array()?.iter().filter_map(|part| part.get("text")?.as_str()).collect())
        };
        let word = |pointer: &str| task.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let state = word("/status/state")?;
        let state = match state.strip_prefix("TASK_STATE_") {
            Some(name) => name.to_lowercase().replace('_', "-"),
            None => state,
        };
        let reply = task.get("artifacts").and_then(Value::as_array).and_then(|artifacts| {
            artifacts.iter().find(|artifact| artifact.get("name").and_then(Value::as_str) == Some("reply"))
        });
        Some(Self {
            task: word("/id")?,
            context_id: word("/contextId").unwrap_or_default(),
            last: matches!(state.as_str(), "completed" | "failed" | "canceled" | "rejected"),
            status: State {
                state,
                message: task.pointer("/status/message").and_then(text),
                response: reply.and_then(text),
            },
        })
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{LONGEST, Said, Status};

    #[test]
    fn a_task_of_a2a_is_a_status() {
        let task = json!({
            "kind": "task", "id": "t", "contextId": "c",
            "status": {"state": "completed", "message": {"role": "agent", "parts": [{"kind": "text", "text": "well"}]}},
            "artifacts": [
                {"artifactId": "x", "parts": [{"kind": "text", "text": "no"}]},
                {"artifactId": "reply", "name": "reply", "parts": [{"kind": "text", "text": "a"}, {"text": "b"}]},
            ],
        });
        let frame = json!({
            "id": "t", "context_id": "c", "final": true,
            "status": {"state": "completed", "message": "well", "response": "ab"},
        });
        assert_eq!(Status::of_task(&task), super::read(&frame));
        assert_eq!(Status::of_task(&task).unwrap().frame(), frame);
        let asks = json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}});
        assert_eq!(Status::of_task(&asks).unwrap().status.state, "input-required");
        let working = json!({"id": "t", "status": {"state": "working"}});
        assert!(!Status::of_task(&working).unwrap().ends_the_wait());
        let asks = json!({"id": "t", "status": {"state": "input-required"}});
        assert!(Status::of_task(&asks).unwrap().ends_the_wait());
        assert_eq!(Status::of_task(&json!({"id": "t"})), None);
    }

    #[test]
    fn words_are_kept_up_to_a_bound() {
        let mut said = Said::default();
        said.add(" a");
        said.add("b\n");
        assert!(said.is("ab") && !said.is("a") && said.text() == " ab\n");
        said.add(&"x".repeat(LONGEST));
        said.add("ab");
        assert!(!said.is("ab") && !said.is("") && said.text().is_empty());
    }
}
