//! One HTTP call to a provider: what every networked driver has in common.
//!
//! The provider's own form is a [`Protocol`]; this module sends the body, bounds and checks what comes
//! back, and turns each way of failing into a [`Fault`]. Redirects are not followed: the credential is
//! for the endpoint that the operator named. The credential is read for each request; one that a provider
//! refuses is read again, and the request sent once more if it has changed since. It knows nothing of any provider's JSON.

mod unanswered;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Response, Url};
use secrets::{Keyring, LiveCredential, Place, Secret};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use vocab::{BoxFuture, CallParams, DeltaSink, Driver, DriverError, DriverErrorKind as Kind, Reply, ToolSpec, Wire};

use crate::client::ClientSetup;
use crate::config::{BuildError, Config, Retry};
use crate::failure::{Fault, Who};
use crate::retry::{Attempt, with_retries};
use crate::sse::{Event, Sse};

/// W3C trace context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The longest answer that is read.
const LONGEST_REPLY: usize = 32 << 20;
/// As much of an error's body as is read.
const LONGEST_ERROR: usize = 64 << 10;
/// How long an error's body may take: the status says enough.
const SLOWEST_ERROR: Duration = Duration::from_secs(10);
/// How long a finished answer may take to end its body, so that the connection can be used again.
const TAIL: Duration = Duration::from_millis(50);

/// A provider's form.
pub(crate) trait Protocol: Send + Sync + Sized + 'static {
    const NAME: &'static str;

    /// The URL of a call, from the operator's endpoint.
    fn url(endpoint: Url) -> Url;

    /// Headers of every call, all but the credential's.
    fn headers() -> HeaderMap;

    /// The header that carries this key, and its value.
    fn credential(key: Secret) -> (HeaderName, Secret);

    /// The form, bound to a model.
    fn new(model: &str, url: &Url, request: Map<String, Value>) -> Result<Self, BuildError>;

    fn open(&self, system: &str, tools: &[ToolSpec]) -> Box<dyn Wire>;

    fn decoder(&self) -> Box<dyn Decoder>;
}

/// What an event was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// No part of the answer: it only shows that the connection lives.
    Nothing,
    /// A part of the answer.
    Part,
    /// Its end: nothing more is to be read.
    Whole,
}

/// Reads one answer's events.
pub(crate) trait Decoder: Send {
    fn event(&mut self, event: &Event<'_>, sink: &mut dyn DeltaSink) -> Result<Step, Fault>;

    /// Whether the answer may end here.
    fn may_end(&self) -> bool;

    /// The whole answer, after [`may_end`](Self::may_end).
    fn finish(self: Box<Self>) -> Result<Reply, Fault>;
}

/// A driver over HTTP.
pub(crate) struct HttpDriver<P> {
    protocol: P,
    model: String,
    url: Url,
    headers: HeaderMap,
    keyring: Keyring,
    who: Who,
    retry: Retry,
    idle_timeout: Duration,
    setup: ClientSetup,
    // Made at the first call: TLS set-up is no part of a launch that never calls.
    client: OnceLock<Result<reqwest::Client, Fault>>,
    /// The memory of the last body, for the next: half a megabyte that is asked of the system and given back for
    /// each call costs more than the copying.
    spare: Mutex<Vec<u8>>,
}

impl<P: Protocol> HttpDriver<P> {
    pub(crate) fn new(config: Config) -> Result<Self, BuildError> {
        let endpoint = endpoint(&config.endpoint)?;
        let host = match (endpoint.host_str(), endpoint.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let url = P::url(endpoint);
        usable::<P>(config.api_key.credential())?;
        Ok(Self {
            protocol: P::new(&config.model, &url, config.request)?,
            model: config.model,
            setup: ClientSetup::new(&url, &config.user_agent, config.extra_roots)?,
            url,
            headers: P::headers(),
            keyring: config.api_key,
            who: Who::new(P::NAME, host),
            retry: config.retry,
            idle_timeout: config.idle_timeout,
            client: OnceLock::new(),
            spare: Mutex::default(),
        })
    }

    fn spare(&self) -> MutexGuard<'_, Vec<u8>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a body's memory, unless a connection still holds it.
    fn keep(&self, body: Bytes) {
        if body.is_unique() {
            *self.spare() = body.into();
        }
    }

    async fn exchange(&self, call: &Call<'_, P>, sink: &mut dyn DeltaSink) -> Result<Reply, Fault> {
        let key = self.keyring.key();
        let key = key.map_err(|error| Fault::new(Kind::Auth, format!("was not called: {error}")))?;
        let mut response = self.send(call, key.as_ref()).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(other) = self.keyring.other_key(key.as_ref())
        {
            response = self.send(call, Some(&other)).await?;
        }
        if response.status() == StatusCode::UNAUTHORIZED {
            self.keyring.rejected();
        } else {
            self.keyring.accepted();
        }
        let response = self.accept(response).await?;
        self.read(response, sink).await
    }

    async fn send(&self, call: &Call<'_, P>, key: Option<&Secret>) -> Result<Response, Fault> {
        let client = self.client.get_or_init(|| self.setup.client().map_err(unanswered::unmade));
        let client = client.as_ref().map_err(Clone::clone)?;
        let mut headers = self.headers.clone();
        if let Some(key) = key {
            self.who.keep_out(key);
            let (name, value) = header::<P>(key).map_err(|error| {
                self.keyring.unusable();
                Fault::new(Kind::Auth, format!("was not called: {error}"))
            })?;
            headers.insert(name, value);
        }
        if let Some(traceparent) = &call.traceparent {
            headers.insert(TRACEPARENT, traceparent.clone());
        }
        let request = client.post(self.url.clone()).headers(headers).body(call.body.clone());
        match timeout(self.idle_timeout, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unanswered::fault(&error)),
            Err(_) => Err(Fault::new(Kind::Network, format!("sent no answer within {:?}", self.idle_timeout))),
        }
    }

