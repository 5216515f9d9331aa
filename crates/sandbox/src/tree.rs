//! Everything that descends from a subreaper, the helper or the runtime: finding it and signalling it.
//!
//! Whatever loses its parent becomes the subreaper's child: the tree below it is
//! complete, whatever a process did to its session, its group or its parents. A process id may be given
//! anew the moment its owner is reaped, so a signal goes through a descriptor of the process, opened
//! first and checked to be of this tree second: it never reaches a stranger.

use std::collections::{HashSet, VecDeque};
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Rounds of stopping after which the killing begins anyway.
const MAX_STOPPING_ROUNDS: usize = 32;

/// A process and the parent it was found under.
#[derive(Clone, Copy, Debug)]
struct Descendant {
    pid: Pid,
    parent: Pid,
}

/// Asks every descendant to end. A stopped one is continued, so that it can.
pub(crate) fn terminate_all(helper: Pid) {
    for found in descendants(helper, every) {
        found.signal(helper, every, &[Signal::TERM, Signal::CONT]);
    }
}

/// Kills every descendant that can be found.
pub(crate) fn kill_all(helper: Pid) {
    kill_below(helper, every);
}

/// Kills every descendant that is meant, those below one that is not left out. What is stopped cannot fork, and the
/// kernel restarts a fork that a signal overtook, so the tree is first stopped until nothing new shows up.
pub(crate) fn kill_below(top: Pid, meant: fn(Pid) -> bool) {
    let mut stopped = HashSet::new();
    for _ in 0..MAX_STOPPING_ROUNDS {
        let mut fresh = false;
        for found in descendants(top, meant) {
            if stopped.insert(found.pid) {
                fresh = true;
                found.signal(top, meant, &[Signal::STOP]);
            }
        }
        if !fresh {
            break;
        }
    }
    for found in descendants(top, meant) {
        found.signal(top, meant, &[Signal::KILL]);
    }
}

fn every(_: Pid) -> bool {
    true
}

/// Parents before their children.
fn descendants(top: Pid, meant: fn(Pid) -> bool) -> Vec<Descendant> {
    let mut seen = HashSet::from([top]);
    let mut parents = VecDeque::from([top]);
    let mut found = Vec::new();
    while let Some(parent) = parents.pop_front() {
        for pid in children(parent) {
            if seen.insert(pid) && meant(pid) {
                found.push(Descendant { pid, parent });
                parents.push_back(pid);
            }
        }
    }
    found
}

/// The children of all of a process's threads; none once it is gone.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let mut pids = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())) else {
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

impl Descendant {
    fn signal(self, top: Pid, meant: fn(Pid) -> bool, signals: &[Signal]) {
        // Gone already: nothing to signal.
        let Ok(process) = rustix::process::pidfd_open(self.pid, PidfdFlags::empty()) else {
            return;
        };
        // Unreadable where /proc hides it; then only a child of the top is certain to be one.
        let known = parent(self.pid).map_or(self.parent == top, |now| now == self.parent || now == top);
        if known && meant(self.pid) {
            for signal in signals {
                // Fails when it is gone, and when it is another user's, which no_new_privs prevents.
                let _ = rustix::process::pidfd_send_signal(&process, *signal);
            }
        }
    }
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name in parentheses may hold anything, also parentheses: the fields begin after the last one.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = str::from_utf8(stat.get(end + 1..)?).ok()?;
    Pid::from_raw(fields.split_ascii_whitespace().nth(1)?.parse().ok()?)
}
