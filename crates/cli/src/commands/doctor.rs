//! `mur doctor`: what this host offers, and what to do about the rest.
//!
//! It changes nothing, and of a file that may hold secrets it tells who can use it and whether it is in its
//! form, never what is in it. A row fails when `mur run` would refuse to work; what makes a host weaker is a
//! warning.

mod connections;
mod home;
mod host;

use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::args::JsonArgs;
use crate::failure::{FAILED, Failure};
use crate::output::Output;
use crate::terminal::printable;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Row {
    name: &'static str,
    status: Status,
    finding: String,
    /// What to do; `null` when there is nothing to do.
    hint: Option<String>,
}

impl Row {
    fn ok(name: &'static str, finding: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, finding: finding.into(), hint: None }
    }

    fn warn(name: &'static str, finding: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, status: Status::Warn, finding: finding.into(), hint: Some(hint.into()) }
    }

    fn fail(name: &'static str, finding: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: Status::Fail, ..Self::warn(name, finding, hint) }
    }
}

/// Exit status 1 when a row fails.
pub(crate) fn run(args: &JsonArgs) -> Result<u8, Failure> {
    let mut rows = host::rows();
    rows.extend(home::rows());
    let mut out = if args.json { Output::plain() } else { Output::styled() };
    if args.json {
        out.json(&rows)?;
    } else {
        rows.iter().try_for_each(|row| print(&mut out, row))?;
    }
    out.finish()?;
    Ok(if rows.iter().any(|row| row.status == Status::Fail) { FAILED } else { 0 })
}

fn print(out: &mut Output, row: &Row) -> io::Result<()> {
    let (word, colour) = match row.status {
        Status::Ok => ("ok", AnsiColor::Green),
        Status::Warn => ("warn", AnsiColor::Yellow),
        Status::Fail => ("fail", AnsiColor::Red),
    };
    let style = colour.on_default();
    writeln!(out, "{style}{word:<4}{style:#}  {:<15}  {}", row.name, printable(&row.finding).replace('\n', "\\n"))?;
    match &row.hint {
        Some(hint) => {
            let dim = Style::new().dimmed();
            writeln!(out, "{:<23}{dim}hint: {}{dim:#}", "", printable(hint).replace('\n', "\\n"))
        }
        None => Ok(()),
    }
}
