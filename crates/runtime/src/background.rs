//! Commands that go on after their call has its result, and the tasks that tell of their ends.
//!
//! A command holds one of a few places from when it goes on until the task that tells of it begins, so that neither
//! processes nor results that wait can pile up; where there is no place, a command is waited for as ever. It is a part of the
//! task that started it: a cancel of that task ends it. When the task has ended, the command goes on, and it
//! ends with the session at the latest. One that was ended so is on record and brings no task.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fence::{ModelText, RuntimeWords, Source};
use policy::{
    Cancel, Canceler, Completed, Detached, ProtectedValues, RawResult, Rest, Shown, TaskIdentity, cancel_pair,
};
use record::Error as RecordError;
use secrets::Redactor;
use tokio::sync::Notify;
use vocab::{ContextId, Message, Part, StateEffect, TaskId, ToolCall, Trust};

use crate::dispatch::Desk;
use crate::handle::Shared;
use crate::outbox::{Ending, Place};
use crate::{Caller, scrub};

/// How many commands of a session may be in the background, those counted that have ended and of which no task has told yet.
const AT_ONCE: usize = 8;

/// The places of a session.
#[derive(Debug)]
pub(crate) struct Jobs {
    state: Mutex<State>,
    /// A command has ended, or a place is free.
    changed: Notify,
    /// Wakes the session, which may wait for the last of them.
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    last: u32,
    taken: BTreeMap<u32, Job>,
}

#[derive(Debug)]
struct Job {
    task: TaskId,
    /// As long as it runs and nothing tells of its end.
    running: Option<Canceler>,
    canceled: bool,
}

/// A place. It is free when this is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    jobs: Arc<Jobs>,
    number: u32,
}

impl Jobs {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Notify::new(), wake: Arc::default() })
    }

    /// What wakes the session.
    pub(crate) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// A place for a command of this task, if there is one, and what tells the command to stop.
    fn admit(self: &Arc<Self>, task: &TaskId) -> Option<(Slot, Cancel)> {
        let mut state = self.lock();
        if state.taken.len() >= AT_ONCE {
            return None;
        }
        let (canceler, cancel) = cancel_pair();
        state.last += 1;
        let number = state.last;
        state.taken.insert(number, Job { task: task.clone(), running: Some(canceler), canceled: false });
        Some((Slot { jobs: Arc::clone(self), number }, cancel))
    }

    /// Whether all has ended and has been told.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().taken.is_empty()
    }

    /// Ends what runs of this task, or of all, and waits for the end.
    pub(crate) async fn stop(&self, task: Option<&TaskId>) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let mut runs = false;
            for job in self.lock().taken.values_mut().filter(|job| task.is_none_or(|task| *task == job.task)) {
                if let Some(canceler) = &job.running {
                    canceler.cancel();
                    (job.canceled, runs) = (true, true);
                }
            }
            if !runs {
                return;
            }
            changed.await;
        }
    }

    fn is_canceled(&self, number: u32) -> bool {
        self.lock().taken.get(&number).is_some_and(|job| job.canceled)
    }

    /// It has ended, and that is told.
    fn told(&self, number: u32) {
        if let Some(job) = self.lock().taken.get_mut(&number) {
            job.running = None;
        }
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.jobs.lock().taken.remove(&self.number);
        self.jobs.changed.notify_waiters();
        self.jobs.wake.notify_one();
    }
}

/// The call whose command a task tells of.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    pub(crate) task: TaskId,
    pub(crate) call: String,
}

/// What a task tells of a command that has ended.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) from: Cause,
    pub(crate) tool: String,
    /// The runtime's own words.
    pub(crate) words: ModelText,
    /// The result.
    pub(crate) shown: Shown,
    pub(crate) duration: Duration,
    /// What of it stands behind handles is the new task's.
    pub(crate) values: ProtectedValues,
    /// Free when the task begins.
    pub(crate) slot: Slot,
}

impl Late {
    /// The task's message, without what has become secret since.
    pub(crate) fn message(&self, redactor: &Redactor) -> Message {
        let mut message = Message::user(self.words.clone());
        message.content.extend(self.shown.parts.iter().cloned());
        scrub::history(std::slice::from_mut(&mut message), redactor);
        message
    }

    /// The same as one text.
    pub(crate) fn text(&self) -> String {
        let mut text = self.words.as_str().to_owned();
        for part in &self.shown.parts {
            if let Part::Text(piece) = part {
                text.push_str(piece.as_str());
            }
        }
        text
    }
}

