//! The file of an SQLite store: who may touch it, how it is told from another, how it comes to be.
//!
//! Everything is asked by name and nothing is opened, because to close a descriptor of the file would drop the
//! locks that SQLite holds on it in this process. The home's own permissions are checked where the home is made.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::StoreError;
use crate::error::{Damage, FileFault};

/// What tells a file, and its content as far as a look can, from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    file: (u64, u64),
    size: i64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl Identity {
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self.file == other.file
    }

    /// A file of less than one page, which SQLite would take for a new one.
    pub(crate) fn too_short(&self) -> Option<Damage> {
        match self.size {
            0 => Some(Damage::Empty),
            1..512 => Some(Damage::Database),
            _ => None,
        }
    }
}

/// Looks at the file: `None` when nothing is there.
pub(crate) fn look(path: &Path) -> Result<Option<Identity>, StoreError> {
    let stat = match rustix::fs::lstat(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(io("look at", path, error)),
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    let mode = stat.st_mode & 0o7777;
    let fault = if kind.is_symlink() {
        FileFault::Link
    } else if !kind.is_file() {
        FileFault::NotAFile
    } else if stat.st_uid != rustix::process::geteuid().as_raw() {
        FileFault::Owner(stat.st_uid)
    } else if mode & 0o077 != 0 {
        FileFault::Exposed(mode)
    } else {
        return Ok(Some(Identity {
            file: (stat.st_dev, stat.st_ino),
            size: stat.st_size,
            changed: (stat.st_ctime, seconds_part(stat.st_ctime_nsec)),
            modified: (stat.st_mtime, seconds_part(stat.st_mtime_nsec)),
        }));
    };
    Err(StoreError::UnsafeFile { path: path.to_owned(), fault })
}

/// The type of this field differs between architectures.
fn seconds_part(nanoseconds: impl TryInto<i64>) -> i64 {
    nanoseconds.try_into().unwrap_or(-1)
}

/// Whether a journal of a file that is not there was left behind: changes of it are lost, or waiting.
pub(crate) fn has_journal(path: &Path) -> bool {
    ["-wal", "-journal"].iter().any(|suffix| rustix::fs::lstat(beside(path, suffix)).is_ok())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn io(action: &'static str, path: &Path, error: impl Into<std::io::Error>) -> StoreError {
    StoreError::Io { action, path: path.to_owned(), source: error.into() }
}

/// A file under a name of its own, removed with what SQLite laid beside it.
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// An empty file of mode 0600 in the directory of `path`.
    pub(crate) fn new(path: &Path) -> Result<Self, StoreError> {
        let mut tag = [0; 8];
        SystemRandom::new().fill(&mut tag).map_err(|_| StoreError::NoRandom)?;
        let temp = beside(path, &format!(".{:016x}", u64::from_ne_bytes(tag)));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(&temp, flags, Mode::RUSR | Mode::WUSR).map_err(|error| io("make", &temp, error))?;
        Ok(Self(temp))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Gives the file its name, by a link: it never replaces one that another process made meanwhile.
    pub(crate) fn publish(self, path: &Path) -> Result<(), StoreError> {
        match std::fs::hard_link(&self.0, path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(io("make", path, error)),
            _ => {}
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| io("sync", directory, error))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(beside(&self.0, suffix));
        }
    }
}
