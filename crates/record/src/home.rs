//! The home: where records, running sessions and the signing key are kept, for their owner alone.
//!
//! Everything below it is made with mode 0700 or 0600 from its first instant. A home that somebody else
//! owns or could write to is refused rather than repaired, because what is in it may be theirs; one that
//! others can merely look into is closed. Nothing is made before something is to be written.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use vocab::{ContextId, SessionId};

use crate::Error;
use crate::error::{Unsafe, echo};
use crate::trace::{TraceReader, parent};

const MODE: u32 = 0o700;
/// How many of an id's last characters name it.
const SUFFIX_MIN: usize = 4;

/// `$MURMUR_HOME`, else `~/.murmur`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// The home that the environment names.
    ///
    /// # Errors
    /// [`Error::NoHome`] when it names none.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_vars(std::env::var_os("MURMUR_HOME"), std::env::var_os("HOME"))
    }

    /// The home for these values of `MURMUR_HOME` and `HOME`; an empty one counts as unset.
    ///
    /// # Errors
    /// [`Error::NoHome`] when neither is set.
    pub fn from_vars(murmur_home: Option<OsString>, home: Option<OsString>) -> Result<Self, Error> {
        let set = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = set(murmur_home).or_else(|| set(home).map(|home| home.join(".murmur"))).ok_or(Error::NoHome)?;
        Self::at(&path)
    }

    /// The home at this path; a relative one is taken under the current directory.
    ///
    /// # Errors
    /// [`Error::NoHome`] when the path cannot be made absolute.
    pub fn at(path: &Path) -> Result<Self, Error> {
        std::path::absolute(path).map(|path| Self { path }).map_err(|_| Error::NoHome)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the home when it is not there, and checks that it is its owner's alone.
    ///
    /// # Errors
    /// [`Error::UnsafeDirectory`], or what the system says.
    pub fn ensure(&self) -> Result<(), Error> {
        if let Some(parent) = self.path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Error::io("make", parent, error))?;
        }
        make_dir(&self.path)?;
        let metadata = std::fs::metadata(&self.path).map_err(|error| Error::io("open", &self.path, error))?;
        close_dir(&self.path, &metadata)
    }

    /// The directory of a session's records, whether or not it exists.
    #[must_use]
    pub fn session_dir(&self, session: &SessionId) -> PathBuf {
        self.path.join("sessions").join(session.as_str())
    }

    /// A session's trace, whether or not it exists.
    #[must_use]
    pub fn trace_path(&self, session: &SessionId) -> PathBuf {
        self.session_dir(session).join("trace.jsonl")
    }

    /// Makes the directory of a new session's records, mode 0700.
    ///
    /// # Errors
    /// An [`Error`], also when it exists.
    pub fn create_session_dir(&self, session: &SessionId) -> Result<PathBuf, Error> {
        self.subdir("sessions")?;
        let path = self.session_dir(session);
        DirBuilder::new().mode(MODE).create(&path).map_err(|error| Error::io("make", &path, error))?;
        Ok(path)
    }

    /// A conversation's record, whether or not it exists.
    #[must_use]
    pub fn conversation_path(&self, context: &ContextId) -> PathBuf {
        self.path.join("conversations").join(context.as_str()).join("conversation.jsonl")
    }

    pub(crate) fn conversation_dir(&self, context: &ContextId) -> Result<PathBuf, Error> {
        self.subdir("conversations")?;
        let path = self.path.join("conversations").join(context.as_str());
        own_dir(&path)?;
        Ok(path)
    }

    /// The directory of running sessions, made when it is not there.
    ///
    /// # Errors
    /// [`Error::UnsafeDirectory`], or what the system says.
    pub fn running_dir(&self) -> Result<PathBuf, Error> {
        self.subdir("running")
    }

    /// The file of the key that signs traces.
    #[must_use]
    pub fn trace_key_path(&self) -> PathBuf {
        self.path.join("trace.key")
    }

    fn subdir(&self, name: &str) -> Result<PathBuf, Error> {
        self.ensure()?;
        let path = self.path.join(name);
        own_dir(&path)?;
        Ok(path)
    }

    /// All recorded sessions, newest first.
    ///
    /// # Errors
    /// What the system says; a home without sessions is not an error.
    pub fn sessions(&self) -> Result<Vec<SessionId>, Error> {
        let path = self.path.join("sessions");
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let mut sessions = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| Error::io("read", &path, error))?.file_name();
            sessions.extend(name.to_str().and_then(|name| name.parse::<SessionId>().ok()));
        }
        // Ids sort by time.
        sessions.sort_unstable_by(|a, b| b.cmp(a));
        Ok(sessions)
    }

    /// The session that a person means: `@1` (newest), `@2`, …, a full id, or the last four or more
    /// characters of exactly one id. Subagents are not counted.
    ///
    /// # Errors
    /// An [`Error`] that says what would have been accepted, or lists what fits.
    pub fn find_session(&self, text: &str) -> Result<SessionId, Error> {
        let mut sessions = self.sessions()?;
        if sessions.is_empty() && text.starts_with('@') {
            return Err(Error::NoSessions { path: self.path.join("sessions") });
        }
        if let Some(rank) = text.strip_prefix('@').and_then(|rank| rank.parse().ok()) {
            // No further than has to be looked.
            let mut kept = 0;
            sessions.retain(|session| {
                kept < rank && !self.is_subagent(session) && {
                    kept += 1;
                    true
                }
            });
        }
        let index = pick(&sessions, text)?;
        Ok(sessions.swap_remove(index))
    }

    /// Whether a session's trace begins as a subagent's does; one that cannot be read is none.
    fn is_subagent(&self, session: &SessionId) -> bool {
        let first = TraceReader::open(&self.trace_path(session)).ok().and_then(|mut reader| reader.next());
        first.and_then(Result::ok).is_some_and(|line| parent(&line).is_some())
    }
}

