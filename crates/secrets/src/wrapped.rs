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
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

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
    let first_run =
        |line: usize| text.get(line..).unwrap_or_default().iter().take_while(|byte| is_code(**byte)).count();
    // The second half of an escape whose first half is gone already.
    let is_half = view.before() == Some(b'\\') && matches!(text.first(), Some(b'n' | b'r'));
    let mut line = from.max(usize::from(is_half));
    let mut at = line;
    let mut open: Option<Joined> = None;
    while let Some(next) = text.get(at..).and_then(|rest| memchr::memchr3(b'\n', b'\r', b'\\', rest)) {
        let start = at + next;
        let end = start + break_at(text, start);
        if end == start {
            at = start + 1;
            continue;
        }
        open = open.and_then(|mut lines| {
            let run = first_run(line).min(start - line);
            append(&mut lines, text, line..line + run);
            let goes_on = line + run == start;
            if goes_on {
                Some(lines)
            } else {
                each(lines);
                None
            }
        });
        let this = text.get(line..start).unwrap_or_default().iter().rev();
        let run = this.take(longest.max(LINE)).take_while(|byte| is_code(**byte)).count();
        let before = if run == start { view.run() } else { 0 };
        if run + before >= LINE && text.get(end).is_none_or(|byte| is_code(*byte)) {
            let lines = open.get_or_insert_with(|| {
                let mut lines = Joined::default();
                append(&mut lines, text, start - run..start);
                lines
            });
            lines.is_open = end == text.len();
        } else if let Some(lines) = open.take() {
            each(lines);
        }
        (line, at) = (end, end);
    }
    if let Some(mut lines) = open {
        let run = first_run(line);
        append(&mut lines, text, line..line + run);
        lines.is_open = line + run == text.len();
        each(lines);
    }
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
