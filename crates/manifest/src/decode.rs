//! From nodes to typed values, strictly, going on after an error.
//!
//! Every failed value reports itself and yields `None`; siblings are still decoded, so one pass finds
//! every structural error of a file. Nothing is coerced: a number is not a text, a single value is not
//! a list, nothing is not a default.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Diagnostic, shown};
use crate::private::{hides_key, is_private_key};
use crate::source::Source;
use crate::yaml::{Entry, Kind, Location, Node, Plain};

/// One step of a field's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(Cow<'static, str>),
    Index(usize),
}

impl From<&'static str> for Step {
    fn from(key: &'static str) -> Self {
        Self::Key(Cow::Borrowed(key))
    }
}

impl From<String> for Step {
    fn from(key: String) -> Self {
        Self::Key(Cow::Owned(key))
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// Whether what stands at `path` may be a credential.
pub(crate) fn is_private(path: &[Step]) -> bool {
    path.iter().any(|step| matches!(step, Step::Key(key) if is_private_key(key)))
}

/// The path as it is shown: `artifacts[1].models["gpt-4.1"].context_window`. A key that may be a
/// credential is left out.
pub(crate) fn show_path(path: &[Step]) -> String {
    let mut out = String::new();
    let mut private = false;
    for step in path {
        match step {
            Step::Key(key) if hides_key(private, key) => out.push_str("[…]"),
            Step::Index(index) => out.push_str(&format!("[{index}]")),
            Step::Key(key) if key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
            Step::Key(key) => out.push_str(&format!("[\"{}\"]", shown(key))),
        }
        private = private || is_private(std::slice::from_ref(step));
    }
    out
}

/// A value that broke a rule of its own.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    pub(crate) message: String,
    /// What was found instead, as it is shown unless it may be a credential.
    found: Option<String>,
    pub(crate) hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), found: None, hint: None }
    }

    /// What was found instead; in a private place it is not told.
    pub(crate) fn found(mut self, text: impl Into<String>) -> Self {
        self.found = Some(text.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What a value is made of, and what stands for it when its key is absent.
pub(crate) trait Value: Sized {
    /// The value of `node`; on failure it has been reported.
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self>;

    /// The value of an absent key; for most types that is an error.
    fn absent(cx: &mut Context<'_>, at: Location) -> Option<Self> {
        cx.missing(at);
        None
    }

    /// The value as a whole number, for a field with a range.
    fn number(&self) -> Option<u64> {
        None
    }

    /// What the schema says of this type.
    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape;

    /// What the schema says of an absent key of this type.
    #[cfg(feature = "schema")]
    fn presence() -> crate::schema::Presence {
        crate::schema::Presence::Required
    }

    /// The value as the schema shows it as a default.
    #[cfg(feature = "schema")]
    fn json(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// Where decoding stands, what paths are relative to, and what was found.
pub(crate) struct Context<'a> {
    pub(crate) source: &'a Source,
    /// Directory of the file: what its paths are relative to.
    pub(crate) dir: &'a Path,
    /// What `~` stands for.
    pub(crate) home: Option<&'a Path>,
    path: Vec<Step>,
    /// Where the key of the value stands that is decoded next: the better place for what is said about
    /// a whole mapping, whose own place is its first key.
    key_at: Option<Location>,
    pub(crate) found: Vec<Diagnostic>,
}

/// The entries of a mapping whose keys have been checked.
pub(crate) struct Entries<'n> {
    entries: &'n [Entry],
    at: Location,
}

impl<'a> Context<'a> {
    pub(crate) fn new(source: &'a Source, dir: &'a Path, home: Option<&'a Path>) -> Self {
        Self { source, dir, home, path: Vec::new(), key_at: None, found: Vec::new() }
    }

    fn diagnostic(&self, at: Location, message: String) -> Diagnostic {
        Diagnostic::at(Code::Field, self.source, at, message).field(show_path(&self.path))
    }

    /// Reports a wrong type. A credential is not echoed.
    fn expected<T>(&mut self, what: &str, node: &Node, hint: Option<String>) -> Option<T> {
        let secret = self.is_private() && matches!(node.kind, Kind::Scalar { plain, .. } if plain != Plain::Null);
        let found = if secret { "something else".to_owned() } else { node.describe() };
        let name = self.name();
        let mut diagnostic = self.diagnostic(node.location, format!("{name} must be {what}, found {found}"));
        diagnostic.hint = hint.filter(|_| !secret);
        self.found.push(diagnostic);
        None
    }

    fn is_private(&self) -> bool {
        is_private(&self.path)
    }

    /// How a message calls the current field.
    fn name(&self) -> String {
        if self.path.is_empty() { "the file".to_owned() } else { format!("`{}`", show_path(&self.path)) }
    }

    pub(crate) fn missing(&mut self, at: Location) {
        let name = self.name();
        self.found.push(self.diagnostic(at, format!("{name} is missing")));
    }

    /// Reports a value that broke its type's own rule.
    pub(crate) fn fault<T>(&mut self, node: &Node, fault: Fault) -> Option<T> {
        let name = self.name();
        let found = fault.found.filter(|_| !self.is_private()).map(|found| format!(", found {found}"));
        let message = format!("{name} {}{}", fault.message, found.unwrap_or_default());
        let mut diagnostic = self.diagnostic(node.location, message);
        diagnostic.hint = fault.hint;
        self.found.push(diagnostic);
        None
    }

    /// The entries of a mapping; unknown keys are reported with the nearest known one.
    pub(crate) fn keys<'n>(&mut self, node: &'n Node, known: &[&str]) -> Option<Entries<'n>> {
        let Kind::Mapping(entries) = &node.kind else {
            return self.expected("a mapping", node, mapping_hint(node, known));
        };
        for entry in entries {
            if known.contains(&entry.key.as_str()) {
                continue;
            }
            let owner = self.name();
            let message = if hides_key(self.is_private(), &entry.key) {
                format!("{owner} has a key that is none of its keys")
            } else {
                format!("{owner} has no key `{}`", shown(&entry.key))
            };
            self.path.push(entry.key.clone().into());
            let accepted = self.diagnostic(entry.location, message).accepted(known.iter().copied());
            let mut diagnostic = accepted.suggest(&entry.key);
            if diagnostic.suggestion.is_some() {
                diagnostic.accepted.clear();
            }
            self.found.push(diagnostic);
            self.path.pop();
        }
        Some(Entries { entries, at: self.key_at.take().unwrap_or(node.location) })
    }

    /// The value of one key, or what stands for it when it is absent.
    pub(crate) fn field<T: Value>(
        &mut self,
        entries: &Entries<'_>,
        key: &'static str,
        range: Option<(u64, u64)>,
        absent: fn(&mut Self, Location) -> Option<T>,
    ) -> Option<T> {
        self.path.push(key.into());
        let value = match entries.entries.iter().find(|entry| entry.key == key) {
            None => absent(self, entries.at),
            Some(entry) => {
                self.key_at = Some(entry.location);
                T::decode(&entry.value, self).and_then(|value| self.in_range(value, range, entry.value.location))
            }
        };
        self.path.pop();
        value
    }

    fn in_range<T: Value>(&mut self, value: T, range: Option<(u64, u64)>, at: Location) -> Option<T> {
        match (value.number(), range) {
            (Some(number), Some((low, high))) if number < low || number > high => {
                let name = self.name();
                let bound = if high == u64::MAX { format!("at least {low}") } else { format!("from {low} to {high}") };
                self.found.push(self.diagnostic(at, format!("{name} must be {bound}, found {number}")));
                None
            }
            _ => Some(value),
        }
    }

    /// A text; numbers and the like must be quoted to be one.
    pub(crate) fn text<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        match &node.kind {
            Kind::Scalar { text, plain: Plain::Text } if text.contains('\0') => {
                self.fault(node, Fault::new("holds a NUL character"))
            }
            Kind::Scalar { text, plain: Plain::Text } => Some(text),
            Kind::Scalar { text, plain: Plain::Bool(_) | Plain::Integer | Plain::Float } => {
                let hint = format!("write it in quotes: \"{}\"", shown(text));
                self.expected("a text", node, Some(hint))
            }
            _ => self.expected("a text", node, None),
        }
    }

    /// The index of the word that a text is.
    pub(crate) fn choice(&mut self, node: &Node, words: &[&str]) -> Option<usize> {
        let Kind::Scalar { text, .. } = &node.kind else {
            return self.expected("one word", node, None);
        };
        let index = words.iter().position(|word| word == text);
        if index.is_none() {
            let name = self.name();
            let found = if self.is_private() { "this text".to_owned() } else { node.describe() };
            let message = format!("{name} cannot be {found}");
            let diagnostic = self.diagnostic(node.location, message);
            self.found.push(diagnostic.accepted(words.iter().copied()).suggest(text));
        }
        index
    }

    /// A whole number that is not negative.
    pub(crate) fn integer(&mut self, node: &Node) -> Option<u64> {
        let Kind::Scalar { text, plain: Plain::Integer } = &node.kind else {
            return self.expected("a whole number", node, unquoted(node, |text| text.parse::<u64>().is_ok()));
        };
        if text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()) {
            let hint = "YAML versions disagree on a leading zero; write the number without it";
            return self.expected("a whole number", node, Some(hint.to_owned()));
        }
        let value = match text.as_bytes() {
            [b'0', b'x', ..] => u64::from_str_radix(text.trim_start_matches("0x"), 16).ok(),
            [b'0', b'o', ..] => u64::from_str_radix(text.trim_start_matches("0o"), 8).ok(),
            _ => text.parse().ok(),
        };
        if value.is_none() {
            return self.expected(&format!("a whole number from 0 to {}", u64::MAX), node, None);
        }
        value
    }

    /// The items of a list, each decoded under its index.
    fn list<T: Value>(&mut self, node: &Node) -> Option<Vec<T>> {
        let Kind::List(items) = &node.kind else {
            let hint = match &node.kind {
                Kind::Scalar { text, plain } if *plain != Plain::Null => {
                    Some(format!("write it as a list: [{}]", shown(text)))
                }
                _ => None,
            };
            return self.expected("a list", node, hint);
        };
        let mut values = Some(Vec::with_capacity(items.len()));
        for (index, item) in items.iter().enumerate() {
            self.path.push(index.into());
            self.key_at = None;
            match (T::decode(item, self), &mut values) {
                (Some(value), Some(values)) => values.push(value),
                (None, _) => values = None,
                (Some(_), None) => {}
            }
            self.path.pop();
        }
        values
    }
}

