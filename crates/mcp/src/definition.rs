//! What a grant pins: the digest of what a tool says of itself and of what it takes.
//!
//! The digest is SHA-256 over canonical JSON, so that a server which writes its keys in another order has
//! changed nothing. Title, output schema and annotations are not part of it: they are not what the model
//! decides by when it writes arguments.

use std::fmt;
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

/// The digest of a tool's description and input schema. Its text is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Definition([u8; 32]);

/// A text that is no definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a definition is 64 hexadecimal digits")]
pub struct NotADefinition;

impl Definition {
    /// Of a description, if there is one, and an input schema.
    #[must_use]
    pub fn of(description: Option<&str>, input_schema: &Value) -> Self {
        let mut text = String::from("{\"description\":");
        write(&mut text, &description.map_or(Value::Null, Value::from));
        text.push_str(",\"inputSchema\":");
        write(&mut text, input_schema);
        text.push('}');
        let mut bytes = [0; 32];
        for (byte, hashed) in bytes.iter_mut().zip(digest(&SHA256, text.as_bytes()).as_ref()) {
            *byte = *hashed;
        }
        Self(bytes)
    }
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Definition({self})")
    }
}

impl FromStr for Definition {
    type Err = NotADefinition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(NotADefinition);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let mut value = 0;
            for digit in pair {
                let digit = char::from(*digit).to_digit(16).ok_or(NotADefinition)?;
                value = value * 16 + digit;
            }
            *byte = u8::try_from(value).map_err(|_| NotADefinition)?;
        }
        Ok(Self(bytes))
    }
}

/// Canonical JSON: no white space, keys in the order of their bytes. The parser bounds the depth.
fn write(out: &mut String, value: &Value) {
    match value {
        Value::Object(map) => write_object(out, map),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        // serde_json writes every other value in one way.
        other => out.push_str(&other.to_string()),
    }
}

fn write_object(out: &mut String, map: &Map<String, Value>) {
    let mut members: Vec<(&String, &Value)> = map.iter().collect();
    members.sort_by_key(|(key, _)| *key);
    out.push('{');
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&Value::from(key.as_str()).to_string());
        out.push(':');
        write(out, value);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_digest_is_that_of_the_canonical_text() {
        let schema = json!({"type": "object", "properties": {"b": {"type": "string"}, "a": [1, 2.5, null, true]}});
        let mut text = String::new();
        write(&mut text, &schema);
        assert_eq!(text, r#"{"properties":{"a":[1,2.5,null,true],"b":{"type":"string"}},"type":"object"}"#);
        assert_eq!(
            Definition::of(None, &json!({})).to_string(),
            // printf '%s' '{"description":null,"inputSchema":{}}' | sha256sum
            "16a6665d6235d800dddc8eaebf52e6aa5c8668678b7a20859c5c481dd6cf9f8e"
        );
    }

    #[test]
    fn each_part_of_a_definition_counts() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let base = Definition::of(Some("Reads."), &schema);
        assert_eq!(base, Definition::of(Some("Reads."), &schema.clone()));
        assert_ne!(base, Definition::of(Some("Reads. "), &schema));
        assert_ne!(base, Definition::of(None, &schema));
        assert_ne!(Definition::of(None, &schema), Definition::of(Some(""), &schema));
        assert_ne!(
            base,
            Definition::of(Some("Reads."), &json!({"type": "object", "properties": {"a": {"type": "number"}}}))
        );
        assert_ne!(Definition::of(None, &json!([1, 2])), Definition::of(None, &json!([2, 1])));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect()))
            ]
        })
    }

    /// The same value with every object's keys in the opposite order.
    fn reversed(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                Value::Object(map.iter().rev().map(|(key, value)| (key.clone(), reversed(value))).collect())
            }
            Value::Array(items) => items.iter().map(reversed).collect(),
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn the_order_of_keys_is_no_change(schema in any_json()) {
            prop_assert_eq!(Definition::of(None, &schema), Definition::of(None, &reversed(&schema)));
        }

        #[test]
        fn different_values_have_different_texts(one in any_json(), other in any_json()) {
            prop_assert_eq!(one == other, Definition::of(None, &one) == Definition::of(None, &other));
        }

        #[test]
        fn the_canonical_text_is_the_value(value in any_json()) {
            let mut text = String::new();
            write(&mut text, &value);
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), serde_json::from_str::<Value>(&value.to_string()).unwrap());
        }

        #[test]
        fn a_definition_is_read_back(schema in any_json(), text in "[0-9a-fA-Fg]{62,66}") {
            let definition = Definition::of(None, &schema);
            prop_assert_eq!(definition.to_string().parse(), Ok(definition));
            prop_assert_eq!(text.parse::<Definition>().is_ok(), text.len() == 64 && !text.contains('g'));
        }
    }
}
