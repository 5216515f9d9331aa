//! Takes the values out of a text, whole or in pieces.
//!
//! It stands before everything else that looks at a result: before redaction, which would put a mark inside an
//! envelope, and before any cut and any file, which could hold a part of one. What may become an envelope is kept
//! back until it is one. After a fault nothing more comes out.

use std::borrow::Cow;

use super::envelope::{self, Declared};
use super::layers::{Collected, collect};
use super::opening::{self, Found, Opening};
use super::{ProtectedValues, Taken, Withholding, mark};
use crate::ClearedCall;

/// Takes marked values out of one stream of bytes. Ask for [`finish`](Self::finish) at its end.
#[derive(Debug)]
pub struct ProtectedStream {
    values: ProtectedValues,
    /// Whose answer it is, if a connection's tool answered.
    answered_by: Option<Box<ClearedCall>>,
    pending: Vec<u8>,
    taken: Taken,
}

impl ProtectedStream {
    /// A stream whose values go into this registry.
    #[must_use]
    pub fn new(values: &ProtectedValues) -> Self {
        Self { values: values.clone(), answered_by: None, pending: Vec::new(), taken: Taken::default() }
    }

    /// A stream that a connection's tool answered.
    pub(super) fn answered(values: &ProtectedValues, by: Option<&ClearedCall>) -> Self {
        Self { answered_by: by.cloned().map(Box::new), ..Self::new(values) }
    }

    /// Takes a chunk and gives what can be shown now.
    pub fn push<'a>(&mut self, chunk: &'a [u8]) -> Cow<'a, [u8]> {
        if self.taken.is_faulty() {
            return Cow::Borrowed(&[]);
        }
        let is_plain = self.pending.is_empty() && !opening::is_suspect(chunk);
        if is_plain && opening::undecided(chunk) == chunk.len() {
            return Cow::Borrowed(chunk);
        }
        self.pending.extend_from_slice(chunk);
        Cow::Owned(self.advance(false))
    }

    /// The rest, and what was taken out of the whole.
    pub fn finish(mut self) -> (Vec<u8>, Taken) {
        let rest = self.advance(true);
        (rest, self.taken)
    }

    /// What was taken out of it up to now.
    pub fn taken(&self) -> Taken {
        self.taken.clone()
    }

    /// Whether something was malformed: what came out before is to be withheld as well.
    #[must_use]
    pub fn is_faulty(&self) -> bool {
        self.taken.is_faulty()
    }

    fn advance(&mut self, last: bool) -> Vec<u8> {
        let mut out = Vec::new();
        match self.sift(last, &mut out) {
            Ok(done) => {
                self.pending.drain(..done);
            }
            Err(fault) => {
                self.taken.fault = Some(fault);
                self.pending = Vec::new();
                out.clear();
            }
        }
        out
    }

    /// Puts into `out` what can be shown of what is pending and says how much of that is done.
    fn sift(&mut self, last: bool, out: &mut Vec<u8>) -> Result<usize, Withholding> {
        let pending = std::mem::take(&mut self.pending);
        let done = self.sift_bytes(&pending, last, out);
        self.pending = pending;
        done
    }

    fn sift_bytes(&mut self, pending: &[u8], last: bool, out: &mut Vec<u8>) -> Result<usize, Withholding> {
        let between = |from: usize, to: usize| pending.get(from..to).unwrap_or_default();
        let mut done = 0;
        loop {
            let (start, level) = match opening::find(pending, done) {
                Found::Malformed => return Err(Withholding::Malformed),
                Found::Nothing => {
                    let rest = between(done, pending.len());
                    let end = if last { pending.len() } else { done + opening::undecided(rest) };
                    out.extend_from_slice(between(done, end));
                    return Ok(end);
                }
                // A brace that was shown already belongs to something else.
                Found::At(Opening { start, .. }) if start < done => return Err(Withholding::Malformed),
                Found::At(Opening { start, level }) => (start, level),
            };
            out.extend_from_slice(between(done, start));
            match collect(between(start, pending.len()), level) {
                Collected::Incomplete if !last => return Ok(start),
                Collected::Incomplete | Collected::Malformed => return Err(Withholding::Malformed),
                Collected::Whole { object, len } => {
                    let shown = self.taken_in(object)?;
                    let quote = format!("{}\"", "\\".repeat((1_usize << level) - 1));
                    out.extend_from_slice([&quote, shown.as_str(), &quote].concat().as_bytes());
                    done = start + len;
                }
            }
        }
    }

    /// Takes an envelope's value in and gives what is shown for it.
    fn taken_in(&mut self, object: Vec<u8>) -> Result<String, Withholding> {
        let text = String::from_utf8(object).map_err(|_| Withholding::Malformed)?;
        match envelope::read(&text).ok_or(Withholding::Malformed)? {
            Declared::Sensitive(kind, value) => Ok(mark(kind, &self.values.take(value, &mut self.taken)?)),
            Declared::Managed(reference) => {
                let by = self.answered_by.as_deref().filter(|by| by.connection().id == reference.issuer);
                let tool = by.ok_or(Withholding::Malformed)?.tool().to_owned();
                let kind = reference.kind;
                let reference = super::ManagedReference { tool, ..reference };
                Ok(mark(kind, &self.values.refer(reference, &mut self.taken)?))
            }
        }
    }
}

/// The same for a text that is there as a whole: the text itself, not copied, when nothing in it is marked.
pub(super) fn sift_text(
    text: String,
    values: &ProtectedValues,
    by: Option<&ClearedCall>,
    taken: &mut Taken,
) -> Result<String, Withholding> {
    if !opening::is_suspect(text.as_bytes()) {
        return Ok(text);
    }
    let mut stream = ProtectedStream::answered(values, by);
    let mut out = stream.push(text.as_bytes()).into_owned();
    let (rest, found) = stream.finish();
    out.extend(rest);
    let fault = found.fault;
    taken.join(found);
    match fault {
        Some(fault) => Err(fault),
        // Only whole envelopes were cut out, and they begin and end with ASCII.
        None => String::from_utf8(out).map_err(|_| Withholding::Malformed),
    }
}