/// How a text that stands where a mapping is wanted may have been meant.
fn mapping_hint(node: &Node, known: &[&str]) -> Option<String> {
    let Kind::Scalar { text, plain: Plain::Text } = &node.kind else { return None };
    Some(match known {
        [key] => format!("write it as a mapping: {{ {key}: {} }}", shown(text)),
        // A whole file that is a text is none of these.
        keys if keys.len() > 8 => return None,
        keys => {
            let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
            format!("write it as a mapping with keys of its own: {}", keys.join(", "))
        }
    })
}

/// What to do about a value of another type that was written as a text.
pub(crate) fn unquoted(node: &Node, is_one: impl FnOnce(&str) -> bool) -> Option<String> {
    match &node.kind {
        Kind::Scalar { text, plain: Plain::Text } if is_one(text) => {
            Some(format!("write it without quotes: {}", shown(text)))
        }
        _ => None,
    }
}

impl Value for String {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        cx.text(node).map(str::to_owned)
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::Text { pattern: None }
    }
}

impl Value for bool {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        match node.kind {
            Kind::Scalar { plain: Plain::Bool(value), .. } => Some(value),
            _ => cx.expected("true or false", node, unquoted(node, |text| matches!(text, "true" | "false"))),
        }
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::Bool
    }

    #[cfg(feature = "schema")]
    fn json(&self) -> serde_json::Value {
        (*self).into()
    }
}

