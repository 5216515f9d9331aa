//! What everybody who watches a session can see: the last frames, numbered through the whole session.
//!
//! There is one buffer and no queue per watcher: each reads from where it is, so a slow one costs the
//! agent and the others nothing, and learns how many frames it missed. The agent wakes one waiter, and
//! that one wakes the watchers: with a thousand of them, that is not the agent's work. While nobody watches
//! it wakes nobody, because a wake-up of another thread costs more than all the rest of a frame.
//!
//! A value that has become secret is taken out of the frames that are kept before the next reader gets any.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use secrets::{Redactor, StreamRedactor};
use serde_json::{Value, json};
use tokio::sync::Notify;
use vocab::{ContextId, Part, TaskId, TaskState};

use crate::SubagentProgress;
use crate::outbox::millis;
use crate::scrub;

/// How many frames are kept.
pub const FRAMES_KEPT: usize = 4096;
/// How many bytes of frames are kept, roughly; the newest frame always is.
const BYTES_KEPT: usize = 64 << 20;

/// What a frame tells.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// Where a task stands.
    Status {
        /// The state.
        state: TaskState,
        /// One sentence, where there is something to say.
        message: Option<String>,
        /// The final reply of a task that has ended.
        response: Option<String>,
    },
    /// A subagent of the task, or one further down, goes on: the task itself works meanwhile.
    Subagent(Box<SubagentProgress>),
    /// A call has its result.
    Artifact(Box<StreamArtifact>),
    /// A piece of the reply; `last` when the turn has no more of it.
    Text {
        /// The piece.
        text: String,
        /// Whether it is the turn's last.
        last: bool,
    },
    /// A piece of the model's reasoning.
    Thinking {
        /// The piece.
        text: String,
        /// Whether it is the turn's last.
        last: bool,
    },
    /// The model began to ask for a tool.
    ToolCallStarted {
        /// The tool's name.
        tool_name: String,
        /// The provider's id of the call.
        tool_call_id: String,
    },
    /// The session is over; nothing comes after it.
    CapsuleClosed,
}

/// A call's result, as the model reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamArtifact {
    /// The tool's name.
    pub tool_name: String,
    /// The provider's id of the call.
    pub tool_call_id: String,
    /// The message's parts.
    pub content: Vec<Part>,
    /// The source under which it is fenced.
    pub fence_source: Option<String>,
    /// Whether the call failed.
    pub is_error: bool,
    /// How long the tool ran; nothing when it never did.
    pub duration: Option<Duration>,
    /// The process's exit status, where a process exited.
    pub exit_code: Option<i32>,
    /// Whether the result shows less than there was.
    pub truncated: bool,
}

/// One frame.
#[derive(Debug)]
pub struct StreamFrame {
    /// Counts from 1 and never repeats within a session.
    pub id: u64,
    /// The task that it is about and its context; nothing for the session's own.
    pub task: Option<(TaskId, ContextId)>,
    /// What it tells.
    pub event: StreamEvent,
    sse: OnceLock<Bytes>,
}

