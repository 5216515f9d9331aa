//! What can go wrong between `${NAME}` and its value.
//!
//! No message holds a value or a piece of the config file: a parser's own message may quote its input,
//! so only its position is kept and the words are ours.

use std::path::PathBuf;

/// Why a credential has no value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither place has the name, or both hold an empty value.
    #[error("credential `{name}` is neither in `{}` nor in the environment", path.display())]
    Unresolved {
        /// The credential's name.
        name: String,
        /// The config file that was searched.
        path: PathBuf,
    },
    /// A value was found that cannot be sent in an HTTP header.
    #[error("credential `{name}` from {place} holds {what}")]
    Unusable {
        /// The credential's name; for a literal, the word `api_key`.
        name: String,
        /// Where the value was found.
        place: Place,
        /// What is wrong with it, without quoting it.
        what: &'static str,
    },
    /// A controller has handed the session no value, or has taken it back.
    #[error("credential `{name}` has not been injected")]
    NotInjected {
        /// The credential's name.
        name: String,
        /// How many values the controller gave before: it tells one time without a value from another.
        period: u64,
    },
    /// The place where the credential is looked up cannot be read; the fault says which and why.
    #[error("credential `{name}` cannot be read: {fault}")]
    Unread {
        /// The credential's name.
        name: String,
        /// What is wrong with the place.
        fault: Box<Error>,
    },
    /// Text that holds `${` and is not exactly `${NAME}`. Not quoted: it could hold a secret.
    #[error("a credential reference must be exactly `${{NAME}}`, a name of letters, digits and `_`")]
    Reference,
    /// Others could read or change the config file.
    #[error("`{}` has mode {mode:04o}: others can read or change it", path.display())]
    Exposed {
        /// The config file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The config file belongs to someone who is neither this user nor root.
    #[error("`{}` belongs to another user (uid {owner})", path.display())]
    Owner {
        /// The config file.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
    /// The config file is a symbolic link, a directory or a device.
    #[error("`{}` is not a regular file", path.display())]
    NotAFile {
        /// The config file.
        path: PathBuf,
    },
    /// The config file cannot be opened or read.
    #[error("cannot read `{}`: {source}", path.display())]
    Unreadable {
        /// The config file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The config file is not what it must be.
    #[error("`{}`{}: {problem}", path.display(), at(*.line, *.column))]
    Syntax {
        /// The config file.
        path: PathBuf,
        /// Line from 1; 0 when unknown.
        line: u64,
        /// Column from 1; 0 when unknown.
        column: u64,
        /// What is wrong, in words that quote nothing.
        problem: &'static str,
    },
}

/// Where a value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The config file at this path.
    Config(PathBuf),
    /// The environment variable of the credential's name.
    Environment,
    /// Written out in the manifest.
    Manifest,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(path) => write!(f, "`{}`", path.display()),
            Self::Environment => f.write_str("the environment"),
            Self::Manifest => f.write_str("the manifest"),
        }
    }
}

impl Error {
    /// A literal without a character.
    pub(crate) fn empty_literal() -> Self {
        Self::Unusable { name: "api_key".to_owned(), place: Place::Manifest, what: "no character" }
    }

    /// The same fault, in words that name the credential.
    pub(crate) fn naming(self, name: &str) -> Self {
        match self {
            Self::Unresolved { .. } | Self::Unusable { .. } | Self::NotInjected { .. } | Self::Unread { .. } => self,
            Self::Reference
            | Self::Exposed { .. }
            | Self::Owner { .. }
            | Self::NotAFile { .. }
            | Self::Unreadable { .. }
            | Self::Syntax { .. } => Self::Unread { name: name.to_owned(), fault: Box::new(self) },
        }
    }

    /// The stable diagnostic code: every variant means that a credential does not resolve.
    pub fn code(&self) -> &'static str {
        "E-RUN-004"
    }

    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unresolved { name, path } => {
                format!("export {name}, or add it under `credentials:` in `{}` (mode 0600)", path.display())
            }
            Self::NotInjected { name, .. } => format!("hand it over with `mur control secret {name}`"),
            Self::Unread { fault, .. } => fault.hint(),
            Self::Unusable { .. } => "give the value as one line of text without control characters".to_owned(),
            Self::Reference => "write `api_key: ${NAME}`, with nothing before or after it".to_owned(),
            Self::Exposed { path, .. } => format!("run: chmod 600 '{}'", path.display()),
            Self::Owner { path, .. } => {
                format!("own the file, or remove it: '{}'", path.display())
            }
            Self::NotAFile { path } => {
                format!("replace `{}` by a regular file with mode 0600", path.display())
            }
            Self::Unreadable { .. } => "check that the file can be read by this user".to_owned(),
            Self::Syntax { .. } => {
                "the file holds `credentials:` with one `NAME: \"value\"` a line; quote each value".to_owned()
            }
        }
    }
}

fn at(line: u64, column: u64) -> String {
    if line == 0 { String::new() } else { format!(" line {line}, column {column}") }
}
