//! One request: `CONNECT` becomes a tunnel, a whole `http://` URL is asked for, all else is refused.
//!
//! Each plain request has a connection of its own to the service, so that each one is checked and none can
//! be read as a part of another. What a connection says about itself ends here, in both directions; the host
//! is the URL's, whatever the `host` header says. A redirect goes back to the client, whose next request is
//! checked like any other.

use std::sync::{Arc, Mutex, PoisonError};

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use manifest::Scheme;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use crate::answer::Answer;
use crate::target::Target;
use crate::{Egress, Reason, Refusal, Upstream};

/// Bytes of a head that are kept, of a client's and of a service's; hyper takes a little more before it refuses.
pub(crate) const HEAD: usize = 64 << 10;
/// What is said about one connection alone, besides what its `connection` header names.
const HOP: [&str; 10] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What is there for one connection of a client.
pub(crate) struct Client {
    pub(crate) egress: Arc<Egress>,
    /// Where a tunnel's other end waits until the client has been answered.
    pub(crate) slot: Mutex<Option<Upstream>>,
    /// Is held as long as there is a connection to a service.
    pub(crate) alive: Sender<()>,
}

/// Answers one request. After a tunnel's answer, the slot holds its other end.
pub(crate) async fn answer(client: &Client, request: Request<Incoming>) -> Response<Answer> {
    let egress = &client.egress;
    let (head, body) = request.into_parts();
    let target = match target(&head) {
        Ok(target) => target,
        Err(refusal) => return Answer::refusal(&egress.refuse(refusal)),
    };
    let upstream = match egress.open(target.clone()).await {
        Ok(upstream) => upstream,
        Err(refusal) => return Answer::refusal(&refusal),
    };
    if head.method == Method::CONNECT {
        *client.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(upstream);
        return Answer::tunnel();
    }
    match forward(client, upstream, outgoing(&target, head, body)).await {
        Some(response) => response,
        None => Answer::refusal(&Refusal::new(&target, Reason::NoAnswer)),
    }
}

/// Where the request is to go, by its first line alone.
fn target(head: &Parts) -> Result<Target, Refusal> {
    let (uri, headers) = (&head.uri, &head.headers);
    let tunnel = head.method == Method::CONNECT;
    let scheme = if tunnel { Scheme::Https } else { Scheme::Http };
    let nameless = |reason| Refusal::nameless(scheme, reason);
    let target = if tunnel {
        // The form `host:port` alone has neither a scheme nor a path.
        let authority = uri.authority().filter(|_| uri.scheme().is_none() && uri.path_and_query().is_none());
        authority.and_then(|authority| Target::of_authority(scheme, authority.as_str(), None))
    } else {
        let authority = uri.authority().ok_or_else(|| nameless(Reason::Form))?;
        if uri.scheme_str() != Some("http") {
            return Err(nameless(Reason::Scheme));
        }
        Target::of_authority(scheme, authority.as_str(), Some(scheme.default_port()))
    };
    let target = target.ok_or_else(|| nameless(Reason::Target))?;
    // What follows is the tunnel's. Of other requests hyper reads one length, and sends on that alone.
    if tunnel && (headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING)) {
        return Err(Refusal::new(&target, Reason::Body));
    }
    if !tunnel && names(headers, &UPGRADE).any(|name| name.eq_ignore_ascii_case(b"websocket")) {
        return Err(Refusal::new(&target, Reason::Upgrade));
    }
    Ok(target)
}

/// Asks the service; `None` when it gives no answer that can be passed on.
async fn forward(client: &Client, upstream: Upstream, request: Option<Request<Incoming>>) -> Option<Response<Answer>> {
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(HEAD).handshake(TokioIo::new(upstream)).await.ok()?;
    let alive = client.alive.clone();
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // The answer's body tells what became of it.
        let _ = connection.await;
        drop(alive);
    });
    let response = sender.send_request(request?).await.ok()?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return None;
    }
    let (mut head, body) = response.into_parts();
    if head.headers.contains_key(TRANSFER_ENCODING) {
        // The body has been read by its chunks, and the length that stands beside them is another's.
        head.headers.remove(CONTENT_LENGTH);
    }
    strip_hop(&mut head.headers);
    head.version = Version::HTTP_11;
    Some(Response::from_parts(head, Answer::Passed { body, _driver: driver }))
}

fn outgoing(target: &Target, head: Parts, body: Incoming) -> Option<Request<Incoming>> {
    let host = match target.port {
        80 => target.host.to_string(),
        port => format!("{}:{port}", target.host),
    };
    let mut headers = head.headers;
    strip_hop(&mut headers);
    // It has been answered already when the body is read.
    headers.remove(EXPECT);
    headers.insert(HOST, HeaderValue::try_from(host).ok()?);
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri.path_and_query().map(|path| Uri::from(path.clone())).unwrap_or_default();
    *request.headers_mut() = headers;
    Some(request)
}

fn strip_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> =
        names(headers, &CONNECTION).filter_map(|name| HeaderName::from_bytes(name).ok()).collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP {
        headers.remove(name);
    }
}

/// The names that a header lists.
fn names<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    headers.get_all(name).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}
