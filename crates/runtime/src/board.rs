//! The tasks of a session: which wait, which runs, how each stands. Pure data: no clock, no I/O.
//!
//! Tasks that have ended are kept for those who ask, up to a number; the oldest go first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;
use vocab::{ContextId, Lane, Origin, TaskId, TaskSource, TaskState, TraceContext, Trust};

use crate::lifecycle::{Acceptance, Lifecycle};
use crate::stop::{StopSignal, Stopper, stop_pair};
use crate::{Caller, StopCause};

/// How many ended tasks can be asked for.
pub(crate) const ENDED_KEPT: usize = 1000;
/// How many bytes of texts and replies of ended tasks are kept; the newest always are.
const ENDED_BYTES: usize = 64 << 20;
/// How many contexts a session remembers; one that it forgot is the operator's alone to name.
const CONTEXTS_KEPT: usize = 10_000;

/// How a task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    /// The task.
    pub id: TaskId,
    /// Its conversation.
    pub context: ContextId,
    /// Where it stands.
    pub state: TaskState,
    /// One sentence on its state, where there is something to say.
    pub message: Option<Arc<str>>,
    /// The final reply.
    pub response: Option<Arc<str>>,
    /// The id that its sender gave the message.
    pub message_id: Option<Arc<str>>,
    /// Its text, redacted.
    pub text: Arc<str>,
    /// Where it came from.
    pub origin: Origin,
    /// Its class.
    pub trust: Trust,
    /// Who sent it.
    pub owner: Caller,
    /// When it came, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// When its state changed last.
    pub updated_ms: u64,
}

/// A task that is to be run.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) task: TaskId,
    pub(crate) context: ContextId,
    pub(crate) text: Arc<str>,
    pub(crate) origin: Origin,
    pub(crate) trust: Trust,
    pub(crate) lane: Lane,
    pub(crate) source: TaskSource,
    pub(crate) traceparent: Option<TraceContext>,
    /// Whether the conversation goes on from what its record holds.
    pub(crate) continues: bool,
    /// The word for what it is for; never an untrusted sender's.
    pub(crate) action: Option<String>,
    pub(crate) stop: StopSignal,
}

/// What somebody said to a tool that asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) trust: Trust,
}

#[derive(Debug)]
struct Entry {
    view: TaskView,
    stopper: Stopper,
    /// A tool waits here for an answer.
    question: Option<oneshot::Sender<Answer>>,
}

/// What a cancel met.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Canceled {
    /// It waited, and was taken out of the queue.
    Waiting,
    /// It runs, and was told.
    Running,
    /// It has ended already.
    Ended(TaskState),
}

/// All tasks of a session.
#[derive(Debug, Default)]
pub(crate) struct Board {
    tasks: BTreeMap<TaskId, Entry>,
    lanes: BTreeMap<Lane, VecDeque<Work>>,
    active: Option<TaskId>,
    ended: VecDeque<TaskId>,
    /// Bytes of the texts of ended tasks.
    ended_bytes: usize,
    contexts: HashMap<ContextId, Caller>,
    context_order: VecDeque<ContextId>,
    closed: bool,
}

impl Board {
    /// Whether another task of this lane fits; else why not. The operator's tasks have places of their own:
    /// strangers must not fill the queue that the operator needs.
    pub(crate) fn admits(&self, lifecycle: &Lifecycle, source: TaskSource, lane: Lane) -> Result<(), String> {
        if self.closed {
            return Err("the session is ending".to_owned());
        }
        let of_operator = |of: Lane| of == Lane::User;
        let beside = self.lanes.iter().filter(|(of, _)| of_operator(**of) == of_operator(lane));
        let waiting: usize = beside.map(|(_, works)| works.len()).sum();
        let ahead = match lifecycle.acceptance {
            Acceptance::None | Acceptance::Single => self.waiting(),
            Acceptance::Queue => waiting,
        } + usize::from(self.active.is_some());
        match (source, lifecycle.acceptance) {
            (TaskSource::Cli, _) => Ok(()),
            (TaskSource::A2a, Acceptance::None) => {
                Err("this capsule takes no tasks at its address (`lifecycle.task_acceptance: none`)".to_owned())
            }
            (TaskSource::A2a, Acceptance::Single) if ahead > 0 => {
                Err("the capsule is busy with another task and does not queue (`lifecycle.task_acceptance: single`)"
                    .to_owned())
            }
            (TaskSource::A2a, Acceptance::Queue) if ahead > lifecycle.queue_depth => Err(format!(
                "the capsule is busy and its queue is full, {waiting} waiting already (`lifecycle.queue_depth`)"
            )),
            (TaskSource::A2a, Acceptance::Single | Acceptance::Queue) => Ok(()),
        }
    }

    /// Puts a task on the board, and in its lane if it is to run.
    pub(crate) fn enter(&mut self, view: TaskView, runs: Option<RunsAs>) {
        let (stopper, stop) = stop_pair();
        self.know(view.context.clone(), view.owner);
        let (id, state) = (view.id.clone(), view.state);
        if let Some(RunsAs { source, traceparent, continues, action }) = runs {
            let lane = view.origin.lane();
            let work = Work {
                task: view.id.clone(),
                context: view.context.clone(),
                text: Arc::clone(&view.text),
                origin: view.origin,
                trust: view.trust,
                lane,
                source,
                traceparent,
                continues,
                action,
                stop,
            };
            self.lanes.entry(lane).or_default().push_back(work);
        }
        self.tasks.insert(id.clone(), Entry { view, stopper, question: None });
        if state.is_final() {
            self.retire(id);
        }
    }

