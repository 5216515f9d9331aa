//! `mur ps`: the sessions that run in this home, and how each is doing.
//!
//! The running records say which there are; each is asked at its address for its status, all at the same
//! time and not for long. One that does not answer is listed as it is.

use std::io::Write as _;
use std::time::Duration;

use record::{Home, RunningSession};
use serde_json::{Value, json};
use tokio::time::timeout;
use vocab::{Clock as _, SystemClock};

use super::trace::{BOLD, lasted};
use crate::args::JsonArgs;
use crate::client::{Client, Target};
use crate::failure::Failure;
use crate::launch::record_failure;
use crate::output::Output;
use crate::terminal::{cut, tell};

/// How long a session has to say how it is.
const PATIENCE: Duration = Duration::from_secs(1);
const COLUMNS: usize = 6;
const HEAD: [&str; COLUMNS] = ["SESSION", "CAPSULE", "STATUS", "PID", "AGE", "URL"];
/// Words of a session's own are cut at so many characters.
const WIDE: usize = 80;

pub(crate) fn run(args: &JsonArgs) -> Result<u8, Failure> {
    let home = Home::from_env().map_err(|error| record_failure(&error))?;
    let sessions = home.running().map_err(|error| record_failure(&error))?;
    let mut out = if args.json { Output::plain() } else { Output::styled() };
    if sessions.is_empty() && !args.json {
        out.finish()?;
        tell(&format!("no session is running in `{}`\n", home.path().display()))?;
        return Ok(0);
    }
    let statuses = statuses(&sessions)?;
    let rows = sessions.iter().zip(&statuses);
    if args.json {
        let rows: Vec<Value> = rows.map(|(session, status)| document(session, status.as_deref())).collect();
        out.json(&rows)?;
    } else {
        let now = SystemClock.now_ms();
        let rows: Vec<_> = rows.map(|(session, status)| row(session, status.as_deref(), now)).collect();
        table(&mut out, &rows)?;
    }
    out.finish()?;
    Ok(0)
}

/// What each session says of itself; nothing where it does not.
fn statuses(sessions: &[RunningSession]) -> Result<Vec<Option<String>>, Failure> {
    if sessions.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let asked: Vec<_> =
            sessions.iter().map(|session| tokio::spawn(timeout(PATIENCE, status(session.clone())))).collect();
        let mut statuses = Vec::new();
        for answer in asked {
            statuses.push(answer.await.ok().and_then(Result::ok).flatten());
        }
        statuses
    }))
}

async fn status(session: RunningSession) -> Option<String> {
    let id = session.session_id.to_string();
    let client = Client::new(Target::public(&session.url).ok()?).ok()?;
    let health = client.health().await.ok()?;
    // Another may have the port by now.
    let ours = health.get("session_id").and_then(Value::as_str) == Some(id.as_str());
    let status = health.get("status").and_then(Value::as_str).filter(|_| ours)?;
    if status == "working" && asks(session).await == Some(true) {
        return Some("input required".to_owned());
    }
    Some(status.to_owned())
}

/// Whether a task of the session waits for an answer, as far as its operator can learn.
async fn asks(session: RunningSession) -> Option<bool> {
    let client = Client::new(Target::local(Home::from_env().ok()?, session).ok()?).ok()?;
    client.waits_for_an_answer().await.ok()
}

/// The running record, and the status.
fn document(session: &RunningSession, status: Option<&str>) -> Value {
    let mut document = json!(session);
    if let Some(document) = document.as_object_mut() {
        document.insert("status".into(), status.into());
    }
    document
}

fn row(session: &RunningSession, status: Option<&str>, now: u64) -> [String; COLUMNS] {
    [
        session.session_id.to_string(),
        cut(&format!("{} {}", session.capsule, session.version), WIDE),
        cut(status.unwrap_or("no answer"), WIDE),
        session.pid.to_string(),
        lasted(now.saturating_sub(session.started_ms)),
        cut(&session.url, WIDE),
    ]
}

/// Columns as wide as their longest cell; the last is free.
fn table(out: &mut Output, rows: &[[String; COLUMNS]]) -> std::io::Result<()> {
    let head = HEAD.map(str::to_owned);
    let mut widths = [0; COLUMNS];
    for row in std::iter::once(&head).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    if let Some(last) = widths.last_mut() {
        *last = 0;
    }
    write!(out, "{BOLD}")?;
    line(out, &head, &widths)?;
    writeln!(out, "{BOLD:#}")?;
    for row in rows {
        line(out, row, &widths)?;
        writeln!(out)?;
    }
    Ok(())
}

fn line(out: &mut Output, cells: &[String; COLUMNS], widths: &[usize; COLUMNS]) -> std::io::Result<()> {
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        write!(out, "{}{cell:<width$}", if column == 0 { "" } else { "  " })?;
    }
    Ok(())
}
