//! What a tool returned.
//!
//! Everything in here is a foreign program's text and not fenced, not redacted and not checked against the
//! tool's output schema: whoever shows it does that. It is read leniently, as servers write it; what is no
//! result at all is an error, and so is one that is too large to be handed on.

use serde_json::{Map, Value};

use crate::error::{Error, Step};

/// A tool's result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallOutcome {
    /// What is to be read, in the server's order.
    pub parts: Vec<Part>,
    /// The same for programs.
    pub structured: Option<Value>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
}

/// A part of a result. Media types and addresses are the server's word.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, in base64 that was not decoded.
    Image {
        /// Its media type.
        media_type: String,
        /// Base64.
        data: String,
    },
    /// Sound, in base64 that was not decoded.
    Audio {
        /// Its media type.
        media_type: String,
        /// Base64.
        data: String,
    },
    /// The address of a resource, which was not fetched.
    Link {
        /// The address.
        uri: String,
        /// Its name.
        name: String,
        /// What it is.
        description: Option<String>,
        /// Its media type.
        media_type: Option<String>,
    },
    /// A resource as text.
    TextResource {
        /// Its address.
        uri: String,
        /// Its media type.
        media_type: Option<String>,
        /// The text.
        text: String,
    },
    /// A resource as bytes, in base64 that was not decoded.
    BinaryResource {
        /// Its address.
        uri: String,
        /// Its media type.
        media_type: Option<String>,
        /// Base64.
        data: String,
    },
    /// A part of a kind that is not known here.
    Other(Value),
}

impl CallOutcome {
    /// Reads a result of `tools/call`.
    pub(crate) fn read(result: Value, max_bytes: usize) -> Result<Self, Error> {
        let malformed = |what| Error::Malformed { step: Step::Call, what };
        if weight(&result) > max_bytes {
            let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX);
            return Err(Error::TooLarge { step: Step::Call, what: "the result in bytes", limit });
        }
        let Value::Object(mut result) = result else { return Err(malformed("it is no object")) };
        match result.get("resultType").and_then(Value::as_str) {
            None | Some("complete") => {}
            Some("input_required") => return Err(Error::Unsupported { what: "input" }),
            Some(_) => return Err(Error::Unsupported { what: "something unknown" }),
        }
        let parts = match result.remove("content") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(parts)) => parts.into_iter().map(part).collect(),
            Some(_) => return Err(malformed("its content is no list")),
        };
        let structured = result.remove("structuredContent");
        let is_error = match result.remove("isError") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(is_error)) => is_error,
            Some(_) => return Err(malformed("`isError` is neither true nor false")),
        };
        Ok(Self { parts, structured, is_error })
    }
}

fn part(value: Value) -> Part {
    match value {
        Value::Object(map) => known(&map).unwrap_or(Part::Other(Value::Object(map))),
        other => Part::Other(other),
    }
}

fn known(map: &Map<String, Value>) -> Option<Part> {
    let media_type = |map: &Map<String, Value>| text(map, "mimeType");
    Some(match map.get("type")?.as_str()? {
        "text" => Part::Text(text(map, "text")?),
        "image" => Part::Image { media_type: media_type(map)?, data: text(map, "data")? },
        "audio" => Part::Audio { media_type: media_type(map)?, data: text(map, "data")? },
        "resource_link" => Part::Link {
            uri: text(map, "uri")?,
            name: text(map, "name").unwrap_or_default(),
            description: text(map, "description"),
            media_type: media_type(map),
        },
        "resource" => {
            let resource = map.get("resource")?.as_object()?;
            let (uri, media_type) = (text(resource, "uri")?, media_type(resource));
            match text(resource, "text") {
                Some(text) => Part::TextResource { uri, media_type, text },
                None => Part::BinaryResource { uri, media_type, data: text(resource, "blob")? },
            }
        }
        _ => return None,
    })
}

fn text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key)?.as_str().map(str::to_owned)
}

/// About the bytes of a value as JSON.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
        Value::String(text) => text.len() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_of_part() {
        let result = json!({"resultType": "complete", "isError": true, "structuredContent": null, "_meta": {}, "content": [
            {"type": "text", "text": "a", "annotations": {"audience": ["user"]}},
            {"type": "image", "mimeType": "image/png", "data": "aQ=="},
            {"type": "audio", "mimeType": "audio/wav", "data": "aQ=="},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain", "description": "d"},
            {"type": "resource", "resource": {"uri": "demo://a", "mimeType": "text/plain", "text": "b"}},
            {"type": "resource", "resource": {"uri": "demo://b", "blob": "aQ=="}},
            {"type": "hologram", "x": 1},
            {"type": "image", "data": "aQ=="},
            "bare",
        ]});
        let plain = || Some("text/plain".to_owned());
        let expected = CallOutcome {
            parts: vec![
                Part::Text("a".into()),
                Part::Image { media_type: "image/png".into(), data: "aQ==".into() },
                Part::Audio { media_type: "audio/wav".into(), data: "aQ==".into() },
                Part::Link {
                    uri: "file:///a".into(),
                    name: "a".into(),
                    description: Some("d".into()),
                    media_type: plain(),
                },
                Part::TextResource { uri: "demo://a".into(), media_type: plain(), text: "b".into() },
                Part::BinaryResource { uri: "demo://b".into(), media_type: None, data: "aQ==".into() },
                Part::Other(json!({"type": "hologram", "x": 1})),
                Part::Other(json!({"type": "image", "data": "aQ=="})),
                Part::Other(json!("bare")),
            ],
            structured: Some(Value::Null),
            is_error: true,
        };
        assert_eq!(CallOutcome::read(result, 10_000).unwrap(), expected);
    }

    #[test]
    fn an_empty_result_is_one_and_nonsense_is_none() {
        assert_eq!(CallOutcome::read(json!({}), 100).unwrap(), CallOutcome::default());
        let refused = |result: Value| CallOutcome::read(result, 100).unwrap_err().to_string();
        assert_eq!(refused(json!([])), "the server's answer to the call is malformed: it is no object");
        assert_eq!(
            refused(json!({"content": "a"})),
            "the server's answer to the call is malformed: its content is no list"
        );
        assert_eq!(
            refused(json!({"isError": "yes"})),
            "the server's answer to the call is malformed: `isError` is neither true nor false"
        );
        assert_eq!(
            refused(json!({"resultType": "input_required", "inputRequests": {}})),
            "the server asks for input before it answers, which is not supported"
        );
        assert_eq!(
            refused(json!({"content": [{"type": "text", "text": "x".repeat(100)}]})),
            "the result in bytes is larger than the 100 that are taken"
        );
    }
}
