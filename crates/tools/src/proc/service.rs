//! A process that is spoken to while it runs: a connection's server.
//!
//! It starts on the same terms as every other: cleared, held, limited. Its stdin and stdout are its caller's; what it
//! writes to stderr passes the redactor and goes to a log, all of its starts into one that is bounded. Nothing here
//! waits for its end: whoever drops the keeper has ended the whole tree.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use policy::{Cleared, Operation};
use sandbox::{Access, Class, Confinement, Grant, Process, Stdin};
use secrets::{Redactor, StreamRedactor};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{OnceCell, watch};
use tokio::time::timeout;

use super::capture::Capture;
use super::log::{Log, LogTarget};
use super::ways::Ways;
use super::{CHUNK, ProcessError, Processes, lock, visible};

/// How long the last words of a service are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A service to start.
pub(crate) struct ServiceJob {
    /// The arguments, `argv[0]` first. The program itself is what was cleared.
    pub(crate) argv: Vec<OsString>,
    /// The whole environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// A directory of its own, for its HOME and its temporary files: the agent's processes cannot reach it, and it
    /// cannot reach theirs.
    pub(crate) own: TempDir,
    /// What it may use besides what all processes of the session may.
    pub(crate) grants: Vec<Grant>,
    /// Where its stderr goes.
    pub(crate) log: Arc<ServiceLog>,
}

/// A service that runs.
pub(crate) struct Service {
    /// What it reads.
    pub(crate) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it answers with.
    pub(crate) stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Dropped, it ends the process and all that it started.
    pub(crate) keeper: Box<dyn Send>,
}

/// Starts what was cleared.
///
/// # Errors
/// When it could not be started: nothing ran then.
#[expect(clippy::disallowed_methods, reason = "it holds a `Cleared`")]
pub(crate) async fn serve(shared: &Processes, cleared: Cleared, job: ServiceJob) -> Result<Service, ProcessError> {
    if cleared.operation() != Operation::Execute {
        return Err(ProcessError::NotCleared);
    }
    let own = job.own.path();
    let (home, tmp) = (own.join("home"), own.join("tmp"));
    for directory in [&home, &tmp] {
        std::fs::create_dir(directory).map_err(|_| ProcessError::Pipes)?;
    }
    // It starts in an empty directory: what lies in the agent's, an interpreter would load.
    let mut confinement = Confinement::new(cleared.path(), &home);
    confinement.argv = job.argv;
    confinement.env = job.env;
    confinement.env.retain(|(name, _)| name != "HOME" && name != "TMPDIR");
    confinement.env.extend([("HOME".into(), home.into()), ("TMPDIR".into(), tmp.into())]);
    confinement.stdin = Stdin::Pipe;
    confinement.limits = shared.limits;
    shared.containment.hold(&mut confinement, &cleared, &job.grants)?;
    separate(&mut confinement, own);
    let ways = Ways::reserve(&shared.containment.egress, &mut confinement)?;
    let (mut process, _) = sandbox::spawn(&confinement).await?;
    let open = ways.serve(std::mem::take(&mut process.listeners))?;
    // The directory goes last.
    Service::of(process, job.log, (open, job.own))
}

/// Gives a process this directory in place of the one that the agent's processes share.
fn separate(confinement: &mut Confinement, own: &Path) {
    if confinement.class == Class::Advisory {
        return;
    }
    let shared = confinement.private.replace(own.to_owned());
    let is_shared = |path: &Path| shared.as_deref().is_some_and(|shared| path.starts_with(shared));
    let access = confinement.grants.iter().find(|grant| Some(&grant.path) == shared.as_ref()).map(|grant| grant.access);
    confinement.grants.retain(|grant| !is_shared(&grant.path));
    confinement.grants.push(Grant::new(own, access.unwrap_or(Access::Write)));
    confinement.masks.retain(|mask| !is_shared(&mask.path));
}

