//! How people see frames: as `mur run` shows its own task, with every foreign word printable.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::told::{CallResult, Told};
use crate::terminal::{cut, one_line, printable};

pub(crate) const DIM: Style = Style::new().dimmed();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const WIDE: usize = 100;
/// How many of a command's last lines are shown.
const TAIL: usize = 8;

/// The colour of a task's state.
pub(crate) fn state_colour(state: &str) -> Style {
    match state {
        "completed" => AnsiColor::Green.on_default(),
        "failed" | "rejected" | "canceled" => AnsiColor::Red.on_default(),
        "input-required" => YELLOW,
        _ => DIM,
    }
}

/// A call's result in lines: what came of it and how long it took, and a command's last words. The fence's
/// markers are left out; they are for the model.
pub(crate) fn call_result(call: &CallResult) -> String {
    let text = call.text();
    let body = fence::parse(&text).block.map_or(text.as_str(), |block| block.content);
    let (mark, colour) = if call.is_error { ('✗', AnsiColor::Red) } else { ('✓', AnsiColor::Green) };
    let colour = colour.on_default();
    let said = match (&call.fence_source, call.is_error) {
        // The runtime's own words say why nothing ran: all of them count.
        (None, true) => one_line(body, WIDE * 5),
        (None, false) => format!("{} bytes of guidance", body.len()),
        (Some(_), _) => one_line(body, WIDE),
    };
    let mut lines = format!("  {colour}{mark}{colour:#} {}: {said}", one_line(&call.tool_name, WIDE));
    // Writing into a string cannot fail.
    if let Some(took) = call.duration_ms {
        let _ = write!(lines, " {DIM}({took} ms){DIM:#}");
    }
    lines.push('\n');
    if call.exit_code.is_some() {
        let words: Vec<&str> = body.lines().skip(1).filter(|line| !line.trim().is_empty()).collect();
        for line in words.iter().skip(words.len().saturating_sub(TAIL)) {
            let _ = writeln!(lines, "    {DIM}{}{DIM:#}", cut(line, WIDE));
        }
    }
    lines
}

/// What the stream says of itself, in a line.
pub(crate) fn notice(told: &Told) -> Option<String> {
    let text = match told {
        Told::Gap { first_available_id } => {
            format!("frames before number {first_available_id} are not kept any more")
        }
        Told::Lagged { skipped } => format!("{skipped} frames came faster than they were read, and are left out"),
        Told::Error { error } => format!("the session reports an error: {}", printable(error)),
        _ => return None,
    };
    Some(format!("{YELLOW}note{YELLOW:#}: {text}\n"))
}
