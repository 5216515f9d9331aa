//! `mur fence scan`: forged markers and look-alikes, with their places.
//!
//! The scanner tells offsets; lines, columns and the text shown come from a window of what was read last.
//! A look-alike may be stretched without end, so one that began before the window has neither: memory
//! stays bounded, and that is said rather than guessed.

use std::io::{self, Write as _};

use fence::{Finding, Scanner};
use serde::Serialize;

use super::each_chunk;
use crate::args::JsonArgs;
use crate::failure::{FAILED, Failure};
use crate::output::Output;

/// What is kept at least of what was read; twice as much at most, and one chunk.
const WINDOW: usize = 1 << 20;
/// Bytes of a finding that are shown.
const SHOWN: usize = 100;

/// Exit status 1 when something was found.
pub(crate) fn scan(args: &JsonArgs) -> Result<u8, Failure> {
    let mut out = if args.json { Output::plain() } else { Output::styled() };
    let mut report = Report { window: Window::new(), json: args.json, count: 0 };
    let mut scanner = Scanner::new();
    let mut found = Vec::new();
    if args.json {
        out.write_all(b"[")?;
    }
    each_chunk(|chunk| {
        report.window.push(chunk);
        scanner.push(chunk, |finding| found.push(finding));
        report.print(&mut out, &mut found)?;
        Ok(!out.gone())
    })?;
    scanner.finish(|finding| found.push(finding));
    report.print(&mut out, &mut found)?;
    if args.json {
        out.write_all(b"\n]\n")?;
    }
    out.finish()?;
    Ok(if report.count > 0 { FAILED } else { 0 })
}

struct Report {
    window: Window,
    json: bool,
    count: u64,
}

/// A finding as programs get it.
#[derive(Serialize)]
struct Row<'a> {
    /// Bytes from the start.
    offset: usize,
    /// Bytes.
    len: usize,
    /// From 1; `null` where the finding began too far back.
    line: Option<usize>,
    /// In characters, from 1.
    column: Option<usize>,
    kind: &'a str,
    /// Whether it is a marker itself, which the fence rewrites.
    forged: bool,
    /// The first bytes of it.
    text: Option<String>,
}

impl Report {
    fn print(&mut self, out: &mut Output, found: &mut Vec<Finding>) -> io::Result<()> {
        for finding in found.drain(..) {
            let place = self.window.place(finding.offset);
            let text = self.window.text(finding);
            if self.json {
                out.write_all(if self.count > 0 { b",\n" } else { b"\n" })?;
                let row = Row {
                    offset: finding.offset,
                    len: finding.len,
                    line: place.map(|(line, _)| line),
                    column: place.map(|(_, column)| column),
                    kind: finding.kind.as_str(),
                    forged: finding.kind.is_forged(),
                    text: text.map(|text| String::from_utf8_lossy(text).into_owned()),
                };
                serde_json::to_writer(&mut *out, &row)?;
            } else {
                let colour =
                    if finding.kind.is_forged() { anstyle::AnsiColor::Red } else { anstyle::AnsiColor::Yellow };
                let style = colour.on_default();
                let at = place.map_or_else(|| "?:?".into(), |(line, column)| format!("{line}:{column}"));
                let shown = text.map_or_else(|| "(begins too far back)".into(), escaped);
                let cut = if text.is_some_and(|text| text.len() < finding.len) { "…" } else { "" };
                let kind = finding.kind.as_str();
                writeln!(out, "{at}  {style}{kind}{style:#}  at byte {}  {shown}{cut}", finding.offset)?;
            }
            self.count += 1;
        }
        Ok(())
    }
}

/// Everything but printable ASCII as an escape: what a look-alike hides is what is to be seen.
fn escaped(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                ' '..='~' => shown.push(char),
                '\t' | '\n' | '\r' => shown.extend(char.escape_default()),
                other => shown.extend(other.escape_unicode()),
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// The bytes read last, and how many lines and characters went before a point in them.
struct Window {
    bytes: Vec<u8>,
    /// Where `bytes` begin.
    base: usize,
    /// A point at or behind `base`; findings come in order, so it only moves on.
    at: usize,
    line: usize,
    column: usize,
}

impl Window {
    fn new() -> Self {
        Self { bytes: Vec::new(), base: 0, at: 0, line: 1, column: 1 }
    }

    fn push(&mut self, chunk: &[u8]) {
        if self.bytes.len() > 2 * WINDOW {
            let dropped = self.bytes.len() - WINDOW;
            self.walk(self.base + dropped);
            self.bytes.drain(..dropped);
            self.base += dropped;
        }
        self.bytes.extend_from_slice(chunk);
    }

    /// Line and column of an offset, from 1.
    fn place(&mut self, offset: usize) -> Option<(usize, usize)> {
        (offset >= self.at).then(|| {
            self.walk(offset);
            (self.line, self.column)
        })
    }

    /// The first bytes of a finding, as far as the window still has them.
    fn text(&self, finding: Finding) -> Option<&[u8]> {
        let start = finding.offset.checked_sub(self.base)?;
        let rest = self.bytes.get(start..)?;
        rest.get(..finding.len.min(SHOWN)).or(Some(rest))
    }

    /// Moves the point on to an offset in the window.
    fn walk(&mut self, to: usize) {
        let Some(passed) = self.at.checked_sub(self.base).and_then(|at| self.bytes.get(at..to.checked_sub(self.base)?))
        else {
            return;
        };
        let last = match passed.iter().rposition(|&byte| byte == b'\n') {
            Some(newline) => {
                self.line += passed.iter().filter(|&&byte| byte == b'\n').count();
                self.column = 1;
                passed.get(newline + 1..).unwrap_or_default()
            }
            None => passed,
        };
        // A character has one byte that continues none.
        self.column += last.iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
        self.at = to;
    }
}

#[cfg(test)]
mod tests {
    use fence::{Finding, FindingKind};

    use super::{SHOWN, WINDOW, Window, escaped};

    #[test]
    fn places_count_lines_and_characters() {
        let mut window = Window::new();
        window.push("ä漢x\n".as_bytes());
        window.push(b"\nab<");
        assert_eq!(window.place(5), Some((1, 3)));
        assert_eq!(window.place(6), Some((1, 4)));
        assert_eq!(window.place(7), Some((2, 1)));
        assert_eq!(window.place(10), Some((3, 3)));
        assert_eq!(window.place(7), None);
    }

    #[test]
    fn the_window_is_bounded_and_lines_are_counted_through_it() {
        let mut window = Window::new();
        let chunk = [b"x".repeat(1023), b"\n".to_vec()].concat();
        for _ in 0..4 * WINDOW / 1024 {
            window.push(&chunk);
        }
        assert!(window.bytes.len() <= 2 * WINDOW + chunk.len(), "{}", window.bytes.len());
        let early = Finding { offset: 5, len: WINDOW, kind: FindingKind::Spaced };
        assert_eq!((window.place(early.offset), window.text(early)), (None, None));
        let late = Finding { offset: 4 * WINDOW - 1024, len: 1024, kind: FindingKind::Spaced };
        assert_eq!(window.place(late.offset), Some((4 * WINDOW / 1024, 1)));
        assert_eq!(window.text(late).unwrap(), b"x".repeat(SHOWN));
    }

    #[test]
    fn what_is_hidden_is_seen() {
        assert_eq!(escaped(b"<\xe2\x80\x8b/a\n\xff\x1b"), "<\\u{200b}/a\\n\\xff\\u{1b}");
    }
}