    /// The task whose turn it is: user before peer before background, each lane in its order.
    pub(crate) fn next(&mut self) -> Option<Work> {
        let work = self.lanes.values_mut().find_map(VecDeque::pop_front)?;
        self.active = Some(work.task.clone());
        Some(work)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.lanes.values().map(VecDeque::len).sum()
    }

    pub(crate) fn active(&self) -> Option<&TaskId> {
        self.active.as_ref()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes no more tasks; gives those that waited.
    pub(crate) fn close(&mut self) -> Vec<Work> {
        self.closed = true;
        std::mem::take(&mut self.lanes).into_values().flatten().collect()
    }

    /// Tells the running task to stop; whether there was one.
    pub(crate) fn interrupt(&self) -> bool {
        let entry = self.active.as_ref().and_then(|task| self.tasks.get(task));
        entry.is_some_and(|entry| entry.stopper.stop(StopCause::Interrupted))
    }

    pub(crate) fn cancel(&mut self, task: &TaskId) -> Option<Canceled> {
        let entry = self.tasks.get(task)?;
        if entry.view.state.is_final() {
            return Some(Canceled::Ended(entry.view.state));
        }
        for lane in self.lanes.values_mut() {
            let before = lane.len();
            lane.retain(|work| work.task != *task);
            if lane.len() < before {
                return Some(Canceled::Waiting);
            }
        }
        entry.stopper.stop(StopCause::Canceled);
        Some(Canceled::Running)
    }

    /// Moves a task to another state.
    pub(crate) fn set(&mut self, task: &TaskId, state: TaskState, said: Said<'_>, now_ms: u64) {
        let Some(entry) = self.tasks.get_mut(task) else { return };
        entry.view.state = state;
        entry.view.message = said.message.map(Arc::from);
        entry.view.response = said.response.map(Arc::from);
        entry.view.updated_ms = now_ms;
        if state.is_final() {
            entry.question = None;
            if self.active.as_ref() == Some(task) {
                self.active = None;
            }
            self.retire(task.clone());
        }
    }

    pub(crate) fn ask(&mut self, task: &TaskId, question: oneshot::Sender<Answer>) {
        if let Some(entry) = self.tasks.get_mut(task) {
            entry.question = Some(question);
        }
    }

    /// Takes the place where a tool waits for an answer.
    pub(crate) fn question(&mut self, task: &TaskId) -> Option<oneshot::Sender<Answer>> {
        self.tasks.get_mut(task)?.question.take()
    }

    pub(crate) fn view(&self, task: &TaskId) -> Option<&TaskView> {
        self.tasks.get(task).map(|entry| &entry.view)
    }

    /// All that are on the board, newest first.
    pub(crate) fn views(&self) -> impl Iterator<Item = &TaskView> {
        self.tasks.values().rev().map(|entry| &entry.view)
    }

    pub(crate) fn owner_of(&self, context: &ContextId) -> Option<Caller> {
        self.contexts.get(context).copied()
    }

    /// Remembers whose a context is: that of whoever came first, until the operator joins in. What the
    /// operator says there is for nobody who is not the operator.
    pub(crate) fn know(&mut self, context: ContextId, owner: Caller) {
        if let Some(first) = self.contexts.get_mut(&context) {
            if owner == Caller::Operator {
                *first = owner;
            }
            return;
        }
        self.contexts.insert(context.clone(), owner);
        self.context_order.push_back(context);
        if self.context_order.len() > CONTEXTS_KEPT
            && let Some(oldest) = self.context_order.pop_front()
        {
            self.contexts.remove(&oldest);
        }
    }

    fn retire(&mut self, task: TaskId) {
        self.ended_bytes += self.view(&task).map_or(0, TaskView::bytes);
        self.ended.push_back(task);
        while self.ended.len() > ENDED_KEPT || (self.ended_bytes > ENDED_BYTES && self.ended.len() > 1) {
            let gone = self.ended.pop_front().and_then(|oldest| self.tasks.remove(&oldest));
            self.ended_bytes -= gone.map_or(0, |gone| gone.view.bytes());
        }
    }
}

impl TaskView {
    fn bytes(&self) -> usize {
        self.text.len() + [&self.response, &self.message].into_iter().flatten().map(|text| text.len()).sum::<usize>()
    }
}

/// How a task that waits will run.
#[derive(Debug, Clone)]
pub(crate) struct RunsAs {
    pub(crate) source: TaskSource,
    pub(crate) traceparent: Option<TraceContext>,
    pub(crate) continues: bool,
    pub(crate) action: Option<String>,
}

/// What there is to say with a state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    pub(crate) message: Option<&'a str>,
    pub(crate) response: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use vocab::{ContextId, Origin, TaskId, TaskState, Trust};

    use super::{Board, ENDED_KEPT, TaskView};
    use crate::Caller;

    fn ended(text: &str) -> TaskView {
        TaskView {
            id: TaskId::new(),
            context: ContextId::new(),
            state: TaskState::Rejected,
            message: None,
            response: None,
            message_id: None,
            text: text.into(),
            origin: Origin::Event,
            trust: Trust::Untrusted,
            owner: Caller::Anonymous,
            created_ms: 0,
            updated_ms: 0,
        }
    }

    #[test]
    fn tasks_that_ended_are_kept_up_to_a_number_and_a_size() {
        let mut board = Board::default();
        for _ in 0..ENDED_KEPT + 5 {
            board.enter(ended("short"), None);
        }
        assert_eq!(board.views().count(), ENDED_KEPT);
        let big = "x".repeat(30 << 20);
        for _ in 0..3 {
            board.enter(ended(&big), None);
        }
        assert_eq!(board.views().count(), 2, "two of the big ones and nothing older");
        assert_eq!(board.ended_bytes, 60 << 20);
    }
}
