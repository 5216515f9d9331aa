//! A file tree of its own: a small memory file system in which only what is granted is mounted.
//!
//! What is granted is opened on the host's tree first and mounted second, so that no name is looked up twice. Mount points
//! are looked up below the new root's own descriptor and never through a link: part of what is mounted belongs to earlier
//! processes of the agent.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::links::Links;
use super::{Outcome, at};
use crate::boundary::Access;
use crate::confinement::Class;
use crate::error::Step;
use crate::grants::DEVICES;
use crate::plan::Hold;
use crate::sys::{self, MountFlags};

/// Bytes of `/dev/shm`, and of `/tmp` where it is in memory.
const MEMORY: &str = "268435456";
/// Bytes of the tree itself: directories and links.
const TREE: &str = "16777216";

/// A place of the new tree.
struct Place {
    /// What is shown there.
    source: OwnedFd,
    directory: bool,
    access: Access,
    /// Whether the host has the same at the same path.
    same: bool,
}

/// A directory in which something is made.
enum Parent<'a> {
    Kept(&'a OwnedFd),
    Opened(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Kept(fd) => fd.as_fd(),
            Self::Opened(fd) => fd.as_fd(),
        }
    }
}

/// The new tree, until a process enters it.
pub(super) struct Root {
    fd: OwnedFd,
    /// Its `/dev`, once it is made: most of what is made lies there.
    dev: OnceCell<OwnedFd>,
    /// The path of each place that shows what the host has there.
    shown: Vec<PathBuf>,
    /// The private directory, which `/tmp` shows as well.
    private: Option<PathBuf>,
}

impl Root {
    /// Makes it, all but a process namespace's `/proc`.
    pub(super) fn build(hold: &Hold) -> Outcome<Self> {
        let mut links = Links::default();
        let mut places = BTreeMap::new();
        let private = private(hold, &mut places).map_err(at(Step::Private))?;
        grants(hold, &mut places, &mut links)?;
        let (places, private) = settle(places, private);
        let tree = memory(&[("size", TREE), ("mode", "0755")], MountAttrFlags::MOUNT_ATTR_NOEXEC);
        let fd = tree.map_err(at(Step::Root))?;
        // On top of the old root, where no name leads: it is reached by its descriptor alone.
        attach(&fd, CWD, c"/").map_err(at(Step::Root))?;
        let mut root = Self { fd, dev: OnceCell::new(), shown: Vec::new(), private };
        if !places.iter().any(|(path, _)| path == Path::new("/tmp")) {
            let flags = MountAttrFlags::MOUNT_ATTR_NOEXEC;
            let tmp = memory(&[("size", MEMORY), ("mode", "1777")], flags).map_err(at(Step::Root))?;
            root.mount(&tmp, Path::new("/tmp"), true).map_err(at(Step::Root))?;
        }
        root.devices().map_err(at(Step::Root))?;
        if hold.class != Class::Sealed {
            let proc = open(c"/proc").map_err(at(Step::Processes))?;
            root.show(&proc, Path::new("/proc"), true, Access::Read).map_err(at(Step::Processes))?;
        }
        for (path, place) in places {
            root.show(&place.source, &path, place.directory, place.access).map_err(at(Step::Root))?;
            if place.same {
                root.shown.push(path);
            }
        }
        links.add(Path::new("/var/tmp"), Path::new("/tmp"));
        for (path, target) in links.found() {
            root.link(path, target).map_err(at(Step::Root))?;
        }
        Ok(root)
    }

    /// The `/proc` of the process namespace that the calling process is in.
    pub(super) fn mount_processes(&self) -> Result<(), Errno> {
        let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
            | MountAttrFlags::MOUNT_ATTR_RDONLY;
        let proc = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
        self.mount(&proc, Path::new("/proc"), true)
    }

    /// Makes it the root of every process in this mount namespace, and lets go of the old one.
    pub(super) fn enter(&self) -> Result<(), Errno> {
        sys::set_mount_flags(&self.fd, MountFlags { read_only: true, no_execute: true, ..MountFlags::default() })?;
        rustix::process::fchdir(&self.fd)?;
        rustix::process::pivot_root(".", ".")?;
        // The old one now lies on top of the new one.
        rustix::mount::unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")
    }

