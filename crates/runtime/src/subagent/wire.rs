//! What the two ends of a subagent say to each other, one line of JSON each.
//!
//! The child's process is this program started by this program, so a line that cannot be read is a fault and not an
//! attack; it ends the child.

use std::path::PathBuf;
use std::time::Duration;

use policy::{Base, Compiled, Document, Unreadable};
use record::{SubagentStatus, message_from_line, message_line};
use secrets::{Redactor, Secret, Vault};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use vocab::{
    DriverError, DriverErrorKind, Message, Reply, SessionId, StopReason, TaskId, ToolSpec, TraceContext, Trust, Usage,
};

/// What a subagent is told of the session that it is a child of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// The session.
    pub session_id: SessionId,
    /// Its task.
    pub task_id: TaskId,
    /// The call of `spawn_subagent`.
    pub tool_call_id: String,
    /// How many sessions stand above the subagent, from 1.
    pub depth: u32,
}

/// The first line that a child reads: what it is to do, and within which bounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChildSpec {
    /// The session that it is.
    pub session: SessionId,
    /// Whose child it is.
    pub parent: Ancestor,
    /// The capsule that it is a part of.
    pub agent: String,
    /// What the call names it.
    pub label: Option<String>,
    /// What it is to do.
    pub task: String,
    /// The class of its parent's task.
    pub trust: Trust,
    /// The real path of the directory that it works in.
    pub root: PathBuf,
    /// Device and inode of that directory, as it was reviewed.
    pub root_node: (u64, u64),
    /// The model that answers it.
    pub model: ModelSpec,
    /// The choices by which its own subagents may be answered.
    pub choices: Vec<ModelSpec>,
    /// Inference calls of its task.
    pub max_turns: u32,
    /// Output cap of each, in tokens.
    pub max_tokens: u32,
    /// The hard blocks of the sessions above, as they are at its start; they are asked for anew at each review.
    #[serde(rename = "executionBoundaries")]
    pub execution_boundaries: Vec<LayerSpec>,
    /// What its sessions above keep secret, so that it is hidden here as well.
    pub(crate) secrets: Vec<String>,
    /// The secrets that a controller injects, as they are now: for gateways, which spend them without showing them.
    pub(crate) injected: Injected,
    /// The span that its task is a part of.
    pub(crate) traceparent: Option<String>,
    /// What whoever launches it needs beside this, of [`Delegation::inherited`](super::Delegation::inherited).
    pub inherited: Value,
}

impl ChildSpec {
    /// The span that its task is a part of.
    pub(crate) fn span(&self) -> Option<TraceContext> {
        span(self.traceparent.as_deref())
    }
}

/// A model behind the parent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// The driver choice.
    pub choice: String,
    /// Its driver.
    pub driver: String,
    /// Its model.
    pub model: String,
    /// Tokens of a whole request and its reply.
    pub context_window: u64,
    /// Whether the child is answered by this one whatever its parent turns to.
    pub fixed: bool,
}

/// A document of hard blocks with what its relative patterns are taken under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerSpec {
    document: Value,
    workdir: PathBuf,
    home: PathBuf,
    search: Vec<PathBuf>,
}

impl LayerSpec {
    pub(crate) fn all(compiled: &Compiled) -> Vec<Self> {
        let layer = |(document, base): (Value, &Base)| Self {
            document,
            workdir: base.workdir.clone(),
            home: base.home.clone(),
            search: base.search.clone(),
        };
        compiled.documents().map(layer).collect()
    }

    pub(crate) fn compile(layers: &[Self]) -> Result<Compiled, Unreadable> {
        let compile = |layer: &Self| {
            let base = Base::new(&layer.workdir, &layer.home).search(layer.search.iter().cloned());
            let document = Document::parse(&layer.document.to_string(), &base)
                .map_err(|_| Unreadable::new("the session above sent rules that cannot be read"))?;
            Compiled::new(&document, &base)
        };
        let all = layers.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        Ok(Compiled::join(&all))
    }
}

/// What a parent says after the first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToChild {
    /// More to hide. It comes before whatever could show it.
    Secrets(Vec<String>),
    /// What a controller has injected, where that has changed.
    Injected(Injected),
    /// What holds now.
    Boundaries { id: u64, now: Now },
    /// An attempt at an answer failed and another follows.
    Restarted { id: u64, error: FaultSpec, delay_ms: u64, attempt: u32 },
    /// The model's answer.
    Reply { id: u64, reply: ReplySpec },
    /// There is none.
    NoReply { id: u64, error: FaultSpec },
    /// Stop, and report what there is.
    Cancel,
}

/// What holds now, for one who may know it already.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Now {
    /// What was told last.
    Same,
    /// These.
    Layers(Vec<LayerSpec>),
    /// Nobody can say.
    Unreadable(String),
}

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromChild {
    /// What holds now?
    Boundaries { id: u64 },
    /// Have a model answer this.
    Infer { id: u64, request: RequestSpec },
    /// That answer is not wanted any more.
    GiveUp { id: u64 },
    /// What is going on, here or further down.
    Progress(SubagentProgress),
    /// The task is over; nothing comes after it.
    Finished(ReportSpec),
}

/// An inference call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestSpec {
    /// The driver choice; the parent's own when absent.
    pub(crate) choice: Option<String>,
    pub(crate) max_tokens: u32,
    pub(crate) traceparent: Option<String>,
    /// System prompt, tools and messages, as the child's wire keeps them.
    pub(crate) body: Box<RawValue>,
}

