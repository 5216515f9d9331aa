//! Tasks, messages, artifacts and their updates in the JSON of A2A 1.0 and of 0.3.
//!
//! 1.0 is the JSON of protocol buffers: what is not set is absent, enums are upper-case words, and what a
//! value is stands in the name of its member. 0.3 tells by `kind`.

use runtime::{StreamArtifact, TaskView};
use serde_json::{Map, Value, json};
use vocab::{Part, TaskId, TaskState};

use crate::TOOL_RESULTS_EXTENSION;
use crate::stamp;

/// Which version's form a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// 1.0; `tools` when the client named our extension.
    V1 {
        /// Whether the results of tools are artifacts.
        tools: bool,
    },
    /// 0.3.
    V03,
}

/// Of which task and context something is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) task: &'a str,
    pub(crate) context: &'a str,
}

/// Every state with its name in 1.0.
const STATES: [(TaskState, &str); 7] = [
    (TaskState::Submitted, "TASK_STATE_SUBMITTED"),
    (TaskState::Working, "TASK_STATE_WORKING"),
    (TaskState::InputRequired, "TASK_STATE_INPUT_REQUIRED"),
    (TaskState::Completed, "TASK_STATE_COMPLETED"),
    (TaskState::Failed, "TASK_STATE_FAILED"),
    (TaskState::Canceled, "TASK_STATE_CANCELED"),
    (TaskState::Rejected, "TASK_STATE_REJECTED"),
];

/// The state that a filter names in 1.0; nothing for a word that is none.
pub(crate) fn state_named(word: &str) -> Option<TaskState> {
    STATES.iter().find(|(_, name)| *name == word).map(|(state, _)| *state)
}

impl Form {
    /// A task. `history` is how many messages of it are wanted, all of them when nothing is said.
    pub(crate) fn task(self, view: &TaskView, history: Option<usize>, artifacts: Vec<Value>) -> Value {
        let of = Of { task: view.id.as_str(), context: view.context.as_str() };
        let mut task = self.object("task");
        task.insert("id".into(), of.task.into());
        task.insert("contextId".into(), of.context.into());
        let stamp = Some(stamp::write(view.updated_ms));
        task.insert("status".into(), self.status(of, view.state, view.message.as_deref(), stamp));
        if !artifacts.is_empty() {
            task.insert("artifacts".into(), artifacts.into());
        }
        if history.is_none_or(|wanted| wanted > 0) {
            let id = format!("{}-request", of.task);
            task.insert("history".into(), json!([self.message(of, &id, true, &view.text)]));
        }
        Value::Object(task)
    }

    /// A task that a client sent a message for, as its method gives it.
    pub(crate) fn sent(self, task: Value) -> Value {
        match self {
            Self::V1 { .. } => json!({"task": task}),
            Self::V03 => task,
        }
    }

    fn status(self, of: Of<'_>, state: TaskState, message: Option<&str>, stamp: Option<String>) -> Value {
        let mut status = Map::new();
        let name = match self {
            Self::V1 { .. } => STATES.iter().find(|(known, _)| *known == state).map_or("", |(_, name)| name),
            Self::V03 => state.as_str(),
        };
        status.insert("state".into(), name.into());
        if let Some(message) = message {
            let id = format!("{}-{}", of.task, state.as_str());
            status.insert("message".into(), self.message(of, &id, false, message));
        }
        if let Some(stamp) = stamp {
            status.insert("timestamp".into(), stamp.into());
        }
        Value::Object(status)
    }

    fn message(self, of: Of<'_>, id: &str, of_user: bool, text: &str) -> Value {
        let mut message = self.object("message");
        let role = match (self, of_user) {
            (Self::V1 { .. }, true) => "ROLE_USER",
            (Self::V1 { .. }, false) => "ROLE_AGENT",
            (Self::V03, true) => "user",
            (Self::V03, false) => "agent",
        };
        message.insert("messageId".into(), id.into());
        message.insert("role".into(), role.into());
        message.insert("taskId".into(), of.task.into());
        message.insert("contextId".into(), of.context.into());
        message.insert("parts".into(), json!([self.text(text)]));
        Value::Object(message)
    }

