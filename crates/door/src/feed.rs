//! One client's stream: where it is in the session's frames, and in which form it reads them.
//!
//! It holds no queue. It takes what there is after the frame that it sent last, when the connection has room
//! for it; a client that is slower than the frames come learns how many it missed. Lines that belong to the
//! connection and not to the session carry no `id:`, so `Last-Event-ID` is always a frame's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use runtime::{Caller, StreamEvent, StreamFrame};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use vocab::TaskId;

use crate::shape::{Form, Of, pauses, status_frame};
use crate::site::{Beat, Site};

/// How many frames are looked at in one go.
const FRAMES: usize = 256;
/// A piece is not made longer than this by adding frames to it.
const PIECE: usize = 64 << 10;
/// What a quiet stream shows.
pub(crate) const HEARTBEAT: &[u8] = b":heartbeat\n\n";

/// In which form a stream tells what happened.
pub(crate) enum Style {
    /// Our own frames.
    Frames,
    /// Events of A2A: in a JSON-RPC answer with this id (as JSON), or bare.
    A2a { form: Form, id: Option<Arc<str>> },
}

/// One client's stream.
pub(crate) struct Feed {
    site: Arc<Site>,
    caller: Caller,
    style: Style,
    /// The one task that it is about.
    only: Option<TaskId>,
    beat: Beat,
    /// The frame that was sent last.
    at: u64,
    /// What goes out before any frame.
    first: Bytes,
    heartbeat: Interval,
    over: bool,
    /// Whether the task's end may be among frames that do not come.
    lost: bool,
    /// Whether the next piece of the reply goes on from the one before.
    goes_on: bool,
}

impl Feed {
    /// Frames after `at`. `only` is a task that the caller may see.
    pub(crate) fn new(site: &Arc<Site>, caller: Caller, style: Style, (only, at): (Option<TaskId>, u64)) -> Self {
        Self {
            caller,
            style,
            only,
            beat: Beat::of(site),
            at,
            first: Bytes::new(),
            heartbeat: heartbeat(site.limits.heartbeat),
            over: false,
            lost: false,
            goes_on: false,
            site: Arc::clone(site),
        }
    }

    /// A line of the connection's own that goes out first.
    pub(crate) fn begin_with(&mut self, name: &str, data: &Value) {
        let line = own(name, data);
        self.begin(&line);
    }

    /// An event of A2A that goes out first.
    pub(crate) fn begin_with_event(&mut self, event: &Value) {
        let line = self.event(event, None);
        self.begin(&line);
    }

    /// Says that the end of its task may lie before where it begins.
    pub(crate) fn expect_end(&mut self) {
        self.lost = true;
    }

    fn begin(&mut self, line: &[u8]) {
        let mut first = BytesMut::from(self.first.as_ref());
        first.extend_from_slice(line);
        self.first = first.freeze();
    }

