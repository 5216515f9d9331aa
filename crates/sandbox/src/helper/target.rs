//! The start of the program: a child that installs the plan on itself and then becomes it.
//!
//! The helper stands still meanwhile and learns at once which step failed, or that none did. The limits that hold are read back
//! here, by the process that they hold for. What further classes add to a process goes between the
//! privileges and the program.

use std::cell::Cell;
use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, setrlimit};

use super::Failure;
use crate::confinement::Limits;
use crate::error::Step;
use crate::plan::Plan;
use crate::sys::{self, Others};

/// Starts the program; what it tells are the limits in force.
pub(super) fn start(plan: &Plan, stdio: &[OwnedFd; 3]) -> Result<(Pid, Limits), Failure> {
    let helper = rustix::process::getpid();
    // The two share their memory until the program has begun, so the child just leaves its result here. A cell,
    // because the compiler must not think that a value is of no use which the call after it does not read.
    let outcome = Cell::new(Err((Step::Fork, Errno::INTR)));
    let child = sys::run_in_child(&|| {
        outcome.set(install(plan, stdio, helper));
        if outcome.get().is_ok() {
            // Comes back only when it failed.
            outcome.set(Err((Step::Execute, execute(plan))));
        }
    });
    let child = child.map_err(|errno| (Step::Fork, errno))?;
    match outcome.get() {
        Ok(limits) => Ok((child, limits)),
        Err(failure) => {
            let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
            Err(failure)
        }
    }
}

/// The mask is given back last: until then no signal but SIGKILL can come between.
fn execute(plan: &Plan) -> Errno {
    match sys::block_signals(false) {
        Ok(()) => sys::execute(&plan.program, &plan.argv, &plan.env),
        Err(errno) => errno,
    }
}

fn install(plan: &Plan, stdio: &[OwnedFd; 3], helper: Pid) -> Result<Limits, Failure> {
    let at = |step| move |errno| (step, errno);
    rustix::process::setsid().map_err(at(Step::Session))?;
    // Should the helper be killed, this one dies with it. The helper has one thread, so "parent" is clear.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(Step::Session))?;
    if rustix::process::getppid() != Some(helper) {
        return Err((Step::Session, Errno::SRCH));
    }
    let [stdin, stdout, stderr] = stdio;
    rustix::stdio::dup2_stdin(stdin).map_err(at(Step::Descriptors))?;
    rustix::stdio::dup2_stdout(stdout).map_err(at(Step::Descriptors))?;
    rustix::stdio::dup2_stderr(stderr).map_err(at(Step::Descriptors))?;
    sys::seal_descriptors(Others::CloseOnExec).map_err(at(Step::Descriptors))?;
    rustix::process::umask(Mode::from_raw_mode(plan.umask));
    rustix::process::chdir(plan.cwd.as_c_str()).map_err(at(Step::Directory))?;
    let limits = limit(&plan.limits).map_err(at(Step::Limits))?;
    // Without it a setuid program could become another user's, which this one could not end.
    rustix::thread::set_no_new_privs(true).map_err(at(Step::Privileges))?;
    Ok(limits)
}

/// Sets the limits and reads back what holds.
fn limit(wanted: &Limits) -> Result<Limits, Errno> {
    let set = |resource, value: Option<u64>, grace: u64| {
        let Some(value) = value else { return Ok(None) };
        let clamp = |value: u64| getrlimit(resource).maximum.map_or(value, |hard| hard.min(value));
        let current = clamp(value);
        setrlimit(resource, Rlimit { current: Some(current), maximum: Some(clamp(current.saturating_add(grace))) })?;
        Ok(getrlimit(resource).current)
    };
    let max_processes = match wanted.max_processes {
        Some(more) => set(Resource::Nproc, Some(threads_of_host()?.saturating_add(more)), 0)?,
        None => None,
    };
    Ok(Limits {
        cpu_seconds: set(Resource::Cpu, wanted.cpu_seconds, 1)?,
        memory_bytes: set(Resource::Data, wanted.memory_bytes, 0)?,
        // Set for root as well, for what it may turn into, but not claimed.
        max_processes: max_processes.filter(|_| !rustix::process::getuid().is_root()),
        max_open_files: set(Resource::Nofile, wanted.max_open_files, 0)?,
        max_file_size_bytes: set(Resource::Fsize, wanted.max_file_size_bytes, 0)?,
    })
}

/// How many threads the host runs. The kernel counts a user's against the limit, so a bare number would
/// refuse the first fork on any desktop; counting that user's own takes milliseconds, this one read.
fn threads_of_host() -> Result<u64, Errno> {
    let load =
        fs::read_to_string("/proc/loadavg").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let threads = load.split_ascii_whitespace().nth(3).and_then(|field| field.split_once('/'));
    threads.and_then(|(_, total)| total.parse().ok()).ok_or(Errno::BADMSG)
}