/// What a task that tells of a command has of the one that started it.
pub(crate) struct Heir {
    pub(crate) id: TaskId,
    pub(crate) context: ContextId,
    pub(crate) owner: Caller,
    pub(crate) trust: Trust,
    pub(crate) action: Option<String>,
}

/// What becomes of a call whose command has not ended.
pub(crate) enum Way {
    /// It goes on; this is the call's result.
    On(Message),
    /// There is no place, or no time any more: it was waited for.
    Waited(RawResult, Duration),
}

/// Gives a call its result while its command goes on, or waits for that.
pub(crate) async fn detach(
    desk: Desk<'_>,
    (place, call): (&Place, &ToolCall),
    detached: Detached,
    (effect, duration): (StateEffect, Duration),
    cancel: &Cancel,
) -> Result<Way, RecordError> {
    let Detached { so_far, rest } = detached;
    let began = Instant::now();
    let Some((slot, told)) = desk.shared.jobs.admit(&place.task).filter(|_| !cancel.is_canceled()) else {
        let result = follow(rest, cancel.clone()).await.result;
        return Ok(Way::Waited(result, duration.saturating_add(began.elapsed())));
    };
    let note = RuntimeWords::new("The command has not ended. It goes on in the background as job ")
        .number(slot.number)
        .text(", and its end comes as a task of its own.");
    let shown = so_far.protect(desk.policy.values()).with_note(note).redact(desk.shared.outbox.redactor());
    let shown = shown.fence(&Source::tool(&call.name));
    let (message, line) =
        desk.shared.outbox.told(place, call, shown, &Ending::Ran { effect, skill: false, duration })?;
    let shared = Arc::clone(desk.shared);
    let (owner, trust) = shared.sender(&place.task);
    let context = if shared.info.lifecycle.threaded { place.context.clone() } else { ContextId::new() };
    let heir = Heir { id: TaskId::new(), context, owner, trust, action: desk.action.map(str::to_owned) };
    let going =
        Going { place: Place { parent: line, ..place.clone() }, call: call.clone(), heir, slot, began, duration };
    tokio::spawn(async move { going.follow(&shared, rest, told).await });
    Ok(Way::On(message))
}

/// A tool that panics costs its own command a result and nothing else.
async fn follow(rest: Box<dyn Rest>, cancel: Cancel) -> Completed {
    tokio::spawn(rest.finish(cancel)).await.unwrap_or_else(|_| Completed {
        how: RuntimeWords::new("an internal fault of its tool"),
        command: String::new(),
        result: RawResult::error("the tool stopped on an internal fault; what it had done up to then may stand"),
    })
}

/// A command on its way.
struct Going {
    place: Place,
    call: ToolCall,
    heir: Heir,
    slot: Slot,
    began: Instant,
    /// How long it ran before it went on.
    duration: Duration,
}

impl Going {
    /// Waits for its end and tells of it. What cannot be put on record is not told; the session finds that out itself.
    async fn follow(self, shared: &Shared, rest: Box<dyn Rest>, cancel: Cancel) {
        let Completed { how, command, result } = follow(rest, cancel).await;
        let Self { place, call, heir, slot, began, duration } = self;
        let (jobs, number) = (Arc::clone(&slot.jobs), slot.number);
        let duration = duration.saturating_add(began.elapsed());
        let identity = TaskIdentity {
            session: shared.info.session.to_string(),
            context: heir.context.to_string(),
            task: heir.id.to_string(),
        };
        let values = ProtectedValues::new(identity, shared.outbox.redactor().clone());
        let result = if command.is_empty() { result } else { result.headed(format!("command: {command}\n")) };
        let shown = result.protect(&values).redact(shared.outbox.redactor()).fence(&Source::tool(&call.name));
        let ended = shared.outbox.process_ended(&place, &call, &shown.facts, duration);
        if ended.is_ok() && !jobs.is_canceled(number) {
            let words = RuntimeWords::new("A command that went on in the background has ended: job ")
                .number(number)
                .text(", started by the call `")
                .echo(&call.id)
                .text("` of `")
                .echo(&call.name)
                .text("` in the task ")
                .echo(place.task.as_str())
                .text(". It came to: ")
                .echo(how.as_str())
                .text(". What it wrote:\n");
            let from = Cause { task: place.task, call: call.id };
            let words = ModelText::runtime(words);
            let late = Late { from, tool: call.name, words, shown, duration, values, slot };
            let _ = shared.complete(heir, late);
        }
        jobs.told(number);
    }
}
