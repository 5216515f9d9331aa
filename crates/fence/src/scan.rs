//! Finds forged markers and look-alikes, whole or over chunks; it rewrites nothing.
//!
//! A look-alike is text that folds to a marker. The matcher is a bit-parallel automaton over the
//! folded units of the text (see `scan/unit.rs`), so a unit may mean several things at once (`\n` is
//! an escaped newline or a backslash before an `n`), time is linear on any input, and the state
//! between chunks is a few words and at most one unfinished unit. Only text that may open a marker
//! leaves the byte search, which is why ordinary text costs little. It finds no look-alike that is
//! spelled with a unit over 64 bytes long, and none that only an image or a rendering shows.

mod fold;
mod unit;

pub(crate) use fold::is_invisible;
use fold::{MATCHED, SLASH, START};
use unit::{LONGEST_UNIT, Unit, decode};

/// What a scan found, by the first reason that applies in the order of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// `<untrusted-content` in ASCII, any case: a forged marker, which the fence rewrites.
    Opener,
    /// `</untrusted-content` in ASCII, any case: a forged marker, which the fence rewrites.
    Closer,
    /// A look-alike with an HTML entity in it: `&lt;`, `&#60;`, `&#x003c;`.
    Entity,
    /// A look-alike with a backslash in it: `<\/`, `\u003c`, `\x3c`.
    Escape,
    /// A look-alike with percent-encoding in it: `%3C`.
    Percent,
    /// A look-alike with full-width, homoglyph or otherwise foreign brackets, letters or dashes.
    Homoglyph,
    /// A look-alike with zero-width or control characters in it, or in Unicode tag characters.
    Invisible,
    /// A look-alike with white space in it.
    Spaced,
}

impl FindingKind {
    /// Whether this is a marker itself, which the fence rewrites, and not a look-alike.
    #[must_use]
    pub fn is_forged(self) -> bool {
        matches!(self, Self::Opener | Self::Closer)
    }

    /// A stable lower-case name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opener => "opener",
            Self::Closer => "closer",
            Self::Entity => "entity",
            Self::Escape => "escape",
            Self::Percent => "percent",
            Self::Homoglyph => "homoglyph",
            Self::Invisible => "invisible",
            Self::Spaced => "spaced",
        }
    }
}

/// A forged marker or a look-alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Finding {
    /// Where it begins, in bytes from the start of the text.
    pub offset: usize,
    /// Its length in bytes, from its bracket to the last letter of its word.
    pub len: usize,
    /// What it is.
    pub kind: FindingKind,
}

/// Lists the forged markers and look-alikes of `content`, in order; no two overlap.
///
/// ```
/// use fence::FindingKind::{Closer, Entity};
///
/// let found = fence::scan("a</untrusted-content> &lt;/untrusted-content&gt;");
/// let shown: Vec<_> = found.iter().map(|f| (f.offset, f.len, f.kind)).collect();
/// assert_eq!(shown, [(1, 19, Closer), (22, 22, Entity)]);
/// ```
#[must_use]
pub fn scan(content: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    Scanner::new().run(content.as_bytes(), true, &mut |finding| found.push(finding));
    found
}

/// How many look-alikes `content` holds, forged markers not counted. Allocates nothing.
///
/// ```
/// assert_eq!(fence::count_lookalikes("< /untrusted-content> </untrusted-content>"), 1);
/// ```
#[must_use]
pub fn count_lookalikes(content: &str) -> usize {
    let mut count = 0;
    Scanner::new().run(content.as_bytes(), true, &mut |finding| {
        count += usize::from(!finding.kind.is_forged());
    });
    count
}

