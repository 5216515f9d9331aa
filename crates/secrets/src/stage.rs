//! Replaces what a set of patterns finds, in a whole text or chunk by chunk with the same result.
//!
//! A stream keeps back the longest end of its text that could still grow into a match, and nothing
//! else. A match that reaches into the kept part is marked at once, and how far it reaches is
//! remembered, so that a run of overlapping values needs no memory of its own. Both ways share the code
//! that makes the output, so that they cannot drift apart.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use zeroize::Zeroizing;

use crate::secret::append;
use crate::wrapped::{LINE, is_code};

/// A set of patterns to search for.
pub(crate) trait Patterns {
    /// Reports every match, in any order, until told to stop.
    fn find(&self, view: View<'_>, hit: impl FnMut(Range<usize>) -> ControlFlow<()>) -> ControlFlow<()>;

    /// From where on the text could belong to a match that needs more text to be decided.
    fn pending(&self, view: View<'_>) -> usize;
}

/// A text and what is known about its surroundings.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) text: &'a [u8],
    /// The byte before the text.
    before: Option<u8>,
    /// How many bytes directly before it may be of an encoding; at the most as many as count.
    run: usize,
    /// Whether the text ends here.
    last: bool,
}

impl<'a> View<'a> {
    /// A text with nothing around it.
    pub(crate) fn whole(text: &'a [u8]) -> Self {
        Self { text, before: None, run: 0, last: true }
    }

    pub(crate) fn run(&self) -> usize {
        self.run
    }

    /// Whether a word can begin or end at this position. Words are made of ASCII letters, digits and
    /// `_`; other scripts do not count, since they write words without a space between.
    pub(crate) fn is_border(&self, at: usize) -> bool {
        let is_word = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
        let left = at.checked_sub(1).map_or(self.before, |i| self.text.get(i).copied());
        match self.text.get(at) {
            Some(&right) => !(is_word(left) && is_word(Some(right))),
            None => self.last,
        }
    }
}

/// Output bytes and how many marks stand in them.
pub(crate) struct Piece<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) count: usize,
}

/// The text with every match replaced.
pub(crate) fn whole<'a>(patterns: &impl Patterns, mark: &[u8], text: &'a [u8]) -> Piece<'a> {
    let spans = merge(patterns, View::whole(text), 0);
    render(text, &spans, 0, text.len(), mark)
}

/// Where a whole text matches one of two sets.
pub(crate) fn both(first: &impl Patterns, second: &impl Patterns, text: &[u8]) -> Vec<Range<usize>> {
    let view = View::whole(text);
    union([merge(first, view, 0), merge(second, view, 0)].concat())
}

/// The unions of overlapping matches, in order. `covered` bytes at the start count as matched.
fn merge(patterns: &impl Patterns, view: View<'_>, covered: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let _ = patterns.find(view, |range| {
        found.push(range);
        ControlFlow::Continue(())
    });
    if covered > 0 {
        found.push(0..covered);
    }
    union(found)
}

/// Ranges that overlap, as one.
pub(crate) fn union(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// The output for the first `cut` bytes of the text; a span at 0 got its mark before if `covered`.
fn render<'a>(text: &'a [u8], spans: &[Range<usize>], covered: usize, cut: usize, mark: &[u8]) -> Piece<'a> {
    let plain = |range: Range<usize>| text.get(range).unwrap_or_default();
    if spans.first().is_none_or(|span| span.start >= cut) {
        return Piece { bytes: Cow::Borrowed(plain(0..cut)), count: 0 };
    }
    let mut bytes = Vec::with_capacity(cut + mark.len());
    let mut count = 0;
    let mut at = 0;
    for span in spans.iter().take_while(|span| span.start < cut) {
        bytes.extend_from_slice(plain(at..span.start));
        if covered == 0 || span.start > 0 {
            bytes.extend_from_slice(mark);
            count += 1;
        }
        at = span.end;
    }
    if at < cut {
        bytes.extend_from_slice(plain(at..cut));
    }
    Piece { bytes: Cow::Owned(bytes), count }
}

/// One stream's state for one set of patterns.
#[derive(Default)]
pub(crate) struct Stage {
    /// Text that is not yet decided.
    held: Zeroizing<Vec<u8>>,
    /// How many bytes at its start belong to a match whose mark is out.
    covered: usize,
    /// The byte before it.
    before: Option<u8>,
    /// How many bytes before it may be of an encoding.
    run: usize,
}

impl Stage {
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    /// Notes text that passes unsearched.
    pub(crate) fn skip(&mut self, text: &[u8]) {
        self.before = text.last().copied().or(self.before);
        let run = text.iter().rev().take(LINE).take_while(|byte| is_code(**byte)).count();
        self.run = if run == text.len() { (self.run + run).min(LINE) } else { run };
    }

    /// Takes the next chunk and gives what is decided; everything when it is the `last`.
    pub(crate) fn push<'a>(&mut self, patterns: &impl Patterns, mark: &[u8], chunk: &'a [u8], last: bool) -> Piece<'a> {
        if self.held.is_empty() {
            return self.advance(patterns, mark, chunk, last);
        }
        append(&mut self.held, chunk);
        let text = std::mem::take(&mut self.held);
        let piece = self.advance(patterns, mark, &text, last);
        Piece { bytes: Cow::Owned(piece.bytes.into_owned()), count: piece.count }
    }

    fn advance<'t>(&mut self, patterns: &impl Patterns, mark: &[u8], text: &'t [u8], last: bool) -> Piece<'t> {
        let view = View { text, before: self.before, run: self.run, last };
        let spans = merge(patterns, view, self.covered);
        let cut = if last { text.len() } else { patterns.pending(view) };
        let piece = render(text, &spans, self.covered, cut, mark);
        let reached = spans.iter().rfind(|span| span.start < cut).map_or(cut, |span| span.end);
        self.covered = if cut == 0 { self.covered } else { reached.saturating_sub(cut) };
        self.skip(text.get(..cut).unwrap_or_default());
        append(&mut self.held, text.get(cut..).unwrap_or_default());
        piece
    }
}
