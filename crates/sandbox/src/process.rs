//! A started process, as its owner sees it.
//!
//! A task of its own follows each helper: it alone reads the control socket and reaps, so that waiting
//! can be given up and taken up again at will, and no zombie depends on anybody's waiting. The owner holds
//! the socket's other direction: dropping it is what ends the tree.
//!
//! The program belongs to the same user as its helper and can stop or kill it. So whoever asks for the
//! end gets it in bounded time: a helper that does not report in time is itself killed, and what a lost helper
//! leaves is swept up before its loss is told.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::SendFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::confinement::{Class, Confinement, Enforcement, Limits, Stdin};
use crate::error::{SandboxError, Step};
use crate::helper;
use crate::launch::{Helper, launch};
use crate::plan::Plan;
use crate::strays;
use crate::wire::{GRACE, PATIENCE, REPORT, REQUEST, Report};

/// How often a helper that was asked for the end is continued, should something keep stopping it.
const REWAKE: Duration = Duration::from_millis(500);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code, 0–255.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A started program and all that descends from it.
///
/// Dropping it ends the tree as [`terminate`](Self::terminate) with one second does.
#[derive(Debug)]
pub struct Process {
    /// The writing end of its stdin, with [`Stdin::Pipe`].
    pub stdin: Option<Sender>,
    /// What it writes to stdout. It ends when the tree has, at the latest.
    pub stdout: Option<Receiver>,
    /// What it writes to stderr. It ends when the tree has, at the latest.
    pub stderr: Option<Receiver>,
    pid: i32,
    control: OwnedWriteHalf,
    deadline: watch::Sender<Option<Instant>>,
    ended: watch::Receiver<Option<Ending>>,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Exited(Exit),
    Unkillable,
    Lost,
}

/// What the helper said first.
enum Beginning {
    Started { pid: i32, limits: Limits },
    Failed { step: Step, errno: i32 },
    Lost,
}

/// Starts a program. Must be called within a tokio runtime with its I/O and time drivers on.
///
/// Giving the future up ends what it has started. A program that runs already can delay the answer by
/// stopping its helper, so a caller's timeout belongs around this call as well.
///
/// Makes this process a child subreaper: orphans of its own other children become its children, too. It must stay
/// in its session while a program runs. Should a helper be lost, this process's children in other sessions that can
/// gain no privileges are taken for what it left, and killed.
///
/// # Errors
/// A field that cannot be right, a helper that could not be started, or [`SandboxError::Start`] with the
/// step that failed. Nothing runs then.
pub async fn spawn(confinement: &Confinement) -> Result<(Process, Enforcement), SandboxError> {
    if !helper::is_installed() {
        return Err(SandboxError::NoHelper);
    }
    let plan = Plan::new(confinement)?;
    let (control, helper, ends) = launch(&plan, confinement.stdin != Stdin::Null)?;
    let (reports, control) = control.into_split();
    let (begun, beginning) = oneshot::channel();
    let (end, ended) = watch::channel(None);
    let (deadline, due) = watch::channel(None);
    tokio::spawn(follow(reports, helper, due, begun, end));

    let (pid, limits) = match beginning.await.unwrap_or(Beginning::Lost) {
        Beginning::Started { pid, limits } => (pid, limits),
        Beginning::Failed { step, errno } => return Err(start_error(&plan, step, errno)),
        Beginning::Lost => return Err(SandboxError::HelperLost),
    };
    let mut stdin = ends.stdin;
    if let Stdin::Bytes(bytes) = &confinement.stdin
        && let Some(writer) = stdin.take()
    {
        tokio::spawn(feed(writer, bytes.clone()));
    }
    let process =
        Process { stdin, stdout: Some(ends.stdout), stderr: Some(ends.stderr), pid, control, deadline, ended };
    Ok((process, Enforcement { class: Class::Advisory, limits }))
}

impl Process {
    /// The program's process id, which is also that of its session and group.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until nothing is left of the tree, and tells how the program itself ended.
    ///
    /// When it ends, what it left in the background gets TERM, and KILL a second later. May be given
    /// up and called again.
    ///
    /// # Errors
    /// [`SandboxError::HelperLost`] when the helper was killed, [`SandboxError::Unkillable`] when
    /// something is left five seconds after SIGKILL.
    pub async fn wait(&self) -> Result<Exit, SandboxError> {
        let mut ended = self.ended.clone();
        let ending = ended.wait_for(Option::is_some).await.ok().and_then(|ending| *ending);
        match ending {
            Some(Ending::Exited(exit)) => Ok(exit),
            Some(Ending::Unkillable) => Err(SandboxError::Unkillable),
            // None: the reactor was shut down under it.
            Some(Ending::Lost) | None => Err(SandboxError::HelperLost),
        }
    }

