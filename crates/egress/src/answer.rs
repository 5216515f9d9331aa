//! What a client is answered: a service's body as it comes, or the proxy's own line.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::task::JoinSet;

use crate::Refusal;

/// A body.
pub(crate) enum Answer {
    /// The proxy's own words.
    Own(Option<Bytes>),
    /// A service's, and what drives the connection to it: that ends with the answer.
    Passed { body: Incoming, _driver: JoinSet<()> },
}

impl Answer {
    /// The tunnel stands.
    pub(crate) fn tunnel() -> Response<Self> {
        Response::new(Self::Own(None))
    }

    /// A refusal as one line. The connection ends with it: what is left of the request is not read.
    pub(crate) fn refusal(refusal: &Refusal) -> Response<Self> {
        let body = format!("{refusal}; {}\n", refusal.hint());
        let mut response = Response::new(Self::Own(Some(Bytes::from(body))));
        *response.status_mut() = refusal.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Own(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Passed { body, .. } => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_none(),
            Self::Passed { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Passed { body, .. } => body.size_hint(),
        }
    }
}
