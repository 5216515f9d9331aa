//! What can go wrong with the settings store, told so that the operator can act.
//!
//! Nothing here is mended behind the operator's back: a store that cannot be read blocks what it governs, and the
//! message says which file or server it is. No message holds a URL's password, a document's text or a value.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why the settings store could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store's URL says nothing that can be connected to.
    #[error("the settings store's URL is not usable: {0}")]
    Url(UrlFault),
    /// A file of the store's own that others could read or change, or that is no file.
    #[error("`{}` is refused: {fault}", path.display())]
    UnsafeFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: FileFault,
    },
    /// The store was there and is gone.
    #[error("the settings store {place} has disappeared")]
    Missing {
        /// Which store.
        place: Place,
    },
    /// What stands there is not a whole settings store.
    #[error("the settings store {place} is damaged: {what}")]
    Damaged {
        /// Which store.
        place: Place,
        /// What was found.
        what: Damage,
    },
    /// The tables have a form that this program does not know.
    #[error("the settings store {place} was made by a newer mur (form {found}; this one knows {known})")]
    Newer {
        /// Which store.
        place: Place,
        /// The form found.
        found: i64,
        /// The newest form known here.
        known: i64,
    },
    /// The store can be read and not written.
    #[error("the settings store {place} cannot be written: it is read-only")]
    ReadOnly {
        /// Which store.
        place: Place,
    },
    /// There is no room to write.
    #[error("the settings store {place} cannot be written: no space is left")]
    Full {
        /// Which store.
        place: Place,
    },
    /// Another process holds the store's lock for too long.
    #[error("the settings store {place} is locked by another process")]
    Busy {
        /// Which store.
        place: Place,
    },
    /// The server cannot be spoken to.
    #[error("the settings store {place} cannot be reached: {reason}")]
    Unreachable {
        /// Which store.
        place: Place,
        /// What happened.
        reason: Reach,
    },
    /// The server answered too late.
    #[error("the settings store {place} did not answer within {} s", limit.as_secs())]
    Slow {
        /// Which store.
        place: Place,
        /// How long it had.
        limit: Duration,
    },
    /// The server does not accept this user and password.
    #[error("the settings store {place} refused the login")]
    Login {
        /// Which store.
        place: Place,
    },
    /// The server has no database of that name.
    #[error("the settings store {place} is not there: the server has no such database")]
    NoDatabase {
        /// Which store.
        place: Place,
    },
    /// The database user may not do what was asked.
    #[error("the settings store {place} does not let this user do that")]
    Forbidden {
        /// Which store.
        place: Place,
    },
    /// The server refused a statement for another reason.
    #[error("the settings store {place} refused a statement ({sqlstate}): {message}")]
    Refused {
        /// Which store.
        place: Place,
        /// The five characters of the SQL standard.
        sqlstate: String,
        /// The server's first line.
        message: String,
    },
    /// SQLite could not do what was asked.
    #[error("the settings store {place} cannot be used: {source}")]
    Sqlite {
        /// Which store.
        place: Place,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The system refused an operation on the store's file.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried: `make`, `link`, `sync`, …
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The connection broke while a change was being confirmed.
    #[error("it is not known whether the settings store {place} took the change: the connection broke while saving")]
    Unconfirmed {
        /// Which store.
        place: Place,
    },
    /// Somebody else has changed the document since it was read.
    #[error("`{key}` has been changed by somebody else meanwhile")]
    Conflict {
        /// The document's key.
        key: String,
    },
    /// A document's key that is none.
    #[error("a document's key is 1 to 120 of the characters `A-Z a-z 0-9 _ . : -`")]
    Key,
    /// A document that is too large to be stored.
    #[error("`{key}` would have {bytes} bytes; the limit is {} bytes", crate::MAX_DOCUMENT)]
    TooLarge {
        /// The document's key.
        key: String,
        /// Its length.
        bytes: usize,
    },
    /// A text with a NUL character, which PostgreSQL cannot hold.
    #[error("`{key}` holds a NUL character")]
    Nul {
        /// The document's key.
        key: String,
    },
    /// A document that could not be read again for what it is.
    #[error("`{key}` cannot be saved: {why}")]
    Invalid {
        /// The document's key.
        key: String,
        /// What its reader would say.
        why: String,
    },
    /// What is stored is whole, and not what its reader knows.
    #[error("in the settings store {place}, {why}")]
    Record {
        /// Which store.
        place: Place,
        /// What its reader says.
        why: String,
    },
    /// The file with the key of the secrets cannot be used.
    #[error("the key file `{}` cannot be used: {fault}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: KeyFault,
    },
    /// A secret that is stored and cannot be read.
    #[error("the secret `{name}` of the connection `{connection}` cannot be opened: {fault}")]
    Sealed {
        /// The connection's id.
        connection: String,
        /// The secret's name.
        name: String,
        /// Why.
        fault: SealFault,
    },
    /// The system's random source failed.
    #[error("nothing was saved: the system's random source failed")]
    NoRandom,
    /// The program's background work was stopped under the store, as at its end.
    #[error("the settings store {place} was closed while it was in use")]
    Stopped {
        /// Which store.
        place: Place,
    },
}

