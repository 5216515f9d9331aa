//! How a field of an event becomes keys of a line, and how it is described.
//!
//! One trait with one implementation per kind of value. What a capture mode withholds is decided here
//! by the field's type, never by the event.

use std::path::Path;

use serde_json::Value;
use vocab::{ContextId, EventId, MessageId, Part, SessionId, TaskId};

use crate::line::Line;
use crate::{Capture, Digest};

/// A value that stands in an event.
pub(crate) trait Field {
    const SHAPE: Shape;

    /// Appends the field's keys, none when there is nothing to tell.
    fn emit(&self, name: &str, line: &mut Line<'_>);
}

/// What the table knows of a field's type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    json: &'static str,
    optional: bool,
    body: bool,
    hash: bool,
}

impl Shape {
    pub(crate) const fn plain(json: &'static str) -> Self {
        Self { json, optional: false, body: false, hash: false }
    }
}

/// When a key stands on a line of its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// In every capture mode.
    Any,
    /// Under `capture: content` alone.
    Content,
    /// Under `capture: meta` alone.
    Meta,
    /// Not under `capture: none`.
    NotNone,
}

impl KeyRule {
    /// Whether the key is written in this mode.
    #[must_use]
    pub fn holds(self, capture: Capture) -> bool {
        match self {
            Self::Any => true,
            Self::Content => capture == Capture::Content,
            Self::Meta => capture == Capture::Meta,
            Self::NotNone => capture != Capture::None,
        }
    }
}

/// One key of an event's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpec {
    /// The key.
    pub name: String,
    /// The JSON type of its value.
    pub json: &'static str,
    /// Whether the key is absent where it does not apply.
    pub optional: bool,
    /// In which capture modes it is written.
    pub rule: KeyRule,
    /// What it says.
    pub meaning: &'static str,
}

/// One field of an event; a body has three keys, every other field one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldSpec {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) meaning: &'static str,
}

impl FieldSpec {
    fn keys(&self) -> Vec<KeySpec> {
        let key = |suffix: &str, json, rule, meaning| KeySpec {
            name: format!("{}{suffix}", self.name),
            json,
            optional: self.shape.optional,
            rule,
            meaning,
        };
        if self.shape.body {
            vec![
                key("", self.shape.json, KeyRule::Content, self.meaning),
                key("_sha256", "string", KeyRule::Meta, "SHA-256 of it, hex"),
                key("_bytes", "integer", KeyRule::Any, "its size"),
            ]
        } else {
            let rule = if self.shape.hash { KeyRule::NotNone } else { KeyRule::Any };
            vec![key("", self.shape.json, rule, self.meaning)]
        }
    }
}

/// One event type.
#[derive(Debug, Clone, Copy)]
pub struct EventSpec {
    /// Its `event_type`.
    pub name: &'static str,
    /// When it is written.
    pub meaning: &'static str,
    pub(crate) fields: &'static [FieldSpec],
    /// Fields that the writer itself adds.
    pub(crate) seal: &'static [FieldSpec],
}

impl EventSpec {
    /// The event's own keys, in the order in which they stand between the envelope and `prev`.
    #[must_use]
    pub fn keys(&self) -> Vec<KeySpec> {
        self.fields.iter().chain(self.seal).flat_map(FieldSpec::keys).collect()
    }
}

impl<T: Field> Field for Option<T> {
    const SHAPE: Shape = Shape { optional: true, ..T::SHAPE };

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        if let Some(value) = self {
            value.emit(name, line);
        }
    }
}

macro_rules! numbers {
    ($($T:ty)*) => {$(
        impl Field for $T {
            const SHAPE: Shape = Shape::plain("integer");

            fn emit(&self, name: &str, line: &mut Line<'_>) {
                line.key(name);
                line.number(self);
            }
        }
    )*};
}

numbers! { u16 u32 u64 i32 }

impl Field for bool {
    const SHAPE: Shape = Shape::plain("boolean");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        line.raw(if *self { b"true" } else { b"false" });
    }
}

macro_rules! ids {
    ($($T:ty)*) => {$(
        impl Field for &$T {
            const SHAPE: Shape = Shape::plain("string");

            fn emit(&self, name: &str, line: &mut Line<'_>) {
                line.key(name);
                line.verbatim(self.as_str());
            }
        }
    )*};
}

ids! { SessionId TaskId ContextId MessageId EventId }

/// The provider's id of a tool call: opaque, kept as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallId<'a>(pub &'a str);

impl Field for CallId<'_> {
    const SHAPE: Shape = Shape::plain("string");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        line.verbatim(self.0);
    }
}

