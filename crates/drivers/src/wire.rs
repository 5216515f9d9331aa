//! What both wires share: writing JSON into a growing buffer, and ids and names that a provider takes.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::Value;
use vocab::{Arguments, Part, ToolCall};

use crate::BuildError;

/// A JSON text that only grows.
#[derive(Debug, Default)]
pub(crate) struct Json(Vec<u8>);

impl Json {
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    pub(crate) fn value(&mut self, value: &(impl Serialize + ?Sized)) -> &mut Self {
        // A Vec takes every write, and what is written here has string keys only.
        let _ = serde_json::to_writer(&mut self.0, value);
        self
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Ids of tool calls as they stand on a wire: of the characters that the provider takes, and unique
/// in the conversation, because some servers count from zero in every answer and others refuse that.
#[derive(Debug)]
pub(crate) struct CallIds {
    limit: usize,
    current: HashMap<String, String>,
    used: HashSet<String>,
}

impl CallIds {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, current: HashMap::new(), used: HashSet::new() }
    }

    /// The wire id of a call that enters the conversation.
    pub(crate) fn call(&mut self, id: &str) -> String {
        let mut wire = word(id, self.limit);
        let mut suffix = self.used.len();
        while self.used.contains(&wire) {
            let tail = format!("_{suffix}");
            wire = word(id, self.limit.saturating_sub(tail.len())) + &tail;
            suffix += 1;
        }
        self.used.insert(wire.clone());
        self.current.insert(id.to_owned(), wire.clone());
        wire
    }

    /// The wire id of the call that a result answers: the latest one of this id.
    pub(crate) fn result(&self, id: &str) -> String {
        self.current.get(id).cloned().unwrap_or_else(|| word(id, self.limit))
    }
}

/// Letters, digits, `_` and `-`, at least one and at most `limit`. A model may invent any tool name,
/// and the history that repeats it must not be refused for it.
pub(crate) fn word(text: &str, limit: usize) -> String {
    let kept: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .take(limit)
        .collect();
    if kept.is_empty() { "_".to_owned() } else { kept }
}

/// The arguments as a JSON object. A malformed text goes back wrapped: every provider wants an object
/// here, and the model should see what it wrote.
pub(crate) fn arguments(call: &ToolCall) -> Value {
    match &call.arguments {
        Arguments::Object(map) => Value::Object(map.clone()),
        Arguments::Malformed { raw, .. } => serde_json::json!({ "malformed_arguments": raw }),
    }
}

/// All text of a message, one part a line.
pub(crate) fn joined_text(parts: &[Part]) -> String {
    let mut joined = String::new();
    for text in parts.iter().filter_map(text_of) {
        if !joined.is_empty() {
            joined.push('\n');
        }
        joined.push_str(text);
    }
    joined
}

pub(crate) fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Thinking(_) | Part::ToolCall(_) | Part::Image { .. } => None,
    }
}

/// Writes the operator's own request keys, each with a comma after it.
pub(crate) fn extras(json: &mut Json, request: &serde_json::Map<String, Value>) {
    for (key, value) in request {
        json.value(key).raw(":").value(value).raw(",");
    }
}

/// Refuses request keys that the driver sets itself.
pub(crate) fn refuse_reserved(request: &serde_json::Map<String, Value>, reserved: &[&str]) -> Result<(), BuildError> {
    match request.keys().find(|key| reserved.contains(&key.as_str())) {
        Some(key) => Err(BuildError::RequestKey { key: key.clone() }),
        None => Ok(()),
    }
}
