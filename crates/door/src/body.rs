//! A request's body, within its limits: how long, how late, how slow, and how much of all bodies together.
//!
//! A body that stops short of its end would hold what it has for as long as a body may take in all; so it has to
//! keep a rate, and may be behind it only for a moment.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::body::{Body as _, Incoming};
use runtime::Caller;
use tokio::time::{Instant, timeout, timeout_at};
use zeroize::Zeroizing;

use http_body_util::BodyExt as _;

use crate::budget::Hold;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::site::Site;

/// A body that may not have been asked for yet.
pub(crate) struct Inbound {
    body: Option<Incoming>,
    /// Whether bytes of it may still be on their way.
    left: bool,
}

/// A body that was read, and its part of what all bodies may take.
pub(crate) struct Read {
    pub(crate) bytes: Bytes,
    _held: Option<Hold>,
}

impl Inbound {
    pub(crate) fn new(body: Incoming) -> Self {
        Self { left: !body.is_end_stream(), body: Some(body) }
    }

    /// Whether something of the body was left unread, so that the connection cannot go on.
    pub(crate) fn is_left(&self) -> bool {
        self.left
    }

    /// Whether there is none: nothing is declared, or a length of 0.
    pub(crate) fn is_none(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    /// How many bytes its head says it has.
    pub(crate) fn declared(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.size_hint().exact())
    }

    /// Reads a small body to its end, whatever it holds, into memory that is cleared. What all bodies may take
    /// does not count here: only a controller gets this far, and strangers must not lock it out.
    pub(crate) async fn read_small(&mut self, most: usize, receive: Duration) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        let Some(body) = self.body.take() else { return Ok(Zeroizing::default()) };
        let read = timeout(receive, collect_small(body, most)).await.map_err(|_| Refusal::Slow)??;
        self.left = false;
        Ok(read)
    }

    /// Reads it to its end. A second reading gives nothing.
    pub(crate) async fn read(&mut self, site: &Site, caller: Caller, headers: &HeaderMap) -> Result<Read, Refusal> {
        let Some(body) = self.body.take() else { return Ok(Read { bytes: Bytes::new(), _held: None }) };
        if self.left && !is_json(headers) {
            return Err(Refusal::MediaType);
        }
        let most = u64::try_from(site.limits.body).unwrap_or(u64::MAX);
        if body.size_hint().lower() > most {
            return Err(Refusal::TooLarge(site.limits.body));
        }
        let read = collect(&site.limits, site.bodies.hold(caller), body);
        let read = timeout(site.limits.receive, read).await.map_err(|_| Refusal::Slow)??;
        self.left = false;
        Ok(read)
    }
}

async fn collect_small(mut body: Incoming, most: usize) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    // All at once: a buffer that grows leaves copies behind.
    let declared = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let mut bytes = Zeroizing::new(Vec::with_capacity(declared.unwrap_or(most).min(most)));
    // Its end is not waited for where all that was declared is there.
    while !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        let Ok(data) = frame.map_err(|_| Refusal::Broken)?.into_data() else { continue };
        if bytes.len() + data.len() > most {
            return Err(Refusal::TooLarge(most));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

async fn collect(limits: &Limits, mut hold: Hold, mut body: Incoming) -> Result<Read, Refusal> {
    let mut bytes = BytesMut::new();
    // What comes early counts, but never for more than a moment.
    let mut due = Instant::now() + limits.patience;
    while let Some(frame) = timeout_at(due, body.frame()).await.map_err(|_| Refusal::Slow)? {
        let Ok(data) = frame.map_err(|_| Refusal::Broken)?.into_data() else { continue };
        if bytes.len() + data.len() > limits.body {
            return Err(Refusal::TooLarge(limits.body));
        }
        hold.grow(data.len())?;
        bytes.extend_from_slice(&data);
        due = (due + limits.time_for(data.len())).min(Instant::now() + limits.patience);
    }
    Ok(Read { bytes: bytes.freeze(), _held: Some(hold) })
}

/// Whether a body may be read as JSON: it says so or says nothing, and is not packed.
fn is_json(headers: &HeaderMap) -> bool {
    if headers.contains_key(CONTENT_ENCODING) {
        return false;
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (None, _) => true,
        (Some(value), None) => value.to_str().is_ok_and(|value| {
            let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
        }),
        (Some(_), Some(_)) => false,
    }
}
