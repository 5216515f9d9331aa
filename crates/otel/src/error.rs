//! Why spans cannot be exported, or were not.

use std::time::Duration;

use drivers::{BuildError, ClientError};

/// Why the export cannot begin, or why spans did not arrive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The endpoint is not a usable URL.
    #[error("the endpoint `{endpoint}` {reason}")]
    Endpoint {
        /// The endpoint as given, without user and password.
        endpoint: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The exporter's thread cannot be started.
    #[error("the export cannot be started: {0}")]
    Thread(std::io::Error),
    /// The program's own name cannot stand in a header.
    #[error(transparent)]
    Setup(#[from] BuildError),
    /// There is no HTTP client.
    #[error("`{receiver}` cannot be called: {error}")]
    Client {
        /// Host and port.
        receiver: String,
        /// Why.
        error: ClientError,
    },
    /// The receiver cannot be reached, or closed the connection.
    #[error("`{receiver}` cannot be reached: {cause}")]
    Unreachable {
        /// Host and port.
        receiver: String,
        /// The innermost cause.
        cause: String,
    },
    /// The receiver gave no answer.
    #[error("`{receiver}` gave no answer within {} s", after.as_secs())]
    Late {
        /// Host and port.
        receiver: String,
        /// How long it had.
        after: Duration,
    },
    /// The receiver did not take the spans.
    #[error("`{receiver}` answered {status}")]
    Status {
        /// Host and port.
        receiver: String,
        /// The HTTP status.
        status: u16,
    },
    /// The receiver took a part of the spans only.
    #[error("`{receiver}` rejected {spans} of the spans: {message}")]
    Rejected {
        /// Host and port.
        receiver: String,
        /// How many.
        spans: u64,
        /// The receiver's words, redacted and cut.
        message: String,
    },
    /// The receiver had not taken everything when the session's end could wait no longer.
    #[error("`{receiver}` had not taken all spans {} s after the session's end", after.as_secs())]
    Unfinished {
        /// Host and port.
        receiver: String,
        /// How long it had.
        after: Duration,
    },
    /// Spans came faster than the receiver took them.
    #[error("`{receiver}` took spans slower than they came")]
    Behind {
        /// Host and port.
        receiver: String,
    },
    /// The exporter's thread ended before its time.
    #[error("the export broke off")]
    BrokeOff,
}

impl Error {
    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Endpoint { .. } => "write `observability.otlp_endpoint` as in `http://127.0.0.1:4318`",
            Self::Thread(_) => "look at the limits on threads and memory of this host",
            Self::Setup(_) | Self::BrokeOff => "this is a fault of `mur`; please report it",
            Self::Client { .. } => "look at the file that `SSL_CERT_FILE` names",
            Self::Unreachable { .. } | Self::Late { .. } => {
                "check that a receiver of OTLP over HTTP listens at `observability.otlp_endpoint`; its usual port is 4318"
            }
            Self::Status { .. } => {
                "check that `observability.otlp_endpoint` is the base URL of a receiver of OTLP over HTTP with protobuf"
            }
            Self::Rejected { .. } => "look at the receiver's own limits",
            Self::Unfinished { .. } | Self::Behind { .. } => "look at the receiver's load",
        }
    }
}
