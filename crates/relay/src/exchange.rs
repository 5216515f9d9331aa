//! One request: checked, keyed, sent, and its answer passed on.

use std::error::Error as _;

use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper::body::{Body as _, Incoming};
use reqwest::{Body, Client, Url};
use secrets::{Error, Keyring, Secret, StreamRedactor};
use tokio::time::{Instant, timeout_at};

use crate::download::{Answer, Download};
use crate::gateway::{Service, Site};
use crate::refusal::Refusal;
use crate::upload::{Feed, Flow, Upload};
use crate::{UpstreamAuth, headers};

/// Answers one request.
pub(crate) async fn answer(site: &Site, request: Request<Incoming>) -> Response<Answer> {
    exchange(site, request).await.unwrap_or_else(|refusal| refusal.response())
}

async fn exchange(site: &Site, request: Request<Incoming>) -> Result<Response<Answer>, Refusal> {
    let service = &site.service;
    let (Parts { method, uri, headers, .. }, body) = request.into_parts();
    let url = service.target.url(rest(site, &uri)?, uri.query())?;
    // A trace would show the key to the tool, a tunnel would have no key.
    if method == Method::TRACE || method == Method::CONNECT {
        return Err(Refusal::Method);
    }
    if site.is_closed() {
        return Err(Refusal::Closed);
    }
    let headers = headers::outgoing(headers, service.key.as_ref().map(|(_, auth)| auth.header()));
    let feed = Feed::new(body);
    let call = Call { service, client: service.client()?, method, url, headers, feed: &feed };
    let response = match &service.key {
        None => call.send(None, feed.upload()).await?,
        Some((keyring, auth)) => call.keyed(keyring, auth).await?,
    };
    let is_head = call.method == Method::HEAD;
    pass(service, is_head, response, feed)
}

/// The target's path behind the gateway's own address.
fn rest<'u>(site: &Site, uri: &'u Uri) -> Result<&'u str, Refusal> {
    if uri.scheme().is_some() || uri.authority().is_some() {
        return Err(Refusal::Path);
    }
    let path = uri.path().strip_prefix('/').ok_or(Refusal::Path)?;
    let (token, rest) = match path.find('/') {
        Some(slash) => path.split_at(slash),
        None => (path, ""),
    };
    if site.is_own(token) { Ok(rest) } else { Err(Refusal::Unknown) }
}

struct Call<'a> {
    service: &'a Service,
    client: &'a Client,
    method: Method,
    url: Url,
    headers: HeaderMap,
    feed: &'a Feed,
}

impl Call<'_> {
    /// Sends it with the key of now, and once more when that was refused and there is another.
    async fn keyed(&self, keyring: &Keyring, auth: &UpstreamAuth) -> Result<Response<Body>, Refusal> {
        let key = keyring.key().map_err(|error| missing(keyring, &error))?;
        let header = self.header(keyring, auth, key.as_ref())?;
        let mut response = self.send(header, self.feed.upload()).await?;
        // A key is only asked for again where the request can go with it.
        if response.status() == StatusCode::UNAUTHORIZED
            && self.feed.is_kept()
            && let Some(other) = keyring.other_key(key.as_ref())
            && let Some(upload) = self.feed.again()
        {
            drop(response);
            let header = self.header(keyring, auth, Some(&other))?;
            response = self.send(header, upload).await?;
        }
        if response.status() == StatusCode::UNAUTHORIZED {
            keyring.rejected()
        } else {
            keyring.accepted()
        }
        Ok(response)
    }

    /// The header that carries the key; nothing when the service needs none.
    fn header<'h>(
        &self,
        keyring: &Keyring,
        auth: &'h UpstreamAuth,
        key: Option<&Secret>,
    ) -> Result<Option<(&'h HeaderName, HeaderValue)>, Refusal> {
        let Some(key) = key else { return Ok(None) };
        let Some(value) = auth.render(key) else {
            keyring.unusable();
            return Err(Refusal::Unreadable { credential: keyring.credential().name().map(str::to_owned) });
        };
        self.service.sent.learn(key);
        Ok(Some((auth.header(), value)))
    }

    async fn send(&self, key: Option<(&HeaderName, HeaderValue)>, upload: Upload) -> Result<Response<Body>, Refusal> {
        let mut headers = self.headers.clone();
        if let Some((name, value)) = key {
            headers.insert(name, value);
        }
        let mut request = self.client.request(self.method.clone(), self.url.clone()).headers(headers);
        if !upload.is_end_stream() {
            request = request.body(Body::wrap(upload));
        }
        let mut sent = Box::pin(request.send());
        let begun = Instant::now();
        loop {
            let deadline = self.feed.moved().max(begun) + self.service.limits.idle;
            match timeout_at(deadline, &mut sent).await {
                Ok(Ok(response)) => return Ok(response.into()),
                Ok(Err(error)) => return Err(self.failed(&error)),
                // The body went on meanwhile.
                Err(_) if self.feed.moved() + self.service.limits.idle > deadline => {}
                Err(_) if self.feed.flow() == Flow::Awaited => return Err(Refusal::Stalled),
                Err(_) => return Err(Refusal::Slow),
            }
        }
    }

    fn failed(&self, error: &reqwest::Error) -> Refusal {
        if self.feed.flow() == Flow::Broken {
            return Refusal::Broken;
        }
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        // The error itself would name the URL.
        let why = if error.source().is_none() { "the request failed".to_owned() } else { cause.to_string() };
        let why = self.service.sent.redact_owned(why).into_string();
        if error.is_connect() { Refusal::Unreachable { why } } else { Refusal::Unanswered { why } }
    }
}

/// What the tool is told of a credential without a value.
fn missing(keyring: &Keyring, error: &Error) -> Refusal {
    match error {
        Error::NotInjected { name, .. } => Refusal::NotInjected { credential: name.clone() },
        _ => Refusal::Unreadable { credential: keyring.credential().name().map(str::to_owned) },
    }
}

fn pass(service: &Service, is_head: bool, response: Response<Body>, feed: Feed) -> Result<Response<Answer>, Refusal> {
    let (parts, body) = response.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Refusal::Upgrade);
    }
    if service.key.is_some() && headers::is_encoded(&parts.headers) {
        return Err(Refusal::Encoded);
    }
    let search = service.key.as_ref().map(|_| StreamRedactor::new(&service.sent));
    let headers = headers::incoming(parts.headers, is_head, &service.sent);
    let download = Download::new(body, search, feed, service.limits.idle);
    let mut response = Response::new(Answer::Passed(Box::new(download)));
    *response.status_mut() = parts.status;
    *response.headers_mut() = headers;
    Ok(response)
}
