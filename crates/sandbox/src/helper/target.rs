//! The start of the program: a child that installs the plan on itself and then becomes it.
//!
//! The helper stands still meanwhile and learns at once which step failed, or that none did. The limits that hold are read back
//! here, by the process that they hold for. Landlock comes after everything that mounts, which it refuses, and the filter of
//! system calls last.

use std::cell::Cell;
use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, setrlimit};

use super::groups::Groups;
use super::init::{self, Init};
use super::masks::Masks;
use super::places::Places;
use super::root::Root;
use super::{Outcome, at, privileges};
use crate::boundary::Access;
use crate::confinement::{Class, Limits};
use crate::enforcement::{Namespace, Namespaces};
use crate::error::Step;
use crate::grants::DEVICES;
use crate::landlock::Rules;
use crate::plan::{Hold, Plan, Purpose};
use crate::sys::{self, Others};
use crate::wire::Installed;

/// A program that runs.
pub(super) struct Target {
    pub(super) main: Pid,
    /// The first process of its namespace of processes, where it has one.
    pub(super) init: Option<Init>,
    pub(super) installed: Installed,
}

/// What the installation has at hand beside the plan.
struct Ground<'a> {
    stdio: &'a [OwnedFd; 3],
    helper: Pid,
    namespaces: Namespaces,
    files: Files,
    groups: Option<&'a Groups>,
}

/// The files that it sees.
enum Files {
    /// In a tree of its own, with what is taken back there.
    Own(Root, Masks),
    /// The host's tree; what of it is granted.
    Host(Places),
}