    /// Looks a path up as the processes in it will see it, but through no link; `None` when it is not there.
    pub(super) fn find(&self, path: &Path) -> Result<Option<OwnedFd>, Errno> {
        match self.look_up(relative(path)) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// A directory of the tree itself, made where it is not there.
    pub(super) fn directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.mount_point(path, true)
    }

    /// The places at which a path of the host shows, were it there.
    pub(super) fn names_of(&self, path: &Path) -> Vec<PathBuf> {
        let mut names = Vec::new();
        let tmp = Path::new("/tmp");
        // Of the host's own /tmp nothing shows but places that were granted there, this one or one below it.
        let shows = |place: &PathBuf| path.starts_with(place) || place.starts_with(path);
        if !path.starts_with(tmp) || self.shown.iter().any(shows) {
            names.push(path.to_owned());
        }
        if let Some(below) = self.private.as_ref().and_then(|private| path.strip_prefix(private).ok()) {
            names.push(if below.as_os_str().is_empty() { tmp.to_owned() } else { tmp.join(below) });
        }
        names
    }

    fn show(&self, source: &OwnedFd, path: &Path, directory: bool, access: Access) -> Result<(), Errno> {
        let tree = copy(source)?;
        let flags = MountFlags {
            read_only: !access.writes(),
            no_execute: !access.executes(),
            no_devices: !path.starts_with("/dev"),
            recursive: directory,
            private: false,
        };
        sys::set_mount_flags(&tree, flags)?;
        self.mount(&tree, path, directory)
    }

    fn mount(&self, tree: &OwnedFd, path: &Path, directory: bool) -> Result<(), Errno> {
        let point = self.mount_point(path, directory)?;
        attach(tree, &point, c"")
    }

