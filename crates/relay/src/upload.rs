//! The body of a tool's request on its way to the service, which may have to go there twice.
//!
//! What passes is kept while it is small, so that a request whose key was refused can be sent once more. The
//! service may answer before it has read the whole body; so a second sending takes what was kept and then
//! goes on with the tool's own stream, which it takes from the first. Trailers do not pass: a credential's
//! header could stand among them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Instant;

/// The longest body that is kept.
const KEPT: usize = 1 << 20;

/// The tool's stream, and what is known of it.
pub(crate) struct Feed(Arc<Mutex<State>>);

struct State {
    incoming: Incoming,
    /// What has come, while it is kept.
    kept: Option<Vec<u8>>,
    ended: bool,
    broken: bool,
    /// Which sending has the stream, from 0.
    sending: u8,
    /// Of the sending that waits for more.
    waker: Option<Waker>,
    moved: Instant,
}

/// How the tool's stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The tool broke it off.
    Broken,
    /// The service has asked for more, and nothing came.
    Awaited,
    /// All of it is on its way, or the service takes no more.
    Quiet,
}

impl Feed {
    pub(crate) fn new(incoming: Incoming) -> Self {
        let declared = incoming.size_hint().lower();
        let kept = (declared <= KEPT as u64).then(Vec::new);
        let ended = incoming.is_end_stream();
        let (waker, moved) = (None, Instant::now());
        Self(Arc::new(Mutex::new(State { incoming, kept, ended, broken: false, sending: 0, waker, moved })))
    }

    /// The body of the first sending.
    pub(crate) fn upload(&self) -> Upload {
        let left = lock(&self.0).incoming.size_hint().exact();
        Upload { state: Arc::clone(&self.0), sending: 0, replay: None, left }
    }

    /// Whether all that has come is still there.
    pub(crate) fn is_kept(&self) -> bool {
        let state = lock(&self.0);
        !state.broken && state.kept.is_some()
    }

    /// The body of the second sending, if all that has come is still there. The first one ends with this.
    pub(crate) fn again(&self) -> Option<Upload> {
        let mut state = lock(&self.0);
        if state.broken {
            return None;
        }
        let kept = state.kept.take()?;
        state.sending = 1;
        // The first one waits for the stream, which it has no more.
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        let rest = if state.ended { Some(0) } else { state.incoming.size_hint().exact() };
        let left = rest.map(|rest| rest.saturating_add(kept.len() as u64));
        let replay = Some(Bytes::from(kept)).filter(|kept| !kept.is_empty());
        Some(Upload { state: Arc::clone(&self.0), sending: 1, replay, left })
    }

    /// When the tool's stream last moved.
    pub(crate) fn moved(&self) -> Instant {
        lock(&self.0).moved
    }

    pub(crate) fn flow(&self) -> Flow {
        let state = lock(&self.0);
        match (state.broken, state.waker.is_some()) {
            (true, _) => Flow::Broken,
            (false, true) => Flow::Awaited,
            (false, false) => Flow::Quiet,
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why an upload ends before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Interrupted {
    /// The tool broke it off.
    #[error("the request broke off")]
    Broken,
    /// It is sent once more, with another key.
    #[error("the request is sent anew")]
    Anew,
}

/// One sending of the body.
pub(crate) struct Upload {
    state: Arc<Mutex<State>>,
    sending: u8,
    /// What the first sending had, before it is sent again.
    replay: Option<Bytes>,
    /// How much is still to come, where the tool said it.
    left: Option<u64>,
}

impl Upload {
    fn sent(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Interrupted;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        let this = self.get_mut();
        if let Some(kept) = this.replay.take() {
            return this.sent(kept);
        }
        let shared = Arc::clone(&this.state);
        let mut state = lock(&shared);
        let state = &mut *state;
        if state.sending != this.sending {
            return Poll::Ready(Some(Err(Interrupted::Anew)));
        }
        loop {
            if state.ended {
                return Poll::Ready(None);
            }
            let frame = match Pin::new(&mut state.incoming).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    state.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            };
            state.waker = None;
            state.moved = Instant::now();
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => {
                    state.keep(&data);
                    return this.sent(data);
                }
                // Trailers.
                Some(Ok(Err(_))) => {}
                Some(Err(_)) => {
                    state.broken = true;
                    return Poll::Ready(Some(Err(Interrupted::Broken)));
                }
                None => state.ended = true,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.replay.is_none() && (self.left == Some(0) || lock(&self.state).ended)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl State {
    fn keep(&mut self, data: &[u8]) {
        if let Some(kept) = &mut self.kept {
            if kept.len() + data.len() <= KEPT {
                kept.extend_from_slice(data);
            } else {
                self.kept = None;
            }
        }
    }
}
