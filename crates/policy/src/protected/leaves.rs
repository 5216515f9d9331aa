//! JSON as a tree that knows where in the text each of its leaves stands.
//!
//! A secret leaf is replaced where it stands and everything around it stays as it was written. An object with a key
//! twice is not read: which of the two a reader takes is not known.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Handle, ProtectedValues};

const MAX_DEPTH: u32 = 64;
const MARK: &str = "[protected ";

/// A value of a JSON text.
pub(super) enum Node<'t> {
    Object(Vec<(String, Node<'t>)>),
    Array(Vec<Node<'t>>),
    Leaf(Leaf<'t>),
}

/// A string, number, boolean or null where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf<'t> {
    at: usize,
    raw: &'t str,
}

impl Leaf<'_> {
    /// The string, or the number or boolean as it is spelled; nothing for null.
    pub(super) fn value(&self) -> Option<String> {
        match self.raw {
            "null" => None,
            raw if raw.starts_with('"') => serde_json::from_str(raw).ok(),
            raw => Some(raw.to_owned()),
        }
    }

    /// Whether it is null, a truth value or a number of few digits: to redact that everywhere would hide nothing.
    pub(super) fn is_trifle(&self) -> bool {
        matches!(self.raw, "null" | "true" | "false") || (self.raw.len() < 4 && !self.raw.starts_with('"'))
    }

    /// Whether it stands for a value that was taken already.
    pub(super) fn is_mark(&self, values: &ProtectedValues) -> bool {
        let value = self.value().unwrap_or_default();
        let inner = value.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(']'));
        let handle = inner.and_then(|inner| inner.split_once(": ")).and_then(|(_, handle)| Handle::parse(handle));
        handle.is_some_and(|handle| values.find(&handle).is_some())
    }
}

impl<'t> Node<'t> {
    /// Reads a text that is JSON as a whole.
    pub(super) fn read(text: &'t str) -> Option<Self> {
        let raw: &RawValue = serde_json::from_str(text).ok()?;
        Self::of(raw.get(), text, 0)
    }

    fn of(raw: &'t str, text: &str, depth: u32) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        match raw.as_bytes().first()? {
            b'{' => {
                let Members(members) = serde_json::from_str(raw).ok()?;
                let read =
                    |(key, member): (String, &'t RawValue)| Some((key, Self::of(member.get(), text, depth + 1)?));
                members.into_iter().map(read).collect::<Option<_>>().map(Self::Object)
            }
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
                items
                    .into_iter()
                    .map(|item| Self::of(item.get(), text, depth + 1))
                    .collect::<Option<_>>()
                    .map(Self::Array)
            }
            // It is a piece of the text, which is borrowed and nowhere copied.
            _ => Some(Self::Leaf(Leaf { at: raw.as_ptr().addr().checked_sub(text.as_ptr().addr())?, raw })),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(name, _)| name == key).map(|(_, member)| member),
            Self::Array(_) | Self::Leaf(_) => None,
        }
    }

    /// The string of this member.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.get(key)? {
            Self::Leaf(leaf) => leaf.value(),
            Self::Object(_) | Self::Array(_) => None,
        }
    }

    pub(super) fn children(&self) -> Vec<&Self> {
        match self {
            Self::Object(members) => members.iter().map(|(_, member)| member).collect(),
            Self::Array(items) => items.iter().collect(),
            Self::Leaf(_) => Vec::new(),
        }
    }

    /// What a JSON pointer (RFC 6901) names.
    pub(super) fn at_pointer(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |node, token| match node {
            Self::Object(_) => node.get(&token.replace("~1", "/").replace("~0", "~")),
            Self::Array(items) => token.parse::<usize>().ok().and_then(|index| items.get(index)),
            Self::Leaf(_) => None,
        })
    }

    /// Every leaf below, or the leaf itself.
    pub(super) fn leaves(&self) -> Vec<Leaf<'t>> {
        match self {
            Self::Leaf(leaf) => vec![*leaf],
            Self::Object(_) | Self::Array(_) => self.children().into_iter().flat_map(Self::leaves).collect(),
        }
    }
}

/// How often a text is tried for JSON that does not turn out to be any.
const MAX_TRIES: usize = 256;

/// A text in pieces, in their order: the JSON objects and arrays that stand in it, `true`, and what is around them. A
/// text that is JSON as a whole is one piece.
pub(super) fn documents(text: &str) -> Vec<(&str, bool)> {
    if serde_json::from_str::<&RawValue>(text).is_ok() {
        return vec![(text, true)];
    }
    let (mut pieces, mut done, mut at, mut tries) = (Vec::new(), 0, 0, 0);
    while let Some(next) = memchr::memchr2(b'{', b'[', text.as_bytes().get(at..).unwrap_or_default()) {
        let start = at + next;
        let rest = text.get(start..).unwrap_or_default();
        let mut read = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        if let Some(Ok(found)) = read.next() {
            pieces.push((text.get(done..start).unwrap_or_default(), false));
            pieces.push((found.get(), true));
            (done, at) = (start + found.get().len(), start + found.get().len());
            continue;
        }
        tries += 1;
        at = start + 1;
        if tries == MAX_TRIES {
            break;
        }
    }
    pieces.push((text.get(done..).unwrap_or_default(), false));
    pieces
}

/// The text with a JSON string in the place of each of these leaves.
pub(super) fn replaced(text: &str, shown: &BTreeMap<Leaf<'_>, String>) -> String {
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for (leaf, words) in shown {
        out.push_str(text.get(done..leaf.at).unwrap_or_default());
        out.push('"');
        out.push_str(words);
        out.push('"');
        done = leaf.at + leaf.raw.len();
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// The members of an object, in their order, none of them twice.
pub(super) struct Members<'t>(pub(super) Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let (mut members, mut names) = (Vec::new(), std::collections::HashSet::new());
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if !names.insert(key.clone()) {
                        return Err(A::Error::custom("a key stands twice"));
                    }
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_falls_apart_into_its_documents_and_what_is_around_them() {
        for (text, pieces) in [
            ("", vec![("", false)]),
            ("plain [x", vec![("plain [x", false)]),
            (" {\"a\":1} \n", vec![(" {\"a\":1} \n", true)]),
            ("12", vec![("12", true)]),
            ("it: {\"a\":[1]}.", vec![("it: ", false), ("{\"a\":[1]}", true), (".", false)]),
            ("{}\n[1]\n", vec![("", false), ("{}", true), ("\n", false), ("[1]", true), ("\n", false)]),
            ("[see x] {{\"b\":2}", vec![("[see x] {", false), ("{\"b\":2}", true), ("", false)]),
        ] {
            assert_eq!(documents(text), pieces, "{text}");
        }
        let many = format!("{} {{}}", "[".repeat(1000));
        assert_eq!(documents(&many), [(many.as_str(), false)], "it is not tried for ever");
    }
}
