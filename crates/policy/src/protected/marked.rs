//! A whole result: envelopes first, then what the operator's rules and the provider's adapter know to be secret.

use std::collections::BTreeMap;

use secrets::Secret;

use super::adapter::{self, Answer};
use super::leaves::{Leaf, Node, replaced};
use super::sieve::sift_text;
use super::{ProtectedValues, SensitiveType, Taken, Withholding, mark};
use crate::{Adapter, ClearedCall, RawPart};

/// What stands in place of a provider's own words beside an answer in a known shape.
const OWN_WORDS: &str = "[the provider's own words are withheld]";
/// What servers write where they show no secret.
const NOT_SHOWN: [&str; 3] = ["", "[REDACTED]", "********"];

/// Takes every value out of these parts that is known to be secret.
pub(crate) fn protect_parts(
    parts: &mut [RawPart],
    is_error: bool,
    answered_by: Option<&ClearedCall>,
    (values, taken): (&ProtectedValues, &mut Taken),
) -> Result<(), Withholding> {
    for part in parts.iter_mut() {
        if let RawPart::Text(text) = part {
            *text = sift_text(std::mem::take(text), values, answered_by, taken)?;
        }
    }
    let Some(call) = answered_by else { return Ok(()) };
    for rule in call.connection().secret_rules.iter().filter(|rule| rule.tool == call.tool()) {
        for part in parts.iter_mut() {
            match part {
                RawPart::Text(text) if text.trim().is_empty() => {}
                RawPart::Text(text) => *text = pointed(text, &rule.pointers, (values, taken))?,
                RawPart::Image { .. } => return Err(Withholding::NoJson),
            }
        }
    }
    match call.connection().adapter {
        Some(adapter) => adapted(parts, is_error, (adapter, call.tool()), (values, taken)),
        None => Ok(()),
    }
}

/// Applies an operator's rule. A pointer that finds nothing is none of its business.
fn pointed(text: &str, pointers: &[String], store: (&ProtectedValues, &mut Taken)) -> Result<String, Withholding> {
    let node = Node::read(text).ok_or(Withholding::NoJson)?;
    let found = pointers.iter().filter_map(|pointer| node.at_pointer(pointer));
    let leaves = found.flat_map(|node| node.leaves()).map(|leaf| (leaf, SensitiveType::Secret)).collect();
    shown(text, leaves, store)
}

/// Takes these leaves in and gives the text with their handles.
fn shown(
    text: &str,
    leaves: Vec<(Leaf<'_>, SensitiveType)>,
    (values, taken): (&ProtectedValues, &mut Taken),
) -> Result<String, Withholding> {
    let mut marks = BTreeMap::new();
    for (leaf, kind) in leaves {
        let Some(value) = leaf.value().filter(|value| !NOT_SHOWN.contains(&value.as_str())) else { continue };
        if marks.contains_key(&leaf) || leaf.is_mark(values) {
            continue;
        }
        marks.insert(leaf, mark(kind, &values.take(Secret::new(value), taken)?));
    }
    Ok(replaced(text, &marks))
}

/// Applies a provider's adapter.
fn adapted(
    parts: &mut [RawPart],
    is_error: bool,
    (adapter, tool): (Adapter, &str),
    (values, taken): (&ProtectedValues, &mut Taken),
) -> Result<(), Withholding> {
    let answer = adapter::answer_of(adapter, tool);
    let mut unknown = Vec::new();
    let mut known = 0;
    for (index, part) in parts.iter_mut().enumerate() {
        let RawPart::Text(text) = part else {
            unknown.push(index);
            continue;
        };
        let node = Node::read(text);
        match node.as_ref().and_then(|node| adapter::secrets_in(adapter, answer, node)) {
            Some(leaves) => {
                *text = shown(text, leaves, (values, taken))?;
                known += 1;
            }
            None if text.trim().is_empty() => {}
            // It was an envelope.
            None if matches!(&node, Some(Node::Leaf(leaf)) if leaf.is_mark(values)) => known += 1,
            None => unknown.push(index),
        }
    }
    if answer == Answer::Other {
        return Ok(());
    }
    let bare = answer == Answer::Value && !is_error && known == 0 && unknown.len() == 1;
    for index in unknown {
        match parts.get_mut(index) {
            Some(RawPart::Text(text)) if known > 0 => OWN_WORDS.clone_into(text),
            Some(RawPart::Text(text)) if bare && !is_structured(text) => {
                let value = serde_json::from_str(text).unwrap_or_else(|_| text.trim().to_owned());
                let value = Secret::new(value);
                *text = mark(SensitiveType::Secret, &values.take(value, taken)?);
            }
            _ => return Err(Withholding::UnknownShape),
        }
    }
    Ok(())
}

/// Whether a text is JSON with something in it, and so no bare value.
fn is_structured(text: &str) -> bool {
    matches!(text.trim().as_bytes().first(), Some(b'{' | b'['))
}
