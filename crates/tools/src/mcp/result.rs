//! A tool's outcome as the model reads it.
//!
//! Everything in it is the server's word and goes into one fence. Text is never cut where a cut could go through a
//! value that is marked as secret: such a result is withheld, because what would be left could not be recognised.

use mcp::{CallOutcome, Part};
use policy::{ClearedCall, RawPart, RawResult};
use secrets::Redactor;
use serde_json::Value;

use crate::show::bytes;

/// Bytes of text that a result shows.
const SHOWN: usize = 256 * 1024;
/// Images that a result shows.
const IMAGES: usize = 16;
/// Bytes of one image in base64: what providers of models take.
const IMAGE: usize = 5 * 1024 * 1024;
/// The kinds of images that every provider of models takes.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// What stands in every envelope of a value that is marked as secret.
const MARKS: [&str; 2] = ["burrowSensitive", "burrowManaged"];

/// The result of a call, and whether it shows less than there was.
pub(super) fn result_of(outcome: CallOutcome, call: &ClearedCall, redactor: &Redactor) -> (RawResult, bool) {
    let CallOutcome { parts, structured, is_error } = outcome;
    let connection = call.connection();
    let has_rules = connection.adapter.is_some() || connection.secret_rules.iter().any(|rule| rule.tool == call.tool());
    let structured = structured.filter(|value| !value.is_null() && !says(&parts, value, has_rules));
    let mut images = 0;
    let mut shown: Vec<RawPart> = parts.into_iter().map(|part| raw(part, &mut images)).collect();
    shown.extend(structured.map(|value| RawPart::Text(value.to_string())));
    if shown.is_empty() {
        let words = if is_error { "the tool failed without a word" } else { "the tool ended without a word" };
        shown.push(RawPart::Text(words.to_owned()));
    }
    match bounded(shown, has_rules, redactor) {
        Ok((shown, truncated)) => (RawResult::of_parts(shown, is_error), truncated),
        Err(length) => {
            let words = format!(
                "the result is withheld: it may hold protected values and is too long to be shown whole ({})",
                bytes(length)
            );
            (RawResult::error(words), true)
        }
    }
}

/// As much of it as is shown, and whether something is left out; its size when it is to be withheld. `has_rules` says
/// that something in it is secret by the way that it is formed.
fn bounded(shown: Vec<RawPart>, has_rules: bool, redactor: &Redactor) -> Result<(Vec<RawPart>, bool), u64> {
    let length: usize = shown.iter().map(text).map(str::len).sum();
    if length <= SHOWN {
        return Ok((shown, false));
    }
    let may_hold_secrets = has_rules || shown.iter().any(|part| MARKS.iter().any(|mark| text(part).contains(mark)));
    if may_hold_secrets {
        return Err(u64::try_from(length).unwrap_or(u64::MAX));
    }
    Ok((cut(shown, redactor), true))
}

/// Whether the text says the same already: as a whole, or what stands in the one member `result` into which some servers
/// put what is no object, a list with a text for each. Rules about secrets speak of the whole, which is shown then.
fn says(parts: &[Part], structured: &Value, has_rules: bool) -> bool {
    let mut texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    if texts.clone().any(|text| serde_json::from_str::<Value>(text).is_ok_and(|said| is_alike(&said, structured))) {
        return true;
    }
    let wrapped = structured.as_object().filter(|map| map.len() == 1 && !has_rules).and_then(|map| map.get("result"));
    let Some(wrapped) = wrapped else { return false };
    let is_said = |text: &str, value: &Value| {
        value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|said| is_alike(&said, value))
    };
    match wrapped {
        Value::Array(items) if texts.clone().count() == items.len() => {
            texts.zip(items).all(|(text, item)| is_said(text, item))
        }
        one => texts.any(|text| is_said(text, one)),
    }
}

/// Whether two values are the same, however their numbers are written.
fn is_alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| is_alike(value, other)))
        }
        _ => one == other,
    }
}

fn text(part: &RawPart) -> &str {
    match part {
        RawPart::Text(text) => text,
        RawPart::Image { .. } => "",
    }
}

fn raw(part: Part, images: &mut usize) -> RawPart {
    let kind = |media_type: Option<String>| media_type.map(|kind| format!(" ({kind})")).unwrap_or_default();
    RawPart::Text(match part {
        Part::Text(text) => text,
        Part::Image { media_type, data } => {
            if *images < IMAGES && is_image(&media_type, &data) {
                *images += 1;
                return RawPart::Image { media_type, data };
            }
            format!("[image {media_type}, {}: not shown]", bytes(decoded(&data)))
        }
        Part::Audio { media_type, data } => format!("[audio {media_type}, {}: not shown]", bytes(decoded(&data))),
        Part::Link { uri, name, description, media_type } => {
            let description = description.map(|text| format!(": {text}")).unwrap_or_default();
            format!("[resource `{name}` at {uri}{}{description}]", kind(media_type))
        }
        Part::TextResource { uri, media_type, text } => format!("[resource {uri}{}]\n{text}", kind(media_type)),
        Part::BinaryResource { uri, media_type, data } => {
            format!("[resource {uri}{}, {}: not shown]", kind(media_type), bytes(decoded(&data)))
        }
        Part::Other(value) => value.to_string(),
    })
}

