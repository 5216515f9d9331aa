//! The body of an answer: all of it at once, or the pieces of a stream as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;

use crate::control::Watch;
use crate::feed::Feed;

/// A stream and its next piece, once there is one; nothing when the stream is over.
type Next = Pin<Box<dyn Future<Output = Option<(Source, Bytes)>> + Send>>;

/// Where the pieces of a stream come from.
pub(crate) enum Source {
    /// What happens in the session.
    Frames(Box<Feed>),
    /// What is changed of it.
    Control(Watch),
}

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

    fn stream(source: Source) -> Self {
        Self::Stream(Some(Box::pin(piece(source))))
    }
}

async fn piece(mut source: Source) -> Option<(Source, Bytes)> {
    let piece = match &mut source {
        Source::Frames(feed) => feed.next().await?,
        Source::Control(watch) => watch.next().await?,
    };
    Some((source, piece))
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(next) => {
                let Some(waiting) = next else { return Poll::Ready(None) };
                let Some((source, bytes)) = ready!(waiting.as_mut().poll(cx)) else {
                    *next = None;
                    return Poll::Ready(None);
                };
                *next = Some(Box::pin(piece(source)));
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
pub(crate) fn events(source: Source) -> Response<Payload> {
    let mut response = Response::new(Payload::stream(source));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
