//! A configured server over the time of a session: when it is opened, kept, restarted and closed.
//!
//! `ephemeral` opens for each call and closes after it; `keep_alive` opens at the first call and closes when
//! it was idle. Nothing is opened that is not used. A server that ended before a call was sent is opened once
//! more for that call, and no process is started a third time; one that did not answer in time is killed. No call waits for a server's orderly end.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{Error, Step};
use crate::open::{Era, Restarts, open};
use crate::{Call, CallOutcome, Catalog, Connection, Limits, Transport};

/// How long a connection lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// As long as one call.
    Ephemeral,
    /// Until it was idle for this long.
    KeepAlive {
        /// The time without a call.
        idle: Duration,
    },
}

/// A configured server. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Server {
    inner: Arc<Inner>,
    transport: Transport,
}

#[derive(Debug)]
struct Inner {
    lifecycle: Lifecycle,
    limits: Limits,
    /// Whether it spoke the older protocol the last time.
    is_older: AtomicBool,
    kept: Mutex<Option<Arc<Kept>>>,
}

/// A connection that outlives a call.
#[derive(Debug)]
struct Kept {
    connection: Connection,
    users: AtomicUsize,
    last_used: Lock<Instant>,
}

/// A connection in use.
struct Lease {
    kept: Arc<Kept>,
    /// Whether it was opened for this use.
    is_fresh: bool,
}

impl Server {
    /// A server that is opened when it is first used.
    #[must_use]
    pub fn new(transport: Transport, lifecycle: Lifecycle, limits: Limits) -> Self {
        let (is_older, kept) = (AtomicBool::new(false), Mutex::new(None));
        Self { inner: Arc::new(Inner { lifecycle, limits, is_older, kept }), transport }
    }

    /// The same server, with what is kept of it, to be opened in this way where it has to be opened: for a caller who
    /// may start it on a right of its own alone.
    #[must_use]
    pub fn through(&self, transport: Transport) -> Self {
        Self { inner: Arc::clone(&self.inner), transport }
    }

    /// The server's tools as they are now.
    ///
    /// # Errors
    /// As of [`Connection::open`] and [`Connection::catalog`], and when both together take too long.
    pub async fn discover(&self) -> Result<Arc<Catalog>, Error> {
        let (limit, never) = (self.inner.limits.discovery, Cancelled::default());
        if let Ok(found) = timeout(limit, self.attempts(&never, &Listing)).await {
            return found;
        }
        if let Some(hung) = self.inner.kept.lock().await.take() {
            hung.connection.kill();
        }
        Err(Error::TimedOut { step: Step::List, after: limit, unreadable: 0 })
    }

    /// Calls a tool, and gives up when `cancel` is done.
    ///
    /// # Errors
    /// As of [`Connection::open`] and [`Connection::call`].
    pub async fn call(&self, call: &Call<'_>, cancel: impl Future<Output = ()>) -> Result<CallOutcome, Error> {
        let cancelled = Cancelled::default();
        let mut calling = pin!(self.attempts(&cancelled, call));
        tokio::select! {
            biased;
            done = &mut calling => return done,
            () = cancel => cancelled.now(),
        }
        calling.await
    }

    /// Closes what is open. The server can be used again, and is opened then.
    pub async fn close(&self) {
        let kept = self.inner.kept.lock().await.take();
        if let Some(kept) = kept {
            kept.connection.close().await;
        }
    }

    /// Whether something is kept of it that may have to be closed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner.kept.try_lock().map_or(true, |kept| kept.is_some())
    }

    /// A connection of one's own, for who looks at the server and calls nothing.
    pub(crate) async fn open(&self) -> Result<Connection, Error> {
        self.inner.open(&self.transport, &Restarts::default()).await
    }

    /// Uses a connection, and a second one where the first was over before anything was sent.
    async fn attempts<W: Work>(&self, cancelled: &Cancelled, work: &W) -> Result<W::Done, Error> {
        let restarts = Restarts::default();
        match self.attempt(cancelled, work, &restarts).await {
            Err(Failed { may_restart: true, .. }) if restarts.take() => {
                self.attempt(cancelled, work, &restarts).await.map_err(|failed| failed.error)
            }
            Err(Failed { error, .. }) => Err(error),
            Ok(done) => Ok(done),
        }
    }

    async fn attempt<W: Work>(&self, cancelled: &Cancelled, work: &W, restarts: &Restarts) -> Result<W::Done, Failed> {
        let opening = async {
            match self.inner.lifecycle {
                Lifecycle::Ephemeral => {
                    let connection = self.inner.open(&self.transport, restarts).await?;
                    Ok(Lease::of(&Kept::new(connection), true))
                }
                Lifecycle::KeepAlive { idle } => self.lease(idle, restarts).await,
            }
        };
        let lease = tokio::select! {
            biased;
            () = cancelled.wait() => Err(Error::Cancelled { step: Step::Open }),
            lease = opening => lease,
        };
        let lease = lease.map_err(|error| Failed { may_restart: error.is_worth_a_restart(), error })?;
        let done = work.run(&lease.kept.connection, cancelled).await;
        if is_hung(&done) {
            lease.kept.connection.kill();
        }
        if self.inner.lifecycle == Lifecycle::Ephemeral {
            let kept = Arc::clone(&lease.kept);
            tokio::spawn(async move { kept.connection.close().await });
        } else if self.is_spent(&done) || lease.kept.connection.is_closed() {
            self.forget(&lease.kept);
        }
        done.map_err(|error| {
            // What an old session is refused with differs between servers; before a call it is tried anew.
            let is_old = !lease.is_fresh && matches!(self.transport, Transport::Http(_));
            let refused =
                matches!(error, Error::Http { step: Step::List, .. } | Error::Refused { step: Step::List, .. });
            Failed { may_restart: error.is_worth_a_restart() || (is_old && refused), error }
        })
    }

    /// Whether a kept connection is not to be used again.
    fn is_spent<T>(&self, done: &Result<T, Error>) -> bool {
        let Err(error) = done else { return false };
        match self.transport {
            Transport::Stdio(_) => is_hung(done),
            Transport::Http(_) => !matches!(
                error,
                Error::Cancelled { .. }
                    | Error::ToolNotFound { .. }
                    | Error::ToolUnusable { .. }
                    | Error::ToolChanged { .. }
                    | Error::Arguments { .. }
                    | Error::Withdrawn(_)
            ),
        }
    }

    /// The kept connection, or a new one while others who want it wait.
    async fn lease(&self, idle: Duration, restarts: &Restarts) -> Result<Lease, Error> {
        let mut place = self.inner.kept.lock().await;
        if let Some(kept) = place.as_ref().filter(|kept| !kept.connection.is_closed()) {
            return Ok(Lease::of(kept, false));
        }
        if let Some(ended) = place.take() {
            ended.connection.kill();
        }
        let kept = Kept::new(self.inner.open(&self.transport, restarts).await?);
        let lease = Lease::of(&kept, true);
        tokio::spawn(close_when_idle(Arc::downgrade(&self.inner), Arc::downgrade(&kept), idle));
        *place = Some(kept);
        Ok(lease)
    }

    /// Ends a connection that nobody should use any more, whoever still does.
    fn forget(&self, kept: &Arc<Kept>) {
        kept.connection.kill();
        // Whoever holds the place finds an ended connection there, or has put another one.
        if let Ok(mut place) = self.inner.kept.try_lock()
            && place.as_ref().is_some_and(|other| Arc::ptr_eq(other, kept))
        {
            *place = None;
        }
    }
}

