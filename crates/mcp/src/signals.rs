//! What a connection's reading end tells the callers who wait: faults, changes, unanswered requests.
//!
//! The protocol engine between them knows an ended stream and a late answer, not why a stream ended; these
//! flags do, and count what has to be in step with the messages.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Why the reading end cut a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fault {
    MessageTooLarge = 1,
    Noise = 2,
    Flood = 3,
    Garbled = 4,
}

/// Shared by a connection and its transport.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    fault: AtomicU8,
    raised: Notify,
    /// How often the list of tools was said to have changed.
    changes: AtomicU64,
    /// The server's requests that were not answered yet.
    unanswered: AtomicUsize,
    /// Lines that are no messages.
    unreadable: Arc<AtomicU64>,
}

impl Signals {
    /// Signals that count lines which are no messages in here.
    pub(crate) fn counting(unreadable: &Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self { unreadable: Arc::clone(unreadable), ..Self::default() })
    }

    pub(crate) fn not_understood(&self) {
        self.unreadable.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::SeqCst)
    }

    /// The first fault stays.
    pub(crate) fn raise(&self, fault: Fault) {
        let _ = self.fault.compare_exchange(0, fault as u8, Ordering::SeqCst, Ordering::SeqCst);
        self.raised.notify_waiters();
    }

    /// Done when there is a fault.
    pub(crate) async fn raised(&self) {
        let mut raised = pin!(self.raised.notified());
        raised.as_mut().enable();
        if self.fault().is_none() {
            raised.await;
        }
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        match self.fault.load(Ordering::SeqCst) {
            1 => Some(Fault::MessageTooLarge),
            2 => Some(Fault::Noise),
            3 => Some(Fault::Flood),
            4 => Some(Fault::Garbled),
            _ => None,
        }
    }

    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// The server asks; how many of its questions are open now.
    pub(crate) fn asked(&self) -> usize {
        self.unanswered.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn answered(&self) {
        let _ = self.unanswered.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| open.checked_sub(1));
    }
}
