//! What lies below a few directories, kept from one process start to the next.
//!
//! Rules with patterns have to be tried on names, and reading every directory again for each process would
//! cost more than the process. So a listing is kept until its directory has changed, which one look per
//! directory tells. The kernel's clock for that is coarse: a directory that changed just before it was listed is
//! listed again the next time, for a second change may bear the same time.
//!
//! The answer is true when it is given and perhaps not later: what is made afterwards is for the reviews.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};

/// Entries below all roots.
const MAX_ENTRIES: usize = 100_000;
/// Directories below all roots: each is looked at before each start.
const MAX_DIRECTORIES: usize = 10_000;
/// How long it is left at that there is too much.
const RETRY: Duration = Duration::from_secs(60);
/// How long a change and a listing must lie apart to be told from each other: a tick of the kernel's slowest clock,
/// twice over.
const TICK: Duration = Duration::from_millis(20);

/// There is more than may be looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// A kept index of everything below its roots.
#[derive(Debug, Default)]
pub struct Tree {
    listings: HashMap<PathBuf, Listing>,
    /// When there was too much, and so nothing was kept.
    overflowed: Option<Instant>,
}

/// One directory.
#[derive(Debug)]
struct Listing {
    node: (u64, u64),
    changed: (i64, i64),
    /// Whether a later change shows in `changed`.
    settled: bool,
    entries: Vec<Entry>,
}

/// One name in a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) inode: u64,
    pub(crate) kind: Kind,
}

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    Link,
    /// A file, a socket, a device.
    Other,
}

impl From<FileType> for Kind {
    fn from(file: FileType) -> Self {
        match file {
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

/// A directory with what is in it.
pub(crate) struct Directory<'a> {
    pub(crate) path: &'a Path,
    pub(crate) device: u64,
    pub(crate) entries: &'a [Entry],
}

impl Tree {
    /// An index of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Brings the index up to date for these roots, and forgets others. What this process may not list is left out: the
    /// agent's processes, which have no more rights, cannot list it either.
    pub(crate) fn refresh<'r>(&mut self, roots: impl IntoIterator<Item = &'r Path>) -> Result<(), TooMany> {
        // To find the same out again at each start would cost more than the start.
        if self.overflowed.is_some_and(|at| at.elapsed() < RETRY) {
            return Err(TooMany);
        }
        self.overflowed = None;
        let mut before = std::mem::take(&mut self.listings);
        let mut waiting: Vec<PathBuf> = roots.into_iter().map(Path::to_owned).collect();
        let mut entries = 0;
        while let Some(path) = waiting.pop() {
            if self.listings.contains_key(&path) {
                continue;
            }
            let Some(listing) = current(&path, before.remove(&path)) else { continue };
            entries += listing.entries.len();
            if entries > MAX_ENTRIES || self.listings.len() >= MAX_DIRECTORIES {
                self.listings.clear();
                self.overflowed = Some(Instant::now());
                return Err(TooMany);
            }
            let below = listing.entries.iter().filter(|entry| entry.kind == Kind::Directory);
            waiting.extend(below.map(|entry| path.join(&entry.name)));
            self.listings.insert(path, listing);
        }
        Ok(())
    }

    /// A directory, if it is one that the index holds.
    pub(crate) fn directory(&self, path: &Path) -> Option<Directory<'_>> {
        let (path, listing) = self.listings.get_key_value(path)?;
        Some(Directory { path, device: listing.node.0, entries: &listing.entries })
    }

    /// Every directory.
    pub(crate) fn directories(&self) -> impl Iterator<Item = Directory<'_>> {
        self.listings.iter().map(|(path, listing)| Directory {
            path,
            device: listing.node.0,
            entries: &listing.entries,
        })
    }
}

