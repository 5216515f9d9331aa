//! The chain: every line carries the digest of the line before it.
//!
//! Where the chain breaks, the lines around tell which of them is at fault as far as that can be told:
//! an edited line and a dropped one look alike to the line that follows. Nothing here knows of keys.

use serde::Deserialize;
use vocab::SessionId;

use super::seal::Seal;
use crate::{Digest, PublicKey};

pub(crate) const PREV: &[u8] = b",\"prev\":";
const HEX_LEN: usize = 64;

/// What is wrong with a line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BreakReason {
    /// It is no line of a trace.
    #[error("is not a line of a trace")]
    NotALine,
    /// No writer makes a line of this length.
    #[error("is longer than any line of a trace")]
    TooLong,
    /// The first line names one before it, or is not the session's start.
    #[error("does not begin a trace: lines before it are missing")]
    NotTheStart,
    /// The same line stands twice.
    #[error("repeats the line before it")]
    Repeated,
    /// The line that follows continues the line before this one.
    #[error("was put in or moved here: the next line continues the line before it")]
    PutIn,
    /// Neither does it continue the line before, nor is it continued.
    #[error("was edited: it does not continue the line before it")]
    Edited,
    /// The line that follows does not continue it.
    #[error("was edited, or lines after it were dropped or moved: the next line does not continue it")]
    NotContinued,
    /// It names another session.
    #[error("belongs to another session")]
    OtherSession,
    /// It follows a `session_end`.
    #[error("stands after the session's end")]
    AfterEnd,
    /// `session_end` does not have the form in which it is written.
    #[error("does not end a session in the form of a session's end")]
    BadSeal,
    /// The head in `session_end` is not the digest of the line before.
    #[error("names a head that is not the line before it")]
    WrongHead,
    /// Another number of lines was signed.
    #[error("counts {said} lines where there are {found}")]
    WrongCount {
        /// What it says.
        said: u64,
        /// How many there are.
        found: u64,
    },
    /// It is signed, but not with the key that was given.
    #[error("is signed with another key, `{key}`")]
    OtherKey {
        /// The key that it names, cut and made printable.
        key: String,
    },
    /// The signature does not fit.
    #[error("has a signature that does not fit: the file was rewritten")]
    WrongSignature,
    /// After the last newline stands something that is not the beginning of a line.
    #[error("is followed by bytes that are no line of a trace")]
    Garbage,
}

/// A break, and the line to which it is put down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Break {
    pub(crate) line: u64,
    pub(crate) reason: BreakReason,
}

/// The keys of a line that the chain needs.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    event_type: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    session_id: std::borrow::Cow<'a, str>,
    #[serde(default)]
    signature: Option<serde::de::IgnoredAny>,
}

/// Follows a trace line by line, in constant memory.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    count: u64,
    /// Digests of the last line and of the one before it.
    last: Option<Digest>,
    before_last: Option<Digest>,
    session: Option<SessionId>,
    seal: Option<Seal>,
    unlinked: Option<Unlinked>,
}

/// A line that does not continue the one before it.
#[derive(Debug)]
struct Unlinked {
    digest: Digest,
    prev: Option<Digest>,
    /// A session's end names the line before it a second time.
    own_head: Option<Digest>,
}

impl Chain {
    /// A chain whose lines must belong to this session, if one is given.
    pub(crate) fn of(session: Option<&SessionId>) -> Self {
        Self { session: session.cloned(), ..Self::default() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn last(&self) -> Option<Digest> {
        self.last
    }

    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// The session's end, once it was seen.
    pub(crate) fn seal(&self) -> Option<&Seal> {
        self.seal.as_ref()
    }

    /// Takes the next line, without its newline.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<(), Break> {
        let number = self.count + 1;
        let at = |line, reason| Err(Break { line, reason });
        let Some((own, prev)) = split_prev(line) else { return at(number, BreakReason::NotALine) };
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(line) else {
            return at(number, BreakReason::NotALine);
        };
        let digest = Digest::of(line);
        if self.last == Some(digest) {
            return at(number, BreakReason::Repeated);
        }
        if self.seal.is_some() {
            return at(number, BreakReason::AfterEnd);
        }
        if prev != self.last {
            self.unlinked = Some(Unlinked { digest, prev, own_head: Seal::read(own).and_then(|seal| seal.head()) });
            let line = if self.last.is_none() { number } else { number - 1 };
            let reason = if self.last.is_none() { BreakReason::NotTheStart } else { BreakReason::NotContinued };
            return at(line, reason);
        }
        match &self.session {
            Some(session) if session.as_str() != envelope.session_id => return at(number, BreakReason::OtherSession),
            Some(_) => {}
            None => match envelope.session_id.parse() {
                Ok(session) => self.session = Some(session),
                Err(_) => return at(number, BreakReason::NotALine),
            },
        }
        if envelope.event_type == "session_end" {
            match Seal::read(own) {
                Some(seal) => self.seal = Some(seal),
                None => return at(number, BreakReason::BadSeal),
            }
        } else if envelope.signature.is_some() {
            return at(number, BreakReason::BadSeal);
        } else if number == 1 && envelope.event_type != "session_start" {
            return at(number, BreakReason::NotTheStart);
        }
        (self.before_last, self.last) = (self.last, Some(digest));
        self.count = number;
        Ok(())
    }

    /// Says which line is at fault, with the help of the one that follows where the chain broke.
    pub(crate) fn blame(&self, found: Break, after: Option<&[u8]>) -> Break {
        let Some(unlinked) = self.unlinked.as_ref().filter(|_| self.last.is_some()) else { return found };
        let number = self.count + 1;
        let next = after.and_then(split_prev).and_then(|(_, prev)| prev);
        if self.count > 1 && unlinked.prev == self.before_last {
            Break { line: self.count, reason: BreakReason::PutIn }
        } else if next.is_some() && next == self.last {
            Break { line: number, reason: BreakReason::PutIn }
        } else if unlinked.own_head == self.last || after.is_some() && next != Some(unlinked.digest) {
            Break { line: number, reason: BreakReason::Edited }
        } else {
            found
        }
    }

    /// Judges the end against the lines: `None` when the file has no signed end. Without a key the
    /// signature is taken as it is.
    pub(crate) fn check_seal(&self, key: Option<&PublicKey>) -> Option<Result<(), BreakReason>> {
        let seal = self.seal.as_ref()?;
        if seal.head() != self.before_last {
            return Some(Err(BreakReason::WrongHead));
        }
        if seal.lines() != self.count {
            return Some(Err(BreakReason::WrongCount { said: seal.lines(), found: self.count }));
        }
        seal.check(self.session.as_ref()?, key)
    }
}

/// Takes a line apart into what stands before `prev`, and its value.
fn split_prev(line: &[u8]) -> Option<(&[u8], Option<Digest>)> {
    let rest = line.strip_suffix(b"}")?;
    if let Some(own) = rest.strip_suffix(b"null") {
        return Some((own.strip_suffix(PREV)?, None));
    }
    let rest = rest.strip_suffix(b"\"")?;
    let (rest, hex) = rest.split_at_checked(rest.len().checked_sub(HEX_LEN)?)?;
    let own = rest.strip_suffix(b"\"")?.strip_suffix(PREV)?;
    Some((own, Some(Digest::from_hex(hex)?)))
}
