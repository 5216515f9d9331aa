//! What a hostile-strict vendor would refuse.
//!
//! Stricter than the real ones on purpose: the vendors forgive what compatible servers do not. Each
//! check returns the sentence that the 400 carries, with the path of the offending value.

mod anthropic;
mod openai;

use http::HeaderMap;
use serde_json::{Map, Value};

/// Which vendor's form a request speaks, known by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireForm {
    /// `…/v1/messages`.
    Anthropic,
    /// `…/chat/completions`.
    OpenAi,
}

impl WireForm {
    pub(crate) fn of(path: &str) -> Option<Self> {
        if path.ends_with("/v1/messages") {
            Some(Self::Anthropic)
        } else if path.ends_with("/chat/completions") {
            Some(Self::OpenAi)
        } else {
            None
        }
    }
}

/// A refusal: the status and the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
}

pub(crate) fn check(wire: WireForm, headers: &HeaderMap, body: &Value, key: Option<&str>) -> Result<(), Refusal> {
    authorize(wire, headers, key).map_err(|message| Refusal { status: 401, message })?;
    let checked = media_type(headers).and_then(|()| match wire {
        WireForm::Anthropic => anthropic::check(headers, body),
        WireForm::OpenAi => openai::check(body),
    });
    checked.map_err(|message| Refusal { status: 400, message })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.to_str().map_err(|_| format!("header {name} is not text")));
    if values.next().is_some() {
        return Err(format!("header {name} stands twice"));
    }
    first.transpose()
}

fn authorize(wire: WireForm, headers: &HeaderMap, key: Option<&str>) -> Result<(), String> {
    let given = match (wire, header(headers, "x-api-key")?) {
        (WireForm::Anthropic, Some(given)) => Some(given),
        (WireForm::OpenAi, Some(_)) => {
            return Err("x-api-key does not belong to this API".to_owned());
        }
        (_, None) => header(headers, "authorization")?
            .map(|value| value.strip_prefix("Bearer ").ok_or("authorization is not a bearer token"))
            .transpose()?,
    };
    match (key, given) {
        (Some(key), Some(given)) if key == given => Ok(()),
        (Some(_), Some(_)) => Err("invalid API key".to_owned()),
        (Some(_), None) => Err("no API key was sent".to_owned()),
        (None, Some(_)) => Err("this server is keyless, and a key was sent".to_owned()),
        (None, None) => Ok(()),
    }
}

fn media_type(headers: &HeaderMap) -> Result<(), String> {
    match header(headers, "content-type")? {
        Some("application/json") => Ok(()),
        other => Err(format!("content-type is {other:?}, not application/json")),
    }
}

type Object = Map<String, Value>;

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Object, String> {
    value.as_object().ok_or_else(|| format!("{at}: not an object"))
}

fn array<'a>(value: &'a Value, at: &str) -> Result<&'a Vec<Value>, String> {
    value.as_array().ok_or_else(|| format!("{at}: not an array"))
}

fn field<'a>(map: &'a Object, name: &str, at: &str) -> Result<&'a Value, String> {
    map.get(name).ok_or_else(|| format!("{at}.{name}: field required"))
}

fn text<'a>(map: &'a Object, name: &str, at: &str) -> Result<&'a str, String> {
    field(map, name, at)?.as_str().ok_or_else(|| format!("{at}.{name}: not a string"))
}

fn only(map: &Object, allowed: &[&str], at: &str) -> Result<(), String> {
    match map.keys().find(|key| !allowed.contains(&key.as_str())) {
        Some(key) => Err(format!("{at}.{key}: extra inputs are not permitted")),
        None => Ok(()),
    }
}

fn positive(map: &Object, name: &str, at: &str) -> Result<(), String> {
    match field(map, name, at)?.as_u64() {
        Some(1..) => Ok(()),
        _ => Err(format!("{at}.{name}: not a positive integer")),
    }
}

/// Names and ids: `^[a-zA-Z0-9_-]{1,limit}$`.
fn word(value: &str, limit: usize, at: &str) -> Result<(), String> {
    let fits = (1..=limit).contains(&value.len())
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if fits { Ok(()) } else { Err(format!("{at}: `{value}` does not match ^[a-zA-Z0-9_-]{{1,{limit}}}$")) }
}

fn object_schema(schema: &Value, at: &str) -> Result<(), String> {
    match object(schema, at)?.get("type").and_then(Value::as_str) {
        Some("object") => Ok(()),
        _ => Err(format!("{at}.type: must be `object`")),
    }
}

fn base64(data: &str, at: &str) -> Result<(), String> {
    let trimmed = data.trim_end_matches('=');
    let fits = !trimmed.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - trimmed.len() <= 2
        && trimmed.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'));
    if fits { Ok(()) } else { Err(format!("{at}: not base64")) }
}

const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
