//! What to start and what it may have, and what of it holds: plain data, in and out.
//!
//! Nothing is inherited: a program gets the environment, the directory and the descriptors that stand
//! here and no others. The values are checked when the plan is made (`plan`), not when they are set.

use std::ffi::OsString;
use std::path::PathBuf;

/// One program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Absolute path of the program. No `PATH` is searched: what runs is what was reviewed.
    pub program: PathBuf,
    /// The whole argument vector, the program's own name first.
    pub argv: Vec<OsString>,
    /// The whole environment, in this order.
    pub env: Vec<(OsString, OsString)>,
    /// Absolute path of the directory that the program starts in.
    pub cwd: PathBuf,
    /// What the program reads.
    pub stdin: Stdin,
    /// Bits that are taken from the mode of what the program creates.
    pub umask: u32,
    /// Resource limits.
    pub limits: Limits,
}

impl Confinement {
    /// A program with its own path as `argv[0]`, no arguments, an empty environment, an empty stdin,
    /// umask 022 and no limits.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self {
            argv: vec![program.clone().into_os_string()],
            program,
            env: Vec::new(),
            cwd: cwd.into(),
            stdin: Stdin::Null,
            umask: 0o022,
            limits: Limits::default(),
        }
    }
}

/// What a program finds on its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: `/dev/null`.
    Null,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// A pipe, whose other end is [`Process::stdin`](crate::Process::stdin).
    Pipe,
}

/// Resource limits; `None` leaves what the runtime itself has.
///
/// The kernel keeps each of them for one process, not for the tree, except `max_processes`, which it
/// keeps for one user. They catch accidents; a bound on the whole tree needs a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Seconds of processor time; SIGXCPU when they are spent, SIGKILL a second later.
    pub cpu_seconds: Option<u64>,
    /// Bytes of private memory (`RLIMIT_DATA`). Not the address space: runtimes such as node reserve
    /// far more of it than they use.
    pub memory_bytes: Option<u64>,
    /// Processes and threads over those that the host has already. The kernel counts by user and does
    /// not hold root to it.
    pub max_processes: Option<u64>,
    /// Open descriptors.
    pub max_open_files: Option<u64>,
    /// Bytes in one file; SIGXFSZ on the first byte over it.
    pub max_file_size_bytes: Option<u64>,
}

/// How strongly a process is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// Own session and process group, clean environment, only descriptors 0–2, no new privileges,
    /// resource limits. No file or network boundary.
    Advisory,
}

/// What holds for a process that was started, as its installation reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enforcement {
    /// The class that was installed.
    pub class: Class,
    /// The limits in force, read back after they were set: lower than asked where the host's own were
    /// lower, `max_processes` as the user's total, `None` where nothing is enforced.
    pub limits: Limits,
}
