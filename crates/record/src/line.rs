//! One record line under construction: JSON text in a buffer that is used again for every line.
//!
//! Text is redacted leaf by leaf, before it is escaped, so that no secret can hide behind an escape
//! and no secret's value can damage a key, an id or an event's name: those go in by other methods.
//! Nothing here writes to a file.

use std::borrow::Cow;
use std::io::Write as _;

use fence::ModelText;
use secrets::Redactor;
use serde_json::Value;
use vocab::{Arguments, Part, Thinking, ToolCall};

use crate::{Capture, Digest};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// How much of its buffers a writer keeps from line to line.
const KEPT: usize = 1 << 20;

/// The buffers of a writer, reused from line to line.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) line: Vec<u8>,
    scratch: Vec<u8>,
}

impl Buffers {
    /// Starts a new line.
    pub(crate) fn start<'a>(&'a mut self, redactor: &'a Redactor, capture: Capture) -> Line<'a> {
        for buffer in [&mut self.line, &mut self.scratch] {
            buffer.clear();
            // One huge line must not hold its memory for the rest of the session.
            buffer.shrink_to(KEPT);
        }
        Line { out: &mut self.line, scratch: &mut self.scratch, redactor, capture }
    }
}

/// A line being built.
pub(crate) struct Line<'a> {
    out: &'a mut Vec<u8>,
    scratch: &'a mut Vec<u8>,
    redactor: &'a Redactor,
    capture: Capture,
}

