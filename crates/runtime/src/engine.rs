//! One session: its records opened, its tasks run one after the other, its end written.
//!
//! What happens inside a task is `run`'s business.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fence::{ModelText, Source, Unfenced};
use policy::{Gates, Policy, ProtectedValues, Shown, StructuralAction, TaskIdentity};
use record::{
    Body, CallId, Capture, ConversationWriter, Digest, Error as RecordError, Home, Reopened, RequestRouted, SessionEnd,
    SessionStart, TaskStart, TraceKey, TraceOptions, TraceWriter,
};
use secrets::{Redactor, Vault};
use vocab::{
    Clock, ContextId, Driver, EndStatus, Message, Origin, Part, SessionId, TaskId, TaskSource, TaskState, TraceContext,
    Trust,
};

use crate::background::{Cause, Jobs, Late};
use crate::board::{Board, Said, Work};
use crate::compaction::Compaction;
use crate::control::{Control, ControlDeclared, DriverChoice};
use crate::credentials::CredentialTrace;
use crate::gauge::Gauge;
use crate::handle::{NewTask, RequestError};
use crate::handle::{SessionHandle, SessionInfo, Shared, unrun};
use crate::lifecycle::Lifecycle;
use crate::outbox::{Outbox, Place, lookalikes, millis};
use crate::registry::Registry;
use crate::route::{Guidance, Route};
use crate::run::Run;
use crate::session::{Closing, End, Limits};
use crate::subagent::{Delegation, Ended, FINISH, Family, Finish, ParentLink};
use crate::switch::SwitchDriver;
use crate::talk::Talk;
use crate::telemetry::{Span, Telemetry};
use crate::{Artifact, Caller, Claim, Frame, Observer};

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
    /// The models, the primary choice first; there is at least that one.
    pub choices: Vec<DriverChoice>,
    /// What may be changed while the session runs.
    pub control: ControlDeclared,
    /// The secrets that a controller injects.
    pub vault: Arc<Vault>,
    /// Where the credentials of the choices, and of gateways, tell what happens to them.
    pub credentials: CredentialTrace,
    /// Whether the driver plays a script and no model answers.
    pub scripted: bool,
    /// The system prompt, whole.
    pub system: String,
    /// The tools.
    pub registry: Registry,
    /// What they may do.
    pub policy: Policy,
    /// The commands that verify the work, for the commit gate.
    pub verify: Vec<String>,
    /// The skills and context documents that stand in the system prompt.
    pub guidance: Guidance,
    /// What must not leave.
    pub redactor: Redactor,
    /// What bounds a task.
    pub limits: Limits,
    /// How older turns are summarised when the context fills up; nothing for not at all.
    pub compaction: Option<Compaction>,
    /// Where timestamps come from.
    pub clock: Arc<dyn Clock>,
    /// Who watches on this machine.
    pub observer: Box<dyn Observer>,
    /// Who measures.
    pub telemetry: Option<Arc<dyn Telemetry>>,
    /// What the capsule is for, in its author's words.
    pub description: Option<String>,
    /// How the session takes tasks and when it ends.
    pub lifecycle: Lifecycle,
    /// What the capsule may reach on this host, for the record.
    pub effective_grants: Option<serde_json::Value>,
    /// The session that this one resumes.
    pub resumed_from: Option<SessionId>,
    /// Conversations of before that tasks may go on with.
    pub contexts: Vec<ContextId>,
    /// What it needs to have subagents; nothing for one that may have none.
    pub delegation: Option<Delegation>,
    /// The session that it is a subagent of.
    pub parent: Option<ParentLink>,
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
    /// Adds what another took.
    pub fn add(&mut self, other: Self) {
        self.turns = self.turns.saturating_add(other.turns);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// One launch of a capsule.
pub struct Session {
    fixed: Fixed,
    shared: Arc<Shared>,
    began: Instant,
    span: TraceContext,
    meter: Meter,
    /// The session that it is a subagent of.
    parent: Option<ParentLink>,
    tasks: u32,
    tally: Tally,
    worst: EndStatus,
    /// Files that the last task changed.
    changed: Vec<PathBuf>,
}

/// What a session's tasks hand on to each other: they run one after the other, so there is one remainder.
pub(crate) struct Meter {
    /// Tokens that the session has used.
    pub(crate) spent: u64,
    /// What is known of each choice's tokens.
    pub(crate) gauges: Vec<Gauge>,
}

/// What does not change while a session lives.
pub(crate) struct Fixed {
    pub(crate) control: Arc<Control>,
    pub(crate) system: String,
    pub(crate) system_sha: Digest,
    pub(crate) tools_sha: Digest,
    pub(crate) registry: Registry,
    /// The session's; each task has its own, with its gates.
    pub(crate) policy: Policy,
    pub(crate) verify: Vec<String>,
    pub(crate) guidance: Guidance,
    pub(crate) limits: Limits,
    pub(crate) compaction: Option<Compaction>,
    /// Whether somebody measures, so that calls pass their span on.
    pub(crate) measured: bool,
    /// What its subagents share.
    pub(crate) family: Option<Arc<Family>>,
    /// Where its report goes, if it is a subagent itself.
    pub(crate) finish: Option<Arc<Finish>>,
}

impl Fixed {
    pub(crate) fn driver(&self, choice: usize) -> Option<&Arc<dyn Driver>> {
        self.control.choices().get(choice).map(|choice| &choice.driver)
    }

    /// What ends a task.
    pub(crate) fn closing(&self) -> Closing {
        if self.finish.is_some() { Closing::Report(FINISH) } else { Closing::Reply }
    }

    pub(crate) fn has_alternates(&self) -> bool {
        self.control.choices().len() > 1
    }
}

impl Session {
    /// Opens the records and writes the first line.
    ///
    /// # Errors
    /// [`RecordError`] when a record cannot be written: nothing runs then.
    pub fn start(setup: Setup) -> Result<Self, RecordError> {
        setup.home.create_session_dir(&setup.session)?;
        let trace = open_trace(&setup)?;
        let measured = setup.telemetry.is_some();
        let outbox = Arc::new(Outbox::new(trace, setup.observer, setup.telemetry, setup.redactor));
        let sees_agent = !setup.control.agent_settings.is_empty();
        let (declared, choices, vault) = (setup.control, setup.choices, setup.vault);
        let max_tokens = setup.limits.max_tokens;
        let control = Arc::new(Control::new(declared, choices, vault, Arc::clone(&outbox), max_tokens));
        let parent = setup.parent;
        let family = setup.delegation.map(|delegation| {
            let who = (&setup.session, setup.capsule.0.as_str());
            Family::new(delegation, who, parent.as_ref(), (&control, &outbox), setup.limits)
        });
        let finish = parent.is_some().then(Arc::<Finish>::default);
        let switch = sees_agent.then(|| SwitchDriver::tool(&control));
        let own = [switch, family.as_ref().and_then(Family::tool), finish.as_ref().map(Finish::tool)];
        let registry = setup.registry.with(own.into_iter().flatten());
        let ancestor = parent.as_ref().and_then(|parent| serde_json::to_value(&parent.spec().parent).ok());
        let (declared, offered) = (control.on_record(), control.choices_on_record());
        let primary = control.choices().first().map(|choice| &choice.driver);
        let tools: Vec<&str> = registry.specs().iter().map(|spec| spec.name.as_str()).collect();
        let line = SessionStart {
            mur_version: setup.mur_version,
            capsule: &setup.capsule.0,
            capsule_version: &setup.capsule.1,
            pid: std::process::id(),
            workdir: &setup.workdir,
            driver: primary.map_or("", |driver| driver.name()),
            model: primary.map_or("", |driver| driver.model()),
            scripted: setup.scripted.then_some(true),
            capture: setup.capture,
            tools: &tools,
            resumed_from: setup.resumed_from.as_ref(),
            parent: ancestor.as_ref(),
            control: declared.as_ref(),
            inference_choices: offered.as_ref(),
            effective_grants: setup.effective_grants.as_ref(),
        };
        let span = TraceContext::fresh();
        let start = outbox.measured(None, line, Some(Span { context: span, parent: None, took: Duration::ZERO }))?;
        control.file_under(start.clone());
        setup.credentials.open(&outbox, &start);
        let system = outbox.redactor().redact_owned(setup.system).into_string();
        let fixed = Fixed {
            control: Arc::clone(&control),
            system_sha: Digest::of(system.as_bytes()),
            tools_sha: Digest::of(&serde_json::to_vec(registry.specs()).unwrap_or_default()),
            system,
            registry,
            policy: setup.policy,
            verify: setup.verify,
            guidance: setup.guidance,
            limits: setup.limits,
            compaction: setup.compaction,
            measured,
            family,
            finish,
        };
        let meter = Meter { spent: 0, gauges: vec![Gauge::default(); control.choices().len()] };
        let info = SessionInfo {
            session: setup.session,
            name: setup.capsule.0,
            version: setup.capsule.1,
            description: setup.description,
            lifecycle: setup.lifecycle,
        };
        let (board, home, clock, jobs) = (Mutex::new(knowing(setup.contexts)), setup.home, setup.clock, Jobs::new());
        let shared = Arc::new(Shared { info, outbox, control, home, clock, start, board, wake: jobs.wake(), jobs });
        Ok(Self {
            fixed,
            shared,
            began: Instant::now(),
            span,
            meter,
            parent,
            tasks: 0,
            tally: Tally::default(),
            worst: EndStatus::Ok,
            changed: Vec::new(),
        })
    }

    /// Runs the task of a subagent, tells the session above how it ended, and writes the last line. One that is no
    /// subagent does nothing.
    ///
    /// # Errors
    /// [`RequestError`] when its task is not taken, [`RecordError`] when a record cannot be written.
    pub async fn delegated(mut self) -> Result<(), RequestError> {
        let Some(parent) = self.parent.clone() else { return Ok(()) };
        let spec = parent.spec();
        let task = NewTask {
            text: spec.task.clone(),
            source: TaskSource::Parent,
            claim: Some(Claim { origin: Origin::Peer, trust: Some(spec.trust) }),
            context: None,
            traceparent: spec.span(),
            message_id: None,
            action: None,
        };
        let handle = self.handle();
        let view = handle.submit(Caller::Operator, task)?;
        parent.obey(handle, view.id);
        let mut ended = None;
        let served = self.serve(&mut |report| ended = Some(report.clone())).await;
        let reported = self.fixed.finish.as_ref().and_then(|finish| finish.report());
        let changed = std::mem::take(&mut self.changed);
        let fault = served.as_ref().err().map(ToString::to_string);
        let finished = self.finish(fault.as_deref());
        if let Some(task) = ended {
            parent.report(Ended { reported, task, changed }).await;
        }
        served.and(finished).map_err(RequestError::Record)
    }

    /// The session from outside.
    #[must_use]
    pub fn handle(&self) -> SessionHandle {
        SessionHandle(Arc::clone(&self.shared))
    }

    /// Runs tasks, one after the other, until the lifecycle or a stop ends the session; tells of each as
    /// it ends. Commands in the background have ended by then.
    ///
    /// # Errors
    /// [`RecordError`] when a record cannot be written: the task has stopped then, and so should the session.
    pub async fn serve(&mut self, report: &mut dyn FnMut(&TaskReport)) -> Result<(), RecordError> {
        let served = self.work(report).await;
        self.shared.jobs.stop(None).await;
        served
    }

    async fn work(&mut self, report: &mut dyn FnMut(&TaskReport)) -> Result<(), RecordError> {
        let shared = Arc::clone(&self.shared);
        while let Some(work) = shared.next(self.tasks).await? {
            let opened = ConversationWriter::open(&shared.home, &work.context, shared.outbox.redactor().clone());
            if opened.as_ref().is_ok_and(|opened| shared.is_foreign(&work, &opened.writer)) {
                shared.turn_away(&work.task)?;
                continue;
            }
            let ended = self.run(&shared, work, opened).await?;
            if self.worst == EndStatus::Ok {
                self.worst = ended.end.status;
            }
            report(&ended);
        }
        Ok(())
    }

    /// Writes the last line. `error` says why the session could not go on, if it could not.
    ///
    /// # Errors
    /// [`RecordError`] when the line cannot be written or signed.
    pub fn finish(self, error: Option<&str>) -> Result<(), RecordError> {
        self.shared.closed(error);
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
        let (key, fault) = match TraceKey::load_or_create(&self.shared.home) {
            Ok(key) => (Some(key), None),
            Err(fault) => (None, Some(fault)),
        };
        self.shared.outbox.finish(&end, key.as_ref())?;
        fault.map_or(Ok(()), Err)
    }

    /// Runs one task to its end.
    async fn run(
        &mut self,
        shared: &Arc<Shared>,
        mut work: Work,
        opened: Result<Reopened, RecordError>,
    ) -> Result<TaskReport, RecordError> {
        self.tasks += 1;
        let mut stop = work.stop.clone();
        // More may be known to be secret than when the task came.
        work.text = shared.outbox.redactor().redact(&work.text).as_str().into();
        let late = work.late.take();
        let mut message = match &late {
            Some(late) => late.message(shared.outbox.redactor()),
            None => Message::user(task_text(&work)),
        };
        let result = message.content.get(1..).unwrap_or_default().to_vec();
        // What a command wrote is no request.
        let request = late.as_ref().map_or(&*work.text, |late| late.words.as_str());
        let route = Route::find(&self.fixed.guidance, work.action.as_deref(), request);
        let note = route.as_ref().and_then(Route::note);
        let note = note.filter(|note| shared.outbox.redactor().is_clean(note.as_str()));
        message.content.extend(note.map(|note| Part::Text(ModelText::runtime(note))));
        let from = late.as_ref().map(|late| &late.from);
        let place = self.start_task(shared, (&work, from), &message, route.as_ref())?;
        let (record, history) = match opened {
            Ok(opened) => (opened.writer, opened.messages),
            Err(error) => return self.unopened(shared, &place, &error),
        };
        let history = if work.continues { history } else { Vec::new() };
        let mut talk = Talk::new(&self.fixed, record, history, shared.outbox.redactor().clone());
        talk.append(&message)?;
        shared.state(&work.task, TaskState::Working, Said::default());
        let values = match late {
            Some(late) => tell(shared, &place, *late, result),
            None => ProtectedValues::new(identity(shared, &work), shared.outbox.redactor().clone()),
        };
        let action = work.action.as_deref().map(StructuralAction::named).unwrap_or_default();
        let gates = Gates::new(action, self.fixed.verify.clone());
        let policy = self.fixed.policy.for_task(gates).with_values(values.clone());
        let changes = policy.clone();
        let place = (place, message.id, work.trust);
        let mut run = Run::new(&self.fixed, shared, (talk, policy), place, &mut self.meter);
        run.action.clone_from(&work.action);
        let end = run.drive(&mut stop).await;
        // However it ended, and whoever still holds a permit of it.
        values.end();
        let end = end?;
        if end.status == EndStatus::Canceled {
            // What it started is a part of it.
            shared.jobs.stop(Some(&work.task)).await;
        }
        shared.leave(&work.context);
        let report = run.finish(end)?;
        self.tally.add(report.tally);
        self.changed = changes.changed_files();
        Ok(report)
    }

    /// Writes the task's first line and says where its own lines are filed.
    fn start_task(
        &self,
        shared: &Shared,
        (work, from): (&Work, Option<&Cause>),
        message: &Message,
        route: Option<&Route<'_>>,
    ) -> Result<Place, RecordError> {
        let came_with = work.traceparent.map(|context| context.to_string());
        let started = TaskStart {
            task_id: &work.task,
            context_id: &work.context,
            source: work.source,
            origin: work.origin,
            trust: work.trust,
            lane: work.lane,
            message_id: &message.id,
            text: Body::Parts(&message.content),
            traceparent: came_with.as_deref(),
            fence_lookalikes: lookalikes(&message.content),
            from_task_id: from.map(|from| &from.task),
            from_tool_call_id: from.map(|from| CallId(&from.call)),
        };
        let above = work.traceparent.unwrap_or(self.span);
        let span = Span { context: above.child(), parent: Some(above.span_id), took: Duration::ZERO };
        let parent = shared.outbox.measured(Some(&shared.start), started, Some(span))?;
        if let Some(Route { skills, documents, .. }) = route {
            let action = work.action.as_deref();
            shared.outbox.event(Some(&parent), RequestRouted { task_id: &work.task, action, skills, documents })?;
        }
        let (task, context) = (work.task.clone(), work.context.clone());
        Ok(Place { task, context, turn: 0, span: span.context, parent })
    }

    /// A task whose conversation cannot be opened fails; the session goes on.
    fn unopened(&self, shared: &Shared, place: &Place, error: &RecordError) -> Result<TaskReport, RecordError> {
        let reason = format!("the task's conversation cannot be opened: {error}; {}", error.hint());
        let line = unrun(&place.task, EndStatus::Failed, Some(error.code()), &reason);
        shared.outbox.event(Some(&place.parent), line)?;
        let end = End { status: EndStatus::Failed, reply: String::new(), reason: Some(reason) };
        let said = Said { message: end.reason.as_deref(), response: None };
        shared.state(&place.task, TaskState::Failed, said);
        let (task, context) = (place.task.clone(), place.context.clone());
        Ok(TaskReport { task, context, end, tally: Tally::default() })
    }
}

fn open_trace(setup: &Setup) -> Result<TraceWriter, RecordError> {
    let options = TraceOptions {
        session: setup.session.clone(),
        capture: setup.capture,
        redactor: setup.redactor.clone(),
        clock: Arc::clone(&setup.clock),
    };
    TraceWriter::create(&setup.home.trace_path(&setup.session), options)
}

/// Shows the result that a task tells of, as the model reads it. Its command's place is free from here on.
fn tell(shared: &Shared, place: &Place, late: Late, parts: Vec<Part>) -> ProtectedValues {
    let Late { from, tool, shown, duration, values, slot, .. } = late;
    drop(slot);
    let shown = Shown { parts, ..shown };
    let (fence_source, duration) = (shown.fence(), Some(duration));
    let artifact = Artifact { tool_name: &tool, tool_call_id: &from.call, fence_source, shown: &shown, duration };
    shared.outbox.frame(place, &Frame::Artifact(artifact));
    values
}

/// A board on which conversations of before are the operator's.
fn knowing(contexts: Vec<ContextId>) -> Board {
    let mut board = Board::default();
    contexts.into_iter().for_each(|context| board.take_over(context));
    board
}

/// Whose the protected values of a task are.
fn identity(shared: &Shared, work: &Work) -> TaskIdentity {
    let session = shared.info.session.to_string();
    TaskIdentity { session, context: work.context.to_string(), task: work.task.to_string() }
}

/// The task's text as the model reads it: redacted already, and fenced when it is somebody's data.
fn task_text(work: &Work) -> ModelText {
    match work.trust {
        Trust::Trusted => ModelText::unfenced(Unfenced::Operator, work.text.to_string()),
        Trust::Untrusted => ModelText::fenced(&Source::task(work.origin.as_str()), &work.text),
    }
}
