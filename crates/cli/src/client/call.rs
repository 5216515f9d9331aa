//! Requests to a session: JSON-RPC that is answered whole or with frames, and its health.

use std::time::Duration;

use drivers::{BuildError, ClientSetup};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::frames::Frames;
use super::target::Target;
use super::trouble::{Trouble, cause, shown};

/// How long an answer may take to begin, and a whole one to come: a cancel waits up to 5 s.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest whole answer; a task comes with its reply.
const LONGEST: usize = 32 << 20;
/// As much of a refusal as is read.
pub(super) const LONGEST_REFUSAL: usize = 64 << 10;

/// A client of one session.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    target: Target,
    authorization: Option<HeaderValue>,
}

impl Client {
    pub(crate) fn new(target: Target) -> Result<Self, Trouble> {
        let agent = concat!("mur/", env!("CARGO_PKG_VERSION"));
        let mut setup = ClientSetup::new(&target.url, agent, ClientSetup::roots_from_env())?;
        if target.direct {
            setup = setup.direct();
        }
        let http = setup.client()?;
        let authorization = match &target.token {
            None => None,
            Some(token) => {
                let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
                let mut value = value.map_err(|_| BuildError::Header { what: "token" })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self { http, target, authorization })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Calls a method that is answered whole.
    pub(crate) async fn call(&self, method: &str, params: &Value) -> Result<Value, Trouble> {
        let response = self.send(self.post(method, params)).await?;
        self.result(response).await
    }

    /// The same, of a method of A2A 1.0.
    pub(super) async fn call_v1(&self, method: &str, params: &Value) -> Result<Value, Trouble> {
        let response = self.send(self.post(method, params).header("a2a-version", "1.0")).await?;
        self.result(response).await
    }

    /// Calls a method that is answered with frames: those after `seen`, where that is given.
    pub(crate) async fn stream(&self, method: &str, params: &Value, seen: Option<u64>) -> Result<Frames, Trouble> {
        let mut request = self.post(method, params).header(ACCEPT, "text/event-stream");
        if let Some(seen) = seen {
            request = request.header("last-event-id", seen);
        }
        let response = self.send(request).await?;
        if is_stream(&response) {
            return Ok(Frames::new(response));
        }
        self.result(response).await?;
        Err(self.stranger("it answered without an event stream"))
    }

    /// `GET /health`, beside the address that requests go to.
    pub(crate) async fn health(&self) -> Result<Value, Trouble> {
        let mut url = self.target.url.clone();
        url.set_path(&format!("{}/health", url.path().trim_end_matches('/')));
        let response = self.send(self.authorized(self.http.get(url))).await?;
        let body = self.body(response, LONGEST).await?;
        serde_json::from_slice(&body).map_err(|_| self.stranger("its health is not JSON"))
    }

    fn post(&self, method: &str, params: &Value) -> RequestBuilder {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let request = self.http.post(self.target.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        self.authorized(request)
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        }
    }

    /// Asks for something of the control surface, below these segments.
    pub(super) fn control(&self, method: Method, below: &[&str]) -> RequestBuilder {
        let mut url = self.target.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("control").extend(below);
        }
        self.authorized(self.http.request(method, url))
    }

    /// Sends a request and gives the answer, whatever it is, but for a redirection.
    pub(super) async fn exchange(&self, request: RequestBuilder) -> Result<Response, Trouble> {
        let url = || self.target.url.to_string();
        let response = match timeout(PATIENCE, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Trouble::Unreachable { url: url(), why: cause(&error) }),
            Err(_) => return Err(self.late()),
        };
        let status = response.status();
        if status.is_redirection() {
            return Err(self.stranger(&format!("it redirects ({}), which is not followed", status.as_u16())));
        }
        Ok(response)
    }

    /// Sends a request and lets success through.
    async fn send(&self, request: RequestBuilder) -> Result<Response, Trouble> {
        let url = || self.target.url.to_string();
        let response = self.exchange(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        // What cannot be read of the reason leaves the status, which says enough.
        let body = self.body(response, LONGEST_REFUSAL).await.unwrap_or_default();
        let told = message(&body);
        let is_told = told.is_some();
        let message = told.unwrap_or_else(|| status.canonical_reason().unwrap_or("no reason").to_owned());
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Trouble::Refused { url: url(), status: status.as_u16(), message }
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Trouble::Busy { url: url(), message },
            _ if is_told => Trouble::Rpc { code: status.as_u16().into(), message },
            _ => self.stranger(&format!("status {}: {message}", status.as_u16())),
        })
    }

    async fn result(&self, response: Response) -> Result<Value, Trouble> {
        let body = self.body(response, LONGEST).await?;
        let Ok(Value::Object(mut answer)) = serde_json::from_slice(&body) else {
            return Err(self.stranger("it sent no JSON-RPC answer"));
        };
        if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
            let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
            let message = error.get("message").and_then(Value::as_str).unwrap_or("without a reason");
            return Err(Trouble::Rpc { code, message: shown(message) });
        }
        answer.remove("result").ok_or_else(|| self.stranger("its answer has no result"))
    }

    pub(super) async fn body(&self, mut response: Response, most: usize) -> Result<Vec<u8>, Trouble> {
        let reading = async {
            let mut body = Vec::new();
            loop {
                match response.chunk().await {
                    Ok(Some(chunk)) if body.len() + chunk.len() <= most => body.extend_from_slice(&chunk),
                    Ok(Some(_)) => return Err(self.stranger(&format!("it answers with more than {most} bytes"))),
                    Ok(None) => return Ok(body),
                    Err(error) => {
                        return Err(Trouble::Unreachable { url: self.target.url.to_string(), why: cause(&error) });
                    }
                }
            }
        };
        timeout(PATIENCE, reading).await.unwrap_or_else(|_| Err(self.late()))
    }

    pub(super) fn stranger(&self, what: &str) -> Trouble {
        Trouble::Stranger { url: self.target.url.to_string(), what: what.to_owned() }
    }

    fn late(&self) -> Trouble {
        let why = format!("there was no whole answer within {} s", PATIENCE.as_secs());
        Trouble::Unreachable { url: self.target.url.to_string(), why }
    }
}

/// Whether an answer is a stream of events.
pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
}

/// The reason in a refusal's body, in the form that sessions give it.
fn message(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.pointer("/error/message").and_then(Value::as_str).map(shown)
}
