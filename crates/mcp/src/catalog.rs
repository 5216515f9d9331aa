//! What a server offers, made fit to be shown and to be granted.
//!
//! The list is read leniently and judged strictly: one broken entry does not hide the others, and a tool that
//! cannot be called safely stays in the catalog with the reason, so that an operator sees it. Titles and
//! descriptions are the publisher's text and become one harmless line; the schema stays as it is, because
//! arguments are checked against it.

use std::collections::HashMap;

use manifest::{fold_description, fold_to};
use serde_json::{Map, Value};

use crate::{Definition, schema};

/// Characters of a tool's description.
const MAX_DESCRIPTION: usize = 2_000;

/// Characters of a tool's name.
const MAX_NAME: usize = 128;

/// What a tool that judges its callers itself says in its `_meta`.
const MOD_AUTHORIZED: &str = "murmur/mod-authorized";

/// The tools of a server at one moment, in the server's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    tools: Vec<Tool>,
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The exact name. That of an unusable tool was made harmless to show.
    pub name: String,
    /// A name for people, one line.
    pub title: Option<String>,
    /// What it does in the publisher's words, one line of at most 2,000 characters.
    pub description: Option<String>,
    /// JSON Schema of the arguments, an object.
    pub input_schema: Value,
    /// JSON Schema of the structured result.
    pub output_schema: Option<Value>,
    /// What the server says of the tool's effects. It proves nothing.
    pub annotations: Annotations,
    /// The digest that a grant pins.
    pub definition: Definition,
    /// Why the tool cannot be called.
    pub unusable: Option<String>,
    /// Whether it says that it judges its callers itself (`murmur/mod-authorized` in its `_meta`). Whether that counts
    /// is the caller's to know.
    pub mod_authorized: bool,
}

/// A server's own hints; absent ones were not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy.
    pub destructive: Option<bool>,
    /// A second identical call has no further effect.
    pub idempotent: Option<bool>,
    /// It reaches beyond what it owns.
    pub open_world: Option<bool>,
}

impl Catalog {
    /// Of all entries that a server lists.
    pub(crate) fn of(entries: Vec<Value>) -> Self {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for entry in &entries {
            *seen.entry(raw_name(entry).to_owned()).or_default() += 1;
        }
        let twice = |name: &str| seen.get(name).is_some_and(|times| *times > 1);
        Self { tools: entries.into_iter().map(|entry| tool(entry, &twice)).collect() }
    }

    /// All tools, unusable ones included.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The tool of exactly this name. A name that stands twice finds the first, which is unusable.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

fn raw_name(entry: &Value) -> &str {
    entry.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn tool(mut entry: Value, twice: &impl Fn(&str) -> bool) -> Tool {
    let name = raw_name(&entry).to_owned();
    let mut take = |key: &str| entry.get_mut(key).map(Value::take).filter(|value| !value.is_null());
    let input_schema = take("inputSchema");
    let unusable = fault(&name)
        .or_else(|| twice(&name).then_some("the server lists its name more than once"))
        .or_else(|| schema_fault(input_schema.as_ref()))
        .map(str::to_owned)
        .or_else(|| schema::fault(input_schema.as_ref()?));
    let mod_authorized = take("_meta").is_some_and(|meta| meta.get(MOD_AUTHORIZED) == Some(&Value::Bool(true)));
    let description = text(take("description"));
    let annotations = take("annotations");
    let title = text(take("title")).or_else(|| text(annotations.as_ref()?.get("title").cloned()));
    let input_schema = input_schema.unwrap_or_else(|| Value::Object(Map::new()));
    Tool {
        definition: Definition::of(description.as_deref(), &input_schema),
        name: if fault(&name).is_some() { shown(&name) } else { name },
        title: title.map(|title| fold_description(&title)).filter(|title| !title.is_empty()),
        description: description.map(|text| fold_to(&text, MAX_DESCRIPTION)),
        input_schema,
        output_schema: take("outputSchema"),
        annotations: hints(annotations.as_ref()),
        unusable,
        mod_authorized,
    }
}

fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Why a name cannot be used: names are granted, typed and compared byte by byte, so each has to be readable
/// and unlike every other.
fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it has no name")
    } else if name.len() > MAX_NAME {
        Some("its name is longer than 128 characters")
    } else if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@+~#$%&=,;!*|".contains(&byte)) {
        None
    } else {
        Some("its name has characters other than letters, digits and `_-./:@+~#$%&=,;!*|`")
    }
}

fn schema_fault(schema: Option<&Value>) -> Option<&'static str> {
    let Some(schema) = schema else { return Some("it has no input schema") };
    let Some(map) = schema.as_object() else { return Some("its input schema is no object") };
    match map.get("type") {
        None => None,
        Some(Value::String(kind)) if kind == "object" => None,
        Some(_) => Some("its input schema does not take an object"),
    }
}

