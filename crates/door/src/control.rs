//! `/control`: whoever holds the session's control token changes what the capsule declares for it.
//!
//! The checks run in one order, and a request stops at the first that refuses it; each refusal is on record
//! before it is answered. What a change means and whether it may be is [`runtime::Control`]'s to say.

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response, StatusCode};
use runtime::{Control, ControlRefusal, Principal, Refused, SettingChange};
use secrets::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Scope;
use crate::auth::{self, bearer};
use crate::body::Inbound;
use crate::payload::{self, Payload, Source};
use crate::site::Site;

mod denied;
mod head;
mod overview;
mod watch;

use denied::Denied;
use head::Resource;
pub(crate) use overview::Overview;
pub(crate) use watch::Watch;

/// Whether a path is the control surface's to answer.
pub(crate) fn is_under(path: &str) -> bool {
    path.strip_prefix("/control").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request under `/control` that `peer` sent.
pub(crate) async fn answer(site: &Arc<Site>, peer: IpAddr, head: &Parts, body: &mut Inbound) -> Response<Payload> {
    let Some(control) = site.session.control() else { return Denied::Absent.response() };
    let shown = bearer(&head.headers).ok().flatten().and_then(|token| auth::check(site, token));
    let Some((Scope::Control, token)) = shown else {
        return refuse(site, Principal::Unverified, None, Denied::Unauthenticated);
    };
    let token_id = token.id();
    let by = Principal::Controller { token_id: &token_id };
    let Some(resource) = Resource::at(head.uri.path()) else { return refuse(site, by, None, Denied::UnknownPath) };
    let request = Request { site, control, by, head };
    let checked = head::check(control.declared(), &resource, &head.method, peer, body.declared());
    let done = match checked {
        Ok(()) => request.carry_out(&resource, body).await,
        Err(denied) => Err(denied),
    };
    done.unwrap_or_else(|denied| refuse(site, by, resource.named(), denied))
}

/// Puts a refusal on record and answers it. A session that cannot put on record what comes to it ends, as with a task.
fn refuse(site: &Site, by: Principal<'_>, named: Option<(&str, &str)>, denied: Denied) -> Response<Payload> {
    let recorded = denied.reason().is_none_or(|reason| {
        let refused = Refused { status: denied.status().as_u16(), reason, named };
        site.session.control().is_none_or(|control| control.refused(by, &refused).is_ok())
    });
    let denied = if recorded { denied } else { Denied::NotRecorded };
    if matches!(denied, Denied::NotRecorded) {
        site.session.stop();
    }
    denied.response()
}

/// A request that has passed the checks of its head.
struct Request<'r> {
    site: &'r Arc<Site>,
    control: &'r Control,
    by: Principal<'r>,
    head: &'r Parts,
}

impl Request<'_> {
    async fn carry_out(&self, resource: &Resource, body: &mut Inbound) -> Result<Response<Payload>, Denied> {
        match resource {
            Resource::Whole => {
                let bytes = self.site.overview.of(self.control, &self.site.session.info().session);
                Ok(payload::text(StatusCode::OK, "application/json", bytes))
            }
            Resource::Events => {
                let watch = Watch::new(self.control, self.site);
                Ok(payload::events(Source::Control(watch)))
            }
            Resource::Setting(name) => self.set(name, body).await,
            Resource::Secret(name) if self.head.method == Method::PUT => self.inject(name, body).await,
            Resource::Secret(name) => {
                self.control.forget_secret(self.by, name)?;
                Ok(done(&json!({"name": name, "set": false})))
            }
        }
    }

    async fn set(&self, name: &str, body: &mut Inbound) -> Result<Response<Payload>, Denied> {
        if body.is_none() {
            return Err(Denied::MissingBody);
        }
        if !head::is_json(&self.head.headers) {
            return Err(Denied::MediaType);
        }
        let bytes = body.read_small(head::SETTING_BODY, self.site.limits.receive).await?;
        if bytes.is_empty() {
            return Err(Denied::MissingBody);
        }
        let value = wanted(&bytes).ok_or(ControlRefusal::InvalidValue(
            "the body of a setting is a JSON object with the new value as its `value`",
        ))?;
        let SettingChange { previous, value } = self.control.set(self.by, name, &value)?;
        Ok(done(&Changed { name, previous, value, applies_from: "next_inference_call" }))
    }

    async fn inject(&self, name: &str, body: &mut Inbound) -> Result<Response<Payload>, Denied> {
        if body.is_none() {
            return Err(Denied::MissingBody);
        }
        let bytes = body.read_small(head::SECRET_BODY, self.site.limits.receive).await?;
        if bytes.is_empty() {
            return Err(Denied::MissingBody);
        }
        // Of the value's own length, so that no more than that is kept.
        let value = std::str::from_utf8(&bytes).map_err(|_| {
            ControlRefusal::InvalidValue("a secret is one or more characters of visible ASCII and spaces")
        })?;
        let replaced = self.control.put_secret(self.by, name, Secret::new(value.to_owned()))?;
        Ok(done(&json!({"name": name, "set": true, "replaced": replaced})))
    }
}

/// What a setting's change is answered with.
#[derive(Serialize)]
struct Changed<'a> {
    name: &'a str,
    previous: Value,
    value: Value,
    applies_from: &'static str,
}

fn done(answer: &impl Serialize) -> Response<Payload> {
    payload::json(StatusCode::OK, "application/json", answer)
}

#[derive(Deserialize)]
struct Wanted {
    value: Value,
}

/// The value that the body of a setting asks for. One that stands there twice is none.
fn wanted(body: &[u8]) -> Option<Value> {
    // The list `[1]` would do for the object as well.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let wanted: Wanted = serde_json::from_slice(body).ok().filter(|_| is_object)?;
    Some(wanted.value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{is_under, wanted};

    #[test]
    fn the_surface_is_below_its_name_and_nowhere_else() {
        for path in ["/control", "/control/", "/control/x/y", "/control//"] {
            assert!(is_under(path), "{path}");
        }
        for path in ["/", "/controls", "/control.json", "/Control", "//control", "/%63ontrol", "*", ""] {
            assert!(!is_under(path), "{path}");
        }
    }

    #[test]
    fn a_body_asks_for_one_value() {
        for (body, expected) in [
            (r#"{"value":5}"#, Some(json!(5))),
            (" \n{\"other\":[1],\"value\":null}", Some(json!(null))),
            (r#"{"value":1,"value":2}"#, None),
            (r#"{"Value":1}"#, None),
            (r#"[1]"#, None),
            ("5", None),
            ("{}", None),
            (r#"{"value":1} x"#, None),
            (r#"{"value":"#, None),
            ("", None),
        ] {
            assert_eq!(wanted(body.as_bytes()), expected, "{body}");
        }
        assert_eq!(wanted(b"{\"value\":\"\xff\"}"), None);
    }
}
