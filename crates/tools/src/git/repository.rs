//! Finding the repository of a path, and a stand-in for it that carries none of its configuration.
//!
//! A repository's configuration can name programs in a dozen places (filters, fsmonitor, hooks, lazy
//! fetches, submodules), and more come with each version of git. Rather than switch them off one by one,
//! git is pointed at a fresh directory that links to the repository's objects, references and index, and
//! whose configuration holds only keys from a list that cannot run anything. What depends on a filter
//! (such as LFS) may therefore be shown as changed.
//!
//! Repositories above the root are not entered; one whose parts lie elsewhere is refused. Git follows
//! links below its directory as well, and a pack or reference that is linked in shows another repository
//! whole: so whatever git would follow there is looked through first, and any link that leaves refuses.
//! The look comes before git starts; who can swap files in between is not held off here.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::TempDir;

use crate::proc::ProcessError;

/// `HEAD`, `.git` files and the like are one short line.
const MAX_LINE: u64 = 8 * 1024;
const MAX_ALTERNATES: usize = 16;
/// As many files as are looked through below the object stores and references of one repository.
const MAX_ENTRIES: usize = 200_000;

/// A work tree and where its repository is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// The top of the work tree, a real path.
    pub(super) top: PathBuf,
    /// What was asked about, below the top; empty for all of it.
    pub(super) path: PathBuf,
    /// What belongs to this work tree.
    pub(super) git_dir: PathBuf,
    /// What belongs to all work trees of the repository.
    pub(super) common_dir: PathBuf,
}

/// The directory that git is given instead of the repository. Dropping it removes it.
#[derive(Debug)]
pub(super) struct StandIn {
    dir: TempDir,
    /// The real paths that it leads to, all below the root.
    pub(super) reads: Vec<PathBuf>,
    /// How many more entries may be looked through.
    left: usize,
}

/// The work tree that holds `given`, looked for from there up to `root` and no further.
pub(super) fn discover(root: &Path, given: &str) -> Result<Repository, ProcessError> {
    let missing = || ProcessError::NotRepository { path: crate::show::path(Path::new(given)) };
    let asked = real(&policy::lexical(&root.join(given)));
    let tops = asked.ancestors().take_while(|dir| dir.starts_with(root));
    let (top, git_dir) = tops.filter_map(|dir| Some((dir, git_dir(dir)?))).next().ok_or_else(missing)?;
    let common_dir = match line(&git_dir.join("commondir")) {
        Ok(text) => git_dir.join(trimmed(&text)).canonicalize()?,
        Err(_) => git_dir.clone(),
    };
    let path = asked.strip_prefix(top).unwrap_or(Path::new("")).to_owned();
    Ok(Repository { top: top.to_owned(), path, git_dir, common_dir })
}

/// The path with its parent's links resolved. Its own last name stays: git tracks links, not their ends.
fn real(path: &Path) -> PathBuf {
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
        && (path.is_symlink() || !path.exists())
    {
        return real_or_same(parent).join(name);
    }
    real_or_same(path)
}

fn real_or_same(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real_or_same(parent).join(name),
        _ => path.to_owned(),
    })
}

/// The real repository directory that `.git` in this directory is or names.
fn git_dir(dir: &Path) -> Option<PathBuf> {
    let entry = dir.join(".git");
    let found = if entry.is_dir() {
        entry
    } else {
        let text = line(&entry).ok()?;
        dir.join(trimmed(text.strip_prefix(b"gitdir:")?))
    };
    // A `HEAD` that is a link is judged later, wherever it leads.
    let usable = |head: PathBuf| head.is_file() || head.is_symlink();
    found.canonicalize().ok().filter(|found| usable(found.join("HEAD")))
}

/// A short regular file. Opened without waiting, so that a FIFO in its place cannot hold the call.
fn line(path: &Path) -> io::Result<Vec<u8>> {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or(0);
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = Vec::new();
    file.take(MAX_LINE).read_to_end(&mut text)?;
    Ok(text)
}

fn trimmed(text: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii()))
}

impl Repository {
    /// Makes the stand-in below `tmp`, with an empty configuration.
    ///
    /// # Errors
    /// When a part of the repository lies outside `root`, or is reached through a link that leaves it.
    pub(super) fn stand_in(&self, root: &Path, tmp: &Path) -> Result<StandIn, ProcessError> {
        let dir = tempfile::Builder::new().prefix("git-").tempdir_in(tmp)?;
        let mut stand_in = StandIn { dir, reads: Vec::new(), left: MAX_ENTRIES };
        stand_in.read_below(root, &self.git_dir)?;
        stand_in.read_below(root, &self.common_dir)?;
        fs::create_dir(stand_in.dir.path().join("info"))?;
        let head = self.own(&self.git_dir, "HEAD")?.ok_or(io::ErrorKind::NotFound).map_err(io::Error::from)?;
        fs::write(stand_in.dir.path().join("HEAD"), line(&head)?)?;
        for name in ["objects", "refs", "packed-refs", "reftable", "shallow", "info/exclude", "info/attributes"] {
            let Some(real) = self.own(&self.common_dir, name)? else { continue };
            stand_in.link(&real, name)?;
            if name == "reftable" {
                only_own_tables(&real)?;
            }
            if name == "objects" {
                stand_in.follow_alternates(root, real)?;
            }
        }
        let shared = fs::read_dir(&self.git_dir)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let shared = shared.filter(|name| name.starts_with("sharedindex."));
        for name in ["index".to_owned(), "info/sparse-checkout".to_owned()].into_iter().chain(shared) {
            if let Some(real) = self.own(&self.git_dir, &name)? {
                stand_in.link(&real, &name)?;
            }
        }
        stand_in.configure(&[])?;
        Ok(stand_in)
    }

