//! One session: its records opened, its tasks run one after the other, its end written.
//!
//! What happens inside a task is `run`'s business.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fence::{ModelText, Source, Unfenced};
use policy::Policy;
use record::{
    Body, Capture, ConversationWriter, Digest, Error as RecordError, Home, SessionEnd, SessionStart, TaskReceived,
    TaskStart, TraceKey, TraceOptions, TraceWriter,
};
use secrets::Redactor;
use vocab::{Clock, ContextId, Driver, EndStatus, EventId, Message, Origin, SessionId, TaskId, TaskSource, Trust};

use crate::Observer;
use crate::outbox::{Outbox, lookalikes, millis};
use crate::registry::Registry;
use crate::run::{Beginning, Run};
use crate::session::{End, Limits};
use crate::stop::StopSignal;

/// Everything that a session is made of.
pub struct Setup {
    /// The session's id.
    pub session: SessionId,
    /// The program's own version.
    pub mur_version: &'static str,
    /// The capsule's name and version.
    pub capsule: (String, String),
    /// The directory that the agent works in.
    pub workdir: PathBuf,
    /// Where records live.
    pub home: Home,
    /// What the trace keeps of bodies.
    pub capture: Capture,
    /// The model.
    pub driver: Arc<dyn Driver>,
    /// Whether the driver plays a script and no model answers.
    pub scripted: bool,
    /// The system prompt, whole.
    pub system: String,
    /// The tools.
    pub registry: Registry,
    /// What they may do.
    pub policy: Policy,
    /// What must not leave.
    pub redactor: Redactor,
    /// What bounds a task.
    pub limits: Limits,
    /// Where timestamps come from.
    pub clock: Arc<dyn Clock>,
    /// Who watches.
    pub observer: Box<dyn Observer>,
}

/// A task, as somebody hands it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// Its text.
    pub text: String,
    /// Who enqueued it.
    pub origin: Origin,
    /// The class of the authenticated sender, if there is one.
    pub sender: Option<Trust>,
    /// The way by which it came.
    pub source: TaskSource,
}

/// How a task ended, with what it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// The task.
    pub task: TaskId,
    /// Its conversation.
    pub context: ContextId,
    /// How it ended.
    pub end: End,
    /// What it took.
    pub tally: Tally,
}

/// Counts of a task, or of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Answers of the model.
    pub turns: u32,
    /// Calls that it asked for.
    pub tool_calls: u32,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.turns = self.turns.saturating_add(other.turns);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// One launch of a capsule.
pub struct Session {
    setup: Fixed,
    outbox: Outbox,
    start: EventId,
    began: Instant,
    spent: u64,
    tasks: u32,
    tally: Tally,
    worst: EndStatus,
}

/// What does not change while a session lives.
pub(crate) struct Fixed {
    pub(crate) home: Home,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) system: String,
    pub(crate) system_sha: Digest,
    pub(crate) tools_sha: Digest,
    pub(crate) registry: Registry,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
}

impl Session {
    /// Opens the records and writes the first line.
    ///
    /// # Errors
    /// [`RecordError`] when a record cannot be written: nothing runs then.
    pub fn start(setup: Setup) -> Result<Self, RecordError> {
        setup.home.create_session_dir(&setup.session)?;
        let options = TraceOptions {
            session: setup.session.clone(),
            capture: setup.capture,
            redactor: setup.redactor.clone(),
            clock: setup.clock,
        };
        let trace = TraceWriter::create(&setup.home.trace_path(&setup.session), options)?;
        let mut outbox = Outbox::new(trace, setup.observer, setup.redactor);
        let tools: Vec<&str> = setup.registry.specs().iter().map(|spec| spec.name.as_str()).collect();
        let start = outbox.event(
            None,
            SessionStart {
                mur_version: setup.mur_version,
                capsule: &setup.capsule.0,
                capsule_version: &setup.capsule.1,
                pid: std::process::id(),
                workdir: &setup.workdir,
                driver: setup.driver.name(),
                model: setup.driver.model(),
                scripted: setup.scripted.then_some(true),
                capture: setup.capture,
                tools: &tools,
                resumed_from: None,
                effective_grants: None,
            },
        )?;
        let tools_sha = Digest::of(&serde_json::to_vec(setup.registry.specs()).unwrap_or_default());
        let system = outbox.redactor().redact_owned(setup.system).into_string();
        let setup = Fixed {
            home: setup.home,
            driver: setup.driver,
            system_sha: Digest::of(system.as_bytes()),
            tools_sha,
            system,
            registry: setup.registry,
            policy: setup.policy,
            limits: setup.limits,
        };
        Ok(Self {
            setup,
            outbox,
            start,
            began: Instant::now(),
            spent: 0,
            tasks: 0,
            tally: Tally::default(),
            worst: EndStatus::Ok,
        })
    }