    /// Ends the whole tree: TERM now, KILL after `grace`; with no grace at once KILL. A later call can
    /// only shorten the grace. Returns at once; [`wait`](Self::wait) tells when it is done.
    pub fn terminate(&self, grace: Duration) {
        let milliseconds = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        let request: [u8; REQUEST] = milliseconds.to_le_bytes();
        // Fails when the helper is gone, and then so is the tree; or when thousands of requests are
        // waiting, and then one more says nothing new.
        let socket: &tokio::net::UnixStream = self.control.as_ref();
        let _ = rustix::net::send(socket, &request, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        self.deadline.send_modify(|deadline| {
            let wanted = due_after(Duration::from_millis(milliseconds.into()));
            *deadline = Some(deadline.map_or(wanted, |earlier| earlier.min(wanted)));
        });
    }
}

/// Follows a helper from its first report until it is reaped.
async fn follow(
    mut reports: OwnedReadHalf,
    helper: Helper,
    mut due: watch::Receiver<Option<Instant>>,
    begun: oneshot::Sender<Beginning>,
    end: watch::Sender<Option<Ending>>,
) {
    // Nobody may be waiting any more for what is sent here; the reaping is done all the same.
    match next(&mut reports, &mut due, &helper).await {
        Some(Report::Started { pid, limits }) => {
            let _ = begun.send(Beginning::Started { pid, limits });
            let ending = match next(&mut reports, &mut due, &helper).await {
                Some(Report::Ended(exit)) => Ending::Exited(exit),
                Some(Report::Survived) => Ending::Unkillable,
                _ => {
                    helper.kill();
                    Ending::Lost
                }
            };
            helper.reap().await;
            let ending = match ending {
                Ending::Lost if !strays::sweep().await => Ending::Unkillable,
                ending => ending,
            };
            let _ = end.send(Some(ending));
        }
        Some(Report::Failed { step, errno }) => {
            helper.reap().await;
            let _ = begun.send(Beginning::Failed { step, errno });
        }
        _ => {
            helper.kill();
            helper.reap().await;
            // What is left after it hangs in the kernel; the start failed either way.
            let _ = strays::sweep().await;
            let _ = begun.send(Beginning::Lost);
        }
    }
}

/// When a helper that was asked for the end must have reported.
fn due_after(grace: Duration) -> Instant {
    // The last second is for the report's own way on a busy machine.
    Instant::now() + grace + PATIENCE + Duration::from_secs(1)
}

/// Returns when the report is overdue. The owner's going away is a request as well.
async fn overdue(due: &mut watch::Receiver<Option<Instant>>, helper: &Helper) {
    let asked = due.wait_for(Option::is_some).await.ok().and_then(|due| *due);
    let mut deadline = asked.unwrap_or_else(|| due_after(GRACE));
    while Instant::now() < deadline {
        helper.wake();
        tokio::time::sleep_until(deadline.min(Instant::now() + REWAKE)).await;
        let sooner = if due.has_changed().is_err() { Some(due_after(GRACE)) } else { *due.borrow() };
        deadline = sooner.map_or(deadline, |sooner| sooner.min(deadline));
    }
}

/// The helper's next report; `None` when it is gone, or overdue.
async fn next(
    reports: &mut OwnedReadHalf,
    due: &mut watch::Receiver<Option<Instant>>,
    helper: &Helper,
) -> Option<Report> {
    tokio::select! {
        report = read(reports) => report,
        () = overdue(due, helper) => None,
    }
}

async fn read(reports: &mut OwnedReadHalf) -> Option<Report> {
    let mut record = [0; REPORT];
    reports.read_exact(&mut record).await.ok()?;
    Report::decode(&record)
}

/// Writes all there is and closes. A program that does not read it ends the pipe, and with it this task.
async fn feed(mut writer: Sender, bytes: Vec<u8>) {
    let _ = writer.write_all(&bytes).await;
}

fn start_error(plan: &Plan, step: Step, errno: i32) -> SandboxError {
    let subject = if step == Step::Directory { &plan.cwd } else { &plan.program };
    SandboxError::Start {
        step,
        subject: PathBuf::from(OsStr::from_bytes(subject.as_bytes())),
        source: io::Error::from_raw_os_error(errno),
    }
}