    /// Makes the stand-in fit for a commit: git gets a copy of the index, because only the repository's own
    /// lock may replace that, and the logs of references, so that it notes what it changes.
    pub(super) fn for_commit(&self, stand_in: &mut StandIn) -> Result<(), ProcessError> {
        let index = stand_in.dir.path().join("index");
        if index.is_symlink() {
            let real = fs::read_link(&index)?;
            fs::remove_file(&index)?;
            fs::copy(&real, &index)?;
            // By the index's own time git tells which files it cannot know by theirs.
            fs::File::open(&index)?.set_modified(real.metadata()?.modified()?)?;
        }
        fs::create_dir(stand_in.dir.path().join("logs"))?;
        for (from, name) in [(&self.git_dir, "logs/HEAD"), (&self.common_dir, "logs/refs")] {
            if let Some(real) = self.own(from, name)? {
                stand_in.link(&real, name)?;
            }
        }
        Ok(())
    }

    /// What is under way in the repository and ends in a commit of its own.
    pub(super) fn under_way(&self) -> Option<&'static str> {
        const MARKS: &[(&str, &str)] = &[
            ("MERGE_HEAD", "a merge"),
            ("CHERRY_PICK_HEAD", "a cherry-pick"),
            ("REVERT_HEAD", "a revert"),
            ("rebase-merge", "a rebase"),
            ("rebase-apply", "a rebase"),
            ("sequencer", "a sequence of picks"),
        ];
        let there = |name: &str| self.git_dir.join(name).symlink_metadata().is_ok();
        MARKS.iter().find(|(name, _)| there(name)).map(|(_, what)| *what)
    }

    /// The real path of a part of the repository, when it has that part as a file or directory.
    fn own(&self, from: &Path, name: &str) -> Result<Option<PathBuf>, ProcessError> {
        let path = from.join(name);
        match path.canonicalize() {
            Ok(real) if !real.starts_with(&self.git_dir) && !real.starts_with(&self.common_dir) => {
                Err(ProcessError::RepositoryLinks)
            }
            // A special file is not part of this repository.
            Ok(real) => Ok((real.is_file() || real.is_dir()).then_some(real)),
            // Refused as if it led somewhere: what exists outside is not to be told either.
            Err(_) if path.is_symlink() || path.parent().is_some_and(Path::is_symlink) => {
                Err(ProcessError::RepositoryLinks)
            }
            Err(_) => Ok(None),
        }
    }

    /// The configuration files from which harmless keys are taken.
    pub(super) fn configs(&self) -> impl Iterator<Item = PathBuf> {
        [self.common_dir.join("config"), self.git_dir.join("config.worktree")].into_iter().filter(|path| path.is_file())
    }
}

impl StandIn {
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Notes a real path as one that git reads.
    fn read_below(&mut self, root: &Path, real: &Path) -> Result<(), ProcessError> {
        if !real.starts_with(root) {
            return Err(ProcessError::RepositoryOutside);
        }
        self.reads.push(real.to_owned());
        Ok(())
    }

    fn link(&mut self, real: &Path, name: &str) -> Result<(), ProcessError> {
        if real.is_dir() {
            self.look_through(real)?;
        }
        symlink(real, self.dir.path().join(name))?;
        self.reads.push(real.to_owned());
        Ok(())
    }

