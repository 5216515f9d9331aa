//! What to start and what it may have: plain data.
//!
//! Nothing is inherited: a program gets the environment, the directory and the descriptors that stand
//! here and no others. The values are checked when the plan is made (`plan`), not when they are set.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::boundary::{Grant, Mask, Network};

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
    /// How strongly it is held: exactly this is installed, or nothing runs. [`Class::Advisory`] holds none of
    /// what follows, so it takes none of it.
    pub class: Class,
    /// What of the file system it may use, beside [`system_grants`](crate::system_grants), `/proc` to read, devices that
    /// do no harm and `private`. Not even `cwd` is granted by itself.
    pub grants: Vec<Grant>,
    /// A grant that is this directory and no other, by device and inode: where another process may put something else in
    /// its place, or a link, nothing is started then.
    pub pinned: Option<(PathBuf, (u64, u64))>,
    /// What is taken back from the grants. Where the host has no namespaces, [`Class::Scoped`] holds none of them, and
    /// [`Enforcement::masked`](crate::Enforcement::masked) says so.
    pub masks: Vec<Mask>,
    /// A directory of the caller's that it may write: it becomes the process's `/tmp` and keeps its own path too, so that
    /// `HOME` and `TMPDIR` in it are true inside and outside. Programs start from there only when a grant says so.
    /// Directories may be made in it where something that is granted lies below the host's `/tmp`.
    /// Without one, `/tmp` is in memory and gone at the end.
    pub private: Option<PathBuf>,
    /// What network it has.
    pub network: Network,
    /// Ports of 127.0.0.1 on which the helper listens inside the process's own network, for
    /// [`Process::listeners`](crate::Process::listeners). A new network has all of them free. Wants
    /// [`Network::Loopback`]; at most 253.
    pub listen: Vec<u16>,
}

impl Confinement {
    /// A program with its own path as `argv[0]`, no arguments, an empty environment, an empty stdin,
    /// umask 022, no limits, held by [`Class::Advisory`] alone.
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
            class: Class::Advisory,
            grants: Vec::new(),
            pinned: None,
            masks: Vec::new(),
            private: None,
            network: Network::Inherit,
            listen: Vec::new(),
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

/// How strongly a process is held. A stronger class holds all that a weaker one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Own session and process group, clean environment, only descriptors 0–2, no new privileges,
    /// resource limits. No file or network boundary.
    Advisory,
    /// No capabilities; Landlock for files, and against signals and abstract sockets that leave; a filter of system calls;
    /// where the host has namespaces, a file tree of its own that shows only what is granted, and IPC of its own; where it
    /// has not, no System V IPC and no message queues.
    Scoped,
    /// That file tree and IPC always; its own processes, network and host name.
    Sealed,
}

impl Class {
    /// Every class, the weakest first.
    pub const ALL: [Self; 3] = [Self::Advisory, Self::Scoped, Self::Sealed];

    /// The name that manifests and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Advisory => "advisory",
            Self::Scoped => "scoped",
            Self::Sealed => "sealed",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
