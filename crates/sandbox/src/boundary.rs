//! The parts of a boundary: what is granted, what is taken back, which network.
//!
//! Grants only add and masks only take away, so the order in which either is listed does not matter.

use std::path::PathBuf;

/// A file, or a directory with all that is below it, that a process may use.
///
/// A grant adds to those above it and takes nothing away; [`Mask`] does. What does not exist when the process
/// starts is left out. A local socket that lies there can be connected to, whatever the access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Absolute path on the host. A link on the way is shown as well.
    pub path: PathBuf,
    /// What may be done there.
    pub access: Access,
}

impl Grant {
    /// A grant of this path.
    pub fn new(path: impl Into<PathBuf>, access: Access) -> Self {
        Self { path: path.into(), access }
    }
}

/// What may be done with what is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read files, list directories.
    Read,
    /// The same, and start programs.
    ReadExecute,
    /// Read; make, change and remove files. No program that lies there can be started.
    Write,
    /// The same, and start programs.
    WriteExecute,
}

impl Access {
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::WriteExecute)
    }

    pub(crate) fn executes(self) -> bool {
        matches!(self, Self::ReadExecute | Self::WriteExecute)
    }

    pub(crate) fn of(writes: bool, executes: bool) -> Self {
        match (writes, executes) {
            (false, false) => Self::Read,
            (false, true) => Self::ReadExecute,
            (true, false) => Self::Write,
            (true, true) => Self::WriteExecute,
        }
    }

    /// What both allow together.
    pub(crate) fn or(self, other: Self) -> Self {
        Self::of(self.writes() || other.writes(), self.executes() || other.executes())
    }
}

/// What is taken back at a path that exists when the process starts, with all that is below it.
///
/// Of several that meet, each holds. A link is followed: what it leads to is masked. Other names of the same file (hard
/// links) are not found by it: whoever wants them masked lists them. It holds for as long as nobody outside renames
/// another file over the masked name: then the new one shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mask {
    /// Absolute path on the host.
    pub path: PathBuf,
    /// What is taken back.
    pub kind: MaskKind,
}

impl Mask {
    /// A mask at this path.
    pub fn new(path: impl Into<PathBuf>, kind: MaskKind) -> Self {
        Self { path: path.into(), kind }
    }
}

/// What a [`Mask`] takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskKind {
    /// Everything: an empty file or directory that nobody can open stands there, also for root.
    Hidden,
    /// Changing it.
    ReadOnly,
    /// Starting programs from it.
    NoExecute,
}

/// What network a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The host's. Only [`Class::Advisory`](crate::Class::Advisory) leaves it.
    Inherit,
    /// None: no socket of any network can be made. Needs no namespace.
    None,
    /// One of its own that has nothing but a loopback interface.
    Loopback,
}

impl Network {
    /// The name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inherit => "inherit",
            Self::None => "none",
            Self::Loopback => "loopback",
        }
    }
}
