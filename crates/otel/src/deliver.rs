//! From the queue to the receiver: batches, requests, second tries.
//!
//! What may be tried again and what may not is the protocol's: 429, 502, 503, 504 and a connection that
//! failed, with the receiver's own delay where it names one. At the session's end a receiver that cannot
//! be reached is not waited for: a program that ends a second later because nobody listens is a nuisance.

use std::error::Error as _;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use prost::Message as _;
use reqwest::{Client, Response, Url};
use secrets::Redactor;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use drivers::ClientSetup;

use crate::attribute::clean;
use crate::wire::{ExportRequest, ExportResponse, Resource, ResourceSpans, Scope, ScopeSpans, Span};
use crate::{Error, endpoint};

/// Spans of one request.
const BATCH: usize = 512;
/// How long the first span of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);
/// How long the last batches have, counted from the session's end.
const FLUSH: Duration = Duration::from_secs(3);
/// Attempts after the first one.
const RETRIES: u32 = 3;
/// The first delay; it doubles with each attempt.
const DELAY: Duration = Duration::from_secs(1);
/// A receiver that asks for a longer delay loses the batch: others wait behind it.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// As much of an answer as is read.
const LONGEST_ANSWER: usize = 64 << 10;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) error: Option<Error>,
}

/// Takes spans from the queue until the session has ended and the queue is empty.
pub(crate) struct Delivery {
    queue: mpsc::Receiver<Span>,
    stopped: watch::Receiver<bool>,
    sender: Sender,
    outcome: Outcome,
}

impl Delivery {
    pub(crate) fn new(queue: mpsc::Receiver<Span>, stopped: watch::Receiver<bool>, sender: Sender) -> Self {
        Self { queue, stopped, sender, outcome: Outcome::default() }
    }

    pub(crate) async fn run(mut self) -> Outcome {
        let mut stopped = self.stopped.clone();
        let late = async {
            stop(&mut stopped).await;
            sleep(FLUSH).await;
        };
        let cut = tokio::select! {
            biased;
            () = self.deliver() => false,
            () = late => true,
        };
        if cut {
            let receiver = self.sender.receiver.clone();
            self.outcome.error = Some(Error::Unfinished { receiver, after: FLUSH });
        }
        self.outcome
    }

    async fn deliver(&mut self) {
        while let Some(batch) = self.batch().await {
            let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            let taken = match self.sender.send(batch, &mut self.stopped).await {
                Ok(()) => count,
                Err(error) => {
                    let rejected = if let Error::Rejected { spans, .. } = &error { *spans } else { count };
                    self.outcome.error = Some(error);
                    count.saturating_sub(rejected)
                }
            };
            self.outcome.sent = self.outcome.sent.saturating_add(taken);
        }
    }

    /// The next spans; none when there will be no more.
    async fn batch(&mut self) -> Option<Vec<Span>> {
        let mut batch = Vec::new();
        let mut due = None;
        while batch.len() < BATCH {
            let gathered = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                span = self.queue.recv() => match span {
                    Some(span) => batch.push(span),
                    None => break,
                },
                () = gathered => break,
                // What is in the queue by now is taken still, and then it is at its end.
                () = stop(&mut self.stopped) => self.queue.close(),
            }
            due.get_or_insert_with(|| tokio::time::Instant::now() + GATHER);
        }
        (!batch.is_empty()).then_some(batch)
    }
}

/// Waits until the session is over; whoever dropped the exporter ended it too.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// A failure, and whether and when to try again.
struct Failure {
    error: Error,
    again: Again,
}

enum Again {
    Never,
    /// The connection failed.
    Reconnect,
    /// The receiver asked for it, after this long if it said so.
    After(Option<Duration>),
}

/// Sends batches to one receiver.
pub(crate) struct Sender {
    url: Url,
    receiver: String,
    setup: ClientSetup,
    client: Option<Client>,
    common: (Resource, Scope),
    redactor: Redactor,
}

impl Sender {
    pub(crate) fn new(url: Url, version: &str, common: (Resource, Scope), redactor: Redactor) -> Result<Self, Error> {
        let setup = ClientSetup::new(&url, &format!("mur/{version}"), ClientSetup::roots_from_env())?;
        Ok(Self { receiver: endpoint::name(&url), url, setup, client: None, common, redactor })
    }