/// Starts a program that the operator runs: no agent has a part in it, so no review stands over it.
///
/// # Errors
/// When it could not be started: nothing ran then.
#[expect(clippy::disallowed_methods, reason = "the operator's own command, outside of any session")]
pub(crate) async fn serve_operator(
    mut confinement: Confinement,
    log: Arc<ServiceLog>,
) -> Result<Service, ProcessError> {
    confinement.stdin = Stdin::Pipe;
    let (process, _) = sandbox::spawn(&confinement).await?;
    Service::of(process, log, ())
}

impl Service {
    /// `open` ends with the process.
    pub(super) fn of(
        mut process: Process,
        log: Arc<ServiceLog>,
        open: impl Send + 'static,
    ) -> Result<Self, ProcessError> {
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(ProcessError::Pipes);
        };
        if let Some(stderr) = process.stderr.take() {
            // It ends with the process tree.
            log.writers.send_modify(|writers| *writers += 1);
            tokio::spawn(async move {
                log.drain(stderr).await;
                log.writers.send_modify(|writers| *writers -= 1);
            });
        }
        Ok(Self { stdin: Box::new(stdin), stdout: Box::new(stdout), keeper: Box::new((process, open)) })
    }
}

/// Where the stderr of a service goes, over all of its starts.
pub(crate) struct ServiceLog {
    redactor: Redactor,
    sink: Sink,
    /// How many write to it.
    writers: watch::Sender<usize>,
}

enum Sink {
    /// A file that comes into being with the first byte.
    File { target: LogTarget, log: OnceCell<Log> },
    /// The beginning and the end.
    Memory(Mutex<Capture>),
}

impl ServiceLog {
    /// A file in the directory for logs of the working directory.
    pub(crate) fn file(shared: &Processes, name: String) -> Self {
        let target = LogTarget { workdir: shared.workdir.clone(), call_id: name };
        let sink = Sink::File { target, log: OnceCell::new() };
        Self { redactor: shared.redactor.clone(), sink, writers: watch::Sender::new(0) }
    }

    /// Bounded memory.
    pub(crate) fn memory(redactor: Redactor) -> Self {
        Self { redactor, sink: Sink::Memory(Mutex::default()), writers: watch::Sender::new(0) }
    }

    /// The file, once there is one.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match &self.sink {
            Sink::File { log, .. } => log.get()?.path().map(Path::to_owned),
            Sink::Memory(_) => None,
        }
    }

    /// Waits for the last words of those that have ended, but not for those that go on.
    pub(crate) async fn settled(&self) {
        let _ = timeout(LAST_WORDS, self.writers.subscribe().wait_for(|writers| *writers == 0)).await;
    }

    /// What there is in memory, and forgets it.
    pub(crate) fn take(&self) -> String {
        let Sink::Memory(kept) = &self.sink else { return String::new() };
        let captured = std::mem::take(&mut *lock(kept)).finish();
        let mut text = visible(&captured.head);
        if captured.omitted > 0 {
            text.push_str(&format!("\n[... {} left out ...]\n", crate::show::bytes(captured.omitted)));
            text.push_str(&visible(&captured.tail));
        }
        text
    }

    async fn drain(&self, mut pipe: impl AsyncRead + Unpin) {
        let mut redactor = StreamRedactor::new(&self.redactor);
        let mut chunk = vec![0; CHUNK];
        loop {
            // A pipe that cannot be read any more has ended.
            let count = pipe.read(&mut chunk).await.unwrap_or(0);
            let Some(bytes) = chunk.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
            self.keep(&redactor.push_bytes(bytes)).await;
        }
        self.keep(&redactor.finish_bytes()).await;
    }

    async fn keep(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match &self.sink {
            Sink::File { target, log } => {
                let log = log.get_or_init(|| std::future::ready(Log::open(target, "stderr"))).await;
                log.push(bytes.to_vec()).await;
            }
            Sink::Memory(kept) => lock(kept).push(bytes),
        }
    }
}
