//! One client's stream: where it is in the session's frames, and in which form it reads them.
//!
//! It holds no queue. It takes what there is after the frame that it sent last, when the connection has room
//! for it; a client that is slower than the frames come learns how many it missed. Short lines go out together;
//! a long one is never copied, and one that had to be made for this client alone counts as an answer does. Lines that belong to the
//! connection and not to the session carry no `id:`, so `Last-Event-ID` is always a frame's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use runtime::{Caller, StreamEvent, StreamFrame};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use vocab::{TaskId, TaskState};

use crate::budget::Page;
use crate::excerpt::Excerpts;
use crate::refusal::Refusal;
use crate::shape::{Form, Of, Told, pauses, status_frame};
use crate::site::{Beat, Site};

/// How many frames are looked at in one go.
pub(crate) const FRAMES: usize = 256;
/// A piece is not made longer than this by adding frames to it.
pub(crate) const PIECE: usize = 64 << 10;
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
    /// What goes out before any other frame is looked at.
    ready: VecDeque<Bytes>,
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
            ready: VecDeque::new(),
            heartbeat: heartbeat(site.limits.heartbeat),
            over: false,
            lost: false,
            goes_on: false,
            site: Arc::clone(site),
        }
    }

    /// A line of the connection's own that goes out first.
    pub(crate) fn begin_with(&mut self, name: &str, data: &Value) {
        self.ready.push_back(own(name, data));
    }

    /// An event of A2A that goes out first, if there is room for it.
    pub(crate) fn begin_with_event(&mut self, event: &Told<'_>) -> Result<(), Refusal> {
        let line = self.event(event, None)?;
        self.ready.push_back(line);
        Ok(())
    }

    /// Says that the end of its task may lie before where it begins.
    pub(crate) fn expect_end(&mut self) {
        self.lost = true;
    }

    /// The next piece; nothing when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.take() {
                return Some(piece);
            }
            if self.over {
                return None;
            }
            self.beat.look();
            if let Some(piece) = self.look_with_all() {
                return Some(piece);
            }
            let more = match self.look() {
                Ok(true) => true,
                Ok(false) => self.end_lost().unwrap_or(false),
                // No room for a line: the next beat of either kind is the time to try again.
                Err(_) => false,
            };
            if more || !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                () = self.beat.next() => {}
                _ = self.heartbeat.tick() => return Some(Bytes::from_static(HEARTBEAT)),
            }
        }
    }

    /// The next frames, where they are the same for all.
    fn look_with_all(&mut self) -> Option<Bytes> {
        let watches_all = matches!(self.style, Style::Frames) && self.only.is_none();
        let (upto, piece) =
            watches_all.then(|| self.site.pieces.after(self.site.session.stream(), self.at)).flatten()?;
        self.at = upto;
        Some(piece)
    }

    /// What is ready: a long line as it is, short ones together.
    fn take(&mut self) -> Option<Bytes> {
        let first = self.ready.pop_front()?;
        let fits = |so_far: usize, next: Option<&Bytes>| next.is_some_and(|line| so_far + line.len() <= PIECE);
        if !fits(first.len(), self.ready.front()) {
            return Some(first);
        }
        let mut piece = BytesMut::from(first.as_ref());
        while fits(piece.len(), self.ready.front())
            && let Some(line) = self.ready.pop_front()
        {
            piece.extend_from_slice(&line);
        }
        Some(piece.freeze())
    }

    /// Makes the lines of the next frames ready; whether there were frames at all.
    fn look(&mut self) -> Result<bool, Refusal> {
        let batch = self.site.session.stream().after(self.at, FRAMES);
        if batch.missed > 0 {
            self.at = self.at.saturating_add(batch.missed);
            (self.lost, self.goes_on) = (true, false);
            if matches!(self.style, Style::Frames) {
                self.ready.push_back(own("lagged", &json!({"skipped": batch.missed})));
            }
        }
        let looked = !batch.frames.is_empty();
        let mut size = 0;
        for frame in batch.frames {
            let lines = self.lines(&frame)?;
            self.at = frame.id;
            size += lines.iter().map(Bytes::len).sum::<usize>();
            self.ready.extend(lines);
            if self.over || size > PIECE {
                break;
            }
        }
        Ok(looked)
    }

    fn lines(&mut self, frame: &StreamFrame) -> Result<Vec<Bytes>, Refusal> {
        if frame.event == StreamEvent::CapsuleClosed {
            self.over = true;
            return Ok(if matches!(self.style, Style::Frames) { vec![frame.sse()] } else { Vec::new() });
        }
        let Some((task, context)) = &frame.task else { return Ok(Vec::new()) };
        if self.only.as_ref().is_some_and(|only| only != task) {
            return Ok(Vec::new());
        }
        let form = match &self.style {
            Style::Frames => {
                let ends = matches!(frame.event, StreamEvent::Status { state, .. } if state.is_final());
                self.over = ends && self.only.is_some();
                return Ok(vec![frame.sse()]);
            }
            Style::A2a { form, .. } => *form,
        };
        let events = self.events(form, Of { task: task.as_str(), context: context.as_str() }, &frame.event);
        let last = events.len().saturating_sub(1);
        // Only the last of a frame's events moves the client on.
        let id = |index: usize| (index == last).then_some(frame.id);
        let lines = events.iter().enumerate().map(|(index, event)| self.event(event, id(index)));
        let lines = lines.collect::<Result<Vec<Bytes>, Refusal>>()?;
        // Not before there was room: the frame may have to be told again.
        match &frame.event {
            StreamEvent::Status { state, .. } if *state != TaskState::Submitted => {
                (self.goes_on, self.over) = (false, pauses(*state));
            }
            StreamEvent::Text { last, .. } => self.goes_on = !last,
            _ => {}
        }
        Ok(lines)
    }

    /// What a frame is in the words of A2A; most of what a watcher sees is nothing there.
    fn events<'a>(&self, form: Form, of: Of<'a>, event: &'a StreamEvent) -> Vec<Told<'a>> {
        let cut = &mut Excerpts::whole();
        match event {
            // The task that the stream began with has said so.
            StreamEvent::Status { state: TaskState::Submitted, .. } => Vec::new(),
            StreamEvent::Status { state, message, response } => {
                ending(form, of, *state, (message.as_deref(), response.as_deref()))
            }
            StreamEvent::Text { text, .. } if !text.is_empty() => {
                vec![form.artifact_update(of, form.reply(text, cut), (self.goes_on, false))]
            }
            StreamEvent::Artifact(artifact) if form.wants_tools() => {
                vec![form.artifact_update(of, form.tool(artifact, cut), (false, true))]
            }
            StreamEvent::Artifact(_)
            | StreamEvent::Subagent(_)
            | StreamEvent::Text { .. }
            | StreamEvent::Thinking { .. }
            | StreamEvent::ToolCallStarted { .. }
            | StreamEvent::CapsuleClosed => Vec::new(),
        }
    }

    fn event(&self, event: &Told<'_>, frame: Option<u64>) -> Result<Bytes, Refusal> {
        let mut page = self.page();
        if let Some(frame) = frame {
            page.text(&format!("id: {frame}\n"))?;
        }
        page.text("data: ")?;
        let id = match &self.style {
            Style::A2a { id, .. } => id.as_deref(),
            Style::Frames => None,
        };
        page.answer(id, event)?;
        page.text("\n\n")?;
        Ok(page.finish())
    }

    fn page(&self) -> Page {
        Page::new(self.site.answers.hold(self.caller))
    }

    /// Makes ready how the task ended, if it has and its last frame was among those that were missed.
    fn end_lost(&mut self) -> Result<bool, Refusal> {
        let Some(task) = self.only.as_ref().filter(|_| self.lost) else { return Ok(false) };
        let view = self.site.session.task(self.caller, task).ok().filter(|view| view.state.is_final());
        let Some(view) = view else {
            self.lost = false;
            return Ok(false);
        };
        let lines = match &self.style {
            Style::Frames => {
                let mut page = self.page();
                page.text("event: status\ndata: ")?;
                page.answer(None, &status_frame(task, &view))?;
                page.text("\n\n")?;
                vec![page.finish()]
            }
            Style::A2a { form, .. } => {
                let of = Of { task: task.as_str(), context: view.context.as_str() };
                let events = ending(*form, of, view.state, (view.message.as_deref(), view.response.as_deref()));
                events.iter().map(|event| self.event(event, None)).collect::<Result<Vec<Bytes>, Refusal>>()?
            }
        };
        self.ready.extend(lines);
        (self.lost, self.over) = (false, true);
        Ok(true)
    }
}

/// Where a task stands now, after its reply if it has one.
fn ending<'a>(
    form: Form,
    of: Of<'a>,
    state: TaskState,
    (message, reply): (Option<&'a str>, Option<&'a str>),
) -> Vec<Told<'a>> {
    let artifact = reply.map(|text| form.reply(text, &mut Excerpts::whole()));
    let whole = artifact.map(|artifact| form.artifact_update(of, artifact, (false, true)));
    whole.into_iter().chain([form.status_update(of, state, message)]).collect()
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
