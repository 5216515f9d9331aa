//! `mur trace list`: one row a session, newest first.
//!
//! Rows are printed as they are read. A trace that cannot be read is a row like any other and says why:
//! one damaged record must not hide the rest.

use std::io::{self, Write as _};

use record::{Home, TraceSummary};
use serde_json::{Map, Value};
use vocab::SessionId;

use super::text::{BOLD, colour, inline, lasted, utc};
use super::{failure, home, unended};
use crate::args::JsonArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Capsule and error texts are cut at so many characters.
const WIDE: usize = 80;

pub(crate) fn list(args: &JsonArgs) -> Result<u8, Failure> {
    let home = home()?;
    let sessions = home.sessions().map_err(|error| failure(&error))?;
    let mut out = if args.json { Output::plain() } else { Output::styled() };
    if !args.json && sessions.is_empty() {
        out.finish()?;
        writeln!(anstream::stderr(), "no sessions on record in `{}`", home.path().display())?;
        return Ok(0);
    }
    head(&mut out, args.json)?;
    let mut first = true;
    for session in &sessions {
        if out.gone() {
            break;
        }
        let Some(row) = Row::read(&home, session) else { continue };
        if args.json {
            out.write_all(if first { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut out, &row.json()).map_err(io::Error::from)?;
        } else {
            row.print(&mut out)?;
        }
        first = false;
    }
    if args.json {
        out.write_all(if first { b"]\n" } else { b"\n]\n" })?;
    }
    out.finish()?;
    Ok(0)
}

fn head(out: &mut Output, json: bool) -> io::Result<()> {
    if json {
        return out.write_all(b"[");
    }
    writeln!(
        out,
        "{BOLD}{:<36}  {:<19}  {:<11}  {:>5}  {:>5}  {:>15}  {:>11}  CAPSULE{BOLD:#}",
        "SESSION", "STARTED (UTC)", "STATUS", "TURNS", "CALLS", "TOKENS IN/OUT", "TIME"
    )
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

    fn print(&self, out: &mut Output) -> io::Result<()> {
        let status = inline(&self.status, WIDE);
        let style = colour(&self.status);
        let Some(summary) = &self.summary else {
            let why = self.error.as_deref().map(|error| format!("  {}", inline(error, 2 * WIDE))).unwrap_or_default();
            let pad = if why.is_empty() { 0 } else { 11 };
            let session = self.session.as_str();
            return writeln!(out, "{session:<36}  {:<19}  {style}{status:<pad$}{style:#}{why}", "");
        };
        let tokens = format!("{}/{}", summary.input_tokens, summary.output_tokens);
        writeln!(
            out,
            "{:<36}  {:<19}  {style}{status:<11}{style:#}  {:>5}  {:>5}  {tokens:>15}  {:>11}  {} {}{}",
            self.session.as_str(),
            utc(summary.started_ms),
            summary.turns,
            summary.tool_calls,
            lasted(summary.duration_ms),
            inline(&summary.capsule, WIDE),
            inline(&summary.capsule_version, WIDE),
            if summary.scripted { " (scripted)" } else { "" },
        )
    }
}