    /// Runs one task in a conversation of its own, to its end.
    ///
    /// # Errors
    /// [`RecordError`] when a record cannot be written: the task has stopped then, and so should the session.
    pub async fn run(&mut self, task: NewTask, stop: &mut StopSignal) -> Result<TaskReport, RecordError> {
        let mut run = self.begin(task)?;
        let end = run.drive(stop).await?;
        let (report, spent) = run.finish(end)?;
        self.spent = spent;
        self.tally.add(report.tally);
        if self.worst == EndStatus::Ok {
            self.worst = report.end.status;
        }
        Ok(report)
    }

    /// Writes the last line. `error` says why the session could not go on, if it could not.
    ///
    /// # Errors
    /// [`RecordError`] when the line cannot be written or signed.
    pub fn finish(self, error: Option<&str>) -> Result<(), RecordError> {
        let status = if error.is_some() { EndStatus::Failed } else { self.worst };
        let end = SessionEnd {
            status,
            error,
            tasks: self.tasks,
            turns: self.tally.turns,
            tool_calls: self.tally.tool_calls,
            input_tokens: self.tally.input_tokens,
            output_tokens: self.tally.output_tokens,
            duration_ms: millis(self.began.elapsed()),
        };
        // A key that cannot be had leaves the trace unsigned, but whole: the end is on record all the same.
        let (key, fault) = match TraceKey::load_or_create(&self.setup.home) {
            Ok(key) => (Some(key), None),
            Err(fault) => (None, Some(fault)),
        };
        self.outbox.finish(&end, key.as_ref())?;
        fault.map_or(Ok(()), Err)
    }

    fn begin(&mut self, task: NewTask) -> Result<Run<'_>, RecordError> {
        let (id, context) = (TaskId::new(), ContextId::new());
        let (origin, trust, lane, source) =
            (task.origin, task.origin.trust(task.sender), task.origin.lane(), task.source);
        self.tasks += 1;
        let received = TaskReceived {
            task_id: &id,
            context_id: &context,
            source,
            origin,
            trust,
            lane,
            bytes: u64::try_from(task.text.len()).unwrap_or(u64::MAX),
        };
        self.outbox.event(Some(&self.start), received)?;
        let opened = ConversationWriter::open(&self.setup.home, &context, self.outbox.redactor().clone())?;
        self.outbox.converse(opened.writer);
        let message = Message::user(self.task_text(task.text, origin, trust));
        let started = TaskStart {
            task_id: &id,
            context_id: &context,
            source,
            origin,
            trust,
            lane,
            message_id: &message.id,
            text: Body::Parts(&message.content),
            fence_lookalikes: lookalikes(&message.content),
        };
        let start = self.outbox.event(Some(&self.start), started)?;
        self.outbox.append(&message)?;
        let mut wire = self.setup.driver.open(&self.setup.system, self.setup.registry.specs());
        wire.push(&message);
        let beginning = Beginning { task: id, context, start, wire, spent: self.spent };
        Ok(Run::new(&self.setup, &mut self.outbox, beginning))
    }

    /// The task's text as the model reads it: redacted, and fenced when it is somebody's data.
    fn task_text(&self, text: String, origin: Origin, trust: Trust) -> ModelText {
        let clean = self.outbox.redactor().redact_owned(text);
        match trust {
            Trust::Trusted => ModelText::unfenced(Unfenced::Operator, clean.into_string()),
            Trust::Untrusted => ModelText::fenced(&Source::task(origin.as_str()), clean.as_str()),
        }
    }
}
