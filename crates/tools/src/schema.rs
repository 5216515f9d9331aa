//! Inputs against JSON Schemas, with errors that name the field in plain words.
//!
//! The validator's own messages speak of keywords and quote whole values; a model needs the field and
//! what is accepted there. Everything foreign goes through `echo`.

use fence::RuntimeWords;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use policy::BadInput;
use serde_json::{Map, Value};
use vocab::ToolSpec;

/// At most this many faults are told at once.
const MAX_FAULTS: usize = 3;

/// Compiles a schema. References to anything outside it do not resolve.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::validator_for(schema).map_err(|error| error.to_string())
}

/// Checks an input.
pub(crate) fn check(validator: &Validator, spec: &ToolSpec, input: &Map<String, Value>) -> Result<(), BadInput> {
    let value = Value::Object(input.clone());
    let mut faults = validator.iter_errors(&value).peekable();
    if faults.peek().is_none() {
        return Ok(());
    }
    let mut words = RuntimeWords::new("the input of `").echo(&spec.name).text("` does not fit: ");
    for (index, fault) in faults.by_ref().take(MAX_FAULTS).enumerate() {
        if index > 0 {
            words = words.text("; ");
        }
        words = tell(words, spec, &fault);
    }
    if faults.next().is_some() {
        words = words.text("; and more");
    }
    Err(BadInput(words))
}

/// Adds one fault.
fn tell(words: RuntimeWords, spec: &ToolSpec, fault: &ValidationError<'_>) -> RuntimeWords {
    let field = field(fault.instance_path().as_str());
    match fault.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            words.text("`").echo(&join(&field, name)).text("` is required")
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let verb = if unexpected.len() == 1 {
                " is not a field; the fields are "
            } else {
                " are not fields; the fields are "
            };
            let words = quoted(words, unexpected.iter().map(|name| join(&field, name))).text(verb);
            let fields = spec.input_schema.get("properties").and_then(Value::as_object);
            quoted(words, fields.into_iter().flat_map(Map::keys).cloned())
        }
        _ => {
            let schema = parent(fault.schema_path().as_str()).and_then(|pointer| spec.input_schema.pointer(pointer));
            let words = if field.is_empty() { words.text("the input") } else { words.text("`").echo(&field).text("`") };
            match schema.map(wanted) {
                Some(Wanted::OneOf(options)) => quoted(words.text(" must be one of "), options.into_iter()),
                Some(Wanted::Kind(kind)) => words.text(" must be ").echo(&kind),
                Some(Wanted::Unsaid) | None => words.text(" is not accepted: ").echo(&fault.masked().to_string()),
            }
        }
    }
}

/// Adds names in backticks, at most ten.
fn quoted(mut words: RuntimeWords, names: impl Iterator<Item = String>) -> RuntimeWords {
    for (index, name) in names.enumerate() {
        if index == 10 {
            return words.text(", …");
        }
        words = words.text(if index == 0 { "`" } else { ", `" }).echo(&name).text("`");
    }
    words
}

/// A whole number that a provider wrote as `10.0` becomes `10`, which the schema takes for the same.
pub(crate) fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            // Exact up to 2^53, which is all that is converted.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
                let whole = float as i64;
                Value::from(whole)
            }
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

/// `/args/0/name` as `args[0].name`.
fn field(pointer: &str) -> String {
    let mut name = String::new();
    for segment in pointer.split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        if segment.bytes().all(|byte| byte.is_ascii_digit()) && !segment.is_empty() {
            name = format!("{name}[{segment}]");
        } else {
            name = join(&name, &segment);
        }
    }
    name
}

fn join(field: &str, name: &str) -> String {
    if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") }
}

fn parent(pointer: &str) -> Option<&str> {
    pointer.rsplit_once('/').map(|(parent, _)| parent)
}

/// What a subschema accepts.
enum Wanted {
    /// One of these.
    OneOf(Vec<String>),
    /// A value of this kind, in words.
    Kind(String),
    /// More than can be said in a few words.
    Unsaid,
}

