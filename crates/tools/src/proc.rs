//! The one place in which tools start a process.
//!
//! `run` takes a [`Cleared`], so a program that no review saw cannot be started; beside it only `service` calls
//! `sandbox::spawn`. It bounds what a process can cost the agent: time, memory for its output, disk for
//! its log. A process that runs can be followed to its end, or be looked at while it goes on.
//!
//! What a process may do while it runs is the sandbox's business.

mod capture;
mod containment;
mod environment;
mod error;
mod log;
mod program;
mod pump;
mod report;
mod runtime;
mod service;
mod visible;
mod ways;

use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use manifest::Resources;
use policy::{Cancel, Cleared, Operation, ProtectedValues, Taken};
use sandbox::{Confinement, Exit, Limits, Process, SandboxError, Stdin};
use secrets::Redactor;
use tokio::time::Instant;

use crate::gateway::{GatewayGrant, OpenGateway};
pub(crate) use capture::Captured;
pub(crate) use containment::{Boundary, Held};
pub use containment::{Containment, own_directory};
pub use environment::{Directories, EnvironmentGrant, ProcessEnvironment};
pub(crate) use error::{Halt, ProcessError};
use log::{LogEnd, LogTarget};
pub(crate) use program::{executable, find};
use pump::{Filters, Pump, lock};
pub(crate) use report::so_far;
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
    /// How long a shell command is waited for before it goes on in the background: `lifecycle.shell_grace_secs`. To its
    /// end when absent.
    pub grace: Option<Duration>,
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
pub(crate) async fn run(
    shared: &Processes,
    cleared: Cleared,
    job: Job,
    cancel: &mut Cancel,
) -> Result<Finished, ProcessError> {
    Ok(match start(shared, cleared, job).await? {
        Started::Running(running) => running.finish(cancel).await,
        Started::Never(finished) => *finished,
    })
}

/// What came of a start.
pub(crate) enum Started {
    /// The process runs.
    Running(Box<Running>),
    /// It did not begin within its time.
    Never(Box<Finished>),
}

/// A process that runs. Dropping it ends it, and all that it started.
pub(crate) struct Running {
    process: Process,
    /// The ways out that are its own: they end with the process tree.
    open: Vec<OpenGateway>,
    stdout: Option<Pump>,
    stderr: Option<Pump>,
    held: Option<Held>,
    limit: Duration,
    began: Instant,
}

/// Starts what was cleared.
///
/// # Errors
/// When it could not be started: nothing ran then.
#[expect(clippy::disallowed_methods, reason = "it holds a `Cleared`")]
pub(crate) async fn start(shared: &Processes, cleared: Cleared, job: Job) -> Result<Started, ProcessError> {
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
        return Ok(Started::Never(Box::new(Finished::never_began(job.timeout))));
    };
    let (mut process, enforcement) = started?;
    let held = Some(projected.held(&enforcement));
    let open = ways.serve(std::mem::take(&mut process.listeners))?;
    let log = job.log.map(|call_id| LogTarget { workdir: shared.workdir.clone(), call_id });
    let filters = || Filters::new(job.values.as_ref(), &shared.redactor);
    let stdout = process.stdout.take().map(|pipe| Pump::start(pipe, "stdout", filters(), log.clone()));
    let stderr = process.stderr.take().map(|pipe| Pump::start(pipe, "stderr", filters(), log));
    let (limit, began) = (job.timeout, Instant::now());
    Ok(Started::Running(Box::new(Running { process, open, stdout, stderr, held, limit, began })))
}

impl Running {
    /// Whether it outruns this time, which counts from its start: it has neither ended then nor been canceled.
    pub(crate) async fn outruns(&self, grace: Duration, cancel: &mut Cancel) -> bool {
        let until = self.began + grace;
        grace < self.limit && tokio::time::timeout_at(until, ended_or_canceled(&self.process, cancel)).await.is_err()
    }

    /// What it has written by now.
    pub(crate) async fn so_far(&mut self) -> [Stream; 2] {
        let until = Instant::now() + PATIENCE;
        let mut streams = [Stream::default(), Stream::default()];
        for (stream, pump) in streams.iter_mut().zip([&mut self.stdout, &mut self.stderr]) {
            if let Some(pump) = pump {
                *stream = pump.so_far(until).await;
            }
        }
        streams
    }

    /// Waits for its end, or brings it about: when its time is up, or when it is told to stop.
    pub(crate) async fn finish(self: Box<Self>, cancel: &mut Cancel) -> Finished {
        let end = follow(&self.process, (self.began, self.limit), cancel).await;
        let until = Instant::now() + PATIENCE * 2;
        let Self { process, open, stdout, stderr, held, .. } = *self;
        let (stdout, stderr) = (Pump::finish(stdout, until).await, Pump::finish(stderr, until).await);
        drop((process, open));
        Finished { end, stdout, stderr, held }
    }
}

impl Finished {
    fn never_began(limit: Duration) -> Self {
        Self { end: End::TimedOut(limit), stdout: Stream::default(), stderr: Stream::default(), held: None }
    }
}

/// Waits for the end, or brings it about.
async fn follow(process: &Process, (began, limit): (Instant, Duration), cancel: &mut Cancel) -> End {
    let early = match tokio::time::timeout_at(began + limit, ended_or_canceled(process, cancel)).await {
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
