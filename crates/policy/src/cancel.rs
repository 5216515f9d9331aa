//! Telling a running call to stop.
//!
//! A call is told, not dropped: a tool then ends its processes and reports what it had.

use tokio::sync::watch;

/// The end that says stop. Dropping it says stop as well.
#[derive(Debug)]
pub struct Canceler(watch::Sender<bool>);

/// The end that a running call watches.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Receiver<bool>);

/// A connected pair.
#[must_use]
pub fn cancel_pair() -> (Canceler, Cancel) {
    let (sender, receiver) = watch::channel(false);
    (Canceler(sender), Cancel(receiver))
}

impl Canceler {
    /// Says stop.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

impl Cancel {
    /// Whether stop was said.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until stop is said.
    pub async fn canceled(&mut self) {
        // An error means that the other end is gone, which says stop too.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}