/// Which store an error is about: a file, or a server and database. Shown in backticks, never with a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// An SQLite file.
    File(PathBuf),
    /// A PostgreSQL database, as `host:port/database`.
    Server(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "`{}`", path.display()),
            Self::Server(name) => write!(f, "`{name}`"),
        }
    }
}

/// What is wrong with a store's URL. Nothing of it is quoted: it could be a piece of the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// Not `postgres://` or `postgresql://`.
    #[error("it does not begin with `postgres://`")]
    Scheme,
    /// It cannot be parsed.
    #[error("it is not of the form `postgres://user:password@host:port/database?option=value`")]
    Syntax,
    /// Without a host there is nothing to connect to.
    #[error("it names no host")]
    NoHost,
    /// A mode that can end in clear text, or that does not check whom it speaks to.
    #[error("`sslmode={0}` is not supported, because it does not promise who the server is")]
    WeakTls(&'static str),
    /// A mode that nobody knows.
    #[error("its `sslmode` is none of `disable`, `require` and `verify-full`")]
    UnknownTls,
    /// Certificates without the mode that uses them.
    #[error("`sslrootcert` is of no use with `sslmode=disable`")]
    RootWithoutTls,
}

/// Why a file is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// It is a symbolic link.
    #[error("it is a symbolic link")]
    Link,
    /// It is a directory, a pipe or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It belongs to someone who is not this user.
    #[error("it belongs to another user (uid {0})")]
    Owner(u32),
    /// Its permission bits let others in.
    #[error("it has mode {0:04o}: others can read or change it")]
    Exposed(u32),
}

/// Why a key file is of no use. Nothing of it is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Nothing is there.
    #[error("it is not there")]
    Missing,
    /// What is there is no key.
    #[error("it does not hold 32 bytes in base64 on one line")]
    Form,
}

/// Why a sealed value is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealFault {
    /// A newer form, or none.
    #[error("it has no form that is known here")]
    Form,
    /// It was sealed with a key that is not this one.
    #[error("it was sealed with another key")]
    OtherKey,
    /// It was changed, or belongs to another secret.
    #[error("it is not what was sealed for this place")]
    Altered,
}

/// What was found in the place of a whole store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A file without a byte.
    #[error("the file is empty")]
    Empty,
    /// The file is gone and its journal is not.
    #[error("the file is missing and its journal is still there")]
    Journal,
    /// The file is no SQLite database, or its pages contradict each other.
    #[error("the file is not a whole SQLite database")]
    Database,
    /// A database of something else, or one that lost a table.
    #[error("its tables are not those of a settings store")]
    Tables,
    /// A row that no mur writes.
    #[error("a row is not as it was written")]
    Row,
    /// A document whose text is not what was saved.
    #[error("the text of `{key}` is not what was saved")]
    Document {
        /// Its key.
        key: String,
    },
}

/// Why a server could not be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum Reach {
    /// The system's word: refused, no route, no such name, …
    #[error("{0}")]
    Io(io::ErrorKind),
    /// Nothing came back in time.
    #[error("no connection within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The connection ended.
    #[error("the connection was closed")]
    Closed,
    /// TLS could not be agreed, or the certificate is not the server's.
    #[error("TLS failed: {0}")]
    Tls(rustls::Error),
    /// The file that `sslrootcert` names holds no certificate that can be used.
    #[error("`sslrootcert` names a file without usable certificates")]
    Roots,
    /// The server shuts down, starts up, or has no connection to spare.
    #[error("the server takes no connections now ({0})")]
    NotNow(String),
    /// Something else, in the client library's words.
    #[error("{0}")]
    Protocol(tokio_postgres::Error),
}

