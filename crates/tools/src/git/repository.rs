//! Finding the repository of a path, and a stand-in for it that carries none of its configuration.
//!
//! A repository's configuration can name programs in a dozen places (filters, fsmonitor, hooks, lazy
//! fetches, submodules), and more come with each version of git. Rather than switch them off one by one,
//! git is pointed at a fresh directory that links to the repository's objects, references and index, and
//! whose configuration holds only keys from a list that cannot run anything. What depends on a filter
//! (such as LFS) may therefore be shown as changed.
//!
//! Repositories above the root are not entered; one whose parts lie elsewhere is refused. Links deeper
//! inside the object store are not looked for: they can show no more than objects whose ids are known.

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
    /// The real paths that it leads to.
    pub(super) reads: Vec<PathBuf>,
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
    found.canonicalize().ok().filter(|found| found.join("HEAD").is_file())
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
    pub(super) fn stand_in(&self, tmp: &Path) -> Result<StandIn, ProcessError> {
        let dir = tempfile::Builder::new().prefix("git-").tempdir_in(tmp)?;
        let mut stand_in = StandIn { dir, reads: vec![self.git_dir.clone(), self.common_dir.clone()] };
        fs::create_dir(stand_in.dir.path().join("info"))?;
        fs::write(stand_in.dir.path().join("HEAD"), line(&self.git_dir.join("HEAD"))?)?;
        for name in ["objects", "refs", "packed-refs", "reftable", "shallow", "info/exclude", "info/attributes"] {
            stand_in.link(&self.common_dir, name)?;
        }
        for name in ["index", "info/sparse-checkout"] {
            stand_in.link(&self.git_dir, name)?;
        }
        for entry in fs::read_dir(&self.git_dir)?.flatten() {
            if let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with("sharedindex.")) {
                stand_in.link(&self.git_dir, name)?;
            }
        }
        stand_in.follow_alternates();
        stand_in.configure(&[])?;
        Ok(stand_in)
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

    fn link(&mut self, from: &Path, name: &str) -> io::Result<()> {
        // What does not exist, leads nowhere or is a special file is not part of this repository.
        let Ok(real) = from.join(name).canonicalize() else { return Ok(()) };
        if !real.is_file() && !real.is_dir() {
            return Ok(());
        }
        symlink(&real, self.dir.path().join(name))?;
        self.reads.push(real);
        Ok(())
    }

    /// Object stores that the object store borrows from are read as well.
    fn follow_alternates(&mut self) {
        let mut stores = vec![self.dir.path().join("objects")];
        while let Some(store) = stores.pop() {
            let Ok(list) = line(&store.join("info/alternates")) else { continue };
            for alternate in list.split(|byte| *byte == b'\n').map(trimmed).filter(|path| !path.as_os_str().is_empty())
            {
                let Ok(real) = store.join(alternate).canonicalize() else { continue };
                if !self.reads.contains(&real) && self.reads.len() < MAX_ALTERNATES * 2 {
                    self.reads.push(real.clone());
                    stores.push(real);
                }
            }
        }
    }

    /// Writes the configuration: ours, and of `entries` what is known to be harmless.
    pub(super) fn configure(&self, entries: &[(String, String)]) -> io::Result<()> {
        let mut text =
            String::from("[core]\n\tbare = false\n\tquotepath = false\n[diff]\n\tautorefreshindex = false\n");
        for (key, value) in entries.iter().filter(|(key, value)| harmless(key) && plain(value)) {
            if let Some((section, name)) = key.split_once('.') {
                text.push_str(&format!("[{section}]\n\t{name} = {value}\n"));
            }
        }
        fs::write(self.dir.path().join("config"), text)
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
