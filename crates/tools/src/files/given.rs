//! A path as the agent wrote it, beside what it means.

use std::path::{Path, PathBuf};

use fence::RuntimeWords;
use policy::BadInput;

use super::Root;

/// A path in an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    written: PathBuf,
    absolute: PathBuf,
}

impl Given {
    /// Takes the path in an input's `field`. Relative ones are taken under the root; `.` and `..` are
    /// resolved by the text alone, before any link.
    ///
    /// # Errors
    /// When no file can have that path.
    pub(crate) fn new(root: &Root, field: &'static str, text: &str) -> Result<Self, BadInput> {
        let words = || RuntimeWords::new("`").text(field);
        if text.is_empty() {
            return Err(BadInput(words().text("` must not be empty")));
        }
        if text.contains('\0') {
            return Err(BadInput(words().text("` must not contain a NUL character: no file name can")));
        }
        Ok(Self::path(root, Path::new(text)))
    }

    /// The same for a path that is known to be one.
    pub(crate) fn path(root: &Root, written: &Path) -> Self {
        Self { written: written.to_owned(), absolute: root.absolute(written) }
    }

    /// As the agent wrote it.
    pub(crate) fn written(&self) -> &Path {
        &self.written
    }

    /// Absolute, without `.` and `..`.
    pub(crate) fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// As the agent wrote it, for reading.
    pub(crate) fn shown(&self) -> String {
        crate::show::path(&self.written)
    }
}
