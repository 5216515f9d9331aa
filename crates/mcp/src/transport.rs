//! The two ways to a server, and the pipes of one that somebody else started.
//!
//! This crate starts no process: a [`Start`] does, inside whatever confinement its maker chose, and hands
//! over the pipes with a keeper that is dropped when the connection is over and has to end the process group.

use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::oneshot;
use vocab::BoxFuture;

use crate::HttpConfig;
use crate::error::StartError;

/// A started server, as seen from outside of its process.
pub struct Pipes {
    /// What it reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it answers with. Its stderr is the starter's.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Dropped when the connection is over; where there was time, after stdin was closed and stdout had ended.
    /// It ends the process and all that it started, and must not block.
    pub keeper: Box<dyn Send>,
}

/// What is left of a process whose messages nobody reads any more.
pub(crate) struct Remains {
    /// Only to be dropped.
    pub(crate) _keeper: Box<dyn Send>,
    pub(crate) stdout: oneshot::Receiver<Box<dyn AsyncRead + Send + Unpin>>,
}

impl Remains {
    /// Done when the process has closed its stdout.
    pub(crate) async fn ended(&mut self) {
        let Ok(mut stdout) = (&mut self.stdout).await else { return };
        let mut last_words = [0; 1024];
        while stdout.read(&mut last_words).await.is_ok_and(|count| count > 0) {}
    }
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

/// Says whether a call may still be sent. It is asked once the server is there and right before the request goes out: a
/// server takes its time to start, and the right to a call may be gone by then.
pub trait Confirm: fmt::Debug + Send + Sync {
    /// Whether it may.
    ///
    /// # Errors
    /// Why not, which becomes [`Error::Withdrawn`](crate::Error::Withdrawn).
    fn confirm(&self) -> BoxFuture<'_, Result<(), StartError>>;
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
