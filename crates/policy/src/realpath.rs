//! Where a path really leads, also when it does not exist yet.
//!
//! `canonicalize` fails on what does not exist; a write creates just that, and through a dangling link it
//! creates what the link names. So the links are followed here, one component at a time: what is missing
//! is taken as it is written. The answer is true when it is given and perhaps not later: what is opened is
//! judged again by its descriptor.
//!
//! `/proc/self` is another directory for each process. A path that a process is going to look up is
//! followed as that process will see it, which is never what the links there say to this one.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::links::FileId;

/// Links that are followed, as the kernel does.
const MAX_LINKS: usize = 40;
/// Components that are looked at in all.
const MAX_COMPONENTS: usize = 4096;

/// What following a path's links came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// An absolute path without links, `.` and `..`.
    Path(PathBuf),
    /// A loop, too many links, or a file system that does not answer.
    Unresolvable,
}

/// Follows the links of an absolute path.
#[must_use]
pub fn realpath(path: &Path) -> Resolved {
    find(path).resolved
}

/// Where a path leads, and what is there.
pub(crate) struct Found {
    pub(crate) resolved: Resolved,
    /// The file or directory; none where nothing is.
    pub(crate) node: Option<FileId>,
}

impl Found {
    fn at(resolved: Resolved) -> Self {
        let node = match &resolved {
            Resolved::Path(real) => FileId::of(real),
            Resolved::Unresolvable => None,
        };
        Self { resolved, node }
    }
}

/// Follows the links of an absolute path to what is there.
pub(crate) fn find(path: &Path) -> Found {
    without_links(path).unwrap_or_else(|| Found::at(resolve(path, None)))
}

/// Follows the links of an absolute path as a process will that runs in `cwd`, and tells whether the answer
/// depends on that directory.
pub(crate) fn find_for_process(path: &Path, cwd: &Path) -> (Found, bool) {
    if let Some(found) = without_links(path) {
        return (found, false);
    }
    let view = View { cwd, asked: Cell::new(false) };
    let found = Found::at(resolve(path, Some(&view)));
    (found, view.asked.get())
}

/// What a process that is yet to start will find below `/proc/self`.
struct View<'a> {
    cwd: &'a Path,
    /// Whether its directory made a difference.
    asked: Cell<bool>,
}

/// What a path that was walked so far is to a process.
enum Seen<'a> {
    /// Something that is the same for all.
    Common,
    /// A part of its own directory in `/proc` that leads nowhere else.
    Own,
    /// A link to this.
    Link(&'a Path),
    /// Something of which only the process will know what it is.
    Unknown,
}

impl View<'_> {
    fn see(&self, real: &Path, is_last: bool) -> Seen<'_> {
        let Ok(below) = real.strip_prefix("/proc") else { return Seen::Common };
        let mut parts = below.iter().map(OsStr::as_bytes);
        match parts.next() {
            Some(b"self") => {}
            Some(b"thread-self") if below.iter().nth(1).is_none() => {
                return Seen::Link(Path::new("/proc/self/task/self"));
            }
            _ => return Seen::Common,
        }
        let mut part = parts.next();
        if part == Some(b"task") && parts.next().is_some() {
            part = parts.next();
        }
        match part {
            Some(b"cwd") if parts.next().is_none() => {
                self.asked.set(true);
                Seen::Link(self.cwd)
            }
            Some(b"root") if parts.next().is_none() => Seen::Link(Path::new("/")),
            // An open file was judged when it was opened; what is below an open directory was not.
            Some(b"fd") if parts.next().is_some() && !is_last => Seen::Unknown,
            _ => Seen::Own,
        }
    }
}

fn resolve(path: &Path, view: Option<&View<'_>>) -> Resolved {
    // What is still to be walked, last component first.
    let mut rest: Vec<OsString> = reversed(path);
    let mut real = PathBuf::from("/");
    let (mut links, mut components) = (0, 0);
    while let Some(name) = rest.pop() {
        components += 1;
        if components > MAX_COMPONENTS {
            return Resolved::Unresolvable;
        }
        if name == ".." {
            real.pop();
            continue;
        }
        real.push(&name);
        let link = match view.map_or(Seen::Common, |view| view.see(&real, rest.is_empty())) {
            Seen::Common => match rustix::fs::readlink(&real, Vec::new()) {
                Ok(target) => Some(PathBuf::from(OsStr::from_bytes(target.to_bytes()))),
                // No link; or there is nothing here, or nothing that can be entered, so no link either.
                Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::NAMETOOLONG) => None,
                Err(_) => return Resolved::Unresolvable,
            },
            Seen::Own => None,
            Seen::Link(target) => Some(target.to_owned()),
            Seen::Unknown => return Resolved::Unresolvable,
        };
        let Some(target) = link else { continue };
        links += 1;
        if links > MAX_LINKS {
            return Resolved::Unresolvable;
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        rest.append(&mut reversed(&target));
    }
    Resolved::Path(real)
}

