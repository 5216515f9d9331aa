//! What holds for a process that was started, as its installation reported it.
//!
//! Everything here is a value that came back from a step that was taken, not one that was asked for.

use std::fmt;

use crate::boundary::Network;
use crate::confinement::{Class, Limits};

/// What holds for a process that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enforcement {
    /// The class that was installed.
    pub class: Class,
    /// The limits in force, read back after they were set: lower than asked where the host's own were
    /// lower, `max_processes` as the user's total where the process has no user namespace of its own, `None` where nothing
    /// is enforced.
    pub limits: Limits,
    /// The version of Landlock's rights that are enforced.
    pub landlock_abi: Option<u32>,
    /// Namespaces of its own.
    pub namespaces: Namespaces,
    /// How many of the masks hold, also those of what is not shown at all.
    pub masked: usize,
    /// The network it has.
    pub network: Network,
    /// Whether a control group bounds the whole tree.
    pub cgroup: bool,
}

/// Some of a process's namespaces.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Namespaces(u8);

/// A kind of namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Users: capabilities mean nothing outside.
    User,
    /// The file tree.
    Mount,
    /// Processes.
    Pid,
    /// System V and POSIX message queues, semaphores, shared memory.
    Ipc,
    /// Host name.
    Uts,
    /// Network.
    Net,
    /// Control groups.
    Cgroup,
}

impl Namespace {
    const ALL: [Self; 7] = [Self::User, Self::Mount, Self::Pid, Self::Ipc, Self::Uts, Self::Net, Self::Cgroup];

    /// The kernel's name of it, as in `/proc/self/ns`.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Mount => "mnt",
            Self::Pid => "pid",
            Self::Ipc => "ipc",
            Self::Uts => "uts",
            Self::Net => "net",
            Self::Cgroup => "cgroup",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Namespaces {
    /// None at all.
    pub const NONE: Self = Self(0);

    /// Whether this one is among them.
    pub fn contains(self, namespace: Namespace) -> bool {
        self.0 & namespace.bit() != 0
    }

    /// Those that are among them, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Namespace> {
        Namespace::ALL.into_iter().filter(move |namespace| self.contains(*namespace))
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
}

impl FromIterator<Namespace> for Namespaces {
    fn from_iter<I: IntoIterator<Item = Namespace>>(namespaces: I) -> Self {
        Self(namespaces.into_iter().fold(0, |bits, namespace| bits | namespace.bit()))
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
