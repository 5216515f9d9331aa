//! One request: the checks in their order, then the place that it is about.
//!
//! Host and Origin, then path and method, then the token, then the body: each is refused before the next is
//! looked at, so that a stranger learns nothing and a body is read only from somebody who may send one. The
//! control surface has an order of its own, after Host and Origin. Before all of them, a connection that came
//! when only the reserve was left shows whether it may stay.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{CACHE_CONTROL, CONNECTION, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::Scope;
use crate::body::Inbound;
use crate::payload::Payload;
use crate::places::Seat;
use crate::refusal::Refusal;
use crate::route::{self, Place};
use crate::site::Site;
use crate::{auth, card, control, guard, health, rest, rpc};

/// The connection that a request came by.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) site: Arc<Site>,
    pub(crate) peer: SocketAddr,
    /// Set when some of a request was left unread.
    pub(crate) left: Arc<AtomicBool>,
    /// Its place, if it is one of the reserve.
    pub(crate) seat: Option<Arc<Seat>>,
}

/// Answers one request.
pub(crate) async fn answer(line: Line, request: Request<Incoming>) -> Result<Response<Payload>, Infallible> {
    let Line { site, peer, left, seat } = line;
    let (head, body) = request.into_parts();
    let mut body = Inbound::new(body);
    let seated = seat.as_ref().is_none_or(|seat| is_in_charge(&site, &head) && seat.keep());
    let answer = if seated { admit(&site, peer, &head, &mut body).await } else { Err(Refusal::Overloaded) };
    let mut response = answer.unwrap_or_else(Refusal::response);
    let headers = response.headers_mut();
    if body.is_left() {
        left.store(true, Ordering::Relaxed);
    }
    // While places are few, a stranger has one for as long as an answer takes.
    let lasts = seated && (!site.places.are_few() || auth::scope(&site, &head.headers).is_some());
    if body.is_left() || !lasts {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// Whether the request shows the operator's or the control token.
fn is_in_charge(site: &Site, head: &Parts) -> bool {
    matches!(auth::scope(site, &head.headers), Some(Scope::Operator | Scope::Control))
}

/// Whether the body is wrapped in something that nobody here unwraps.
fn is_coded(head: &Parts) -> bool {
    let codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    codings.enumerate().any(|(at, coding)| at > 0 || !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

async fn admit(
    site: &Arc<Site>,
    peer: SocketAddr,
    head: &Parts,
    body: &mut Inbound,
) -> Result<Response<Payload>, Refusal> {
    guard::check(site.local, site.authentication, head)?;
    if control::is_under(head.uri.path()) {
        return Ok(control::answer(site, peer.ip(), head, body).await);
    }
    if is_coded(head) {
        return Err(Refusal::Coding);
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
        // Boxed, because they are large, and each connection has room for what is not.
        Place::Rpc => Box::pin(rpc::answer(site, sender, head, body)).await,
        _ => Box::pin(rest::answer(site, sender, (place, &id), head, body)).await,
    }
}
