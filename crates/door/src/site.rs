//! What every request of one door shares.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use runtime::SessionHandle;
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use crate::TokenKey;
use crate::budget::Budget;
use crate::control::Overview;
use crate::limits::Limits;
use crate::piece::Pieces;
use crate::places::Places;
use crate::token::Known;

/// How long frames are held back at the most once everybody was served, so that several go out in one piece. Measured
/// with a thousand watchers: twice of it makes the slowest later, and half of it takes more of the machine for nothing.
const HELD: Duration = Duration::from_millis(5);
/// Shorter pauses are below what a timer can tell.
const SHORTEST: Duration = Duration::from_millis(1);

/// One door.
pub(crate) struct Site {
    pub(crate) session: SessionHandle,
    pub(crate) key: Arc<TokenKey>,
    /// The tokens that it was found to have made.
    pub(crate) known: Known,
    pub(crate) authentication: bool,
    /// Name and description of each skill that the card lists.
    pub(crate) skills: Vec<(String, String)>,
    pub(crate) limits: Limits,
    /// Where it listens, with the real port.
    pub(crate) local: SocketAddr,
    /// Who may have a connection.
    pub(crate) places: Arc<Places>,
    /// What `GET /control` answers.
    pub(crate) overview: Overview,
    /// What bodies take.
    pub(crate) bodies: Budget,
    /// What answers take that are still on their way.
    pub(crate) answers: Budget,
    /// What watchers of the whole session get next.
    pub(crate) pieces: Pieces,
    /// Tells those who watch that there are frames to look at.
    pub(crate) beats: Beats,
    /// Turns true when the door closes.
    pub(crate) closing: watch::Receiver<bool>,
}

impl Site {
    /// Wakes the watchers, for ever. A frame after a pause goes out at once; while more come, a crowd of
    /// watchers is left alone for as long as it took to serve all of them, up to a limit, and each gets several frames
    /// in one piece: the work of a write is the same for one as for five. Nothing here waits for longer than that, and
    /// no wake-up is lost: a frame that comes while this sleeps leaves its notice behind.
    pub(crate) async fn keep_time(&self) {
        loop {
            self.session.stream().published().await;
            let began = Instant::now();
            self.beats.tell();
            // All of those who were woken have their turn before this one has the next.
            yield_now().await;
            let pause = began.elapsed().min(HELD);
            if pause >= SHORTEST {
                sleep(pause).await;
            }
        }
    }
}

/// The beats of one door: those who wait are woken in the order in which they began to wait.
///
/// Whoever was served first waits first for the next beat, so a crowd keeps its order and each is as long without
/// frames as a round takes. In another order every time, as a `watch` channel wakes, it is up to two rounds.
#[derive(Default)]
pub(crate) struct Beats {
    count: AtomicU64,
    wake: Notify,
}

impl Beats {
    fn tell(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.wake.notify_waiters();
    }
}

/// Somebody who waits for frames, counted as such: while nobody does, the agent wakes nobody.
pub(crate) struct Beat {
    site: Arc<Site>,
    seen: u64,
}

impl Beat {
    pub(crate) fn of(site: &Arc<Site>) -> Self {
        site.session.stream().watcher_comes();
        Self { site: Arc::clone(site), seen: 0 }
    }

    /// To be called before each look at the frames, so that one that comes meanwhile is not slept through.
    pub(crate) fn look(&mut self) {
        self.seen = self.site.beats.count.load(Ordering::SeqCst);
    }

    /// Waits until there is more to look at.
    pub(crate) async fn next(&self) {
        // It counts from here on, whether or not it is polled.
        let told = self.site.beats.wake.notified();
        if self.site.beats.count.load(Ordering::SeqCst) == self.seen {
            told.await;
        }
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.site.session.stream().watcher_goes();
    }
}
