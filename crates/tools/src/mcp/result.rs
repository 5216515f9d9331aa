//! A tool's outcome as the model reads it.
//!
//! Everything in it is the server's word and goes into one fence. Text is never cut where a cut could go through a
//! value that is marked as secret: such a result is withheld, because what would be left could not be recognised.

use mcp::{CallOutcome, Part};
use policy::{ClearedCall, Facts, RawPart, RawResult};
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

/// The result of a call.
pub(super) fn result_of(outcome: CallOutcome, call: &ClearedCall, redactor: &Redactor) -> RawResult {
    let CallOutcome { parts, structured, is_error } = outcome;
    let structured = structured.filter(|value| !value.is_null() && !says(&parts, value));
    let mut images = 0;
    let mut shown: Vec<RawPart> = parts.into_iter().map(|part| raw(part, &mut images)).collect();
    shown.extend(structured.map(|value| RawPart::Text(value.to_string())));
    if shown.is_empty() {
        let words = if is_error { "the tool failed without a word" } else { "the tool ended without a word" };
        shown.push(RawPart::Text(words.to_owned()));
    }
    let length: usize = shown.iter().map(text).map(str::len).sum();
    if length <= SHOWN {
        return RawResult::of_parts(shown, is_error);
    }
    let connection = call.connection();
    let may_hold_secrets = connection.adapter.is_some()
        || connection.secret_rules.iter().any(|rule| rule.tool == call.tool())
        || shown.iter().any(|part| MARKS.iter().any(|mark| text(part).contains(mark)));
    if may_hold_secrets {
        let length = bytes(u64::try_from(length).unwrap_or(u64::MAX));
        return RawResult::error(format!(
            "the result is withheld: it may hold protected values and is too long to be shown whole ({length})"
        ))
        .with_facts(Facts { truncated: true, ..Facts::default() });
    }
    RawResult::of_parts(cut(shown, redactor), is_error).with_facts(Facts { truncated: true, ..Facts::default() })
}

/// Whether the text says the same already.
fn says(parts: &[Part], structured: &Value) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(text) => serde_json::from_str::<Value>(text).is_ok_and(|said| said == *structured),
        _ => false,
    })
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
