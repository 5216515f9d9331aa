//! A model's answer without what the session keeps secret, before anything is done with it.
//!
//! A model is given no secret, so one in its answer came by a leak or by chance. It must reach neither a
//! record nor the next request, and the two must stay the same. A call whose input holds one does not run:
//! running it with the value would spend a secret, running it without would do something else.
//!
//! A value may also stand in a conversation before the session learns that it is a secret. So what is kept and sent
//! again is gone through anew once there is a new value; a record that was written before stays as it is.

use std::collections::HashMap;

use fence::{ModelText, Unfenced};
use secrets::Redactor;
use serde_json::{Map, Value};
use vocab::{Arguments, Message, MessageId, Part, Role, ToolCall};

use crate::stream::StreamEvent;

pub(crate) const SECRET_INPUT: &str = "its input holds a value that this session keeps secret";

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

/// Takes out of a history what has become secret since; whether there was anything.
pub(crate) fn history(messages: &mut [Message], redactor: &Redactor) -> bool {
    let mut changed = false;
    let mut renamed: HashMap<String, String> = HashMap::new();
    for message in messages {
        let before = message.content.len();
        message.content.retain_mut(|part| match part {
            Part::Thinking(_) => clean(part.clone(), redactor).is_some(),
            Part::ToolCall(call) => {
                changed |= past_call(call, redactor, &mut renamed);
                true
            }
            Part::Text(_) | Part::Image { .. } => {
                changed |= text_part(part, redactor);
                true
            }
        });
        changed |= message.content.len() < before;
        if before > 0 && message.content.is_empty() && message.role == Role::Assistant {
            // No provider takes a message that says nothing.
            message.content.push(Part::Text(ModelText::unfenced(Unfenced::Model, "[redacted]")));
        }
        if let Some(id) = message.tool_call_id.as_mut()
            && let Some(new) = renamed.get(id)
        {
            id.clone_from(new);
        }
    }
    changed
}

/// A call that was made already: what it was about stays as readable as it can.
fn past_call(call: &mut ToolCall, redactor: &Redactor, renamed: &mut HashMap<String, String>) -> bool {
    let mut changed = text(&mut call.name, redactor);
    if !redactor.is_clean(&call.id) {
        let new = format!("call_{}", MessageId::new());
        renamed.insert(std::mem::replace(&mut call.id, new.clone()), new);
        changed = true;
    }
    changed
        | match &mut call.arguments {
            Arguments::Object(input) => object(input, redactor),
            Arguments::Malformed { raw, .. } => text(raw, redactor),
        }
}

fn object(map: &mut Map<String, Value>, redactor: &Redactor) -> bool {
    let mut changed = false;
    for value in map.values_mut() {
        changed |= json(value, redactor);
    }
    if map.keys().any(|key| !redactor.is_clean(key)) {
        let pairs = std::mem::take(map).into_iter();
        *map = pairs.map(|(key, value)| (redactor.redact_owned(key).into_string(), value)).collect();
        changed = true;
    }
    changed
}

fn json(value: &mut Value, redactor: &Redactor) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => {
            let mut digits = number.to_string();
            let changed = text(&mut digits, redactor);
            if changed {
                *value = Value::String(digits);
            }
            changed
        }
        Value::String(leaf) => text(leaf, redactor),
        Value::Array(values) => values.iter_mut().fold(false, |changed, value| json(value, redactor) | changed),
        Value::Object(map) => object(map, redactor),
    }
}

fn text(text: &mut String, redactor: &Redactor) -> bool {
    let hidden = redactor.redact(text);
    let changed = hidden.count() > 0;
    if changed {
        *text = hidden.into_string();
    }
    changed
}

/// A text part, its markers left alone; whether it held anything.
fn text_part(part: &mut Part, redactor: &Redactor) -> bool {
    let Part::Text(kept) = part else { return false };
    let holds = !redactor.is_clean(kept.as_str());
    if holds {
        *kept = kept.hiding(|piece| redactor.redact(piece).into_string());
    }
    holds
}

/// A frame's event without what has become secret since; nothing when it held none. Pieces of a reply are no matter of
/// one frame.
pub(crate) fn event(event: &StreamEvent, redactor: &Redactor) -> Option<StreamEvent> {
    if said(event).into_iter().all(|text| redactor.is_clean(text)) {
        return None;
    }
    let mut new = event.clone();
    match &mut new {
        StreamEvent::Status { message, response, .. } => {
            for said in [message, response].into_iter().flatten() {
                text(said, redactor);
            }
        }
        StreamEvent::Subagent(progress) => {
            for said in [&mut progress.label, &mut progress.doing].into_iter().flatten() {
                text(said, redactor);
            }
        }
        StreamEvent::Artifact(artifact) => {
            text(&mut artifact.tool_name, redactor);
            for part in &mut artifact.content {
                text_part(part, redactor);
            }
        }
        StreamEvent::ToolCallStarted { tool_name, .. } => {
            text(tool_name, redactor);
        }
        StreamEvent::Text { .. } | StreamEvent::Thinking { .. } | StreamEvent::CapsuleClosed => {}
    }
    Some(new)
}

fn said(event: &StreamEvent) -> Vec<&str> {
    match event {
        StreamEvent::Status { message, response, .. } => {
            [message, response].into_iter().flatten().map(String::as_str).collect()
        }
        StreamEvent::Subagent(progress) => {
            [&progress.label, &progress.doing].into_iter().flatten().map(String::as_str).collect()
        }
        StreamEvent::Artifact(artifact) => {
            let texts = artifact.content.iter().filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Image { .. } | Part::Thinking(_) | Part::ToolCall(_) => None,
            });
            texts.chain([artifact.tool_name.as_str()]).collect()
        }
        StreamEvent::ToolCallStarted { tool_name, .. } => vec![tool_name],
        StreamEvent::Text { .. } | StreamEvent::Thinking { .. } | StreamEvent::CapsuleClosed => Vec::new(),
    }
}
