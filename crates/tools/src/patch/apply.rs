//! Hunks applied to a file's content, in memory.
//!
//! A hunk goes where its header says, moved by as much as the hunk before it had to move. If its lines
//! do not stand there, it goes where they stand instead, but only when that is one place: the agent meant
//! some place, and a guess between two would be a change that nobody asked for. Lines must match byte for
//! byte, with one exception: a patch without any CR fits a file whose every line ends in CRLF.
//!
//! The crate that parses has an applier too; it takes the nearest of several places and does not say
//! which line differed.

use super::{FileDiff, Misfit, PatchError};
use crate::files::{LineEndings, excerpt};
use crate::show;

/// One hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The old file's first line, from 1; the line before it when the hunk has no old lines.
    pub(super) start: usize,
    pub(super) lines: Vec<Line>,
}

/// A line with its newline, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Context(Vec<u8>),
    Delete(Vec<u8>),
    Insert(Vec<u8>),
}

/// Line comparisons spent on one file before the search for a hunk's place is given up.
const MAX_COMPARISONS: usize = 20_000_000;

/// A file after its hunks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) content: Vec<u8>,
    /// Hunks that were not where their header says: number, and by how many lines.
    pub(super) moved: Vec<(usize, isize)>,
    /// Whether the patch was taken as CRLF.
    pub(super) as_crlf: bool,
}

impl FileDiff {
    /// The content after this change, given the content before; empty for a new file.
    ///
    /// # Errors
    /// [`PatchError::Misfit`] for a hunk that does not fit.
    pub fn apply(&self, before: &[u8]) -> Result<Vec<u8>, PatchError> {
        self.applied(before).map(|applied| applied.content)
    }

    pub(super) fn applied(&self, before: &[u8]) -> Result<Applied, PatchError> {
        let as_crlf =
            LineEndings::of(before).all_crlf() && !self.hunks.iter().flat_map(|hunk| &hunk.lines).any(Line::is_crlf);
        let file: Vec<&[u8]> = before.split_inclusive(|&byte| byte == b'\n').collect();
        let mut run = Run { file: &file, at: 0, moved: 0, comparisons: 0, content: Vec::with_capacity(before.len()) };
        let mut moved = Vec::new();
        for (index, hunk) in self.hunks.iter().enumerate() {
            let drift = run.moved;
            let converted;
            let hunk = if as_crlf {
                converted = hunk.as_crlf();
                &converted
            } else {
                hunk
            };
            run.hunk(hunk).map_err(|misfit| self.misfit(index + 1, misfit))?;
            if run.moved != drift {
                moved.push((index + 1, run.moved));
            }
        }
        run.keep(file.len());
        Ok(Applied { content: run.content, moved, as_crlf: as_crlf && !self.hunks.is_empty() })
    }

    /// Lines added and removed.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.hunks.iter().flat_map(|hunk| &hunk.lines).fold((0, 0), |(added, removed), line| match line {
            Line::Insert(_) => (added + 1, removed),
            Line::Delete(_) => (added, removed + 1),
            Line::Context(_) => (added, removed),
        })
    }

    fn misfit(&self, hunk: usize, misfit: Misfit) -> PatchError {
        let path = self.change.source().or(self.change.target()).map(show::path).unwrap_or_default();
        PatchError::Misfit { path, hunk, misfit }
    }
}

impl Line {
    fn text(&self) -> &Vec<u8> {
        match self {
            Self::Context(text) | Self::Delete(text) | Self::Insert(text) => text,
        }
    }

    fn is_crlf(&self) -> bool {
        self.text().ends_with(b"\r\n")
    }

    fn as_crlf(&self) -> Self {
        let mut text = self.text().clone();
        if text.ends_with(b"\n") {
            text.pop();
            text.extend_from_slice(b"\r\n");
        }
        match self {
            Self::Context(_) => Self::Context(text),
            Self::Delete(_) => Self::Delete(text),
            Self::Insert(_) => Self::Insert(text),
        }
    }
}

impl Hunk {
    fn as_crlf(&self) -> Self {
        Self { start: self.start, lines: self.lines.iter().map(Line::as_crlf).collect() }
    }

    fn before(&self) -> Vec<&[u8]> {
        let old = self.lines.iter().filter(|line| !matches!(line, Line::Insert(_)));
        old.map(|line| line.text().as_slice()).collect()
    }

    fn after(&self) -> Vec<&[u8]> {
        let new = self.lines.iter().filter(|line| !matches!(line, Line::Delete(_)));
        new.map(|line| line.text().as_slice()).collect()
    }
}

