//! The body of an answer: known from the start, or the pieces of a stream as they come.
//!
//! What hands it to the connection copies each part that it is given, so it is given small ones: a client that
//! takes nothing costs no copy of an answer, or of a frame, that others read as well.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use serde::Serialize;
use tokio::time::Instant;

use crate::control::Watch;
use crate::feed::Feed;
use crate::site::Site;

/// Bytes that are given to the connection at a time.
const PART: usize = 16 << 10;

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
    Whole {
        /// What is left of it.
        bytes: Bytes,
        /// When it must have been taken.
        until: Option<Instant>,
    },
    /// A stream.
    Stream {
        /// What is left of the piece that came last.
        bytes: Bytes,
        next: Option<Next>,
    },
}

impl Payload {
    pub(crate) fn json(value: &impl Serialize) -> Self {
        // Only values are given here, and plain fields: there is nothing that could fail to serialize.
        Self::Whole { bytes: Bytes::from(serde_json::to_vec(value).unwrap_or_default()), until: None }
    }

    fn stream(source: Source) -> Self {
        Self::Stream { bytes: Bytes::new(), next: Some(Box::pin(piece(source))) }
    }
}

/// The next of its bytes, if there are any.
fn part(bytes: &mut Bytes) -> Option<Frame<Bytes>> {
    (!bytes.is_empty()).then(|| Frame::data(bytes.split_to(bytes.len().min(PART))))
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
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            // Who takes nothing at all is noticed by the socket; this is for who takes it drop by drop.
            Self::Whole { until: Some(until), .. } if *until <= Instant::now() => {
                Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())))
            }
            Self::Whole { bytes, .. } => Poll::Ready(part(bytes).map(Ok)),
            Self::Stream { bytes, next } => {
                while bytes.is_empty() {
                    let Some(waiting) = next else { return Poll::Ready(None) };
                    let Some((source, piece_of)) = ready!(waiting.as_mut().poll(cx)) else {
                        *next = None;
                        return Poll::Ready(None);
                    };
                    *bytes = piece_of;
                    *next = Some(Box::pin(piece(source)));
                }
                Poll::Ready(part(bytes).map(Ok))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole { bytes, .. } => bytes.is_empty(),
            Self::Stream { bytes, next } => bytes.is_empty() && next.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { bytes, .. } => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            Self::Stream { .. } => SizeHint::default(),
        }
    }
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, media_type: &'static str, value: &impl Serialize) -> Response<Payload> {
    of(status, media_type, Payload::json(value))
}

/// An answer that is written already.
pub(crate) fn text(status: StatusCode, media_type: &'static str, text: Bytes) -> Response<Payload> {
    of(status, media_type, Payload::Whole { bytes: text, until: None })
}

fn of(status: StatusCode, media_type: &'static str, payload: Payload) -> Response<Payload> {
    let mut response = Response::new(payload);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// An answer that may be long, and has to be taken in time.
pub(crate) fn whole(site: &Site, media_type: &'static str, bytes: Bytes) -> Response<Payload> {
    let until = Instant::now() + site.limits.stall + site.limits.time_for(bytes.len());
    let mut response = Response::new(Payload::Whole { bytes, until: Some(until) });
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

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use bytes::Bytes;
    use hyper::body::Body as _;
    use tokio::time::Instant;

    use super::{PART, Payload};

    #[test]
    fn a_long_answer_goes_out_in_parts_that_are_no_copies() {
        let whole = Bytes::from(vec![b'x'; 2 * PART + 5]);
        let soon = Instant::now() + Duration::from_secs(3600);
        let mut payload = Payload::Whole { bytes: whole.clone(), until: Some(soon) };
        let cx = &mut Context::from_waker(Waker::noop());
        let mut at = 0;
        while let Poll::Ready(Some(part)) = Pin::new(&mut payload).poll_frame(cx) {
            let part = part.unwrap().into_data().unwrap();
            assert!(part.len() <= PART);
            assert_eq!(part.as_ptr(), whole[at..].as_ptr());
            at += part.len();
        }
        assert_eq!((at, payload.is_end_stream()), (whole.len(), true));
        assert!(whole.is_unique(), "nothing is held once all of it is taken");
    }

    #[test]
    fn an_answer_that_is_not_taken_in_time_is_broken_off() {
        let mut payload = Payload::Whole { bytes: Bytes::from_static(b"late"), until: Some(Instant::now()) };
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(matches!(Pin::new(&mut payload).poll_frame(cx), Poll::Ready(Some(Err(_)))));
    }
}