impl Field for &str {
    const SHAPE: Shape = Shape::plain("string");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        line.text(self);
    }
}

/// Bytes that are not UTF-8 become U+FFFD: a record is for reading, not for opening the file again.
impl Field for &Path {
    const SHAPE: Shape = Shape::plain("string");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        line.text(&self.to_string_lossy());
    }
}

impl Field for &Value {
    const SHAPE: Shape = Shape::plain("any");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        line.json(self);
    }
}

fn list<T>(line: &mut Line<'_>, items: &[T], mut each: impl FnMut(&mut Line<'_>, &T)) {
    line.raw(b"[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            line.raw(b",");
        }
        each(line, item);
    }
    line.raw(b"]");
}

impl Field for &[&str] {
    const SHAPE: Shape = Shape::plain("array of strings");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        list(line, self, |line, text| line.text(text));
    }
}

impl Field for &[MessageId] {
    const SHAPE: Shape = Shape::plain("array of strings");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        list(line, self, |line, id| line.verbatim(id.as_str()));
    }
}

/// A hash of content: absent under `capture: none`.
impl Field for Digest {
    const SHAPE: Shape = Shape { hash: true, ..Shape::plain("string") };

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        if line.capture() != Capture::None {
            line.key(name);
            line.digest(*self);
        }
    }
}

/// Content that `trace.capture` governs. Size and hash are those of the redacted content: of a text
/// its own bytes, of anything else its compact JSON.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// A text.
    Text(&'a str),
    /// A JSON value, such as a tool's input.
    Json(&'a Value),
    /// A JSON object.
    Object(&'a serde_json::Map<String, Value>),
    /// What a model read: one string when it is text alone, else an array of content parts.
    Parts(&'a [Part]),
}

impl Field for Body<'_> {
    const SHAPE: Shape = Shape { body: true, ..Shape::plain("any") };

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        let is_text = match self {
            Self::Text(_) => true,
            Self::Parts(parts) => parts.iter().all(|part| matches!(part, Part::Text(_))),
            Self::Json(_) | Self::Object(_) => false,
        };
        line.aside(
            |aside| match *self {
                Self::Text(text) => aside.plain(text),
                Self::Json(value) => aside.json(value),
                Self::Object(map) => aside.object(map),
                Self::Parts(parts) if is_text => aside.joined(parts),
                Self::Parts(parts) => aside.parts(parts),
            },
            |line, content| {
                match line.capture() {
                    Capture::Content if is_text => {
                        line.key(name);
                        line.verbatim(std::str::from_utf8(content).unwrap_or_default());
                    }
                    Capture::Content => {
                        line.key(name);
                        line.raw(content);
                    }
                    Capture::Meta => {
                        line.key_with(name, "_sha256");
                        line.digest(Digest::of(content));
                    }
                    Capture::None => {}
                }
                line.key_with(name, "_bytes");
                line.number(content.len());
            },
        );
    }
}

/// What a reviewed action falls upon. A command is a tool's input: it is withheld unless
/// `capture: content`; paths are always told, because a review without its target says nothing.
#[derive(Debug, Clone, Copy)]
pub struct ReviewTarget<'a> {
    /// `read`, `write`, `delete`, `execute` or `delegate`.
    pub operation: &'a str,
    /// The target.
    pub of: TargetOf<'a>,
}

/// The kinds of target.
#[derive(Debug, Clone, Copy)]
pub enum TargetOf<'a> {
    /// A path.
    Path(&'a Path),
    /// A command text.
    Command(&'a str),
    /// A program with its arguments, program first.
    Argv(&'a [String]),
    /// A tool of a connection.
    Connected {
        /// The connection, as it was named.
        provider: &'a str,
        /// The tool.
        tool: &'a str,
    },
}

impl Field for &[ReviewTarget<'_>] {
    const SHAPE: Shape = Shape::plain("array of objects");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        let bodies = line.capture() == Capture::Content;
        list(line, self, |line, target| {
            line.raw(b"{\"operation\":");
            line.verbatim(target.operation);
            match target.of {
                TargetOf::Path(path) => path.emit("path", line),
                TargetOf::Connected { provider, tool } => {
                    provider.emit("provider", line);
                    tool.emit("tool", line);
                }
                TargetOf::Command(text) if bodies => text.emit("command", line),
                TargetOf::Argv(argv) if bodies => {
                    line.key("argv");
                    list(line, argv, |line, word| line.text(word));
                }
                TargetOf::Command(_) | TargetOf::Argv(_) => {}
            }
            line.raw(b"}");
        });
    }
}
