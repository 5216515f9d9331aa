//! Why a connection's server could not be set up, before anything of the protocol.

use policy::Denial;

use crate::proc::ProcessError;

/// Why a connection cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The command is neither absolute nor to be found.
    #[error("the connection's command `{command}` is neither the absolute path of a program nor one in `PATH`")]
    Command {
        /// The command.
        command: String,
    },
    /// The agent could replace the program.
    #[error(
        "the connection's `{command}` lies where the agent can write, so the server is not started with the connection's secrets"
    )]
    Own {
        /// The command.
        command: String,
    },
    /// Code would be loaded from where the agent can write.
    #[error(
        "the connection's variable `{name}` leads to where the agent can write, so the server is not started with the connection's secrets"
    )]
    OwnVariable {
        /// Its name.
        name: String,
    },
    /// A sealed value could not be had.
    #[error("the connection's `{name}` cannot be opened: {source}")]
    Sealed {
        /// `env.<NAME>` or `bearer`.
        name: String,
        /// Why.
        source: Unopened,
    },
    /// A mod that the session does not have.
    #[error("the session has no mod `{id}`")]
    Mod {
        /// Its id.
        id: String,
    },
    /// The process did not start.
    #[error("{0}")]
    Process(String),
}

impl ConnectError {
    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Command { .. } => "install the program, or give its absolute path",
            Self::Own { .. } => {
                "install the program, and what it loads, outside of the working directory and of what the agent may write; \
                 directories with data may be named"
            }
            Self::OwnVariable { .. } => "let it name directories that the agent cannot write",
            Self::Sealed { .. } => "set the value again",
            Self::Mod { .. } => "it is declared by an artifact with `runtime: mod`",
            Self::Process(_) => "may it run inside the session's containment?",
        }
    }
}

/// A sealed value that could not be opened. The words are for the operator and the agent: they hold no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unopened {
    why: String,
}

impl Unopened {
    /// With what is wrong, in one line.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

/// What is not done because a review said no to it, on its way through the protocol's errors.
#[derive(Debug, thiserror::Error)]
#[error("it is not allowed any more")]
pub(super) struct Forbidden(pub(super) Denial);

impl Forbidden {
    /// The denial that travelled so.
    pub(super) fn out_of(source: ::mcp::StartError) -> Result<Denial, ::mcp::StartError> {
        source.downcast::<Self>().map(|forbidden| forbidden.0)
    }
}

/// Why no server answered.
#[derive(Debug)]
pub(super) enum Unserved {
    /// A review said no.
    Denied(Denial),
    /// It could not be set up; nothing ran.
    Connect(ConnectError),
    /// The server, or the way to it, failed.
    Server(::mcp::Error),
}

impl From<Denial> for Unserved {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl From<ConnectError> for Unserved {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<ProcessError> for ConnectError {
    fn from(error: ProcessError) -> Self {
        Self::Process(error.to_string())
    }
}

impl From<::mcp::Error> for Unserved {
    fn from(error: ::mcp::Error) -> Self {
        match error {
            ::mcp::Error::Start(source) => match Forbidden::out_of(source) {
                Ok(denial) => Self::Denied(denial),
                Err(source) => Self::Server(::mcp::Error::Start(source)),
            },
            ::mcp::Error::Withdrawn(source) => match Forbidden::out_of(source) {
                Ok(denial) => Self::Denied(denial),
                Err(source) => Self::Server(::mcp::Error::Withdrawn(source)),
            },
            other => Self::Server(other),
        }
    }
}

impl std::fmt::Display for Unserved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Denied(denial) => {
                let reasons: Vec<&str> = denial.blockers().iter().map(|blocker| blocker.reason.as_ref()).collect();
                write!(f, "it is not started: {}", reasons.join("; "))
            }
            Self::Connect(error) => error.fmt(f),
            Self::Server(error) => error.fmt(f),
        }
    }
}