macro_rules! whole_number {
    ($($ty:ty),*) => {$(
        impl Value for $ty {
            fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
                let value = cx.integer(node)?;
                match Self::try_from(value) {
                    Ok(value) => Some(value),
                    Err(_) => cx.fault(node, Fault::new(format!("must be at most {}", Self::MAX)).found(value.to_string())),
                }
            }

            fn number(&self) -> Option<u64> {
                Some(u64::from(*self))
            }

            #[cfg(feature = "schema")]
            fn shape() -> crate::schema::Shape {
                crate::schema::Shape::Integer { low: 0, high: u64::from(Self::MAX) }
            }

            #[cfg(feature = "schema")]
            fn json(&self) -> serde_json::Value {
                (*self).into()
            }
        }
    )*};
}
whole_number!(u16, u32, u64);

impl<T: Value> Value for Option<T> {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        T::decode(node, cx).map(Some)
    }

    fn absent(_: &mut Context<'_>, _: Location) -> Option<Self> {
        Some(None)
    }

    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(Value::number)
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        T::shape()
    }

    #[cfg(feature = "schema")]
    fn presence() -> crate::schema::Presence {
        crate::schema::Presence::Optional
    }
}

impl<T: Value> Value for Vec<T> {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        cx.list(node)
    }

    fn absent(_: &mut Context<'_>, _: Location) -> Option<Self> {
        Some(Vec::new())
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::List(Box::new(T::shape()))
    }

    #[cfg(feature = "schema")]
    fn presence() -> crate::schema::Presence {
        crate::schema::Presence::Optional
    }
}

