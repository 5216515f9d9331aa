//! Tool calls as the model asks for them, and tools as the model is offered them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Whether a tool changes anything outside the model's own context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateEffect {
    /// It only looks; two of these in one turn may run at the same time.
    Read,
    /// It may change something.
    Mutate,
    /// It hands work to an agent in a process of its own, which may change something; two of these in one turn run at
    /// the same time.
    Delegate,
}

impl StateEffect {
    /// The effect as it stands in manifests and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Mutate | Self::Delegate => "mutate",
        }
    }
}

/// A tool as the model is offered it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which the model calls it.
    pub name: String,
    /// What it does, in words for the model.
    pub description: String,
    /// JSON Schema of its input: always an object schema.
    pub input_schema: Value,
}

/// The input of a call, as far as it could be read.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// A JSON object, as every tool wants one.
    Object(Map<String, Value>),
    /// Anything else, kept as the model wrote it: the call is answered with an error.
    Malformed {
        /// The model's own text.
        raw: String,
        /// Why it is not an object.
        reason: String,
    },
}

/// One call that the model asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The provider's id; the result carries the same.
    pub id: String,
    /// The tool's name, as the model spelled it.
    pub name: String,
    /// The input.
    pub arguments: Arguments,
}

impl ToolCall {
    /// Reads the arguments from the JSON text that a provider streamed. An empty text is an empty
    /// object: providers send that for a tool without inputs.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: &str) -> Self {
        let parsed =
            if arguments.trim().is_empty() { Ok(Value::Object(Map::new())) } else { serde_json::from_str(arguments) };
        let arguments = match parsed {
            Ok(Value::Object(map)) => Arguments::Object(map),
            Ok(other) => Arguments::Malformed {
                raw: arguments.to_owned(),
                reason: format!("the input must be a JSON object, not {}", kind_of(&other)),
            },
            Err(error) => Arguments::Malformed {
                raw: arguments.to_owned(),
                reason: format!("the input is not valid JSON: {error}"),
            },
        };
        Self { id: id.into(), name: name.into(), arguments }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
