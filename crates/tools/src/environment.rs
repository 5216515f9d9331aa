//! What all tools of one session share: the root directory, opened once.
//!
//! Cheap to clone. The root is held by descriptor, so a rename of the directory itself, or of one above
//! it, cannot make the tools work somewhere else unnoticed: its real path no longer matches, and the
//! second review refuses.

use std::path::Path;
use std::sync::Arc;

use crate::ToolError;
use crate::files::Root;

/// The surroundings in which a session's tools run.
#[derive(Debug, Clone)]
pub struct Environment {
    root: Arc<Root>,
}

impl Environment {
    /// Opens the directory that the tools may reach: the workdir, or its `scope`. The policy's rules
    /// must be built on the same directory's real path, [`Environment::root`].
    ///
    /// # Errors
    /// [`ToolError::Root`] when it is no directory that can be opened.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, ToolError> {
        Ok(Self { root: Arc::new(Root::open(root.as_ref())?) })
    }

    /// The real path of the directory under which relative paths are taken.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The directory's device and inode, as it was opened; nothing where the system does not tell.
    #[must_use]
    pub fn node(&self) -> Option<(u64, u64)> {
        self.root.identity()
    }

    pub(crate) fn files(&self) -> &Arc<Root> {
        &self.root
    }
}
