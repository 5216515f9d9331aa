//! `POST /`: JSON-RPC, in which A2A 1.0, A2A 0.3 and our own methods are told apart by their names.
//!
//! A request without an `id` is refused and not carried out: A2A knows no notifications, and a task whose
//! id nobody learns is nobody's. A batch is refused as well.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::TOOL_RESULTS_EXTENSION;
use crate::auth::{Sender, one};
use crate::body::Inbound;
use crate::calls::{Asked, Call, Given};
use crate::fault::{Fault, Kind};
use crate::params::Params;
use crate::payload::{self, Payload, Source};
use crate::refusal::Refusal;
use crate::shape::Form;
use crate::site::Site;

/// Bytes of an id, as JSON.
const LONGEST_ID: usize = 1024;

/// Whose word a method is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tongue {
    V1,
    V03,
    Own,
}

const METHODS: &[(&str, Tongue, Call)] = &[
    ("SendMessage", Tongue::V1, Call::Send),
    ("SendStreamingMessage", Tongue::V1, Call::Stream),
    ("GetTask", Tongue::V1, Call::Get),
    ("ListTasks", Tongue::V1, Call::List),
    ("CancelTask", Tongue::V1, Call::Cancel),
    ("SubscribeToTask", Tongue::V1, Call::Subscribe),
    ("GetExtendedAgentCard", Tongue::V1, Call::ExtendedCard),
    ("CreateTaskPushNotificationConfig", Tongue::V1, Call::Push),
    ("GetTaskPushNotificationConfig", Tongue::V1, Call::Push),
    ("ListTaskPushNotificationConfigs", Tongue::V1, Call::Push),
    ("DeleteTaskPushNotificationConfig", Tongue::V1, Call::Push),
    ("message/send", Tongue::V03, Call::Send),
    ("message/stream", Tongue::V03, Call::Stream),
    ("tasks/get", Tongue::V03, Call::Get),
    ("tasks/cancel", Tongue::V03, Call::Cancel),
    ("tasks/resubscribe", Tongue::V03, Call::Subscribe),
    ("tasks/pushNotificationConfig/set", Tongue::V03, Call::Push),
    ("tasks/pushNotificationConfig/get", Tongue::V03, Call::Push),
    ("tasks/pushNotificationConfig/list", Tongue::V03, Call::Push),
    ("tasks/pushNotificationConfig/delete", Tongue::V03, Call::Push),
    ("agent/getAuthenticatedExtendedCard", Tongue::V03, Call::ExtendedCard),
    ("stream/watch", Tongue::Own, Call::Watch),
    ("session/stop", Tongue::Own, Call::Stop),
];

/// The members of a request, as they came.
#[derive(Deserialize, Default)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
}

/// So that `null` is not the same as nothing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A request that was read: its method, parameters and id.
struct Request {
    tongue: Tongue,
    call: Call,
    params: Map<String, Value>,
}

pub(crate) async fn answer(
    site: &Arc<Site>,
    sender: Sender,
    head: &Parts,
    body: &mut Inbound,
) -> Result<Response<Payload>, Refusal> {
    let read = body.read(site, sender.caller, &head.headers).await?;
    let version = version(head);
    let detailed = version.as_deref().is_some_and(|version| version.starts_with('1'));
    let envelope = match envelope(&read.bytes) {
        Ok(envelope) => envelope,
        Err(fault) => return Ok(failed("null", &fault, detailed)),
    };
    let id = envelope.id.filter(|id| is_id(id.get())).map_or("null", RawValue::get);
    let id: Arc<str> = id.into();
    let request = match request(&envelope, version.as_deref()) {
        Ok(request) => request,
        Err(fault) => return Ok(failed(&id, &fault, detailed)),
    };
    drop(read);
    if !request.call.allows(sender.caller) {
        return Err(Refusal::Forbidden);
    }
    let tools = request.tongue == Tongue::V1 && names_extension(&head.headers);
    let form = if request.tongue == Tongue::V1 { Form::V1 { tools } } else { Form::V03 };
    let asked = Asked {
        site,
        sender,
        form,
        frames: speaks_frames(&request, version.as_deref()),
        id: Some(Arc::clone(&id)),
        seen: one(&head.headers, "last-event-id").map(str::to_owned),
        params: Params::new(request.params),
    };
    let mut response = match asked.carry_out(request.call).await {
        Ok(Given::Whole(bytes)) => payload::whole(site, "application/json", bytes),
        Ok(Given::Stream(feed)) => payload::events(Source::Frames(feed)),
        Err(fault) => failed(&id, &fault, form != Form::V03),
    };
    if tools {
        echo_extension(&mut response);
    }
    Ok(response)
}

/// Whether a stream is of our own frames: always on our own methods, and for whoever sends a message that
/// does not say what it is.
fn speaks_frames(request: &Request, version: Option<&str>) -> bool {
    let kind = request.params.get("message").and_then(|message| message.get("kind"));
    match (request.tongue, request.call) {
        (Tongue::Own, _) => true,
        (Tongue::V03, Call::Stream) => version.is_none() && kind.and_then(Value::as_str) != Some("message"),
        _ => false,
    }
}

fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, Fault> {
    let broken = |error: &dyn std::fmt::Display| Fault::new(Kind::Parse, format!("the body is not JSON: {error}"));
    let text = std::str::from_utf8(bytes).map_err(|error| broken(&error))?;
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| broken(&error))?;
    match whole.get().as_bytes().first() {
        Some(b'{') => serde_json::from_str(whole.get()).map_err(|error| {
            // The text is JSON: what is left is a member that stands there twice.
            Fault::new(Kind::InvalidRequest, format!("the request is no JSON-RPC request: {error}"))
        }),
        Some(b'[') => Err(Fault::new(Kind::InvalidRequest, "batches are not taken: send one request at a time")),
        _ => Err(Fault::new(Kind::InvalidRequest, "a request is a JSON object")),
    }
}