/// A conversation as it crosses.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) system: String,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) messages: Vec<Box<RawValue>>,
}

impl Conversation {
    pub(crate) fn read(&self) -> Option<Vec<Message>> {
        self.messages.iter().map(|message| message_from_line(message.get().as_bytes()).ok()).collect()
    }
}

/// A model's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReplySpec {
    message: Box<RawValue>,
    stop: StopReason,
    usage: Usage,
    provider_id: Option<String>,
    attempts: u32,
}

impl ReplySpec {
    pub(crate) fn new(reply: Reply, redactor: &Redactor) -> Option<Self> {
        let Reply { content, stop, usage, provider_id, attempts } = reply;
        let line = String::from_utf8(message_line(&Message::assistant(content), redactor)).ok()?;
        let message = RawValue::from_string(line).ok()?;
        Some(Self { message, stop, usage, provider_id, attempts })
    }

    pub(crate) fn read(self) -> Option<Reply> {
        let content = message_from_line(self.message.get().as_bytes()).ok()?.content;
        let Self { stop, usage, provider_id, attempts, .. } = self;
        Some(Reply { content, stop, usage, provider_id, attempts })
    }
}

/// A failed call, or attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FaultSpec {
    kind: DriverErrorKind,
    status: Option<u16>,
    message: String,
    retry_after_ms: Option<u64>,
    retryable: bool,
}

impl From<&DriverError> for FaultSpec {
    fn from(error: &DriverError) -> Self {
        Self {
            kind: error.kind,
            status: error.status,
            message: error.message.clone(),
            retry_after_ms: error.retry_after.map(crate::outbox::millis),
            retryable: error.retryable,
        }
    }
}

impl From<FaultSpec> for DriverError {
    fn from(fault: FaultSpec) -> Self {
        let FaultSpec { kind, status, message, retry_after_ms, retryable } = fault;
        Self { kind, status, message, retry_after: retry_after_ms.map(Duration::from_millis), retryable }
    }
}

/// What is going on in a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentProgress {
    /// Its session.
    pub subagent: SessionId,
    /// The session that it is a child of.
    pub parent: SessionId,
    /// What the call names it.
    pub label: Option<String>,
    /// How many sessions stand above it.
    pub depth: u32,
    /// How it stands.
    #[serde(with = "status_word")]
    pub status: SubagentStatus,
    /// Answers of a model up to now.
    pub turns: u32,
    /// What it does, or why it ended, on one line.
    pub doing: Option<String>,
}

/// One line for a person.
impl std::fmt::Display for SubagentProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.label.as_deref().unwrap_or(self.subagent.as_str());
        write!(f, "subagent {name}: {}", self.status.as_str())?;
        if self.turns > 0 {
            write!(f, ", turn {}", self.turns)?;
        }
        self.doing.as_ref().map_or(Ok(()), |doing| write!(f, ": {doing}"))
    }
}

/// One call of a subagent, for the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) tool: String,
    /// What it was about.
    pub(crate) summary: String,
    pub(crate) outcome: Outcome,
}

/// How a call of a subagent went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Ok,
    Error,
    NotRun,
}

/// A subagent's own word at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReportSpec {
    /// Whether it reported success.
    pub(crate) succeeded: bool,
    /// What it has done, or the text of its last turn when it did not report.
    pub(crate) summary: String,
    /// How it was verified.
    pub(crate) verification: Option<String>,
    /// Why it did not succeed.
    pub(crate) reason: Option<String>,
    /// Files that its file tools changed, those of its own subagents included.
    pub(crate) changed: Vec<PathBuf>,
    /// Its last calls.
    pub(crate) receipts: Vec<Receipt>,
    /// How many calls there were.
    pub(crate) calls: u32,
}

/// Injected secrets by their names.
pub(crate) type Injected = Vec<(String, Option<String>)>;

pub(crate) fn injected(values: &[(String, Option<Secret>)]) -> Injected {
    values.iter().map(|(name, value)| (name.clone(), value.as_ref().map(|value| value.expose().to_owned()))).collect()
}

pub(crate) fn inject(values: Injected, vault: &Vault) {
    for (name, value) in values {
        match value {
            Some(value) => vault.set(&name, Secret::new(value)),
            None => vault.forget(&name),
        };
    }
}

/// Values as they cross: the pipe is between two processes of this program and nobody else's.
pub(crate) fn exposed(values: &[Secret]) -> Vec<String> {
    values.iter().map(|value| value.expose().to_owned()).collect()
}

pub(crate) fn learn(values: Vec<String>, redactor: &Redactor) {
    values.into_iter().for_each(|value| redactor.learn(&Secret::new(value)));
}

pub(crate) fn span(text: Option<&str>) -> Option<TraceContext> {
    text.and_then(TraceContext::parse)
}

mod status_word {
    use record::SubagentStatus;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    const ALL: [SubagentStatus; 6] = [
        SubagentStatus::Queued,
        SubagentStatus::Running,
        SubagentStatus::Succeeded,
        SubagentStatus::Failed,
        SubagentStatus::Cancelled,
        SubagentStatus::TimedOut,
    ];

    pub(super) fn serialize<S: Serializer>(status: &SubagentStatus, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(status.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SubagentStatus, D::Error> {
        let word = String::deserialize(from)?;
        let found = ALL.into_iter().find(|status| status.as_str() == word);
        found.ok_or_else(|| de::Error::custom("no status of a subagent"))
    }
}
