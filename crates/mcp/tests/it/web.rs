//! A server on loopback that answers HTTP requests as a test wants it to, and remembers them.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mcp::{HttpConfig, Lifecycle, Limits, Server, Transport};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::usual;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// The message; null where there is none.
    pub(crate) message: Value,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn rpc(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }
}

/// What the server answers.
#[derive(Debug, Clone)]
pub(crate) struct Reply(StatusCode, Vec<(&'static str, String)>, Vec<u8>);

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self(StatusCode::from_u16(status).unwrap(), Vec::new(), Vec::new())
    }

    pub(crate) fn json(message: &Value) -> Self {
        Self::status(200).with("content-type", "application/json").body(message.to_string())
    }

    pub(crate) fn events(text: impl Into<Vec<u8>>) -> Self {
        Self::status(200).with("content-type", "text/event-stream").body(text)
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.1.push((name, value.into()));
        self
    }

    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self(self.0, self.1, body.into())
    }
}

/// What a well-behaved server of the older protocol answers.
pub(crate) fn well_behaved(got: &Got) -> Reply {
    if got.method != Method::POST {
        return Reply::status(405);
    }
    match usual(&got.message) {
        Some(answer) if got.rpc() == "initialize" => Reply::json(&answer).with("mcp-session-id", "s-1"),
        Some(answer) => Reply::json(&answer),
        None => Reply::status(202),
    }
}

/// An event that carries the answer to a message.
pub(crate) fn event(answer: &Value) -> String {
    format!("event: message\ndata: {answer}\n\n")
}

/// The answer to a call of `echo`.
pub(crate) fn echoed(got: &Got, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": got.message["id"], "result": {"content": [{"type": "text", "text": text}]}})
}

/// The server; stopped with the test's runtime.
#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) url: String,
    log: Arc<Mutex<Vec<Got>>>,
}

impl Web {
    pub(crate) async fn serve(react: impl Fn(&Got) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (react, log) = (Arc::new(react), Arc::<Mutex<Vec<Got>>>::default());
        let kept = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (react, log) = (Arc::clone(&react), Arc::clone(&log));
                let service =
                    hyper::service::service_fn(move |request| answer(request, Arc::clone(&react), Arc::clone(&log)));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { url, log: kept }
    }

    pub(crate) fn config(&self) -> HttpConfig {
        HttpConfig::new(&self.url).unwrap()
    }

    pub(crate) fn kept(&self) -> Server {
        kept(self.config())
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.log.lock().unwrap().clone()
    }

    /// Those that carried a message of one method.
    pub(crate) fn calls(&self, method: &str) -> Vec<Got> {
        self.got().into_iter().filter(|got| got.rpc() == method).collect()
    }
}

pub(crate) fn kept(config: HttpConfig) -> Server {
    let lifecycle = Lifecycle::KeepAlive { idle: Duration::from_secs(3600) };
    Server::new(Transport::Http(Arc::new(config)), lifecycle, Limits::default())
}

async fn answer<F: Fn(&Got) -> Reply>(
    request: Request<Incoming>,
    react: Arc<F>,
    log: Arc<Mutex<Vec<Got>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let message = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let got = Got { method: parts.method, path: parts.uri.path().to_owned(), headers: parts.headers, message };
    log.lock().unwrap().push(got.clone());
    let Reply(status, headers, body) = react(&got);
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    for (name, value) in headers {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::try_from(value).unwrap());
    }
    Ok(response)
}
