//! The runtime's side of a start, as far as it needs no waiting: pipes, the hand-over, the helper.
//!
//! The plan and the program's ends of the pipes are put into the control socket before the helper exists,
//! and the socket is the helper's stdin. So the start is one `posix_spawn`, which costs the same however
//! large the runtime is and runs nothing between fork and exec; a `pre_exec` hook would make it a fork.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::helper::{HANDED_OVER, MARKER};
use crate::plan::Plan;
use crate::{strays, sys, tree};

/// The runtime's ends of the program's descriptors.
pub(crate) struct Ends {
    pub(crate) stdin: Option<Sender>,
    pub(crate) stdout: Receiver,
    pub(crate) stderr: Receiver,
}

/// A running helper, to be reaped.
pub(crate) struct Helper {
    child: Child,
    ended: AsyncFd<OwnedFd>,
}

impl Helper {
    /// Waits without blocking a thread until it has ended, and reaps it.
    pub(crate) async fn reap(mut self) {
        loop {
            // An error means that it was reaped already: SIGCHLD is ignored in this process.
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            match self.ended.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                // The reactor is shutting down.
                Err(_) => return,
            }
        }
    }

    /// Continues it, should something have stopped it.
    pub(crate) fn wake(&self) {
        // Fails only when it has ended.
        let _ = rustix::process::pidfd_send_signal(self.ended.get_ref(), Signal::CONT);
    }

    /// Kills what is below it and then it, and with it the program, which is tied to it.
    pub(crate) fn kill(&self) {
        // Where SIGCHLD is ignored, a helper that has ended is reaped by itself, and its id may be another's.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ours = rustix::process::waitid(WaitId::PidFd(self.ended.get_ref().as_fd()), options).is_ok();
        if let Some(pid) = pid(&self.child).filter(|_| ours) {
            tree::Proc::USUAL.kill_all(pid);
        }
        // Fails only when it has ended.
        let _ = rustix::process::pidfd_send_signal(self.ended.get_ref(), Signal::KILL);
    }
}

/// Starts a helper with a plan. Must be called within a tokio runtime.
pub(crate) fn launch(plan: &Plan, with_stdin: bool) -> io::Result<(tokio::net::UnixStream, Helper, Ends)> {
    let (stdin, stdin_end) = if with_stdin {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        (reader, Some(Sender::from_owned_fd(writer)?))
    } else {
        (rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?, None)
    };
    let (stdout_end, stdout) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr_end, stderr) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let ends = Ends {
        stdin: stdin_end,
        stdout: Receiver::from_owned_fd(stdout_end)?,
        stderr: Receiver::from_owned_fd(stderr_end)?,
    };
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let ours = tokio::net::UnixStream::from_std(ours)?;
    strays::adopt()?;
    hand_over(&ours, plan, [&stdin, &stdout, &stderr])?;
    let mut child = start(theirs)?;
    match watch(&child) {
        Ok(ended) => Ok((ours, Helper { child, ended }, ends)),
        Err(error) => {
            // No descriptor left: this one wait blocks, for as long as a kill takes.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Puts the plan and the program's descriptors into the socket of a helper to be.
pub(crate) fn hand_over(control: impl AsFd, plan: &Plan, stdio: [&dyn AsFd; 3]) -> io::Result<()> {
    let mut file = File::from(rustix::fs::memfd_create(c"plan", MemfdFlags::CLOEXEC)?);
    file.write_all(&plan.encode())?;
    let [stdin, stdout, stderr] = stdio.map(AsFd::as_fd);
    let descriptors: [BorrowedFd<'_>; HANDED_OVER] = [file.as_fd(), stdin, stdout, stderr];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED_OVER))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    rustix::net::sendmsg(control, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Starts a helper on its end of the socket. Its own group keeps a terminal's Ctrl-C from it; its environment is
/// readable by the program.
pub(crate) fn start(control: UnixStream) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0(MARKER)
        .env_clear()
        .stdin(OwnedFd::from(control))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

fn watch(child: &Child) -> io::Result<AsyncFd<OwnedFd>> {
    let pid = pid(child).ok_or(io::ErrorKind::NotFound)?;
    sys::readable(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}
