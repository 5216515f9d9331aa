//! Something below the root that is held open by a descriptor that can neither read nor write.
//!
//! Holding comes first, judging second, opening last: the rules see the real path of the very thing
//! that is then opened, so nothing can be swapped in between. A FIFO or device is never opened at all.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use policy::{Cleared, Denial, FileId, Operation, Permit, Stamp};
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::root::{Root, Way, real_path};
use super::{Given, Site};
use crate::ToolError;
use crate::execution::Stop;

/// What a descriptor held when it was looked at: enough to see whether it is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }

    /// The same for the gates of the task.
    pub(crate) fn stamp(self) -> Stamp {
        let size = u64::try_from(self.size).unwrap_or(0);
        Stamp { device: self.device, inode: self.inode, size, modified: self.modified }
    }
}

/// A held file or directory.
#[derive(Debug)]
pub(crate) struct Node {
    /// For messages: as the agent wrote it.
    written: PathBuf,
    real: PathBuf,
    stat: Stat,
    descriptor: OwnedFd,
}

impl Site<'_> {
    /// Finds what a path leads to, for reading; links are followed as long as they stay inside.
    ///
    /// # Errors
    /// A denial when the path leads out; else why nothing was found.
    pub(crate) fn find(self, given: &Given) -> Result<Node, Stop> {
        let failed = |errno| self.failed(given, Operation::Read, "open", errno);
        let below = self.below(given, Operation::Read)?;
        let descriptor = match self.root.beneath(&below, OFlags::PATH) {
            Err(Errno::XDEV) => match self.root.way(&below, true).map_err(failed)? {
                Way::Inside { existing, missing } if missing.is_empty() => {
                    self.root.plain(&existing, OFlags::PATH).map_err(failed)?
                }
                Way::Inside { .. } => return Err(failed(Errno::NOENT)),
                Way::Outside(path) => return Err(self.leads_out(given, Operation::Read, &path)),
            },
            other => other.map_err(failed)?,
        };
        Node::hold(given.written(), descriptor).map_err(failed)
    }

    /// The part of a given path below the root.
    pub(super) fn below(self, given: &Given, operation: Operation) -> Result<PathBuf, Stop> {
        let below = self.root.below(given.absolute());
        below.ok_or_else(|| self.leads_out(given, operation, given.absolute()))
    }

    /// Why a path cannot be reached, unless a rule covers something on the way: whether that is there, or what
    /// it is, is not told then.
    pub(super) fn failed(self, given: &Given, operation: Operation, doing: &'static str, errno: Errno) -> Stop {
        let resolved = match policy::realpath(given.absolute()) {
            policy::Resolved::Path(real) => Some(real),
            policy::Resolved::Unresolvable => None,
        };
        let ways = [Some(given.absolute()), resolved.as_deref()].into_iter().flatten();
        let above = ways.flat_map(|way| way.ancestors().skip(1));
        let mut inside = above.filter(|path| path.starts_with(self.root.path()) && *path != self.root.path());
        match inside.find_map(|path| self.permit.confirm_path(operation, path).err()) {
            Some(denial) => Stop::Denied(denial),
            None => ToolError::os(doing, given.written(), errno).into(),
        }
    }

    /// The refusal of a path that leaves the root: the policy's own word where it has one.
    pub(super) fn leads_out(self, given: &Given, operation: Operation, path: &Path) -> Stop {
        match self.permit.confirm_path(operation, path) {
            Err(denial) => Stop::Denied(denial),
            Ok(_) => ToolError::Outside { path: given.shown() }.into(),
        }
    }
}

impl Root {
    /// Holds a path below the root that has no links, or fails.
    pub(crate) fn node(&self, below: &Path) -> Result<Node, Errno> {
        Node::hold(below, self.plain(below, OFlags::PATH | OFlags::NOFOLLOW)?)
    }
}

impl Node {
    pub(super) fn hold(written: &Path, descriptor: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&descriptor)?;
        // Removed since it was found; its path would end in ` (deleted)`.
        if stat.st_nlink == 0 {
            return Err(Errno::NOENT);
        }
        let real = real_path(descriptor.as_fd())?;
        Ok(Self { written: written.to_owned(), real, stat, descriptor })
    }

    /// The path that the kernel knows it by.
    pub(crate) fn real(&self) -> &Path {
        &self.real
    }

    /// What was known of it when it was found.
    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Its size in bytes when it was found.
    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// What it was when it was found.
    pub(crate) fn identity(&self) -> Identity {
        Identity::of(&self.stat)
    }

    /// Judges the reading of it by its real path and by what other names it has.
    pub(crate) fn clear(&self, permit: &Permit) -> Result<Cleared, Denial> {
        #[expect(clippy::useless_conversion, reason = "the field's width depends on the processor")]
        let links = if self.kind() == FileType::Directory { 1 } else { u64::from(self.stat.st_nlink) };
        let id = FileId { device: self.stat.st_dev, inode: self.stat.st_ino, links };
        permit.confirm_file(Operation::Read, &self.real, id)
    }

    /// That it is a regular file.
    pub(crate) fn require_file(&self) -> Result<(), ToolError> {
        let path = crate::show::path(&self.written);
        match self.kind() {
            FileType::RegularFile => Ok(()),
            FileType::Directory => Err(ToolError::IsDirectory { path }),
            kind => Err(ToolError::NotRegular { path, kind: kind_words(kind) }),
        }
    }

    /// Opens a regular file for reading.
    pub(crate) fn open(&self, cleared: &Cleared) -> Result<File, ToolError> {
        self.check(cleared)?;
        self.require_file()?;
        // Never blocks, also if the held thing were no regular file after all.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        let opened = rustix::fs::open(path, flags, Mode::empty());
        opened.map(File::from).map_err(|errno| ToolError::os("open", &self.written, errno))
    }

    /// Opens a directory for listing.
    pub(crate) fn entries(&self, cleared: &Cleared) -> Result<Dir, ToolError> {
        self.check(cleared)?;
        let failed = |errno| ToolError::os("list", &self.written, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty()).map_err(failed)?;
        Dir::new(opened).map_err(failed)
    }

    /// The descriptor, for lookups below a directory.
    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    fn check(&self, cleared: &Cleared) -> Result<(), ToolError> {
        if cleared.operation() == Operation::Read && cleared.path() == self.real {
            Ok(())
        } else {
            Err(ToolError::NotCleared { path: crate::show::path(&self.written) })
        }
    }
}

/// A kind with its article.
pub(crate) fn kind_words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "of an unknown kind",
    }
}
