//! Redaction of text that arrives in pieces.
//!
//! One stream per channel: what it keeps back belongs to that channel's text alone. The long values go
//! first and the short ones see their result, as in a whole text, so the concatenated output is what
//! [`Redactor::redact`] makes of the concatenated input.

use std::borrow::Cow;
use std::fmt;

use crate::stage::{Piece, Stage};
use crate::{Redacted, Redactor};

/// Redacts one stream. Ask for [`finish`](Self::finish) at its end: text may be kept back until then.
///
/// ```
/// use secrets::{Redactor, Secret, StreamRedactor};
///
/// let redactor = Redactor::new();
/// redactor.learn(&Secret::new("hunter2-hunter2".to_owned()));
/// let mut stream = StreamRedactor::new(&redactor);
/// let mut out = stream.push("the key is hunter2-").into_string();
/// assert_eq!(out, "the key is ");
/// out += stream.push("hunter2, keep it").as_str();
/// out += stream.finish().as_str();
/// assert_eq!(out, "the key is [redacted], keep it");
/// ```
pub struct StreamRedactor {
    redactor: Redactor,
    long: Stage,
    short: Stage,
}

impl StreamRedactor {
    /// A stream that knows what `redactor` knows, also what it learns later.
    pub fn new(redactor: &Redactor) -> Self {
        Self { redactor: redactor.clone(), long: Stage::default(), short: Stage::default() }
    }

    /// Takes a chunk and gives the text that is safe to emit now. What is kept back is the beginning of
    /// a possible value at the end of the text, never more than the longest known form.
    pub fn push<'a>(&mut self, chunk: &'a str) -> Redacted<'a> {
        Redacted::from_piece(self.advance(chunk.as_bytes(), false))
    }

    /// The rest. The stream can be used again afterwards, for a new text.
    pub fn finish(&mut self) -> Redacted<'static> {
        let rest = Redacted::from_piece(self.advance(&[], true));
        self.long = Stage::default();
        self.short = Stage::default();
        rest
    }

    /// [`push`](Self::push) for bytes of any kind; use one or the other on a stream.
    pub fn push_bytes<'a>(&mut self, chunk: &'a [u8]) -> Cow<'a, [u8]> {
        self.advance(chunk, false).bytes
    }

    /// [`finish`](Self::finish) for bytes of any kind.
    pub fn finish_bytes(&mut self) -> Vec<u8> {
        let rest = self.advance(&[], true).bytes.into_owned();
        self.long = Stage::default();
        self.short = Stage::default();
        rest
    }

    fn advance<'a>(&mut self, chunk: &'a [u8], last: bool) -> Piece<'a> {
        let Some(matcher) = self.redactor.matcher() else {
            self.long.skip(chunk);
            self.short.skip(chunk);
            return Piece { bytes: Cow::Borrowed(chunk), count: 0 };
        };
        let mark = matcher.mark();
        let first = self.long.push(&matcher.long, mark, chunk, last);
        if matcher.short.is_empty() && self.short.is_idle() {
            self.short.skip(&first.bytes);
            return first;
        }
        match first.bytes {
            Cow::Borrowed(bytes) => self.short.push(&matcher.short, mark, bytes, last),
            Cow::Owned(bytes) => {
                let second = self.short.push(&matcher.short, mark, &bytes, last);
                let count = first.count + second.count;
                Piece { bytes: Cow::Owned(second.bytes.into_owned()), count }
            }
        }
    }
}

impl fmt::Debug for StreamRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamRedactor")
    }
}
