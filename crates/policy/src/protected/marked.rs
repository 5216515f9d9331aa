//! A whole result: envelopes first, then what the operator's rules and the provider's adapter know to be secret.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use secrets::Secret;

use super::adapter::{self, Answer};
use super::leaves::{Leaf, Node, documents, replaced};
use super::opening::{self, Found};
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
        match part {
            RawPart::Text(text) => *text = sift_text(std::mem::take(text), values, answered_by, taken)?,
            RawPart::Image { data, .. } => clear_image(data)?,
        }
    }
    clear_borders(parts)?;
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

/// What is declared in an image's bytes cannot be taken out of it.
fn clear_image(data: &str) -> Result<(), Withholding> {
    let bytes = image_bytes(data).unwrap_or_default();
    let is_clear = !opening::is_suspect(&bytes) || opening::find(&bytes, 0) == Found::Nothing;
    if is_clear { Ok(()) } else { Err(Withholding::Malformed) }
}

/// The bytes of an image; nothing when it is no base64.
pub(crate) fn image_bytes(data: &str) -> Option<Vec<u8>> {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&STANDARD, lenient).decode(data).ok()
}

/// A declaration that begins in one text and goes on in the next is none that could be taken out: in no text alone is
/// one left.
fn clear_borders(parts: &[RawPart]) -> Result<(), Withholding> {
    let texts = parts.iter().filter_map(|part| match part {
        RawPart::Text(text) => Some(text.as_str()),
        RawPart::Image { .. } => None,
    });
    if texts.clone().nth(1).is_none() {
        return Ok(());
    }
    let joined = texts.collect::<String>();
    let is_clear = !opening::is_suspect(joined.as_bytes()) || opening::find(joined.as_bytes(), 0) == Found::Nothing;
    if is_clear { Ok(()) } else { Err(Withholding::Malformed) }
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

/// A piece of an adapter's answer.
enum Piece {
    /// In a known shape, with its handles.
    Known(String),
    /// Nothing to read: space, or what marks code.
    Blank(String),
    /// Anything else.
    Foreign(String),
    /// An image.
    Image,
}

/// Applies a provider's adapter.
fn adapted(
    parts: &mut [RawPart],
    is_error: bool,
    (adapter, tool): (Adapter, &str),
    (values, taken): (&ProtectedValues, &mut Taken),
) -> Result<(), Withholding> {
    let answer = adapter::answer_of(adapter, tool);
    let mut read = Vec::with_capacity(parts.len());
    for part in parts.iter() {
        read.push(match part {
            RawPart::Text(text) => pieces(text, (adapter, answer), (values, taken))?,
            RawPart::Image { .. } => vec![Piece::Image],
        });
    }
    let count = |is: fn(&Piece) -> bool| read.iter().flatten().filter(|piece| is(piece)).count();
    let (known, foreign) =
        (count(|piece| matches!(piece, Piece::Known(_))), count(|piece| matches!(piece, Piece::Foreign(_))));
    let images = count(|piece| matches!(piece, Piece::Image));
    let bare = answer == Answer::Value && !is_error && (known, foreign, images) == (0, 1, 0);
    for (part, pieces) in parts.iter_mut().zip(read) {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Known(piece) | Piece::Blank(piece) => text.push_str(&piece),
                Piece::Foreign(piece) if answer == Answer::Harmless => text.push_str(&piece),
                Piece::Foreign(piece) if known > 0 => text.push_str(&own_words(&piece)),
                Piece::Foreign(piece) if bare && !is_structured(&piece) => {
                    let value = serde_json::from_str(&piece).unwrap_or_else(|_| piece.trim().to_owned());
                    text.push_str(&mark(SensitiveType::Secret, &values.take(Secret::new(value), taken)?));
                }
                Piece::Image if answer == Answer::Harmless => {}
                Piece::Foreign(_) | Piece::Image => return Err(Withholding::UnknownShape),
            }
        }
        if let RawPart::Text(part) = part {
            *part = text;
        }
    }
    Ok(())
}

/// The pieces of a text, with handles in those of a known shape.
fn pieces(
    text: &str,
    (adapter, answer): (Adapter, Answer),
    (values, taken): (&ProtectedValues, &mut Taken),
) -> Result<Vec<Piece>, Withholding> {
    let mut pieces = Vec::new();
    for (piece, is_json) in documents(text) {
        let node = Node::read(piece).filter(|_| is_json);
        pieces.push(match node.as_ref().and_then(|node| adapter::secrets_in(adapter, answer, node)) {
            Some(leaves) => Piece::Known(shown(piece, leaves, (values, taken))?),
            // It was an envelope.
            None if matches!(&node, Some(Node::Leaf(leaf)) if leaf.is_mark(values)) => Piece::Known(piece.to_owned()),
            None if matches!(piece.trim(), "" | "```" | "```json") => Piece::Blank(piece.to_owned()),
            None => Piece::Foreign(piece.to_owned()),
        });
    }
    Ok(pieces)
}

/// What stands in place of these words, with the space around them.
fn own_words(words: &str) -> String {
    let inner = words.trim();
    words.replacen(inner, OWN_WORDS, 1)
}

/// Whether a text is JSON with something in it, or speaks of a resource (`[resource …]`), and so no bare value.
fn is_structured(text: &str) -> bool {
    matches!(text.trim().as_bytes().first(), Some(b'{' | b'['))
}
