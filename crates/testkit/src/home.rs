//! A temporary home and workdir for one test, removed when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory tree of one test: `home/` for `MURMUR_HOME` and `work/` for the workdir.
///
/// Paths are canonical, so that they compare equal to what the product resolves.
#[derive(Debug)]
pub struct TempHome {
    root: PathBuf,
    // Held for its drop alone.
    _dir: TempDir,
}

impl TempHome {
    /// A fresh tree; `home/` is private to the user, as the product makes it.
    #[must_use]
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("mur-test-").tempdir().expect("a temp dir can be made");
        let root = dir.path().canonicalize().expect("a fresh temp dir has a canonical path");
        let home = Self { root, _dir: dir };
        fs::create_dir(home.home()).expect("a fresh temp dir takes a directory");
        fs::create_dir(home.workdir()).expect("a fresh temp dir takes a directory");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(home.home(), fs::Permissions::from_mode(0o700)).expect("the owner sets modes");
        }
        home
    }

    /// What `MURMUR_HOME` should name.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The agent's workdir.
    #[must_use]
    pub fn workdir(&self) -> PathBuf {
        self.root.join("work")
    }

    /// The directory that holds both, for anything else that a test needs.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file beneath the root with its parents, and says where it is.
    pub fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("parents inside the temp dir can be made");
        }
        fs::write(&path, content).expect("a file inside the temp dir can be written");
        path
    }

    /// Reads a file beneath the root.
    #[must_use]
    pub fn read(&self, relative: impl AsRef<Path>) -> String {
        fs::read_to_string(self.root.join(relative)).expect("the test expects this file")
    }
}

impl Default for TempHome {
    fn default() -> Self {
        Self::new()
    }
}