    /// The next piece; nothing when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        while !self.over {
            self.beat.look();
            let (piece, looked) = self.piece();
            if let Some(piece) = piece {
                return Some(piece);
            }
            if looked {
                continue;
            }
            if self.lost && self.only.is_some() {
                self.lost = false;
                if let Some(end) = self.lost_end() {
                    return Some(end);
                }
            }
            tokio::select! {
                more = self.beat.next() => if !more { return None },
                _ = self.heartbeat.tick() => return Some(Bytes::from_static(HEARTBEAT)),
            }
        }
        None
    }

    /// What there is to send now, and whether there were frames at all.
    fn piece(&mut self) -> (Option<Bytes>, bool) {
        let batch = self.site.session.stream().after(self.at, FRAMES);
        let mut lines = VecDeque::new();
        if batch.missed > 0 {
            self.at = self.at.saturating_add(batch.missed);
            (self.lost, self.goes_on) = (true, false);
            if matches!(self.style, Style::Frames) {
                lines.push_back(own("lagged", &json!({"skipped": batch.missed})));
            }
        }
        let looked = !batch.frames.is_empty();
        let mut size = 0;
        for frame in batch.frames {
            self.at = frame.id;
            for line in self.lines(&frame) {
                size += line.len();
                lines.push_back(line);
            }
            if self.over || size > PIECE {
                break;
            }
        }
        let piece = match lines.pop_front() {
            Some(only) if lines.is_empty() => Some(only),
            Some(first) => {
                let mut piece = BytesMut::with_capacity(size);
                piece.extend_from_slice(&first);
                lines.iter().for_each(|line| piece.extend_from_slice(line));
                Some(piece.freeze())
            }
            None => None,
        };
        (piece, looked)
    }

    fn lines(&mut self, frame: &StreamFrame) -> Vec<Bytes> {
        if frame.event == StreamEvent::CapsuleClosed {
            self.over = true;
            return if matches!(self.style, Style::Frames) { vec![frame.sse()] } else { Vec::new() };
        }
        let Some((task, context)) = &frame.task else { return Vec::new() };
        if self.only.as_ref().is_some_and(|only| only != task) {
            return Vec::new();
        }
        match &self.style {
            Style::Frames => {
                let ends = matches!(frame.event, StreamEvent::Status { state, .. } if state.is_final());
                self.over = ends && self.only.is_some();
                vec![frame.sse()]
            }
            Style::A2a { form, .. } => {
                let of = Of { task: task.as_str(), context: context.as_str() };
                let events = self.events(*form, of, &frame.event);
                let last = events.len().saturating_sub(1);
                // Only the last of a frame's events moves the client on.
                let id = |index: usize| (index == last).then_some(frame.id);
                events.iter().enumerate().map(|(index, event)| self.event(event, id(index))).collect()
            }
        }
    }

    /// What a frame is in the words of A2A; most of what a watcher sees is nothing there.
    fn events(&mut self, form: Form, of: Of<'_>, event: &StreamEvent) -> Vec<Value> {
        match event {
            // The task that the stream began with has said so.
            StreamEvent::Status { state: vocab::TaskState::Submitted, .. } => Vec::new(),
            StreamEvent::Status { state, message, response } => {
                self.goes_on = false;
                self.over = pauses(*state);
                let whole = response.as_deref().map(|text| form.artifact_update(of, form.reply(text), (false, true)));
                whole.into_iter().chain([form.status_update(of, *state, message.as_deref())]).collect()
            }
            StreamEvent::Text { text, last } => {
                let append = std::mem::replace(&mut self.goes_on, !last);
                if text.is_empty() {
                    return Vec::new();
                }
                vec![form.artifact_update(of, form.reply(text), (append, false))]
            }
            StreamEvent::Artifact(artifact) if form.wants_tools() => {
                vec![form.artifact_update(of, form.tool(artifact), (false, true))]
            }
            StreamEvent::Artifact(_)
            | StreamEvent::Thinking { .. }
            | StreamEvent::ToolCallStarted { .. }
            | StreamEvent::CapsuleClosed => Vec::new(),
        }
    }

    fn event(&self, event: &Value, frame: Option<u64>) -> Bytes {
        let mut line = String::new();
        if let Some(frame) = frame {
            line = format!("id: {frame}\n");
        }
        match &self.style {
            Style::A2a { id: Some(id), .. } => {
                line.push_str(&format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{event}}}\n\n"));
            }
            Style::A2a { id: None, .. } | Style::Frames => line.push_str(&format!("data: {event}\n\n")),
        }
        Bytes::from(line)
    }

    /// How the task ended, if it has and its last frame was among those that were missed.
    fn lost_end(&mut self) -> Option<Bytes> {
        let task = self.only.as_ref()?;
        let view = self.site.session.task(self.caller, task).ok().filter(|view| view.state.is_final())?;
        self.over = true;
        match &self.style {
            Style::Frames => Some(own("status", &status_frame(task, &view))),
            Style::A2a { form, .. } => {
                let of = Of { task: task.as_str(), context: view.context.as_str() };
                let reply = view.response.as_deref();
                let whole = reply.map(|text| form.artifact_update(of, form.reply(text), (false, true)));
                let status = form.status_update(of, view.state, view.message.as_deref());
                let lines = whole.into_iter().chain([status]).map(|event| self.event(&event, None));
                Some(Bytes::from(lines.fold(BytesMut::new(), |mut piece, line| {
                    piece.extend_from_slice(&line);
                    piece
                })))
            }
        }
    }
}

/// A line of the connection's own: without an id.
pub(crate) fn own(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

pub(crate) fn heartbeat(every: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + every, every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Where a client that was here before goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resumed {
    /// The frame that it is taken to have seen last.
    pub(crate) at: u64,
    /// The first frame that there is, when it missed some for good or counts another session's.
    pub(crate) gap: Option<u64>,
}

/// Reads `Last-Event-ID`. What is no number counts like one of another session: everything that is there
/// comes.
pub(crate) fn resume(site: &Site, last_event_id: &str) -> Resumed {
    let (stream, seen) = (site.session.stream(), last_event_id.trim().parse::<u64>());
    let (first, last) = (stream.first_available(), stream.last());
    match seen {
        Ok(seen) if seen <= last && seen.saturating_add(1) >= first => Resumed { at: seen, gap: None },
        _ => Resumed { at: first.saturating_sub(1), gap: Some(first) },
    }
}
