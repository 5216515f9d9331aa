//! Why there is no connection, no catalog or no result.
//!
//! A caller needs to know one thing above all: may the call have run? [`Error::may_have_run`] says it, and
//! nothing that may have run is ever sent again. What a server wrote stands in `said`, made one harmless
//! line; it is still the server's word and no instruction.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a process that cannot be started says for itself.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// What was being done when a server failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Starting it and shaking hands.
    Open,
    /// Listing its tools.
    List,
    /// Calling a tool.
    Call,
}

impl Step {
    fn words(self) -> &'static str {
        match self {
            Self::Open => "the handshake",
            Self::List => "the list of tools",
            Self::Call => "the call",
        }
    }
}

/// Why a server could not be used. No message holds a credential.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address or a header cannot be used.
    #[error("the connection's {what} {reason}")]
    Config {
        /// The setting.
        what: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file of further roots cannot be used.
    #[error("the certificates in `{}` cannot be used: {reason}", path.display())]
    Roots {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {reason}")]
    Client {
        /// Why.
        reason: String,
    },
    /// The bearer token cannot be had.
    #[error("{0}")]
    Credential(#[source] Arc<secrets::Error>),
    /// The server's process does not start.
    #[error("the server's process does not start: {0}")]
    Start(#[source] StartError),
    /// No connection to the address.
    #[error("the server cannot be reached: {reason}")]
    Unreachable {
        /// The client's reason, without the address.
        reason: String,
    },
    /// The server wants another credential.
    #[error("the server refuses the credential (HTTP {status})")]
    Unauthorized {
        /// 401 or 403.
        status: u16,
    },
    /// An answer that is not MCP's.
    #[error("the server answers HTTP {status} to {}", step.words())]
    Http {
        /// The status.
        status: u16,
        /// To what.
        step: Step,
    },
    /// The HTTP session is over; nothing of the request ran.
    #[error("the server has ended the session")]
    SessionExpired,
    /// The right to the call was gone when it was about to be sent.
    #[error("the call was not sent: {0}")]
    Withdrawn(#[source] StartError),
    /// The process or the stream ended.
    #[error("the server ended during {}{}", step.words(), if *sent && *step == Step::Call { ", which may have run" } else { "" })]
    Ended {
        /// During what.
        step: Step,
        /// Whether the server may have got the request.
        sent: bool,
    },
    /// No answer in time.
    #[error("the server did not finish {} within {} s{}", step.words(), after.as_secs_f32(), babble(*unreadable))]
    TimedOut {
        /// What.
        step: Step,
        /// The limit.
        after: Duration,
        /// How many lines it has written, since it was started, that are no messages.
        unreadable: u64,
    },
    /// No protocol version in common.
    #[error("the server speaks no version of MCP that is known here: `{offered}`")]
    Version {
        /// What it offers, one line.
        offered: String,
    },
    /// The server answered with an error of the protocol.
    #[error("the server refused {} ({code}): {said}", step.words())]
    Refused {
        /// What.
        step: Step,
        /// The JSON-RPC code.
        code: i32,
        /// The server's words, one line.
        said: String,
    },
    /// The answer is none.
    #[error("the server's answer to {} is malformed: {what}", step.words())]
    Malformed {
        /// To what.
        step: Step,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The server wants something in return that is not offered here.
    #[error("the server asks for {what} before it answers, which is not supported")]
    Unsupported {
        /// What it asks for.
        what: &'static str,
    },
    /// More than is taken.
    #[error("{what} is larger than the {limit} that are taken")]
    TooLarge {
        /// During what.
        step: Step,
        /// What is too large.
        what: &'static str,
        /// The limit, in the unit of `what`.
        limit: u64,
    },
    /// The server asks without waiting for answers.
    #[error("the server sends requests faster than it takes the answers, during {}", step.words())]
    Flood {
        /// During what.
        step: Step,
    },
    /// The pages of the list go on in a circle.
    #[error("the server's list of tools repeats a page")]
    PageLoop,
    /// No tool of that name.
    #[error("the server has no tool `{tool}`")]
    ToolNotFound {
        /// The name that was asked for.
        tool: String,
    },
    /// A tool that failed admission.
    #[error("the tool `{tool}` cannot be used: {reason}")]
    ToolUnusable {
        /// Its name.
        tool: String,
        /// Why.
        reason: String,
    },
    /// The definition is another one than expected.
    #[error("the definition of the tool `{tool}` has changed")]
    ToolChanged {
        /// Its name.
        tool: String,
    },
    /// The arguments do not fit the tool's schema.
    #[error("the arguments of `{tool}` do not fit its schema: {}", faults.join("; "))]
    Arguments {
        /// Its name.
        tool: String,
        /// What does not fit, a line each.
        faults: Vec<String>,
    },
    /// The caller gave up.
    #[error("{} was cancelled", step.words())]
    Cancelled {
        /// What.
        step: Step,
    },
}

/// What is told of lines that are no messages.
fn babble(lines: u64) -> String {
    match lines {
        0 => String::new(),
        1 => "; it has written 1 line that is no message".to_owned(),
        lines => format!("; it has written {lines} lines that are no messages"),
    }
}

impl Error {
    /// The stable diagnostic code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config { .. } | Self::Roots { .. } | Self::Client { .. } => "E-MCP-001",
            Self::Start(_) | Self::Unreachable { .. } => "E-MCP-002",
            Self::Credential(error) => error.code(),
            Self::Unauthorized { .. } => "E-MCP-003",
            Self::Ended { .. } | Self::SessionExpired => "E-MCP-004",
            Self::TimedOut { .. } | Self::Cancelled { .. } => "E-MCP-005",
            Self::Http { .. }
            | Self::Version { .. }
            | Self::Malformed { .. }
            | Self::Unsupported { .. }
            | Self::Refused { .. }
            | Self::Flood { .. }
            | Self::PageLoop => "E-MCP-006",
            Self::TooLarge { .. } => "E-MCP-007",
            Self::ToolNotFound { .. } | Self::ToolUnusable { .. } | Self::ToolChanged { .. } | Self::Withdrawn(_) => {
                "E-MCP-008"
            }
            Self::Arguments { .. } => "E-MCP-009",
        }
    }

    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::Config { .. } => "for example `https://mcp.example.com/mcp`; a credential goes into the bearer token",
            Self::Roots { .. } => "the file holds PEM certificates of authorities to trust",
            Self::Client { .. } => "report this: the client is set up from settings that were checked before",
            Self::Credential(error) => return error.hint(),
            Self::Start(_) => "does the command exist, and may it run inside the sandbox?",
            Self::Unreachable { .. } => "is the server running, and are host and port right?",
            Self::Unauthorized { .. } => {
                "set the connection's bearer token again, with the rights that the server asks for"
            }
            Self::Http { .. } => "is the path the server's MCP endpoint, often `/mcp`?",
            Self::SessionExpired => "call again: a new session is opened",
            Self::Ended { .. } => "see what the server wrote to its log before it ended",
            Self::TimedOut { unreadable: 0, .. } => "is the server waiting for something, or overloaded? see its log",
            Self::TimedOut { .. } => "a server on stdio writes messages to stdout, one a line, and all else to stderr",
            Self::Version { .. } => "update the server",
            Self::Refused { .. } => "see the server's own documentation for this error",
            Self::Malformed { .. } | Self::Flood { .. } | Self::PageLoop => "report this to the server's author",
            Self::Unsupported { .. } => "use a tool of the server that needs no further input",
            Self::TooLarge { .. } => "ask the tool for less at once",
            Self::ToolNotFound { .. } => "list the connection's tools; names are case-sensitive",
            Self::ToolUnusable { .. } => "the server has to name and describe the tool properly",
            Self::ToolChanged { .. } => {
                "look at the new definition (`mur mcp discover`), then grant the tool again (`mur mcp grant`)"
            }
            Self::Withdrawn(_) => "connection and grant are read once more right before a call is sent",
            Self::Arguments { .. } => "correct the arguments",
            Self::Cancelled { .. } => "nothing to do: it was asked for",
        };
        hint.to_owned()
    }

    /// Whether the call may have reached the server and had an effect.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Ended { step, sent } => *step == Step::Call && *sent,
            Self::TimedOut { step, .. }
            | Self::Cancelled { step }
            | Self::Malformed { step, .. }
            | Self::Refused { step, .. }
            | Self::Http { step, .. }
            | Self::TooLarge { step, .. }
            | Self::Flood { step } => *step == Step::Call,
            Self::Unsupported { .. } => true,
            _ => false,
        }
    }

    /// Whether a new process or session may do better, and nothing has run yet.
    pub(crate) fn is_worth_a_restart(&self) -> bool {
        match self {
            Self::Ended { step, sent } => *step != Step::Call || !sent,
            Self::SessionExpired => true,
            _ => false,
        }
    }
}
