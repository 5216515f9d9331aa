//! The body of an answer on its way to the tool: piece by piece as it comes, without the key.

use std::borrow::Cow;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use secrets::StreamRedactor;
use tokio::time::{Instant, Sleep, sleep};

use crate::upload::Feed;

/// What a tool is answered.
pub(crate) enum Answer {
    /// The gateway's own words.
    Own(Option<Bytes>),
    /// The service's.
    Passed(Box<Download>),
}

impl Answer {
    pub(crate) fn own(body: Bytes) -> Self {
        Self::Own(Some(body))
    }
}

/// Why an answer ends before its end. The tool sees its connection break.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cut {
    /// The service broke it off.
    #[error("the service broke the answer off")]
    Broken,
    /// It sent nothing more.
    #[error("the service sent nothing more of the answer")]
    Slow,
}

/// A service's answer.
pub(crate) struct Download {
    body: reqwest::Body,
    /// Searches it for the key; a keyless service has none.
    search: Option<StreamRedactor>,
    /// The request's body, which may still be on its way.
    feed: Feed,
    idle: Duration,
    timer: Pin<Box<Sleep>>,
    /// Whether the timer runs.
    waiting: bool,
    done: bool,
}

impl Download {
    pub(crate) fn new(body: reqwest::Body, search: Option<StreamRedactor>, feed: Feed, idle: Duration) -> Self {
        Self { body, search, feed, idle, timer: Box::pin(sleep(idle)), waiting: false, done: false }
    }

    /// The next piece; `None` at the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.waiting = false;
                    // Trailers end here, as a connection's other words do.
                    let Ok(data) = frame.into_data() else { continue };
                    let clean = self.search(data);
                    if !clean.is_empty() {
                        return Poll::Ready(Some(Ok(clean)));
                    }
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(Cut::Broken))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    ready!(self.poll_idle(cx));
                    return Poll::Ready(Some(Err(Cut::Slow)));
                }
            }
        }
    }

    /// Is ready when neither direction has moved for too long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.idle);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let deadline = self.feed.moved() + self.idle;
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline);
        }
    }

    fn search(&mut self, data: Bytes) -> Bytes {
        let Some(search) = &mut self.search else { return data };
        let passed = match search.push_bytes(&data) {
            // Nothing was replaced; a beginning of it passes.
            Cow::Borrowed(passed) => passed.len(),
            Cow::Owned(clean) => return Bytes::from(clean),
        };
        data.slice(..passed)
    }

    /// What the search still holds back at the end.
    fn rest(&mut self) -> Bytes {
        self.search.as_mut().map(|search| Bytes::from(search.finish_bytes())).unwrap_or_default()
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let download = match self.get_mut() {
            Self::Own(body) => return Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Passed(download) => download,
        };
        if download.done {
            return Poll::Ready(None);
        }
        let piece = match ready!(download.poll_piece(cx)) {
            Some(Ok(piece)) => Some(Ok(piece)),
            Some(Err(cut)) => {
                download.done = true;
                Some(Err(cut))
            }
            None => {
                download.done = true;
                Some(download.rest()).filter(|rest| !rest.is_empty()).map(Ok)
            }
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_none(),
            Self::Passed(download) => download.done || (download.search.is_none() && download.body.is_end_stream()),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            // A key that is taken out changes the length.
            Self::Passed(download) if download.search.is_some() => SizeHint::default(),
            Self::Passed(download) => download.body.size_hint(),
        }
    }
}
