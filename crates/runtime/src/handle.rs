//! A session from outside: hand tasks in, ask for them, cancel them, answer a tool, watch, stop.
//!
//! Who asks decides what is seen and how far a task is trusted; that is decided here and not in the
//! door. A task is on record before whoever sent it learns its id.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::{Body, CallId, ConversationWriter, Error as RecordError, Home, TaskEnd, TaskReceived};
use tokio::sync::{Notify, oneshot};
use vocab::{
    Clock, ContextId, EndStatus, EventId, Origin, SessionId, TaskId, TaskSource, TaskState, TraceContext, Trust,
};

use crate::background::{Heir, Jobs, Late};
use crate::board::{Answer, Board, Canceled, RunsAs, Said, TaskView, Work};
use crate::control::Control;
use crate::lifecycle::{Acceptance, AfterTask, Lifecycle};
use crate::outbox::Outbox;
use crate::stream::{Stream, StreamEvent};
use crate::{Caller, Claim};

/// A task, as somebody hands it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// Its text.
    pub text: String,
    /// The way by which it came.
    pub source: TaskSource,
    /// What the sender says of it.
    pub claim: Option<Claim>,
    /// The conversation that it belongs to; its own when absent.
    pub context: Option<ContextId>,
    /// The trace that it is part of.
    pub traceparent: Option<TraceContext>,
    /// The id that its sender gave the message.
    pub message_id: Option<String>,
    /// What it is for, as a word: `factory` and `commit` may open the commit gate. It counts for a trusted task
    /// alone: nobody opens the gate by saying so.
    pub action: Option<String>,
}

/// Whether a word can name what a task is for: `[A-Za-z0-9_-]{1,64}`.
#[must_use]
pub fn is_action_name(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No such task, as far as this caller may know.
    #[error("there is no task `{0}` in this session")]
    UnknownTask(TaskId),
    /// A conversation that this caller may not go on with.
    #[error("the context `{0}` is not one of this session")]
    UnknownContext(ContextId),
    /// The task has ended.
    #[error("the task `{task}` has ended already: it is {}", state.as_str())]
    Ended {
        /// The task.
        task: TaskId,
        /// How it stands.
        state: TaskState,
    },
    /// The task waits for no answer.
    #[error("the task `{0}` waits for no answer")]
    NotWaiting(TaskId),
    /// A question that an operator's task asks is the operator's to answer.
    #[error("the task `{0}` is the operator's: only the operator's token answers for it")]
    OperatorsTask(TaskId),
    /// This caller may look and do nothing else.
    #[error("this token is for reading alone")]
    ReadOnly,
    /// What was asked cannot be put on record, so it was not done.
    #[error("it cannot be put on record: {0}")]
    Record(#[from] RecordError),
}

/// What a session is, for those who meet it at its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub session: SessionId,
    /// The capsule's name.
    pub name: String,
    /// The capsule's version.
    pub version: String,
    /// What the capsule is for, in its author's words.
    pub description: Option<String>,
    /// Its ways.
    pub lifecycle: Lifecycle,
}

/// What the session and its handles share.
pub(crate) struct Shared {
    pub(crate) info: SessionInfo,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) control: Arc<Control>,
    pub(crate) home: Home,
    pub(crate) clock: Arc<dyn Clock>,
    /// The line under which tasks are filed.
    pub(crate) start: EventId,
    pub(crate) board: Mutex<Board>,
    /// Wakes the session when there is something to do.
    pub(crate) wake: Arc<Notify>,
    /// Its commands that go on in the background.
    pub(crate) jobs: Arc<Jobs>,
}

/// A session from outside.
#[derive(Clone)]
pub struct SessionHandle(pub(crate) Arc<Shared>);

impl SessionHandle {
    /// What the session is.
    #[must_use]
    pub fn info(&self) -> &SessionInfo {
        &self.0.info
    }

