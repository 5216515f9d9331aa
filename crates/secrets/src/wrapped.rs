//! Encoded text that is broken into lines.
//!
//! `base64`, PEM and mail break what they encode at 60 to 76 characters, wherever in it a value stands. A break counts
//! where it follows at least [`LINE`] characters of an encoding and another one follows it; without such breaks the
//! text is put together again and searched. What a break is depends on nothing but the text before it, of which a
//! stream remembers as much as counts, so a text and its chunks break at the same places. Nearly all text has no such
//! line and is not copied.

use std::ops::Range;

use zeroize::Zeroizing;

use crate::stage::View;

/// The shortest line that is taken for one of an encoding.
pub(crate) const LINE: usize = 40;
/// The longest break, with the space that the next line is indented by.
const BREAK: usize = 64;

/// Whether a byte stands in base64 of either alphabet or in hex.
pub(crate) fn is_code(byte: u8) -> bool {
    CODE.get(usize::from(byte)).is_some_and(|is_code| *is_code)
}

const CODE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "it is below 256")]
        {
            let is_sign = matches!(byte as u8, b'+' | b'/' | b'-' | b'_');
            table[byte] = (byte as u8).is_ascii_alphanumeric() || is_sign;
        }
        byte += 1;
    }
    table
};

/// Lines, put together.
#[derive(Default)]
pub(crate) struct Joined {
    /// Without the breaks.
    pub(crate) text: Zeroizing<Vec<u8>>,
    /// Where each line begins in it, and where in what was searched.
    lines: Vec<(usize, usize)>,
    /// Whether what follows the text can belong to it.
    pub(crate) is_open: bool,
}

impl Joined {
    /// A place of the joined text where it was found.
    pub(crate) fn place(&self, at: usize) -> usize {
        let line = self.lines.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        self.lines.get(line).map_or(at, |(start, place)| place + (at - start))
    }

    /// Where a piece of it stands that a break goes through.
    pub(crate) fn broken(&self, piece: Range<usize>) -> Option<Range<usize>> {
        let (start, end) = (self.place(piece.start), self.place(piece.end.checked_sub(1)?) + 1);
        (end - start > piece.len()).then_some(start..end)
    }
}

/// Calls `each` with the lines that belong together, from the place `from` on; of a first line only its last `longest`
/// bytes.
pub(crate) fn joined(view: View<'_>, from: usize, longest: usize, mut each: impl FnMut(Joined)) {
    let text = view.text;
    let mut open: Option<Joined> = None;
    // Where the line begins that goes on with what is open, and from where on the next break is looked for.
    let (mut line, mut at) = (from, from);
    while let Some(start) = if open.is_some() { break_from(text, at) } else { line_end(view, at) } {
        let end = start + break_at(text, start);
        at = start + 1;
        if end == start {
            continue;
        }
        if let Some(lines) = &mut open {
            let run = code(text.get(line..start).unwrap_or_default().iter());
            append(lines, text, line..line + run);
            if line + run < start {
                open.take().into_iter().for_each(&mut each);
            }
        }
        line = end;
        if follows_line(view, start) && text.get(end).is_none_or(|byte| is_code(*byte)) {
            let run = code(text.get(..start).unwrap_or_default().iter().rev().take(longest.max(LINE)));
            let lines = open.get_or_insert_with(|| {
                let mut lines = Joined::default();
                append(&mut lines, text, start - run..start);
                lines
            });
            lines.is_open = end == text.len();
            at = end;
        } else {
            open.take().into_iter().for_each(&mut each);
        }
    }
    if let Some(mut lines) = open {
        let run = code(text.get(line..).unwrap_or_default().iter());
        append(&mut lines, text, line..line + run);
        lines.is_open = line + run == text.len();
        each(lines);
    }
}

/// Where the next break can be.
fn break_from(text: &[u8], from: usize) -> Option<usize> {
    memchr::memchr3(b'\n', b'\r', b'\\', text.get(from..)?).map(|place| from + place)
}

/// The same behind a line of an encoding. Nearly all text holds none, so it is looked at in steps: what is no part of
/// a line ends every line before it.
fn line_end(view: View<'_>, from: usize) -> Option<usize> {
    let text = view.text;
    if from == 0 && view.run() > 0 {
        let start = code(text.iter().take(LINE));
        if start + view.run() >= LINE && break_from(text, 0) == Some(start) {
            return Some(start);
        }
    }
    let mut at = from;
    while let Some(window) = text.get(at..at + LINE) {
        at = match window.iter().rposition(|byte| !is_code(*byte)) {
            Some(other) => at + other + 1,
            None => match break_from(text, at + LINE)? {
                start if follows_line(view, start) => return Some(start),
                start => start + 1,
            },
        };
    }
    None
}

/// Whether so much of an encoding stands before this place that it can be the end of a line.
fn follows_line(view: View<'_>, place: usize) -> bool {
    let run = code(view.text.get(..place).unwrap_or_default().iter().rev().take(LINE));
    run == LINE || (run == place && run + view.run() >= LINE)
}

/// How many bytes of an encoding come first.
fn code<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    bytes.take_while(|byte| is_code(**byte)).count()
}

fn append(lines: &mut Joined, text: &[u8], line: Range<usize>) {
    lines.lines.push((lines.text.len(), line.start));
    crate::secret::append(&mut lines.text, text.get(line).unwrap_or_default());
}

/// The length of the break that begins here: line ends, also escaped, and the space behind them; 0 when there is none.
fn break_at(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..(start + BREAK).min(text.len())).unwrap_or_default();
    let ends = start + rest.len() == text.len();
    let mut at = 0;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'\n' | b'\r' => at += 1,
            b' ' | b'\t' if at > 0 => at += 1,
            b'\\' => {
                let slashes = rest.iter().skip(at).take_while(|byte| **byte == b'\\').count();
                match rest.get(at + slashes) {
                    Some(b'n' | b'r') => at += slashes + 1,
                    // It may become one.
                    None if ends => at += slashes,
                    Some(_) | None => return at,
                }
            }
            _ => break,
        }
    }
    at
}
