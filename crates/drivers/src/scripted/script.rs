//! The script's form, and reading it strictly.
//!
//! YAML: `turns:` and a list. JSONL (by the file's ending): one turn a line. The same keys in both;
//! an unknown key, a wrong type or a turn that does nothing is an error with its place.

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;
use vocab::{DriverErrorKind, StopReason, Usage};

use crate::config::BuildError;
use crate::failure::printable;

/// The longest script.
const LONGEST: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    turns: Vec<Spanned<Turn>>,
}

/// A turn and where it begins: line and column, from 1.
struct Placed(u64, u64, Turn);

/// One answer of the script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Turn {
    /// Texts that must stand in the tool results since the turn before.
    #[serde(default)]
    pub(super) expect: Vec<String>,
    pub(super) thinking: Option<String>,
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Vec<Call>,
    #[serde(default)]
    pub(super) usage: Tokens,
    pub(super) stop: Option<StopReason>,
    /// The turn fails, after what it says.
    pub(super) error: Option<Failure>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    /// Made up where it is not given.
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// An object; or a text, which plays malformed arguments.
    pub(super) arguments: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    pub(super) kind: DriverErrorKind,
    pub(super) message: Option<String>,
    pub(super) retry_after_ms: Option<u64>,
}

#[derive(Debug, Deserialize, Default, Clone, Copy)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tokens {
    input_tokens: u64,
    output_tokens: u64,
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    thinking_tokens: Option<u64>,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input_tokens: tokens.input_tokens,
            output_tokens: tokens.output_tokens,
            cached_tokens: tokens.cached_tokens,
            cache_write_tokens: tokens.cache_write_tokens,
            thinking_tokens: tokens.thinking_tokens,
        }
    }
}

/// Reads a script.
pub(super) fn read(path: &Path) -> Result<Vec<Turn>, BuildError> {
    let unreadable = |error| BuildError::ScriptUnreadable { path: path.to_owned(), error };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    let at = |line: u64, column: u64, message: &str| BuildError::Script {
        path: path.to_owned(),
        line,
        column,
        message: printable(message, 300),
    };
    if text.len() as u64 > LONGEST {
        return Err(at(1, 1, &format!("the script is longer than {} MiB", LONGEST >> 20)));
    }
    let turns = if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("jsonl")) {
        jsonl(&text)
    } else {
        yaml(&text)
    };
    let turns = turns.map_err(|(line, column, message)| at(line, column, bare(&message)))?;
    if turns.is_empty() {
        return Err(at(1, 1, "the script has no turn"));
    }
    if let Some((Placed(line, column, _), message)) =
        turns.iter().find_map(|placed| wrong(&placed.2).map(|message| (placed, message)))
    {
        return Err(at(*line, *column, &message));
    }
    Ok(turns.into_iter().map(|Placed(_, _, turn)| turn).collect())
}

fn yaml(text: &str) -> Result<Vec<Placed>, (u64, u64, String)> {
    let script: Script = serde_saphyr::from_str(text).map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
        (line, column, error.without_snippet().to_string())
    })?;
    let placed = |turn: Spanned<Turn>| Placed(turn.defined.line(), turn.defined.column(), turn.value);
    Ok(script.turns.into_iter().map(placed).collect())
}

fn jsonl(text: &str) -> Result<Vec<Placed>, (u64, u64, String)> {
    let lines = text.lines().zip(1_u64..).filter(|(line, _)| !line.trim().is_empty());
    lines
        .map(|(line, number)| match serde_json::from_str(line) {
            Ok(turn) => Ok(Placed(number, 1, turn)),
            Err(error) => Err((number, error.column() as u64, error.to_string())),
        })
        .collect()
}

/// The sentence without the place, which stands before it, and without the parser's advice to callers.
fn bare(message: &str) -> &str {
    let message = message.rsplit_once(" at line ").map_or(message, |(bare, _)| bare);
    message.split_once(", set DuplicateKeyPolicy").map_or(message, |(bare, _)| bare)
}

/// What a turn may not be, though each of its keys is well formed.
fn wrong(turn: &Turn) -> Option<String> {
    if turn.thinking.is_none() && turn.text.is_none() && turn.tool_calls.is_empty() && turn.error.is_none() {
        return Some("the turn says nothing, calls nothing and does not fail".to_owned());
    }
    turn.tool_calls.iter().find_map(|call| match &call.arguments {
        None | Some(Value::Object(_) | Value::String(_)) => None,
        Some(_) => Some(format!("the turn calls `{}` with arguments that are neither an object nor a text", call.name)),
    })
}
