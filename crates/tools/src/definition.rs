//! A tool's public face: its spec, declared once, and the check of inputs against it.
//!
//! The validator is compiled at the first call, because most sessions call few of the tools that they
//! are offered and launch time counts.

use std::sync::OnceLock;

use fence::RuntimeWords;
use jsonschema::Validator;
use policy::BadInput;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use crate::{ToolError, schema};

/// A tool's spec with its input check.
#[derive(Debug)]
pub(crate) struct Definition {
    spec: ToolSpec,
    state_effect: StateEffect,
    validator: OnceLock<Option<Validator>>,
}

impl Definition {
    /// A built-in tool: `properties` by name, each with a type and a description.
    pub(crate) fn new(
        name: &str,
        state_effect: StateEffect,
        description: &str,
        properties: Value,
        required: &[&str],
    ) -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        let spec = ToolSpec { name: name.to_owned(), description: description.to_owned(), input_schema };
        Self { spec, state_effect, validator: OnceLock::new() }
    }

    /// A tool whose schema somebody else wrote: compiled now, so that a bad one fails at launch.
    ///
    /// # Errors
    /// [`ToolError::Schema`].
    pub(crate) fn foreign(spec: ToolSpec, state_effect: StateEffect) -> Result<Self, ToolError> {
        let validator = schema::compile(&spec.input_schema)
            .map_err(|reason| ToolError::Schema { tool: spec.name.clone(), reason })?;
        Ok(Self { spec, state_effect, validator: OnceLock::from(Some(validator)) })
    }

    pub(crate) fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    pub(crate) fn state_effect(&self) -> StateEffect {
        self.state_effect
    }

    /// Checks an input against the schema.
    pub(crate) fn check(&self, input: &Map<String, Value>) -> Result<(), BadInput> {
        let validator = self.validator.get_or_init(|| schema::compile(&self.spec.input_schema).ok());
        match validator {
            Some(validator) => schema::check(validator, &self.spec, input),
            None => Err(BadInput(RuntimeWords::new("the tool's own input schema is invalid, so no input is taken"))),
        }
    }

    /// Checks an input and reads it.
    pub(crate) fn read<T: DeserializeOwned>(&self, input: &Map<String, Value>) -> Result<T, BadInput> {
        self.check(input)?;
        let plain: Map<String, Value> = input.iter().map(|(key, value)| (key.clone(), schema::plain(value))).collect();
        serde_json::from_value(Value::Object(plain)).map_err(|error| {
            BadInput(RuntimeWords::new("the input does not fit the tool's schema: ").echo(&error.to_string()))
        })
    }
}
