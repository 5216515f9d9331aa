//! Where a path really leads, also when it does not exist yet.
//!
//! `canonicalize` fails on what does not exist; a write creates just that, and through a dangling link it
//! creates what the link names. So the links are followed here, one component at a time: what is missing
//! is taken as it is written. The answer is true when it is given and perhaps not later: what is opened is
//! judged again by its descriptor.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

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
    if has_no_links(path) {
        return Resolved::Path(crate::lexical(path));
    }
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
        match rustix::fs::readlink(&real, Vec::new()) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Resolved::Unresolvable;
                }
                let target = Path::new(OsStr::from_bytes(target.to_bytes()));
                real.pop();
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                rest.append(&mut reversed(target));
            }
            // No link; or there is nothing here, or nothing that can be entered, so no link either.
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::NAMETOOLONG) => {}
            Err(_) => return Resolved::Unresolvable,
        }
    }
    Resolved::Path(real)
}

/// Whether it exists and holds no link: the common case, which one call to the kernel can tell.
fn has_no_links(path: &Path) -> bool {
    path.components().all(|component| component != Component::ParentDir)
        && rustix::fs::openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
            .is_ok()
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
            ("missing/../a", "a"),
            ("a/b/", "a/b"),
        ] {
            assert_eq!(real(&root.join(given)), Some(root.join(expected)), "{given}");
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
