//! Replacing, creating and removing files so that each is whole at every moment and can be undone.
//!
//! New content is written beside its place under a name of its own, made durable, and then renamed: an
//! exchange when there was a file, so that what came out can be compared with what was read before, and
//! put back if it is something else. A removal is a rename aside first, for the same reason.
//!
//! It does not undo anything after a crash: a process that dies between two renames leaves a
//! `.…murmur-….tmp` file beside the place.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use policy::{Cleared, Operation, Permit};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use super::node::{Identity, Node};
use super::place::Place;
use super::root::real_path;
use crate::ToolError;
use crate::execution::Stop;

/// The owner and mode that a file gets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Access<'a> {
    /// The file whose they are; without one, those of the file that is replaced; without that, as usual
    /// for a new file.
    pub(crate) like: Option<&'a Node>,
    /// Whether those who may read it may run it, if that is to be changed.
    pub(crate) executable: Option<bool>,
}

/// A change that is prepared but not done. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Staged {
    change: Change,
    /// The name beside the place: of the new content before, of the old content after.
    aside: Aside,
    name: OsString,
    written: PathBuf,
    real: PathBuf,
}

/// `old` is what was there, `new` what was written: each is checked whenever it changes places.
#[derive(Debug, Clone, Copy)]
enum Change {
    Create { new: Identity },
    Replace { old: Identity, new: Identity },
    Remove { old: Identity },
}

/// A change that is done and can still be taken back.
#[derive(Debug)]
#[must_use]
pub(crate) struct Done(Staged);

/// A name of our own in a directory; whatever has it when this is dropped is removed.
#[derive(Debug)]
struct Aside {
    parent: OwnedFd,
    name: OsString,
    live: bool,
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.live {
            // Nothing can be done about a failure here.
            let _ = rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::empty());
        }
    }
}

impl Staged {
    /// Writes new content beside its place.
    ///
    /// # Errors
    /// When the clearance is for something else, or the content cannot be written whole.
    pub(crate) fn write(
        place: &Place,
        content: &[u8],
        access: Access<'_>,
        cleared: &Cleared,
    ) -> Result<Self, ToolError> {
        check(place, cleared, Operation::Write)?;
        let failed = |errno| ToolError::os("write", place.written(), errno);
        let old = place.existing();
        let like = access.like.or(old);
        // A new file gets what the umask and the directory's defaults leave; any other is nobody's to
        // read until it has its mode.
        let initial = match (like, access.executable) {
            (Some(_), _) => 0o600,
            (None, Some(true)) => 0o777,
            (None, _) => 0o666,
        };
        let parent = place.parent().try_clone().map_err(|error| ToolError::io("write", place.written(), error))?;
        let (file, name) = temporary(&parent, Mode::from_raw_mode(initial)).map_err(failed)?;
        let aside = Aside { parent, name, live: true };
        let mut file = File::from(file);
        file.write_all(content).map_err(|error| ToolError::io("write", place.written(), error))?;
        if let Some(like) = like {
            adopt(&file, like, access.executable).map_err(failed)?;
        }
        file.sync_all().map_err(|error| ToolError::io("write", place.written(), error))?;
        let new = Identity::of(&rustix::fs::fstat(&file).map_err(failed)?);
        let change = old.map_or(Change::Create { new }, |old| Change::Replace { old: old.identity(), new });
        Ok(Self::new(place, change, aside, cleared))
    }

    /// Prepares a removal.
    ///
    /// # Errors
    /// When the clearance is for something else, or nothing is there.
    pub(crate) fn remove(place: &Place, cleared: &Cleared) -> Result<Self, ToolError> {
        check(place, cleared, Operation::Delete)?;
        let old = place.file()?;
        let parent = place.parent().try_clone().map_err(|error| ToolError::io("remove", place.written(), error))?;
        let aside = Aside { parent, name: aside_name(), live: false };
        Ok(Self::new(place, Change::Remove { old: old.identity() }, aside, cleared))
    }

    fn new(place: &Place, change: Change, aside: Aside, cleared: &Cleared) -> Self {
        let (name, written) = (place.name().to_owned(), place.written().to_owned());
        Self { change, aside, name, written, real: cleared.path().to_owned() }
    }