/// Scans a text that arrives in chunks, split anywhere: inside a marker, an entity or a character.
///
/// Invalid UTF-8 is allowed and matches nothing.
///
/// ```
/// let mut found = Vec::new();
/// let mut scanner = fence::Scanner::new();
/// scanner.push(b"text &l", |finding| found.push(finding));
/// scanner.push(b"t;untrusted-content", |finding| found.push(finding));
/// scanner.finish(|finding| found.push(finding));
/// assert_eq!(found, fence::scan("text &lt;untrusted-content"));
/// ```
#[derive(Debug, Default)]
#[must_use = "a scanner that is not finished may have an undecided end of the text"]
pub struct Scanner {
    /// Bytes of the text before `carry`.
    base: usize,
    /// An unfinished unit at the end of the text so far; shorter than `LONGEST_UNIT`.
    carry: Vec<u8>,
    /// The marker that may be under way.
    candidate: Option<Candidate>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    offset: usize,
    /// Bit `i`: the first `i` symbols of `/untrusted-content` are matched (the slash is optional).
    state: u32,
    /// How the units so far were spelled.
    spelling: u8,
    slash: bool,
}

impl Scanner {
    /// A scanner at the start of a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk and hands over what it completes.
    pub fn push(&mut self, chunk: &[u8], mut found: impl FnMut(Finding)) {
        let mut rest = chunk;
        if !self.carry.is_empty() {
            // Enough of the chunk to decide every unit that begins in the carry.
            let mut joined = std::mem::take(&mut self.carry);
            let carried = joined.len();
            let more = rest.get(..LONGEST_UNIT).unwrap_or(rest);
            joined.extend_from_slice(more);
            let used = self.run(&joined, false, &mut found);
            if used < carried {
                joined.drain(..used);
                self.carry = joined;
                return;
            }
            rest = rest.get(used - carried..).unwrap_or_default();
        }
        let used = self.run(rest, false, &mut found);
        self.carry.extend_from_slice(rest.get(used..).unwrap_or_default());
    }

    /// Ends the text and hands over what its end completes.
    pub fn finish(mut self, mut found: impl FnMut(Finding)) {
        let carry = std::mem::take(&mut self.carry);
        self.run(&carry, true, &mut found);
    }

    /// Scans `text`, which begins at `base`, up to its end or to a unit that needs more text.
    /// Gives the number of bytes used and moves `base` on by it.
    fn run(&mut self, text: &[u8], last: bool, found: &mut impl FnMut(Finding)) -> usize {
        let mut at = 0;
        loop {
            if self.candidate.is_none() {
                at = unit::next_opening(text, at);
            }
            let rest = text.get(at..).unwrap_or_default();
            let Some(unit) = decode(rest, last) else {
                break;
            };
            self.step(&unit, self.base + at, found);
            at += unit.len;
        }
        self.base += at;
        at
    }

    fn step(&mut self, unit: &Unit, offset: usize, found: &mut impl FnMut(Finding)) {
        if unit.meaning.opens {
            self.candidate = Some(Candidate { offset, state: START, spelling: unit.meaning.spelling, slash: false });
            return;
        }
        let Some(mut candidate) = self.candidate.take() else {
            return;
        };
        let matched = (candidate.state & unit.meaning.symbols) << 1;
        let kept = if unit.meaning.skips { candidate.state } else { 0 };
        candidate.slash |= candidate.state & unit.meaning.symbols & SLASH != 0;
        candidate.state = matched | kept;
        candidate.spelling |= unit.meaning.spelling;
        if candidate.state & MATCHED != 0 {
            found(Finding {
                offset: candidate.offset,
                len: offset + unit.len - candidate.offset,
                kind: kind(candidate),
            });
        } else if candidate.state != 0 {
            self.candidate = Some(candidate);
        }
    }
}

fn kind(candidate: Candidate) -> FindingKind {
    let has = |spelling: u8| candidate.spelling & spelling != 0;
    if has(fold::ENTITY) {
        FindingKind::Entity
    } else if has(fold::ESCAPE) {
        FindingKind::Escape
    } else if has(fold::PERCENT) {
        FindingKind::Percent
    } else if has(fold::HOMOGLYPH) {
        FindingKind::Homoglyph
    } else if has(fold::INVISIBLE) {
        FindingKind::Invisible
    } else if has(fold::SPACE) {
        FindingKind::Spaced
    } else if candidate.slash {
        FindingKind::Closer
    } else {
        FindingKind::Opener
    }
}
