//! One request: the checks in their order, then the place that it is about.
//!
//! Host and Origin, then path and method, then the token, then the body: each is refused before the next is
//! looked at, so that a stranger learns nothing and a body is read only from somebody who may send one. The
//! control surface has an order of its own, after Host and Origin.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{CACHE_CONTROL, CONNECTION, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::body::Inbound;
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::route::{self, Place};
use crate::site::Site;
use crate::{auth, card, control, guard, health, rest, rpc};

/// Answers one request, which `peer` sent. `left` is set when some of it was left unread.
pub(crate) async fn answer(
    site: Arc<Site>,
    left: Arc<AtomicBool>,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Payload>, Infallible> {
    let (head, body) = request.into_parts();
    let mut body = Inbound::new(body);
    let mut response = admit(&site, peer, &head, &mut body).await.unwrap_or_else(Refusal::response);
    let headers = response.headers_mut();
    if body.is_left() {
        left.store(true, Ordering::Relaxed);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    Ok(response)
}

async fn admit(
    site: &Arc<Site>,
    peer: SocketAddr,
    head: &Parts,
    body: &mut Inbound,
) -> Result<Response<Payload>, Refusal> {
    guard::check(site.local, head)?;
    if control::is_under(head.uri.path()) {
        return Ok(control::answer(site, peer.ip(), head, body).await);
    }
    let (place, id) = route::find(&head.method, head.uri.path())?;
    match place {
        Place::Card => return Ok(card::answer(site, head)),
        Place::Health => {
            let sender = auth::sender(site, &head.headers, false)?;
            return Ok(health::answer(site, sender.caller));
        }
        _ => {}
    }
    let sender = auth::sender(site, &head.headers, site.authentication)?;
    match place {
        Place::Rpc => rpc::answer(site, sender, head, body).await,
        _ => rest::answer(site, sender, (place, &id), head, body).await,
    }
}
