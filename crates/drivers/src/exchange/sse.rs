//! Server-sent events, decoded as their bytes come.
//!
//! Written here because every byte is foreign: a line has a bound, text must be UTF-8, and a chunk may
//! end anywhere, in a character or between CR and LF. An event without its blank line is not one, as
//! the standard says: it is the torn end of a cut stream.

use crate::failure::Fault;

/// The longest line.
const LONGEST_LINE: usize = 8 << 20;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    /// Empty when the stream names none.
    pub(crate) name: &'a str,
    pub(crate) data: &'a str,
}

/// What to do with an event; `true` stops the decoding.
pub(super) type Handler<'a> = &'a mut dyn FnMut(&Event<'_>) -> Result<bool, Fault>;

/// The decoder of one stream.
#[derive(Debug, Default)]
pub(super) struct Sse {
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    after_cr: bool,
    started: bool,
    events: usize,
}

impl Sse {
    /// How many events came.
    pub(super) fn events(&self) -> usize {
        self.events
    }

    /// Decodes a chunk; `true` once a handler stopped it.
    pub(super) fn feed(&mut self, chunk: &[u8], handle: Handler<'_>) -> Result<bool, Fault> {
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
            if self.line.len().saturating_add(piece.len()) > LONGEST_LINE {
                return Err(Fault::bad(format!("sent a line of more than {} MiB", LONGEST_LINE >> 20)));
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

    fn line_done(&mut self, line: &[u8], handle: Handler<'_>) -> Result<bool, Fault> {
        let line = std::str::from_utf8(line).map_err(|_| Fault::bad("sent text that is not UTF-8"))?;
        let line = if self.started { line } else { line.strip_prefix('\u{feff}').unwrap_or(line) };
        self.started = true;
        if line.is_empty() {
            return self.dispatch(handle);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.data(value),
            "event" => value.clone_into(&mut self.name),
            // llama.cpp reports a failure in the middle of a stream under a field of its own.
            "error" => {
                "error".clone_into(&mut self.name);
                self.data(value);
            }
            _ => {}
        }
        Ok(false)
    }

    fn data(&mut self, value: &str) {
        if self.has_data {
            self.data.push('\n');
        }
        self.data.push_str(value);
        self.has_data = true;
    }

    fn dispatch(&mut self, handle: Handler<'_>) -> Result<bool, Fault> {
        let stop = if self.has_data {
            self.events += 1;
            handle(&Event { name: &self.name, data: &self.data })?
        } else {
            false
        };
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        Ok(stop)
    }
}

#[cfg(test)]
mod tests;
