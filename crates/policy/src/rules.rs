//! What the manifest lets the agent's file tools reach.
//!
//! A path is judged in the form it is given in: lexical at the review, real (links resolved) at the
//! point of effect. Components are compared whole, so `/a/b` never covers `/a/bc`. They are fixed at the
//! launch; the operator's hard blocks, which change while a session runs, stand beside them in
//! [`crate::Compiled`], and each can only narrow.

use std::path::{Component, Path, PathBuf};

use crate::{Blocker, Operation};

/// The compiled rules of one session.
#[derive(Debug, Clone)]
pub struct Rules {
    root: PathBuf,
    read_only: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    operator_home: PathBuf,
    search: Vec<PathBuf>,
}

impl Rules {
    /// Everything below `root` (the workdir or its `scope`, as a real path) and nothing else.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        let root = lexical(&root);
        Self { operator_home: root.clone(), root, read_only: Vec::new(), hidden: Vec::new(), search: Vec::new() }
    }

    /// Adds a path below which nothing may be changed. A relative one is taken under the root.
    #[must_use]
    pub fn read_only(mut self, path: impl AsRef<Path>) -> Self {
        self.read_only.push(lexical(&self.root.join(path)));
        self
    }

    /// Adds a path that must not even be seen: the runtime's own home.
    #[must_use]
    pub fn hidden(mut self, path: impl AsRef<Path>) -> Self {
        self.hidden.push(lexical(path.as_ref()));
        self
    }

    /// Says what `~` in a command is taken for. Without it, that is the root.
    #[must_use]
    pub fn home(mut self, path: impl AsRef<Path>) -> Self {
        self.operator_home = lexical(path.as_ref());
        self
    }

    /// Says where a shell of the agent looks for programs, first to last.
    #[must_use]
    pub fn search(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.search = directories.into_iter().collect();
        self
    }

    pub(crate) fn search_directories(&self) -> &[PathBuf] {
        &self.search
    }

    /// What `~` in a command is taken for.
    pub(crate) fn operator_home(&self) -> &Path {
        &self.operator_home
    }

    /// The paths below which nothing may be changed: absolute, each by its name and by what the name leads to.
    #[must_use]
    pub fn read_only_paths(&self) -> &[PathBuf] {
        &self.read_only
    }

    /// The paths that must not be seen.
    pub(crate) fn hidden_paths(&self) -> &[PathBuf] {
        &self.hidden
    }

    /// The directory under which relative paths are taken.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The first rule that forbids the operation on this absolute path, if one does.
    pub(crate) fn judge(&self, operation: Operation, path: &Path) -> Option<Blocker> {
        let path = lexical(path);
        if !path.starts_with(&self.root) || self.hidden.iter().any(|hidden| path.starts_with(hidden)) {
            return Some(Blocker::new(
                "outside_scope",
                "the path is outside the directory that this capsule's file tools may reach",
            ));
        }
        let changes = matches!(operation, Operation::Write | Operation::Delete);
        // Deleting a directory would take a protected path below it along.
        let protects =
            |rule: &Path| path.starts_with(rule) || (operation == Operation::Delete && rule.starts_with(&path));
        if changes && self.read_only.iter().any(|rule| protects(rule)) {
            return Some(Blocker::new(
                "read_only_path",
                "the path is read-only: it stands in `capabilities.filesystem.read_only`, or the capsule itself is made of it",
            ));
        }
        None
    }
}

/// The path without `.`, `..` and `//`, by its text alone. `..` at the root stays at the root.
#[must_use]
pub fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::with_capacity(path.as_os_str().len());
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(component),
        }
    }
    plain
}