    /// Lets an event stream through; everything else is a failure of some kind.
    async fn accept(&self, response: Response) -> Result<Response, Fault> {
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
            let end = format!("({}), which is not followed", status.as_u16());
            let mut fault = match to {
                Some(to) => Fault::bad("redirects to `").quoting(to, 100, format!("` {end}")),
                None => Fault::bad(format!("redirects {end}")),
            };
            fault.status = Some(status.as_u16());
            return Err(fault);
        }
        let headers = response.headers().clone();
        if !status.is_success() {
            let body = self.error_body(response).await;
            return Err(Fault::of_status(status.as_u16(), &headers, &body));
        }
        let Some(media_type) = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes())) else {
            return Ok(response);
        };
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("text/event-stream") {
            return Ok(response);
        }
        let body = self.error_body(response).await;
        if let Ok(value) = serde_json::from_slice::<Value>(&body)
            && let Some(error) = value.get("error").filter(|error| !error.is_null())
        {
            return Err(Fault::of_error(error));
        }
        Err(Fault::bad("answered `").quoting(media_type, 60, "` instead of an event stream"))
    }

    /// The first bytes of an error's body, as far as they come.
    async fn error_body(&self, mut response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk);
                if body.len() > LONGEST_ERROR {
                    body.truncate(LONGEST_ERROR);
                    break;
                }
            }
        };
        let _ = timeout(self.idle_timeout.min(SLOWEST_ERROR), read).await;
        body
    }

    async fn read(&self, mut response: Response, sink: &mut dyn DeltaSink) -> Result<Reply, Fault> {
        let mut sse = Sse::default();
        let mut decoder = self.protocol.decoder();
        let mut total = 0_usize;
        // Of the last event that said something: what only keeps the connection must not hold the call.
        let mut heard = Instant::now();
        loop {
            // Some servers keep a finished stream open; what could still come is the usage.
            let patience =
                if decoder.may_end() { self.idle_timeout.min(Duration::from_secs(5)) } else { self.idle_timeout };
            let chunk = match timeout(patience.saturating_sub(heard.elapsed()), response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) | Ok(Err(_)) | Err(_) if decoder.may_end() => break,
                Ok(Ok(None)) if total > 0 && sse.events() == 0 => {
                    return Err(Fault::bad("sent an event stream without events"));
                }
                Ok(Ok(None)) => {
                    return Err(Fault::new(Kind::CutStream, "ended the stream in the middle of the answer"));
                }
                Ok(Err(error)) => {
                    let fault = Fault::new(Kind::CutStream, "broke off in the middle of the answer: ");
                    return Err(unanswered::because(fault, &error));
                }
                Err(_) => {
                    return Err(Fault::new(
                        Kind::CutStream,
                        format!("sent nothing of the answer for {patience:?} in the middle of it"),
                    ));
                }
            };
            total = total.saturating_add(chunk.len());
            if total > LONGEST_REPLY {
                return Err(Fault::bad(format!("sent an answer of more than {} MiB", LONGEST_REPLY >> 20)));
            }
            let whole = sse.feed::<Fault>(&chunk, &mut |event| {
                let step = decoder.event(event, sink)?;
                if step != Step::Nothing {
                    heard = Instant::now();
                }
                Ok(step == Step::Whole)
            })?;
            if whole {
                // A body that is read to its end leaves its connection for the next call.
                let tail = async { while let Ok(Some(_)) = response.chunk().await {} };
                let _ = timeout(TAIL, tail).await;
                break;
            }
        }
        decoder.finish()
    }
}

