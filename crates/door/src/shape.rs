//! Tasks, messages, artifacts and their updates in the JSON of A2A 1.0 and of 0.3.
//!
//! 1.0 is the JSON of protocol buffers: what is not set is absent, enums are upper-case words, and what a
//! value is stands in the name of its member. 0.3 tells by `kind`. Everything here borrows the texts that it
//! shows: they may be megabytes, and are copied once, into the answer.

use std::borrow::Cow;

use runtime::{StreamArtifact, TaskView};
use serde::{Serialize, Serializer};
use vocab::{ContextId, Part, TaskId, TaskState};

use crate::TOOL_RESULTS_EXTENSION;
use crate::excerpt::{Excerpts, Shown};

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

/// A task.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Task<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    id: &'a str,
    context_id: &'a str,
    status: Status<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<Artifact<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<[Message<'a>; 1]>,
}

#[derive(Serialize)]
struct Status<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    message_id: Cow<'a, str>,
    role: &'static str,
    task_id: &'a str,
    context_id: &'a str,
    parts: [Piece<'a>; 1],
}

/// An artifact: the final reply or a piece of it, or the result of a tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Artifact<'a> {
    artifact_id: Cow<'a, str>,
    name: &'a str,
    parts: Vec<Piece<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<[&'static str; 1]>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    fence_source: Option<&'a str>,
    tool_name: &'a str,
    tool_call_id: &'a str,
    is_error: bool,
}

/// A part of a message or an artifact.
#[derive(Serialize)]
#[serde(untagged)]
enum Piece<'a> {
    Text {
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Option<&'static str>,
        text: Shown<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Image { raw: &'a str, media_type: &'a str },
}

/// That something of a task is new.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Update<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    task_id: &'a str,
    context_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact: Option<Artifact<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    append: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_chunk: Option<bool>,
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    is_final: Option<bool>,
}

/// A task as it is sent, or an event of a stream: 1.0 has its name before it.
pub(crate) struct Told<'a> {
    form: Form,
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum What<'a> {
    Task(Box<Task<'a>>),
    StatusUpdate(Box<Update<'a>>),
    ArtifactUpdate(Box<Update<'a>>),
}

impl Serialize for Told<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.form, &self.what) {
            (Form::V1 { .. }, what) => what.serialize(serializer),
            (Form::V03, What::Task(task)) => task.serialize(serializer),
            (Form::V03, What::StatusUpdate(update) | What::ArtifactUpdate(update)) => update.serialize(serializer),
        }
    }
}