    /// What is seen of it.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.0.outbox.stream()
    }

    /// What can be changed of it; nothing where the capsule declares nothing for a controller to change.
    #[must_use]
    pub fn control(&self) -> Option<&Control> {
        Some(&*self.0.control).filter(|control| control.is_declared())
    }

    /// `idle`, `working` or `ending`.
    #[must_use]
    pub fn status(&self) -> &'static str {
        let board = self.0.board();
        match (board.is_closed(), board.active()) {
            (true, _) => "ending",
            (false, Some(_)) => "working",
            (false, None) => "idle",
        }
    }

    /// Hands a task in. One that does not fit comes back `rejected`, with the reason as its message.
    ///
    /// # Errors
    /// [`RequestError::UnknownContext`], [`RequestError::ReadOnly`], [`RequestError::Record`].
    pub fn submit(&self, caller: Caller, new: NewTask) -> Result<TaskView, RequestError> {
        if caller == Caller::Diagnostics {
            return Err(RequestError::ReadOnly);
        }
        self.0.submit(caller, new)
    }

    /// How a task stands.
    ///
    /// # Errors
    /// [`RequestError::UnknownTask`].
    pub fn task(&self, caller: Caller, task: &TaskId) -> Result<TaskView, RequestError> {
        let board = self.0.board();
        let view = board.view(task).filter(|view| caller.sees(view.owner));
        view.cloned().ok_or_else(|| RequestError::UnknownTask(task.clone()))
    }

    /// The tasks that this caller may know of and `wanted` picks, newest first.
    #[must_use]
    pub fn tasks(&self, caller: Caller, wanted: impl Fn(&TaskView) -> bool) -> Vec<TaskView> {
        let board = self.0.board();
        board.views().filter(|view| caller.sees(view.owner) && wanted(view)).cloned().collect()
    }

    /// Cancels a task. One that runs ends a little later: its stream tells.
    ///
    /// # Errors
    /// [`RequestError::UnknownTask`], [`RequestError::Ended`], [`RequestError::ReadOnly`],
    /// [`RequestError::Record`].
    pub fn cancel(&self, caller: Caller, task: &TaskId) -> Result<TaskView, RequestError> {
        self.task(caller, task)?;
        if caller == Caller::Diagnostics {
            return Err(RequestError::ReadOnly);
        }
        let mut board = self.0.board();
        match board.cancel(task) {
            None => return Err(RequestError::UnknownTask(task.clone())),
            Some(Canceled::Ended(state)) => return Err(RequestError::Ended { task: task.clone(), state }),
            Some(Canceled::Running) => {}
            Some(Canceled::Waiting) => {
                self.0.never_ran(&mut board, task, EndStatus::Canceled, "the task was canceled before it began")?;
            }
        }
        drop(board);
        self.task(caller, task)
    }

    /// Answers a tool that asked.
    ///
    /// # Errors
    /// [`RequestError::UnknownTask`], [`RequestError::Ended`], [`RequestError::NotWaiting`],
    /// [`RequestError::OperatorsTask`], [`RequestError::ReadOnly`].
    pub fn answer(
        &self,
        caller: Caller,
        claim: Option<Claim>,
        task: &TaskId,
        text: String,
    ) -> Result<TaskView, RequestError> {
        let view = self.task(caller, task)?;
        if caller == Caller::Diagnostics {
            return Err(RequestError::ReadOnly);
        }
        if view.state.is_final() {
            return Err(RequestError::Ended { task: task.clone(), state: view.state });
        }
        if view.owner == Caller::Operator && caller != Caller::Operator {
            return Err(RequestError::OperatorsTask(task.clone()));
        }
        let (_, trust) = caller.derive(claim);
        let mut board = self.0.board();
        let question = board.question(task).ok_or_else(|| RequestError::NotWaiting(task.clone()))?;
        // Before the tool has the answer: what it does next may end the task.
        self.0.state_of(&mut board, task, TaskState::Working, Said::default());
        // The tool may have stopped waiting in this instant.
        question.send(Answer { text, trust }).map_err(|_| RequestError::NotWaiting(task.clone()))?;
        drop(board);
        self.task(caller, task)
    }

    /// Tells the session to end: what runs is stopped, what waits is rejected. Gives whether it was the
    /// first to say so.
    pub fn stop(&self) -> bool {
        let first = !self.0.board().is_closed();
        self.0.close("the session ended before the task began");
        self.0.wake.notify_one();
        first
    }
}