fn wanted(schema: &Value) -> Wanted {
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        let text = |option: &Value| option.as_str().map_or_else(|| option.to_string(), str::to_owned);
        return Wanted::OneOf(options.iter().map(text).collect());
    }
    let bound = |key: &str| schema.get(key).and_then(Value::as_i64);
    let range = |least: Option<i64>, most: Option<i64>, unit: &str| match (least, most) {
        (Some(least), Some(most)) => format!(" from {least} to {most}{unit}"),
        (Some(least), None) => format!(" of at least {least}{unit}"),
        (None, Some(most)) => format!(" of at most {most}{unit}"),
        (None, None) => String::new(),
    };
    Wanted::Kind(match schema.get("type").and_then(Value::as_str) {
        Some("integer") => format!("an integer{}", range(bound("minimum"), bound("maximum"), "")),
        Some("number") => format!("a number{}", range(bound("minimum"), bound("maximum"), "")),
        Some("string") if schema.get("pattern").is_some() => return Wanted::Unsaid,
        Some("string") => match (bound("minLength"), bound("maxLength")) {
            (Some(1), None) => "a string that is not empty".to_owned(),
            (least, most) => format!("a string{}", range(least, most, " characters")),
        },
        Some("boolean") => "true or false".to_owned(),
        Some("array") => format!("an array{}", range(bound("minItems"), bound("maxItems"), " items")),
        Some("object") => "an object".to_owned(),
        _ => return Wanted::Unsaid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(input: Value) -> String {
        let spec = ToolSpec {
            name: "probe".into(),
            description: String::new(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "filePath": {"type": "string", "minLength": 1},
                    "maxBytes": {"type": "integer", "minimum": 1},
                    "depth": {"type": "integer", "minimum": 1, "maximum": 64},
                    "regex": {"type": "boolean"},
                    "args": {"type": "array", "items": {"type": "string"}},
                    "mode": {"enum": ["a", "b"]},
                },
                "required": ["filePath"],
                "additionalProperties": false,
            }),
        };
        let validator = compile(&spec.input_schema).unwrap();
        let input = input.as_object().unwrap().clone();
        check(&validator, &spec, &input).map_or_else(|bad| bad.0.as_str().to_owned(), |()| String::from("fits"))
    }

    #[test]
    fn each_fault_names_its_field_and_what_is_accepted() {
        let cases = [
            (json!({"filePath": "a", "maxBytes": 1, "depth": 64, "regex": true, "args": ["x"], "mode": "a"}), "fits"),
            (json!({"filePath": "a", "maxBytes": 2.0}), "fits"),
            (json!({}), "`filePath` is required"),
            (json!({"filePath": ""}), "`filePath` must be a string that is not empty"),
            (json!({"filePath": 7}), "`filePath` must be a string that is not empty"),
            (json!({"filePath": "a", "maxBytes": 0}), "`maxBytes` must be an integer of at least 1"),
            (json!({"filePath": "a", "maxBytes": 1.5}), "`maxBytes` must be an integer of at least 1"),
            (json!({"filePath": "a", "maxBytes": "9"}), "`maxBytes` must be an integer of at least 1"),
            (json!({"filePath": "a", "depth": 65}), "`depth` must be an integer from 1 to 64"),
            (json!({"filePath": "a", "regex": "yes"}), "`regex` must be true or false"),
            (json!({"filePath": "a", "args": ["x", 2]}), "`args[1]` must be a string"),
            (json!({"filePath": "a", "args": {}}), "`args` must be an array"),
            (json!({"filePath": "a", "mode": "c"}), "`mode` must be one of `a`, `b`"),
            (
                json!({"filePath": "a", "path": "b"}),
                "`path` is not a field; the fields are `filePath`, `maxBytes`, `depth`, `regex`, `args`, `mode`",
            ),
        ];
        for (input, expected) in cases {
            let told = fault(input.clone());
            let told = told.strip_prefix("the input of `probe` does not fit: ").unwrap_or(&told);
            assert_eq!(told, expected, "{input}");
        }
    }

    #[test]
    fn whole_floats_become_integers_and_nothing_else_changes() {
        assert_eq!(plain(&json!([10.0, 1.5, 7, "10.0", 1e300])), json!([10, 1.5, 7, "10.0", 1e300]));
    }
}
