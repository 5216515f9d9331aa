//! One line that tells a person what a call is about. For progress on a terminal, not for a record.

use secrets::Redactor;
use serde_json::{Map, Value};

/// The inputs that say most, best first.
const TELLING: [&str; 6] = ["command", "filePath", "pattern", "query", "args", "path"];
const LONGEST: usize = 100;

/// The most telling input, on one printable line, redacted; empty when there is none.
pub(crate) fn of(input: &Map<String, Value>, redactor: &Redactor) -> String {
    let Some(value) = TELLING.iter().find_map(|name| input.get(*name)) else { return String::new() };
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    };
    let clean = redactor.redact_owned(text);
    let mut line = String::with_capacity(LONGEST);
    for (index, char) in clean.as_str().chars().enumerate() {
        if index == LONGEST {
            line.push('…');
            break;
        }
        match char {
            '\n' | '\t' | '\r' => line.push(' '),
            _ if char.is_control() => line.extend(char.escape_default()),
            _ => line.push(char),
        }
    }
    line
}
