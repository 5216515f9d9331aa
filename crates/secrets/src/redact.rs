//! The values a session knows, and text that is free of them.
//!
//! Values are only ever added: one that was rotated or forgotten may still stand in a buffer or a tool's
//! output. Learning is a push; the search tables are built by the first text that is redacted after it,
//! so that a launch pays nothing. A text costs one atomic load while no value is known.

use std::borrow::Cow;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::Secret;
use crate::matcher::Matcher;
use crate::stage::{self, Patterns, Piece, View};

/// Text that went through a [`Redactor`]; nothing else can make one.
///
/// ```compile_fail,E0423
/// let forged = secrets::Redacted("a raw text".into(), 0);
/// ```
///
/// ```compile_fail,E0277
/// let forged: secrets::Redacted<'static> = "a raw text".into();
/// ```
///
/// ```
/// let redacted: secrets::Redacted<'static> =
///     secrets::Redactor::new().redact_owned("a clean text".to_owned());
/// assert_eq!(redacted.to_string(), "a clean text");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'a> {
    text: Cow<'a, str>,
    count: usize,
}

impl<'a> Redacted<'a> {
    /// `bytes` are valid UTF-8 whenever the redacted text was.
    pub(crate) fn from_piece(piece: Piece<'a>) -> Self {
        let text = match piece.bytes {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        };
        Self { text, count: piece.count }
    }

    pub(crate) fn clean(text: Cow<'a, str>) -> Self {
        Self { text, count: 0 }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text, owned.
    pub fn into_string(self) -> String {
        self.text.into_owned()
    }

    /// The same text, borrowing nothing.
    pub fn into_owned(self) -> Redacted<'static> {
        Redacted { text: Cow::Owned(self.text.into_owned()), count: self.count }
    }

    /// How many places were replaced.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl AsRef<str> for Redacted<'_> {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Replaces every known value by `[redacted]`. Cheap to clone; clones share what they know.
///
/// A value of 6 bytes or more is found anywhere, raw or JSON-escaped, URL-encoded, as base64 or hex. A
/// shorter one is found raw where it stands alone: not next to an ASCII letter, digit or `_`.
/// Overlapping values are replaced together by one mark.
#[derive(Clone, Default)]
pub struct Redactor(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// How many values there are.
    known: AtomicUsize,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    values: Vec<Secret>,
    /// Made from all values; absent when one was added since.
    matcher: Option<Arc<Matcher>>,
}

impl Redactor {
    /// A redactor that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value, for good. Space around it does not count, an empty one changes nothing. A value
    /// that is found in `[redacted]` itself, such as `redacted` or `[`, is not hidden; a shorter piece of the word, such
    /// as `e` or `red`, does not stand alone in it and is.
    pub fn learn(&self, secret: &Secret) {
        if secret.expose().trim().is_empty() {
            return;
        }
        // A credential is learned at each use, and is new at the first.
        if self.0.state.read().unwrap_or_else(PoisonError::into_inner).values.contains(secret) {
            return;
        }
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        if !state.values.contains(secret) {
            state.values.push(secret.clone());
            state.matcher = None;
            self.0.known.store(state.values.len(), Ordering::Release);
        }
    }

    /// How many values it knows. As long as it is the same, what was redacted after it was asked for is still clean;
    /// once it is more, a text that is kept may hold a value that was not known then.
    #[must_use]
    pub fn known(&self) -> usize {
        self.0.known.load(Ordering::Acquire)
    }

    /// The values that were learned after the first `count`, in their order: for a subagent's process, so that it hides
    /// what its parent does.
    #[must_use]
    pub fn learned_after(&self, count: usize) -> Vec<Secret> {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        state.values.get(count..).unwrap_or_default().to_vec()
    }

    /// The text without known values; the same bytes, not copied, when there are none in it.
    pub fn redact<'a>(&self, text: &'a str) -> Redacted<'a> {
        match self.matcher() {
            None => Redacted::clean(Cow::Borrowed(text)),
            Some(matcher) => match search(&matcher, text.as_bytes()) {
                Piece { bytes: Cow::Borrowed(_), .. } => Redacted::clean(Cow::Borrowed(text)),
                piece => Redacted::from_piece(piece),
            },
        }
    }

    /// The same for a text that is owned already.
    pub fn redact_owned(&self, text: String) -> Redacted<'static> {
        let redacted = self.redact(&text);
        match redacted.text {
            Cow::Borrowed(_) => Redacted::clean(Cow::Owned(text)),
            Cow::Owned(new) => Redacted { text: Cow::Owned(new), count: redacted.count },
        }
    }

    /// The same for bytes of any kind, such as a process's output before it is decoded.
    pub fn redact_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self.matcher() {
            None => Cow::Borrowed(bytes),
            Some(matcher) => search(&matcher, bytes).bytes,
        }
    }

    /// Whether [`redact`](Self::redact) would leave the text as it is.
    pub fn is_clean(&self, text: &str) -> bool {
        self.is_clean_bytes(text.as_bytes())
    }

    /// The same for bytes of any kind.
    pub fn is_clean_bytes(&self, bytes: &[u8]) -> bool {
        let view = View::whole(bytes);
        let stop = |_| ControlFlow::Break(());
        self.matcher().is_none_or(|matcher| {
            matcher.long.find(view, stop).is_continue() && matcher.short.find(view, stop).is_continue()
        })
    }

    /// Where known values stand in these bytes, for whoever shows only a piece of them: a value that an end of the piece
    /// goes through is recognised in no piece alone. In order, none overlapping another.
    #[must_use]
    pub fn places(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        self.matcher().map(|matcher| stage::both(&matcher.long, &matcher.short, bytes)).unwrap_or_default()
    }

    /// How many bytes before and behind a piece say whether its ends go through a value.
    #[must_use]
    pub fn reach(&self) -> usize {
        self.matcher().map(|matcher| matcher.longest()).unwrap_or(0)
    }

    /// The search tables for all values known now; `None` while there is no value.
    pub(crate) fn matcher(&self) -> Option<Arc<Matcher>> {
        if self.known() == 0 {
            return None;
        }
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(matcher) = &state.matcher {
            return Some(matcher.clone());
        }
        drop(state);
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let build = || Arc::new(Matcher::new(&state.values));
        Some(state.matcher.get_or_insert_with(build).clone())
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

fn search<'a>(matcher: &Matcher, text: &'a [u8]) -> Piece<'a> {
    let first = stage::whole(&matcher.long, matcher.mark(), text);
    if matcher.short.is_empty() {
        return first;
    }
    match first.bytes {
        Cow::Borrowed(_) => stage::whole(&matcher.short, matcher.mark(), text),
        Cow::Owned(bytes) => {
            let second = stage::whole(&matcher.short, matcher.mark(), &bytes);
            let count = first.count + second.count;
            Piece { bytes: Cow::Owned(second.bytes.into_owned()), count }
        }
    }
}