/// The kept listing if it still holds, or a new one; nothing where there is no directory that can be listed.
fn current(path: &Path, kept: Option<Listing>) -> Option<Listing> {
    if let Some(kept) = kept.filter(|kept| kept.settled) {
        let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if node(&stat) == kept.node && changed(&stat) == kept.changed {
            return Some(kept);
        }
    }
    let now = SystemTime::now();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&opened).ok()?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&opened).ok()?.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not say.
            FileType::Unknown => rustix::fs::statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        entries.push(Entry { name: name.to_owned(), inode: entry.ino(), kind: kind.into() });
    }
    let changed = changed(&stat);
    Some(Listing { node: node(&stat), changed, settled: lie_apart(changed, now), entries })
}

fn node(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

#[expect(clippy::useless_conversion, reason = "the fields' width depends on the processor")]
fn changed(stat: &Stat) -> (i64, i64) {
    (i64::from(stat.st_ctime), i64::try_from(stat.st_ctime_nsec).unwrap_or(i64::MAX))
}

/// Whether the change is so long ago that one from now on has another time. A time in the future never is.
fn lie_apart((seconds, nanoseconds): (i64, i64), now: SystemTime) -> bool {
    let since = u64::try_from(seconds).unwrap_or(0);
    let changed = Duration::new(since, u32::try_from(nanoseconds).unwrap_or(0));
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.checked_sub(changed).is_some_and(|apart| apart > TICK)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(tree: &Tree, root: &Path) -> Vec<String> {
        let below = tree.directories().flat_map(|directory| {
            let at = directory.path.strip_prefix(root).unwrap().to_owned();
            directory.entries.iter().map(move |entry| at.join(&entry.name).display().to_string()).collect::<Vec<_>>()
        });
        let mut names: Vec<String> = below.collect();
        names.sort();
        names
    }

    #[test]
    fn it_follows_what_happens_below_its_roots_and_no_links() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "").unwrap();
        symlink(outside.path(), root.join("link")).unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "").unwrap();
        let mut tree = Tree::new();
        tree.refresh([root.as_path()]).unwrap();
        assert_eq!(names(&tree, &root), ["a", "a/b", "a/b/file", "link"]);
        // As fast as can be: the listing that was just made does not hide it.
        for round in 0..50 {
            let name = format!("a/b/{round}");
            std::fs::write(root.join(&name), "").unwrap();
            tree.refresh([root.as_path()]).unwrap();
            assert!(names(&tree, &root).contains(&name), "{name}");
            std::fs::remove_file(root.join(&name)).unwrap();
        }
        std::fs::rename(root.join("a/b"), root.join("c")).unwrap();
        std::fs::create_dir(root.join("a/b")).unwrap();
        tree.refresh([root.as_path()]).unwrap();
        assert_eq!(names(&tree, &root), ["a", "a/b", "c", "c/file", "link"]);
        tree.refresh([root.join("c").as_path(), root.join("gone").as_path()]).unwrap();
        assert_eq!(names(&tree, &root), ["c/file"]);
    }

    #[test]
    fn a_change_is_told_from_the_listing_only_when_they_lie_apart() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(100_010);
        for (changed, apart) in [
            ((99, 990_000_001), false),
            ((99, 989_999_999), true),
            ((100, 10_000_000), false),
            ((101, 0), false),
            ((i64::MAX, 999_999_999), false),
            ((i64::MIN, 0), true),
        ] {
            assert_eq!(lie_apart(changed, now), apart, "{changed:?}");
        }
    }

    #[test]
    fn more_than_it_may_hold_is_told_and_nothing_is_kept() {
        let home = tempfile::tempdir().unwrap();
        for index in 0..=MAX_DIRECTORIES {
            std::fs::create_dir(home.path().join(index.to_string())).unwrap();
        }
        let mut tree = Tree::new();
        assert_eq!(tree.refresh([home.path()]), Err(TooMany));
        assert_eq!(tree.directories().count(), 0);
        std::fs::remove_dir(home.path().join("0")).unwrap();
        std::fs::remove_dir(home.path().join("1")).unwrap();
        assert_eq!(tree.refresh([home.path()]), Err(TooMany), "it is not tried again at once");
        assert_eq!(Tree::new().refresh([home.path()]), Ok(()));
    }
}
