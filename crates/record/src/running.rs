//! Which sessions run now: `<home>/running/<session id>.json`, and beside it the files of its tokens.
//!
//! The session holds a lock on its record for as long as it lives, so a reader needs no guess about
//! process ids: a record whose lock can be had is that of a process that is gone, however it went, and
//! the reader removes it with its tokens. A record appears under its name whole or not at all; tokens are
//! written before it and go after it. Nothing here is synced to the disk: after a loss of power no session
//! runs, whatever a file says, and a launch does not wait for what nobody would read.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use secrets::Secret;
use serde::{Deserialize, Serialize};
use vocab::SessionId;

use crate::error::Unsafe;
use crate::home::{check_file, pick};
use crate::{Error, Home};

/// What the file names of a session's tokens end with.
const TOKENS: [TokenKind; 4] = [TokenKind::Operator, TokenKind::Diagnostics, TokenKind::Peer, TokenKind::Control];
/// No token and no running record is longer.
const FILE_MAX: u64 = 64 * 1024;

/// A session that runs, for those who look for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningSession {
    /// The session.
    pub session_id: SessionId,
    /// Its address, such as `http://127.0.0.1:40001`.
    pub url: String,
    /// Process id of the runtime.
    pub pid: u32,
    /// When the process started, in clock ticks since the host did; 0 where the host does not say.
    pub process_start: u64,
    /// The capsule's name.
    pub capsule: String,
    /// The capsule's version.
    pub version: String,
    /// The directory the agent works in; what of its name is not UTF-8 stands as U+FFFD.
    pub workdir: String,
    /// Where its records are, written alike.
    pub records: String,
    /// When the session started, in milliseconds since the Unix epoch.
    pub started_ms: u64,
}

/// What a token of a session is for; each has a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Everything that an operator may do at the session's address: `<session id>.door`.
    Operator,
    /// Looking: `<session id>.diag`.
    Diagnostics,
    /// Sending tasks as another capsule: `<session id>.peer`.
    Peer,
    /// Changing the session while it runs: `<session id>.control`.
    Control,
}

impl TokenKind {
    fn ending(self) -> &'static str {
        match self {
            Self::Operator => "door",
            Self::Diagnostics => "diag",
            Self::Peer => "peer",
            Self::Control => "control",
        }
    }
}

/// A session's entry among those that run. Dropping it takes the entry away.
#[derive(Debug)]
pub struct Running {
    dir: PathBuf,
    session: SessionId,
    /// Holds the lock that says that the session lives.
    record: File,
}

impl Running {
    /// Writes the tokens and then the record, all with mode 0600 from their first instant.
    ///
    /// # Errors
    /// [`Error::TokenFile`] when a token cannot be written, or its place is taken; what the system says
    /// of the record. Nothing is left then.
    pub fn announce(home: &Home, session: &RunningSession, tokens: &[(TokenKind, &Secret)]) -> Result<Self, Error> {
        let dir = home.running_dir()?;
        let id = &session.session_id;
        let (temp, path) = (temp_path(&dir, id), record_path(&dir, id));
        let file = make(&temp, OFlags::RDWR)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| Error::io("lock", &temp, error))?;
        // From here on, whatever fails, dropping this removes what was made.
        let mut running = Self { dir, session: id.clone(), record: file };
        for (kind, token) in tokens {
            let path = running.token_path(*kind);
            write_token(&path, token).map_err(|source| Error::TokenFile { path, source })?;
        }
        let io = |error| Error::io("write", &temp, error);
        let text = serde_json::to_vec(session).map_err(|error| io(error.into()))?;
        running.record.write_all(&text).map_err(io)?;
        std::fs::rename(&temp, &path).map_err(|error| Error::io("make", &path, error))?;
        Ok(running)
    }

    /// The file of a token.
    #[must_use]
    pub fn token_path(&self, kind: TokenKind) -> PathBuf {
        token_path(&self.dir, &self.session, kind)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        remove(&self.dir, &self.session);
    }
}