    /// Refuses a tree that holds anything but directories and regular files.
    fn look_through(&mut self, tree: &Path) -> Result<(), ProcessError> {
        let mut dirs = vec![tree.to_owned()];
        while let Some(dir) = dirs.pop() {
            let entries = match fs::read_dir(&dir) {
                // Git's own upkeep removes directories.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                self.left = self.left.checked_sub(1).ok_or(ProcessError::RepositoryTooLarge { most: MAX_ENTRIES })?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    dirs.push(entry.path());
                } else if !kind.is_file() {
                    return Err(ProcessError::RepositoryLinks);
                }
            }
        }
        Ok(())
    }

    /// Object stores that the object store borrows from are read as well. The list is read as git reads
    /// it, but for forms that nobody needs: those are refused, so that git cannot see more than this does.
    fn follow_alternates(&mut self, root: &Path, objects: PathBuf) -> Result<(), ProcessError> {
        let mut known = vec![objects.clone()];
        let mut stores = vec![objects];
        while let Some(store) = stores.pop() {
            let list = match line(&store.join("info/alternates")) {
                Ok(list) if u64::try_from(list.len()).is_ok_and(|length| length < MAX_LINE) => list,
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                _ => return Err(ProcessError::RepositoryBorrows),
            };
            for entry in list.split(|byte| *byte == b'\n').filter(|entry| !entry.is_empty() && !entry.starts_with(b"#"))
            {
                if entry.starts_with(b"\"") || entry.contains(&0) || entry.trim_ascii() != entry {
                    return Err(ProcessError::RepositoryBorrows);
                }
                // Git takes `..` by the letter, before it follows any link.
                let named = policy::lexical(&store.join(trimmed(entry)));
                let Ok(real) = named.canonicalize() else {
                    // Not there, so not read; outside of the root, that is not to be told.
                    if named.starts_with(root) {
                        continue;
                    }
                    return Err(ProcessError::RepositoryOutside);
                };
                if known.contains(&real) {
                    continue;
                }
                if known.len() > MAX_ALTERNATES {
                    return Err(ProcessError::RepositoryBorrows);
                }
                self.read_below(root, &real)?;
                self.look_through(&real)?;
                known.push(real.clone());
                stores.push(real);
            }
        }
        Ok(())
    }

    /// Writes the configuration: no index over many packs, which names them by paths that may leave, and of `entries` what is known to be harmless.
    pub(super) fn configure(&self, entries: &[(String, String)]) -> io::Result<()> {
        let mut text = String::from(
            "[core]\n\tbare = false\n\tquotepath = false\n\tmultipackindex = false\n\tsplitindex = false\n[diff]\n\tautorefreshindex = false\n",
        );
        for (key, value) in entries.iter().filter(|(key, value)| harmless(key) && plain(value)) {
            if let Some((section, name)) = key.split_once('.') {
                text.push_str(&format!("[{section}]\n\t{name} = {value}\n"));
            }
        }
        fs::write(self.dir.path().join("config"), text)
    }
}

/// Refuses a list of reference tables that names files elsewhere.
fn only_own_tables(reftable: &Path) -> Result<(), ProcessError> {
    match line(&reftable.join("tables.list")) {
        Ok(list) if list.contains(&b'/') || !u64::try_from(list.len()).is_ok_and(|length| length < MAX_LINE) => {
            Err(ProcessError::RepositoryLinks)
        }
        _ => Ok(()),
    }
}

/// Keys that say how the work tree and the repository's files are to be read. None of them can name a
/// program or a path. Unknown extensions pass, so that git itself refuses what it does not understand.
fn harmless(key: &str) -> bool {
    const CORE: &[&str] = &[
        "core.repositoryformatversion",
        "core.filemode",
        "core.symlinks",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.autocrlf",
        "core.eol",
        "core.trustctime",
        "core.checkstat",
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
        "core.sharedrepository",
        "core.logallrefupdates",
        "index.sparse",
    ];
    let extension = key.strip_prefix("extensions.");
    CORE.contains(&key)
        || extension.is_some_and(|name| plain(name) && !matches!(name, "worktreeconfig" | "partialclone"))
}

/// A word or number, which needs no quoting.
fn plain(value: &str) -> bool {
    value.len() <= 64 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_files_than_agreed_are_looked_through() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("dir")).unwrap();
        fs::write(tree.path().join("dir/file"), "").unwrap();
        let look = |left| {
            let mut stand_in = StandIn { dir: tempfile::tempdir().unwrap(), reads: Vec::new(), left };
            stand_in.look_through(tree.path()).map(|()| stand_in.left).map_err(|error| error.to_string())
        };
        let too_large = "the repository of this work tree has more than 200000 files, too many to look through for links, so it is not read";
        assert_eq!((look(3), look(2), look(1)), (Ok(1), Ok(0), Err(too_large.to_owned())));
    }

    #[test]
    fn only_keys_that_can_run_nothing_pass() {
        let passes = [
            "core.filemode",
            "core.repositoryformatversion",
            "extensions.objectformat",
            "index.sparse",
            "extensions.unheardof",
        ];
        let stops = [
            "core.fsmonitor",
            "core.hookspath",
            "core.pager",
            "core.worktree",
            "core.attributesfile",
            "core.sshcommand",
            "filter.x.clean",
            "filter.x.process",
            "diff.external",
            "diff.x.textconv",
            "include.path",
            "extensions.partialclone",
            "remote.origin.url",
            "alias.x",
            "extensions.a]b",
            "extensions.",
            "extensions.x.y",
            "core.alternaterefscommand",
        ];
        assert_eq!(passes.map(harmless), [true; 5]);
        assert_eq!(
            stops.map(harmless),
            [
                false, false, false, false, false, false, false, false, false, false, false, false, false, false,
                false, true, false, false
            ]
        );
        assert_eq!(
            ["true", "2", "input", "", "a b", "a\nb", "\"", "a;b"].map(plain),
            [true, true, true, true, false, false, false, false]
        );
    }
}