/// Which of these sessions, newest first, a person means.
pub(crate) fn pick(sessions: &[SessionId], text: &str) -> Result<usize, Error> {
    let not_found = || Error::SessionNotFound { text: echo(text) };
    if let Some(rank) = text.strip_prefix('@') {
        let rank = rank
            .parse::<usize>()
            .ok()
            .filter(|&rank| rank > 0)
            .ok_or_else(|| Error::BadSessionName { text: echo(text) })?;
        return (rank <= sessions.len()).then(|| rank - 1).ok_or_else(not_found);
    }
    if text.len() < SUFFIX_MIN || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(Error::BadSessionName { text: echo(text) });
    }
    let fitting: Vec<usize> = (0..sessions.len())
        .filter(|&index| sessions.get(index).is_some_and(|id| id.as_str().ends_with(text)))
        .collect();
    match *fitting {
        [] => Err(not_found()),
        [index] => Ok(index),
        _ => {
            let candidates = fitting.iter().filter_map(|&index| sessions.get(index).cloned()).collect();
            Err(Error::AmbiguousSession { text: echo(text), candidates })
        }
    }
}

fn make_dir(path: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(MODE).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(Error::io("make", path, error)),
        _ => Ok(()),
    }
}

/// A directory below the home: never a link, because a link could lead out of it.
fn own_dir(path: &Path) -> Result<(), Error> {
    make_dir(path)?;
    let metadata = std::fs::symlink_metadata(path).map_err(|error| Error::io("open", path, error))?;
    if metadata.is_symlink() {
        return Err(Error::UnsafeDirectory { path: path.to_owned(), fault: Unsafe::Symlink });
    }
    close_dir(path, &metadata)
}

fn close_dir(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let mode = metadata.mode() & 0o7777;
    let fault = if !metadata.is_dir() {
        Some(Unsafe::NotADirectory)
    } else if metadata.uid() != euid() {
        Some(Unsafe::Owner(metadata.uid()))
    } else if mode & 0o022 != 0 {
        Some(Unsafe::WritableByOthers(mode))
    } else {
        None
    };
    if let Some(fault) = fault {
        return Err(Error::UnsafeDirectory { path: path.to_owned(), fault });
    }
    if mode & 0o077 != 0 {
        let closed = Permissions::from_mode(mode & 0o700);
        std::fs::set_permissions(path, closed).map_err(|error| Error::io("close", path, error))?;
    }
    Ok(())
}

/// A file of the runtime's own, through its descriptor: regular, the owner's, and nobody else's.
pub(crate) fn check_file(file: &File, path: &Path) -> Result<(), Error> {
    let metadata = file.metadata().map_err(|error: io::Error| Error::io("open", path, error))?;
    let mode = metadata.mode() & 0o7777;
    let fault = if !metadata.is_file() {
        Unsafe::NotAFile
    } else if metadata.uid() != euid() {
        Unsafe::Owner(metadata.uid())
    } else if mode & 0o022 != 0 {
        Unsafe::WritableByOthers(mode)
    } else if mode & 0o044 != 0 {
        Unsafe::ReadableByOthers(mode)
    } else {
        return Ok(());
    };
    Err(Error::UnsafeFile { path: path.to_owned(), fault })
}

fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}
