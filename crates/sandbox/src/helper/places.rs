//! What is granted, looked up: each place once, by descriptor, so that no name is trusted twice.
//!
//! Where the process may write, earlier ones of the agent may have made links. So from the root of each grant that writes
//! downwards no link is followed: a grant that passes one there is left out. Links elsewhere are the operator's.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::links::{self, Links};
use super::{Outcome, at};
use crate::boundary::Access;
use crate::error::Step;
use crate::plan::Hold;

/// A place that a process may use.
pub(super) struct Place {
    /// What is shown there.
    pub(super) source: OwnedFd,
    pub(super) directory: bool,
    pub(super) access: Access,
    /// Whether the host has the same at the same path.
    pub(super) same: bool,
    /// The step that it belongs to, and which of its list it is.
    pub(super) from: (Step, usize),
}

/// Every place, by its real path; the parents come first.
#[derive(Default)]
pub(super) struct Places {
    pub(super) all: BTreeMap<PathBuf, Place>,
    /// Links on the way to them.
    pub(super) links: Links,
    /// The private directory, by its real path.
    pub(super) private: Option<PathBuf>,
}

impl Places {
    /// Looks up what is granted, with the private directory.
    pub(super) fn find(hold: &Hold) -> Outcome<Self> {
        let mut places = Self::default();
        let written = written(hold);
        places.add_private(hold, &written).map_err(at(Step::Private))?;
        for (index, (path, access)) in hold.grants.iter().enumerate() {
            let failed = |errno| at(Step::Grant)(errno).of(index);
            if let Some((_, device, inode)) = hold.pinned.as_ref().filter(|(pinned, ..)| pinned == path) {
                places.add_pinned(path, *access, index, (*device, *inode)).map_err(failed)?;
            } else if path.as_bytes() == b"/" {
                for path in top_level().map_err(failed)? {
                    places.add(&path, *access, index, &written).map_err(failed)?;
                }
            } else {
                places.add(path, *access, index, &written).map_err(failed)?;
            }
        }
        Ok(places)
    }

    /// The private directory, at its own path and as `/tmp`.
    fn add_private(&mut self, hold: &Hold, written: &[PathBuf]) -> Result<(), Errno> {
        let Some(path) = &hold.private else { return Ok(()) };
        let Found { source, real, links } = look_up(path, written)?;
        if !is_directory(&source)? {
            return Err(Errno::NOTDIR);
        }
        self.links.extend(links);
        let place =
            |source, same| Place { source, directory: true, access: Access::Write, same, from: (Step::Private, 0) };
        let again = rustix::io::fcntl_dupfd_cloexec(&source, 0)?;
        self.all.insert(PathBuf::from("/tmp"), place(again, false));
        self.all.insert(real.clone(), place(source, true));
        self.private = Some(real);
        Ok(())
    }

    /// One that has to be this very directory, under its own name: an earlier process may have put another there, or a
    /// link that leads to another.
    fn add_pinned(&mut self, path: &CStr, access: Access, index: usize, node: (u64, u64)) -> Result<(), Errno> {
        let Found { source, real, links } = look_up(path, &[])?;
        let found = rustix::fs::fstat(&source)?;
        if !links.is_empty() || (found.st_dev, found.st_ino) != node {
            return Err(Errno::STALE);
        }
        let directory = is_directory(&source)?;
        self.all.insert(real, Place { source, directory, access, same: true, from: (Step::Grant, index) });
        Ok(())
    }

    fn add(&mut self, path: &CStr, access: Access, index: usize, written: &[PathBuf]) -> Result<(), Errno> {
        let Found { source, real, links } = match look_up(path, written) {
            // What this user cannot reach it could not use either.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => return Ok(()),
            found => found?,
        };
        self.links.extend(links);
        // Its own is there already, and what a host's shows of other processes is not granted by a name.
        if real.starts_with("/proc") {
            return Ok(());
        }
        let directory = is_directory(&source)?;
        match self.all.get_mut(&real) {
            Some(place) if place.same => place.access = place.access.or(access),
            _ => {
                self.all.insert(real, Place { source, directory, access, same: true, from: (Step::Grant, index) });
            }
        }
        Ok(())
    }

    /// What each place allows in the end, where each is mounted by itself. What is shown by one above it just as well is
    /// left out. The private directory is told only where `/tmp` shows it.
    pub(super) fn settle(self) -> (Vec<(PathBuf, Place)>, Option<PathBuf>, Links) {
        let Self { all, links, private } = self;
        let mut settled: Vec<(PathBuf, Place)> = Vec::new();
        let mut inherited = None;
        for (path, mut place) in all {
            let above = settled.iter().rev().find(|(other, _)| path.starts_with(other)).map(|(_, above)| above);
            if let Some(above) = above.filter(|above| above.same && place.same) {
                place.access = place.access.below(above.access);
            }
            if Some(&path) == private.as_ref() {
                inherited = Some(place.access);
            }
            if above.is_none_or(|above| !above.same || above.access != place.access) {
                settled.push((path, place));
            }
        }
        let tmp = settled.iter_mut().find(|(path, place)| !place.same && path == Path::new("/tmp"));
        let shown = tmp.is_some();
        if let (Some((_, tmp)), Some(access)) = (tmp, inherited) {
            tmp.access = access;
        }
        (settled, private.filter(|_| shown), links)
    }

