//! Why a session got no address. What goes wrong with one request is a [`Refusal`](crate::refusal::Refusal)
//! or a [`Fault`](crate::fault::Fault) and never leaves the crate but as an answer.

use std::io;
use std::net::SocketAddr;

/// Why the door did not open.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`: {source}")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system gave no random bytes for the session's key.
    #[error("the system gave no random bytes for the session's key")]
    Randomness,
    /// The door's own thread or its reactor did not start.
    #[error("the door's thread did not start: {0}")]
    Thread(#[source] io::Error),
}

impl DoorError {
    /// The diagnostic code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Bind { .. } => "E-RUN-050",
            Self::Randomness => "E-RUN-051",
            Self::Thread(_) => "E-RUN-052",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Bind { source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => "choose another port, or leave the port out to get a free one",
                io::ErrorKind::AddrNotAvailable => "the address must be one of this machine, such as 127.0.0.1",
                io::ErrorKind::PermissionDenied => "ports below 1024 are for the superuser: choose a higher one",
                _ => "choose another address with `--bind` or another port with `--port`",
            },
            Self::Randomness => "check that the getrandom system call is available here",
            Self::Thread(_) => "check the limits on threads and open files (`ulimit -a`)",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::DoorError;

    #[test]
    fn a_taken_port_is_told_with_what_to_do() {
        let source = io::Error::from(io::ErrorKind::AddrInUse);
        let error = DoorError::Bind { address: ([127, 0, 0, 1], 80).into(), source };
        assert_eq!(
            (error.code(), error.to_string().as_str(), error.hint()),
            (
                "E-RUN-050",
                "cannot listen on `127.0.0.1:80`: address in use",
                "choose another port, or leave the port out to get a free one"
            )
        );
    }
}
