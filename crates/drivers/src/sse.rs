//! Server-sent events, decoded as their bytes come: a provider's, and those of a session's address.
//!
//! Written here because every byte is foreign: a line and an event have bounds, text must be UTF-8, and a
//! chunk may end anywhere, in a character or between CR and LF. An event without its blank line is not one,
//! as the standard says: it is the torn end of a cut stream. To connect again is the caller's work.

/// The longest line, and the most data of one event, unless the caller says otherwise.
const LONGEST: usize = 8 << 20;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its own id, where it has one; not that of an earlier event.
    pub id: Option<&'a str>,
    /// Empty when the stream names none.
    pub name: &'a str,
    /// Its lines of data, joined by newlines.
    pub data: &'a str,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line that has no end, as far as anybody would wait for it.
    #[error("sent a line of more than {} MiB", .0 >> 20)]
    LongLine(usize),
    /// An event of many lines.
    #[error("sent an event of more than {} MiB", .0 >> 20)]
    LongEvent(usize),
    /// Bytes that are no text.
    #[error("sent text that is not UTF-8")]
    NotUtf8,
}

/// What to do with an event; `true` stops the decoding.
type Handler<'a, E> = &'a mut dyn FnMut(&Event<'_>) -> Result<bool, E>;

/// The decoder of one stream.
///
/// ```
/// use drivers::{Sse, SseError};
/// let (mut sse, mut seen) = (Sse::default(), Vec::new());
/// for chunk in ["id: 7\nevent: te", "xt\ndata: {}\n", "\ndata: to"] {
///     sse.feed(chunk.as_bytes(), &mut |event| {
///         seen.push((event.id.map(str::to_owned), event.name.to_owned(), event.data.to_owned()));
///         Ok::<_, SseError>(false)
///     })?;
/// }
/// assert_eq!(seen, [(Some("7".into()), "text".into(), "{}".into())]);
/// # Ok::<(), SseError>(())
/// ```
#[derive(Debug)]
pub struct Sse {
    longest: usize,
    line: Vec<u8>,
    id: Option<String>,
    name: String,
    data: String,
    has_data: bool,
    after_cr: bool,
    started: bool,
    events: usize,
}

impl Default for Sse {
    /// With a bound of 8 MiB.
    fn default() -> Self {
        Self::bounded(LONGEST)
    }
}

impl Sse {
    /// A decoder that takes lines, and events, of at most so many bytes.
    #[must_use]
    pub fn bounded(longest: usize) -> Self {
        Self {
            longest,
            line: Vec::new(),
            id: None,
            name: String::new(),
            data: String::new(),
            has_data: false,
            after_cr: false,
            started: false,
            events: 0,
        }
    }

    /// How many events came.
    #[must_use]
    pub fn events(&self) -> usize {
        self.events
    }

    /// Decodes a chunk; `true` once a handler stopped it.
    ///
    /// # Errors
    /// An [`SseError`], or what the handler gave. Nothing can be fed after it.
    pub fn feed<E: From<SseError>>(&mut self, chunk: &[u8], handle: Handler<'_, E>) -> Result<bool, E> {
        let mut rest = chunk;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr)
                && let Some(after) = rest.strip_prefix(b"\n")
            {
                rest = after;
                continue;
            }
            let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r'));
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len().saturating_add(piece.len()) > self.longest {
                return Err(SseError::LongLine(self.longest).into());
            }
            let Some((terminator, after)) = after.split_first() else {
                self.line.extend_from_slice(piece);
                return Ok(false);
            };
            self.after_cr = *terminator == b'\r';
            rest = after;
            let stop = if self.line.is_empty() {
                self.line_done(piece, handle)?
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(piece);
                let stop = self.line_done(&line, handle)?;
                line.clear();
                self.line = line;
                stop
            };
            if stop {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn line_done<E: From<SseError>>(&mut self, line: &[u8], handle: Handler<'_, E>) -> Result<bool, E> {
        let line = std::str::from_utf8(line).map_err(|_| SseError::NotUtf8)?;
        let line = if self.started { line } else { line.strip_prefix('\u{feff}').unwrap_or(line) };
        self.started = true;
        if line.is_empty() {
            return self.dispatch(handle);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.data(value)?,
            // As the standard says, an id with a NUL is none.
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.name),
            // llama.cpp reports a failure in the middle of a stream under a field of its own.
            "error" => {
                "error".clone_into(&mut self.name);
                self.data(value)?;
            }
            _ => {}
        }
        Ok(false)
    }

    fn data(&mut self, value: &str) -> Result<(), SseError> {
        if self.data.len().saturating_add(value.len()) > self.longest {
            return Err(SseError::LongEvent(self.longest));
        }
        if self.has_data {
            self.data.push('\n');
        }
        self.data.push_str(value);
        self.has_data = true;
        Ok(())
    }

    fn dispatch<E>(&mut self, handle: Handler<'_, E>) -> Result<bool, E> {
        let stop = if self.has_data {
            self.events += 1;
            handle(&Event { id: self.id.as_deref(), name: &self.name, data: &self.data })?
        } else {
            false
        };
        self.id = None;
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        Ok(stop)
    }
}

#[cfg(test)]
mod tests;