fn request(envelope: &Envelope<'_>, version: Option<&str>) -> Result<Request, Fault> {
    let invalid = |message: &str| Fault::new(Kind::InvalidRequest, message);
    let text = |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    if text(envelope.jsonrpc).as_deref() != Some("2.0") {
        return Err(invalid("`jsonrpc` must be \"2.0\""));
    }
    match envelope.id {
        None => return Err(invalid("`id` is missing: notifications are not taken")),
        Some(id) if !is_id(id.get()) => {
            return Err(invalid("`id` must be a string, a number or null, and no longer than 1 KiB"));
        }
        Some(_) => {}
    }
    let method = text(envelope.method).ok_or_else(|| invalid("`method` must be a string"))?;
    let known = METHODS.iter().find(|(name, ..)| *name == method);
    if let Some(version) = version.filter(|version| !matches!(*version, "1.0" | "0.3")) {
        return Err(unsupported(version));
    }
    let Some((_, tongue, call)) = known.copied() else {
        let shown: String = method.escape_debug().take(80).collect();
        return Err(Fault::new(Kind::MethodNotFound, format!("there is no method `{shown}`")));
    };
    match (tongue, version) {
        (Tongue::V1, Some("1.0")) | (Tongue::V03, None | Some("0.3")) | (Tongue::Own, _) => {}
        (Tongue::V1, _) => {
            let message = format!("`{method}` is a method of A2A 1.0: send the header `A2A-Version: 1.0`");
            return Err(Fault::new(Kind::Version, message));
        }
        (Tongue::V03, _) => {
            return Err(Fault::new(Kind::MethodNotFound, format!("`{method}` is a method of A2A 0.3, not of 1.0")));
        }
    }
    let params = match envelope.params.map(|raw| serde_json::from_str(raw.get())) {
        None | Some(Ok(Value::Null)) => Map::new(),
        Some(Ok(Value::Object(params))) => params,
        Some(Ok(_)) => return Err(Fault::params("`params` must be an object")),
        // A number that no JSON reader of ours can hold, or a nesting without end.
        Some(Err(error)) => return Err(Fault::params(format!("`params` cannot be read: {error}"))),
    };
    Ok(Request { tongue, call, params })
}

/// Every event of a stream repeats it, so it is short.
fn is_id(json: &str) -> bool {
    let is_scalar = |first: char| first == '"' || first == '-' || first.is_ascii_digit();
    json.len() <= LONGEST_ID && (json == "null" || json.starts_with(is_scalar))
}

/// The version that a client says it speaks, in a header or, where it cannot set one, in the query; only
/// its first two numbers count.
pub(crate) fn version(head: &Parts) -> Option<String> {
    let query = || {
        let pairs = head.uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| name.eq_ignore_ascii_case("a2a-version")).map(|(_, value)| value).next()
    };
    let mut headers = head.headers.get_all("a2a-version").iter();
    let said = match (headers.next(), headers.next()) {
        (None, _) => query().unwrap_or_default().to_owned(),
        (Some(value), None) => String::from_utf8_lossy(value.as_bytes()).into_owned(),
        (Some(_), Some(_)) => "two".to_owned(),
    };
    let said = said.trim();
    let mut numbers = said.splitn(3, '.');
    let short = match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => format!("{major}.{minor}"),
        _ => said.to_owned(),
    };
    (!said.is_empty()).then_some(short)
}

/// A version that nobody here speaks.
pub(crate) fn unsupported(version: &str) -> Fault {
    let shown: String = version.escape_debug().take(40).collect();
    Fault::new(Kind::Version, format!("A2A `{shown}` is not spoken here: it is 1.0 and 0.3"))
}

/// Whether the client named our extension.
pub(crate) fn names_extension(headers: &HeaderMap) -> bool {
    let lines = headers.get_all("a2a-extensions").iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|uri| uri.trim() == TOOL_RESULTS_EXTENSION)
}

pub(crate) fn echo_extension(response: &mut Response<Payload>) {
    let (name, uri) = (HeaderName::from_static("a2a-extensions"), HeaderValue::from_static(TOOL_RESULTS_EXTENSION));
    response.headers_mut().insert(name, uri);
}

fn failed(id: &str, fault: &Fault, detailed: bool) -> Response<Payload> {
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{}}}", fault.rpc(detailed));
    payload::text(StatusCode::OK, "application/json", text.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{envelope, request};

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = envelope(&bytes).map(|envelope| request(&envelope, None).is_ok());
        }

        #[test]
        fn members_come_in_any_order_with_others_between(
            id in "(null|-?[1-9][0-9]{0,30}|\"[a-z\\u{e9}]{0,9}\")",
            order in Just(vec!["jsonrpc", "id", "method", "params", "x"]).prop_shuffle(),
        ) {
            let member = |name: &str| match name {
                "jsonrpc" => r#""jsonrpc": "2.0""#.to_owned(),
                "id" => format!(r#""id":{id}"#),
                "method" => r#""method":"tasks\u002fget""#.to_owned(),
                "params" => r#""params":{"id":"x"}"#.to_owned(),
                _ => r#""x":[{"id":1}]"#.to_owned(),
            };
            let text = format!(" {{{}}}\n", order.iter().map(|name| member(name)).collect::<Vec<_>>().join(" ,"));
            let envelope = envelope(text.as_bytes()).map_err(|fault| TestCaseError::fail(fault.message))?;
            prop_assert_eq!(envelope.id.map(|raw| raw.get()), Some(id.as_str()));
            prop_assert!(request(&envelope, None).is_ok());
        }
    }
}
