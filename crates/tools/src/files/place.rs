//! Where something is to be written or removed: a name in a held directory.
//!
//! The links of the path are resolved first, the last one too, so that writing through a link is judged
//! at the link's end; from then on only the held parent and the name count. Missing directories are made
//! one at a time, each judged by itself, and taken away again when what they were made for fails.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use policy::{Cleared, Operation, Permit};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::node::Node;
use super::root::{Way, lookup, real_path};
use super::{Given, Site};
use crate::ToolError;
use crate::execution::Stop;

/// How a place is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Whether missing directories are made.
    pub(crate) make: bool,
    /// Whether a link at the end is followed to the place that it names.
    pub(crate) follow: bool,
}

/// A name in a held directory. Dropped, it takes along what directories were made for it and are empty.
#[derive(Debug)]
pub(crate) struct Place {
    written: PathBuf,
    parent: OwnedFd,
    name: OsString,
    existing: Option<Node>,
    made: Vec<(OwnedFd, OsString)>,
}

impl Site<'_> {
    /// Finds the place that a path names.
    ///
    /// # Errors
    /// A denial when the path leads out or a directory may not be made; else what is in the way.
    pub(crate) fn place(self, given: &Given, operation: Operation, reach: Reach) -> Result<Place, Stop> {
        let failed = |errno| self.failed(given, operation, "reach", errno);
        let below = self.below(given, operation)?;
        let (mut directory, mut names) = match self.root.way(&below, reach.follow).map_err(failed)? {
            Way::Outside(path) => return Err(self.leads_out(given, operation, &path)),
            Way::Inside { mut existing, mut missing } => {
                if missing.is_empty() {
                    let Some(name) = existing.file_name().map(OsStr::to_owned) else {
                        return Err(ToolError::IsDirectory { path: given.shown() }.into());
                    };
                    existing.pop();
                    missing.push(name);
                }
                (existing, missing.into_iter())
            }
        };
        if directory.as_os_str().is_empty() {
            directory.push(".");
        }
        let parent = self.root.plain(&directory, OFlags::PATH | OFlags::DIRECTORY).map_err(failed)?;
        let Some(name) = names.next_back() else { return Err(failed(Errno::NOENT)) };
        let mut place = Place { written: given.written().to_owned(), parent, name, existing: None, made: Vec::new() };
        for directory in names {
            if !reach.make {
                return Err(failed(Errno::NOENT));
            }
            place.enter(directory, self.permit)?;
        }
        place.look().map_err(failed)?;
        Ok(place)
    }

    /// The real path that a name has or would have, its last component not followed, if it may be
    /// written: what tells two names for one file.
    pub(crate) fn target(self, given: &Given) -> Result<PathBuf, Stop> {
        let below = self.below(given, Operation::Write)?;
        match self.root.way(&below, false).map_err(|errno| self.failed(given, Operation::Write, "reach", errno))? {
            Way::Outside(path) => Err(self.leads_out(given, Operation::Write, &path)),
            Way::Inside { existing, missing } => {
                let real = self.root.absolute(&existing.join(missing.into_iter().collect::<PathBuf>()));
                self.permit.confirm_path(Operation::Write, &real)?;
                Ok(real)
            }
        }
    }
}

impl Place {
    /// Makes a directory in the parent and goes into it.
    fn enter(&mut self, name: OsString, permit: &Permit) -> Result<(), Stop> {
        let failed = |errno| Stop::Failed(ToolError::os("make a directory for", &self.written, errno));
        let real = real_path(self.parent.as_fd()).map_err(failed)?.join(&name);
        let cleared = permit.confirm_path(Operation::Write, &real)?;
        let made = make_directory(&self.parent, &name, &cleared);
        match made {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let inside =
            confined(&self.parent, &name, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW).map_err(failed)?;
        let parent = std::mem::replace(&mut self.parent, inside);
        if made.is_ok() {
            self.made.push((parent, name));
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Errno> {
        self.existing = match confined(&self.parent, &self.name, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(descriptor) => Some(Node::hold(&self.written, descriptor)?),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        Ok(())
    }

    /// As the agent wrote it.
    pub(crate) fn written(&self) -> &Path {
        &self.written
    }

    pub(super) fn parent(&self) -> &OwnedFd {
        &self.parent
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// What has the name, if something has.
    pub(crate) fn existing(&self) -> Option<&Node> {
        self.existing.as_ref()
    }

    /// The regular file that has the name.
    ///
    /// # Errors
    /// When nothing has, or something that is no regular file.
    pub(crate) fn file(&self) -> Result<&Node, ToolError> {
        match &self.existing {
            None => Err(ToolError::NotFound { path: crate::show::path(&self.written) }),
            Some(node) => node.require_file().map(|()| node),
        }
    }

    /// That a regular file can stand here: nothing does, or one does.
    pub(crate) fn require_writable(&self) -> Result<(), ToolError> {
        self.existing.as_ref().map_or(Ok(()), Node::require_file)
    }

    /// The real path of the place as it is now.
    pub(crate) fn real(&self) -> Result<PathBuf, ToolError> {
        let parent = real_path(self.parent.as_fd()).map_err(|errno| ToolError::os("reach", &self.written, errno))?;
        Ok(parent.join(&self.name))
    }

    /// Judges an operation on the place by its real path as it is now.
    pub(crate) fn clear(&self, permit: &Permit, operation: Operation) -> Result<Cleared, Stop> {
        Ok(permit.confirm_path(operation, &self.real()?)?)
    }

    /// Lets the directories stay that were made for it.
    pub(crate) fn keep(&mut self) {
        self.made.clear();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        while let Some((parent, name)) = self.made.pop() {
            // Somebody may have put something into it meanwhile; then it stays.
            let _ = rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR);
        }
    }
}

/// Makes one directory, where the mode is the umask's to narrow.
fn make_directory(parent: &OwnedFd, name: &OsStr, cleared: &Cleared) -> Result<(), Errno> {
    if cleared.operation() != Operation::Write || cleared.path().file_name() != Some(name) {
        return Err(Errno::PERM);
    }
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777))
}

/// Looks one name up in a held directory; a link is held, not followed.
fn confined(parent: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    lookup(parent.as_fd(), Path::new(name), flags, resolve)
}