impl Shared {
    pub(crate) fn board(&self) -> MutexGuard<'_, Board> {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board.refresh(self.outbox.redactor());
        board
    }

    pub(crate) fn submit(&self, caller: Caller, new: NewTask) -> Result<TaskView, RequestError> {
        let (origin, trust) = caller.derive(new.claim);
        let board = self.board();
        let (context, known) = self.context(&board, caller, new.context)?;
        // An operator who names a conversation at the start means to go on with it.
        let continues = known && (self.info.lifecycle.threaded || new.source == TaskSource::Cli);
        let bytes = u64::try_from(new.text.len()).unwrap_or(u64::MAX);
        let view = TaskView {
            message_id: new.message_id.map(|id| self.outbox.redactor().redact(&id).as_str().into()),
            text: self.outbox.redactor().redact_owned(new.text).into_string().into(),
            ..self.view((TaskId::new(), context), (origin, trust), caller)
        };
        let action = new.action.filter(|_| trust == Trust::Trusted);
        let (source, traceparent) = (new.source, new.traceparent);
        let runs = RunsAs { source, traceparent, continues, action, late: None };
        Ok(self.enter(board, view, runs, bytes)?)
    }

    /// Hands in the task that tells of a command. It is whose task started the command, and of its class.
    pub(crate) fn complete(&self, heir: Heir, late: Late) -> Result<TaskView, RecordError> {
        let Heir { id, context, owner, trust, action } = heir;
        let text: Arc<str> = late.text().into();
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        // The runtime itself sends it, on behalf of the task that started the command.
        let claim = Claim { origin: Origin::Completion, trust: Some(trust) };
        let sent = Caller::Operator.derive(Some(claim));
        let view = TaskView { text, ..self.view((id, context), sent, owner) };
        let continues = self.info.lifecycle.threaded;
        let late = Some(Box::new(late));
        let runs = RunsAs { source: TaskSource::Runtime, traceparent: None, continues, action, late };
        self.enter(self.board(), view, runs, bytes)
    }

    fn view(&self, (id, context): (TaskId, ContextId), (origin, trust): (Origin, Trust), owner: Caller) -> TaskView {
        let now = self.clock.now_ms();
        TaskView {
            id,
            context,
            state: TaskState::Submitted,
            message: None,
            response: None,
            message_id: None,
            text: "".into(),
            origin,
            trust,
            owner,
            created_ms: now,
            updated_ms: now,
        }
    }

    /// Puts a task on record and on the board, if it is let in.
    fn enter(
        &self,
        mut board: MutexGuard<'_, Board>,
        view: TaskView,
        runs: RunsAs,
        bytes: u64,
    ) -> Result<TaskView, RecordError> {
        let lane = view.origin.lane();
        let refusal = board.admits(&self.info.lifecycle, runs.source, lane).err();
        let from = runs.late.as_ref().map(|late| &late.from);
        let received = TaskReceived {
            task_id: &view.id,
            context_id: &view.context,
            source: runs.source,
            origin: view.origin,
            trust: view.trust,
            lane,
            bytes,
            from_task_id: from.map(|from| &from.task),
            from_tool_call_id: from.map(|from| CallId(&from.call)),
        };
        // The board stays locked meanwhile: what is told to be there is on record.
        self.outbox.event(Some(&self.start), received)?;
        let id = view.id.clone();
        board.enter(view.clone(), refusal.is_none().then_some(runs));
        self.outbox.stream().publish(Some((id.clone(), view.context.clone())), submitted());
        if let Some(reason) = refusal {
            self.never_ran(&mut board, &id, EndStatus::Rejected, &reason)?;
        }
        let view = board.view(&id).cloned().unwrap_or(view);
        drop(board);
        self.wake.notify_one();
        Ok(view)
    }

    /// Whose a task is, and its class; of one that is not known any more, nobody's.
    pub(crate) fn sender(&self, task: &TaskId) -> (Caller, Trust) {
        let board = self.board();
        board.view(task).map_or((Caller::Anonymous, Trust::Untrusted), |view| (view.owner, view.trust))
    }

    /// The conversation of a new task, and whether it was named. One that lies in the home
    /// and was not named in this session may hold somebody else's words: only the operator takes it up.
    fn context(
        &self,
        board: &Board,
        caller: Caller,
        wanted: Option<ContextId>,
    ) -> Result<(ContextId, bool), RequestError> {
        let Some(context) = wanted else { return Ok((ContextId::new(), false)) };
        let allowed = match board.owner_of(&context) {
            Some(owner) => caller.sees(owner),
            None => caller == Caller::Operator || !self.home.conversation_path(&context).exists(),
        };
        if !allowed {
            return Err(RequestError::UnknownContext(context));
        }
        Ok((context, true))
    }

    /// Moves a task to another state and tells those who watch.
    pub(crate) fn state(&self, task: &TaskId, state: TaskState, said: Said<'_>) {
        self.state_of(&mut self.board(), task, state, said);
    }

    fn state_of(&self, board: &mut Board, task: &TaskId, state: TaskState, said: Said<'_>) {
        let Some(context) = board.view(task).map(|view| view.context.clone()) else { return };
        board.set(task, state, said, self.clock.now_ms());
        let (message, response) = (said.message.map(str::to_owned), said.response.map(str::to_owned));
        let event = StreamEvent::Status { state, message, response };
        self.outbox.stream().publish(Some((task.clone(), context)), event);
    }

    /// Waits for an answer to a tool's question.
    pub(crate) fn ask(&self, task: &TaskId, prompt: &str) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let mut board = self.board();
        board.ask(task, sender);
        let said = Said { message: Some(prompt), response: None };
        self.state_of(&mut board, task, TaskState::InputRequired, said);
        receiver
    }

    /// Ends a task that never ran.
    fn never_ran(&self, board: &mut Board, task: &TaskId, status: EndStatus, why: &str) -> Result<(), RecordError> {
        // Nothing else keeps what was asked for.
        let text = board.view(task).map(|view| Arc::clone(&view.text));
        let line = TaskEnd { text: text.as_deref().map(Body::Text), ..unrun(task, status, None, why) };
        let written = self.outbox.event(Some(&self.start), line).map(drop);
        self.state_of(board, task, status.into(), Said { message: Some(why), response: None });
        written
    }

    /// The next task; nothing when the session is to end. One whose conversation became the operator's while it
    /// waited would read what the operator said there, so it is rejected instead.
    pub(crate) async fn next(&self, tasks_done: u32) -> Result<Option<Work>, RecordError> {
        loop {
            let notified = self.wake.notified();
            {
                let mut board = self.board();
                if board.is_closed() {
                    return Ok(None);
                }
                if let Some(work) = board.next() {
                    if board.may_start(&work) {
                        return Ok(Some(work));
                    }
                    let why = "the operator took over the conversation before the task began";
                    self.never_ran(&mut board, &work.task, EndStatus::Rejected, why)?;
                    continue;
                }
                let over = tasks_done > 0 && self.info.lifecycle.after_task == AfterTask::Exit;
                let idle_for_ever = self.info.lifecycle.acceptance == Acceptance::None;
                // What goes on in the background brings a task yet.
                if (over || idle_for_ever) && self.jobs.is_empty() {
                    board.close();
                    return Ok(None);
                }
            }
            notified.await;
        }
    }

    /// Whether the record that a task goes on with, once it is open, holds what this session did not put there. Another
    /// session of this home may have gone on with the conversation meanwhile, and only an operator may read that.
    pub(crate) fn is_foreign(&self, work: &Work, writer: &ConversationWriter) -> bool {
        let board = self.board();
        let sender = board.view(&work.task).map(|view| view.owner);
        sender != Some(Caller::Operator) && work.continues && bytes_of(writer.path()) != Some(board.left(&work.context))
    }

    /// Rejects a task that was about to run.
    pub(crate) fn turn_away(&self, task: &TaskId) -> Result<(), RecordError> {
        let why = "the conversation went on in another session before the task began";
        self.never_ran(&mut self.board(), task, EndStatus::Rejected, why)
    }

    /// Notes how a task left its conversation's record, while it still holds it.
    pub(crate) fn leave(&self, context: &ContextId) {
        // A size that cannot be told is one that no record has: then only the operator goes on.
        let bytes = bytes_of(&self.home.conversation_path(context)).unwrap_or(u64::MAX);
        self.board().leave(context, bytes);
    }

    /// Takes no more tasks, rejects those that wait and interrupts the one that runs.
    pub(crate) fn close(&self, why: &str) {
        let mut board = self.board();
        for work in board.close() {
            // The trace may be what failed; whoever waits for the task learns its end all the same.
            let _ = self.never_ran(&mut board, &work.task, EndStatus::Rejected, why);
        }
        board.interrupt();
    }

    /// The session is over, also for a task that its record could not follow to the end.
    pub(crate) fn closed(&self, why: Option<&str>) {
        self.close("the session ended before the task began");
        let mut board = self.board();
        if let Some(task) = board.active().cloned() {
            let said = Said { message: Some(why.unwrap_or("the session ended")), response: None };
            self.state_of(&mut board, &task, TaskState::Failed, said);
        }
        self.outbox.stream().publish(None, StreamEvent::CapsuleClosed);
    }

    /// How long a tool's question waits.
    pub(crate) fn patience(&self) -> Duration {
        self.info.lifecycle.input_timeout
    }
}

fn bytes_of(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|metadata| metadata.len())
}

/// The last line of a task that took no turn.
pub(crate) fn unrun<'a>(
    task_id: &'a TaskId,
    status: EndStatus,
    error_code: Option<&'a str>,
    why: &'a str,
) -> TaskEnd<'a> {
    TaskEnd {
        task_id,
        status,
        error_code,
        error: Some(why),
        reply: None,
        text: None,
        turns: 0,
        tool_calls: 0,
        input_tokens: 0,
        output_tokens: 0,
        duration_ms: 0,
    }
}

fn submitted() -> StreamEvent {
    StreamEvent::Status { state: TaskState::Submitted, message: None, response: None }
}
