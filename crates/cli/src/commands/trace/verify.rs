//! `mur trace verify`: whether a trace is whole and as it was written.
//!
//! Exit status 0 when it is, also when nothing vouches for it (a session that runs or was killed) or there
//! is no key to check its signature with, which is then a warning, and a failure where a signature is
//! required; 1 when it is broken; 2 when there is nothing to verify. Nothing is written, not even a key: a
//! home may be full or read-only, and a key made now could not have signed anything. A key that cannot be
//! used fails only the trace that needs one.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use record::{BreakReason, Home, PublicKey, TraceKey, VerifyReport, VerifyStatus};
use serde::Serialize;
use vocab::SessionId;

use super::text::{colour, inline};
use super::{failure, home};
use crate::args::VerifyArgs;
use crate::failure::{FAILED, Failure};
use crate::output::Output;
use crate::terminal::{self, count};

/// Paths are cut at so many characters.
const WIDE: usize = 400;

pub(crate) fn verify(args: &VerifyArgs) -> Result<u8, Failure> {
    let (path, session) = target(args)?;
    let (key, unusable) = match key(args) {
        Ok(key) => (key, None),
        Err(error) => (None, Some(error)),
    };
    let report =
        record::verify(&path, session.as_ref(), key.as_ref()).map_err(|error| super::record_failure(&error))?;
    if let Some(error) = unusable.filter(|_| args.public_key.is_some() || report.status == VerifyStatus::Unchecked) {
        return Err(failure(&error));
    }
    let shown = inline(&path.to_string_lossy(), WIDE);
    if args.session.json {
        document(&path, &report, key)?;
        if let VerifyStatus::Broken { .. } = report.status {
            return Ok(FAILED);
        }
    } else {
        tell(&report, &shown, key)?;
    }
    match missing(&report.status) {
        Some((why, hint)) if args.require_signature => {
            Err(Failure::failed(format!("a signature is required, and `{shown}` {why}")).code("E-REC-007").hint(hint))
        }
        why => {
            warn(&report, &shown, why)?;
            Ok(0)
        }
    }
}

/// Says for people how the trace stands.
fn tell(report: &VerifyReport, shown: &str, key: Option<PublicKey>) -> Result<(), Failure> {
    let lines = count(report.lines, "line");
    let mut out = Output::styled();
    match &report.status {
        VerifyStatus::Verified => {
            let style = colour("verified");
            let key = key.map(|key| key.to_string()).unwrap_or_default();
            writeln!(out, "{style}verified{style:#}: `{shown}`, {lines}, signed by {key}")?;
        }
        VerifyStatus::Unchecked => writeln!(out, "unchecked: `{shown}`, {lines}, each continues the one before")?,
        VerifyStatus::Unsigned(_) => writeln!(out, "unsigned: `{shown}`, {lines}, each continues the one before")?,
        VerifyStatus::Broken { line, reason } => {
            return Err(Failure::failed(format!("`{shown}` is broken: line {line} {reason}"))
                .code("E-REC-003")
                .hint(advice(reason)));
        }
    }
    Ok(out.finish()?)
}

/// The file, and the session whose trace it has to be.
fn target(args: &VerifyArgs) -> Result<(PathBuf, Option<SessionId>), Failure> {
    if let Some(file) = &args.file {
        return Ok((file.clone(), None));
    }
    let home = home()?;
    let session = home.find_session(&args.session.session).map_err(|error| failure(&error))?;
    Ok((home.trace_path(&session), Some(session)))
}

/// The key that was given, else the home's, if there is one.
fn key(args: &VerifyArgs) -> Result<Option<PublicKey>, record::Error> {
    match (&args.public_key, Home::from_env()) {
        (Some(text), _) => text.parse().map(Some),
        (None, Ok(home)) => Ok(TraceKey::load(&home)?.map(|key| key.public())),
        (None, Err(_)) => Ok(None),
    }
}

const NO_KEY: &str = "there is no key to check its signature with";

/// Why nothing vouches for a trace that holds together, and what to do.
fn missing(status: &VerifyStatus) -> Option<(String, &'static str)> {
    match status {
        VerifyStatus::Verified | VerifyStatus::Broken { .. } => None,
        VerifyStatus::Unsigned(why) => Some((
            format!("is unsigned: {why}"),
            "a session that runs or was killed has no signed end; if it ended well, compare the file with a copy",
        )),
        VerifyStatus::Unchecked => {
            Some((format!("is signed, but {NO_KEY}"), "name the key of the home that wrote it with `--public-key`"))
        }
    }
}

/// Says on stderr why nothing vouches for the trace.
fn warn(report: &VerifyReport, shown: &str, missing: Option<(String, &str)>) -> std::io::Result<()> {
    let Some((why, hint)) = missing else { return Ok(()) };
    let style = colour("unfinished");
    let mut lines = format!("{style}warning{style:#}: `{shown}` {why}\n");
    if report.torn_bytes > 0 {
        let bytes = count(report.torn_bytes, "byte");
        lines.push_str(&format!("  {bytes} of an unfinished line follow the last whole one\n"));
    }
    if report.status == VerifyStatus::Unchecked {
        lines.push_str(&format!("  hint: {hint}\n"));
    }
    terminal::tell(&lines)
}

fn advice(reason: &BreakReason) -> &'static str {
    match reason {
        BreakReason::OtherKey { .. } => "check it with `--public-key` and the key of the home that wrote it",
        _ => "the file was changed after it was written; compare it with a copy",
    }
}

#[derive(Serialize)]
struct Document<'a> {
    path: &'a str,
    session_id: Option<&'a SessionId>,
    /// `verified`, `unsigned`, `unchecked` or `broken`.
    status: &'a str,
    /// Whole lines that hold together from the start.
    lines: u64,
    torn_bytes: u64,
    /// The line to which a break is put down.
    line: Option<u64>,
    /// Why it is unsigned, unchecked or broken.
    reason: Option<String>,
    /// The key that it was checked with, if there was one.
    public_key: Option<String>,
}

fn document(path: &Path, report: &VerifyReport, key: Option<PublicKey>) -> std::io::Result<()> {
    let path = path.to_string_lossy();
    let (status, line, reason) = match &report.status {
        VerifyStatus::Verified => ("verified", None, None),
        VerifyStatus::Unsigned(why) => ("unsigned", None, Some(why.to_string())),
        VerifyStatus::Unchecked => ("unchecked", None, Some(NO_KEY.to_owned())),
        VerifyStatus::Broken { line, reason } => ("broken", Some(*line), Some(reason.to_string())),
    };
    let document = Document {
        path: &path,
        session_id: report.session.as_ref(),
        status,
        lines: report.lines,
        torn_bytes: report.torn_bytes,
        line,
        reason,
        public_key: key.map(|key| key.to_string()),
    };
    let mut out = Output::plain();
    out.json(&document)?;
    out.finish()
}
