//! The tasks of a session: which wait, which runs, how each stands. Pure data: no clock, no I/O.
//!
//! Tasks that have ended are kept for those who ask, up to a number; the oldest go first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use secrets::Redactor;
use tokio::sync::oneshot;
use vocab::{ContextId, Lane, Origin, TaskId, TaskSource, TaskState, TraceContext, Trust};

use crate::background::Late;
use crate::lifecycle::{Acceptance, Lifecycle};
use crate::stop::{StopSignal, Stopper, stop_pair};
use crate::{Caller, StopCause};

/// How many ended tasks can be asked for.
pub(crate) const ENDED_KEPT: usize = 1000;
/// How many bytes of texts and replies of ended tasks are kept; the newest always are.
const ENDED_BYTES: usize = 64 << 20;
/// How many contexts of others than the operator, in which nothing waits or runs, a session remembers; one that it
/// forgot is the operator's alone to name.
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
    /// What it tells of a command that went on in the background, if it tells of one.
    pub(crate) late: Option<Box<Late>>,
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
    /// Whether its context is known because of it: a task that was never let in claims none.
    claims: bool,
    /// A tool waits here for an answer.
    question: Option<oneshot::Sender<Answer>>,
}

/// A conversation of this session.
#[derive(Debug)]
struct Known {
    owner: Caller,
    /// How many of its tasks have not ended.
    live: usize,
    /// Its place among those that may be forgotten.
    idle: Option<u64>,
    /// The bytes of its record as this session's last task in it left it.
    left: u64,
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
    /// How many values the texts are known to be free of.
    known: usize,
    contexts: HashMap<ContextId, Known>,
    /// Those that may be forgotten, the one that was quiet for longest first.
    idle: BTreeMap<u64, ContextId>,
    /// Counts the places in `idle`.
    quiet: u64,
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
            (TaskSource::Cli | TaskSource::Parent | TaskSource::Runtime, _) => Ok(()),
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
        let (id, state, claims) = (view.id.clone(), view.state, runs.is_some());
        if claims {
            self.claim(&view.context, view.owner);
        }
        if let Some(RunsAs { source, traceparent, continues, action, late }) = runs {
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
                late,
                stop,
            };
            self.lanes.entry(lane).or_default().push_back(work);
        }
        self.tasks.insert(id.clone(), Entry { view, stopper, claims, question: None });
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
            let claimed = std::mem::take(&mut entry.claims).then(|| entry.view.context.clone());
            if let Some(context) = claimed {
                self.release(&context);
            }
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

    /// Takes out of all texts what has become secret since this was last called.
    pub(crate) fn refresh(&mut self, redactor: &Redactor) {
        let known = redactor.known();
        if known == self.known {
            return;
        }
        self.known = known;
        for Entry { view, .. } in self.tasks.values_mut() {
            let TaskView { text, message, response, message_id, .. } = view;
            for text in [message, response, message_id].into_iter().flatten().chain([text]) {
                let hidden = redactor.redact(text);
                if hidden.count() > 0 {
                    *text = hidden.as_str().into();
                }
            }
        }
        let ended = self.ended.iter().filter_map(|task| self.tasks.get(task));
        self.ended_bytes = ended.map(|entry| entry.view.bytes()).sum();
    }

    pub(crate) fn view(&self, task: &TaskId) -> Option<&TaskView> {
        self.tasks.get(task).map(|entry| &entry.view)
    }

    /// All that are on the board, newest first.
    pub(crate) fn views(&self) -> impl Iterator<Item = &TaskView> {
        self.tasks.values().rev().map(|entry| &entry.view)
    }

    pub(crate) fn owner_of(&self, context: &ContextId) -> Option<Caller> {
        self.contexts.get(context).map(|known| known.owner)
    }

    /// Whether a task whose turn it is may still run in its context: the operator may have joined in since it came.
    pub(crate) fn may_start(&self, work: &Work) -> bool {
        let sender = self.view(&work.task).map(|view| view.owner);
        sender.is_some_and(|sender| self.owner_of(&work.context).is_some_and(|owner| sender.sees(owner)))
    }

    /// Remembers a conversation of before as the operator's.
    pub(crate) fn take_over(&mut self, context: ContextId) {
        self.contexts.entry(context).or_insert(Known { owner: Caller::Operator, live: 0, idle: None, left: 0 });
    }

    /// Remembers whose a context is: that of whoever came first, until the operator joins in. What the
    /// operator says there is for nobody who is not the operator.
    fn claim(&mut self, context: &ContextId, owner: Caller) {
        let known = self.contexts.entry(context.clone()).or_insert(Known { owner, live: 0, idle: None, left: 0 });
        known.live += 1;
        if owner == Caller::Operator {
            known.owner = owner;
        }
        if let Some(place) = known.idle.take() {
            self.idle.remove(&place);
        }
    }

    /// A task in it has ended. With its last one a context may be forgotten, unless it is the operator's: whoever
    /// names many others must not come by those in which somebody waits, or the operator spoke.
    fn release(&mut self, context: &ContextId) {
        let Some(known) = self.contexts.get_mut(context) else { return };
        known.live = known.live.saturating_sub(1);
        if known.live > 0 || known.owner == Caller::Operator {
            return;
        }
        self.quiet += 1;
        known.idle = Some(self.quiet);
        self.idle.insert(self.quiet, context.clone());
        if self.idle.len() > CONTEXTS_KEPT
            && let Some((_, oldest)) = self.idle.pop_first()
        {
            self.contexts.remove(&oldest);
        }
    }

    /// The bytes of a context's record as this session left it: 0 where it wrote none.
    pub(crate) fn left(&self, context: &ContextId) -> u64 {
        self.contexts.get(context).map_or(0, |known| known.left)
    }

    pub(crate) fn leave(&mut self, context: &ContextId, bytes: u64) {
        if let Some(known) = self.contexts.get_mut(context) {
            known.left = bytes;
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
#[derive(Debug)]
pub(crate) struct RunsAs {
    pub(crate) source: TaskSource,
    pub(crate) traceparent: Option<TraceContext>,
    pub(crate) continues: bool,
    pub(crate) action: Option<String>,
    pub(crate) late: Option<Box<Late>>,
}

/// What there is to say with a state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Said<'a> {
    pub(crate) message: Option<&'a str>,
    pub(crate) response: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use vocab::{ContextId, Origin, TaskId, TaskSource, TaskState, Trust};

    use super::{Board, CONTEXTS_KEPT, ENDED_KEPT, RunsAs, Said, TaskView};
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

    fn comes(board: &mut Board, owner: Caller, context: &ContextId) -> TaskId {
        let view = TaskView { owner, context: context.clone(), state: TaskState::Submitted, ..ended("x") };
        let id = view.id.clone();
        let runs = RunsAs { source: TaskSource::A2a, traceparent: None, continues: true, action: None, late: None };
        board.enter(view, Some(runs));
        id
    }

    fn ends(board: &mut Board, task: &TaskId) {
        board.cancel(task);
        board.set(task, TaskState::Canceled, Said::default(), 0);
    }

    #[test]
    fn however_many_contexts_are_named_those_that_wait_and_the_operators_are_remembered() {
        let mut board = Board::default();
        let [waits, spoke, joined, live, quiet, before] = [(); 6].map(|()| ContextId::new());
        board.take_over(before.clone());
        comes(&mut board, Caller::Operator, &waits);
        let task = comes(&mut board, Caller::Operator, &spoke);
        ends(&mut board, &task);
        let tasks = [Caller::Peer, Caller::Operator].map(|caller| comes(&mut board, caller, &joined));
        tasks.iter().for_each(|task| ends(&mut board, task));
        let tasks = [(); 2].map(|()| comes(&mut board, Caller::Peer, &live));
        ends(&mut board, &tasks[0]);
        let task = comes(&mut board, Caller::Peer, &quiet);
        ends(&mut board, &task);
        for number in 0..=CONTEXTS_KEPT {
            assert_eq!(board.owner_of(&quiet).is_some(), number < CONTEXTS_KEPT, "{number}");
            let task = comes(&mut board, Caller::Peer, &ContextId::new());
            ends(&mut board, &task);
        }
        for (context, owner) in [
            (&waits, Some(Caller::Operator)),
            (&spoke, Some(Caller::Operator)),
            (&joined, Some(Caller::Operator)),
            (&before, Some(Caller::Operator)),
            (&live, Some(Caller::Peer)),
            (&quiet, None),
        ] {
            assert_eq!(board.owner_of(context), owner);
        }
        assert_eq!(board.contexts.len(), CONTEXTS_KEPT + 5);
    }

    #[test]
    fn a_context_that_is_used_again_is_not_the_next_to_be_forgotten() {
        let mut board = Board::default();
        let context = ContextId::new();
        for _ in 0..2 {
            let task = comes(&mut board, Caller::Peer, &context);
            assert!(board.idle.is_empty());
            ends(&mut board, &task);
            assert_eq!(board.idle.values().collect::<Vec<_>>(), [&context]);
        }
        board.enter(TaskView { context: ContextId::new(), ..ended("rejected") }, None);
        assert_eq!(board.contexts.len(), 1, "what is not let in claims nothing");
    }
}
