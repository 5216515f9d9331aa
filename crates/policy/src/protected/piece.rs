//! Pieces of something larger, such as a range of a file or a line of it.
//!
//! A value or a mark that an end of the piece goes through is recognised in the piece no more. So whoever cuts looks at
//! what is around as well, as far as [`ProtectedValues::reach`] says, and shows nothing of what lies across an end.
//! What lies within the piece is left to be taken out like everything else.

use std::borrow::Cow;
use std::ops::Range;

use secrets::MARK;

use super::layers::{Collected, collect};
use super::opening::{self, Found, Opening};
use super::{MAX_VALUE, ProtectedValues};

/// As far as a mark may reach: the longest value, and as much again for how it is written.
const MARK_REACH: usize = 2 * MAX_VALUE;

/// Where in some bytes there is what must not be shown in pieces. Ask [`ProtectedValues::hidden`] for one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hidden(
    /// In order, none overlapping another.
    Vec<Range<usize>>,
);

impl ProtectedValues {
    /// How many bytes before and behind a piece say what its ends go through.
    #[must_use]
    pub fn reach(&self) -> usize {
        self.redactor().reach().max(MARK_REACH)
    }

    /// What must not be shown in pieces of these bytes: known values, and marks. Bytes with a malformed mark are such
    /// a thing as a whole.
    #[must_use]
    pub fn hidden(&self, bytes: &[u8]) -> Hidden {
        let mut found = [self.redactor().places(bytes), marks(bytes)].concat();
        found.sort_unstable_by_key(|range| range.start);
        found.dedup_by(|next, last| {
            let overlaps = next.start < last.end;
            last.end = if overlaps { last.end.max(next.end) } else { last.end };
            overlaps
        });
        Hidden(found)
    }
}

impl Hidden {
    /// A piece of the bytes, with `[redacted]` in place of what lies across one of its ends.
    #[must_use]
    pub fn piece<'a>(&self, bytes: &'a [u8], piece: Range<usize>) -> Cow<'a, [u8]> {
        let start = self.across(piece.start).map_or(piece.start, |hidden| hidden.end);
        let end = self.across(piece.end).map_or(piece.end, |hidden| hidden.start);
        if start > end {
            return Cow::Borrowed(MARK.as_bytes());
        }
        let shown = bytes.get(start..end).unwrap_or_default();
        let mark = |is_cut: bool| if is_cut { MARK.as_bytes() } else { &[] };
        match (start > piece.start, end < piece.end) {
            (false, false) => Cow::Borrowed(shown),
            (before, behind) => Cow::Owned([mark(before), shown, mark(behind)].concat()),
        }
    }

    /// Whether this byte is a part of something hidden.
    #[must_use]
    pub fn covers(&self, at: usize) -> bool {
        self.first_behind(at).is_some_and(|hidden| hidden.start <= at)
    }

    /// What this place is within.
    fn across(&self, at: usize) -> Option<&Range<usize>> {
        self.first_behind(at).filter(|hidden| hidden.start < at)
    }

    /// The first that ends behind this place.
    fn first_behind(&self, at: usize) -> Option<&Range<usize>> {
        self.0.get(self.0.partition_point(|hidden| hidden.end <= at))
    }
}

fn marks(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut done) = (Vec::new(), 0);
    let all = || std::iter::once(0..bytes.len()).collect();
    if !opening::is_suspect(bytes) {
        return found;
    }
    loop {
        let Opening { start, level } = match opening::find(bytes, done) {
            Found::Nothing => return found,
            Found::At(opening) if opening.start >= done => opening,
            Found::At(_) | Found::Malformed => return all(),
        };
        match collect(bytes.get(start..).unwrap_or_default(), level) {
            Collected::Whole { len, .. } => {
                done = start + len;
                found.push(start..done);
            }
            Collected::Incomplete => {
                found.push(start..bytes.len());
                return found;
            }
            Collected::Malformed => return all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use secrets::{Redactor, Secret};

    use super::*;
    use crate::TaskIdentity;

    /// What is shown of a text up to each place, and from it on.
    fn pieces(text: &str, values: &[&str]) -> Vec<(String, String)> {
        let redactor = Redactor::new();
        values.iter().for_each(|value| redactor.learn(&Secret::new((*value).to_owned())));
        let values = ProtectedValues::new(TaskIdentity::default(), redactor);
        let hidden = values.hidden(text.as_bytes());
        let piece = |range: Range<usize>| String::from_utf8(hidden.piece(text.as_bytes(), range).into_owned()).unwrap();
        (0..=text.len()).map(|cut| (piece(0..cut), piece(cut..text.len()))).collect()
    }

    #[test]
    fn no_end_of_a_piece_shows_a_part_of_what_it_goes_through() {
        let mark = r#"{"$burrowSensitive":{"type":"token","value":"abcdefgh"}}"#;
        let open = format!("ab {}", mark.strip_suffix('}').unwrap());
        for (text, values, hidden) in [
            ("ab 12345678 cd", vec!["12345678"], 3..11),
            ("ab 4711 cd", vec!["4711"], 3..7),
            ("ab MTIzNDU2Nzg= cd", vec!["12345678"], 3..13),
            ("ab 12345678xyz", vec!["12345678", "5678xyz"], 3..14),
            (&format!("ab {mark} cd"), vec![], 3..3 + mark.len()),
            (&open, vec![], 3..open.len()),
            (r#"{'$burrowSensitive': {'value': 'x'}}"#, vec![], 0..36),
            ("the key $burrowSensitive, and 1234567", vec!["12345678"], 0..0),
        ] {
            let part = |range: Range<usize>| text.get(range).unwrap().to_owned();
            for (cut, (before, behind)) in pieces(text, &values).into_iter().enumerate() {
                let (start, end) = if hidden.start < cut && cut < hidden.end {
                    (format!("{}{MARK}", part(0..hidden.start)), format!("{MARK}{}", part(hidden.end..text.len())))
                } else {
                    (part(0..cut), part(cut..text.len()))
                };
                assert_eq!((before, behind), (start, end), "`{text}` at {cut}");
            }
        }
    }

    #[test]
    fn a_piece_within_something_hidden_is_a_mark_alone() {
        let redactor = Redactor::new();
        redactor.learn(&Secret::new("12345678".to_owned()));
        let hidden = ProtectedValues::new(TaskIdentity::default(), redactor).hidden(b"ab 12345678 12345678");
        assert_eq!(hidden.piece(b"ab 12345678 12345678", 5..8).as_ref(), MARK.as_bytes());
        assert_eq!(hidden.piece(b"ab 12345678 12345678", 5..14).as_ref(), format!("{MARK} {MARK}").as_bytes());
        assert_eq!([2, 3, 10, 11].map(|at| hidden.covers(at)), [false, true, true, false]);
    }
}