    /// Judges it once more by the real path as it is now: the directory may have moved since.
    pub(crate) fn clear(&self, permit: &Permit) -> Result<Cleared, Stop> {
        let parent = real_path(self.aside.parent.as_fd());
        let real = parent.map_err(|errno| ToolError::os("reach", &self.written, errno))?.join(&self.name);
        Ok(permit.confirm_path(self.change.operation(), &real)?)
    }

    /// Does it, given a fresh clearance.
    ///
    /// # Errors
    /// When the clearance is for another path than the first, when something else changed the file
    /// meanwhile, or the rename fails. Everything stands then as before.
    pub(crate) fn commit(mut self, cleared: &Cleared) -> Result<Done, ToolError> {
        if cleared.operation() != self.change.operation() || cleared.path() != self.real {
            return Err(self.conflict());
        }
        // Whatever stands aside may be the only copy of something, until it is known to be ours.
        let staged = std::mem::replace(&mut self.aside.live, false);
        let done = match self.change {
            Change::Create { .. } => self.rename(&self.aside.name, &self.name, RenameFlags::NOREPLACE),
            Change::Replace { old, .. } => self.swap(old),
            Change::Remove { old } => self.put_aside(old),
        };
        match done {
            Ok(()) => Ok(Done(self)),
            Err(error) => {
                self.aside.live = staged && self.is_aside(self.change.written());
                Err(error)
            }
        }
    }

    /// Exchanges the place with what stands aside, if the place holds `expected`.
    fn swap(&self, expected: Identity) -> Result<(), ToolError> {
        self.rename(&self.aside.name, &self.name, RenameFlags::EXCHANGE)?;
        if self.is_aside(Some(expected)) {
            return Ok(());
        }
        self.rename(&self.aside.name, &self.name, RenameFlags::EXCHANGE)?;
        Err(self.conflict())
    }

    /// Renames the place aside, if it holds `expected`.
    fn put_aside(&self, expected: Identity) -> Result<(), ToolError> {
        self.rename(&self.name, &self.aside.name, RenameFlags::NOREPLACE)?;
        if self.is_aside(Some(expected)) {
            return Ok(());
        }
        self.rename(&self.aside.name, &self.name, RenameFlags::NOREPLACE)?;
        Err(self.conflict())
    }

    fn is_aside(&self, expected: Option<Identity>) -> bool {
        let stat = rustix::fs::statat(&self.aside.parent, &self.aside.name, AtFlags::SYMLINK_NOFOLLOW);
        expected.is_some_and(|expected| stat.is_ok_and(|stat| Identity::of(&stat) == expected))
    }

