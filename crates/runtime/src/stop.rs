//! Telling a running task to stop, and why.

use tokio::sync::watch;

use crate::session::StopCause;

/// The end that says stop.
#[derive(Debug, Clone)]
pub(crate) struct Stopper(watch::Sender<Option<StopCause>>);

/// The end that a task listens on.
#[derive(Debug, Clone)]
pub(crate) struct StopSignal(watch::Receiver<Option<StopCause>>);

/// A connected pair.
#[must_use]
pub(crate) fn stop_pair() -> (Stopper, StopSignal) {
    let (sender, receiver) = watch::channel(None);
    (Stopper(sender), StopSignal(receiver))
}

impl Stopper {
    /// Says stop, and gives whether this was the first to say it: the first cause stands.
    pub(crate) fn stop(&self, cause: StopCause) -> bool {
        self.0.send_if_modified(|said| {
            let first = said.is_none();
            said.get_or_insert(cause);
            first
        })
    }
}

impl StopSignal {
    /// The cause, if stop was said already.
    #[must_use]
    pub(crate) fn now(&self) -> Option<StopCause> {
        *self.0.borrow()
    }

    /// Waits until stop is said; for ever, when nobody is left who could.
    pub(crate) async fn stopped(&mut self) -> StopCause {
        match self.0.wait_for(Option::is_some).await.map(|said| *said) {
            Ok(Some(cause)) => cause,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
