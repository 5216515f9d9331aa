//! The manifest's keys as a JSON Schema and as a reference page, both from the table that decodes them.
//!
//! For the documentation and for editors alone: a launch does not need it, so it stands behind the
//! feature `schema`. Rules between fields cannot be told in a schema that editors still understand; they
//! are checked by loading.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use crate::decode::Value;
use crate::model::declaration::{CapsuleFile, PackageFile};
use crate::unsupported::refusal;

/// What values a type has.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Mapping { docs: &'static [&'static str], fields: Vec<Field> },
    Choice(Vec<(&'static str, &'static [&'static str])>),
    Text { pattern: Option<&'static str> },
    Path,
    Bool,
    Integer { low: u64, high: u64 },
    Share,
    List(Box<Shape>),
    Map(Box<Shape>),
    Object,
}

/// One key of a mapping.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) docs: &'static [&'static str],
    pub(crate) shape: Shape,
    pub(crate) default: Presence,
}

/// What an absent key means.
#[derive(Debug, Clone)]
pub(crate) enum Presence {
    Required,
    Optional,
    Default(Json),
}

/// A mapping may be absent exactly when none of its keys is required.
pub(crate) fn presence_of_mapping(shape: &Shape) -> Presence {
    let required = |field: &Field| matches!(field.default, Presence::Required);
    match shape {
        Shape::Mapping { fields, .. } if fields.iter().any(required) => Presence::Required,
        _ => Presence::Optional,
    }
}

impl Shape {
    pub(crate) fn within(self, low: u64, high: u64) -> Self {
        match self {
            Self::Integer { low: own_low, high: own_high } => {
                Self::Integer { low: low.max(own_low), high: high.min(own_high) }
            }
            other => other,
        }
    }

    fn schema(&self) -> Map<String, Json> {
        let value = match self {
            Self::Mapping { fields, .. } => {
                let properties: Map<String, Json> =
                    fields.iter().map(|field| (field.key.to_owned(), Json::Object(field.schema()))).collect();
                let required: Vec<&str> = fields
                    .iter()
                    .filter(|field| matches!(field.default, Presence::Required))
                    .map(|field| field.key)
                    .collect();
                json!({
                    "type": "object",
                    "additionalProperties": false,
                    "required": required,
                    "properties": properties,
                })
            }
            Self::Choice(words) => {
                json!({ "enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>() })
            }
            Self::Text { pattern: Some(pattern) } => json!({ "type": "string", "pattern": pattern }),
            Self::Text { pattern: None } => json!({ "type": "string" }),
            Self::Path => json!({ "type": "string", "minLength": 1 }),
            Self::Bool => json!({ "type": "boolean" }),
            Self::Integer { low, high: u64::MAX } => json!({ "type": "integer", "minimum": low }),
            Self::Integer { low, high } => {
                json!({ "type": "integer", "minimum": low, "maximum": high })
            }
            Self::Share => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 }),
            Self::List(item) => json!({ "type": "array", "items": item.schema() }),
            Self::Map(value) => json!({ "type": "object", "additionalProperties": value.schema() }),
            Self::Object => json!({ "type": "object" }),
        };
        match value {
            Json::Object(object) => object,
            _ => Map::new(),
        }
    }

    /// How the reference page calls the type.
    fn label(&self) -> String {
        match self {
            Self::Mapping { .. } => "mapping".to_owned(),
            Self::Choice(words) => {
                let words: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                words.join(", ")
            }
            Self::Text { .. } => "text".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Bool => "`true`, `false`".to_owned(),
            Self::Integer { low, high: u64::MAX } => format!("whole number, at least {low}"),
            Self::Integer { low, high } => format!("whole number, {low} to {high}"),
            Self::Share => "number above 0, at most 1".to_owned(),
            Self::List(item) => format!("list of {}", item.label()),
            Self::Map(value) => format!("{} by name", value.label()),
            Self::Object => "mapping, free".to_owned(),
        }
    }

    /// The mapping inside lists and maps, and what to write after the key to reach it.
    fn inner(&self) -> (&Self, &'static str) {
        match self {
            Self::List(item) => (item, "[]"),
            Self::Map(value) => (value, ".<name>"),
            other => (other, ""),
        }
    }
}

impl Field {
    fn schema(&self) -> Map<String, Json> {
        let mut schema = self.shape.schema();
        schema.insert("description".to_owned(), sentence(self.docs).into());
        if let Presence::Default(default) = &self.default {
            schema.insert("default".to_owned(), default.clone());
        }
        schema
    }
}

fn sentence(docs: &[&str]) -> String {
    docs.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

fn document(title: &str, shape: &Shape) -> Json {
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".to_owned(), title.into());
    if let Shape::Mapping { docs, .. } = shape {
        schema.insert("description".to_owned(), sentence(docs).into());
    }
    schema.extend(shape.schema());
    Json::Object(schema)
}

/// JSON Schema (2020-12) of a capsule's `murmur.yaml`.
#[must_use]
pub fn json_schema() -> Json {
    document("murmur.yaml", &CapsuleFile::shape())
}

/// JSON Schema (2020-12) of the `murmur.yaml` of a tool, hook or mod.
#[must_use]
pub fn artifact_json_schema() -> Json {
    document("murmur.yaml of an artifact", &PackageFile::shape())
}

/// The reference page: every key with its type, default and meaning.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# `murmur.yaml`\n\nThis page is generated from the table that reads the file. A key that does \
         not stand here is an error, and so is a value of another type: a number is not a text unless \
         it is quoted. What is marked as refused is declared \
         for later: a launch names it (`E-MAN-004`) and does not begin.\n",
    );
    section(&mut page, "The capsule", "", &CapsuleFile::shape());
    page.push_str(
        "\n# `murmur.yaml` of an artifact\n\nA tool, hook or mod describes itself in a file of its own. \
         It can never grant itself anything: grants are read from the capsule's entry alone.\n",
    );
    section(&mut page, "The artifact", "", &PackageFile::shape());
    page
}

/// A table of the keys of one mapping, then a section for each mapping below it. What this version refuses is
/// marked.
fn section(page: &mut String, title: &str, path: &str, shape: &Shape) {
    let Shape::Mapping { docs, fields } = shape else { return };
    let dot = if path.is_empty() { "" } else { "." };
    let at = |field: &Field| format!("{path}{dot}{}", field.key);
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## {title}\n\n{}\n\n", marked(docs, path.trim_end_matches("[]"), None));
    page.push_str("| Key | Type | Default | Meaning |\n|---|---|---|---|\n");
    for field in fields {
        let default = match &field.default {
            Presence::Required => "required".to_owned(),
            Presence::Optional => String::new(),
            Presence::Default(Json::String(word)) => format!("`{word}`"),
            Presence::Default(value) => format!("`{value}`"),
        };
        let meaning = marked(field.docs, &at(field), None);
        let _ = writeln!(page, "| `{}` | {} | {default} | {meaning} |", field.key, field.shape.label());
    }
    for field in fields {
        words(page, field, &at(field));
    }
    for field in fields {
        let (inner, suffix) = field.shape.inner();
        let path = format!("{}{suffix}", at(field));
        section(page, &format!("`{path}`"), &path, inner);
    }
}

/// What each word of a closed set means.
fn words(page: &mut String, field: &Field, path: &str) {
    let (Shape::Choice(words), suffix) = field.shape.inner() else { return };
    let path = format!("{path}{suffix}");
    let _ = write!(page, "\n`{}`:\n\n", field.key);
    for (word, docs) in words {
        let _ = writeln!(page, "- `{word}`: {}", marked(docs, &path, Some(word)));
    }
}

/// The words of the table, and what this version refuses of it.
fn marked(docs: &[&str], path: &str, word: Option<&str>) -> String {
    let refused = refusal(path, word).map(|refused| format!(" {refused}")).unwrap_or_default();
    sentence(docs) + &refused
}
