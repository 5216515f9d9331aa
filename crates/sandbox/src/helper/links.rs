//! Links on the way to what is granted: the new tree has them too, so that a path means the same inside.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// As many as the kernel follows.
const MOST: usize = 40;

/// Links by their paths.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<PathBuf, PathBuf>);

impl Links {
    /// Adds every link that is passed on the way to this absolute path.
    pub(super) fn follow(&mut self, path: &Path) -> Result<(), Errno> {
        let mut ahead: Vec<OsString> = components(path).rev().collect();
        let mut here = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = ahead.pop() {
            if name == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&name);
            let target = match rustix::fs::readlink(&next, Vec::new()) {
                Ok(target) => PathBuf::from(OsString::from_vec(target.into_bytes())),
                // No link.
                Err(Errno::INVAL) => {
                    here = next;
                    continue;
                }
                Err(errno) => return Err(errno),
            };
            links += 1;
            if links > MOST {
                return Err(Errno::LOOP);
            }
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            ahead.extend(components(&target).rev());
            self.0.insert(next, target);
        }
        Ok(())
    }

    pub(super) fn add(&mut self, path: &Path, target: &Path) {
        self.0.entry(path.to_owned()).or_insert_with(|| target.to_owned());
    }

    /// Parents first.
    pub(super) fn found(&self) -> impl Iterator<Item = (&Path, &Path)> {
        self.0.iter().map(|(path, target)| (path.as_path(), target.as_path()))
    }
}

fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        _ => None,
    })
}
