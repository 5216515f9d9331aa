//! `mur trace list`: one row a session, newest first.
//!
//! A trace that cannot be read is a row like any other and says why: one damaged record must not hide the
//! rest.

use std::io::{self, Write as _};

use anstyle::Style;
use record::{Home, TraceSummary};
use serde_json::{Map, Value};
use vocab::SessionId;

use super::text::{BOLD, colour, inline, lasted, utc};
use super::{failure, home, unended};
use crate::args::ListArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::tell;

/// Capsule and error texts are cut at so many characters.
const WIDE: usize = 80;

pub(crate) fn list(args: &ListArgs) -> Result<u8, Failure> {
    let home = home()?;
    let sessions = home.sessions().map_err(|error| failure(&error))?;
    let rows = sessions.iter().filter_map(|session| Row::read(&home, session));
    let is_subagent = |row: &Row<'_>| row.summary.as_ref().is_some_and(|summary| summary.parent.is_some());
    let rows = rows.filter(|row| args.all || !is_subagent(row));
    if args.json {
        document(rows)?;
    } else if sessions.is_empty() {
        // The table would have no row.
        Output::styled().finish()?;
        tell(&format!("no sessions on record in `{}`\n", home.path().display()))?;
    } else {
        table(rows)?;
    }
    Ok(0)
}

/// An array, each row as it is read.
fn document<'a>(rows: impl Iterator<Item = Row<'a>>) -> io::Result<()> {
    let mut out = Output::plain();
    let mut separator: &[u8] = b"[\n";
    for row in rows {
        out.write_all(separator)?;
        serde_json::to_writer(&mut out, &row.json())?;
        separator = b",\n";
        if out.gone() {
            break;
        }
    }
    out.write_all(if separator == b",\n" { b"\n]\n" } else { b"[]\n" })?;
    out.finish()
}

/// As many of a session's conversations are named.
const NAMED: usize = 3;

const HEAD: [&str; COLUMNS] =
    ["SESSION", "STARTED (UTC)", "STATUS", "TASKS", "TURNS", "CALLS", "TOKENS IN/OUT", "TIME"];
/// Columns but the last, which is free.
const COLUMNS: usize = 8;
/// Words stand at the left of a column, numbers at its right.
const FIRST_NUMBER: usize = 3;
/// The column whose colour says how a session stands.
const STATUS: usize = 2;

/// A line of the table: its cells, and what follows them.
struct Line {
    cells: [String; COLUMNS],
    style: Style,
    rest: String,
}

/// Columns as wide as their longest cell, so all rows are read before the first is printed.
fn table<'a>(rows: impl Iterator<Item = Row<'a>>) -> io::Result<()> {
    let lines: Vec<Line> = rows.map(|row| row.line()).collect();
    let mut widths = HEAD.map(str::len);
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(&line.cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = Output::styled();
    let head = Line { cells: HEAD.map(str::to_owned), style: Style::new(), rest: "CAPSULE, CONTEXTS".to_owned() };
    write!(out, "{BOLD}")?;
    head.print(&mut out, &widths)?;
    writeln!(out, "{BOLD:#}")?;
    for line in &lines {
        line.print(&mut out, &widths)?;
        writeln!(out)?;
        if out.gone() {
            break;
        }
    }
    out.finish()
}

impl Line {
    /// Whether it has numbers; without them the rest follows the status.
    fn is_whole(&self) -> bool {
        self.cells.iter().skip(FIRST_NUMBER).any(|cell| !cell.is_empty())
    }

    fn print(&self, out: &mut Output, widths: &[usize; COLUMNS]) -> io::Result<()> {
        let last = if self.is_whole() { COLUMNS } else { FIRST_NUMBER };
        for (column, (cell, &width)) in self.cells.iter().zip(widths).take(last).enumerate() {
            let style = if column == STATUS { self.style } else { Style::new() };
            let gap = if column == 0 { "" } else { "  " };
            if column >= FIRST_NUMBER {
                write!(out, "{gap}{cell:>width$}")?;
            } else if column + 1 == last && self.rest.is_empty() {
                write!(out, "{gap}{style}{cell}{style:#}")?;
            } else {
                write!(out, "{gap}{style}{cell:<width$}{style:#}")?;
            }
        }
        if self.rest.is_empty() { Ok(()) } else { write!(out, "  {}", self.rest) }
    }
}

/// What is known of a session.
struct Row<'a> {
    session: &'a SessionId,
    status: String,
    error: Option<String>,
    summary: Option<TraceSummary>,
}