impl StreamFrame {
    /// The frame's name on the stream.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.event {
            StreamEvent::Status { .. } | StreamEvent::Subagent(_) => "status",
            StreamEvent::Artifact(_) => "artifact",
            StreamEvent::Text { .. } => "text",
            StreamEvent::Thinking { .. } => "thinking",
            StreamEvent::ToolCallStarted { .. } => "tool-call-started",
            StreamEvent::CapsuleClosed => "capsule-closed",
        }
    }

    /// The frame as a server-sent event: `id`, `event`, one line of `data`, an empty line. It is made
    /// once, however many read it.
    #[must_use]
    pub fn sse(&self) -> Bytes {
        let make = || Bytes::from(format!("id: {}\nevent: {}\ndata: {}\n\n", self.id, self.name(), self.data()));
        self.sse.get_or_init(make).clone()
    }

    /// The frame's data.
    #[must_use]
    pub fn data(&self) -> Value {
        let id = self.task.as_ref().map(|(task, _)| task.as_str());
        match &self.event {
            StreamEvent::Status { state, message, response } => {
                let mut status = json!({"state": state.as_str()});
                for (key, value) in [("message", message), ("response", response)] {
                    if let (Some(value), Some(status)) = (value, status.as_object_mut()) {
                        status.insert(key.to_owned(), Value::from(value.as_str()));
                    }
                }
                let context = self.task.as_ref().map(|(_, context)| context.as_str());
                json!({"id": id, "context_id": context, "status": status, "final": state.is_final()})
            }
            StreamEvent::Subagent(progress) => {
                let context = self.task.as_ref().map(|(_, context)| context.as_str());
                let status = json!({
                    "state": TaskState::Working.as_str(),
                    "message": progress.to_string(),
                    "subagent": progress.as_ref(),
                });
                json!({"id": id, "context_id": context, "status": status, "final": false})
            }
            StreamEvent::Artifact(artifact) => json!({"id": id, "artifact": artifact.data()}),
            StreamEvent::Text { text, last } | StreamEvent::Thinking { text, last } => {
                json!({"id": id, "text": text, "final": last})
            }
            StreamEvent::ToolCallStarted { tool_name, tool_call_id } => {
                json!({"id": id, "tool_name": tool_name, "tool_call_id": tool_call_id})
            }
            StreamEvent::CapsuleClosed => json!({}),
        }
    }

    /// Roughly what it takes in memory.
    fn weight(&self) -> usize {
        let text = match &self.event {
            StreamEvent::Status { message, response, .. } => {
                [message, response].into_iter().flatten().map(String::len).sum()
            }
            StreamEvent::Subagent(progress) => {
                [&progress.label, &progress.doing].into_iter().flatten().map(String::len).sum()
            }
            StreamEvent::Artifact(artifact) => artifact.content.iter().map(weight).sum(),
            StreamEvent::Text { text, .. } | StreamEvent::Thinking { text, .. } => text.len(),
            StreamEvent::ToolCallStarted { tool_name, tool_call_id } => tool_name.len() + tool_call_id.len(),
            StreamEvent::CapsuleClosed => 0,
        };
        // The text may stand here twice: as it is, and as a server-sent event.
        size_of::<Self>() + 2 * text
    }
}

fn weight(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.as_str().len(),
        Part::Image { data, .. } => data.len(),
        Part::Thinking(_) | Part::ToolCall(_) => 0,
    }
}

impl StreamArtifact {
    /// The text of the result; the texts of all parts, where there are images between them.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Image { .. } | Part::Thinking(_) | Part::ToolCall(_) => None,
        });
        texts.collect()
    }

    fn data(&self) -> Value {
        let has_image = self.content.iter().any(|part| matches!(part, Part::Image { .. }));
        let content =
            if has_image { self.content.iter().filter_map(part_data).collect() } else { Value::String(self.text()) };
        json!({
            "tool_name": self.tool_name,
            "content": content,
            "fence_source": self.fence_source,
            "tool_call_id": self.tool_call_id,
            "is_error": self.is_error,
            "duration_ms": self.duration.map(millis),
            "exit_code": self.exit_code,
            "truncated": self.truncated,
        })
    }
}

fn part_data(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) => Some(json!({"type": "text", "text": text.as_str()})),
        Part::Image { media_type, data } => Some(json!({"type": "image", "media_type": media_type, "data": data})),
        Part::Thinking(_) | Part::ToolCall(_) => None,
    }
}

/// The last frames of a session.
#[derive(Debug)]
pub struct Stream {
    ring: Mutex<Ring>,
    redactor: Redactor,
    published: Notify,
    watchers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Ring {
    frames: VecDeque<Arc<StreamFrame>>,
    last: u64,
    weight: usize,
    /// How many values the frames are known to be free of.
    known: usize,
}

/// One channel of a reply, as its frames are gone through.
struct Channel {
    of: Option<TaskId>,
    redactor: StreamRedactor,
    /// The frame that had its last piece.
    at: usize,
}

impl Ring {
    /// Takes out of the frames what has become secret since this was last called. A value may be spread over the pieces
    /// of a reply, so those are gone through as the one text that they are.
    fn refresh(&mut self, redactor: &Redactor) {
        let known = redactor.known();
        if known == self.known {
            return;
        }
        self.known = known;
        let mut changed: BTreeMap<usize, StreamEvent> = BTreeMap::new();
        let (mut said, mut thought) = (None, None);
        for (at, frame) in self.frames.iter().enumerate() {
            let event = match &frame.event {
                StreamEvent::Text { text, last } => {
                    let clean = self.piece(&mut said, &mut changed, redactor, (at, text, *last));
                    (clean != *text).then(|| StreamEvent::Text { text: clean, last: *last })
                }
                StreamEvent::Thinking { text, last } => {
                    let clean = self.piece(&mut thought, &mut changed, redactor, (at, text, *last));
                    (clean != *text).then(|| StreamEvent::Thinking { text: clean, last: *last })
                }
                event => scrub::event(event, redactor),
            };
            changed.extend(event.map(|event| (at, event)));
        }
        self.close(&mut said, &mut changed);
        self.close(&mut thought, &mut changed);
        for (at, event) in changed {
            // A piece that was held back may have come back whole.
            if let Some(frame) = self.frames.get_mut(at).filter(|frame| frame.event != event) {
                let (id, task) = (frame.id, frame.task.clone());
                *frame = Arc::new(StreamFrame { id, task, event, sse: OnceLock::new() });
            }
        }
        self.weight = self.frames.iter().map(|frame| frame.weight()).sum();
    }