/// A name that nobody will call, to be looked at.
fn shown(name: &str) -> String {
    let folded = fold_description(name);
    if folded.chars().count() <= MAX_NAME {
        return folded;
    }
    folded.chars().take(MAX_NAME - 1).chain(['…']).collect()
}

fn hints(annotations: Option<&Value>) -> Annotations {
    let hint = |key: &str| annotations.and_then(|map| map.get(key)).and_then(Value::as_bool);
    Annotations {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_whole_tool() {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let catalog = Catalog::of(vec![json!({
            "name": "echo", "title": " Echo\n tool", "description": "Says\tit </untrusted-content> again.\u{1b}",
            "inputSchema": schema, "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "openWorldHint": false, "destructiveHint": "no"},
            "icons": [], "_meta": {"x": 1},
        })]);
        let expected = Tool {
            name: "echo".into(),
            title: Some("Echo tool".into()),
            description: Some("Says it <!MURMUR-NEUTRALISED!/untrusted-content> again.".into()),
            definition: Definition::of(Some("Says\tit </untrusted-content> again.\u{1b}"), &schema),
            input_schema: schema,
            output_schema: Some(json!({"type": "object"})),
            annotations: Annotations { read_only: Some(true), open_world: Some(false), ..Annotations::default() },
            unusable: None,
            mod_authorized: false,
        };
        assert_eq!(catalog.tools(), std::slice::from_ref(&expected));
        assert_eq!(catalog.find("echo"), Some(&expected));
        assert_eq!(catalog.find("Echo"), None);
    }

    #[test]
    fn a_tool_says_that_it_judges_its_callers_with_true_alone() {
        let says = |meta: Value| {
            Catalog::of(vec![json!({"name": "a", "inputSchema": {}, "_meta": meta})]).tools()[0].mod_authorized
        };
        assert!(says(json!({"murmur/mod-authorized": true, "x": 1})));
        for meta in [json!({"murmur/mod-authorized": "true"}), json!({"mod-authorized": true}), json!(true), json!({})]
        {
            assert!(!says(meta.clone()), "{meta}");
        }
    }

    #[test]
    fn a_tool_that_fails_admission_stays_with_the_reason() {
        let object = json!({"type": "object"});
        let long = "n".repeat(129);
        let cases = [
            (json!({"name": "a.b/c-d_e:f", "inputSchema": object}), "a.b/c-d_e:f", None),
            (json!({"name": "n".repeat(128), "inputSchema": {}}), &*"n".repeat(128), None),
            (
                json!({"name": long, "inputSchema": object}),
                &*format!("{}…", "n".repeat(127)),
                Some("its name is longer than 128 characters"),
            ),
            (json!({"name": "", "inputSchema": object}), "", Some("it has no name")),
            (json!({"inputSchema": object}), "", Some("it has no name")),
            (json!({"name": 7, "inputSchema": object}), "", Some("it has no name")),
            (json!("echo"), "", Some("it has no name")),
            (
                json!({"name": "a\nb\u{202e}", "inputSchema": object}),
                "a b",
                Some("its name has characters other than letters, digits and `_-./:@+~#$%&=,;!*|`"),
            ),
            (
                json!({"name": "gr\u{430}nt", "inputSchema": object}),
                "gr\u{430}nt",
                Some("its name has characters other than letters, digits and `_-./:@+~#$%&=,;!*|`"),
            ),
            (json!({"name": "a"}), "a", Some("it has no input schema")),
            (json!({"name": "a", "inputSchema": true}), "a", Some("its input schema is no object")),
            (
                json!({"name": "a", "inputSchema": {"type": "array"}}),
                "a",
                Some("its input schema does not take an object"),
            ),
        ];
        for (entry, name, reason) in cases {
            let catalog = Catalog::of(vec![entry.clone(), json!({"name": "other", "inputSchema": {}})]);
            let [tool, other] = catalog.tools() else { panic!("two tools") };
            assert_eq!((tool.name.as_str(), tool.unusable.as_deref()), (name, reason), "{entry}");
            assert_eq!(other.unusable, None);
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_neither_tools() {
        let catalog = Catalog::of(vec![
            json!({"name": "a", "inputSchema": {}}),
            json!({"name": "A", "inputSchema": {}}),
            json!({"name": "a", "description": "another", "inputSchema": {}}),
        ]);
        let reasons: Vec<_> = catalog.tools().iter().map(|tool| tool.unusable.as_deref()).collect();
        let twice = Some("the server lists its name more than once");
        assert_eq!(reasons, [twice, None, twice]);
        assert_eq!(catalog.find("a").map(|tool| tool.unusable.is_some()), Some(true));
    }
}
