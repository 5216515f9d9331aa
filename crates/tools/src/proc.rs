//! The one place in which tools start a process.
//!
//! `run` takes a [`Cleared`], so a program that no review saw cannot be started; beside it only `service` calls
//! `sandbox::spawn`. It bounds what a process can cost the agent: time, memory for its output, disk for
//! its log. What it writes passes first: marked values are taken out of it, then it is redacted, and only then is
//! anything cut or kept, because a secret that a cut went through could not be recognised any more. Both streams are drained in tasks of their own, so that neither a full pipe nor a slow disk
//! nor a process that hangs in the kernel keeps a result back for longer than the limit and the grace.
//!
//! What a process may do while it runs is the sandbox's business.

mod capture;
mod containment;
mod environment;
mod error;
mod log;
mod program;
mod report;
mod runtime;
mod service;
mod visible;
mod ways;

use std::borrow::Cow;
use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use manifest::Resources;
use policy::{Cancel, Cleared, Operation, ProtectedStream, ProtectedValues, Taken};
use sandbox::{Confinement, Exit, Limits, Process, SandboxError, Stdin};
use secrets::{Redactor, StreamRedactor};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::gateway::GatewayGrant;
use capture::Capture;
pub(crate) use capture::Captured;
pub(crate) use containment::{Boundary, Held};
pub use containment::{Containment, own_directory};
pub use environment::{Directories, EnvironmentGrant, ProcessEnvironment};
pub(crate) use error::{Halt, ProcessError};
use log::{Log, LogEnd, LogTarget};
pub(crate) use program::{executable, find};
pub use runtime::{Subagent, start_subagent};
pub(crate) use service::{Service, ServiceJob, ServiceLog, serve, serve_operator};
pub(crate) use visible::visible;
use ways::Ways;

/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(1);
/// After KILL: how long the end, the pipes and the log are waited for before the result goes without.
const PATIENCE: Duration = Duration::from_secs(1);
const CHUNK: usize = 64 * 1024;

/// What all processes of a session share.
#[derive(Debug)]
pub struct Processes {
    /// Where logs go, as a real path.
    pub workdir: PathBuf,
    /// The variables that each starts with.
    pub environment: ProcessEnvironment,
    /// Resource limits: `capabilities.resources`.
    pub limits: Limits,
    /// How each is held.
    pub containment: Containment,
    /// Services that commands and programs of the shell may use: `capabilities.shell.gateways`.
    pub gateways: Vec<GatewayGrant>,
    /// How long one may run: `capabilities.shell.timeout_secs`.
    pub timeout: Duration,
    /// What the session knows to be secret.
    pub redactor: Redactor,
}

/// The limits that a manifest sets, `capabilities.resources`.
#[must_use]
pub fn process_limits(resources: &Resources) -> Limits {
    Limits {
        cpu_seconds: resources.cpu_seconds,
        memory_bytes: resources.memory_bytes,
        max_processes: resources.max_processes,
        max_open_files: resources.max_open_files,
        max_file_size_bytes: resources.max_file_size_bytes,
    }
}

/// One process to run.
pub(crate) struct Job {
    /// The arguments, `argv[0]` first. The program itself is what was cleared.
    pub(crate) argv: Vec<OsString>,
    /// The whole environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// The real directory that was confirmed.
    pub(crate) cwd: PathBuf,
    /// Services that it may use while it runs.
    pub(crate) gateways: Vec<GatewayGrant>,
    /// What it reads; nothing when absent.
    pub(crate) stdin: Option<Vec<u8>>,
    /// How long it may run.
    pub(crate) timeout: Duration,
    /// The call whose log holds what is too long to show; no log when absent.
    pub(crate) log: Option<String>,
    /// Where marked values of its output go. Absent for a program whose output is read and not shown as it is.
    pub(crate) values: Option<ProtectedValues>,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, or by a signal that was not ours.
    Exited(Exit),
    /// It ran longer than this and was stopped.
    TimedOut(Duration),
    /// The call was canceled.
    Canceled,
    /// It could not be followed to its end.
    Lost(String),
}

