//! What can go wrong with records, told so that the operator can act.
//!
//! A record that cannot be written is an error like any other: the caller stops the task. Nothing
//! here is swallowed, because a gap in a record is worse than a failed task.

use std::io;
use std::path::{Path, PathBuf};

use vocab::SessionId;

use crate::MAX_LINE;

/// How many candidates an ambiguous session name lists.
const CANDIDATES_SHOWN: usize = 8;

/// Why a record, the home or the signing key could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither `MURMUR_HOME` nor `HOME` says where the home is.
    #[error("there is no home directory: neither `MURMUR_HOME` nor `HOME` is set")]
    NoHome,
    /// The home or a directory in it cannot be trusted with records.
    #[error("`{}` cannot hold records: {fault}", path.display())]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        fault: Unsafe,
    },
    /// A file of the runtime's own that others could read or change.
    #[error("`{}` is refused: {fault}", path.display())]
    UnsafeFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Unsafe,
    },
    /// What stands in a record's place cannot be read as one.
    #[error("`{}` is not read: {fault}", path.display())]
    UnsafeRecord {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        fault: Unsafe,
    },
    /// Another file stands under the record's name, or it was cut.
    #[error("`{}` is no longer the record that this session wrote: it was replaced, removed or cut", path.display())]
    Replaced {
        /// The record.
        path: PathBuf,
    },
    /// The system refused an operation.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried: `write`, `open`, `lock`, …
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process writes this record.
    #[error("`{}` is being written by another process", path.display())]
    Locked {
        /// The record.
        path: PathBuf,
    },
    /// An earlier write failed, so nothing may follow it: a gap would go unseen.
    #[error("`{}` takes no more lines: an earlier one could not be written: {why}", path.display())]
    Stopped {
        /// The record.
        path: PathBuf,
        /// What the system said then.
        why: String,
    },
    /// The trace has its `session_end`; nothing may follow.
    #[error("`{}` has ended and takes no more lines", path.display())]
    Ended {
        /// The trace.
        path: PathBuf,
    },
    /// A line that no reader would take back.
    #[error("a line of {bytes} bytes for `{}` is longer than the limit of {MAX_LINE} bytes", path.display())]
    LineTooLong {
        /// The record.
        path: PathBuf,
        /// The line's length.
        bytes: usize,
    },
    /// A complete line that is not in the record's form.
    #[error("`{}` line {line}: {fault}", path.display())]
    BadLine {
        /// The record.
        path: PathBuf,
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// The trace to be continued does not hold together.
    #[error("`{}` cannot be continued: line {line} {reason}", path.display())]
    BrokenChain {
        /// The trace.
        path: PathBuf,
        /// The line that was named.
        line: u64,
        /// What is wrong with it.
        reason: crate::BreakReason,
    },
    /// The signing key's file does not hold a key.
    #[error("`{}` does not hold an Ed25519 key in PKCS#8 form", path.display())]
    BadKey {
        /// The file.
        path: PathBuf,
    },
    /// The system's random source failed.
    #[error("no signing key could be made: the system's random source failed")]
    NoRandom,
    /// A text that is not a public key.
    #[error("`{text}` is not a public key: expected `ed25519:` and 44 characters of base64")]
    BadPublicKey {
        /// The text, cut and made printable.
        text: String,
    },
    /// No session was recorded in this home.
    #[error("there are no recorded sessions in `{}`", path.display())]
    NoSessions {
        /// The directory that was looked into.
        path: PathBuf,
    },
    /// A text that names no session in any form.
    #[error("`{text}` does not name a session: expected `@1`, a full id, or the last 4 or more characters of one")]
    BadSessionName {
        /// The text, cut and made printable.
        text: String,
    },
    /// Nothing is recorded under this name.
    #[error("no recorded session is named `{text}`")]
    SessionNotFound {
        /// The text, cut and made printable.
        text: String,
    },
    /// No session runs.
    #[error("no session is running: `{}` names none", path.display())]
    NoneRunning {
        /// The directory that was looked into.
        path: PathBuf,
    },
    /// None of the running sessions has this name.
    #[error("no running session is named `{text}`")]
    NotRunning {
        /// The text, cut and made printable.
        text: String,
    },
    /// The file of a token cannot be written, or something stands in its place.
    #[error("the token file `{}` cannot be made: {source}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A suffix that fits several sessions.
    #[error("`{text}` fits {} sessions: {}", candidates.len(), list(candidates))]
    AmbiguousSession {
        /// The text.
        text: String,
        /// All that it fits, newest first.
        candidates: Vec<SessionId>,
    },
}