struct Run<'a> {
    file: &'a [&'a [u8]],
    /// The first line that no hunk has taken yet, from 0.
    at: usize,
    moved: isize,
    comparisons: usize,
    content: Vec<u8>,
}

impl Run<'_> {
    fn hunk(&mut self, hunk: &Hunk) -> Result<(), Misfit> {
        let (old, new) = (hunk.before(), hunk.after());
        // A header without old lines names the line before the place.
        let says = if old.is_empty() { hunk.start } else { hunk.start.saturating_sub(1) };
        let expected = says.saturating_add_signed(self.moved);
        let place = if self.stands(&old, expected) { expected } else { self.search(&old, &new, expected)? };
        self.moved += distance(expected, place);
        self.keep(place);
        for line in &new {
            self.push(line, place)?;
        }
        self.at = place + old.len();
        // Only the file's last line may lack its newline.
        match new.last().filter(|line| !line.ends_with(b"\n")) {
            Some(_) if self.at < self.file.len() => Err(Misfit::Newline { line: place + new.len() }),
            _ => Ok(()),
        }
    }

    /// Copies the lines up to one.
    fn keep(&mut self, until: usize) {
        for line in self.file.get(self.at..until).unwrap_or_default() {
            self.content.extend_from_slice(line);
        }
        self.at = until;
    }

    fn push(&mut self, line: &[u8], place: usize) -> Result<(), Misfit> {
        if !self.content.is_empty() && !self.content.ends_with(b"\n") {
            return Err(Misfit::Newline { line: place });
        }
        self.content.extend_from_slice(line);
        Ok(())
    }

    fn stands(&self, lines: &[&[u8]], place: usize) -> bool {
        place >= self.at && self.file.get(place..).is_some_and(|rest| rest.starts_with(lines))
    }

    /// The one other place where the lines stand.
    fn search(&mut self, old: &[&[u8]], new: &[&[u8]], expected: usize) -> Result<usize, Misfit> {
        let mut place = None;
        // The start of the longest beginning that stands somewhere, and its length.
        let mut nearest = (expected, 0);
        // Lines that are only inserted could stand anywhere: they go where the header says, or nowhere.
        let candidates = if old.is_empty() { self.file.len()..self.file.len() } else { self.at..self.file.len() };
        for start in candidates {
            let rest = self.file.get(start..).unwrap_or_default();
            let same = rest.iter().zip(old).take_while(|(line, old)| line == old).count();
            self.comparisons += same + 1;
            if self.comparisons > MAX_COMPARISONS {
                return Err(Misfit::Costly);
            }
            if same == old.len() {
                if let Some(first) = place {
                    return Err(Misfit::Ambiguous { lines: (first + 1, start + 1) });
                }
                place = Some(start);
            } else if same > nearest.1 {
                nearest = (start, same);
            }
        }
        match place {
            Some(place) => Ok(place),
            None if !new.is_empty() && self.stands(new, expected) => Err(Misfit::Applied { line: expected + 1 }),
            None => Err(self.differs(old, nearest)),
        }
    }

    /// What is wrong with the lines where they fit best.
    fn differs(&self, old: &[&[u8]], (start, same): (usize, usize)) -> Misfit {
        let expected = old.get(same).copied().unwrap_or_default();
        let line = start + same + 1;
        let Some(&found) = self.file.get(start + same) else {
            return Misfit::Ends { lines: self.file.len(), expected: excerpt(trim(expected)) };
        };
        if trim(found) == trim(expected) && found.ends_with(b"\n") != expected.ends_with(b"\n") {
            return Misfit::Newline { line };
        }
        let plain = |line: &[u8]| line.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<u8>>();
        if plain(found) == plain(expected) {
            return Misfit::WhiteSpace { line, expected: visible(expected), found: visible(found) };
        }
        Misfit::Differs { line, expected: excerpt(trim(expected)), found: excerpt(trim(found)) }
    }
}

fn distance(from: usize, to: usize) -> isize {
    // Both are positions in one vector.
    isize::try_from(to).unwrap_or(isize::MAX).saturating_sub(isize::try_from(from).unwrap_or(isize::MAX))
}

fn trim(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// A line with its white space spelled out.
fn visible(line: &[u8]) -> String {
    let line = trim(line);
    let line = line.get(..200).unwrap_or(line);
    String::from_utf8_lossy(line).replace('\t', "\\t").replace('\r', "\\r").replace(' ', "·")
}

#[cfg(test)]
mod tests;