/// Whether a provider of models can take it: a request with one that it cannot fails as a whole.
fn is_image(media_type: &str, data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    IMAGE_TYPES.contains(&media_type)
        && !digits.is_empty()
        && data.len() <= IMAGE
        && data.len().is_multiple_of(4)
        && data.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

/// The size of what base64 stands for.
fn decoded(data: &str) -> u64 {
    let digits = data.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count();
    u64::try_from(digits).unwrap_or(u64::MAX).saturating_mul(3) / 4
}

/// As much as is shown: the beginning, and a word about the rest. Known secrets are replaced before, for a cut could go
/// through one.
fn cut(parts: Vec<RawPart>, redactor: &Redactor) -> Vec<RawPart> {
    let mut room = SHOWN;
    let mut left_out = 0;
    let mut shown = Vec::with_capacity(parts.len());
    for part in parts {
        let RawPart::Text(text) = part else {
            shown.push(part);
            continue;
        };
        let mut text = redactor.redact_owned(text).into_string();
        let end = text.floor_char_boundary(room);
        left_out += text.len() - end;
        room -= end;
        text.truncate(end);
        if !text.is_empty() {
            shown.push(RawPart::Text(text));
        }
    }
    let left_out = bytes(u64::try_from(left_out).unwrap_or(u64::MAX));
    shown.push(RawPart::Text(format!("[... {left_out} left out ...]")));
    shown
}

#[cfg(test)]
mod tests {
    use secrets::Secret;
    use serde_json::json;

    use super::*;

    fn texts(parts: &[&str]) -> Vec<RawPart> {
        parts.iter().map(|text| RawPart::Text((*text).to_owned())).collect()
    }

    #[test]
    fn a_result_of_the_cap_is_whole_and_a_longer_one_is_cut_but_never_where_a_secret_may_be() {
        let redactor = Redactor::new();
        let (full, mark) = ("x".repeat(SHOWN), r#"{"$burrowSensitive": 1}"#);
        assert_eq!(bounded(texts(&[&full]), true, &redactor), Ok((texts(&[&full]), false)));
        assert_eq!(bounded(texts(&["a", mark]), true, &redactor), Ok((texts(&["a", mark]), false)));
        let cut = texts(&[&full, "[... 1 byte left out ...]"]);
        assert_eq!(bounded(texts(&[&full, "y"]), false, &redactor), Ok((cut, true)));
        assert_eq!(bounded(texts(&[&full, "y"]), true, &redactor), Err(262_145));
        assert_eq!(bounded(texts(&[&full, mark]), false, &redactor), Err(262_144 + 23));
    }

    #[test]
    fn no_cut_goes_through_a_known_secret_or_a_character() {
        let redactor = Redactor::new();
        redactor.learn(&Secret::new("hunter2-hunter2".to_owned()));
        let before = "x".repeat(SHOWN - 11);
        let (shown, _) =
            bounded(texts(&[&format!("{before}hunter2-hunter2 and more"), "ü"]), false, &redactor).unwrap();
        assert_eq!(shown, texts(&[&format!("{before}[redacted] "), "[... 10 bytes left out ...]"]));
        let (shown, _) = bounded(texts(&[&format!("x{}", "ü".repeat(SHOWN / 2))]), false, &redactor).unwrap();
        assert_eq!(shown.first().map(text).map(str::len), Some(SHOWN - 1));
    }

    #[test]
    fn structured_content_is_shown_unless_the_text_says_the_same() {
        let value = json!({"b": [1], "a": "x"});
        let said = |text: &str| says(&[Part::Text("other".into()), Part::Text(text.into())], &value, true);
        let texts = ["{ \"a\": \"x\", \"b\": [1] }", "{\"b\": [1.0], \"a\": \"x\"}", "{\"a\": \"x\"}", "a: x"];
        assert_eq!(texts.map(said), [true, true, false, false]);
    }

    #[test]
    fn what_is_wrapped_only_to_be_an_object_is_shown_once() {
        let parts = |texts: &[&str]| texts.iter().map(|text| Part::Text((*text).to_owned())).collect::<Vec<_>>();
        let cases = [
            (vec!["hello"], json!({"result": "hello"}), true),
            (vec!["3"], json!({"result": 3}), true),
            (vec!["a", "b"], json!({"result": ["a", "b"]}), true),
            (vec!["[\"a\",\"b\"]"], json!({"result": ["a", "b"]}), true),
            (vec!["a", "b"], json!({"result": ["a", "c"]}), false),
            (vec!["a"], json!({"result": ["a", "b"]}), false),
            (vec!["hello"], json!({"result": "hello", "more": 1}), false),
            (vec!["hello"], json!({"answer": "hello"}), false),
        ];
        for (texts, structured, expected) in cases {
            assert_eq!(says(&parts(&texts), &structured, false), expected, "{texts:?} {structured}");
            assert!(!says(&parts(&texts), &structured, true), "{texts:?} {structured}");
        }
    }

    #[test]
    fn only_images_that_providers_take_are_shown() {
        let cases = [
            ("image/png", "iVBORw0KGgo=", true),
            ("image/svg+xml", "iVBORw0KGgo=", false),
            ("image/png", "iVBORw0KGgo", false),
            ("image/png", "iVBOR w0KGg=", false),
            ("image/png", "====", false),
            ("image/png", "", false),
        ];
        for (media_type, data, expected) in cases {
            assert_eq!(is_image(media_type, data), expected, "{media_type} {data}");
        }
        assert!(!is_image("image/png", &"A".repeat(IMAGE + 4)));
        assert_eq!([decoded(""), decoded("YQ=="), decoded("YWJj\n")], [0, 1, 3]);
    }
}