impl Form {
    /// A task; `history` is whether the message that it began with is shown.
    pub(crate) fn task<'a>(
        self,
        view: &'a TaskView,
        artifacts: Vec<Artifact<'a>>,
        history: bool,
        cut: &mut Excerpts,
    ) -> Task<'a> {
        let of = Of { task: view.id.as_str(), context: view.context.as_str() };
        let history = history.then(|| {
            let made = || format!("{}-request", of.task).into();
            [self.message(of, view.message_id.as_deref().map_or_else(made, Cow::from), true, cut.of(&view.text))]
        });
        Task {
            kind: self.kind("task"),
            id: of.task,
            context_id: of.context,
            status: self
                .status(of, view.state, view.message.as_deref().map(|text| cut.of(text)))
                .at(vocab::rfc3339(view.updated_ms)),
            artifacts,
            history,
        }
    }

    /// A task that a client sent a message for, as its method gives it; and the event of a stream that begins
    /// with the task.
    pub(crate) fn sent(self, task: Task<'_>) -> Told<'_> {
        Told { form: self, what: What::Task(Box::new(task)) }
    }

    fn status<'a>(self, of: Of<'a>, state: TaskState, message: Option<Shown<'a>>) -> Status<'a> {
        let name = match self {
            Self::V1 { .. } => STATES.iter().find(|(known, _)| *known == state).map_or("", |(_, name)| name),
            Self::V03 => state.as_str(),
        };
        let id = || format!("{}-{}", of.task, state.as_str()).into();
        let message = message.map(|text| self.message(of, id(), false, text));
        Status { state: name, message, timestamp: None }
    }

    fn message<'a>(self, of: Of<'a>, message_id: Cow<'a, str>, of_user: bool, text: Shown<'a>) -> Message<'a> {
        let role = match (self, of_user) {
            (Self::V1 { .. }, true) => "ROLE_USER",
            (Self::V1 { .. }, false) => "ROLE_AGENT",
            (Self::V03, true) => "user",
            (Self::V03, false) => "agent",
        };
        let kind = self.kind("message");
        Message { kind, message_id, role, task_id: of.task, context_id: of.context, parts: [self.text(text)] }
    }

    fn text(self, text: Shown<'_>) -> Piece<'_> {
        Piece::Text { kind: self.kind("text"), text }
    }

    /// The final reply, or a piece of it.
    pub(crate) fn reply<'a>(self, text: &'a str, cut: &mut Excerpts) -> Artifact<'a> {
        let (artifact_id, parts) = ("reply".into(), vec![self.text(cut.of(text))]);
        Artifact { artifact_id, name: "reply", parts, metadata: None, extensions: None }
    }

    /// The result of a tool; only 1.0 has a way to ask for it.
    pub(crate) fn tool<'a>(self, artifact: &'a StreamArtifact, cut: &mut Excerpts) -> Artifact<'a> {
        let part = |part: &'a Part| match part {
            Part::Text(text) => Some(self.text(cut.of(text.as_str()))),
            Part::Image { media_type, data } if cut.has_room(data) => Some(Piece::Image { raw: data, media_type }),
            Part::Image { data, .. } => Some(self.text(Shown::none_of(data))),
            Part::Thinking(_) | Part::ToolCall(_) => None,
        };
        Artifact {
            artifact_id: format!("tool-{}", artifact.tool_call_id).into(),
            name: &artifact.tool_name,
            parts: artifact.content.iter().filter_map(part).collect(),
            metadata: Some(Metadata {
                fence_source: artifact.fence_source.as_deref(),
                tool_name: &artifact.tool_name,
                tool_call_id: &artifact.tool_call_id,
                is_error: artifact.is_error,
            }),
            extensions: Some([TOOL_RESULTS_EXTENSION]),
        }
    }

    /// The event of a stream that tells a state.
    pub(crate) fn status_update<'a>(self, of: Of<'a>, state: TaskState, message: Option<&'a str>) -> Told<'a> {
        let mut update = self.update("status-update", of);
        update.status = Some(self.status(of, state, message.map(Shown::whole)));
        update.is_final = (self == Self::V03).then(|| pauses(state));
        Told { form: self, what: What::StatusUpdate(Box::new(update)) }
    }

    /// The event of a stream that brings an artifact, or more of one.
    pub(crate) fn artifact_update<'a>(
        self,
        of: Of<'a>,
        artifact: Artifact<'a>,
        (append, last): (bool, bool),
    ) -> Told<'a> {
        let mut update = self.update("artifact-update", of);
        update.artifact = Some(artifact);
        (update.append, update.last_chunk) = (append.then_some(true), last.then_some(true));
        Told { form: self, what: What::ArtifactUpdate(Box::new(update)) }
    }

    fn update<'a>(self, kind: &'static str, of: Of<'a>) -> Update<'a> {
        Update {
            kind: self.kind(kind),
            task_id: of.task,
            context_id: of.context,
            status: None,
            artifact: None,
            append: None,
            last_chunk: None,
            is_final: None,
        }
    }

    /// What 0.3 tells a value by.
    fn kind(self, kind: &'static str) -> Option<&'static str> {
        (self == Self::V03).then_some(kind)
    }

    pub(crate) fn wants_tools(self) -> bool {
        self == Self::V1 { tools: true }
    }
}

impl Status<'_> {
    fn at(self, timestamp: String) -> Self {
        Self { timestamp: Some(timestamp), ..self }
    }
}

/// Whether a stream of one task ends with this state: it is over, or it is the client's turn.
pub(crate) fn pauses(state: TaskState) -> bool {
    state.is_final() || state == TaskState::InputRequired
}

/// What a task's own status frame holds, for a client that lost the frame itself.
pub(crate) fn status_frame<'a>(id: &'a TaskId, view: &'a TaskView) -> impl Serialize + 'a {
    #[derive(Serialize)]
    struct Frame<'a> {
        id: &'a TaskId,
        context_id: &'a ContextId,
        status: Status<'a>,
        r#final: bool,
    }
    #[derive(Serialize)]
    struct Status<'a> {
        state: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        response: Option<&'a str>,
    }
    let (message, response) = (view.message.as_deref(), view.response.as_deref());
    let status = Status { state: view.state.as_str(), message, response };
    Frame { id, context_id: &view.context, status, r#final: view.state.is_final() }
}
