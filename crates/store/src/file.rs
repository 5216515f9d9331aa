//! Files of the store's own in its home: who may touch them, and how a new one comes to be.
//!
//! A file gets its name whole or not at all, by a link from beside it, and never in the place of another: of two
//! processes that make it at once, both then find the one that was first.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::StoreError;
use crate::error::FileFault;

/// What keeps a file from being trusted, if anything does.
pub(crate) fn check(path: &Path, stat: &Stat) -> Result<(), StoreError> {
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
        return Ok(());
    };
    Err(StoreError::UnsafeFile { path: path.to_owned(), fault })
}

/// The path with something after its name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The system's refusal, with what was tried.
pub(crate) fn io(action: &'static str, path: &Path, error: impl Into<std::io::Error>) -> StoreError {
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

    /// Fills it, down to the disk.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let fill = |mut file: File| file.write_all(bytes).and_then(|()| file.sync_all());
        OpenOptions::new().write(true).open(&self.0).and_then(fill).map_err(|error| io("write", &self.0, error))
    }

    /// Gives the file its name, by a link: it never replaces one that another process made meanwhile.
    pub(crate) fn publish(self, path: &Path) -> Result<(), StoreError> {
        match std::fs::hard_link(&self.0, path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(io("make", path, error)),
            _ => {}
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| io("sync", directory, error))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(beside(&self.0, suffix));
        }
    }
}