/// What is done with a connection.
trait Work: Sync {
    type Done: Send;

    fn run(
        &self,
        connection: &Connection,
        cancelled: &Cancelled,
    ) -> impl Future<Output = Result<Self::Done, Error>> + Send;
}

/// Looks at the tools.
struct Listing;

impl Work for Listing {
    type Done = Arc<Catalog>;

    async fn run(&self, connection: &Connection, _cancelled: &Cancelled) -> Result<Self::Done, Error> {
        connection.catalog().await
    }
}

impl Work for Call<'_> {
    type Done = CallOutcome;

    async fn run(&self, connection: &Connection, cancelled: &Cancelled) -> Result<Self::Done, Error> {
        connection.call(self, cancelled.wait()).await
    }
}

/// Why an attempt failed, and whether a new connection may do better.
struct Failed {
    error: Error,
    may_restart: bool,
}

/// Whether the server may be stuck, so that only its end helps.
fn is_hung<T>(done: &Result<T, Error>) -> bool {
    matches!(done, Err(Error::TimedOut { .. } | Error::TooLarge { .. } | Error::Flood { .. }))
}

impl Inner {
    async fn open(&self, transport: &Transport, restarts: &Restarts) -> Result<Connection, Error> {
        let was_older = self.is_older.load(Ordering::Relaxed);
        let opened = if was_older {
            match open(transport, &self.limits, Era::Older, restarts).await {
                // It may have been replaced by one that knows the newer manner alone.
                Err(Error::Refused { .. } | Error::Http { .. } | Error::Version { .. })
                    if restarts.take_for(transport) =>
                {
                    open(transport, &self.limits, Era::Unknown, restarts).await
                }
                other => other,
            }
        } else {
            open(transport, &self.limits, Era::Unknown, restarts).await
        };
        if let Ok(connection) = &opened {
            self.is_older.store(connection.era() == Era::Older, Ordering::Relaxed);
        }
        opened
    }
}

impl Kept {
    fn new(connection: Connection) -> Arc<Self> {
        Arc::new(Self { connection, users: AtomicUsize::new(0), last_used: Lock::new(Instant::now()) })
    }

    fn last_used(&self) -> Instant {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    fn of(kept: &Arc<Kept>, is_fresh: bool) -> Self {
        kept.users.fetch_add(1, Ordering::SeqCst);
        Self { kept: Arc::clone(kept), is_fresh }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.kept.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.kept.users.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Watches over one kept connection until it is closed, by this or by somebody else.
async fn close_when_idle(server: Weak<Inner>, watched: Weak<Kept>, idle: Duration) {
    let mut due = Instant::now() + idle;
    loop {
        sleep_until(due).await;
        let (Some(server), Some(kept)) = (server.upgrade(), watched.upgrade()) else { return };
        let mut place = server.kept.lock().await;
        if !place.as_ref().is_some_and(|other| Arc::ptr_eq(other, &kept)) {
            return;
        }
        let last_used = kept.last_used();
        if kept.users.load(Ordering::SeqCst) == 0 && last_used + idle <= Instant::now() {
            *place = None;
            drop(place);
            kept.connection.close().await;
            return;
        }
        // In use, it is looked at again a whole period later.
        due = (last_used + idle).max(Instant::now() + idle / 8);
    }
}

/// A cancellation that several attempts can wait for.
#[derive(Default)]
struct Cancelled {
    is: AtomicBool,
    told: tokio::sync::Notify,
}

impl Cancelled {
    fn now(&self) {
        self.is.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    async fn wait(&self) {
        let mut told = pin!(self.told.notified());
        told.as_mut().enable();
        if !self.is.load(Ordering::SeqCst) {
            told.await;
        }
    }
}
