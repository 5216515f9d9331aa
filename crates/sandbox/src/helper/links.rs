//! Links on the way to what is granted: the new tree has them too, so that a path means the same inside.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
pub(super) const MOST: usize = 40;

/// Links by their paths.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<PathBuf, PathBuf>);

impl Links {
    /// Adds links that were passed.
    pub(super) fn extend(&mut self, links: Vec<(PathBuf, PathBuf)>) {
        self.0.extend(links);
    }

    pub(super) fn add(&mut self, path: &Path, target: &Path) {
        self.0.entry(path.to_owned()).or_insert_with(|| target.to_owned());
    }

    /// Parents first.
    pub(super) fn found(&self) -> impl Iterator<Item = (&Path, &Path)> {
        self.0.iter().map(|(path, target)| (path.as_path(), target.as_path()))
    }
}

/// The names on a path, one after the other.
pub(super) fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        _ => None,
    })
}
