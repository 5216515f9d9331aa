//! The HTTP client as the protocol engine uses it: the official one, with this crate's own limits around it.
//!
//! Around each request: the token of the moment, asked again once after a 401, whose request did not run.
//! Around each stream: its reconnections keep a distance, whatever the server says, and an event is measured
//! before it is parsed, as a line on stdio is.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use secrets::{Keyring, Secret};
use sse_stream::Sse;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::sieve::Parts;
use crate::signals::{Fault, Signals};

/// The least time between two openings of a stream.
const DISTANCE: Duration = Duration::from_millis(100);

/// The longest that a server may keep its client from reconnecting.
const MAX_RETRY: u64 = 10_000;

/// What the engine reports a failed request as.
pub(crate) type WireError = StreamableHttpError<reqwest::Error>;

type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// The client of one connection.
#[derive(Clone)]
pub(crate) struct Wire {
    client: reqwest::Client,
    token: Option<Keyring>,
    /// When the last stream was opened.
    opened: Arc<Mutex<Option<Instant>>>,
    signals: Arc<Signals>,
}

impl Wire {
    pub(crate) fn new(client: reqwest::Client, token: Option<Keyring>, signals: Arc<Signals>) -> Self {
        Self { client, token, opened: Arc::default(), signals }
    }

    /// Runs a request with the token of the moment, and once more with another one when that was refused.
    async fn with_token<T, F>(&self, request: impl Fn(Option<String>) -> F) -> Result<T, WireError>
    where
        F: Future<Output = Result<T, WireError>>,
    {
        let Some(token) = &self.token else { return request(None).await };
        // The engine has no error for this; it is found again by its type.
        let key = token.key().map_err(|error| StreamableHttpError::Io(io::Error::other(Arc::new(error))))?;
        let answer = request(key.as_ref().map(exposed)).await;
        if !is_refused(&answer) {
            if answer.is_ok() {
                token.accepted();
            }
            return answer;
        }
        let Some(other) = token.other_key(key.as_ref()) else {
            token.rejected();
            return answer;
        };
        let answer = request(Some(exposed(&other))).await;
        if is_refused(&answer) {
            token.rejected();
        } else if answer.is_ok() {
            token.accepted();
        }
        answer
    }

    fn tame(&self, events: Events) -> Events {
        Box::pin(Tame { inner: events, signals: Arc::clone(&self.signals) })
    }
}

/// The engine's client wants an owned text, and puts it into a header at once.
fn exposed(key: &Secret) -> String {
    key.expose().to_owned()
}

fn is_refused<T>(answer: &Result<T, WireError>) -> bool {
    answer.as_ref().err().and_then(status) == Some(401)
}

/// The HTTP status that an error stands for.
pub(crate) fn status(error: &WireError) -> Option<u16> {
    match error {
        StreamableHttpError::AuthRequired(_) => Some(401),
        StreamableHttpError::InsufficientScope(_) => Some(403),
        StreamableHttpError::HttpStatus(status) => Some(status.status),
        StreamableHttpError::Client(error) => error.status().map(|status| status.as_u16()),
        StreamableHttpError::ServerDoesNotSupportSse => Some(405),
        // The engine keeps other statuses in its text alone: `HTTP 404 Not Found: <body>`.
        StreamableHttpError::UnexpectedServerResponse(text) => {
            text.strip_prefix("HTTP ")?.split(' ').next()?.parse().ok().filter(|status| (100..600).contains(status))
        }
        _ => None,
    }
}

impl StreamableHttpClient for Wire {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, WireError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, WireError> {
        let answer = self
            .with_token(|token| {
                let (uri, message, session) = (Arc::clone(&uri), message.clone(), session_id.clone());
                let headers = custom_headers.clone();
                self.client.post_message_with_response_limits(uri, message, session, token, headers, limits)
            })
            .await?;
        Ok(match answer {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(self.tame(events), session)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), WireError> {
        self.with_token(|token| {
            self.client.delete_session(Arc::clone(&uri), Arc::clone(&session_id), token, custom_headers.clone())
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, WireError> {
        let limit = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, custom_headers, limit)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<Events, WireError> {
        let mut opened = self.opened.lock().await;
        if let Some(last) = *opened {
            tokio::time::sleep_until(last + DISTANCE).await;
        }
        *opened = Some(Instant::now());
        drop(opened);
        let events = self
            .with_token(|token| {
                let (uri, session, last) = (Arc::clone(&uri), session_id.clone(), last_event_id.clone());
                let headers = custom_headers.clone();
                self.client.get_stream_with_max_sse_event_size(uri, session, last, token, headers, max_sse_event_size)
            })
            .await?;
        Ok(self.tame(events))
    }
}

/// A stream of events, each measured and none that keeps its reader away for long.
struct Tame {
    inner: Events,
    signals: Arc<Signals>,
}

impl Stream for Tame {
    type Item = Result<Sse, SseError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(event) = ready!(self.inner.as_mut().poll_next(cx)) else { return Poll::Ready(None) };
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                // The engine's own measure, which it does not name to others.
                if error.to_string().contains("exceeded the maximum size") {
                    self.signals.raise(Fault::MessageTooLarge);
                }
                return Poll::Ready(Some(Err(error)));
            }
        };
        let mut parts = Parts::default();
        if event.data.as_ref().is_some_and(|data| !data.bytes().all(|byte| parts.take(byte))) {
            self.signals.raise(Fault::MessageTooLarge);
            return Poll::Ready(Some(Ok(Sse { data: None, ..event })));
        }
        let retry = event.retry.map(|retry| retry.min(MAX_RETRY));
        Poll::Ready(Some(Ok(Sse { retry, ..event })))
    }
}
