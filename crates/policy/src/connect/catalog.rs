//! What a connection was last seen to offer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Unreadable;

const VERSION: u32 = 1;

/// The tools of one connection, in the server's order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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

impl Catalog {
    /// A catalog of these tools.
    #[must_use]
    pub fn new(tools: Vec<CatalogTool>) -> Self {
        Self { version: VERSION, tools }
    }

    /// Reads a stored catalog; none is an empty one.
    ///
    /// # Errors
    /// When it is not one, or one of another version.
    pub fn parse(text: Option<&str>) -> Result<Self, Unreadable> {
        let Some(text) = text else { return Ok(Self::default()) };
        let malformed = |error| Unreadable::new(format!("a stored catalog of tools is malformed: {error}"));
        let catalog: Self = serde_json::from_str(text).map_err(malformed)?;
        if catalog.version != VERSION {
            return Err(Unreadable::new(format!("a stored catalog of tools has the version {}", catalog.version)));
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
