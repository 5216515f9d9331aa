//! Files by device and inode: the other names of what rules cover.
//!
//! A hard link has a name that no rule knows. So when a file with more than one name is met, the files
//! that the rules of that operation cover are gone through once, and it is compared with them. The index
//! belongs to one permit: nothing that is linked later can be missing from the next one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};

use crate::Operation;
use crate::compiled::Compiled;
use crate::document::Operations;

/// Entries that one index looks at. A file that could stand behind them is refused.
const MAX_ENTRIES: usize = 200_000;

/// Which file it is, and how many names it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// The device's number.
    pub device: u64,
    /// The inode's number.
    pub inode: u64,
    /// How many names it has; 1 for a directory, whose count means something else.
    pub links: u64,
}

impl FileId {
    /// What stands at a path, its last link not followed.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| Self::from_stat(&stat))
    }

    pub(crate) fn from_stat(stat: &Stat) -> Self {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        #[expect(clippy::useless_conversion, reason = "the field's width depends on the processor")]
        let links = u64::from(stat.st_nlink);
        Self { device: stat.st_dev, inode: stat.st_ino, links: if directory { 1 } else { links } }
    }

    /// Whether the file may be known by another name.
    #[must_use]
    pub fn has_other_names(self) -> bool {
        self.links > 1
    }
}

/// There is more below the rules' places than may be looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// A rule: the layer's index and the rule's.
type RuleAt = (usize, usize);
/// What an index holds: each covered file with its rule.
type Files = HashMap<(u64, u64), RuleAt>;

/// The files that rules cover, one table for each operation, made when first asked for.
#[derive(Debug)]
pub(crate) struct LinkIndex {
    root: PathBuf,
    tables: [OnceLock<Result<Files, TooMany>>; 5],
}

impl LinkIndex {
    /// An index over the rules' own places, and `root` for patterns that may match anywhere.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), tables: Default::default() }
    }

    /// The rule that covers the file under another name.
    pub(crate) fn rule_of(
        &self,
        compiled: &Compiled,
        operation: Operation,
        node: FileId,
    ) -> Result<Option<RuleAt>, TooMany> {
        let place = Operations::ALL.iter().position(|one| *one == operation);
        let Some(table) = place.and_then(|place| self.tables.get(place)) else { return Err(TooMany) };
        let files = table.get_or_init(|| self.collect(compiled, operation)).as_ref().map_err(|error| *error)?;
        Ok(files.get(&(node.device, node.inode)).copied())
    }

    fn collect(&self, compiled: &Compiled, operation: Operation) -> Result<Files, TooMany> {
        let mut files = Files::new();
        let mut left = MAX_ENTRIES;
        for (at, layer) in compiled.layers().iter().enumerate() {
            let set = layer.set(operation);
            let everywhere = set.is_anywhere().then_some(self.root.as_path());
            for place in set.places().chain(everywhere) {
                walk(place, &mut left, |path, node| {
                    if node.has_other_names()
                        && let Some(rule) = set.find(operation, path)
                    {
                        files.entry((node.device, node.inode)).or_insert((at, rule));
                    }
                })?;
            }
        }
        Ok(files)
    }
}

/// Shows everything at and below a path that is no directory. Links are not followed.
pub(crate) fn walk(start: &Path, left: &mut usize, mut visit: impl FnMut(&Path, FileId)) -> Result<(), TooMany> {
    let Ok(stat) = rustix::fs::statat(CWD, start, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        visit(start, FileId::from_stat(&stat));
        return Ok(());
    }
    let mut directories = vec![start.to_owned()];
    while let Some(directory) = directories.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // What this process may not list, the agent's file tools cannot reach either.
        let Ok(opened) = rustix::fs::open(&directory, flags, Mode::empty()) else { continue };
        let Ok(entries) = rustix::fs::Dir::read_from(&opened) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            *left = left.checked_sub(1).ok_or(TooMany)?;
            let path = directory.join(OsStr::from_bytes(name));
            if entry.file_type() == FileType::Directory {
                directories.push(path);
            } else if let Ok(stat) = rustix::fs::statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    directories.push(path);
                } else {
                    visit(&path, FileId::from_stat(&stat));
                }
            }
        }
    }
    Ok(())
}
