//! One subagent, from its start to its report.
//!
//! The session above is in charge throughout: it ends the process tree when the report is in, when the time is up, when
//! it is told to stop and the subagent does not, and when the subagent is gone. How it ended is said here and not by the
//! subagent, but for a success, which only a report can be.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use policy::{Cancel, Cleared, Compiled};
use record::{CallId, SubagentEnd, SubagentStart, SubagentStatus};
use tokio::task::JoinSet;
use vocab::SessionId;

use super::family::{ChildProcess, Family, Ground, model};
use super::lines::{Reader, Sender};
use super::report::Finished;
use super::served::{Served, ToldState};
use super::wire::{
    Ancestor, ChildSpec, FromChild, LayerSpec, ReportSpec, SubagentProgress, ToChild, exposed, injected,
};
use crate::Frame;
use crate::outbox::millis;

/// How long a subagent that was told to stop may take, those below it included, before its process tree is ended.
const GRACE: Duration = Duration::from_secs(5);
/// How often is looked for values that have become secret while nothing is asked.
const LOOK: Duration = Duration::from_millis(200);
/// How much of what its process wrote to stderr is told when it ended badly.
const LAST_WORDS: usize = 400;

/// What is asked of a subagent.
pub(super) struct Order {
    pub(super) call: String,
    pub(super) task: String,
    pub(super) label: Option<String>,
    pub(super) model: Option<String>,
    /// A real path.
    pub(super) root: PathBuf,
    pub(super) root_node: (u64, u64),
    pub(super) ground: Ground,
}

/// A subagent as its session above sees it.
pub(super) struct Serving {
    family: Arc<Family>,
    order: Order,
    session: SessionId,
}

/// Why a subagent was told to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    Canceled,
    TimeIsUp,
}

impl Serving {
    pub(super) fn new(family: &Arc<Family>, order: Order) -> Self {
        Self { family: Arc::clone(family), order, session: SessionId::new() }
    }

    /// Runs it. An error says why it was never started.
    pub(super) async fn run(self, cleared: Cleared, mut cancel: Cancel) -> Result<Finished, String> {
        let waits = Instant::now();
        let family = Arc::clone(&self.family);
        let place = match family.places.try_acquire() {
            Ok(place) => place,
            Err(_) => {
                self.show(SubagentStatus::Queued, 0, None);
                tokio::select! {
                    biased;
                    () = cancel.canceled() => {
                        self.show(SubagentStatus::Cancelled, 0, None);
                        return Err("the task was stopped before the subagent was started".to_owned());
                    }
                    place = family.places.acquire() => place.map_err(|_| "the session ends".to_owned())?,
                }
            }
        };
        // What holds is told to it with its task, so it must be known.
        let layers = family.delegation.boundaries.current().await;
        let layers = layers.map_err(|_| "the operator's rules cannot be read, so nothing was started".to_owned())?;
        let process = family.delegation.children.start(cleared).await.map_err(|fault| fault.to_string())?;
        let began = Instant::now();
        self.started(millis(began.duration_since(waits)))?;
        let finished = self.serve(process, layers, cancel).await;
        drop(place);
        self.ended(&finished, began.elapsed())?;
        self.show(finished.status, finished.turns, finished.reason().map(str::to_owned));
        Ok(finished)
    }

