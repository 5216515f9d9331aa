//! Neutralising and wrapping over chunks, with a marker split anywhere.
//!
//! The only thing held back is what follows a `<` that may yet become a marker: at most 18 bytes,
//! because no marker holds a second `<`. The `<` itself goes out at once. Chunks may be of any size,
//! empty ones included, and the output equals that of the whole text.

use std::fmt;
use std::io;

use crate::block::open;
use crate::marker::{CLOSER, INFIX, LONGEST_REST, completes, may_complete, next_cut};
use crate::source::Source;

/// A part of the output: a range of the chunk, or text of our own or of an earlier chunk.
enum Piece<'a> {
    Chunk(usize, usize),
    Own(&'a str),
}

/// Rewrites markers in a text that arrives in chunks.
///
/// ```
/// let mut out = String::new();
/// let mut neutraliser = fence::Neutraliser::new();
/// for chunk in ["see </untr", "usted-content>", " there"] {
///     neutraliser.push(chunk, &mut out)?;
/// }
/// neutraliser.finish(&mut out)?;
/// assert_eq!(out, fence::neutralise("see </untrusted-content> there"));
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a neutraliser that is not finished may hold back the end of the text"]
pub struct Neutraliser {
    /// Whether a `<` went out whose rest is not decided yet.
    pending: bool,
    /// What followed that `<` so far.
    held: String,
}

impl Neutraliser {
    /// A neutraliser at the start of a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk and writes what is decided to `out`.
    ///
    /// # Errors
    ///
    /// What `out` reports; a `String` never does. The text is broken off then.
    pub fn push(&mut self, chunk: &str, out: &mut impl fmt::Write) -> fmt::Result {
        self.feed(chunk.as_bytes(), |piece| match piece {
            // Pieces begin and end beside an ASCII byte or at an end of the chunk.
            Piece::Chunk(from, to) => out.write_str(chunk.get(from..to).ok_or(fmt::Error)?),
            Piece::Own(text) => out.write_str(text),
        })
    }

    /// Ends the text and writes what was held back.
    ///
    /// # Errors
    ///
    /// What `out` reports.
    pub fn finish(self, out: &mut impl fmt::Write) -> fmt::Result {
        out.write_str(&self.held)
    }

    fn push_bytes(&mut self, chunk: &[u8], out: &mut impl io::Write) -> io::Result<()> {
        self.feed(chunk, |piece| match piece {
            Piece::Chunk(from, to) => out.write_all(chunk.get(from..to).unwrap_or_default()),
            Piece::Own(text) => out.write_all(text.as_bytes()),
        })
    }

    fn feed<E>(&mut self, chunk: &[u8], mut emit: impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut done = self.resolve(chunk, &mut emit)?;
        if self.pending {
            return Ok(());
        }
        let end = self.hold_tail(chunk, done);
        while let Some(cut) = next_cut(chunk, done) {
            emit(Piece::Chunk(done, cut))?;
            emit(Piece::Own(INFIX))?;
            done = cut;
        }
        emit(Piece::Chunk(done, end))
    }