    fn rename(&self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> Result<(), ToolError> {
        let parent = &self.aside.parent;
        let renamed = match rustix::fs::renameat_with(parent, from, parent, to, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if flags == RenameFlags::EXCHANGE => {
                exchange_by_hand(parent, from, to)
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_by_hand(parent, from, to),
            other => other,
        };
        renamed.map_err(|errno| match errno {
            // Gone, or come into being, since it was looked at.
            Errno::NOENT | Errno::EXIST => self.conflict(),
            errno => ToolError::os("replace", &self.written, errno),
        })
    }

    fn conflict(&self) -> ToolError {
        ToolError::Conflict { path: crate::show::path(&self.written) }
    }
}

impl Done {
    /// Makes it final and durable, and tells the gates of the task what stands there now.
    pub(crate) fn finish(self, permit: &Permit) {
        let Self(mut staged) = self;
        match (permit.confirm_path(staged.change.operation(), &staged.real), staged.change.written()) {
            (Ok(cleared), Some(new)) => permit.wrote(&cleared, new.stamp()),
            (Ok(cleared), None) => permit.removed(&cleared),
            (Err(_), _) => permit.mutated(),
        }
        staged.aside.live = !matches!(staged.change, Change::Create { .. });
        let parent = staged.aside.parent.try_clone();
        drop(staged);
        // The change stands; that its name is not yet on disk is no reason to report a failure.
        let _ = parent.map(|parent| sync_directory(&parent));
    }

    /// Takes it back.
    ///
    /// # Errors
    /// When something else changed the place once more: that is left, and the old content stays aside.
    pub(crate) fn undo(self) -> Result<(), ToolError> {
        let Self(mut staged) = self;
        match staged.change {
            Change::Create { new } => staged.put_aside(new)?,
            Change::Replace { new, .. } => staged.swap(new)?,
            Change::Remove { .. } => return staged.rename(&staged.aside.name, &staged.name, RenameFlags::NOREPLACE),
        }
        staged.aside.live = true;
        Ok(())
    }
}

impl Change {
    fn operation(&self) -> Operation {
        match self {
            Self::Create { .. } | Self::Replace { .. } => Operation::Write,
            Self::Remove { .. } => Operation::Delete,
        }
    }

    fn written(&self) -> Option<Identity> {
        match *self {
            Self::Create { new } | Self::Replace { new, .. } => Some(new),
            Self::Remove { .. } => None,
        }
    }
}

/// Gives a place new content, at once or not at all.
///
/// # Errors
/// When it may not be written or the content cannot be; the place has its old content then.
pub(super) fn put(place: &Place, content: &[u8], cleared: &Cleared, permit: &Permit) -> Result<(), Stop> {
    let staged = Staged::write(place, content, Access::default(), cleared)?;
    let again = staged.clear(permit)?;
    permit.mutated();
    staged.commit(&again)?.finish(permit);
    Ok(())
}

/// An exchange for file systems without one (NFS, 9p): `to` is never missing where hard links are known,
/// and for a moment where not.
fn exchange_by_hand(parent: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    let third = aside_name();
    let linked = rustix::fs::linkat(parent, to, parent, &third, AtFlags::empty()).is_ok();
    if !linked {
        rustix::fs::renameat(parent, to, parent, &third)?;
    }
    if let Err(errno) = rustix::fs::renameat(parent, from, parent, to) {
        if linked {
            rustix::fs::unlinkat(parent, &third, AtFlags::empty())?;
        } else {
            rustix::fs::renameat(parent, &third, parent, to)?;
        }
        return Err(errno);
    }
    rustix::fs::renameat(parent, &third, parent, from)
}

/// A rename that replaces nothing, for file systems without one.
fn rename_by_hand(parent: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    match rustix::fs::linkat(parent, from, parent, to, AtFlags::empty()) {
        Ok(()) => rustix::fs::unlinkat(parent, from, AtFlags::empty()),
        Err(Errno::EXIST) => Err(Errno::EXIST),
        // No hard links: look, then rename, which is as good as it gets there.
        Err(_) => match rustix::fs::statat(parent, to, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => rustix::fs::renameat(parent, from, parent, to),
            Err(errno) => Err(errno),
            Ok(_) => Err(Errno::EXIST),
        },
    }
}

/// That a clearance is for this operation on this place.
fn check(place: &Place, cleared: &Cleared, operation: Operation) -> Result<(), ToolError> {
    if cleared.operation() == operation && cleared.path() == place.real()? {
        Ok(())
    } else {
        Err(ToolError::NotCleared { path: crate::show::path(place.written()) })
    }
}

/// Gives a file another's owner, as far as that is ours to give, and its mode but for set-id bits: whoever
/// set those vouched for the old content, not for this.
fn adopt(file: &File, like: &Node, executable: Option<bool>) -> Result<(), Errno> {
    let new = rustix::fs::fstat(file)?;
    let (uid, gid) = (like.stat().st_uid, like.stat().st_gid);
    if (new.st_uid, new.st_gid) != (uid, gid) {
        // One after the other: a group may be ours to give where the owner is not.
        let _ = rustix::fs::fchown(file, None, Some(Gid::from_raw(gid)));
        let _ = rustix::fs::fchown(file, Some(Uid::from_raw(uid)), None);
    }
    let old = like.stat().st_mode & 0o1777;
    let mode = match executable {
        None => old,
        Some(true) => old | ((old & 0o444) >> 2),
        Some(false) => old & !0o111,
    };
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))
}

/// A new empty file under a name of our own.
fn temporary(parent: &OwnedFd, mode: Mode) -> Result<(OwnedFd, OsString), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let name = aside_name();
        match rustix::fs::openat(parent.as_fd(), &name, flags, mode) {
            Err(Errno::EXIST) => {}
            other => return other.map(|file| (file, name)),
        }
    }
}

/// A name that nothing else has: 64 random bits.
fn aside_name() -> OsString {
    OsString::from(format!(".murmur-{:016x}.tmp", RandomState::new().hash_one(std::process::id())))
}

fn sync_directory(directory: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::fsync(rustix::fs::openat(directory, ".", flags, Mode::empty())?)
}

#[cfg(test)]
mod tests;