    fn look_up(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        loop {
            match rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), resolve) {
                // Something was renamed meanwhile.
                Err(Errno::AGAIN) => {}
                found => return found,
            }
        }
    }

    /// Opens a directory or file to mount on, and makes it, with those above it, where it is not there.
    fn mount_point(&self, path: &Path, directory: bool) -> Result<OwnedFd, Errno> {
        let path = relative(path);
        match self.look_up(path) {
            Err(Errno::NOENT) => {}
            found => return found,
        }
        let (parent, name) = self.parent(path)?;
        if directory {
            rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
            return rustix::fs::openat(&parent, name, flags, Mode::empty());
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::RDONLY;
        rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o444))
    }

    fn parent<'a>(&'a self, path: &'a Path) -> Result<(Parent<'a>, &'a OsStr), Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
        let parent = match self.dev.get() {
            _ if parent.as_os_str().is_empty() => Parent::Kept(&self.fd),
            Some(dev) if parent == Path::new("dev") => Parent::Kept(dev),
            _ => Parent::Opened(self.mount_point(parent, true)?),
        };
        Ok((parent, name))
    }

    /// A link, unless something is there already: then it is shown with what is around it.
    fn link(&self, path: &Path, target: &Path) -> Result<(), Errno> {
        let path = relative(path);
        let (parent, name) = self.parent(path)?;
        match rustix::fs::symlinkat(target, &parent, name) {
            // In a place where nothing can be made nothing is missing.
            Err(Errno::ROFS | Errno::EXIST | Errno::ACCESS) => Ok(()),
            done => done,
        }
    }

    fn devices(&self) -> Result<(), Errno> {
        let dev = self.mount_point(Path::new("/dev"), true)?;
        // It is empty until now.
        let _ = self.dev.set(dev);
        for device in DEVICES {
            match open(device) {
                // A small container may not have it either.
                Err(Errno::NOENT) => {}
                source => self.show(&source?, path_of(device), false, Access::Write)?,
            }
        }
        let terminals = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_flag(terminals.as_fd(), "newinstance")?;
        fsconfig_set_string(terminals.as_fd(), "ptmxmode", "0666")?;
        fsconfig_set_string(terminals.as_fd(), "mode", "0600")?;
        fsconfig_create(terminals.as_fd())?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let terminals = fsmount(terminals.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
        self.mount(&terminals, Path::new("/dev/pts"), true)?;
        let shared = memory(&[("size", MEMORY), ("mode", "1777")], MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
        self.mount(&shared, Path::new("/dev/shm"), true)?;
        for (name, target) in [
            ("/dev/ptmx", "pts/ptmx"),
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
        ] {
            self.link(Path::new(name), Path::new(target))?;
        }
        Ok(())
    }
}

/// The private directory, at its own path and as `/tmp`.
fn private(hold: &Hold, places: &mut BTreeMap<PathBuf, Place>) -> Result<Option<PathBuf>, Errno> {
    let Some(path) = &hold.private else { return Ok(None) };
    let source = open(path)?;
    if !is_directory(&source)? {
        return Err(Errno::NOTDIR);
    }
    let real = real_path(&source)?;
    let tmp = Place { source: open(path)?, directory: true, access: Access::Write, same: false };
    places.insert(PathBuf::from("/tmp"), tmp);
    places.insert(real.clone(), Place { source, directory: true, access: Access::Write, same: true });
    Ok(Some(real))
}

/// What is granted, by its real path; each with what those above it add.
fn grants(hold: &Hold, places: &mut BTreeMap<PathBuf, Place>, links: &mut Links) -> Outcome<()> {
    for (index, (path, access)) in hold.grants.iter().enumerate() {
        let failed = |errno| at(Step::Grant)(errno).of(index);
        if path.as_bytes() == b"/" {
            for path in top_level().map_err(failed)? {
                grant(&path, *access, places, links).map_err(failed)?;
            }
        } else {
            grant(path, *access, places, links).map_err(failed)?;
        }
    }
    Ok(())
}

fn grant(path: &CStr, access: Access, places: &mut BTreeMap<PathBuf, Place>, links: &mut Links) -> Result<(), Errno> {
    let (source, real) = match locate(path) {
        // What this user cannot reach it could not use either.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => return Ok(()),
        found => found?,
    };
    let given = path_of(path);
    if real != given {
        links.follow(given)?;
    }
    // Its own is there already, and what a host's shows of other processes is not granted by a name.
    if real.starts_with("/proc") {
        return Ok(());
    }
    let directory = is_directory(&source)?;
    match places.get_mut(&real) {
        Some(place) if place.same => place.access = place.access.or(access),
        _ => {
            places.insert(real, Place { source, directory, access, same: true });
        }
    }
    Ok(())
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

/// Opens it and tells where it lies, which is seldom elsewhere.
fn locate(path: &CStr) -> Result<(OwnedFd, PathBuf), Errno> {
    let given = path_of(path);
    let plain: PathBuf = given.components().collect();
    if plain.as_os_str() == given.as_os_str() && !given.components().any(|part| part == Component::ParentDir) {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve) {
            Err(Errno::LOOP | Errno::AGAIN) => {}
            found => return Ok((found?, plain)),
        }
    }
    let source = open(path)?;
    let real = real_path(&source)?;
    Ok((source, real))
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

/// A copy of a mounted tree, mounted nowhere yet.
pub(super) fn copy(source: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(source.as_fd(), c"", flags)
}

pub(super) fn attach(tree: impl AsFd, to: impl AsFd, path: &CStr) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree.as_fd(), c"", to.as_fd(), path, flags)
}

/// A new memory file system, mounted nowhere yet.
fn memory(options: &[(&str, &str)], flags: MountAttrFlags) -> Result<OwnedFd, Errno> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    let flags = flags | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

/// What each place allows in the end, parents first. What is shown by one above it just as well is left out. The private
/// directory is told only where `/tmp` shows it.
fn settle(places: BTreeMap<PathBuf, Place>, private: Option<PathBuf>) -> (Vec<(PathBuf, Place)>, Option<PathBuf>) {
    let mut settled: Vec<(PathBuf, Place)> = Vec::new();
    let mut inherited = None;
    for (path, mut place) in places {
        let above = settled.iter().rev().find(|(other, _)| path.starts_with(other)).map(|(_, above)| above);
        if let Some(above) = above.filter(|above| above.same && place.same) {
            place.access = place.access.or(above.access);
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
    (settled, private.filter(|_| shown))
}

pub(super) fn path_of(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

fn relative(path: &Path) -> &Path {
    let relative = path.strip_prefix("/").unwrap_or(path);
    if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
}
