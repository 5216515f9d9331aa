//! The process of a subagent: this program once more, on a line of its parent's own.
//!
//! It is a runtime and not a tool, so it is held as its parent is, by nothing but its own tools' reviews and
//! containment; what the kernel holds are the processes that it starts. Its tree ends with whoever keeps it.

use std::ffi::OsString;

use policy::{Cleared, Operation};
use sandbox::{Confinement, Stdin};
use secrets::Redactor;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{ProcessError, Service, ServiceLog};

/// A runtime that was started.
pub struct Subagent {
    /// What it reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it answers with.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it wrote to stderr, the beginning and the end.
    pub last_words: Box<dyn Fn() -> String + Send + Sync>,
    /// Dropped, it ends the process and all that it started.
    pub keeper: Box<dyn Send>,
}

/// Starts this program with these arguments in the directory that was cleared for delegation, in this one's environment
/// but for the variables that are to be left out.
///
/// # Errors
/// In words, when it could not be started: nothing ran then.
#[expect(clippy::disallowed_methods, reason = "it holds a `Cleared`")]
pub async fn start_subagent(
    cleared: Cleared,
    args: &[&str],
    left_out: &[String],
    redactor: &Redactor,
) -> Result<Subagent, String> {
    if cleared.operation() != Operation::Delegate {
        return Err(ProcessError::NotCleared.to_string());
    }
    // The very program that runs, also when its file was replaced since.
    // From where this one works: what its environment says in relative paths means the same.
    let here = std::env::current_dir().map_err(|error| format!("the working directory cannot be told: {error}"))?;
    let mut confinement = Confinement::new("/proc/self/exe", here);
    confinement.argv = std::iter::once("mur").chain(args.iter().copied()).map(OsString::from).collect();
    let left_out = |name: &OsString| left_out.iter().any(|other| name == other.as_str());
    confinement.env = std::env::vars_os().filter(|(name, _)| !left_out(name)).collect();
    confinement.stdin = Stdin::Pipe;
    let (process, _) = sandbox::spawn(&confinement).await.map_err(|error| error.to_string())?;
    let log = std::sync::Arc::new(ServiceLog::memory(redactor.clone()));
    let words = std::sync::Arc::clone(&log);
    let Service { stdin, stdout, keeper } = Service::of(process, log, ()).map_err(|error| error.to_string())?;
    Ok(Subagent { stdin, stdout, last_words: Box::new(move || words.take()), keeper })
}
