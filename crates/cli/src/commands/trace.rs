//! `mur trace`: the records of sessions, for people and for programs.
//!
//! A trace is read line by line and printed as it is read, so one of any length needs no more memory
//! than its longest line. What stands in it is foreign text: people get it with its control characters
//! escaped, programs get it as JSON. Reading changes nothing, and shows also what is damaged or cut off.

mod list;
mod show;
mod steered;
mod steps;
mod text;
mod totals;
mod tree;
mod verify;

use std::path::Path;

use record::{Home, TraceKey};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use serde_json::json;

pub(crate) use self::list::list;
pub(crate) use self::show::show;
pub(crate) use self::steps::steps;
pub(super) use self::text::BOLD;
pub(crate) use self::text::{lasted, utc};
pub(crate) use self::verify::verify;
use crate::args::JsonArgs;
use crate::failure::Failure;
use crate::launch::record_failure;
use crate::output::Output;
use crate::terminal::printable;

/// Prints the public half of the home's key, which is made when there is none.
pub(crate) fn key(args: &JsonArgs) -> Result<u8, Failure> {
    let home = home()?;
    let key = TraceKey::load_or_create(&home).map_err(|error| failure(&error))?.public();
    let mut out = Output::plain();
    if args.json {
        out.json(&json!({ "public_key": key.to_string(), "key_file": home.trace_key_path() }))?;
    } else {
        use std::io::Write as _;
        writeln!(out, "{key}")?;
    }
    out.finish()?;
    Ok(0)
}

fn home() -> Result<Home, Failure> {
    Home::from_env().map_err(|error| failure(&error))
}

/// A damaged line is a finding (1); everything else is something that cannot be used (2).
fn failure(error: &record::Error) -> Failure {
    match error {
        record::Error::BadLine { .. } => {
            Failure::failed(printable(&error.to_string())).code(error.code()).hint(error.hint())
        }
        _ => record_failure(error),
    }
}

/// The state of a session whose trace has no end.
///
/// Its writer holds a lock on the trace for as long as it lives, however it ends, so the lock tells a
/// session that runs from one that was killed; process ids are given out again and cannot. The trace
/// must have a line already: its writer has the lock by then, and a look cannot get in its way.
fn unended(path: &Path) -> &'static str {
    // What stands there now may be another file than the one that was read: it is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return "unfinished" };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => "running",
        Ok(()) => "killed",
        // A file system without locks.
        Err(_) => "unfinished",
    }
}
