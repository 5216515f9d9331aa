//! What every request of one door shares.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use runtime::SessionHandle;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::TokenKey;
use crate::budget::Budget;
use crate::limits::Limits;
use crate::places::Places;

/// How long a crowd is left alone for each watcher in it: twice what one keeps the thread busy with when it is woken,
/// so that the rest of the machine, where the clients may be as well, is not behind all the time.
const APART: Duration = Duration::from_micros(20);
/// How long frames are held back at the most, so that several go out in one piece. Measured with a thousand watchers:
/// half of it is twice the writes and makes the slowest later, and half as much again holds back more than it spares.
const HELD: Duration = Duration::from_millis(20);

/// One door.
pub(crate) struct Site {
    pub(crate) session: SessionHandle,
    pub(crate) key: Arc<TokenKey>,
    pub(crate) authentication: bool,
    /// Name and description of each skill that the card lists.
    pub(crate) skills: Vec<(String, String)>,
    pub(crate) limits: Limits,
    /// Where it listens, with the real port.
    pub(crate) local: SocketAddr,
    /// Who may have a connection.
    pub(crate) places: Arc<Places>,
    /// What bodies take.
    pub(crate) bodies: Budget,
    /// What answers take that are still on their way.
    pub(crate) answers: Budget,
    /// Tells those who watch that there are frames to look at.
    pub(crate) beat: watch::Sender<()>,
    /// Turns true when the door closes.
    pub(crate) closing: watch::Receiver<bool>,
}

impl Site {
    /// Wakes the watchers, for ever. A frame after a pause goes out at once; while more come, a crowd of
    /// watchers is woken only as often as the thread can serve all of them, and each gets several frames in
    /// one piece: the work of a write is the same for one as for five. Nothing here waits for longer than that, and no
    /// wake-up is lost: a frame that comes while this sleeps leaves its notice behind.
    pub(crate) async fn keep_time(&self) {
        loop {
            self.session.stream().published().await;
            self.beat.send_replace(());
            let watchers = u32::try_from(self.beat.receiver_count()).unwrap_or(u32::MAX);
            let pause = APART.saturating_mul(watchers).min(HELD);
            // Shorter ones are below what a timer can tell.
            if pause >= Duration::from_millis(1) {
                sleep(pause).await;
            }
        }
    }
}

/// Somebody who waits for frames, counted as such: while nobody does, the agent wakes nobody.
pub(crate) struct Beat {
    site: Arc<Site>,
    receiver: watch::Receiver<()>,
}

impl Beat {
    pub(crate) fn of(site: &Arc<Site>) -> Self {
        site.session.stream().watcher_comes();
        Self { site: Arc::clone(site), receiver: site.beat.subscribe() }
    }

    /// To be called before each look at the frames, so that one that comes meanwhile is not slept through.
    pub(crate) fn look(&mut self) {
        self.receiver.borrow_and_update();
    }

    /// Waits until there is more to look at; false when there never will be.
    pub(crate) async fn next(&mut self) -> bool {
        self.receiver.changed().await.is_ok()
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.site.session.stream().watcher_goes();
    }
}
