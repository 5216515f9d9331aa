//! The door as its owner holds it: opened on a listening address, closed before the session's records are.
//!
//! It runs on one thread of its own with a reactor of its own, so that a thousand watchers are nothing the
//! agent has to wait for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use runtime::SessionHandle;
use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::budget::Budget;
use crate::control::Overview;
use crate::limits::Limits;
use crate::listen::Listening;
use crate::piece::Pieces;
use crate::places::Places;
use crate::serve;
use crate::site::{Beats, Site};
use crate::token::Known;
use crate::{DoorError, TokenKey};

/// How a door behaves.
pub struct Options {
    /// What the session's tokens are checked with.
    pub key: Arc<TokenKey>,
    /// Whether a token is needed (`network.authentication`).
    pub authentication: bool,
    /// Name and description of each skill, for the card; without one, the card names the capsule itself.
    pub skills: Vec<(String, String)>,
    /// What it bears; fewer connections where the process may not have as many files open.
    pub limits: Limits,
}

/// An open door. Dropping it closes it, and waits as [`close`](Self::close) does.
pub struct Door {
    address: SocketAddr,
    closing: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    /// Opens the door of a session.
    ///
    /// # Errors
    /// [`DoorError::Thread`].
    pub fn open(listening: Listening, session: SessionHandle, options: Options) -> Result<Self, DoorError> {
        let (listener, local) = listening.into_parts();
        let limits = options.limits.within(getrlimit(Resource::Nofile).current);
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DoorError::Thread)?;
        let listener = {
            let _inside = reactor.enter();
            TcpListener::from_std(listener).map_err(DoorError::Thread)?
        };
        let (closing, closed) = watch::channel(false);
        let site = Arc::new(Site {
            session,
            key: options.key,
            known: Known::default(),
            authentication: options.authentication,
            skills: options.skills,
            limits,
            local,
            places: Arc::new(Places::new(&limits)),
            overview: Overview::default(),
            bodies: Budget::new(limits.bodies, &limits),
            answers: Budget::new(limits.answers, &limits),
            pieces: Pieces::default(),
            beats: Beats::default(),
            closing: closed,
        });
        let run = move || {
            reactor.block_on(async {
                let timed = Arc::clone(&site);
                tokio::spawn(async move { timed.keep_time().await });
                serve::run(listener, site).await;
            });
        };
        let thread = thread::Builder::new().name("door".to_owned()).spawn(run).map_err(DoorError::Thread)?;
        Ok(Self { address: local, closing, thread: Some(thread) })
    }

    /// Where it listens, with its real port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets answers and streams that are under way end, up to
    /// [`Limits::close`], and returns when the thread is gone. A stream ends by itself once the session has.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.closing.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic of the door's thread has been told on stderr; the session ends all the same.
            let _ = thread.join();
        }
    }
}
