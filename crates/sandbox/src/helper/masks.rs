//! Masks: mounts on top of what is taken back.
//!
//! Outer ones come first: an inner one then finds what the outer one left, and where nothing is left it holds already. A
//! mount lies on the file itself, not on its name: it cannot be renamed, removed or linked from inside. What is above it is
//! pinned where the tree is built (`root`), for the next start looks for the name again.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::places::{is_directory, open, path_of, real_path};
use super::root::{Root, attach, copy};
use super::{Outcome, at};
use crate::boundary::MaskKind;
use crate::error::Step;
use crate::plan::Hold;
use crate::sys::{self, MountFlags};

/// Where the empty nodes lie that hidden files are covered with.
const NODES: &str = "/dev/.hidden";

/// The device and number of a file.
type Identity = (u64, u64);

/// All that is taken back at one path.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    all: bool,
    write: bool,
    execute: bool,
    /// How many masks say so, and one of them.
    count: u32,
    index: usize,
    /// What was found on the host.
    file: Option<Identity>,
}

/// What is taken back, by real path, parents first.
pub(super) struct Masks(BTreeMap<PathBuf, Taken>);

impl Masks {
    /// Looks them up. What is not there needs no mask and gets none; what cannot be seen might be made visible by its
    /// owner, so it fails.
    pub(super) fn find(hold: &Hold) -> Outcome<Self> {
        let mut masks: BTreeMap<PathBuf, Taken> = BTreeMap::new();
        for (index, (path, kind)) in hold.masks.iter().enumerate() {
            let failed = |errno| at(Step::Mask)(errno).of(index);
            let Some((real, file)) = resolve(path).map_err(failed)? else { continue };
            let taken = masks.entry(real).or_default();
            taken.count += 1;
            taken.index = index;
            taken.file = Some(file);
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
        Ok(Self(masks))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Where each lies, and what it is.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&PathBuf, (Step, usize))> {
        self.0.iter().map(|(path, taken)| (path, (Step::Mask, taken.index)))
    }

    /// Applies them, and counts those that hold.
    pub(super) fn apply(&self, root: &Root) -> Outcome<u32> {
        let mut count = 0;
        let mut nodes = None;
        let mut hidden: Option<&Path> = None;
        for (path, taken) in &self.0 {
            // Below what is hidden nothing is left to find.
            let gone = hidden.is_some_and(|hidden| path.starts_with(hidden));
            for (name, certain) in root.names_of(path) {
                let covered = cover_at(root, &mut nodes, &name, taken, certain && !gone);
                covered.map_err(|errno| at(Step::Mask)(errno).of(taken.index))?;
            }
            count += taken.count;
            if taken.all && !gone {
                hidden = Some(path);
            }
        }
        Ok(count)
    }
}

/// Covers what lies at a name of the tree. Where it must be what was looked up on the host, nothing else will do.
fn cover_at(root: &Root, nodes: &mut Option<Nodes>, name: &Path, taken: &Taken, certain: bool) -> Result<(), Errno> {
    let found = root.find(name)?;
    if let Some(file) = taken.file.filter(|_| certain) {
        let same = found.as_ref().map(identity).transpose()? == Some(file);
        if !same {
            // It was renamed meanwhile.
            return Err(Errno::STALE);
        }
    }
    found.map_or(Ok(()), |point| cover(root, nodes, &point, *taken))
}

fn identity(file: &OwnedFd) -> Result<Identity, Errno> {
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Where it lies, without links, and which file it is; `None` where nothing is.
fn resolve(path: &CStr) -> Result<Option<(PathBuf, Identity)>, Errno> {
    let found = match open(path) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        found => found?,
    };
    match real_path(&found)? {
        // The root itself is mounted anew anyway.
        root if root == Path::new("/") => Err(Errno::BUSY),
        real => Ok(Some((real, identity(&found)?))),
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
