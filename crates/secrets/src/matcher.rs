//! Everything that a session knows, compiled for searching.
//!
//! Two sets: long values (6 bytes and more) with all their encodings, found anywhere, and short ones,
//! found raw where they stand alone. A search reports every match, overlapping ones too; the caller
//! removes their union, so no choice between overlapping values can leave a piece of one behind.
//!
//! The mark that replaces a value must not, with its neighbours, spell a known value again. A pattern
//! that could overlap the mark is rare (it starts with `]` or ends with `[`, say); when there is one,
//! the mark is written between two characters that stand in no pattern. A value that would be found in the
//! mark itself cannot be hidden by it and is not searched for.

use std::ops::{ControlFlow, Range};
use std::sync::OnceLock;

use memchr::memmem::Finder;

use crate::locked::Locked;
use crate::stage::{Patterns, View};
use crate::window::Windows;
use crate::{Secret, forms, wrapped};

/// What a value is replaced with.
pub const MARK: &str = "[redacted]";
/// Values below this length, in bytes, are redacted only where they stand alone.
const SHORT: usize = 6;
/// Patterns from this length on are searched with larger strides.
const WIDE: usize = 16;
/// Text is searched in blocks that stay in the first-level cache.
const BLOCK: usize = 16 * 1024;

/// All patterns of a session.
pub(crate) struct Matcher {
    pub(crate) long: Long,
    pub(crate) short: Short,
    mark: String,
}

impl Matcher {
    /// Compiles the values. Space around one does not count: it is often lost on the way.
    pub(crate) fn new(values: &[Secret]) -> Self {
        let mut long = Arena::default();
        let mut short = Arena::default();
        for value in values.iter().map(|value| value.expose().trim()) {
            if value.len() < SHORT {
                if !is_alone_in_mark(value.as_bytes()) {
                    short.add(value.as_bytes(), 0);
                }
                continue;
            }
            let first = long.ranges.len();
            forms::emit(value, |form| {
                if !is_in_mark(form) {
                    long.add(form, first);
                }
            });
        }
        let mark = mark(|| long.iter().chain(short.iter()));
        Self { long: Long::new(long), short: Short { values: short }, mark }
    }

    /// The length of the longest thing that is searched for.
    pub(crate) fn longest(&self) -> usize {
        let short = self.short.values.iter().map(<[u8]>::len).max().unwrap_or(0);
        // The same text broken into lines is at the most three times as long.
        (3 * self.long.longest).max(short)
    }

    /// `[redacted]`, or the same between two separating characters.
    pub(crate) fn mark(&self) -> &[u8] {
        self.mark.as_bytes()
    }
}

/// The mark with, where a pattern could overlap it, a character around it that no pattern has.
fn mark<'a, I: Iterator<Item = &'a [u8]>>(patterns: impl Fn() -> I) -> String {
    let finder = Finder::new(MARK);
    let overlaps = |pattern: &[u8]| {
        let mark = MARK.as_bytes();
        finder.find(pattern).is_some()
            || (1..mark.len()).any(|cut| {
                let (head, tail) = mark.split_at_checked(cut).unwrap_or((mark, &[]));
                pattern.starts_with(tail) || pattern.ends_with(head)
            })
    };
    if !patterns().any(overlaps) {
        return MARK.to_owned();
    }
    let absent = |c: &char| {
        let mut buffer = [0; 4];
        let finder = Finder::new(c.encode_utf8(&mut buffer).as_bytes());
        patterns().all(|pattern| finder.find(pattern).is_none())
    };
    let separator = [' ', '|', '\u{a0}'].into_iter().chain('\u{2500}'..).find(absent).unwrap_or(' ');
    format!("{separator}{MARK}{separator}")
}

/// Whether the mark would bring a value back: one is found anywhere, the empty one too.
fn is_in_mark(pattern: &[u8]) -> bool {
    pattern.len() <= MARK.len() && Finder::new(pattern).find(MARK.as_bytes()).is_some()
}

/// The same for a short value, which the letters around it keep from standing alone.
fn is_alone_in_mark(value: &[u8]) -> bool {
    let mut values = Arena::default();
    values.add(value, 0);
    value.is_empty() || Short { values }.find(View::whole(MARK.as_bytes()), |_| ControlFlow::Break(())).is_break()
}

/// Byte strings in one locked buffer.
#[derive(Default)]
struct Arena {
    bytes: Locked,
    ranges: Vec<Range<usize>>,
}

impl Arena {
    /// Adds a pattern unless it stands at or after number `since`.
    fn add(&mut self, pattern: &[u8], since: usize) {
        if (since..self.ranges.len()).any(|number| self.get(number) == pattern) {
            return;
        }
        let start = self.bytes.len();
        self.bytes.append(pattern);
        self.ranges.push(start..self.bytes.len());
    }

    fn get(&self, number: usize) -> &[u8] {
        self.ranges.get(number).and_then(|range| self.bytes.get(range.clone())).unwrap_or_default()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.ranges.iter().map(|range| self.bytes.get(range.clone()).unwrap_or_default())
    }
}

/// Values of 6 bytes and more, in all forms.
pub(crate) struct Long {
    patterns: Arena,
    groups: [Option<Windows>; 2],
    prefixes: OnceLock<Prefixes>,
    /// Of the patterns.
    longest: usize,
}

