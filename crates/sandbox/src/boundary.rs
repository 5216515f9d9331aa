//! The parts of a boundary: what is granted, what is taken back, which network.
//!
//! The nearest grant counts and masks only take away, so the order in which either is listed does not matter.

use std::path::PathBuf;

/// A file, or a directory with all that is below it, that a process may use.
///
/// Grants of one path add up. Of one that lies below another, the nearer one says whether files may be changed there, so
/// [`Access::Read`] below [`Access::Write`] is kept from changes; programs can be started there if either says so, but
/// what may be written below what may only be started, or the other way round, is never both: that takes
/// [`Access::WriteExecute`]. Directories on the way from one that is written to one below it can be neither renamed nor
/// removed, see [`Mask`].
///
/// What does not exist when the process starts is left out: where an outer grant writes, the process can make it, and a
/// later one gets it as it was made. No link is followed that lies below what is written, for an earlier process may have
/// made it: a grant that passes one is left out. Links elsewhere are followed, and shown as well. A local socket that
/// lies in a grant can be connected to, whatever the access.
///
/// Where the host has no namespaces, rules can only add up: what lies below a grant that writes may be written, too. Of two
/// that together would let it write and start the same, the inner one only reads; the outer one stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Absolute path on the host.
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

    /// What this allows at a place below one that allows the other: what is written is told by the nearer one; programs
    /// may be started if either says so, unless that made a place of both that neither is.
    pub(crate) fn below(self, above: Self) -> Self {
        Self::of(self.writes(), self.executes() || above.executes() && (!self.writes() || above.writes()))
    }

    /// What both allow together.
    pub(crate) fn or(self, other: Self) -> Self {
        Self::of(self.writes() || other.writes(), self.executes() || other.executes())
    }
}

/// What is taken back at a path that exists when the process starts, with all that is below it.
///
/// Of several that meet, each holds. A link is followed: what it leads to is masked. Other names of the same file (hard
/// links) are not found by it: whoever wants them masked lists them. So does whoever wants the target of a link masked
/// that the process may replace: a later start follows the link as it is then. It holds for as long as nobody outside
/// renames another file over the masked name: then the new one shows.
///
/// So that a later start finds it by the same name, the directories between it and the root of the grant that writes are
/// pinned: they can be used as before, but renaming or removing one fails with EBUSY, and renaming or linking a file from
/// one side of it to the other with EXDEV, as between file systems (`mv` copies then).
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