/// One stream of a process that ran.
#[derive(Default)]
pub(crate) struct Stream {
    /// What was kept in memory.
    pub(crate) captured: Captured,
    /// What became of its log, when it needed one.
    pub(crate) log: Option<LogEnd>,
    /// What was taken out of it.
    pub(crate) taken: Taken,
}

/// A process that ran.
pub(crate) struct Finished {
    /// How it ended.
    pub(crate) end: End,
    /// Its output.
    pub(crate) stdout: Stream,
    /// Its error output.
    pub(crate) stderr: Stream,
    /// What held it; nothing when its start took too long.
    pub(crate) held: Option<Held>,
}

/// Starts what was cleared and follows it to its end.
///
/// # Errors
/// When it could not be started: nothing ran then.
#[expect(clippy::disallowed_methods, reason = "it holds a `Cleared`")]
pub(crate) async fn run(
    shared: &Processes,
    cleared: Cleared,
    job: Job,
    cancel: &mut Cancel,
) -> Result<Finished, ProcessError> {
    if cleared.operation() != Operation::Execute {
        return Err(ProcessError::NotCleared);
    }
    let mut confinement = Confinement::new(cleared.path(), job.cwd);
    confinement.argv = job.argv;
    confinement.env = job.env;
    confinement.stdin = job.stdin.map_or(Stdin::Null, Stdin::Bytes);
    confinement.limits = shared.limits;
    let projected = shared.containment.hold(&mut confinement, &cleared, &[])?;
    let ways = Ways::reserve(job.gateways.iter().chain(&shared.containment.egress), &mut confinement)?;
    // A program that stops its own helper before the start is reported must not hold the call.
    let Ok(started) = tokio::time::timeout(job.timeout, sandbox::spawn(&confinement)).await else {
        return Ok(Finished::never_began(job.timeout));
    };
    let (mut process, enforcement) = started?;
    let held = Some(projected.held(&enforcement));
    // They end with the process tree: this function does not return before.
    let _open = ways.serve(std::mem::take(&mut process.listeners))?;
    let log = job.log.map(|call_id| LogTarget { workdir: shared.workdir.clone(), call_id });
    let filters = || Filters {
        protector: job.values.as_ref().map(ProtectedStream::new),
        redactor: StreamRedactor::new(&shared.redactor),
    };
    let stdout = process.stdout.take().map(|pipe| Pump::start(pipe, "stdout", filters(), log.clone()));
    let stderr = process.stderr.take().map(|pipe| Pump::start(pipe, "stderr", filters(), log));
    let end = follow(&process, job.timeout, cancel).await;
    let until = Instant::now() + PATIENCE * 2;
    let (stdout, stderr) = (Pump::finish(stdout, until).await, Pump::finish(stderr, until).await);
    Ok(Finished { end, stdout, stderr, held })
}

impl Finished {
    fn never_began(limit: Duration) -> Self {
        Self { end: End::TimedOut(limit), stdout: Stream::default(), stderr: Stream::default(), held: None }
    }
}

/// Waits for the end, or brings it about.
async fn follow(process: &Process, limit: Duration, cancel: &mut Cancel) -> End {
    let early = match tokio::time::timeout(limit, ended_or_canceled(process, cancel)).await {
        Ok(Some(end)) => return exited(end),
        Ok(None) => End::Canceled,
        Err(_) => End::TimedOut(limit),
    };
    process.terminate(GRACE);
    // How it ends now says nothing about the command; what still hangs in the kernel is left to the
    // sandbox, which keeps on killing it.
    let _ = tokio::time::timeout(GRACE + PATIENCE, process.wait()).await;
    early
}

async fn ended_or_canceled(process: &Process, cancel: &mut Cancel) -> Option<Result<Exit, SandboxError>> {
    let mut ended = pin!(process.wait());
    let mut canceled = pin!(cancel.canceled());
    poll_fn(|context| {
        if let Poll::Ready(end) = ended.as_mut().poll(context) {
            return Poll::Ready(Some(end));
        }
        canceled.as_mut().poll(context).map(|()| None)
    })
    .await
}

fn exited(end: Result<Exit, SandboxError>) -> End {
    match end {
        Ok(exit) => End::Exited(exit),
        Err(error) => End::Lost(error.to_string()),
    }
}

