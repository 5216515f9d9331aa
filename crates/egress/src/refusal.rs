//! Why a target is not reached. What a process is told of it is one line; nothing that it sent is in there
//! but a host and a port that have been read as such.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use http::StatusCode;
use manifest::Scheme;

use crate::range::Range;
use crate::target::Target;

/// A target that was not reached, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `https` for a tunnel.
    pub scheme: Scheme,
    /// The host, IPv6 in brackets; empty when the request names none.
    pub host: String,
    /// The port; 0 when the request names none.
    pub port: u16,
    /// Why.
    pub reason: Reason,
}

/// Why a target is not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The request is for the proxy itself.
    Form,
    /// The target is no plain host and port: a user name, a number instead of a name, no port.
    Target,
    /// A URL of another scheme than `http`.
    Scheme,
    /// A tunnel is asked for with a body.
    Body,
    /// A WebSocket in plain.
    Upgrade,
    /// No entry covers it.
    NotListed,
    /// It stands for an address that is not public and is not listed.
    Address {
        /// The address.
        address: IpAddr,
        /// What it is.
        range: Range,
    },
    /// It is one of the runtime's own sockets, and no entry names it with its port.
    Own {
        /// The socket's address.
        address: SocketAddr,
    },
    /// The name stands for no address.
    Unresolved,
    /// No address took the connection; what the last one did.
    Unreachable {
        /// What the system said.
        kind: io::ErrorKind,
    },
    /// The name was not looked up, or no address took the connection, in time.
    TimedOut,
    /// It was connected, and gave no answer that can be passed on. The observer knows it as a connection.
    NoAnswer,
}

impl Refusal {
    pub(crate) fn new(target: &Target, reason: Reason) -> Self {
        Self { scheme: target.scheme, host: target.host.to_string(), port: target.port, reason }
    }

    /// A request whose target cannot be told.
    pub(crate) fn nameless(scheme: Scheme, reason: Reason) -> Self {
        Self { scheme, host: String::new(), port: 0, reason }
    }

    /// The reason as one stable word.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.reason {
            Reason::Form => "form",
            Reason::Target => "target",
            Reason::Scheme => "scheme",
            Reason::Body => "body",
            Reason::Upgrade => "upgrade",
            Reason::NotListed => "not_listed",
            Reason::Address { .. } => "address_not_listed",
            Reason::Own { .. } => "own_address",
            Reason::Unresolved => "unresolved",
            Reason::Unreachable { .. } => "unreachable",
            Reason::TimedOut => "timed_out",
            Reason::NoAnswer => "no_answer",
        }
    }

    /// Whether the list forbids it; else it was not understood, or not reached.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.status() == StatusCode::FORBIDDEN
    }

    /// What can be done about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let (host, port) = (&self.host, self.port);
        match self.reason {
            Reason::Form => "ask for `CONNECT host:port` or for a whole `http://` URL".to_owned(),
            Reason::Target => {
                "write `host:port` with a name or an address in its usual form, without a user name".to_owned()
            }
            Reason::Scheme => "everything but plain http goes through `CONNECT host:port`".to_owned(),
            Reason::Body => "send neither `content-length` nor `transfer-encoding` with it".to_owned(),
            Reason::Upgrade => format!("use `CONNECT {host}:{port}`"),
            Reason::NotListed => format!("add `{host}:{port}` to `capabilities.network.allow` if it may be reached"),
            Reason::Address { address, .. } => {
                let address = SocketAddr::new(address, port);
                format!("add `{address}` to `capabilities.network.allow` as well if it may be reached")
            }
            Reason::Own { .. } => {
                format!("add `{host}:{port}`, with its port, to `capabilities.network.allow` if it may be reached")
            }
            Reason::Unresolved => "is the name right, and does this host's resolver know it?".to_owned(),
            Reason::Unreachable { .. } | Reason::TimedOut => {
                "is the service up, and can this host reach it?".to_owned()
            }
            Reason::NoAnswer => "does the service speak HTTP/1.1?".to_owned(),
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self.reason {
            Reason::Form | Reason::Target | Reason::Scheme | Reason::Body => StatusCode::BAD_REQUEST,
            Reason::Upgrade => StatusCode::NOT_IMPLEMENTED,
            Reason::NotListed | Reason::Address { .. } | Reason::Own { .. } => StatusCode::FORBIDDEN,
            Reason::Unresolved | Reason::Unreachable { .. } | Reason::NoAnswer => StatusCode::BAD_GATEWAY,
            Reason::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (&self.host, self.port);
        match self.reason {
            Reason::Form => f.write_str("this is a proxy, and the request does not say where it is to go"),
            Reason::Target => f.write_str("the request's target is not a plain host and port"),
            Reason::Scheme => f.write_str("the request's URL does not begin with `http://`"),
            Reason::Body => f.write_str("a `CONNECT` request has no body"),
            Reason::Upgrade => write!(f, "a WebSocket to `{host}:{port}` is not passed on in plain"),
            Reason::NotListed => write!(f, "`{host}:{port}` is not listed in `capabilities.network.allow`"),
            Reason::Address { address, range } => {
                write!(f, "`{host}:{port}` stands for `{address}`, {range} that is not listed itself")
            }
            Reason::Own { address } => write!(f, "`{host}:{port}` is `{address}`, which the runtime itself serves"),
            Reason::Unresolved => write!(f, "`{host}` stands for no address"),
            Reason::Unreachable { kind } => write!(f, "`{host}:{port}` cannot be reached: {kind}"),
            Reason::TimedOut => write!(f, "`{host}:{port}` was not reached in time"),
            Reason::NoAnswer => write!(f, "`{host}:{port}` gave no answer that can be passed on"),
        }
    }
}

impl std::error::Error for Refusal {}