impl Line<'_> {
    pub(crate) fn capture(&self) -> Capture {
        self.capture
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// `,"name":`
    pub(crate) fn key(&mut self, name: &str) {
        self.key_with(name, "");
    }

    /// `,"name<suffix>":`
    pub(crate) fn key_with(&mut self, name: &str, suffix: &str) {
        self.raw(b",\"");
        self.raw(name.as_bytes());
        self.raw(suffix.as_bytes());
        self.raw(b"\":");
    }

    pub(crate) fn number(&mut self, number: impl std::fmt::Display) {
        // Writing into a vector cannot fail.
        let _ = write!(self.out, "{number}");
    }

    /// All that stands on the line by now.
    pub(crate) fn so_far(&self) -> &[u8] {
        self.out
    }

    pub(crate) fn digest(&mut self, digest: Digest) {
        self.raw(b"\"");
        self.raw(&digest.hex());
        self.raw(b"\"");
    }

    /// A string that is not redacted: an id, a word of ours, or what was redacted before.
    pub(crate) fn verbatim(&mut self, text: &str) {
        escape(text, self.out);
    }

    /// A string, redacted.
    pub(crate) fn text(&mut self, text: &str) {
        escape(self.redactor.redact(text).as_str(), self.out);
    }

    /// Any JSON value with every string, key and number in it redacted.
    pub(crate) fn json(&mut self, value: &Value) {
        match value {
            Value::Null => self.raw(b"null"),
            Value::Bool(true) => self.raw(b"true"),
            Value::Bool(false) => self.raw(b"false"),
            Value::Number(number) => {
                let start = self.out.len();
                self.number(number);
                let digits =
                    self.out.get(start..).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default();
                let hidden = self.redactor.redact(digits);
                if hidden.count() > 0 {
                    let hidden = hidden.into_string();
                    self.out.truncate(start);
                    self.verbatim(&hidden);
                }
            }
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.raw(b"[");
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.raw(b",");
                    }
                    self.json(item);
                }
                self.raw(b"]");
            }
            Value::Object(map) => self.object(map),
        }
    }

    pub(crate) fn object(&mut self, map: &serde_json::Map<String, Value>) {
        self.raw(b"{");
        for (index, (key, value)) in map.iter().enumerate() {
            if index > 0 {
                self.raw(b",");
            }
            self.text(key);
            self.raw(b":");
            self.json(value);
        }
        self.raw(b"}");
    }

    /// What `write` puts out, set aside in a buffer of its own; `read` then gets the line and it.
    pub(crate) fn aside(&mut self, write: impl FnOnce(&mut Line<'_>), read: impl FnOnce(&mut Line<'_>, &[u8])) {
        let mut aside = std::mem::take(self.scratch);
        aside.clear();
        let mut spare = Vec::new();
        write(&mut Line { out: &mut aside, scratch: &mut spare, redactor: self.redactor, capture: self.capture });
        read(self, &aside);
        *self.scratch = aside;
    }

    /// Text that is no JSON, redacted: for a buffer that is hashed or measured.
    pub(crate) fn plain(&mut self, text: &str) {
        self.raw(self.redactor.redact(text).as_str().as_bytes());
    }

    /// All text parts of a message, one after the other, redacted.
    pub(crate) fn joined(&mut self, parts: &[Part]) {
        for part in parts {
            if let Part::Text(text) = part {
                let hidden = self.hide_model_text(text);
                self.raw(hidden.as_bytes());
            }
        }
    }

    /// Text that a model reads or wrote, redacted around its fence's markers.
    fn hide_model_text<'t>(&self, text: &'t ModelText) -> Cow<'t, str> {
        if self.redactor.redact(text.as_str()).count() == 0 {
            return Cow::Borrowed(text.as_str());
        }
        Cow::Owned(text.hiding(|piece| self.redactor.redact(piece).into_string()).into_string())
    }

    /// The content of a message, as the conversation record has it.
    pub(crate) fn parts(&mut self, parts: &[Part]) {
        self.raw(b"[");
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.raw(b",");
            }
            self.part(part);
        }
        self.raw(b"]");
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Text(text) => {
                self.raw(br#"{"type":"text","text":"#);
                escape(&self.hide_model_text(text), self.out);
            }
            Part::Thinking(thinking) => self.thinking(thinking),
            Part::ToolCall(call) => self.tool_call(call),
            Part::Image { media_type, data } => {
                self.raw(br#"{"type":"image","media_type":"#);
                self.verbatim(media_type);
                self.key("data");
                self.verbatim(data);
            }
        }
        self.raw(b"}");
    }

    fn thinking(&mut self, thinking: &Thinking) {
        match &thinking.redacted {
            Some(data) => {
                self.raw(br#"{"type":"redacted_thinking","data":"#);
                self.verbatim(data);
                if !thinking.text.is_empty() {
                    self.key("text");
                    self.text(&thinking.text);
                }
            }
            None => {
                self.raw(br#"{"type":"thinking","text":"#);
                self.text(&thinking.text);
            }
        }
        // A signature over a text that had to be changed proves nothing, and providers refuse it.
        if let Some(signature) = thinking.signature.as_ref().filter(|_| self.redactor.is_clean(&thinking.text)) {
            self.key("signature");
            self.verbatim(signature);
        }
        self.key("author");
        self.verbatim(&thinking.author);
    }

    fn tool_call(&mut self, call: &ToolCall) {
        self.raw(br#"{"type":"tool_call","id":"#);
        self.verbatim(&call.id);
        self.key("name");
        self.verbatim(&call.name);
        match &call.arguments {
            Arguments::Object(map) => {
                self.key("arguments");
                self.object(map);
            }
            Arguments::Malformed { raw, reason } => {
                self.key("raw");
                self.text(raw);
                self.key("reason");
                self.text(reason);
            }
        }
    }
}

/// Appends a JSON string. Bytes above ASCII stand as they are.
fn escape(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = first_special(rest) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            control => {
                out.extend_from_slice(b"\\u00");
                for nibble in [control >> 4, control & 15] {
                    out.push(HEX.get(usize::from(nibble)).copied().unwrap_or(b'0'));
                }
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Where the first byte stands that JSON wants escaped, looking at eight bytes at a time: bodies are
/// most of what is written. Of each test the lowest flagged byte is exact, and only that one is used.
fn first_special(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH;
    let equal = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = below(word, 0x20) | equal(word, b'"') | equal(word, b'\\');
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let special = |&byte: &u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    rest.iter().position(special).map(|at| words.len() * 8 + at)
}

#[cfg(test)]
mod tests {
    use super::escape;

    proptest::proptest! {
        #[test]
        fn escaping_is_serde_jsons(text in "\\PC*|[\\x00-\\x7f]*|.*") {
            let mut out = Vec::new();
            escape(&text, &mut out);
            proptest::prop_assert_eq!(out, serde_json::to_vec(&text).unwrap());
        }
    }
}
