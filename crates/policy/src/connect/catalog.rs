//! What a connection was last seen to offer.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check_version;
use super::name::{is_digest, is_tool};
use crate::Unreadable;

const VERSION: u32 = 1;
/// How deep an input schema may be nested: deeper than any that is meant, and such that a catalog can be read back.
const DEEPEST: usize = 64;

/// The tools of one connection, in the server's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    version: u32,
    /// The tools.
    pub tools: Vec<CatalogTool>,
}

/// One tool of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogTool {
    /// Its exact name; for a tool that cannot be used, as much of it as can be shown.
    pub name: String,
    /// What its publisher says of it, one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it takes.
    #[serde(default)]
    pub input_schema: Value,
    /// The digest of description and input schema: 64 hexadecimal digits.
    pub definition: String,
    /// Why it cannot be called, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// Whether it says that it judges its callers itself. It counts at a mod alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mod_authorized: bool,
}

impl Default for Catalog {
    fn default() -> Self {
        Self { version: VERSION, tools: Vec::new() }
    }
}

impl Catalog {
    /// A catalog of these tools. One whose input schema is nested too deeply to be stored cannot be used, and has none.
    #[must_use]
    pub fn new(mut tools: Vec<CatalogTool>) -> Self {
        for tool in tools.iter_mut().filter(|tool| is_deeper(&tool.input_schema, DEEPEST)) {
            tool.input_schema = Value::Null;
            tool.unusable.get_or_insert_with(|| "its input schema is nested too deeply".to_owned());
        }
        Self { version: VERSION, tools }
    }

    /// Reads a stored catalog; none is an empty one.
    ///
    /// # Errors
    /// When it is not one, or one of another version.
    pub fn parse(text: Option<&str>) -> Result<Self, Unreadable> {
        let Some(text) = text else { return Ok(Self::default()) };
        let bad = |what: String| Unreadable::new(format!("a stored catalog of tools is not valid: {what}"));
        check_version(text, VERSION).map_err(bad)?;
        let catalog: Self = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let mut names = HashSet::new();
        for (index, tool) in catalog.tools.iter().enumerate() {
            if !is_digest(&tool.definition) {
                return Err(bad(format!("tools.{index} has a definition that is none")));
            }
            // What cannot be used may be called anything.
            if tool.unusable.is_none() && !(is_tool(&tool.name) && names.insert(&tool.name)) {
                return Err(bad(format!("tools.{index} has a name that is none, or stands twice")));
            }
        }
        Ok(catalog)
    }

    /// As it is stored.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::json!({"version": VERSION, "tools": self.tools}).to_string()
    }

    /// The tool of this exact name. Of a name that stands twice it is the first, and both cannot be used.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&CatalogTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return value.is_object() || value.is_array() };
    match value {
        Value::Object(map) => map.values().any(|inner| is_deeper(inner, below)),
        Value::Array(items) => items.iter().any(|inner| is_deeper(inner, below)),
        _ => false,
    }
}
