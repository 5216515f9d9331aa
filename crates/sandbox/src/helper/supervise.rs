//! The watch over a started program, until nothing of its tree is left.
//!
//! One loop over two events: a child's end, and the control socket, whose own end means that the runtime is
//! gone or wants no more of it. "Nothing left" is exact and needs no search: a subreaper without children
//! has no descendants.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::init::Init;
use super::report;
use crate::process::Exit;
use crate::tree;
use crate::wire::{GRACE, PATIENCE, REQUEST, Report};

/// How often the killing is repeated meanwhile, for what was missed.
const REPEAT: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
enum Phase {
    Running,
    Terminating { kill_at: Instant },
    Killing { give_up_at: Instant },
}

pub(super) struct Supervisor<'a> {
    control: BorrowedFd<'a>,
    signals: OwnedFd,
    helper: Pid,
    main: Pid,
    init: Option<Init>,
    /// Whether the runtime may still say something.
    attached: bool,
    exit: Option<Exit>,
    phase: Phase,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(control: BorrowedFd<'a>, signals: OwnedFd, main: Pid, init: Option<Init>) -> Self {
        Self {
            control,
            signals,
            helper: rustix::process::getpid(),
            main,
            init,
            attached: true,
            exit: None,
            phase: Phase::Running,
        }
    }

    /// Returns when nothing is left and the runtime has been told.
    pub(super) fn run(mut self) {
        loop {
            let (control, child) = self.wait();
            if control {
                self.read_control();
            }
            if child && self.reap() {
                if let Some(exit) = self.exit {
                    report(self.control, &Report::Ended(exit));
                }
                // Else somebody else reaped it: saying nothing says that the helper failed.
                return;
            }
            if self.advance() {
                return report(self.control, &Report::Survived);
            }
        }
    }

    /// Waits for an event, and says which of control and child have one.
    fn wait(&self) -> (bool, bool) {
        let timeout = match self.phase {
            Phase::Running => None,
            Phase::Terminating { kill_at } => Some(kill_at.saturating_duration_since(Instant::now())),
            Phase::Killing { .. } => Some(REPEAT),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events =
            [PollFd::new(&self.signals, PollFlags::IN), PollFd::from_borrowed_fd(self.control, PollFlags::IN)];
        // A socket at its end is always ready, so it is left out then.
        let watched = if self.attached { 2 } else { 1 };
        if let Some(watched) = events.get_mut(..watched) {
            // A failure (no memory) reads as "no event": the loop goes round.
            let _ = rustix::event::poll(watched, timeout.as_ref());
        }
        let [child, control] = events.map(|fd| !fd.revents().is_empty());
        (control, child)
    }

    fn read_control(&mut self) {
        let mut request = [0; REQUEST];
        match rustix::net::recv(self.control, &mut request, RecvFlags::DONTWAIT) {
            Ok((REQUEST, _)) => {
                self.terminate(Duration::from_millis(u32::from_le_bytes(request).into()));
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ => {
                self.attached = false;
                self.terminate(GRACE);
            }
        }
    }

    /// Reaps what has ended; true when nothing is left.
    fn reap(&mut self) -> bool {
        let mut events = [0; 1024];
        // Empties the descriptor; the children themselves say what happened.
        let _ = rustix::io::read(&self.signals, &mut events);
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.exit = exit_of(status).or(self.exit),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return true,
            }
        }
        if self.exit.is_some() {
            if let Some(init) = &mut self.init {
                init.release();
            }
            // What it left running in the background.
            self.terminate(GRACE);
        }
        false
    }

    /// Begins the end, or brings it nearer.
    fn terminate(&mut self, grace: Duration) {
        let wanted = Instant::now() + grace;
        match &mut self.phase {
            Phase::Running => {
                if !grace.is_zero() {
                    tree::Proc::HERE.terminate_all(self.helper);
                }
                self.phase = Phase::Terminating { kill_at: wanted };
            }
            Phase::Terminating { kill_at } => *kill_at = wanted.min(*kill_at),
            Phase::Killing { .. } => {}
        }
    }

    /// Does what is due; true when it is time to give up.
    fn advance(&mut self) -> bool {
        let now = Instant::now();
        match self.phase {
            Phase::Running => return false,
            Phase::Terminating { kill_at } if now < kill_at => return false,
            Phase::Terminating { .. } => self.phase = Phase::Killing { give_up_at: now + PATIENCE },
            Phase::Killing { give_up_at } if now >= give_up_at => return true,
            Phase::Killing { .. } => {}
        }
        match &self.init {
            Some(init) => init.kill(),
            None => tree::Proc::HERE.kill_all(self.helper),
        }
        false
    }
}

fn exit_of(status: WaitStatus) -> Option<Exit> {
    status.exit_status().map(Exit::Code).or(status.terminating_signal().map(Exit::Signal))
}
