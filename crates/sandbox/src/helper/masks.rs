//! Masks: mounts on top of what is taken back.
//!
//! Outer ones come first: an inner one then finds what the outer one left, and where nothing is left it holds already. A
//! mount lies on the file itself, not on its name: renaming it or what is above it does not shake it off, and it cannot be
//! removed or linked from inside.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::root::{Root, attach, copy, is_directory, open, path_of, real_path};
use super::{Outcome, at};
use crate::boundary::MaskKind;
use crate::error::Step;
use crate::plan::Hold;
use crate::sys::{self, MountFlags};

/// Where the empty nodes lie that hidden files are covered with.
const NODES: &str = "/dev/.hidden";

/// All that is taken back at one path.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    all: bool,
    write: bool,
    execute: bool,
    /// How many masks say so, and one of them.
    count: u32,
    index: usize,
}

/// Applies the masks, and counts those that hold.
pub(super) fn apply(hold: &Hold, root: &Root) -> Outcome<u32> {
    let mut count = 0;
    let mut nodes = None;
    for (path, taken) in collect(hold)? {
        let failed = |errno| at(Step::Mask)(errno).of(taken.index);
        for name in root.names_of(&path) {
            if let Some(point) = root.find(&name).map_err(failed)? {
                cover(root, &mut nodes, &point, taken).map_err(failed)?;
            }
        }
        count += taken.count;
    }
    Ok(count)
}

/// By real path, parents first. What is not there needs no mask and gets none; what cannot be seen might be made visible
/// by its owner, so it fails.
fn collect(hold: &Hold) -> Outcome<BTreeMap<PathBuf, Taken>> {
    let mut masks: BTreeMap<PathBuf, Taken> = BTreeMap::new();
    for (index, (path, kind)) in hold.masks.iter().enumerate() {
        let failed = |errno| at(Step::Mask)(errno).of(index);
        let Some(real) = resolve(path).map_err(failed)? else { continue };
        let taken = masks.entry(real).or_default();
        taken.count += 1;
        taken.index = index;
        match kind {
            MaskKind::Hidden => taken.all = true,
            MaskKind::ReadOnly => taken.write = true,
            MaskKind::NoExecute => taken.execute = true,
        }
    }
    // They were found by their real paths.
    for path in &hold.secrets {
        masks.entry(path_of(path).to_owned()).or_default().all = true;
    }
    Ok(masks)
}

/// Where it lies, without links; `None` where nothing is.
fn resolve(path: &CStr) -> Result<Option<PathBuf>, Errno> {
    let found = match open(path) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        found => found?,
    };
    match real_path(&found)? {
        // The root itself is mounted anew anyway.
        root if root == Path::new("/") => Err(Errno::BUSY),
        real => Ok(Some(real)),
    }
}

fn cover(root: &Root, nodes: &mut Option<Nodes>, point: &OwnedFd, taken: Taken) -> Result<(), Errno> {
    let directory = is_directory(point)?;
    let (cover, flags) = if taken.all {
        let nodes = match nodes {
            Some(nodes) => nodes,
            None => nodes.insert(Nodes::make(root)?),
        };
        let node = if directory { &nodes.directory } else { &nodes.file };
        (copy(node)?, MountFlags { read_only: true, no_execute: true, no_devices: true, ..MountFlags::default() })
    } else {
        let (read_only, no_execute) = (taken.write, taken.execute);
        (copy(point)?, MountFlags { read_only, no_execute, recursive: directory, ..MountFlags::default() })
    };
    sys::set_mount_flags(&cover, flags)?;
    attach(&cover, point.as_fd(), c"")
}

/// An empty file and an empty directory that nobody may open. Without capabilities that includes root, and a read-only
/// mount keeps their owner from changing it.
struct Nodes {
    file: OwnedFd,
    directory: OwnedFd,
}

impl Nodes {
    fn make(root: &Root) -> Result<Self, Errno> {
        let home = root.directory(Path::new(NODES))?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::WRONLY;
        drop(rustix::fs::openat(&home, "file", flags, Mode::empty())?);
        rustix::fs::mkdirat(&home, "directory", Mode::empty())?;
        let open = |name| rustix::fs::openat(&home, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        Ok(Self { file: open("file")?, directory: open("directory")? })
    }
}
