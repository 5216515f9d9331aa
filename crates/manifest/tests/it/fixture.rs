//! A capsule in a directory of its own that declares everything; tests change one thing in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use manifest::{Loaded, Rejected};
use tempfile::TempDir;

/// The files of the capsule that declares everything.
const FILES: &[(&str, &str)] = &[
    ("murmur.yaml", include_str!("base/murmur.yaml")),
    ("tools/web-fetch/murmur.yaml", include_str!("base/tools/web-fetch/murmur.yaml")),
    ("tools/web-fetch/run.sh", include_str!("base/tools/web-fetch/run.sh")),
    ("skills/house-style/SKILL.md", include_str!("base/skills/house-style/SKILL.md")),
    ("profile/identity.md", include_str!("base/profile/identity.md")),
];

/// A capsule on disk.
pub(crate) struct Capsule {
    dir: TempDir,
}

impl Capsule {
    /// The capsule that declares everything.
    pub(crate) fn full() -> Self {
        let capsule = Self { dir: TempDir::new().unwrap() };
        for (name, text) in FILES {
            capsule.write(name, text);
        }
        capsule.mode("tools/web-fetch/run.sh", 0o755);
        capsule
    }

    /// A capsule with the least that runs, and `rest` after it.
    pub(crate) fn least(rest: &str) -> Self {
        let capsule = Self { dir: TempDir::new().unwrap() };
        capsule.write("play.yaml", "[]\n");
        capsule.write("murmur.yaml", format!("{LEAST}{rest}"));
        capsule
    }

    /// The directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file of the capsule.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file and the directories above it.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Sets the permissions of a file.
    pub(crate) fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Replaces `from`, which must be there once, by `to`.
    pub(crate) fn edit(&self, name: &str, from: &str, to: &str) -> &Self {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert_eq!(text.matches(from).count(), 1, "`{from}` must stand once in {name}");
        self.write(name, text.replace(from, to));
        self
    }

    /// Loads the directory.
    pub(crate) fn load(&self) -> Result<Loaded, Rejected> {
        manifest::load(self.dir())
    }

    /// The findings, with the directory left out of their paths.
    pub(crate) fn findings(&self) -> String {
        self.short(&self.load().expect_err("the manifest must be refused").render())
    }

    /// `text` without the directory.
    pub(crate) fn short(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.dir().display()), "")
    }
}

/// The least manifest that runs, offline.
const LEAST: &str = "\
name: demo
version: 0.1.0
artifacts:
  - { name: scripted, runtime: driver }
inference:
  model: scripted
  driver: { artifact: scripted, config: { script: play.yaml } }
";
