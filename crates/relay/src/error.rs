//! Why there is no gateway. What a gateway refuses while it runs is an HTTP answer, not an error here.

use std::io;

use drivers::BuildError;

/// Why an upstream or a gateway cannot be made. No message holds a key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is no plain `http(s)://host[:port][/path]`.
    #[error("the endpoint {reason}")]
    Endpoint {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The header cannot carry a credential.
    #[error("`upstream_auth.header` {reason}")]
    AuthHeader {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The template does not say how the credential is written.
    #[error("`upstream_auth.value` {reason}")]
    AuthValue {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The client for the service cannot be set up.
    #[error(transparent)]
    Client(#[from] BuildError),
    /// The system gives no address on this host.
    #[error("cannot listen on this host: {0}")]
    Listen(#[source] io::Error),
    /// The system gives no randomness.
    #[error("the system gives no random bytes")]
    Randomness,
}

impl Error {
    /// The stable diagnostic code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Endpoint { .. } | Self::AuthHeader { .. } | Self::AuthValue { .. } => "E-MAN-003",
            Self::Client(error) => error.code(),
            Self::Listen(_) | Self::Randomness => "E-RUN-003",
        }
    }

    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Endpoint { .. } => "for example `https://api.example.com/v1`; a credential goes into `api_key`",
            Self::AuthHeader { .. } => "name the service's own header, for example `Authorization` or `X-Api-Key`",
            Self::AuthValue { .. } => "write `{key}` once, for example `Bearer {key}`",
            Self::Client(error) => error.hint(),
            Self::Listen(_) => "are there free ports on the loopback address, and free file descriptors?",
            Self::Randomness => "check that `/dev/urandom` or `getrandom` works",
        }
    }
}
