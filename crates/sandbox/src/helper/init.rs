//! The first process of a namespace of processes: it reaps what has lost its parent, and its end is everybody's.
//!
//! The program is not it, because the first process is immune to signals without a handler and would have to reap. Nor is
//! it the program's parent: that is the helper, outside, which alone knows the program's exit. It ends when the
//! helper has let go of it and nothing is left below it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::privileges;
use crate::sys::{self, Others};

/// The helper's hold on it.
pub(super) struct Init {
    process: OwnedFd,
    /// Its end tells that nothing but the end is to be waited for.
    lifeline: Option<OwnedFd>,
}

impl Init {
    /// Starts it in the namespace that the next child begins.
    pub(super) fn start() -> Result<Self, Errno> {
        let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        match sys::fork()? {
            Some(pid) => {
                let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
                Ok(Self { process, lifeline: Some(ours) })
            }
            None => {
                // A failure ends it, and so the namespace: the program's start fails then.
                let _ = run(theirs);
                sys::exit(0);
            }
        }
    }

    /// Lets it end as soon as nothing is left below it.
    pub(super) fn release(&mut self) {
        self.lifeline = None;
    }

    /// Ends it, and with it everything in its namespace.
    pub(super) fn kill(&self) {
        // Fails only when it has ended.
        let _ = rustix::process::pidfd_send_signal(&self.process, Signal::KILL);
    }
}

fn run(lifeline: OwnedFd) -> Result<(), Errno> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The pipe takes the control socket's place: who holds that one counts as the helper. All else closes, most of all the
    // program's ends of its pipes.
    rustix::stdio::dup2_stdin(lifeline)?;
    sys::seal_descriptors(Others::Close)?;
    rustix::process::setsid()?;
    // So that it is moved along into the new file tree.
    rustix::process::chdir("/")?;
    rustix::thread::set_name(c"sandbox-init")?;
    privileges::drop_all(true)?;
    let children = sys::child_events()?;
    reap(children)
}

fn reap(children: OwnedFd) -> Result<(), Errno> {
    let lifeline = rustix::stdio::stdin();
    let mut released = false;
    loop {
        let mut events = [PollFd::new(&children, PollFlags::IN), PollFd::from_borrowed_fd(lifeline, PollFlags::IN)];
        let watched = if released { 1 } else { 2 };
        let _ = rustix::event::poll(events.get_mut(..watched).unwrap_or_default(), None);
        released |= events.last().is_some_and(|event| !event.revents().is_empty());
        let _ = rustix::io::read(children.as_fd(), &mut [0; 1024]);
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Err(Errno::CHILD) if released => return Ok(()),
                Ok(None) | Err(_) => break,
            }
        }
    }
}

/// The first process of a namespace is 1 in it; its parent, outside, has no number there.
pub(super) fn parent_is_outside() -> bool {
    rustix::process::getppid().is_none_or(|parent: Pid| !parent.is_init())
}
