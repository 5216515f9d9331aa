//! The one writer of a trace.
//!
//! It mints the ids and links each line to the one before, so a caller can neither forget the envelope
//! nor break the chain. A line that could not be written stops the writer: [`TraceWriter::retry`]
//! offers that very line again, and nothing can pass it.

use std::path::Path;
use std::sync::Arc;

use secrets::Redactor;
use vocab::{Clock, EventId, SessionId};

use super::chain::{Chain, PREV};
use super::seal;
use crate::append::AppendFile;
use crate::event::{Capture, Event, SessionEnd};
use crate::line::{Buffers, Line};
use crate::lines::{Lines, Next};
use crate::{Digest, Error, TraceKey};

/// What a trace is written with.
#[derive(Clone)]
pub struct TraceOptions {
    /// Whose trace it is.
    pub session: SessionId,
    /// What is kept of bodies.
    pub capture: Capture,
    /// What every text passes.
    pub redactor: Redactor,
    /// Where timestamps come from.
    pub clock: Arc<dyn Clock>,
}

/// What was found when a trace was opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Continued {
    /// Whole lines in the file.
    pub lines: u64,
    /// Bytes of an unfinished last line that were cut off.
    pub cut_bytes: u64,
}

/// Writes one session's trace.
pub struct TraceWriter {
    file: AppendFile,
    options: TraceOptions,
    buffers: Buffers,
    /// The id of the first line.
    root: Option<EventId>,
    prev: Option<Digest>,
    lines: u64,
    /// The line that could not be written; it still stands in the buffer.
    pending: Option<Pending>,
    ended: bool,
}

struct Pending {
    id: EventId,
    ends: bool,
}

impl TraceWriter {
    /// Makes the trace at this path, which must not exist. Mode 0600.
    ///
    /// # Errors
    /// What the system says, also when the file exists.
    pub fn create(path: &Path, options: TraceOptions) -> Result<Self, Error> {
        Ok(Self::over(AppendFile::create(path)?, options))
    }

    /// Opens a trace that was cut off, removes an unfinished last line, and goes on after the last
    /// whole one.
    ///
    /// # Errors
    /// [`Error::Locked`] when it is being written, [`Error::Ended`] when it has its end,
    /// [`Error::BrokenChain`] when it does not hold together or is another session's.
    pub fn reopen(path: &Path, options: TraceOptions) -> Result<(Self, Continued), Error> {
        let (file, cut_bytes) = AppendFile::open(path)?;
        let mut lines = Lines::of(file.reader()?);
        let mut chain = Chain::of(Some(&options.session));
        let mut root = None;
        loop {
            match lines.next().map_err(|error| Error::io("read", path, error))? {
                Next::Line(line) => {
                    chain.push(line).map_err(|found| Error::BrokenChain {
                        path: path.to_owned(),
                        line: found.line,
                        reason: found.reason,
                    })?;
                    root = root.or_else(|| event_id(line));
                }
                Next::TooLong => {
                    let (line, reason) = (lines.number(), super::BreakReason::TooLong);
                    return Err(Error::BrokenChain { path: path.to_owned(), line, reason });
                }
                Next::Torn(_) | Next::End => break,
            }
        }
        if chain.seal().is_some() {
            return Err(Error::Ended { path: path.to_owned() });
        }
        let mut writer = Self::over(file, options);
        (writer.root, writer.prev, writer.lines) = (root, chain.last(), chain.count());
        let continued = Continued { lines: writer.lines, cut_bytes };
        Ok((writer, continued))
    }

    fn over(file: AppendFile, options: TraceOptions) -> Self {
        Self {
            file,
            options,
            buffers: Buffers::default(),
            root: None,
            prev: None,
            lines: 0,
            pending: None,
            ended: false,
        }
    }

    /// Where the trace is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// How many lines it has.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// What it keeps of bodies.
    #[must_use]
    pub fn capture(&self) -> Capture {
        self.options.capture
    }

    /// Appends an event and gives its id. `parent` is an earlier event of this trace; `None` stands for
    /// the session's start.
    ///
    /// # Errors
    /// An [`Error`] of writing: the event is not on record and the task must stop. From then on every
    /// call is [`Error::Stopped`] until [`retry`](Self::retry) succeeds; only [`Error::LineTooLong`]
    /// leaves the writer usable.
    pub fn append<'e>(&mut self, parent: Option<&EventId>, event: impl Into<Event<'e>>) -> Result<EventId, Error> {
        let event = event.into();
        self.write(parent, event.name(), |line| event.emit(line), false)
    }

    /// Writes the session's end, signed if there is a key, and makes the file last through a loss of
    /// power. Nothing can be appended afterwards.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn finish(&mut self, end: &SessionEnd<'_>, key: Option<&TraceKey>) -> Result<EventId, Error> {
        let (session, head, lines) = (self.options.session.clone(), self.prev, self.lines + 1);
        let emit = |line: &mut Line<'_>| {
            end.emit(line);
            seal::write(line, &session, head, lines, key);
        };
        let id = self.write(None, SessionEnd::SPEC.name, emit, true)?;
        self.file.sync()?;
        Ok(id)
    }

    /// Offers the line that could not be written once more, and gives its event's id; `None` when there
    /// is no such line.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn retry(&mut self) -> Result<Option<EventId>, Error> {
        if !self.file.retry(&self.buffers.line)? {
            return Ok(None);
        }
        let Some(pending) = self.pending.take() else { return Ok(None) };
        if pending.ends {
            self.file.sync()?;
        }
        Ok(Some(self.written(pending)))
    }

    fn write(
        &mut self,
        parent: Option<&EventId>,
        name: &str,
        emit: impl FnOnce(&mut Line<'_>),
        ends: bool,
    ) -> Result<EventId, Error> {
        if self.ended {
            return Err(Error::Ended { path: self.path().to_owned() });
        }
        self.file.passable()?;
        let id = EventId::new();
        let mut line = self.buffers.start(&self.options.redactor, self.options.capture);
        line.raw(b"{\"event_type\":");
        line.verbatim(name);
        line.key("event_id");
        line.verbatim(id.as_str());
        line.key("parent_id");
        match parent.or(self.root.as_ref()) {
            Some(parent) => line.verbatim(parent.as_str()),
            None => line.raw(b"null"),
        }
        line.key("session_id");
        line.verbatim(self.options.session.as_str());
        line.key("timestamp");
        line.number(self.options.clock.now_ms());
        emit(&mut line);
        line.raw(PREV);
        match self.prev {
            Some(prev) => line.digest(prev),
            None => line.raw(b"null"),
        }
        line.raw(b"}\n");
        let pending = Pending { id, ends };
        match self.file.append(&self.buffers.line) {
            Ok(()) => Ok(self.written(pending)),
            Err(error) => {
                if matches!(error, Error::Io { .. }) {
                    self.pending = Some(pending);
                }
                Err(error)
            }
        }
    }

    fn written(&mut self, Pending { id, ends }: Pending) -> EventId {
        let line = self.buffers.line.strip_suffix(b"\n").unwrap_or(&self.buffers.line);
        self.prev = Some(Digest::of(line));
        self.lines += 1;
        self.ended = ends;
        self.root.get_or_insert_with(|| id.clone());
        id
    }
}

fn event_id(line: &[u8]) -> Option<EventId> {
    #[derive(serde::Deserialize)]
    struct Id {
        event_id: EventId,
    }
    serde_json::from_slice::<Id>(line).ok().map(|line| line.event_id)
}
