//! The tree's control groups, from the helper's side.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::cgroup::{self, Group};

/// Groups that were made; dropping them removes them. Held by descriptors, because the names lead nowhere once the program
/// has a file tree of its own.
pub(super) struct Groups(Vec<Made>);

struct Made {
    parent: OwnedFd,
    name: std::ffi::OsString,
    /// Who writes here gets in; opened with the rights of this process outside.
    door: Option<OwnedFd>,
}

impl Groups {
    /// Makes all of them, or none.
    pub(super) fn make(groups: &[Group]) -> Option<Self> {
        if groups.is_empty() {
            return None;
        }
        let mut made = Self(Vec::new());
        for group in groups {
            made.make_one(group).ok()?;
        }
        Some(made)
    }

    fn make_one(&mut self, Group { path, settings }: &Group) -> Result<(), Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
        let parent = open(CWD, parent, OFlags::DIRECTORY)?;
        rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
        self.0.push(Made { parent, name: name.to_owned(), door: None });
        for (file, value) in settings {
            let setting = open(CWD, &path.join(file), OFlags::WRONLY)?;
            rustix::io::write(setting, value.to_string().as_bytes())?;
        }
        let door = open(CWD, &path.join("cgroup.procs"), OFlags::WRONLY)?;
        if let Some(made) = self.0.last_mut() {
            made.door = Some(door);
        }
        Ok(())
    }

    /// Puts the calling process into all of them.
    pub(super) fn enter(&self) -> Result<(), Errno> {
        for door in self.0.iter().filter_map(|made| made.door.as_ref()) {
            rustix::io::write(door, b"0")?;
        }
        Ok(())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for made in &self.0 {
            cgroup::remove(|| rustix::fs::unlinkat(&made.parent, &made.name, AtFlags::REMOVEDIR));
        }
    }
}

fn open(at: impl std::os::fd::AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, path, flags | OFlags::CLOEXEC, Mode::empty())
}
