//! A file tree of its own: a small memory file system in which only what is granted is mounted.
//!
//! What is granted is opened on the host's tree first and mounted second, so that no name is looked up twice. Mount points
//! are looked up below the new root's own descriptor and never through a link: part of what is mounted belongs to earlier
//! processes of the agent.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::masks::Masks;
use super::places::{Place, Places, open, path_of};
use super::{Outcome, at};
use crate::boundary::Access;
use crate::confinement::Class;
use crate::error::Step;
use crate::grants::DEVICES;
use crate::plan::Hold;
use crate::sys::{self, MountFlags};

/// Bytes of `/dev/shm`, and of `/tmp` where it is in memory.
const MEMORY: &str = "268435456";
/// Mounts of grants and masks, and of the directories that are pinned for them. A start takes far less than this many, and
/// should not take long.
const MOST: usize = 4096;
/// Bytes of the tree itself: directories and links.
const TREE: &str = "16777216";

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
    /// What is shown in it, parents first.
    places: Vec<(PathBuf, Place)>,
    /// The private directory, which `/tmp` shows as well.
    private: Option<PathBuf>,
}

impl Root {
    /// Makes it, all but a process namespace's `/proc`.
    pub(super) fn build(hold: &Hold, masks: &Masks) -> Outcome<Self> {
        let (places, private, mut links) = Places::find(hold)?.settle();
        let pins = pins(&places, masks);
        if let Some((_, (step, index))) = pins.iter().nth(MOST.saturating_sub(places.len() + masks.len())) {
            return Err(at(*step)(Errno::NOSPC).of(*index));
        }
        let tree = memory(&[("size", TREE), ("mode", "0755")], MountAttrFlags::MOUNT_ATTR_NOEXEC);
        let fd = tree.map_err(at(Step::Root))?;
        // On top of the old root, where no name leads: it is reached by its descriptor alone.
        attach(&fd, CWD, c"/").map_err(at(Step::Root))?;
        let mut root = Self { fd, dev: OnceCell::new(), places: Vec::new(), private };
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
        let mut pins = pins.iter().peekable();
        for (path, place) in places {
            // Parents first, so that none comes to lie over what is below it.
            while let Some((pin, (step, index))) = pins.next_if(|(pin, _)| **pin < path) {
                root.pin(pin).map_err(|errno| at(*step)(errno).of(*index))?;
            }
            for name in root.names_of_place(&path, place.same) {
                root.show(&place.source, &name, place.directory, place.access).map_err(at(Step::Root))?;
            }
            root.places.push((path, place));
        }
        for (pin, (step, index)) in pins {
            root.pin(pin).map_err(|errno| at(*step)(errno).of(*index))?;
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

    /// What is shown in it, for rules on the files themselves.
    pub(super) fn shown(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Access)> {
        self.places.iter().map(|(_, place)| (place.source.as_fd(), place.access))
    }

    /// The places at which a path of the host shows, were it there; with each, whether the host's file must be found there.
    pub(super) fn names_of(&self, path: &Path) -> Vec<(PathBuf, bool)> {
        let mut names = Vec::new();
        let mut same = self.places.iter().filter(|(_, place)| place.same).map(|(place, _)| place);
        let certain = same.clone().any(|place| path.starts_with(place));
        // Of the host's own /tmp nothing shows but places that were granted there, this one or one below it.
        if certain || !path.starts_with("/tmp") || same.any(|place| place.starts_with(path)) {
            names.push((path.to_owned(), certain));
        }
        names.extend(self.below_tmp(path).map(|name| (name, true)));
        names
    }

    fn names_of_place(&self, path: &Path, same: bool) -> Vec<PathBuf> {
        // The private directory as a whole has its own entry for that.
        let again = self.below_tmp(path).filter(|name| same && name != Path::new("/tmp"));
        [path.to_owned()].into_iter().chain(again).collect()
    }

    /// The name that `/tmp` has for what lies in the private directory.
    fn below_tmp(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(self.private.as_ref()?).ok()?;
        Some(if below.as_os_str().is_empty() { "/tmp".into() } else { Path::new("/tmp").join(below) })
    }

    /// Mounts a directory on itself: its name can be taken from it no more.
    fn pin(&self, path: &Path) -> Result<(), Errno> {
        let point = self.look_up(relative(path))?;
        attach(copy(&point)?, &point, c"")
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
            match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
                // Another start with the same private directory was quicker. A link is not followed there either.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
            return rustix::fs::openat(&parent, name, flags, Mode::empty());
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::RDONLY;
        match rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o444)) {
            Err(Errno::EXIST) => self.look_up(path),
            made => made,
        }
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

/// The directories that must keep their names: those on the way from the root of what may be written to a mask or place
/// below it; each with what it is for.
fn pins(places: &[(PathBuf, Place)], masks: &Masks) -> BTreeMap<PathBuf, (Step, usize)> {
    let mut pins = BTreeMap::new();
    let within = places.iter().filter(|(_, place)| place.same).map(|(path, place)| (path, place.from));
    for (path, from) in within.chain(masks.paths()) {
        let around = |other: &&(PathBuf, Place)| other.1.same && other.0 != *path && path.starts_with(&other.0);
        let Some((top, _)) = places.iter().rev().find(around).filter(|(_, place)| place.access.writes()) else {
            continue;
        };
        for pin in path.ancestors().skip(1).take_while(|pin| pin != top) {
            pins.entry(pin.to_owned()).or_insert(from);
        }
    }
    pins
}

fn relative(path: &Path) -> &Path {
    let relative = path.strip_prefix("/").unwrap_or(path);
    if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
}
