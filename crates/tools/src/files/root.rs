//! The directory that file tools may reach, and how a path below it is reached.
//!
//! Every lookup starts at one descriptor and goes through `openat2` with `RESOLVE_BENEATH`, so the
//! kernel itself refuses `..`, links and mounts of `/proc` that lead out, also while somebody swaps
//! directories. `BENEATH` refuses every absolute link; one that points back inside is resolved here, by
//! hand, to a path without links, which is then opened with `RESOLVE_NO_SYMLINKS`.
//!
//! Nothing outside the root is ever looked at: the resolution by hand stops where a path leaves.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::{ToolError, show};

/// How often a lookup that a concurrent rename disturbed is repeated.
const RETRIES: usize = 128;
/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// An opened root directory.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    descriptor: OwnedFd,
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To a place below the root.
    Inside {
        /// The components that exist, links resolved.
        existing: PathBuf,
        /// What follows them and does not exist yet.
        missing: Vec<OsString>,
    },
    /// Out of the root, to this path, which was not looked at.
    Outside(PathBuf),
}

impl Root {
    /// Opens a directory as a root.
    pub(crate) fn open(path: &Path) -> Result<Self, ToolError> {
        let failed = |source: io::Error| ToolError::Root { path: show::path(path), source };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let path = real_path(descriptor.as_fd()).map_err(|errno| failed(errno.into()))?;
        Ok(Self { path, descriptor })
    }

    /// Its real path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its device and inode.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        rustix::fs::fstat(&self.descriptor).ok().map(|stat| (stat.st_dev, stat.st_ino))
    }

    /// The path that an agent means, absolute and plain, by its text alone.
    pub(crate) fn absolute(&self, given: &Path) -> PathBuf {
        policy::lexical(&self.path.join(given))
    }

    /// The part of an absolute path below the root; `.` for the root itself.
    pub(crate) fn below(&self, absolute: &Path) -> Option<PathBuf> {
        let below = absolute.strip_prefix(&self.path).ok()?;
        Some(if below.as_os_str().is_empty() { PathBuf::from(".") } else { below.to_owned() })
    }

    /// Opens a path below the root as the kernel resolves it: links are followed as long as they are
    /// relative and stay inside.
    pub(crate) fn beneath(&self, below: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        lookup(self.descriptor.as_fd(), below, flags, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
    }

    /// Opens a path below the root that holds no link.
    pub(crate) fn plain(&self, below: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        lookup(self.descriptor.as_fd(), below, flags, resolve)
    }

    /// Resolves the links of a path below the root by hand; the last component's only if `follow`.
    pub(crate) fn way(&self, below: &Path, follow: bool) -> Result<Way, Errno> {
        let mut done: Vec<OsString> = Vec::new();
        let mut ahead: Vec<OsString> = backwards(below);
        let mut links = 0;
        while let Some(component) = ahead.pop() {
            if component == ".." {
                if done.pop().is_none() {
                    let rest: PathBuf = ahead.iter().rev().collect();
                    return Ok(Way::Outside(policy::lexical(&self.path.join("..").join(rest))));
                }
                continue;
            }
            done.push(component);
            let path: PathBuf = done.iter().collect();
            let node = match self.plain(&path, OFlags::PATH | OFlags::NOFOLLOW) {
                Ok(node) => node,
                Err(Errno::NOENT) => return missing(done, ahead),
                Err(errno) => return Err(errno),
            };
            let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&node)?.st_mode);
            if kind != rustix::fs::FileType::Symlink || (ahead.is_empty() && !follow) {
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            done.pop();
            let target = read_link(node.as_fd())?;
            let relative = if target.is_absolute() {
                match target.strip_prefix(&self.path) {
                    Ok(inside) => {
                        done.clear();
                        inside.to_owned()
                    }
                    Err(_) => {
                        return Ok(Way::Outside(policy::lexical(
                            &target.join(ahead.iter().rev().collect::<PathBuf>()),
                        )));
                    }
                }
            } else {
                target
            };
            ahead.extend(backwards(&relative));
        }
        Ok(Way::Inside { existing: joined(&done), missing: Vec::new() })
    }
}

/// The last component of `done` does not exist, nor does anything ahead of it.
fn missing(mut done: Vec<OsString>, ahead: Vec<OsString>) -> Result<Way, Errno> {
    let mut missing: Vec<OsString> = done.pop().into_iter().collect();
    missing.extend(ahead.into_iter().rev());
    // What does not exist has no parent to go back to.
    if missing.iter().any(|component| component == "..") {
        return Err(Errno::NOENT);
    }
    Ok(Way::Inside { existing: joined(&done), missing })
}

fn joined(components: &[OsString]) -> PathBuf {
    if components.is_empty() { PathBuf::from(".") } else { components.iter().collect() }
}

/// A path's components, last first; `.` dropped.
fn backwards(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// One confined lookup, repeated while concurrent renames disturb it.
pub(crate) fn lookup(
    from: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    for _ in 0..RETRIES {
        match rustix::fs::openat2(from, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Old container profiles answer EPERM to a call that they do not know.
            Err(Errno::PERM) => return Err(Errno::NOSYS),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// The path that the kernel has for a descriptor now.
///
/// A removed file's path ends in ` (deleted)`, which is a legal ending of a name as well; the link count
/// tells them apart, so the callers that care look at that.
pub(crate) fn real_path(descriptor: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    use std::os::fd::AsRawFd as _;
    let path = rustix::fs::readlinkat(CWD, format!("/proc/self/fd/{}", descriptor.as_raw_fd()), Vec::new())?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    // `(unreachable)/…`, `pipe:[…]`: nothing that a rule could judge.
    if path.is_absolute() { Ok(path) } else { Err(Errno::XDEV) }
}

/// The text of a link that is held open.
pub(crate) fn read_link(link: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    let target = rustix::fs::readlinkat(link, "", Vec::new())?;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(target.as_bytes())))
}