/// The answer where there is no link on the way, also to something that is missing: the common case, in which
/// one look at the kernel's own resolution is enough.
fn without_links(path: &Path) -> Option<Found> {
    if path.components().any(|component| component == Component::ParentDir) {
        return None;
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let node = match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(held) => rustix::fs::fstat(&held).ok().map(|stat| FileId::from_stat(&stat)),
        // Up to what is missing there was none, and behind it there is nothing.
        Err(Errno::NOENT | Errno::NOTDIR) => None,
        Err(_) => return None,
    };
    Some(Found { resolved: Resolved::Path(crate::lexical(path)), node })
}

fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn real(path: &Path) -> Option<PathBuf> {
        match realpath(path) {
            Resolved::Path(path) => Some(path),
            Resolved::Unresolvable => None,
        }
    }

    #[test]
    fn links_are_followed_in_every_place() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        symlink("a", root.join("relative")).unwrap();
        symlink(root.join("a/b"), root.join("absolute")).unwrap();
        symlink("../relative/b", root.join("a/chain")).unwrap();
        symlink("a/new/file", root.join("dangling")).unwrap();
        for (given, expected) in [
            ("a/b", "a/b"),
            ("relative/b/x", "a/b/x"),
            ("absolute/..", "a"),
            ("a/chain/y/z", "a/b/y/z"),
            ("dangling", "a/new/file"),
            ("dangling/x", "a/new/file/x"),
            ("missing/x", "missing/x"),
            ("file/x", "file/x"),
            ("missing/relative/b", "missing/relative/b"),
            ("missing/../a", "a"),
            ("a/b/", "a/b"),
        ] {
            assert_eq!(real(&root.join(given)), Some(root.join(expected)), "{given}");
        }
    }

    #[test]
    fn a_process_sees_its_own_directory_in_proc() {
        let seen = |given: &str| {
            let (found, depends) = find_for_process(Path::new(given), Path::new("/nowhere/dir"));
            (found.resolved, depends)
        };
        for (given, expected, depends) in [
            ("/proc/self/cwd/a", Some("/nowhere/dir/a"), true),
            ("/proc/self/cwd/../a", Some("/nowhere/a"), true),
            ("/proc/self/fd/../cwd/a", Some("/nowhere/dir/a"), true),
            ("/proc/self/task/17/cwd/a", Some("/nowhere/dir/a"), true),
            ("/proc/self/task/17/../../cwd/a", Some("/nowhere/dir/a"), true),
            ("/proc/thread-self/cwd/a", Some("/nowhere/dir/a"), true),
            ("/proc/thread-self/../../cwd/a", Some("/nowhere/dir/a"), true),
            ("/proc/self/root/a", Some("/a"), false),
            ("/proc/self/root/proc/self/cwd/a", Some("/nowhere/dir/a"), true),
            ("/dev/fd/../cwd/a", Some("/nowhere/dir/a"), true),
            ("/proc/self/fd/7", Some("/proc/self/fd/7"), false),
            ("/proc/self/fd/7/a", None, false),
            ("/proc/self/status", Some("/proc/self/status"), false),
            ("/proc/selfish/cwd", Some("/proc/selfish/cwd"), false),
        ] {
            let expected = expected.map_or(Resolved::Unresolvable, |path| Resolved::Path(path.into()));
            assert_eq!(seen(given), (expected, depends), "{given}");
        }
    }

    #[test]
    fn loops_end_and_forty_links_are_followed() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        symlink("two", root.join("one")).unwrap();
        symlink("one", root.join("two")).unwrap();
        assert_eq!(real(&root.join("one/x")), None);
        symlink("end", root.join("link0")).unwrap();
        for index in 1..=40 {
            symlink(format!("link{}", index - 1), root.join(format!("link{index}"))).unwrap();
        }
        assert_eq!(real(&root.join("link39")), Some(root.join("end")));
        assert_eq!(real(&root.join("link40")), None);
    }
}