impl StoreError {
    /// The stable diagnostic code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url(_) => "E-STO-001",
            Self::UnsafeFile { .. } => "E-STO-002",
            Self::Missing { .. } | Self::NoDatabase { .. } => "E-STO-003",
            Self::Damaged { .. } => "E-STO-004",
            Self::Newer { .. } => "E-STO-005",
            Self::ReadOnly { .. } | Self::Full { .. } => "E-STO-006",
            Self::Busy { .. } => "E-STO-007",
            Self::Unreachable { .. } | Self::Slow { .. } | Self::Stopped { .. } => "E-STO-008",
            Self::Login { .. } | Self::Forbidden { .. } => "E-STO-009",
            Self::Refused { .. } | Self::Sqlite { .. } | Self::Io { .. } | Self::NoRandom => "E-STO-010",
            Self::Unconfirmed { .. } => "E-STO-011",
            Self::Conflict { .. } => "E-STO-012",
            Self::Key | Self::TooLarge { .. } | Self::Nul { .. } | Self::Invalid { .. } => "E-STO-013",
            Self::Record { .. } => "E-STO-014",
            Self::KeyFile { .. } => "E-STO-015",
            Self::Sealed { .. } => "E-STO-016",
        }
    }

    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Url(UrlFault::WeakTls(_) | UrlFault::UnknownTls | UrlFault::RootWithoutTls) => {
                "use `sslmode=verify-full` (with `sslrootcert=FILE` for a certificate authority of your own), or \
                 `sslmode=disable` on a network that nobody else reads"
            }
            Self::Url(_) => "set MURMUR_STORE, or `store:` in config.yaml, to `postgres://user:password@host/database`",
            Self::UnsafeFile { fault: FileFault::Exposed(_), .. } => "run `chmod 600` on it",
            Self::UnsafeFile { .. } => "put a regular file of your own, with mode 0600 in its place",
            Self::Missing { .. } => "restore it from a backup, or start again to begin with an empty one",
            Self::Damaged { .. } => {
                "restore it from a backup; to begin with an empty one, move it and its journals away"
            }
            Self::Newer { .. } => "update mur on this host",
            Self::ReadOnly { .. } => "make the file, its directory and its file system writable",
            Self::Full { .. } => "free some space; what was stored before is still there",
            Self::Busy { .. } => "try again; if it stays, end the process that holds it",
            Self::Unreachable { .. } | Self::Slow { .. } => "check that the server runs and that this host reaches it",
            Self::Stopped { .. } => "start it again",
            Self::Login { .. } => "check the user and the password in MURMUR_STORE or in `store:` of config.yaml",
            Self::NoDatabase { .. } => "make it with `createdb`, or correct the name in the URL",
            Self::Forbidden { .. } => {
                "grant the user CREATE on the database once, or make a schema `murmur` that belongs to the user"
            }
            Self::Refused { .. } => "look into the server's log",
            Self::Sqlite { .. } | Self::Io { .. } => "check the file, its directory and its file system",
            Self::Unconfirmed { .. } => "look at what is stored before you try again",
            Self::Conflict { .. } => "read it again and repeat the change",
            Self::Key | Self::Nul { .. } | Self::Invalid { .. } => "correct the text and save it again",
            Self::TooLarge { .. } => "make it shorter",
            Self::Record { .. } => {
                "update mur on this host if a newer one made it; otherwise restore the store from a backup"
            }
            Self::KeyFile { fault: KeyFault::Missing, .. } => {
                "restore it from a backup, or correct MURMUR_STORE_KEY_FILE; what was sealed with a lost key has to be \
                 given again"
            }
            Self::KeyFile { fault: KeyFault::Form, .. } => {
                "restore it from a backup; to begin with a new key, move it away and give the secrets again"
            }
            Self::Sealed { fault: SealFault::OtherKey, .. } => {
                "share the key file that it was sealed with (MURMUR_STORE_KEY_FILE), or add the connection again"
            }
            Self::Sealed { fault: SealFault::Form, .. } => "update mur on this host, or add the connection again",
            Self::Sealed { fault: SealFault::Altered, .. } => "add the connection again, with its secrets",
            Self::NoRandom => "check that the system provides random bytes",
        }
    }
}