impl<P: Protocol> Driver for HttpDriver<P> {
    fn name(&self) -> &str {
        P::NAME
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn open(&self, system: &str, tools: &[ToolSpec]) -> Box<dyn Wire> {
        self.protocol.open(system, tools)
    }

    fn call<'a>(
        &'a self,
        wire: &'a dyn Wire,
        params: CallParams,
        sink: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Reply, DriverError>> {
        Box::pin(async move {
            let traceparent = params.traceparent.and_then(|context| HeaderValue::try_from(context.to_string()).ok());
            let buffer = std::mem::take(&mut *self.spare());
            let call = Call { driver: self, body: Bytes::from(wire.body(params, buffer)), traceparent };
            let outcome = with_retries(&self.retry, &call, sink).await;
            self.keep(call.body);
            outcome
        })
    }
}

struct Call<'a, P> {
    driver: &'a HttpDriver<P>,
    body: Bytes,
    /// The span that the call is, for a provider that measures too.
    traceparent: Option<HeaderValue>,
}

impl<P: Protocol> Attempt for Call<'_, P> {
    fn attempt<'a>(&'a self, sink: &'a mut dyn DeltaSink) -> BoxFuture<'a, Result<Reply, DriverError>> {
        Box::pin(async move {
            let outcome = self.driver.exchange(self, sink).await;
            outcome.map_err(|fault| self.driver.who.error(fault))
        })
    }
}

/// Reads the operator's endpoint.
fn endpoint(text: &str) -> Result<Url, BuildError> {
    let refuse = |endpoint: String, reason| BuildError::Endpoint { endpoint, reason };
    let url = Url::parse(text.trim()).map_err(|_| refuse(hidden(text), "is not a URL"))?;
    let shown = || hidden(url.as_str());
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse(shown(), "is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse(shown(), "holds a user or password"));
    }
    if url.fragment().is_some() {
        return Err(refuse(shown(), "has a fragment"));
    }
    Ok(url)
}

/// A URL without what may stand before its `@`.
fn hidden(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://[hidden]@{rest}"),
        (None, Some((_, rest))) => format!("[hidden]@{rest}"),
        (_, None) => text.to_owned(),
    }
}

/// The endpoint with more path, its query kept.
pub(crate) fn join(mut endpoint: Url, path: &str) -> Url {
    let joined = format!("{}{path}", endpoint.path().trim_end_matches('/'));
    endpoint.set_path(&joined);
    endpoint
}

/// Headers that every provider takes.
pub(crate) fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers
}

/// The credential's header.
fn header<P: Protocol>(key: &Secret) -> Result<(HeaderName, HeaderValue), BuildError> {
    let (name, value) = P::credential(key.clone());
    let mut value = HeaderValue::from_str(value.expose()).map_err(|_| BuildError::Header { what: "API key" })?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Refuses a key that no request could carry. One that is not there now may be there when it is needed.
fn usable<P: Protocol>(credential: &LiveCredential) -> Result<(), BuildError> {
    match credential.read() {
        Ok(Some(key)) => header::<P>(&key).map(drop),
        Err(secrets::Error::Unusable { place: Place::Manifest, .. }) => Err(BuildError::Header { what: "API key" }),
        Ok(None) | Err(_) => Ok(()),
    }
}
