//! The two ways to a server, and the pipes of one that somebody else started.
//!
//! This crate starts no process: a [`Start`] does, inside whatever confinement its maker chose, and hands
//! over the pipes with a keeper that is dropped when the connection is over and has to end the process group.

use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use vocab::BoxFuture;

use crate::HttpConfig;
use crate::error::StartError;

/// A started server, as seen from outside of its process.
pub struct Pipes {
    /// What it reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it answers with. Its stderr is the starter's.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Dropped when the connection is over, after stdin was closed where there was time: ends the process and
    /// all that it started. It must not block.
    pub keeper: Box<dyn Send>,
}

impl fmt::Debug for Pipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pipes")
    }
}

/// Starts a server's process, anew at each call.
pub trait Start: Send + Sync {
    /// Starts it.
    ///
    /// # Errors
    /// In the starter's own words, which become part of [`Error::Start`](crate::Error::Start).
    fn start(&self) -> BoxFuture<'_, Result<Pipes, StartError>>;
}

/// The way to a server.
#[derive(Clone)]
pub enum Transport {
    /// Lines on the stdin and stdout of a process.
    Stdio(Arc<dyn Start>),
    /// Streamable HTTP.
    Http(Arc<HttpConfig>),
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(_) => f.write_str("Stdio"),
            Self::Http(config) => config.fmt(f),
        }
    }
}
