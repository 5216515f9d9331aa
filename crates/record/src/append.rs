//! A file that only grows, by whole lines, under an exclusive lock.
//!
//! A line is written with one system call. When that fails or falls short, the file is cut back to its
//! last whole line and takes no more: the caller stops, or offers the very same line again. So a file
//! never holds a part of a line in its middle, and no line can be missing between two others.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::home::check_file;
use crate::lines::whole_lines_end;
use crate::{Error, MAX_LINE};

/// The file and how much of it is whole.
#[derive(Debug)]
pub(crate) struct AppendFile {
    file: File,
    path: PathBuf,
    whole: u64,
    /// Why a line could not be written that was not offered again with success.
    failed: Option<String>,
}

impl AppendFile {
    /// Makes a file that must not exist yet, for the owner alone.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        Self::locked(path, OFlags::CREATE | OFlags::EXCL)
    }

    /// Opens a file that exists, or makes it. The end of an unfinished last line is cut off; the second
    /// value says how many bytes that were.
    pub(crate) fn open_or_create(path: &Path) -> Result<(Self, u64), Error> {
        Self::locked(path, OFlags::CREATE)?.repaired()
    }

    /// The same for a file that must exist.
    pub(crate) fn open(path: &Path) -> Result<(Self, u64), Error> {
        Self::locked(path, OFlags::empty())?.repaired()
    }

    fn locked(path: &Path, how: OFlags) -> Result<Self, Error> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | how;
        let file =
            rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| Error::io("open", path, error))?;
        let file = File::from(file);
        check_file(&file, path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file, path: path.to_owned(), whole: 0, failed: None }),
            Err(Errno::WOULDBLOCK) => Err(Error::Locked { path: path.to_owned() }),
            Err(error) => Err(Error::io("lock", path, error)),
        }
    }

    fn repaired(mut self) -> Result<(Self, u64), Error> {
        let read = |error| Error::io("read", &self.path, error);
        let length = self.file.seek(SeekFrom::End(0)).map_err(read)?;
        self.whole = whole_lines_end(&mut self.file, length).map_err(read)?;
        let torn = length - self.whole;
        if torn > 0 {
            self.cut()?;
        }
        Ok((self, torn))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// That nothing may follow a line that could not be written, if there is one.
    pub(crate) fn passable(&self) -> Result<(), Error> {
        match &self.failed {
            None => Ok(()),
            Some(why) => Err(Error::Stopped { path: self.path.clone(), why: why.clone() }),
        }
    }

    /// A second descriptor of the same file, to read it from the start. It shares the offset, which
    /// appending does not use.
    pub(crate) fn reader(&self) -> Result<File, Error> {
        let read = |error| Error::io("read", &self.path, error);
        let mut file = self.file.try_clone().map_err(read)?;
        file.seek(SeekFrom::Start(0)).map_err(read)?;
        Ok(file)
    }

    /// Appends one line, its newline included.
    pub(crate) fn append(&mut self, line: &[u8]) -> Result<(), Error> {
        self.passable()?;
        if line.len() > MAX_LINE {
            return Err(Error::LineTooLong { path: self.path.clone(), bytes: line.len() });
        }
        match self.file.write_all(line) {
            Ok(()) => {
                self.whole += u64::try_from(line.len()).unwrap_or(u64::MAX);
                Ok(())
            }
            Err(error) => {
                self.failed = Some(error.to_string());
                // Should this fail too, readers pass over the part and the next opening cuts it.
                let _ = self.cut();
                Err(Error::io("write", &self.path, error))
            }
        }
    }

    /// Offers the line that failed once more; without a failure nothing is done.
    pub(crate) fn retry(&mut self, line: &[u8]) -> Result<bool, Error> {
        if self.failed.is_none() {
            return Ok(false);
        }
        self.cut()?;
        self.failed = None;
        self.append(line).map(|()| true)
    }

    /// Makes what was written last through a loss of power, and sees that it stands under its name: a process
    /// of the same user could have put another file there, and nobody would find what was written since.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let look = |error| Error::io("look at", &self.path, error);
        let ours = self.file.metadata().map_err(look)?;
        let is_there = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|named| (named.dev(), named.ino(), named.len()) == (ours.dev(), ours.ino(), self.whole));
        if !is_there {
            return Err(Error::Replaced { path: self.path.clone() });
        }
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }

    fn cut(&self) -> Result<(), Error> {
        self.file.set_len(self.whole).map_err(|error: io::Error| Error::io("cut", &self.path, error))
    }
}
