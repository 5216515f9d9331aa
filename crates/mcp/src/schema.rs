//! Arguments against a tool's schema, with a bound on what a hostile schema can cost.
//!
//! The validator fetches nothing: a reference to anything outside of the schema does not resolve, and such a
//! tool cannot be called. Patterns may not backtrack without end. Messages name the place and quote no value.

use jsonschema::{PatternOptions, Validator};
use manifest::fold_description;
use serde_json::{Map, Value};

use crate::{Error, cost};

/// At most this many faults are told.
const MAX_FAULTS: usize = 5;

/// Steps that a pattern may go back, and bytes that it may be compiled to.
const MAX_BACKTRACKS: usize = 100_000;
const MAX_PATTERN: usize = 1024 * 1024;

/// Checks a call's arguments against the input schema of the tool of this name.
///
/// # Errors
/// [`Error::Arguments`] with what does not fit; [`Error::ToolUnusable`] when the schema itself cannot be used.
pub fn validate(tool: &str, schema: &Value, arguments: &Map<String, Value>) -> Result<(), Error> {
    let unusable = |reason| Error::ToolUnusable { tool: fold_description(tool), reason: words(reason) };
    let arguments = Value::Object(arguments.clone());
    cost::check(schema, &arguments).map_err(|reason| unusable(reason.to_owned()))?;
    let validator = compile(schema).map_err(unusable)?;
    let mut found = validator.iter_errors(&arguments);
    let mut faults: Vec<String> = found
        .by_ref()
        .take(MAX_FAULTS)
        .map(|fault| {
            let place = fault.instance_path().as_str();
            let place = if place.is_empty() { "the arguments" } else { place };
            fold_description(&format!("{place}: {}", fault.masked()))
        })
        .collect();
    if faults.is_empty() {
        return Ok(());
    }
    if found.next().is_some() {
        faults.push("and more".to_owned());
    }
    Err(Error::Arguments { tool: fold_description(tool), faults })
}

/// Why no arguments can be checked against it, whatever they are.
pub(crate) fn fault(schema: &Value) -> Option<String> {
    let none = Value::Object(Map::new());
    let checked = cost::check(schema, &none).map_err(str::to_owned);
    checked.and_then(|()| compile(schema).map(drop)).err().map(words)
}

fn words(reason: String) -> String {
    format!("its input schema cannot be used: {reason}")
}

fn compile(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS).size_limit(MAX_PATTERN);
    jsonschema::options()
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| fold_description(&error.masked().to_string()))
}