/// A mapping whose keys are the author's own.
impl<T: Value> Value for BTreeMap<String, T> {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let Kind::Mapping(entries) = &node.kind else {
            return cx.expected("a mapping", node, None);
        };
        let mut values = Some(Self::new());
        for entry in entries {
            cx.path.push(entry.key.clone().into());
            cx.key_at = Some(entry.location);
            match (T::decode(&entry.value, cx), &mut values) {
                (Some(value), Some(values)) => {
                    values.insert(entry.key.clone(), value);
                }
                (None, _) => values = None,
                (Some(_), None) => {}
            }
            cx.path.pop();
        }
        values
    }

    fn absent(_: &mut Context<'_>, _: Location) -> Option<Self> {
        Some(Self::new())
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::Map(Box::new(T::shape()))
    }

    #[cfg(feature = "schema")]
    fn presence() -> crate::schema::Presence {
        crate::schema::Presence::Optional
    }
}

/// Any value, in the order of the file: for the options of a driver and for JSON Schemas.
impl Value for serde_json::Map<String, serde_json::Value> {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        match json(node, cx)? {
            serde_json::Value::Object(object) => Some(object),
            _ => cx.expected("a mapping", node, None),
        }
    }

    fn absent(_: &mut Context<'_>, _: Location) -> Option<Self> {
        Some(Self::new())
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::Object
    }

    #[cfg(feature = "schema")]
    fn presence() -> crate::schema::Presence {
        crate::schema::Presence::Optional
    }
}

fn json(node: &Node, cx: &mut Context<'_>) -> Option<serde_json::Value> {
    use serde_json::Value as Json;
    Some(match &node.kind {
        Kind::Scalar { plain: Plain::Null, .. } => Json::Null,
        Kind::Scalar { plain: Plain::Bool(value), .. } => Json::Bool(*value),
        Kind::Scalar { plain: Plain::Text, .. } => Json::String(cx.text(node)?.to_owned()),
        Kind::Scalar { text, plain: Plain::Integer } => match text.parse::<i64>() {
            Ok(negative) if negative < 0 => negative.into(),
            _ => cx.integer(node)?.into(),
        },
        Kind::Scalar { text, plain: Plain::Float } => match text.parse().ok().and_then(serde_json::Number::from_f64) {
            Some(number) => Json::Number(number),
            None => return cx.expected("a finite number", node, None),
        },
        Kind::List(items) => {
            let mut values = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                cx.path.push(index.into());
                let value = json(item, cx);
                cx.path.pop();
                values.push(value?);
            }
            Json::Array(values)
        }
        Kind::Mapping(entries) => {
            let mut object = serde_json::Map::with_capacity(entries.len());
            for entry in entries {
                cx.path.push(entry.key.clone().into());
                let value = json(&entry.value, cx);
                cx.path.pop();
                object.insert(entry.key.clone(), value?);
            }
            Json::Object(object)
        }
    })
}

/// A path as the manifest spells it, and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath {
    /// As it stands in the file.
    pub declared: String,
    /// Absolute: relative paths start at the directory of the file they stand in. Links and `..` are
    /// not resolved.
    pub absolute: PathBuf,
}

impl Value for FilePath {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let text = cx.text(node)?;
        if text.is_empty() {
            return cx.fault(node, Fault::new("must not be empty"));
        }
        let declared = text.to_owned();
        let absolute = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => match cx.home {
                Some(home) => home.join(rest.trim_start_matches('/')),
                None => {
                    let fault = Fault::new("begins with `~`, and HOME is not set");
                    return cx.fault(node, fault.hint("write the path out"));
                }
            },
            Some(_) => {
                let fault = Fault::new("begins with `~` and a user's name");
                return cx.fault(node, fault.hint("only `~/…` is expanded; write `./~…` for a file of that name"));
            }
            None => cx.dir.join(text.strip_prefix("./").unwrap_or(text)),
        };
        Some(Self { declared, absolute })
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::Path
    }
}

/// A path of steps: `at!["artifacts", index, "source"]`.
macro_rules! at {
    ($($step:expr),* $(,)?) => { &[$($crate::decode::Step::from($step)),*] };
}

pub(crate) use at;
