//! Why a process could not be started or its end not be told.
//!
//! Errors of the program's start carry the step that failed and the system's own error, so that a
//! caller can tell "there is no such program" from "the directory is gone" without reading text.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::confinement::Class;
use crate::layer::Layer;

/// An error of this room.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A path that must be absolute is not.
    #[error("the {field} `{}` is not an absolute path", Line(value))]
    NotAbsolute {
        /// Which one.
        field: Field,
        /// What it is.
        value: PathBuf,
    },
    /// A value holds a NUL byte, which the system call cannot carry.
    #[error("the {field} holds a NUL byte")]
    NulByte {
        /// Which one.
        field: Field,
    },
    /// The argument vector is empty.
    #[error("the arguments are empty: the first one is the program's name")]
    NoArguments,
    /// A name of an environment variable is empty or holds `=`.
    #[error("`{}` cannot be the name of an environment variable", Line(name))]
    EnvironmentName {
        /// The name.
        name: std::ffi::OsString,
    },
    /// The class cannot hold what is asked for: what it would leave undone is not left undone in silence.
    #[error("the class {class} cannot hold the {part} that is asked for")]
    NotHeld {
        /// The class.
        class: Class,
        /// What it cannot hold.
        part: Field,
    },
    /// The binary never called [`helper_main`](crate::helper_main).
    #[error("this binary cannot act as the sandbox helper")]
    NoHelper,
    /// The helper could not be started or reached.
    #[error("cannot start the sandbox helper: {source}")]
    Helper {
        /// The system's error.
        #[from]
        source: io::Error,
    },
    /// The program could not be started.
    #[error("cannot {step} `{}`: {source}", Line(subject))]
    Start {
        /// What failed.
        step: Step,
        /// The path that the step is about: a grant, a mask, a directory; else the program.
        subject: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The helper ended without a word, or did nothing when asked to: something killed or stopped it.
    /// The program and all that descends from it were killed.
    #[error("the sandbox helper was killed or stopped")]
    HelperLost,
    /// Processes were still there long after SIGKILL: they hang in the kernel.
    #[error("some processes could not be killed: they hang in the kernel")]
    Unkillable,
    /// The runtime could not be made non-dumpable.
    #[error("cannot shield this process from others of the same user: {source}")]
    Harden {
        /// The system's error.
        source: io::Error,
    },
}

impl SandboxError {
    /// The layer that the host lacks, when that is why the program could not be started.
    pub fn layer(&self) -> Option<Layer> {
        match self {
            Self::Start { step, .. } => step.layer(),
            _ => None,
        }
    }

    /// What the reader can do about it, where something can be said.
    pub fn hint(&self) -> Option<&'static str> {
        let io_kind = |source: &io::Error| source.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
        match self {
            Self::NotAbsolute { .. } => Some("give the whole path, beginning with `/`"),
            Self::NulByte { .. } | Self::EnvironmentName { .. } | Self::NoArguments => None,
            Self::NotHeld { .. } => Some("ask for a stronger class, or leave it out"),
            Self::NoHelper => Some("call the helper's hook first thing in `main`"),
            Self::Helper { .. } => {
                Some("check that /proc is mounted and that the limits on processes and open files are not reached")
            }
            Self::Start { step: Step::Execute, source, .. } => match io_kind(source) {
                Some(rustix::io::Errno::NOENT) => {
                    Some("check that the program exists, and so does the interpreter on its `#!` line")
                }
                Some(rustix::io::Errno::ACCESS) => {
                    Some("check that the file is executable and its file system is not mounted noexec")
                }
                Some(rustix::io::Errno::NOEXEC) => Some("a script needs a `#!` line"),
                Some(rustix::io::Errno::TOOBIG) => Some("pass large input by stdin or a file instead of arguments"),
                _ => None,
            },
            Self::Start { step: Step::Directory, .. } => Some("check that the directory exists and may be entered"),
            Self::Start { step: Step::Fork, .. } => Some("the limit on processes is reached: end some of them"),
            Self::Start { step: Step::Grant | Step::Mask, source, .. }
                if io_kind(source) == Some(rustix::io::Errno::NOSPC) =>
            {
                Some("there are too many grants and masks: name directories instead of what is in them")
            }
            Self::Start { step: Step::Grant | Step::Private, .. } => {
                Some("check that it exists and that this user may enter it")
            }
            Self::Start { step: Step::Mask, .. } => {
                Some("something changed there just now, or this user may not see it: try again")
            }
            Self::Start { step, .. } => step.layer().map(Layer::remedy),
            Self::HelperLost => Some("look in the kernel's log for the out-of-memory killer"),
            Self::Unkillable => Some("look for hanging network or device mounts"),
            Self::Harden { .. } => None,
        }
    }
}

