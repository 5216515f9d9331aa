//! How people see frames: as `mur run` shows its own task, with every foreign word printable.

use anstyle::{AnsiColor, Style};

use super::told::{CallResult, Told};
use crate::results;
use crate::terminal::printable;

pub(crate) use crate::results::DIM;

const YELLOW: Style = AnsiColor::Yellow.on_default();

/// The colour of a task's state.
pub(crate) fn state_colour(state: &str) -> Style {
    match state {
        "completed" => AnsiColor::Green.on_default(),
        "failed" | "rejected" | "canceled" => AnsiColor::Red.on_default(),
        "input-required" => YELLOW,
        _ => DIM,
    }
}

/// A call's result in lines, each with its newline.
pub(crate) fn call_result(call: &CallResult) -> String {
    let result = results::CallResult {
        tool_name: &call.tool_name,
        text: &call.text(),
        fenced: call.fence_source.is_some(),
        is_error: call.is_error,
        duration_ms: call.duration_ms.map(u128::from),
        command: call.exit_code.is_some(),
    };
    result.lines() + "\n"
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
