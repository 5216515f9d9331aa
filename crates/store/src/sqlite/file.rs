//! The file of an SQLite store: how it is told from another.
//!
//! Everything is asked by name and nothing is opened, because to close a descriptor of the file would drop the
//! locks that SQLite holds on it in this process. The home's own permissions are checked where the home is made.

use std::path::Path;

use rustix::io::Errno;

use crate::StoreError;
use crate::error::Damage;
use crate::file::{beside, check, io};

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
    check(path, &stat)?;
    Ok(Some(Identity {
        file: (stat.st_dev, stat.st_ino),
        size: stat.st_size,
        changed: (stat.st_ctime, seconds_part(stat.st_ctime_nsec)),
        modified: (stat.st_mtime, seconds_part(stat.st_mtime_nsec)),
    }))
}

/// The type of this field differs between architectures.
fn seconds_part(nanoseconds: impl TryInto<i64>) -> i64 {
    nanoseconds.try_into().unwrap_or(-1)
}

/// Whether a journal of a file that is not there was left behind: changes of it are lost, or waiting.
pub(crate) fn has_journal(path: &Path) -> bool {
    ["-wal", "-journal"].iter().any(|suffix| rustix::fs::lstat(beside(path, suffix)).is_ok())
}
