//! The body of an answer: all of it at once, or the pieces of a stream as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;

use crate::feed::Feed;

/// A stream and its next piece, once there is one; nothing when the stream is over.
type Next = Pin<Box<dyn Future<Output = Option<(Feed, Bytes)>> + Send>>;

/// The body of an answer.
pub(crate) enum Payload {
    /// Known from the start.
    Whole(Option<Bytes>),
    /// A stream.
    Stream(Option<Next>),
}

impl Payload {
    pub(crate) fn json(value: &Value) -> Self {
        Self::Whole(Some(Bytes::from(value.to_string())))
    }

    fn stream(feed: Feed) -> Self {
        Self::Stream(Some(Box::pin(piece(feed))))
    }
}

async fn piece(mut feed: Feed) -> Option<(Feed, Bytes)> {
    let piece = feed.next().await?;
    Some((feed, piece))
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(next) => {
                let Some(waiting) = next else { return Poll::Ready(None) };
                let Some((feed, bytes)) = ready!(waiting.as_mut().poll(cx)) else {
                    *next = None;
                    return Poll::Ready(None);
                };
                *next = Some(Box::pin(piece(feed)));
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Stream(next) => next.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, media_type: &'static str, value: &Value) -> Response<Payload> {
    text(status, media_type, value.to_string())
}

/// An answer that is written already.
pub(crate) fn text(status: StatusCode, media_type: &'static str, text: String) -> Response<Payload> {
    let mut response = Response::new(Payload::Whole(Some(Bytes::from(text))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// An answer that is a stream of server-sent events.
pub(crate) fn events(feed: Feed) -> Response<Payload> {
    let mut response = Response::new(Payload::stream(feed));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
