//! A gate that holds an answer back until a test opens it, so that no test needs to sleep.

use std::sync::Arc;

use tokio::sync::watch;

/// A gate, closed at first. Clones are the same gate; once open it stays open.
#[derive(Debug, Clone)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self { open: Arc::new(watch::Sender::new(false)) }
    }

    /// Opens it for everybody who waits now or later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until it is open.
    pub async fn wait(&self) {
        let mut seen = self.open.subscribe();
        // The sender lives as long as `self`, so the only way out of the wait is an open gate.
        let _ = seen.wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