    /// What each place may be allowed where rules only add up, along each path: nothing that can be both written and
    /// started but what one grant gives both.
    pub(super) fn added_up(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Access)> {
        let mut above: Vec<(&Path, Access)> = Vec::new();
        self.all.iter().filter(|(_, place)| place.same).map(move |(path, place)| {
            above.retain(|(other, _)| path.starts_with(other));
            let sum = above.last().map_or(Access::Read, |(_, sum)| *sum);
            let access = match (sum, place.access) {
                (Access::Write, Access::ReadExecute) | (Access::ReadExecute, Access::Write) => Access::Read,
                (_, own) => own,
            };
            above.push((path, sum.or(access)));
            (place.source.as_fd(), access)
        })
    }
}

/// A path that was looked up.
struct Found {
    source: OwnedFd,
    /// Where it lies, without links.
    real: PathBuf,
    /// Those that were passed.
    links: Vec<(PathBuf, PathBuf)>,
}

/// The roots of all that may be written, each by the path that it has if every link is trusted: one that is led astray
/// lies below another, which is not, and at worst more is left out.
fn written(hold: &Hold) -> Vec<PathBuf> {
    let mut paths: Vec<_> = hold.private.iter().cloned().collect();
    for (path, _) in hold.grants.iter().filter(|(_, access)| access.writes()) {
        if path.as_bytes() == b"/" {
            // The root itself is not written, so links in it stand.
            paths.extend(top_level().unwrap_or_default());
        } else {
            paths.push(path.clone());
        }
    }
    paths.iter().filter_map(|path| Some(look_up(path, &[]).ok()?.real)).collect()
}

/// Looks an absolute path up, following links, but none that lies at or below one of `closed`: [`Errno::LOOP`] then.
fn look_up(path: &CStr, closed: &[PathBuf]) -> Result<Found, Errno> {
    let given = path_of(path);
    let plain: PathBuf = given.components().collect();
    if plain.as_os_str() == given.as_os_str() && !given.components().any(|part| part == Component::ParentDir) {
        // Seldom is there a link at all.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve) {
            Err(Errno::LOOP | Errno::AGAIN) => {}
            found => return Ok(Found { source: found?, real: plain, links: Vec::new() }),
        }
    }
    walk(given, closed)
}

/// The same, one name after the other, each from the directory that the one before it led to.
fn walk(path: &Path, closed: &[PathBuf]) -> Result<Found, Errno> {
    let open = |directory: BorrowedFd<'_>, name: &OsStr| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, Mode::empty())
    };
    let root = || open(CWD, OsStr::new("/"));
    let mut ahead: Vec<OsString> = links::components(path).rev().collect();
    let (mut source, mut real, mut links) = (root()?, PathBuf::from("/"), Vec::new());
    while let Some(name) = ahead.pop() {
        let inside = closed.iter().any(|closed| real.starts_with(closed));
        if name == ".." {
            if inside {
                // It leads elsewhere when somebody moves the directory meanwhile.
                return Err(Errno::LOOP);
            }
            source = open(source.as_fd(), &name)?;
            real.pop();
            continue;
        }
        let next = open(source.as_fd(), &name)?;
        let there = real.join(&name);
        if !FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode).is_symlink() {
            (source, real) = (next, there);
            continue;
        }
        if inside || links.len() == links::MOST {
            return Err(Errno::LOOP);
        }
        let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            (source, real) = (root()?, PathBuf::from("/"));
        }
        ahead.extend(links::components(&target).rev());
        links.push((there, target));
    }
    Ok(Found { source, real, links })
}

/// All of the root but what each process gets of its own, and `/run`, which holds the sockets of the host's services.
fn top_level() -> Result<Vec<CString>, Errno> {
    let mut paths = Vec::new();
    for entry in rustix::fs::Dir::read_from(rustix::fs::open("/", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b".." | b"proc" | b"dev" | b"sys" | b"tmp" | b"run") {
            paths.push(CString::new([b"/", name.to_bytes()].concat()).map_err(|_| Errno::INVAL)?);
        }
    }
    Ok(paths)
}

pub(super) fn open(path: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn is_directory(fd: &OwnedFd) -> Result<bool, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode).is_dir())
}

/// Where an open file lies, without links.
pub(super) fn real_path(fd: &OwnedFd) -> Result<PathBuf, Errno> {
    let target = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
    let path = PathBuf::from(OsString::from_vec(target.into_bytes()));
    if path.is_absolute() { Ok(path) } else { Err(Errno::NOENT) }
}

pub(super) fn path_of(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}