/// Starts the program; what it tells is in force.
pub(super) fn start(
    plan: &Plan,
    stdio: &[OwnedFd; 3],
    namespaces: Namespaces,
    groups: Option<&Groups>,
) -> Outcome<Target> {
    let helper = rustix::process::getpid();
    let files = if plan.hold.own_root {
        let masks = Masks::find(&plan.hold)?;
        Files::Own(Root::build(&plan.hold, &masks)?, masks)
    } else {
        Files::Host(Places::find(&plan.hold)?)
    };
    let own_processes = namespaces.contains(Namespace::Pid);
    let init = if own_processes { Some(Init::start().map_err(at(Step::Fork))?) } else { None };
    let ground = Ground { stdio, helper, namespaces, files, groups };
    // The two share their memory until the program has begun, so the child just leaves its result here. A cell,
    // because the compiler must not think that a value is of no use which the call after it does not read.
    let outcome = Cell::new(Err(at(Step::Fork)(Errno::INTR)));
    let child = sys::run_in_child(&|| {
        outcome.set(install(plan, &ground));
        if outcome.get().is_ok() && plan.purpose == Purpose::Run {
            // Comes back only when it failed.
            outcome.set(Err(at(Step::Execute)(execute(plan))));
        }
    });
    let main = child.map_err(at(Step::Fork))?;
    match outcome.get() {
        Ok(installed) => Ok(Target { main, init, installed }),
        Err(failure) => {
            if let Some(init) = init {
                init.kill();
            }
            while rustix::process::wait(WaitOptions::empty()).is_ok() {}
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

fn install(plan: &Plan, ground: &Ground<'_>) -> Outcome<Installed> {
    let hold = &plan.hold;
    tie(ground).map_err(at(Step::Session))?;
    // One that will not take it bounds nothing, and is told so.
    let cgroup = ground.groups.is_some_and(|groups| groups.enter().is_ok());
    let [stdin, stdout, stderr] = ground.stdio;
    rustix::stdio::dup2_stdin(stdin).map_err(at(Step::Descriptors))?;
    rustix::stdio::dup2_stdout(stdout).map_err(at(Step::Descriptors))?;
    rustix::stdio::dup2_stderr(stderr).map_err(at(Step::Descriptors))?;
    sys::seal_descriptors(Others::CloseOnExec).map_err(at(Step::Descriptors))?;
    let counted = threads_before(ground.namespaces).map_err(at(Step::Limits))?;
    let mut masked = 0;
    if let Files::Own(root, masks) = &ground.files {
        if ground.namespaces.contains(Namespace::Pid) {
            root.mount_processes().map_err(at(Step::Processes))?;
        }
        masked = masks.apply(root)?;
        root.enter().map_err(at(Step::Root))?;
    }
    if hold.class > Class::Advisory {
        // Before anything is opened for the program: what it could not enter itself it is not put into.
        privileges::drop_all(ground.namespaces.contains(Namespace::User)).map_err(at(Step::Privileges))?;
    }
    rustix::process::umask(Mode::from_raw_mode(plan.umask));
    rustix::process::chdir(plan.cwd.as_c_str()).map_err(at(Step::Directory))?;
    let limits = limit(&plan.limits, counted, ground.namespaces).map_err(at(Step::Limits))?;
    let mut installed = Installed { limits, landlock: 0, namespaces: ground.namespaces, masked, cgroup };
    if hold.class == Class::Advisory {
        // Without it a setuid program could become another user's, which this one could not end.
        rustix::thread::set_no_new_privs(true).map_err(at(Step::Privileges))?;
        return Ok(installed);
    }
    landlock(hold, &ground.files).map_err(at(Step::Landlock))?;
    installed.landlock = hold.landlock;
    sys::load_filter(&hold.filter).map_err(at(Step::Seccomp))?;
    Ok(installed)
}

/// Its own session, and its end with the helper's.
fn tie(ground: &Ground<'_>) -> Result<(), Errno> {
    rustix::process::setsid()?;
    // Should the helper be killed, this one dies with it. The helper has one thread, so "parent" is clear.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let tied = if ground.namespaces.contains(Namespace::Pid) {
        init::parent_is_outside()
    } else {
        rustix::process::getppid() == Some(ground.helper)
    };
    if tied { Ok(()) } else { Err(Errno::SRCH) }
}

/// The same rules that the file tree follows, on the files themselves.
fn landlock(hold: &Hold, files: &Files) -> Result<(), Errno> {
    let mut rules = Rules::new(hold.landlock)?;
    match files {
        Files::Own(root, _) => {
            for (place, access) in root.shown() {
                rules = rules.allow_open(place, access)?;
            }
        }
        Files::Host(places) => {
            for (place, access) in places.added_up() {
                rules = rules.allow_open(place, access)?;
            }
        }
    }
    rules = rules.allow(c"/proc", Access::Read)?;
    for device in DEVICES {
        rules = rules.allow(device, Access::Write)?;
    }
    if hold.own_root {
        rules = rules.allow_listing(c"/")?.allow(c"/tmp", Access::Write)?.allow(c"/dev/shm", Access::Write)?;
        rules = rules.allow_terminals(c"/dev/pts")?.allow(c"/dev/ptmx", Access::Write)?;
    }
    rules.enforce()
}

/// Sets the limits and reads back what holds.
fn limit(wanted: &Limits, counted: u64, namespaces: Namespaces) -> Result<Limits, Errno> {
    let set = |resource, value: Option<u64>, grace: u64| {
        let Some(value) = value else { return Ok(None) };
        let clamp = |value: u64| getrlimit(resource).maximum.map_or(value, |hard| hard.min(value));
        let current = clamp(value);
        setrlimit(resource, Rlimit { current: Some(current), maximum: Some(clamp(current.saturating_add(grace))) })?;
        Ok(getrlimit(resource).current)
    };
    let max_processes = wanted.max_processes.map(|more| more.saturating_add(counted));
    let max_processes = set(Resource::Nproc, max_processes, 0)?;
    let own = if namespaces.contains(Namespace::User) { counted } else { 0 };
    Ok(Limits {
        cpu_seconds: set(Resource::Cpu, wanted.cpu_seconds, 1)?,
        memory_bytes: set(Resource::Data, wanted.memory_bytes, 0)?,
        // Set for root as well, for what it may turn into, but not claimed.
        max_processes: max_processes
            .filter(|_| !rustix::process::getuid().is_root())
            .map(|total| total.saturating_sub(own)),
        max_open_files: set(Resource::Nofile, wanted.max_open_files, 0)?,
        max_file_size_bytes: set(Resource::Fsize, wanted.max_file_size_bytes, 0)?,
    })
}

/// How many threads the kernel may count against the limit already. In a user namespace of its own, those of its own that
/// are in it. Else all that the host runs: the kernel counts a user's, so a bare number would refuse the first fork on any
/// desktop; and counting that user's own takes milliseconds, this one read.
fn threads_before(namespaces: Namespaces) -> Result<u64, Errno> {
    if namespaces.contains(Namespace::User) {
        return Ok(1 + u64::from(namespaces.contains(Namespace::Pid)));
    }
    let load =
        fs::read_to_string("/proc/loadavg").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let threads = load.split_ascii_whitespace().nth(3).and_then(|field| field.split_once('/'));
    threads.and_then(|(_, total)| total.parse().ok()).ok_or(Errno::BADMSG)
}