impl Long {
    fn new(patterns: Arena) -> Self {
        let numbered = || (0_u32..).zip(patterns.iter());
        let groups = [
            Windows::new(numbered().filter(|(_, bytes)| bytes.len() < WIDE), WIDE),
            Windows::new(numbered().filter(|(_, bytes)| bytes.len() >= WIDE), WIDE),
        ];
        let longest = patterns.iter().map(<[u8]>::len).max().unwrap_or(0);
        Self { patterns, groups, prefixes: OnceLock::new(), longest }
    }
}

impl Long {
    /// What stands in one piece.
    fn unbroken(&self, text: &[u8], hit: &mut impl FnMut(Range<usize>) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut check = |number: u32, start: usize| {
            let pattern = self.patterns.get(number as usize);
            match text.get(start..start + pattern.len()) {
                Some(found) if found == pattern => hit(start..start + pattern.len()),
                _ => ControlFlow::Continue(()),
            }
        };
        let mut next = [0, 0];
        let mut until = 0;
        while until < text.len() {
            until = (until + BLOCK).min(text.len());
            for (group, at) in self.groups.iter().zip(&mut next) {
                if let Some(windows) = group {
                    *at = windows.scan(text, *at, until, &mut check)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn prefixes(&self) -> &Prefixes {
        self.prefixes.get_or_init(|| Prefixes::new(&self.patterns))
    }
}

impl Patterns for Long {
    fn find(&self, view: View<'_>, mut hit: impl FnMut(Range<usize>) -> ControlFlow<()>) -> ControlFlow<()> {
        self.unbroken(view.text, &mut hit)?;
        let mut flow = ControlFlow::Continue(());
        wrapped::joined(view, 0, self.longest, |lines| {
            if flow.is_continue() {
                flow = self.unbroken(&lines.text, &mut |range| {
                    lines.broken(range).map_or(ControlFlow::Continue(()), &mut hit)
                });
            }
        });
        flow
    }

    fn pending(&self, view: View<'_>) -> usize {
        let mut pending = self.prefixes().pending(&self.patterns, view.text);
        // Breaks are shorter than the shortest line that is joined.
        let from = view.text.len().saturating_sub(3 * (self.longest + wrapped::LINE));
        wrapped::joined(view, from, self.longest, |lines| {
            let at = self.prefixes().pending(&self.patterns, &lines.text);
            if lines.is_open && at < lines.text.len() {
                pending = pending.min(lines.place(at));
            }
        });
        pending
    }
}

/// Answers whether a text ends within a pattern. Only streams need it, so it is made on first use.
struct Prefixes {
    /// Pattern numbers in the order of their bytes.
    sorted: Vec<u32>,
    /// One bit for each pair of first bytes.
    pairs: Box<[u64; 1024]>,
    longest: usize,
}

impl Prefixes {
    fn new(patterns: &Arena) -> Self {
        let mut sorted: Vec<u32> = (0_u32..).zip(patterns.iter()).map(|(number, _)| number).collect();
        sorted.sort_unstable_by(|a, b| patterns.get(*a as usize).cmp(patterns.get(*b as usize)));
        let mut pairs = Box::new([0_u64; 1024]);
        for pair in patterns.iter().filter_map(|pattern| pattern.first_chunk()) {
            let pair = u16::from_le_bytes(*pair);
            if let Some(word) = pairs.get_mut(usize::from(pair >> 6)) {
                *word |= 1 << (pair & 63);
            }
        }
        let longest = patterns.iter().map(<[u8]>::len).max().unwrap_or(0);
        Self { sorted, pairs, longest }
    }

    /// Start of the longest end of `text` that is a proper prefix of a pattern.
    fn pending(&self, patterns: &Arena, text: &[u8]) -> usize {
        let first = (text.len() + 1).saturating_sub(self.longest);
        (first..text.len())
            .find(|&at| text.get(at..).is_some_and(|end| self.begins_pattern(patterns, end)))
            .unwrap_or(text.len())
    }

    fn begins_pattern(&self, patterns: &Arena, end: &[u8]) -> bool {
        if let Some(pair) = end.first_chunk() {
            let pair = u16::from_le_bytes(*pair);
            let word = self.pairs.get(usize::from(pair >> 6)).copied().unwrap_or(0);
            if word >> (pair & 63) & 1 == 0 {
                return false;
            }
        }
        // The first pattern after `end` itself starts with it if any longer one does.
        let after = self.sorted.partition_point(|&number| patterns.get(number as usize) <= end);
        self.sorted.get(after).is_some_and(|&number| patterns.get(number as usize).starts_with(end))
    }
}

/// Values below 6 bytes, raw.
pub(crate) struct Short {
    values: Arena,
}

impl Short {
    pub(crate) fn is_empty(&self) -> bool {
        self.values.ranges.is_empty()
    }
}

impl Patterns for Short {
    fn find(&self, view: View<'_>, mut hit: impl FnMut(Range<usize>) -> ControlFlow<()>) -> ControlFlow<()> {
        for value in self.values.iter() {
            let finder = Finder::new(value);
            let mut from = 0;
            while let Some(at) = view.text.get(from..).and_then(|rest| finder.find(rest)) {
                let range = from + at..from + at + value.len();
                from = range.start + 1;
                if view.is_border(range.start) && view.is_border(range.end) {
                    hit(range)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// A whole value at the end waits too: what follows decides whether it stands alone.
    fn pending(&self, view: View<'_>) -> usize {
        let text = view.text;
        (text.len().saturating_sub(SHORT - 1)..text.len())
            .find(|&at| text.get(at..).is_some_and(|end| self.values.iter().any(|v| v.starts_with(end))))
            .unwrap_or(text.len())
    }
}