    /// What a piece of a channel is to say.
    fn piece(
        &self,
        open: &mut Option<Channel>,
        changed: &mut BTreeMap<usize, StreamEvent>,
        redactor: &Redactor,
        (at, text, last): (usize, &str, bool),
    ) -> String {
        let of = self.frames.get(at).and_then(|frame| frame.task.as_ref()).map(|(task, _)| task.clone());
        if open.as_ref().is_some_and(|channel| channel.of != of) {
            self.close(open, changed);
        }
        let channel = open.get_or_insert_with(|| Channel { of, redactor: StreamRedactor::new(redactor), at });
        channel.at = at;
        let mut clean = channel.redactor.push(text).into_string();
        if last {
            clean.push_str(channel.redactor.finish().as_str());
            *open = None;
        }
        clean
    }

    /// Gives what a channel holds back to its last piece.
    fn close(&self, open: &mut Option<Channel>, changed: &mut BTreeMap<usize, StreamEvent>) {
        let Some(Channel { mut redactor, at, .. }) = open.take() else { return };
        let rest = redactor.finish();
        let Some(frame) = self.frames.get(at).filter(|_| !rest.as_str().is_empty()) else { return };
        let event = changed.entry(at).or_insert_with(|| frame.event.clone());
        if let StreamEvent::Text { text, .. } | StreamEvent::Thinking { text, .. } = event {
            text.push_str(rest.as_str());
        }
    }
}

/// What a reader finds after the frame that it saw last.
#[derive(Debug)]
pub struct Batch {
    /// How many frames between are not kept any more.
    pub missed: u64,
    /// The next ones, oldest first.
    pub frames: Vec<Arc<StreamFrame>>,
}

impl Stream {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { ring: Mutex::default(), redactor, published: Notify::new(), watchers: AtomicUsize::new(0) }
    }

