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
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::cgroup;
use crate::confinement::{Confinement, Stdin};
use crate::enforcement::Enforcement;
use crate::error::{SandboxError, Step};
use crate::helper;
use crate::launch::{Ends, Helper, launch};
use crate::plan::{MOST_LISTENERS, Plan};
use crate::strays;
use crate::wire::{Failure, GRACE, Installed, PATIENCE, REPORT, REQUEST, Report};

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
    /// Sockets that listen inside its network, one for each port of [`Confinement::listen`], non-blocking.
    pub listeners: Vec<TcpListener>,
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
    Started { pid: i32, installed: Installed, listeners: Vec<TcpListener> },
    Failed(Failure),
    Lost,
}

/// Whether this host has refused namespaces. It is not asked again for a class that does without.
static NO_NAMESPACES: AtomicBool = AtomicBool::new(false);

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
/// step that failed, and so the [layer](SandboxError::layer) that the host lacks. Nothing runs then.
///
/// Where the host has no namespaces, [`Class::Scoped`](crate::Class::Scoped) with
/// [`Network::None`](crate::Network::None) is held by Landlock and the filter alone; [`Enforcement::namespaces`] tells.
pub async fn spawn(confinement: &Confinement) -> Result<(Process, Enforcement), SandboxError> {
    if !helper::is_installed() {
        return Err(SandboxError::NoHelper);
    }
    let mut plan = Plan::new(confinement)?;
    if NO_NAMESPACES.load(Ordering::Relaxed)
        && let Some(bare) = plan.without_own_root()
    {
        plan = bare;
    }
    match begin(&plan, confinement).await {
        Err(error) if lacks_namespaces(&error) => match plan.without_own_root() {
            Some(bare) => begin(&bare, confinement).await,
            None => Err(error),
        },
        begun => begun,
    }
}

async fn begin(plan: &Plan, confinement: &Confinement) -> Result<(Process, Enforcement), SandboxError> {
    let (control, helper, ends) = launch(plan, confinement.stdin != Stdin::Null)?;
    let (reports, control) = control.into_split();
    let (begun, beginning) = oneshot::channel();
    let (end, ended) = watch::channel(None);
    let (deadline, due) = watch::channel(None);
    let groups = plan.hold.groups.iter().map(|group| group.path.clone()).collect();
    tokio::spawn(follow(reports, Followed { helper, groups }, due, begun, end));

    let (pid, installed, listeners) = match beginning.await.unwrap_or(Beginning::Lost) {
        Beginning::Started { pid, installed, listeners } => (pid, installed, listeners),
        Beginning::Failed(failure) => return Err(start_error(plan, failure)),
        Beginning::Lost => return Err(SandboxError::HelperLost),
    };
    let Ends { mut stdin, stdout, stderr } = ends;
    if let Stdin::Bytes(bytes) = &confinement.stdin
        && let Some(writer) = stdin.take()
    {
        tokio::spawn(feed(writer, bytes.clone()));
    }
    let (stdout, stderr) = (Some(stdout), Some(stderr));
    let process = Process { stdin, stdout, stderr, listeners, pid, control, deadline, ended };
    Ok((process, enforcement(plan, &installed)))
}

/// Whether that is why nothing was started. What will not change is remembered.
fn lacks_namespaces(error: &SandboxError) -> bool {
    let SandboxError::Start { step: Step::Namespaces, source, .. } = error else { return false };
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::INVAL) => {
            NO_NAMESPACES.store(true, Ordering::Relaxed);
            true
        }
        // As many as the host allows are in use, which may be none.
        Some(Errno::NOSPC | Errno::USERS) => true,
        _ => false,
    }
}

