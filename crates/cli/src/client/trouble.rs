//! What can go wrong between a client and a session, and what to do about it.

use drivers::{BuildError, ClientError};

use crate::failure::Failure;
use crate::terminal::{one_line, printable};

/// As much of a stranger's words as a message shows, in characters.
const SHOWN: usize = 300;

/// Why a request brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Nobody answers.
    #[error("cannot reach `{url}`: {why}")]
    Unreachable { url: String, why: String },
    /// Somebody answers who has too much to do.
    #[error("`{url}` is overloaded: {message}")]
    Busy { url: String, message: String },
    /// What answers speaks another language.
    #[error("`{url}` does not answer like a session: {what}")]
    Stranger { url: String, what: String },
    /// The token is missing, or does not open this.
    #[error("`{url}` refuses the request ({status}): {message}")]
    Refused { url: String, status: u16, message: String },
    /// The session's own no.
    #[error("the session says no: {message} ({code})")]
    Rpc { code: i64, message: String },
    /// The token cannot stand in a header.
    #[error(transparent)]
    Header(#[from] BuildError),
    /// No client can be made on this host.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Trouble {
    /// Whether a later try may go better.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Busy { .. })
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } | Self::Busy { .. } | Self::Client(_) => "E-NET-001",
            Self::Stranger { .. } => "E-NET-002",
            Self::Refused { .. } | Self::Header(_) => "E-NET-003",
            Self::Rpc { .. } => "E-NET-004",
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "`mur ps` shows the running sessions and their addresses",
            Self::Busy { .. } => "try again in a moment",
            Self::Stranger { .. } => "give the address that `mur ps` or the agent card names",
            Self::Refused { .. } => {
                "a token is sent to sessions of this home alone, at the address that `mur ps` shows; for one of \
                 another home set `MURMUR_HOME`, for one of another machine name its token with `--token-file`"
            }
            Self::Rpc { code: -32001, .. } => "`mur watch --replay` and `mur trace show` name the session's tasks",
            Self::Rpc { code: -32002, .. } => "`mur trace show` tells how it ended",
            Self::Rpc { code: -32004, .. } => {
                "a task takes an answer while it is `input-required`, and `mur watch` shows which are; anything else is \
                 sent without `--task`, into the same conversation with `--context`"
            }
            Self::Rpc { .. } => "the session's words say what it takes; `mur watch` shows its tasks",
            Self::Header(_) => "the session's token file is damaged: start the session anew",
            Self::Client(_) => "check the file that `SSL_CERT_FILE` names",
        }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::unusable(printable(&trouble.to_string())).code(trouble.code()).hint(trouble.hint())
    }
}

/// Foreign words, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    one_line(text, SHOWN)
}

/// What the system said at the bottom of an error of the HTTP client.
pub(super) fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "there was no answer in time".to_owned();
    }
    if error.is_body() || error.is_decode() {
        return "the other side is gone in the middle of its answer".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
