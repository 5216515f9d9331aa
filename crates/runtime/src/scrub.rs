//! A model's answer without what the session keeps secret, before anything is done with it.
//!
//! A model is given no secret, so one in its answer came by a leak or by chance. It must reach neither a
//! record nor the next request, and the two must stay the same. A call whose input holds one does not run:
//! running it with the value would spend a secret, running it without would do something else.

use fence::{ModelText, Unfenced};
use secrets::Redactor;
use vocab::{Arguments, MessageId, Part, ToolCall};

const SECRET_INPUT: &str = "its input holds a value that this session keeps secret";

/// The parts, clean. Reasoning that held a secret is left out: its provider would refuse it changed.
pub(crate) fn scrub(parts: Vec<Part>, redactor: &Redactor) -> Vec<Part> {
    parts.into_iter().filter_map(|part| clean(part, redactor)).collect()
}

fn clean(part: Part, redactor: &Redactor) -> Option<Part> {
    match part {
        Part::Text(text) if redactor.is_clean(text.as_str()) => Some(Part::Text(text)),
        Part::Text(text) => {
            let text = redactor.redact(text.as_str()).into_string();
            Some(Part::Text(ModelText::unfenced(Unfenced::Model, text)))
        }
        Part::Thinking(thinking) => {
            let pieces = [Some(&thinking.text), thinking.signature.as_ref(), thinking.redacted.as_ref()];
            let is_clean = pieces.into_iter().flatten().all(|piece| redactor.is_clean(piece));
            is_clean.then_some(Part::Thinking(thinking))
        }
        Part::ToolCall(call) => Some(Part::ToolCall(clean_call(call, redactor))),
        Part::Image { .. } => Some(part),
    }
}

fn clean_call(call: ToolCall, redactor: &Redactor) -> ToolCall {
    let id = if redactor.is_clean(&call.id) { call.id } else { format!("call_{}", MessageId::new()) };
    let name = redactor.redact_owned(call.name).into_string();
    let arguments = match call.arguments {
        Arguments::Object(map) => {
            let text = serde_json::to_string(&map).unwrap_or_default();
            if redactor.is_clean(&text) {
                Arguments::Object(map)
            } else {
                Arguments::Malformed { raw: redactor.redact(&text).into_string(), reason: SECRET_INPUT.to_owned() }
            }
        }
        Arguments::Malformed { raw, reason } => {
            Arguments::Malformed { raw: redactor.redact_owned(raw).into_string(), reason }
        }
    };
    ToolCall { id, name, arguments }
}