/// What makes a file or directory unfit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    /// It belongs to somebody else.
    #[error("it belongs to user {0}")]
    Owner(u32),
    /// Others may change what is in it.
    #[error("its mode {0:04o} lets others write to it")]
    WritableByOthers(u32),
    /// Others may read it.
    #[error("its mode {0:04o} lets others read it")]
    ReadableByOthers(u32),
    /// It is a symbolic link.
    #[error("it is a symbolic link")]
    Symlink,
    /// It is not what it should be.
    #[error("it is not a directory")]
    NotADirectory,
    /// It is not what it should be.
    #[error("it is not a regular file")]
    NotAFile,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// Not UTF-8, or not a JSON object of the record's form.
    #[error("not a record line: {0}")]
    Form(String),
    /// Longer than any writer makes one.
    #[error("longer than the limit of {MAX_LINE} bytes")]
    TooLong,
}

impl Error {
    /// The stable code of the diagnostic.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoHome | Self::UnsafeDirectory { .. } => "E-REC-001",
            Self::UnsafeRecord { .. }
            | Self::Io { .. }
            | Self::Stopped { .. }
            | Self::Ended { .. }
            | Self::LineTooLong { .. } => "E-REC-002",
            Self::Replaced { .. } | Self::BadLine { .. } | Self::BrokenChain { .. } => "E-REC-003",
            Self::Locked { .. } => "E-REC-004",
            Self::UnsafeFile { .. } | Self::BadKey { .. } | Self::NoRandom | Self::BadPublicKey { .. } => "E-REC-005",
            Self::NoSessions { .. }
            | Self::BadSessionName { .. }
            | Self::SessionNotFound { .. }
            | Self::NoneRunning { .. }
            | Self::NotRunning { .. }
            | Self::AmbiguousSession { .. } => "E-REC-006",
            Self::TokenFile { .. } => "E-RUN-041",
        }
    }

    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoHome => "set `MURMUR_HOME` to a directory of your own".into(),
            Self::UnsafeDirectory { path, fault: Unsafe::WritableByOthers(_) } => {
                format!("run `chmod 700 {}`, after checking what is in it", path.display())
            }
            Self::UnsafeRecord { path, .. } => {
                format!("move `{}` away: a record is a regular file that the runtime wrote", path.display())
            }
            Self::Replaced { .. } => {
                "look for a process that writes in the runtime's home; what it put there is not to be trusted".into()
            }
            Self::UnsafeDirectory { .. } => "set `MURMUR_HOME` to a directory of your own".into(),
            Self::UnsafeFile { path, fault: Unsafe::ReadableByOthers(_) | Unsafe::WritableByOthers(_) } => {
                format!(
                    "run `chmod 600 {}`; a signing key that others may have read is better removed: a new one is made",
                    path.display()
                )
            }
            Self::UnsafeFile { path, .. } | Self::BadKey { path } => {
                format!("move `{}` away; a new one is made on the next use", path.display())
            }
            Self::Io { source, .. } if is_full(source) => "free some space and run the task again".into(),
            Self::Io { .. } => "check that the directory exists and that you may use it".into(),
            Self::Locked { .. } => "stop the other session (`mur ps` lists them), or use another context".into(),
            Self::Stopped { .. } | Self::Ended { .. } => "start a new session".into(),
            Self::LineTooLong { .. } => "make the tool's output smaller".into(),
            Self::BadLine { .. } => "the record was damaged: move it away, or restore it from a copy".into(),
            Self::BrokenChain { .. } => "run `mur trace verify` on it, and start a new session".into(),
            Self::NoRandom => "check that the host provides `getrandom`".into(),
            Self::BadPublicKey { .. } => "`mur trace key` prints one".into(),
            Self::NoSessions { .. } => "run one with `mur run`".into(),
            Self::BadSessionName { .. } | Self::SessionNotFound { .. } => {
                "`mur trace list` shows the recorded sessions".into()
            }
            Self::NoneRunning { .. } => "start one with `mur run`".into(),
            Self::NotRunning { .. } => "`mur ps` shows the running sessions".into(),
            Self::TokenFile { source, .. } if is_full(source) => "free some space and start again".into(),
            Self::TokenFile { path, .. } => format!("remove `{}` if no session of that id runs", path.display()),
            Self::AmbiguousSession { .. } => "give more of the id's last characters".into(),
        }
    }

    /// Whether the cause is a full disk, quota or file size limit.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }
}

fn is_full(source: &io::Error) -> bool {
    matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn list(candidates: &[SessionId]) -> String {
    let mut text = String::new();
    for (index, id) in candidates.iter().take(CANDIDATES_SHOWN).enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        text.push_str(id.as_str());
    }
    if candidates.len() > CANDIDATES_SHOWN {
        text.push_str(", …");
    }
    text
}

/// Foreign text in an error: printable and short.
pub(crate) fn echo(text: &str) -> String {
    text.escape_debug().take(80).collect()
}