/// A part of a [`Confinement`](crate::Confinement).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The program's path.
    Program,
    /// One of the arguments.
    Argument,
    /// One of the environment's names or values.
    Environment,
    /// The directory to start in.
    Directory,
    /// A grant.
    Grant,
    /// A mask.
    Mask,
    /// The private directory.
    Private,
    /// The network.
    Network,
    /// A port to listen on.
    Listen,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "program",
            Self::Argument => "argument",
            Self::Environment => "environment",
            Self::Directory => "working directory",
            Self::Grant => "grant",
            Self::Mask => "mask",
            Self::Private => "private directory",
            Self::Network => "network",
            Self::Listen => "port to listen on",
        })
    }
}

/// A step between the helper's own start and the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The helper's own preparation.
    Prepare,
    /// Its namespaces, and its user and group in them.
    Namespaces,
    /// Its own network.
    Network,
    /// A socket that listens in it.
    Listen,
    /// Its own file tree.
    Root,
    /// One of the grants, in that tree.
    Grant,
    /// The private directory, in that tree.
    Private,
    /// Its own `/proc`.
    Processes,
    /// One of the masks.
    Mask,
    /// Making the process.
    Fork,
    /// Its own session, and its tie to the helper.
    Session,
    /// Its three descriptors, and no others.
    Descriptors,
    /// Its working directory.
    Directory,
    /// Its resource limits.
    Limits,
    /// Giving up capabilities and the way to new privileges.
    Privileges,
    /// Landlock.
    Landlock,
    /// The filter of system calls.
    Seccomp,
    /// The program itself.
    Execute,
}

impl Step {
    /// Every step; a step's place in it is its number on the wire.
    pub(crate) const ALL: [Self; 18] = [
        Self::Prepare,
        Self::Namespaces,
        Self::Network,
        Self::Listen,
        Self::Root,
        Self::Grant,
        Self::Private,
        Self::Processes,
        Self::Mask,
        Self::Fork,
        Self::Session,
        Self::Descriptors,
        Self::Directory,
        Self::Limits,
        Self::Privileges,
        Self::Landlock,
        Self::Seccomp,
        Self::Execute,
    ];

    /// The layer that this step installs.
    pub fn layer(self) -> Option<Layer> {
        match self {
            Self::Namespaces | Self::Root => Some(Layer::Namespaces),
            Self::Network => Some(Layer::Network),
            Self::Processes => Some(Layer::Processes),
            Self::Landlock => Some(Layer::Landlock),
            Self::Seccomp => Some(Layer::Seccomp),
            _ => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepare => "prepare the start of",
            Self::Namespaces => "make namespaces for",
            Self::Network => "make a network for",
            Self::Listen => "listen in the network of",
            Self::Root => "make a file tree for",
            Self::Grant => "grant",
            Self::Private => "use the private directory",
            Self::Processes => "mount a /proc for",
            Self::Mask => "mask",
            Self::Fork => "make a process for",
            Self::Session => "make a session for",
            Self::Descriptors => "set the descriptors of",
            Self::Directory => "enter directory",
            Self::Limits => "set the resource limits of",
            Self::Privileges => "fix the privileges of",
            Self::Landlock => "apply Landlock to",
            Self::Seccomp => "filter the system calls of",
            Self::Execute => "execute",
        })
    }
}

/// A path or name in a message: one line, whatever it holds.
struct Line<'a, T: ?Sized>(&'a T);

impl<T: AsRef<std::ffi::OsStr> + ?Sized> fmt::Display for Line<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_ref().to_string_lossy().escape_debug())
    }
}