pub(crate) fn enforcement(plan: &Plan, installed: &Installed) -> Enforcement {
    Enforcement {
        class: plan.hold.class,
        limits: installed.limits,
        landlock_abi: Some(installed.landlock).filter(|version| *version > 0),
        namespaces: installed.namespaces,
        masked: usize::try_from(installed.masked).unwrap_or(usize::MAX),
        network: plan.hold.network,
        cgroup: installed.cgroup,
    }
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

/// A helper, and what would be left of it were it killed.
struct Followed {
    helper: Helper,
    groups: Vec<PathBuf>,
}

/// Ends and removes what a lost helper leaves; false when something of it is left.
async fn clean_up(groups: Vec<PathBuf>) -> bool {
    let ended = strays::sweep().await;
    if ended && !groups.is_empty() {
        let removed = tokio::task::spawn_blocking(move || {
            for group in &groups {
                cgroup::remove(|| rustix::fs::rmdir(group));
            }
        });
        // It ends early only when the reactor does.
        let _ = removed.await;
    }
    ended
}

/// Follows a helper from its first report until it is reaped.
async fn follow(
    mut reports: OwnedReadHalf,
    Followed { helper, groups }: Followed,
    mut due: watch::Receiver<Option<Instant>>,
    begun: oneshot::Sender<Beginning>,
    end: watch::Sender<Option<Ending>>,
) {
    // Nobody may be waiting any more for what is sent here; the reaping is done all the same.
    match next(&mut reports, &mut due, &helper).await {
        Some((Report::Started { pid, installed }, sockets)) => {
            let listeners = sockets.into_iter().map(TcpListener::from).collect();
            let _ = begun.send(Beginning::Started { pid, installed, listeners });
            let ending = match next(&mut reports, &mut due, &helper).await {
                Some((Report::Ended(exit), _)) => Ending::Exited(exit),
                Some((Report::Survived, _)) => Ending::Unkillable,
                _ => {
                    helper.kill();
                    Ending::Lost
                }
            };
            helper.reap().await;
            let ending = match ending {
                Ending::Lost if !clean_up(groups).await => Ending::Unkillable,
                ending => ending,
            };
            let _ = end.send(Some(ending));
        }
        Some((Report::Failed(failure), _)) => {
            helper.reap().await;
            let _ = begun.send(Beginning::Failed(failure));
        }
        _ => {
            helper.kill();
            helper.reap().await;
            // What is left after it hangs in the kernel; the start failed either way.
            let _ = clean_up(groups).await;
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
) -> Option<(Report, Vec<OwnedFd>)> {
    tokio::select! {
        report = read(reports) => report,
        () = overdue(due, helper) => None,
    }
}

/// A whole record, and the descriptors that came with it.
async fn read(reports: &mut OwnedReadHalf) -> Option<(Report, Vec<OwnedFd>)> {
    let socket: &tokio::net::UnixStream = reports.as_ref();
    let mut record = [0; REPORT];
    let mut descriptors = Vec::new();
    let mut filled = 0;
    while filled < REPORT {
        socket.readable().await.ok()?;
        let rest = record.get_mut(filled..)?;
        match socket.try_io(Interest::READABLE, || receive(socket, rest, &mut descriptors)) {
            Ok(0) => return None,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
    Some((Report::decode(&record)?, descriptors))
}

fn receive(socket: &tokio::net::UnixStream, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_LISTENERS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(into)], &mut ancillary, flags)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok(received.bytes)
}

/// Writes all there is and closes. A program that does not read it ends the pipe, and with it this task.
async fn feed(mut writer: Sender, bytes: Vec<u8>) {
    let _ = writer.write_all(&bytes).await;
}

fn start_error(plan: &Plan, Failure { step, errno, index }: Failure) -> SandboxError {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let hold = &plan.hold;
    let subject = match step {
        Step::Directory => Some(&plan.cwd),
        Step::Grant => hold.grants.get(index).map(|(path, _)| path),
        Step::Mask => hold.masks.get(index).map(|(path, _)| path),
        Step::Private => hold.private.as_ref(),
        _ => None,
    };
    SandboxError::Start {
        step,
        subject: PathBuf::from(OsStr::from_bytes(subject.unwrap_or(&plan.program).as_bytes())),
        source: io::Error::from_raw_os_error(errno),
    }
}