    fn text(self, text: &str) -> Value {
        match self {
            Self::V1 { .. } => json!({"text": text}),
            Self::V03 => json!({"kind": "text", "text": text}),
        }
    }

    /// The final reply, or a piece of it.
    pub(crate) fn reply(self, text: &str) -> Value {
        json!({"artifactId": "reply", "name": "reply", "parts": [self.text(text)]})
    }

    /// The result of a tool; only 1.0 has a way to ask for it.
    pub(crate) fn tool(self, artifact: &StreamArtifact) -> Value {
        let part = |part: &Part| match part {
            Part::Text(text) => Some(self.text(text.as_str())),
            Part::Image { media_type, data } => Some(json!({"raw": data, "mediaType": media_type})),
            Part::Thinking(_) | Part::ToolCall(_) => None,
        };
        let parts: Vec<Value> = artifact.content.iter().filter_map(part).collect();
        json!({
            "artifactId": format!("tool-{}", artifact.tool_call_id),
            "name": artifact.tool_name,
            "parts": parts,
            "metadata": {
                "fence_source": artifact.fence_source,
                "tool_name": artifact.tool_name,
                "tool_call_id": artifact.tool_call_id,
                "is_error": artifact.is_error,
            },
            "extensions": [TOOL_RESULTS_EXTENSION],
        })
    }

    /// The event of a stream that begins with the task.
    pub(crate) fn first(self, task: Value) -> Value {
        self.sent(task)
    }

    /// The event of a stream that tells a state.
    pub(crate) fn status_update(self, of: Of<'_>, state: TaskState, message: Option<&str>) -> Value {
        let mut update = self.update("status-update", of);
        update.insert("status".into(), self.status(of, state, message, None));
        match self {
            Self::V1 { .. } => json!({"statusUpdate": update}),
            Self::V03 => {
                update.insert("final".into(), pauses(state).into());
                Value::Object(update)
            }
        }
    }

    /// The event of a stream that brings an artifact, or more of one.
    pub(crate) fn artifact_update(self, of: Of<'_>, artifact: Value, (append, last): (bool, bool)) -> Value {
        let mut update = self.update("artifact-update", of);
        update.insert("artifact".into(), artifact);
        for (name, set) in [("append", append), ("lastChunk", last)] {
            if set {
                update.insert(name.into(), true.into());
            }
        }
        match self {
            Self::V1 { .. } => json!({"artifactUpdate": update}),
            Self::V03 => Value::Object(update),
        }
    }

    fn update(self, kind: &str, of: Of<'_>) -> Map<String, Value> {
        let mut update = self.object(kind);
        update.insert("taskId".into(), of.task.into());
        update.insert("contextId".into(), of.context.into());
        update
    }

    fn object(self, kind: &str) -> Map<String, Value> {
        let mut object = Map::new();
        if self == Self::V03 {
            object.insert("kind".into(), kind.into());
        }
        object
    }

    pub(crate) fn wants_tools(self) -> bool {
        self == Self::V1 { tools: true }
    }
}

/// Whether a stream of one task ends with this state: it is over, or it is the client's turn.
pub(crate) fn pauses(state: TaskState) -> bool {
    state.is_final() || state == TaskState::InputRequired
}

/// What a task's own status frame holds, for a client that lost the frame itself.
pub(crate) fn status_frame(id: &TaskId, view: &TaskView) -> Value {
    let mut status = Map::new();
    status.insert("state".into(), view.state.as_str().into());
    for (key, value) in [("message", &view.message), ("response", &view.response)] {
        if let Some(value) = value {
            status.insert(key.into(), value.as_ref().into());
        }
    }
    json!({"id": id, "context_id": view.context, "status": status, "final": view.state.is_final()})
}
