//! The lock of a repository's index, by git's own protocol: `index.lock` is made, filled, and renamed.
//!
//! It is held here and not by git, because several runs of git make one commit and nothing may come between
//! them. Git itself never sees the real index.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::CommitRefused;
use crate::files::real_path;
use crate::proc::ProcessError;

const LOCK: &str = "index.lock";

/// The lock, held. Dropped, it is given back and the index stays as it was.
#[derive(Debug)]
pub(super) struct IndexLock {
    git_dir: OwnedFd,
    file: File,
    live: bool,
}

impl IndexLock {
    /// Takes the lock in a repository directory, given by its real path.
    ///
    /// # Errors
    /// [`CommitRefused::Busy`] when somebody has it.
    pub(super) fn take(git_dir: &Path) -> Result<Self, ProcessError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::open(git_dir, flags, Mode::empty()).map_err(std::io::Error::from)?;
        if real_path(held.as_fd()).ok().as_deref() != Some(git_dir) {
            return Err(ProcessError::RepositoryLinks);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&held, LOCK, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => Ok(Self { git_dir: held, file: File::from(file), live: true }),
            Err(Errno::EXIST) => {
                let name = git_dir.file_name().map(Path::new).unwrap_or(git_dir);
                Err(CommitRefused::Busy { lock: crate::show::path(&name.join(LOCK)) }.into())
            }
            Err(errno) => Err(std::io::Error::from(errno).into()),
        }
    }

    /// Writes the index that is to be, so that nothing but a rename is left to do. It keeps its time, by
    /// which git tells the files that may have changed since.
    pub(super) fn fill(&mut self, index: &Path) -> std::io::Result<()> {
        let mut index = File::open(index)?;
        std::io::copy(&mut index, &mut self.file)?;
        self.file.set_modified(index.metadata()?.modified()?)?;
        self.file.sync_all()
    }

    /// Puts the new index in the old one's place.
    pub(super) fn publish(mut self) -> std::io::Result<()> {
        rustix::fs::renameat(&self.git_dir, LOCK, &self.git_dir, "index")?;
        self.live = false;
        Ok(())
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if self.live {
            // Nothing can be done about a failure here; git's own advice helps.
            let _ = rustix::fs::unlinkat(&self.git_dir, LOCK, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_lock_and_gives_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let git_dir = dir.path().canonicalize().unwrap();
        std::fs::write(git_dir.join("index"), "old").unwrap();
        let index = || std::fs::read_to_string(git_dir.join("index")).unwrap();
        let new = git_dir.join("made");
        std::fs::write(&new, "new").unwrap();
        let mut lock = IndexLock::take(&git_dir).unwrap();
        assert!(matches!(IndexLock::take(&git_dir), Err(ProcessError::Commit(CommitRefused::Busy { .. }))));
        lock.fill(&new).unwrap();
        drop(lock);
        assert_eq!((index().as_str(), git_dir.join(LOCK).exists()), ("old", false));
        let mut lock = IndexLock::take(&git_dir).unwrap();
        lock.fill(&new).unwrap();
        lock.publish().unwrap();
        assert_eq!((index().as_str(), git_dir.join(LOCK).exists()), ("new", false));
        let modified = |name: &str| git_dir.join(name).metadata().unwrap().modified().unwrap();
        assert_eq!(modified("index"), modified("made"));
        std::os::unix::fs::symlink(&git_dir, git_dir.join("link")).unwrap();
        assert!(IndexLock::take(&git_dir.join("link")).is_err());
    }
}