impl<'a> Row<'a> {
    /// `None` when its records were removed since they were listed.
    fn read(home: &Home, session: &'a SessionId) -> Option<Self> {
        let path = home.trace_path(session);
        let row = match TraceSummary::read(&path) {
            Ok(Some(mut summary)) => {
                let ended = summary.ended.take();
                let (status, error) =
                    ended.map_or_else(|| (unended(&path).to_owned(), None), |end| (end.status, end.error));
                Self { session, status, error, summary: Some(summary) }
            }
            Ok(None) => Self { session, status: "empty".into(), error: None, summary: None },
            Err(record::Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                if !home.session_dir(session).exists() {
                    return None;
                }
                Self { session, status: "empty".into(), error: None, summary: None }
            }
            Err(error) => Self { session, status: "unreadable".into(), error: Some(error.to_string()), summary: None },
        };
        Some(row)
    }

    /// The summary's own keys between those that every row has.
    fn json(&self) -> Map<String, Value> {
        let mut row = Map::new();
        row.insert("session_id".into(), self.session.as_str().into());
        row.insert("status".into(), self.status.as_str().into());
        row.insert("error".into(), self.error.as_deref().into());
        if let Some(Ok(Value::Object(summary))) = self.summary.as_ref().map(serde_json::to_value) {
            // The directory's name counts, whatever the file says; the end is told above.
            row.extend(summary.into_iter().filter(|(key, _)| key != "session_id" && key != "ended"));
        }
        row
    }

    fn line(&self) -> Line {
        let (session, status) = (self.session.as_str().to_owned(), inline(&self.status, WIDE));
        let style = colour(&self.status);
        let Some(summary) = &self.summary else {
            let [empty, tasks, turns, calls, tokens, time] = Default::default();
            let rest = self.error.as_deref().map(|error| inline(error, 2 * WIDE)).unwrap_or_default();
            return Line { cells: [session, empty, status, tasks, turns, calls, tokens, time], style, rest };
        };
        let cells = [
            session,
            utc(summary.started_ms),
            status,
            summary.tasks.to_string(),
            summary.turns.to_string(),
            summary.tool_calls.to_string(),
            format!("{}/{}", summary.input_tokens, summary.output_tokens),
            lasted(summary.duration_ms),
        ];
        let scripted = if summary.scripted { " (scripted)" } else { "" };
        let parent = summary.parent.as_ref().map(|parent| format!("  subagent of {parent}")).unwrap_or_default();
        let (capsule, version) = (inline(&summary.capsule, WIDE), inline(&summary.capsule_version, WIDE));
        let rest = format!("{capsule} {version}{scripted}{parent}{}", contexts(summary));
        Line { cells, style, rest }
    }
}

/// The conversations of a session, behind what it ran. Ids of records hold nothing but letters, digits, `_` and `-`.
fn contexts(summary: &TraceSummary) -> String {
    let mut text = String::new();
    for context in summary.contexts.iter().take(NAMED) {
        text.push_str("  ");
        text.push_str(context.as_str());
    }
    match (summary.contexts.len().saturating_sub(NAMED), summary.more_contexts) {
        (0, false) => {}
        (0, true) => text.push_str("  and more"),
        (more, unsure) => text.push_str(&format!("  and {more}{} more", if unsure { "+" } else { "" })),
    }
    text
}