/// What stands between a process's output and everything that keeps it.
struct Filters {
    protector: Option<ProtectedStream>,
    redactor: StreamRedactor,
}

impl Filters {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let bytes = match &mut self.protector {
            Some(protector) => protector.push(bytes),
            None => Cow::Borrowed(bytes),
        };
        self.redactor.push_bytes(&bytes).into_owned()
    }

    /// Whether what came so far is to be withheld, and all that may come.
    fn is_faulty(&self) -> bool {
        self.protector.as_ref().is_some_and(ProtectedStream::is_faulty)
    }

    fn finish(mut self) -> (Vec<u8>, Taken) {
        let (rest, taken) = self.protector.map(ProtectedStream::finish).unwrap_or_default();
        let mut last = self.redactor.push_bytes(&rest).into_owned();
        last.extend(self.redactor.finish_bytes());
        (last, taken)
    }
}

/// Drains one pipe.
struct Pump {
    kept: Arc<Mutex<Capture>>,
    task: JoinHandle<(Option<LogEnd>, Taken)>,
}

impl Pump {
    fn start(
        pipe: impl AsyncRead + Unpin + Send + 'static,
        stream: &'static str,
        filters: Filters,
        log: Option<LogTarget>,
    ) -> Self {
        let kept = Arc::new(Mutex::new(Capture::default()));
        let keeper = Keeper { kept: Arc::clone(&kept), stream, target: log, log: None };
        let task = tokio::spawn(drain(pipe, filters, keeper));
        Self { kept, task }
    }

    /// What the pipe brought. A pipe that does not end in time is given up, and what came of it counts.
    async fn finish(pump: Option<Self>, until: Instant) -> Stream {
        let Some(Self { kept, mut task }) = pump else { return Stream::default() };
        let (log, taken) = match tokio::time::timeout_at(until, &mut task).await {
            Ok(ended) => ended.unwrap_or_default(),
            Err(_) => {
                task.abort();
                Default::default()
            }
        };
        Stream { captured: std::mem::take(&mut *lock(&kept)).finish(), log, taken }
    }
}

async fn drain(mut pipe: impl AsyncRead + Unpin, mut filters: Filters, mut keeper: Keeper) -> (Option<LogEnd>, Taken) {
    let mut chunk = vec![0; CHUNK];
    loop {
        // A pipe that cannot be read any more has ended.
        let count = pipe.read(&mut chunk).await.unwrap_or(0);
        let Some(bytes) = chunk.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        let bytes = filters.push(bytes);
        if filters.is_faulty() {
            keeper.withhold().await;
        } else {
            keeper.keep(&bytes).await;
        }
    }
    let (bytes, taken) = filters.finish();
    if taken.is_faulty() {
        keeper.withhold().await;
    } else {
        keeper.keep(&bytes).await;
    }
    match keeper.log {
        Some(log) => (Some(log.finish(PATIENCE).await), taken),
        None => (None, taken),
    }
}

/// Puts one stream where it belongs: into memory, and into a log as soon as memory does not hold it.
struct Keeper {
    kept: Arc<Mutex<Capture>>,
    stream: &'static str,
    target: Option<LogTarget>,
    log: Option<Log>,
}

impl Keeper {
    async fn keep(&mut self, bytes: &[u8]) {
        let overflowing = lock(&self.kept).overflows_with(bytes.len());
        if let (true, None, Some(target)) = (overflowing, &self.log, &self.target) {
            let log = Log::open(target, self.stream);
            let before = lock(&self.kept).whole().unwrap_or_default();
            log.push(before).await;
            self.log = Some(log);
        }
        lock(&self.kept).push(bytes);
        if let Some(log) = &self.log {
            log.push(bytes.to_vec()).await;
        }
    }
}

impl Keeper {
    /// Forgets what was kept: the result is withheld, and its log as well.
    async fn withhold(&mut self) {
        *lock(&self.kept) = Capture::default();
        self.target = None;
        if let Some(log) = &self.log {
            log.empty().await;
        }
    }
}

/// A poisoned lock means that a push panicked: what was kept until then still counts.
fn lock(kept: &Mutex<Capture>) -> std::sync::MutexGuard<'_, Capture> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
