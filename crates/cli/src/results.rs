//! How people see a call's result, in their own session or in another's.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::terminal::{cut, one_line};

pub(crate) const DIM: Style = Style::new().dimmed();
const WIDE: usize = 100;
/// How many of a command's last lines are shown.
const TAIL: usize = 8;

/// What is shown of a call.
pub(crate) struct CallResult<'a> {
    pub(crate) tool_name: &'a str,
    /// The result as the model reads it.
    pub(crate) text: &'a str,
    pub(crate) fenced: bool,
    pub(crate) is_error: bool,
    /// Nothing for a call that never ran.
    pub(crate) duration_ms: Option<u128>,
    /// Whether a process ran, whose last words say most.
    pub(crate) command: bool,
}

impl CallResult<'_> {
    /// In lines, the last without its newline: what came of it and how long it took, and a command's last
    /// words. The fence's markers are left out; they are for the model.
    pub(crate) fn lines(&self) -> String {
        let parsed = fence::parse(self.text);
        let body = parsed.block.map_or(self.text, |block| block.content);
        let (mark, colour) = if self.is_error { ('✗', AnsiColor::Red) } else { ('✓', AnsiColor::Green) };
        let colour = colour.on_default();
        let said = match (self.fenced, self.is_error) {
            // The runtime's own words say why nothing ran: all of them count.
            (false, true) => one_line(body, WIDE * 5),
            (false, false) => format!("{} bytes of guidance", body.len()),
            (true, _) => one_line(body, WIDE),
        };
        let mut lines = format!("  {colour}{mark}{colour:#} {}: {said}", one_line(self.tool_name, WIDE));
        // Writing into a string cannot fail.
        if let Some(took) = self.duration_ms {
            let _ = write!(lines, " {DIM}({took} ms){DIM:#}");
        }
        if self.command {
            let words: Vec<&str> = body.lines().skip(1).filter(|line| !line.trim().is_empty()).collect();
            for line in words.iter().skip(words.len().saturating_sub(TAIL)) {
                let _ = write!(lines, "\n    {DIM}{}{DIM:#}", cut(line, WIDE));
            }
        }
        // What the runtime adds to a result.
        if self.fenced && !parsed.after.trim().is_empty() {
            let _ = write!(lines, "\n    {}", one_line(parsed.after.trim(), WIDE * 5));
        }
        lines
    }
}
