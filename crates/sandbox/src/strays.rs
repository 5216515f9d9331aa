//! What a lost helper leaves behind: finding it among this process's children, ending it, reaping it.
//!
//! The runtime is a subreaper too, so what loses its helper becomes its child, beside the helpers that live and
//! whatever the embedding program started by other means. No register of those is kept; a stray shows itself. Its
//! session is not the runtime's, because every program begins with a session of its own and no process can go
//! back to one; and it can gain no privileges, which is inherited and cannot be undone either. A helper, also one that is
//! just being started, is in the runtime's session, and so are a program's ordinary children. A daemon of theirs is not,
//! but may gain privileges, and is spared as well, unless the runtime itself may not.
//!
//! So the runtime must not leave its session while a helper lives. This does not help when the runtime is
//! killed after the helper.

use std::fs;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions};
use tokio::time::Instant;

use crate::wire::PATIENCE;
use crate::{sys, tree};

/// How often the killing is repeated while something is still dying.
const REPEAT: Duration = Duration::from_millis(10);

/// Makes whatever loses its helper from now on a child of this process.
pub(crate) fn adopt() -> Result<(), Errno> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

/// Ends and reaps all strays. To be called once their helper is reaped: they come here before it can be.
/// False when some are left long after SIGKILL.
pub(crate) async fn sweep() -> bool {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        tree::Proc::USUAL.kill_below(rustix::process::getpid(), is_stray);
        match reap() {
            Found::Nothing => return true,
            _ if Instant::now() >= give_up_at => return false,
            // Their own children have come here meanwhile.
            Found::Dead => {}
            Found::Alive => tokio::time::sleep(REPEAT).await,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nothing,
    Dead,
    Alive,
}

fn reap() -> Found {
    let children = tree::Proc::USUAL.children(rustix::process::getpid());
    children.into_iter().filter(|pid| is_stray(*pid)).map(reap_one).max().unwrap_or(Found::Nothing)
}

fn reap_one(pid: Pid) -> Found {
    let process = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Found::Dead,
        Err(_) => return Found::Alive,
    };
    // Again, now that the descriptor holds it: the number may have passed to another.
    if !is_stray(pid) {
        return Found::Dead;
    }
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match rustix::process::waitid(WaitId::PidFd(process.as_fd()), options) {
        Ok(None) => Found::Alive,
        // An error: SIGCHLD is ignored in this process, so it was reaped by itself.
        Ok(Some(_)) | Err(_) => Found::Dead,
    }
}

/// For a process below this one. One that is gone is none.
fn is_stray(pid: Pid) -> bool {
    let elsewhere = sys::session(Some(pid)).is_some_and(|session| Some(session) != sys::session(None));
    elsewhere && !may_gain_privileges(pid)
}

/// Not known where /proc hides the process, as it does for one that made itself undumpable; no daemon of the
/// embedding program's has a reason to.
fn may_gain_privileges(pid: Pid) -> bool {
    let status = fs::read(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    // A line break in the process's name is escaped there, so the line cannot be forged.
    status.split(|byte| *byte == b'\n').any(|line| line == b"NoNewPrivs:\t0")
}
