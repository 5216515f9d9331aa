//! Opening a record to read it: a regular file or nothing.
//!
//! A pipe or a device in a record's place could hold a reader for ever, or be changed by being opened,
//! so the open waits for nothing and what came of it is looked at through the descriptor. A link in the
//! home could lead out of it. Whose file it is does not matter to a reader.

use std::fs::File;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::Error;
use crate::error::Unsafe;

/// What a link in a file's place means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// It leads on: the operator named the file.
    Follow,
    /// It is refused: the runtime makes none.
    Refuse,
}

pub(crate) fn open(path: &Path, links: Links) -> Result<File, Error> {
    let refused = |fault| Error::UnsafeRecord { path: path.to_owned(), fault };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = if links == Links::Refuse { flags | OFlags::NOFOLLOW } else { flags };
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(refused(Unsafe::Symlink)),
        // A socket, or a device that is not there.
        Err(Errno::NXIO | Errno::NODEV) => return Err(refused(Unsafe::NotAFile)),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let metadata = file.metadata().map_err(|error| Error::io("open", path, error))?;
    if metadata.is_file() { Ok(file) } else { Err(refused(Unsafe::NotAFile)) }
}