    /// Host and port.
    pub(crate) fn receiver(&self) -> &str {
        &self.receiver
    }

    async fn send(&mut self, spans: Vec<Span>, stopped: &mut watch::Receiver<bool>) -> Result<(), Error> {
        let client = self.client()?;
        let (resource, scope) = self.common.clone();
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        let request = ExportRequest { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] };
        let body = Bytes::from(request.encode_to_vec());
        let mut attempt = 0;
        loop {
            let Failure { error, again } = match timeout(REQUEST, self.once(&client, body.clone())).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(failure)) => failure,
                Err(_) => {
                    let error = Error::Late { receiver: self.receiver.clone(), after: REQUEST };
                    Failure { error, again: Again::Reconnect }
                }
            };
            if attempt == RETRIES {
                return Err(error);
            }
            let backoff = backoff(attempt, random());
            attempt += 1;
            match again {
                Again::Never => return Err(error),
                Again::After(Some(delay)) if delay > LONGEST_DELAY => return Err(error),
                Again::After(delay) => sleep(delay.unwrap_or(backoff)).await,
                Again::Reconnect if *stopped.borrow() => return Err(error),
                Again::Reconnect => tokio::select! {
                    () = sleep(backoff) => {}
                    () = stop(stopped) => {}
                },
            }
        }
    }

    /// The client, made at the first batch: a session that ends before has no use for it.
    fn client(&mut self) -> Result<Client, Error> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let made = self.setup.client();
        let client = made.map_err(|error| Error::Client { receiver: self.receiver.clone(), error })?;
        self.client = Some(client.clone());
        Ok(client)
    }

    async fn once(&self, client: &Client, body: Bytes) -> Result<(), Failure> {
        let unreachable = |error: &reqwest::Error| {
            let cause = clean(&self.redactor, &innermost(error));
            Failure { error: Error::Unreachable { receiver: self.receiver.clone(), cause }, again: Again::Reconnect }
        };
        let request = client.post(self.url.clone()).header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let response = request.send().await.map_err(|error| unreachable(&error))?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            let again = match status {
                429 | 502 | 503 | 504 => Again::After(retry_after(response.headers(), SystemTime::now())),
                _ => Again::Never,
            };
            return Err(Failure { error: Error::Status { receiver: self.receiver.clone(), status }, again });
        }
        let answer = read(response).await.map_err(|error| unreachable(&error))?;
        // A receiver that answers 200 and something else took the spans all the same.
        let partial = ExportResponse::decode(answer.as_slice()).ok().and_then(|answer| answer.partial_success);
        match partial {
            Some(partial) if partial.rejected_spans > 0 => {
                let error = Error::Rejected {
                    receiver: self.receiver.clone(),
                    spans: partial.rejected_spans.unsigned_abs(),
                    message: clean(&self.redactor, &partial.error_message),
                };
                Err(Failure { error, again: Again::Never })
            }
            _ => Ok(()),
        }
    }
}

/// The first bytes of an answer. One that is longer is none of the protocol's.
async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > LONGEST_ANSWER {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The delay that the receiver names: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The delay after this attempt, from 0; between a half of the bound and the bound.
fn backoff(attempt: u32, random: u64) -> Duration {
    let bound = DELAY.saturating_mul(2_u32.saturating_pow(attempt)).min(LONGEST_DELAY);
    let half = bound / 2;
    let share = u32::try_from(random % 1000).unwrap_or_default();
    half + half * share / 1000
}

/// Randomness for jitter alone: each `RandomState` has keys of its own.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The innermost cause, which names the thing and no URL.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if error.source().is_none() { "the request failed".to_owned() } else { cause.to_string() }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};

    use super::{LONGEST_DELAY, backoff, retry_after};

    #[test]
    fn delays_double_within_their_bounds() {
        let millis = |attempt, random| backoff(attempt, random).as_millis();
        assert_eq!((millis(0, 0), millis(0, 999)), (500, 999));
        assert_eq!((millis(2, 0), millis(2, 999)), (2000, 3998));
        assert!(backoff(u32::MAX, u64::MAX) <= LONGEST_DELAY);
    }

    #[test]
    fn a_delay_is_read_as_seconds_or_as_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        let read = |text: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            retry_after(&headers, now)
        };
        assert_eq!(read("7"), Some(Duration::from_secs(7)));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