impl Home {
    /// The sessions that run, newest first. What those left that were killed is removed.
    ///
    /// # Errors
    /// An unsafe home, or what the system says; a home without sessions is not an error.
    pub fn running(&self) -> Result<Vec<RunningSession>, Error> {
        let dir = self.path().join("running");
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read", &dir, error)),
        };
        let dir = self.running_dir()?;
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| Error::io("read", &dir, error))?.file_name();
            ids.extend(name.to_str().and_then(session_of));
        }
        // Ids sort by time.
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        Ok(ids.iter().filter_map(|id| look(&dir, id)).collect())
    }

    /// The running session that a person means: `@1` (newest), `@2`, …, a full id, or the last four or
    /// more characters of exactly one id.
    ///
    /// # Errors
    /// An [`Error`] that says what would have been accepted, or lists what fits.
    pub fn find_running(&self, text: &str) -> Result<RunningSession, Error> {
        let mut running = self.running()?;
        if running.is_empty() {
            return Err(Error::NoneRunning { path: self.path().join("running") });
        }
        let ids: Vec<SessionId> = running.iter().map(|session| session.session_id.clone()).collect();
        let index = pick(&ids, text).map_err(|error| match error {
            Error::SessionNotFound { text } => Error::NotRunning { text },
            error => error,
        })?;
        Ok(running.swap_remove(index))
    }

    /// Reads a token of a running session.
    ///
    /// # Errors
    /// [`Error::UnsafeFile`] when others could have read or written it, or what the system says.
    pub fn token(&self, session: &SessionId, kind: TokenKind) -> Result<Secret, Error> {
        let path = token_path(&self.running_dir()?, session, kind);
        let file = open(&path)?;
        check_file(&file, &path)?;
        let mut text = String::new();
        file.take(FILE_MAX).read_to_string(&mut text).map_err(|error| Error::io("read", &path, error))?;
        Ok(Secret::new(text))
    }
}

/// When this process started, in clock ticks since the host did; 0 where the host does not say.
#[must_use]
pub fn process_start() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold anything; the 22nd field is the 20th after it.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

fn record_path(dir: &Path, session: &SessionId) -> PathBuf {
    dir.join(format!("{session}.json"))
}

fn temp_path(dir: &Path, session: &SessionId) -> PathBuf {
    dir.join(format!(".{session}.tmp"))
}

fn token_path(dir: &Path, session: &SessionId, kind: TokenKind) -> PathBuf {
    dir.join(format!("{session}.{}", kind.ending()))
}

/// The session that a file in the directory belongs to.
fn session_of(name: &str) -> Option<SessionId> {
    let (id, _) = name.strip_prefix('.').unwrap_or(name).split_once('.')?;
    id.parse().ok()
}

fn make(path: &Path, access: OFlags) -> Result<File, Error> {
    new_file(path, access).map_err(|error| Error::io("make", path, error))
}

fn new_file(path: &Path, access: OFlags) -> std::io::Result<File> {
    let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

fn write_token(path: &Path, token: &Secret) -> std::io::Result<()> {
    new_file(path, OFlags::WRONLY)?.write_all(token.expose().as_bytes())
}

fn open(path: &Path) -> Result<File, Error> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(File::from(file)),
        Err(Errno::LOOP) => Err(Error::UnsafeFile { path: path.to_owned(), fault: Unsafe::Symlink }),
        Err(error) => Err(Error::io("open", path, error)),
    }
}

/// Reads a session's entry if the session lives; removes what is left of one that does not.
fn look(dir: &Path, id: &SessionId) -> Option<RunningSession> {
    let path = record_path(dir, id);
    match open(&path) {
        Ok(mut file) => {
            if is_abandoned(&file) {
                remove(dir, id);
                return None;
            }
            let mut text = Vec::new();
            (&mut file).take(FILE_MAX).read_to_end(&mut text).ok()?;
            serde_json::from_slice::<RunningSession>(&text).ok().filter(|found| found.session_id == *id)
        }
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            // It starts right now, or it was killed while it did, or it ends right now.
            let starting = open(&temp_path(dir, id)).is_ok_and(|file| !is_abandoned(&file));
            if !starting && !path.exists() {
                remove(dir, id);
            }
            None
        }
        Err(_) => None,
    }
}

/// Whether nobody holds the lock. A shared lock is asked for, so that readers do not see each other.
fn is_abandoned(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared).is_ok()
}

/// Removes all files of a session; the record last, so that a reader who comes in between tries again.
fn remove(dir: &Path, session: &SessionId) {
    for kind in TOKENS {
        // What is gone already is as wanted.
        let _ = std::fs::remove_file(token_path(dir, session, kind));
    }
    let _ = std::fs::remove_file(record_path(dir, session));
    let _ = std::fs::remove_file(temp_path(dir, session));
}