    async fn serve(&self, process: ChildProcess, layers: Arc<Compiled>, mut cancel: Cancel) -> Finished {
        let ChildProcess { stdin, stdout, last_words, keeper } = process;
        let (mut reader, sender) = (Reader::new(stdout), Sender::open(stdin));
        let redactor = self.family.outbox.redactor();
        let told = ToldState { injected: self.family.control.vault().values(), secrets: redactor.known(), layers };
        let known = redactor.learned_after(0);
        sender.send(&self.spec(&told, exposed(&known)));
        let served = Arc::new(Served::new(&self.family, sender.clone(), told));
        let (mut calls, mut told, mut report) = (JoinSet::new(), Told::Nothing, None);
        let end = tokio::time::sleep(self.family.delegation.timeout);
        tokio::pin!(end);
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                biased;
                () = cancel.canceled(), if told == Told::Nothing => {
                    told = Told::Canceled;
                    sender.send(&ToChild::Cancel);
                    end.as_mut().reset(tokio::time::Instant::now() + GRACE);
                }
                () = &mut end => {
                    if told != Told::Nothing {
                        break;
                    }
                    told = Told::TimeIsUp;
                    sender.send(&ToChild::Cancel);
                    end.as_mut().reset(tokio::time::Instant::now() + GRACE);
                }
                said = reader.next() => match said {
                    Some(FromChild::Finished(said)) => {
                        report = Some(said);
                        break;
                    }
                    Some(said) => self.heard(said, &served, &mut calls),
                    None => break,
                },
                Some(_) = calls.join_next() => {}
                _ = look.tick() => served.refresh(),
            }
        }
        calls.abort_all();
        while calls.join_next().await.is_some() {}
        // With its input closed it ends by itself, and puts its things in order first.
        let turns = served.turns.load(Ordering::Relaxed);
        let tokens = *served.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        drop((served, sender));
        if report.is_some() {
            let gone = async { while reader.next::<FromChild>().await.is_some() {} };
            let _ = tokio::time::timeout(GRACE, gone).await;
        }
        drop(keeper);
        let (status, why) = ending(told, report.as_ref(), &last_words());
        Finished { session: self.session.clone(), status, why, report, turns, tokens }
    }

    fn heard(&self, said: FromChild, served: &Arc<Served>, calls: &mut JoinSet<()>) {
        let served = Arc::clone(served);
        match said {
            FromChild::Boundaries { id } => {
                calls.spawn(async move { served.boundaries(id).await });
            }
            FromChild::Infer { id, request } => {
                let call = calls.spawn({
                    let served = Arc::clone(&served);
                    async move { served.infer(id, request).await }
                });
                served.under_way(id, call);
            }
            FromChild::GiveUp { id } => served.give_up(id),
            FromChild::Progress(progress) => {
                self.family.outbox.frame(&self.order.ground.place, &Frame::Subagent(&self.checked(progress)));
            }
            FromChild::Finished(_) => {}
        }
    }

    /// What a subagent says of itself and of those below it, without what is secret here.
    fn checked(&self, mut progress: SubagentProgress) -> SubagentProgress {
        let redactor = self.family.outbox.redactor();
        progress.doing = progress.doing.map(|doing| redactor.redact_owned(doing).into_string());
        progress.label = progress.label.map(|label| redactor.redact_owned(label).into_string());
        progress
    }

    fn spec(&self, told: &ToldState, secrets: Vec<String>) -> ChildSpec {
        let Order { call, task, label, model: named, root, root_node, ground } = &self.order;
        let family = &self.family;
        let settings = family.control.snapshot();
        let parent = Ancestor {
            session_id: family.session.clone(),
            task_id: ground.task().clone(),
            tool_call_id: call.clone(),
            depth: family.depth + 1,
        };
        let choice = family.choice(named.as_deref()).map(|choice| model(choice, named.is_some()));
        ChildSpec {
            session: self.session.clone(),
            parent,
            agent: family.agent.clone(),
            label: label.clone(),
            task: task.clone(),
            trust: ground.trust,
            root: root.clone(),
            root_node: *root_node,
            model: choice.unwrap_or_default(),
            choices: family.models(),
            max_turns: family.limits.max_turns,
            max_tokens: settings.max_tokens,
            execution_boundaries: LayerSpec::all(&told.layers),
            secrets,
            injected: injected(&told.injected),
            traceparent: Some(ground.place.span.to_string()),
            inherited: family.delegation.inherited.clone(),
        }
    }

    fn started(&self, queued_ms: u64) -> Result<(), String> {
        let Order { call, label, model, root, ground, .. } = &self.order;
        let line = SubagentStart {
            turn: ground.place.turn,
            task_id: ground.task(),
            tool_call_id: CallId(call),
            subagent: &self.session,
            label: label.as_deref(),
            root,
            model: model.as_deref(),
            depth: self.family.depth + 1,
            queued_ms,
        };
        self.show(SubagentStatus::Running, 0, None);
        let written = self.family.outbox.event(Some(&ground.place.parent), line);
        written.map(drop).map_err(|error| format!("the subagent's start cannot be put on record: {error}"))
    }

    fn ended(&self, finished: &Finished, took: Duration) -> Result<(), String> {
        let Order { call, ground, .. } = &self.order;
        let line = SubagentEnd {
            turn: ground.place.turn,
            task_id: ground.task(),
            tool_call_id: CallId(call),
            subagent: &self.session,
            status: finished.status,
            error: finished.reason(),
            turns: finished.turns,
            input_tokens: finished.tokens.0,
            output_tokens: finished.tokens.1,
            duration_ms: millis(took),
        };
        let written = self.family.outbox.event(Some(&ground.place.parent), line);
        written.map(drop).map_err(|error| format!("the subagent's end cannot be put on record: {error}"))
    }

    fn show(&self, status: SubagentStatus, turns: u32, doing: Option<String>) {
        let progress = SubagentProgress {
            subagent: self.session.clone(),
            parent: self.family.session.clone(),
            label: self.order.label.clone(),
            depth: self.family.depth + 1,
            status,
            turns,
            doing,
        };
        self.family.outbox.frame(&self.order.ground.place, &Frame::Subagent(&self.checked(progress)));
    }
}

/// How it ended, and why, where that is not its own to say.
fn ending(told: Told, report: Option<&ReportSpec>, last_words: &str) -> (SubagentStatus, Option<String>) {
    match (told, report) {
        (_, Some(report)) if report.succeeded => (SubagentStatus::Succeeded, None),
        (Told::Canceled, _) => (SubagentStatus::Cancelled, Some("the task was stopped".to_owned())),
        (Told::TimeIsUp, _) => {
            (SubagentStatus::TimedOut, Some("its time was up (`capabilities.spawn.timeout_secs`)".to_owned()))
        }
        (Told::Nothing, Some(_)) => (SubagentStatus::Failed, None),
        (Told::Nothing, None) => {
            let said = last_words.trim();
            let said = said.get(said.ceil_char_boundary(said.len().saturating_sub(LAST_WORDS))..).unwrap_or_default();
            let why = if said.is_empty() {
                "its process ended without a report".to_owned()
            } else {
                format!("its process ended without a report; it said: {said}")
            };
            (SubagentStatus::Failed, Some(why))
        }
    }
}
