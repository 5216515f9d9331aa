//! Everything that descends from a subreaper, the helper or the runtime: finding it and signalling it.
//!
//! Whatever loses its parent becomes the subreaper's child: the tree below it is
//! complete, whatever a process did to its session, its group or its parents. A process id may be given
//! anew the moment its owner is reaped, so a signal goes through a descriptor of the process, opened
//! first and checked to be of this tree second: it never reaches a stranger.

use std::collections::{HashSet, VecDeque};
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal};

/// A mounted /proc.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proc(&'static str);

/// Rounds of stopping after which the killing begins anyway.
const MAX_STOPPING_ROUNDS: usize = 32;

/// A process and the parent it was found under.
#[derive(Clone, Copy, Debug)]
struct Descendant {
    pid: Pid,
    parent: Pid,
}

impl Proc {
    /// Where it usually is.
    pub(crate) const USUAL: Self = Self("/proc");
    /// The working directory: a helper keeps the host's there, because its root becomes the program's.
    pub(crate) const HERE: Self = Self(".");

    /// Asks every descendant to end. A stopped one is continued, so that it can.
    pub(crate) fn terminate_all(self, top: Pid) {
        for found in self.descendants(top, every) {
            self.signal(found, top, every, &[Signal::TERM, Signal::CONT]);
        }
    }

    /// Kills every descendant that can be found.
    pub(crate) fn kill_all(self, top: Pid) {
        self.kill_below(top, every);
    }

    /// Kills every descendant that is meant, those below one that is not left out. What is stopped cannot fork, and the
    /// kernel restarts a fork that a signal overtook, so the tree is first stopped until nothing new shows up.
    pub(crate) fn kill_below(self, top: Pid, meant: fn(Pid) -> bool) {
        let mut stopped = HashSet::new();
        for _ in 0..MAX_STOPPING_ROUNDS {
            let mut fresh = false;
            for found in self.descendants(top, meant) {
                if stopped.insert(found.pid) {
                    fresh = true;
                    self.signal(found, top, meant, &[Signal::STOP]);
                }
            }
            if !fresh {
                break;
            }
        }
        for found in self.descendants(top, meant) {
            self.signal(found, top, meant, &[Signal::KILL]);
        }
    }

    /// Parents before their children.
    fn descendants(self, top: Pid, meant: fn(Pid) -> bool) -> Vec<Descendant> {
        let mut seen = HashSet::from([top]);
        let mut parents = VecDeque::from([top]);
        let mut found = Vec::new();
        while let Some(parent) = parents.pop_front() {
            for pid in self.children(parent) {
                if seen.insert(pid) && meant(pid) {
                    found.push(Descendant { pid, parent });
                    parents.push_back(pid);
                }
            }
        }
        found
    }

    /// The children of all of a process's threads; none once it is gone.
    pub(crate) fn children(self, parent: Pid) -> Vec<Pid> {
        let mut pids = Vec::new();
        let Ok(threads) = fs::read_dir(format!("{}/{}/task", self.0, parent.as_raw_nonzero())) else {
            return pids;
        };
        for thread in threads.flatten() {
            let Ok(list) = fs::read_to_string(thread.path().join("children")) else {
                continue;
            };
            pids.extend(list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
        }
        pids
    }

    fn signal(self, to: Descendant, top: Pid, meant: fn(Pid) -> bool, signals: &[Signal]) {
        // Gone already: nothing to signal.
        let Ok(process) = rustix::process::pidfd_open(to.pid, PidfdFlags::empty()) else {
            return;
        };
        // Unreadable where /proc hides it; then only a child of the top is certain to be one.
        let known = self.parent(to.pid).map_or(to.parent == top, |now| now == to.parent || now == top);
        if known && meant(to.pid) {
            for signal in signals {
                // Fails when it is gone, and when it is another user's, which no_new_privs prevents.
                let _ = rustix::process::pidfd_send_signal(&process, *signal);
            }
        }
    }

    fn parent(self, pid: Pid) -> Option<Pid> {
        let stat = fs::read(format!("{}/{}/stat", self.0, pid.as_raw_nonzero())).ok()?;
        // The name in parentheses may hold anything, also parentheses: the fields begin after the last one.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let fields = str::from_utf8(stat.get(end + 1..)?).ok()?;
        Pid::from_raw(fields.split_ascii_whitespace().nth(1)?.parse().ok()?)
    }
}

fn every(_: Pid) -> bool {
    true
}
