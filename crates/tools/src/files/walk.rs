//! Going through a tree: one directory at a time, each held, judged and only then listed.
//!
//! No link is ever followed. Directories are opened anew by their path without links, so a deep tree
//! holds no descriptors; one that is swapped for a link meanwhile is simply not entered. What a rule
//! hides is counted, not named. `.git` directories are not entered: their inside is git's own.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use policy::Operation;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::Site;
use super::node::Node;
use crate::ToolError;
use crate::execution::Stop;
use crate::show;

/// Entries that one walk looks at in all.
const MAX_ENTRIES: u64 = 200_000;

/// Which directories come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// All of one depth before the next.
    Breadth,
    /// Each with all that is below it.
    Depth,
}

/// One entry of a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its path from where the walk began.
    pub(crate) path: PathBuf,
    /// Its path from the root.
    pub(crate) below: PathBuf,
    /// What it is; a link is a link.
    pub(crate) kind: FileType,
    /// Its size and mode.
    pub(crate) stat: Stat,
}

/// What a walk left out, and why.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Entries that a rule hides.
    pub(crate) withheld: u64,
    /// Directories below the depth that was asked for.
    pub(crate) too_deep: u64,
    /// Directories, or files, that could not be opened.
    pub(crate) unreadable: u64,
    /// `.git` directories.
    pub(crate) git: u64,
    /// Whether the walk ended before it was through.
    pub(crate) stopped: bool,
    /// Whether that was because there are too many entries.
    pub(crate) too_many: bool,
}

impl Left {
    /// Whether there is more than was shown, for whatever reason.
    pub(crate) fn is_partial(&self) -> bool {
        self.stopped || self.too_many || self.too_deep > 0
    }

    /// A line for each thing that was left out.
    pub(crate) fn lines(&self, depth: u32) -> String {
        let mut lines = String::new();
        let mut line = |number: u64, one: &str, many: &str| show::counted(&mut lines, number, one, many);
        line(self.withheld, "entry is withheld by the capsule's rules", "entries are withheld by the capsule's rules");
        line(self.unreadable, "entry could not be opened", "entries could not be opened");
        line(self.git, "`.git` directory was not entered", "`.git` directories were not entered");
        if self.too_deep > 0 {
            let directories = show::count(self.too_deep, "directory", "directories");
            lines.push_str(&format!("{directories} at depth {depth} not entered\n"));
        }
        if self.too_many {
            lines.push_str(&format!("stopped after {MAX_ENTRIES} entries\n"));
        }
        lines
    }
}

/// A walk.
pub(crate) struct Walk<'a> {
    pub(crate) site: Site<'a>,
    /// How many levels of entries are shown; 1 is what is directly in the start.
    pub(crate) depth: u32,
    pub(crate) order: Order,
}

struct Pending {
    below: PathBuf,
    path: PathBuf,
    depth: u32,
}

impl Walk<'_> {
    /// Shows each entry below a directory to `visit`, in the order of names within each directory,
    /// until that says stop.
    ///
    /// # Errors
    /// When the start cannot be listed, or the call is canceled.
    pub(crate) fn run(
        &self,
        start: &Node,
        mut visit: impl FnMut(Entry, &mut Left) -> ControlFlow<()>,
    ) -> Result<Left, Stop> {
        let mut left = Left::default();
        let below =
            self.site.root.below(start.real()).ok_or_else(|| ToolError::Outside { path: show::path(start.real()) })?;
        let mut seen = 0;
        let mut entries = self.list(start, &mut seen, &mut left)?;
        let mut here = Pending { below, path: PathBuf::new(), depth: 0 };
        let mut queue = VecDeque::new();
        loop {
            let mut inner = Vec::new();
            for (name, stat) in entries {
                let entry = Entry {
                    path: here.path.join(&name),
                    below: plain_join(&here.below, &name),
                    kind: FileType::from_raw_mode(stat.st_mode),
                    stat,
                };
                if entry.kind == FileType::Directory {
                    if name == ".git" {
                        left.git += 1;
                    } else if here.depth + 1 >= self.depth {
                        left.too_deep += 1;
                    } else {
                        inner.push(Pending {
                            below: entry.below.clone(),
                            path: entry.path.clone(),
                            depth: here.depth + 1,
                        });
                    }
                }
                if visit(entry, &mut left).is_break() {
                    left.stopped = true;
                    return Ok(left);
                }
            }
            match self.order {
                Order::Breadth => queue.extend(inner),
                Order::Depth => inner.into_iter().rev().for_each(|pending| queue.push_front(pending)),
            }
            (here, entries) = loop {
                let Some(next) = queue.pop_front() else { return Ok(left) };
                if left.too_many {
                    return Ok(left);
                }
                if let Some(entries) = self.enter(&next, &mut seen, &mut left)? {
                    break (next, entries);
                }
            };
        }
    }

    /// The entries of a directory further down; nothing if it cannot be entered.
    fn enter(&self, next: &Pending, seen: &mut u64, left: &mut Left) -> Result<Option<Vec<(OsString, Stat)>>, Stop> {
        let node = match self.site.root.node(&next.below) {
            Ok(node) if node.kind() == FileType::Directory => node,
            // Gone, or swapped for something else, since its parent was listed.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(_) => {
                left.unreadable += 1;
                return Ok(None);
            }
        };
        match self.list(&node, seen, left) {
            Ok(entries) => Ok(Some(entries)),
            Err(Stop::Failed(ToolError::Canceled)) => Err(ToolError::Canceled.into()),
            Err(Stop::Denied(_)) => {
                left.withheld += 1;
                Ok(None)
            }
            Err(Stop::Failed(_)) => {
                left.unreadable += 1;
                Ok(None)
            }
        }
    }

    /// The entries of a held directory that may be shown, sorted by name.
    fn list(&self, node: &Node, seen: &mut u64, left: &mut Left) -> Result<Vec<(OsString, Stat)>, Stop> {
        if self.site.cancel.is_canceled() {
            return Err(ToolError::Canceled.into());
        }
        let cleared = node.clear(self.site.permit)?;
        let mut shown = Vec::new();
        for entry in node.entries(&cleared)? {
            let Ok(entry) = entry else {
                left.unreadable += 1;
                break;
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            *seen += 1;
            if *seen > MAX_ENTRIES {
                left.too_many = true;
                break;
            }
            if self.site.permit.confirm_path(Operation::Read, &node.real().join(name)).is_err() {
                left.withheld += 1;
                continue;
            }
            // One that vanished since is not there any more.
            if let Ok(stat) = rustix::fs::statat(node.descriptor(), name, AtFlags::SYMLINK_NOFOLLOW) {
                shown.push((name.to_owned(), stat));
            }
        }
        shown.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(shown)
    }
}

/// `join`, but without a leading `./`.
fn plain_join(below: &Path, name: &OsStr) -> PathBuf {
    if below == Path::new(".") { PathBuf::from(name) } else { below.join(name) }
}
