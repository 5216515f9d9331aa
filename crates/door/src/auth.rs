//! Who sends a request, as its one `Authorization` header says.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use runtime::{Caller, Claim};
use vocab::{Origin, TraceContext, Trust};

use crate::Scope;
use crate::refusal::Refusal;
use crate::site::Site;
use crate::token::TokenDigest;

/// Who sends a request, what it says of itself and which trace it is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) caller: Caller,
    pub(crate) claim: Option<Claim>,
    pub(crate) traceparent: Option<TraceContext>,
}

/// Reads who sends it. `needed` says whether nobody in particular is not enough. A bearer token that is
/// shown and is none of this session's is never as good as none.
pub(crate) fn sender(site: &Site, headers: &HeaderMap, needed: bool) -> Result<Sender, Refusal> {
    let caller = match bearer(headers)? {
        Some(token) => {
            let scope = verified(site, token).ok_or(Refusal::Unauthorized)?;
            Some(caller(scope).ok_or(Refusal::Forbidden)?)
        }
        None => None,
    };
    let caller = match caller {
        Some(caller) => caller,
        None if needed => return Err(Refusal::Unauthorized),
        None => Caller::Anonymous,
    };
    Ok(Sender { caller, claim: claim(headers), traceparent: one(headers, "traceparent").and_then(TraceContext::parse) })
}

/// What the token opens that is shown, if it is one of this session's.
pub(crate) fn scope(site: &Site, headers: &HeaderMap) -> Option<Scope> {
    bearer(headers).ok().flatten().and_then(|token| verified(site, token))
}

fn verified(site: &Site, token: &str) -> Option<Scope> {
    check(site, token).map(|(scope, _)| scope)
}

/// What a token opens, if it is one of this session's, and its digest.
pub(crate) fn check(site: &Site, token: &str) -> Option<(Scope, TokenDigest)> {
    site.known.check(&site.key, token, &site.session.info().session)
}

/// The bearer token that is shown; nothing when there is no `Authorization`, or one of another scheme.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    match (shown.next(), shown.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Refusal::Unauthorized),
        (Some(value), None) => {
            let value = value.to_str().map_err(|_| Refusal::Unauthorized)?;
            let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
            Ok(scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' ')))
        }
    }
}

/// Who has a token of this scope; nobody whom the session knows has one of the control surface's.
fn caller(scope: Scope) -> Option<Caller> {
    match scope {
        Scope::Operator => Some(Caller::Operator),
        Scope::Diagnostics => Some(Caller::Diagnostics),
        Scope::Peer => Some(Caller::Peer),
        Scope::Control => None,
    }
}

/// What the sender says of its task: of the values that there are no others, of each header only one.
fn claim(headers: &HeaderMap) -> Option<Claim> {
    let origin = match one(headers, "x-murmur-task-origin")? {
        "peer" => Origin::Peer,
        "completion" => Origin::Completion,
        _ => return None,
    };
    let trust = match one(headers, "x-murmur-task-trust") {
        Some("trusted") => Some(Trust::Trusted),
        Some("untrusted") => Some(Trust::Untrusted),
        _ => None,
    };
    Some(Claim { origin, trust })
}

/// The header's value, if it is there once and is text.
pub(crate) fn one<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};
    use runtime::Claim;
    use vocab::{Origin, Trust};

    use super::claim;

    fn said(pairs: &[(&'static str, &'static str)]) -> Option<Claim> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        claim(&headers)
    }

    #[test]
    fn only_what_can_be_claimed_is_read_and_only_once() {
        const ORIGIN: &str = "x-murmur-task-origin";
        const TRUST: &str = "x-murmur-task-trust";
        let peer = |trust| Some(Claim { origin: Origin::Peer, trust });
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[(ORIGIN, "peer")]), peer(None));
        assert_eq!(said(&[(ORIGIN, "peer"), (TRUST, "trusted")]), peer(Some(Trust::Trusted)));
        assert_eq!(said(&[(ORIGIN, "peer"), (TRUST, "untrusted")]), peer(Some(Trust::Untrusted)));
        assert_eq!(said(&[(ORIGIN, "peer"), (TRUST, "trusted"), (TRUST, "trusted")]), peer(None));
        assert_eq!(said(&[(ORIGIN, "peer"), (TRUST, "Trusted")]), peer(None));
        let completion = Some(Claim { origin: Origin::Completion, trust: None });
        assert_eq!(said(&[(ORIGIN, "completion")]), completion);
        for none in ["user", "system", "schedule", "event", "Peer", "peer,peer", ""] {
            assert_eq!(said(&[(ORIGIN, none), (TRUST, "trusted")]), None, "{none}");
        }
        assert_eq!(said(&[(ORIGIN, "peer"), (ORIGIN, "peer")]), None);
        assert_eq!(said(&[(TRUST, "trusted")]), None);
    }
}
