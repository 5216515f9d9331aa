//! What lies below a few directories, kept from one process start to the next.
//!
//! Rules with patterns have to be tried on names, and reading every directory again for each process would
//! cost more than the process. So a listing is kept until its directory has changed, which one look per
//! directory tells. The kernel's clock for that is coarse: a directory that changed just before it was listed is
//! listed again the next time, for a second change may bear the same time.
//!
//! The answer is true when it is given and perhaps not later: what is made afterwards is for the reviews.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Entries below all roots.
const MAX_ENTRIES: usize = 100_000;
/// Directories below all roots: each is looked at before each start.
const MAX_DIRECTORIES: usize = 10_000;
/// Bytes of a path that is looked at: the kernel takes 4095, and something is to be put over what lies too deep.
const MAX_PATH: usize = 3_500;
/// How long a change and a listing must lie apart to be told from each other: a tick of the kernel's slowest clock,
/// twice over.
const TICK: Duration = Duration::from_millis(20);

/// What an index does not hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// There is more than may be looked through.
    pub(crate) is_cut: bool,
    /// Directories that exist and cannot be listed, or lie so deep that they have no usable name.
    pub(crate) closed: Vec<PathBuf>,
}

/// A kept index of everything below its roots.
#[derive(Debug, Default)]
pub struct Tree {
    listings: HashMap<PathBuf, Listing>,
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

    /// Brings the index up to date for these roots, and forgets others.
    ///
    /// What was known before comes first, then what is new, what is nearest to a root before what is deeper: nobody
    /// crowds out what the index holds by making more.
    pub(crate) fn refresh<'r>(&mut self, roots: impl IntoIterator<Item = &'r Path>) -> Reach {
        let mut before = std::mem::take(&mut self.listings);
        let mut known: VecDeque<PathBuf> = roots.into_iter().map(Path::to_owned).collect();
        let (mut fresh, mut reach, mut entries) = (VecDeque::new(), Reach::default(), 0);
        while let Some(path) = known.pop_front().or_else(|| fresh.pop_front()) {
            if self.listings.contains_key(&path) {
                continue;
            }
            if self.listings.len() >= MAX_DIRECTORIES {
                reach.is_cut = true;
                break;
            }
            let listing = match current(&path, before.remove(&path)) {
                Found::Listing(listing) if entries + listing.entries.len() <= MAX_ENTRIES => listing,
                Found::Listing(_) => {
                    reach.is_cut = true;
                    continue;
                }
                Found::Nothing => continue,
                Found::Closed => {
                    reach.closed.push(path);
                    continue;
                }
            };
            entries += listing.entries.len();
            for entry in listing.entries.iter().filter(|entry| entry.kind == Kind::Directory) {
                let below = path.join(&entry.name);
                if before.contains_key(&below) { known.push_back(below) } else { fresh.push_back(below) }
            }
            self.listings.insert(path, listing);
        }
        reach
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

/// What is at a path.
enum Found {
    Listing(Listing),
    /// No directory.
    Nothing,
    /// A directory that cannot be listed now: whoever owns it can open it again.
    Closed,
}

/// The kept listing if it still holds, or a new one.
fn current(path: &Path, kept: Option<Listing>) -> Found {
    if path.as_os_str().len() > MAX_PATH {
        return Found::Closed;
    }
    listing(path, kept).map_or_else(
        |errno| match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Found::Nothing,
            _ => Found::Closed,
        },
        Found::Listing,
    )
}

fn listing(path: &Path, kept: Option<Listing>) -> Result<Listing, Errno> {
    if let Some(kept) = kept.filter(|kept| kept.settled) {
        let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
        if node(&stat) == kept.node && changed(&stat) == kept.changed {
            return Ok(kept);
        }
    }
    let now = SystemTime::now();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&opened)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
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
    Ok(Listing { node: node(&stat), changed, settled: lie_apart(changed, now), entries })
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
        tree.refresh([root.as_path()]);
        assert_eq!(names(&tree, &root), ["a", "a/b", "a/b/file", "link"]);
        // As fast as can be: the listing that was just made does not hide it.
        for round in 0..50 {
            let name = format!("a/b/{round}");
            std::fs::write(root.join(&name), "").unwrap();
            tree.refresh([root.as_path()]);
            assert!(names(&tree, &root).contains(&name), "{name}");
            std::fs::remove_file(root.join(&name)).unwrap();
        }
        std::fs::rename(root.join("a/b"), root.join("c")).unwrap();
        std::fs::create_dir(root.join("a/b")).unwrap();
        tree.refresh([root.as_path()]);
        assert_eq!(names(&tree, &root), ["a", "a/b", "c", "c/file", "link"]);
        tree.refresh([root.join("c").as_path(), root.join("gone").as_path()]);
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
    fn what_is_known_is_kept_before_what_is_new_and_what_is_left_out_is_told() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("zz/below")).unwrap();
        let mut tree = Tree::new();
        assert_eq!(tree.refresh([root.as_path()]), Reach::default());
        for index in 0..MAX_DIRECTORIES {
            std::fs::create_dir(root.join(index.to_string())).unwrap();
        }
        assert_eq!(tree.refresh([root.as_path()]), Reach { is_cut: true, closed: Vec::new() });
        assert_eq!(tree.directories().count(), MAX_DIRECTORIES);
        assert!(tree.directory(&root.join("zz/below")).is_some());
        for index in 0..3 {
            std::fs::remove_dir(root.join(index.to_string())).unwrap();
        }
        assert_eq!(tree.refresh([root.as_path()]), Reach::default());
    }

    #[test]
    fn a_directory_that_is_closed_or_too_deep_is_told() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let deep = root.join("d".repeat(200));
        let mut opened = {
            std::fs::create_dir(&deep).unwrap();
            rustix::fs::open(&deep, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
        };
        for _ in 0..20 {
            let name = "d".repeat(200);
            rustix::fs::mkdirat(&opened, &name, Mode::RWXU).unwrap();
            opened = rustix::fs::openat(&opened, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        let reach = Tree::new().refresh([root.as_path()]);
        let lengths: Vec<usize> = reach.closed.iter().map(|path| path.as_os_str().len()).collect();
        assert!(!reach.is_cut && lengths.len() == 1, "{lengths:?}");
        assert!(lengths[0] > MAX_PATH && lengths[0] < 4_000, "{lengths:?}");
        if !rustix::process::geteuid().is_root() {
            std::fs::create_dir(root.join("closed")).unwrap();
            std::fs::set_permissions(root.join("closed"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
            assert!(Tree::new().refresh([root.as_path()]).closed.contains(&root.join("closed")));
        }
    }
}