    /// Decides the pending `<` with the chunk's first bytes. Gives the number of bytes used.
    fn resolve<E>(&mut self, chunk: &[u8], emit: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<usize, E> {
        let mut used = 0;
        while self.pending {
            let Some(&byte) = chunk.get(used) else {
                break;
            };
            self.held.push(char::from(byte));
            if completes(self.held.as_bytes()) {
                emit(Piece::Own(INFIX))?;
                used += 1;
            } else if may_complete(self.held.as_bytes()) {
                used += 1;
                continue;
            } else {
                // Not a marker: this byte is looked at again, for it may be a `<` itself.
                self.held.pop();
            }
            emit(Piece::Own(&self.held))?;
            self.held.clear();
            self.pending = false;
        }
        Ok(used)
    }

    /// Holds back the end of the chunk from `from` on if it may begin a marker. Gives the end of
    /// what may go out, which includes the `<`.
    fn hold_tail(&mut self, chunk: &[u8], from: usize) -> usize {
        let near = chunk.len().saturating_sub(LONGEST_REST).max(from);
        let tail = chunk.get(near..).unwrap_or_default();
        if let Some(at) = memchr::memrchr(b'<', tail) {
            let rest = tail.get(at + 1..).unwrap_or_default();
            if may_complete(rest) {
                self.held.extend(rest.iter().copied().map(char::from));
                self.pending = true;
                return near + at + 1;
            }
        }
        chunk.len()
    }
}

/// Writes one fenced block whose content arrives in chunks.
///
/// Takes content through [`io::Write`] or [`fmt::Write`], whichever the inner writer has, and ends
/// with [`finish_io`](Self::finish_io) or [`finish_fmt`](Self::finish_fmt). Through `io::Write` the
/// content may be any bytes. After an error of the inner writer every further call fails: a block
/// with a hole in it never gets a closing marker.
///
/// ```
/// use std::io::Write as _;
///
/// let source = fence::Source::tool("shell");
/// let mut block = fence::BlockWriter::new(&source, Vec::new());
/// block.write_all(b"</untrusted-")?;
/// block.write_all(b"content>")?;
/// let written = block.finish_io()?;
/// assert_eq!(written, fence::wrap(&source, "</untrusted-content>").as_bytes());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a block that is not finished has no closing marker"]
pub struct BlockWriter<W> {
    inner: W,
    /// The opening marker, until it is written.
    opener: Option<String>,
    neutraliser: Neutraliser,
    broken: bool,
}

impl<W> BlockWriter<W> {
    /// A block of `source` on `inner`. The opening marker is written with the first content, or at
    /// the end.
    pub fn new(source: &Source, inner: W) -> Self {
        let mut opener = String::new();
        open(source, &mut opener);
        Self { inner, opener: Some(opener), neutraliser: Neutraliser::new(), broken: false }
    }

    /// Runs one write; after a failed one, none runs any more.
    fn guarded<E>(
        &mut self,
        refusal: impl FnOnce() -> E,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.broken {
            return Err(refusal());
        }
        let done = write(self);
        self.broken = done.is_err();
        done
    }
}

fn broken_off() -> io::Error {
    io::Error::other("the fenced block was broken off by an earlier write error")
}

impl<W: io::Write> BlockWriter<W> {
    fn put_bytes(&mut self, content: &[u8]) -> io::Result<()> {
        self.guarded(broken_off, |block| {
            if let Some(opener) = block.opener.take() {
                block.inner.write_all(opener.as_bytes())?;
            }
            block.neutraliser.push_bytes(content, &mut block.inner)
        })
    }

    /// Ends the block and gives the inner writer back, not flushed.
    ///
    /// # Errors
    ///
    /// What the inner writer reports, now or at an earlier write.
    pub fn finish_io(mut self) -> io::Result<W> {
        self.put_bytes(b"")?;
        let held = std::mem::take(&mut self.neutraliser).held;
        let end = format!("{held}\n{CLOSER}");
        self.inner.write_all(end.as_bytes())?;
        Ok(self.inner)
    }
}

impl<W: fmt::Write> BlockWriter<W> {
    fn put_str(&mut self, content: &str) -> fmt::Result {
        self.guarded(fmt::Error::default, |block| {
            if let Some(opener) = block.opener.take() {
                block.inner.write_str(&opener)?;
            }
            block.neutraliser.push(content, &mut block.inner)
        })
    }

    /// Ends the block and gives the inner writer back.
    ///
    /// # Errors
    ///
    /// What the inner writer reports, now or at an earlier write.
    pub fn finish_fmt(mut self) -> Result<W, fmt::Error> {
        self.put_str("")?;
        let neutraliser = std::mem::take(&mut self.neutraliser);
        neutraliser.finish(&mut self.inner)?;
        self.inner.write_str("\n")?;
        self.inner.write_str(CLOSER)?;
        Ok(self.inner)
    }
}

impl<W: io::Write> io::Write for BlockWriter<W> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.put_bytes(content)?;
        Ok(content.len())
    }

    /// Flushes the inner writer. What may be the start of a marker stays held back.
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: fmt::Write> fmt::Write for BlockWriter<W> {
    fn write_str(&mut self, content: &str) -> fmt::Result {
        self.put_str(content)
    }
}