    pub(crate) fn publish(&self, task: Option<(TaskId, ContextId)>, event: StreamEvent) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.last += 1;
        let frame = StreamFrame { id: ring.last, task, event, sse: OnceLock::new() };
        ring.weight += frame.weight();
        ring.frames.push_back(Arc::new(frame));
        while ring.frames.len() > FRAMES_KEPT || (ring.weight > BYTES_KEPT && ring.frames.len() > 1) {
            let oldest = ring.frames.pop_front();
            ring.weight -= oldest.map_or(0, |frame| frame.weight());
        }
        drop(ring);
        // A watcher is counted before it looks into the ring, so one that is not counted yet finds the frame there.
        if self.watchers.load(Ordering::SeqCst) > 0 {
            self.published.notify_one();
        }
    }

    /// The id of the newest frame; 0 before the first.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).last
    }

    /// The id of the oldest frame that is kept; of the next one, when there is none.
    #[must_use]
    pub fn first_available(&self) -> u64 {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.frames.front().map_or(ring.last + 1, |frame| frame.id)
    }

    /// Up to `limit` frames after the one with this id.
    #[must_use]
    pub fn after(&self, id: u64, limit: usize) -> Batch {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.refresh(&self.redactor);
        let first = ring.frames.front().map_or(ring.last + 1, |frame| frame.id);
        let next = id.saturating_add(1);
        let missed = first.saturating_sub(next);
        let skip = usize::try_from(next.saturating_sub(first)).unwrap_or(usize::MAX);
        let frames = ring.frames.iter().skip(skip).take(limit).cloned().collect();
        Batch { missed, frames }
    }

    /// How often frames may have changed: it goes up when the session learns a secret, and then frames that were read
    /// before may not be told again.
    #[must_use]
    pub fn version(&self) -> usize {
        self.redactor.known()
    }

    /// Counts one who watches; to be called before the first look at [`after`](Self::after).
    pub fn watcher_comes(&self) {
        self.watchers.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one who watched and does not any more.
    pub fn watcher_goes(&self) {
        self.watchers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits until something was published while somebody watched. One waiter alone is woken: the door, on
    /// its own thread.
    pub async fn published(&self) {
        self.published.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use secrets::Redactor;
    use vocab::{ContextId, TaskId};

    use super::{FRAMES_KEPT, Stream, StreamEvent};

    fn ids(stream: &Stream, after: u64, limit: usize) -> (u64, Vec<u64>) {
        let batch = stream.after(after, limit);
        (batch.missed, batch.frames.iter().map(|frame| frame.id).collect())
    }

    #[test]
    fn a_reader_goes_on_after_what_it_saw_and_learns_what_it_missed() {
        let stream = Stream::new(Redactor::new());
        assert_eq!(ids(&stream, 0, 9), (0, vec![]));
        assert_eq!(stream.first_available(), 1);
        let task = (TaskId::new(), ContextId::new());
        let text = |text: &str| StreamEvent::Text { text: text.into(), last: false };
        for number in 0..FRAMES_KEPT + 3 {
            stream.publish(Some(task.clone()), text(&number.to_string()));
        }
        assert_eq!((stream.first_available(), stream.last()), (4, 4099));
        assert_eq!(ids(&stream, 0, 2), (3, vec![4, 5]));
        assert_eq!(ids(&stream, 3, 2), (0, vec![4, 5]));
        assert_eq!(ids(&stream, 4097, 9), (0, vec![4098, 4099]));
        assert_eq!(ids(&stream, 4099, 9), (0, vec![]));
        assert_eq!(ids(&stream, u64::MAX - 1, 9), (0, vec![]));
        let frame = stream.after(4098, 1).frames.remove(0);
        let expected =
            format!("id: 4099\nevent: text\ndata: {{\"id\":\"{}\",\"text\":\"4098\",\"final\":false}}\n\n", task.0);
        assert_eq!(frame.sse(), expected);
    }

    /// The pieces of a reply are gone through as the one text that they are.
    #[test]
    fn what_has_become_secret_is_taken_out_of_what_is_kept() {
        let redactor = Redactor::new();
        let stream = Stream::new(redactor.clone());
        let tasks = [(); 2].map(|()| Some((TaskId::new(), ContextId::new())));
        let text = |text: &str, last| StreamEvent::Text { text: text.into(), last };
        let thinking = |text: &str, last| StreamEvent::Thinking { text: text.into(), last };
        for event in [
            text("a hun", false),
            thinking("hunter2", false),
            text("ter2-hun", false),
            thinking("-hunter2", false),
            text("ter2 b", false),
            text("", true),
            thinking("", true),
            StreamEvent::ToolCallStarted { tool_name: "hunter2-hunter2".into(), tool_call_id: "c".into() },
            text("hunter2-", false),
        ] {
            stream.publish(tasks[0].clone(), event);
        }
        stream.publish(tasks[1].clone(), text("hunter2", true));
        stream.publish(None, StreamEvent::CapsuleClosed);
        let before = stream.after(0, 99).frames;
        let version = stream.version();
        redactor.learn(&secrets::Secret::new("hunter2-hunter2".into()));
        let after = stream.after(0, 99).frames;
        assert_ne!(version, stream.version());
        let expected = [
            text("a ", false),
            thinking("", false),
            text("", false),
            thinking("[redacted]", false),
            text("[redacted] b", false),
            text("", true),
            thinking("", true),
            StreamEvent::ToolCallStarted { tool_name: "[redacted]".into(), tool_call_id: "c".into() },
            text("hunter2-", false),
            text("hunter2", true),
            StreamEvent::CapsuleClosed,
        ];
        assert_eq!(after.iter().map(|frame| frame.event.clone()).collect::<Vec<_>>(), expected);
        let ids =
            |frames: &[std::sync::Arc<super::StreamFrame>]| frames.iter().map(|frame| frame.id).collect::<Vec<_>>();
        assert_eq!(ids(&after), ids(&before));
        // What nothing was taken out of is what it was.
        let same: Vec<bool> =
            before.iter().zip(&after).map(|(one, other)| std::sync::Arc::ptr_eq(one, other)).collect();
        assert_eq!(same.iter().filter(|same| **same).count(), 5, "{same:?}");
    }

    #[test]
    fn frames_that_weigh_too_much_together_are_dropped_from_the_front() {
        let stream = Stream::new(Redactor::new());
        let big = || StreamEvent::Text { text: "x".repeat(12 << 20), last: false };
        for _ in 0..4 {
            stream.publish(None, big());
        }
        assert_eq!(ids(&stream, 0, 9), (2, vec![3, 4]));
        stream.publish(None, StreamEvent::Text { text: "x".repeat(80 << 20), last: true });
        assert_eq!(ids(&stream, 0, 9), (4, vec![5]));
    }
}
