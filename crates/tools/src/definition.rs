//! A tool's public face: its spec, declared once, and the check of inputs against it.
//!
//! All that a tool adds is how it proposes a call whose input has passed that check. The validator is
//! compiled at the first call, because most sessions call few of the tools that they are offered and
//! launch time counts.

use std::sync::{Arc, OnceLock};

use fence::RuntimeWords;
use jsonschema::Validator;
use policy::{Action, ActionKind, BadInput, Proposal, Tool};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use crate::{ToolError, schema};

/// What a tool of this crate says of itself.
pub(crate) struct About<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: ActionKind,
    pub(crate) state_effect: StateEffect,
    pub(crate) description: &'a str,
    /// The input's fields by name, each with a type and a description.
    pub(crate) properties: Value,
    pub(crate) required: &'a [&'a str],
}

/// A tool's spec with its input check.
pub(crate) struct Definition {
    spec: ToolSpec,
    kind: ActionKind,
    state_effect: StateEffect,
    validator: OnceLock<Option<Validator>>,
}

impl Definition {
    /// A tool whose schema is made here.
    pub(crate) fn new(about: About<'_>) -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": about.properties,
            "required": about.required,
            "additionalProperties": false,
        });
        let spec = ToolSpec { name: about.name.to_owned(), description: about.description.to_owned(), input_schema };
        Self { spec, kind: about.kind, state_effect: about.state_effect, validator: OnceLock::new() }
    }

    /// A tool whose schema somebody else wrote: compiled now, so that a bad one fails at launch.
    ///
    /// # Errors
    /// [`ToolError::Schema`].
    pub(crate) fn foreign(spec: ToolSpec, kind: ActionKind, state_effect: StateEffect) -> Result<Self, ToolError> {
        let validator = schema::compile(&spec.input_schema)
            .map_err(|reason| ToolError::Schema { tool: spec.name.clone(), reason })?;
        Ok(Self { spec, kind, state_effect, validator: OnceLock::from(Some(validator)) })
    }

    /// The tool whose calls `propose` makes, from an action without effects yet and the checked input.
    pub(crate) fn tool<F>(self, propose: F) -> Arc<dyn Tool>
    where
        F: Fn(Action, &Map<String, Value>) -> Result<Proposal, BadInput> + Send + Sync + 'static,
    {
        Arc::new(Defined { definition: self, propose })
    }

    /// The same with the input read into a type.
    pub(crate) fn typed<I, F>(self, propose: F) -> Arc<dyn Tool>
    where
        I: DeserializeOwned,
        F: Fn(Action, I) -> Result<Proposal, BadInput> + Send + Sync + 'static,
    {
        self.tool(move |action, input| propose(action, read(input)?))
    }

    fn check(&self, input: &Map<String, Value>) -> Result<(), BadInput> {
        let validator = self.validator.get_or_init(|| schema::compile(&self.spec.input_schema).ok());
        match validator {
            Some(validator) => schema::check(validator, &self.spec, input),
            None => Err(BadInput(RuntimeWords::new("the tool's own input schema is invalid, so no input is taken"))),
        }
    }
}

fn read<T: DeserializeOwned>(input: &Map<String, Value>) -> Result<T, BadInput> {
    let plain: Map<String, Value> = input.iter().map(|(key, value)| (key.clone(), schema::plain(value))).collect();
    serde_json::from_value(Value::Object(plain)).map_err(|error| {
        BadInput(RuntimeWords::new("the input does not fit the tool's schema: ").echo(&error.to_string()))
    })
}

struct Defined<F> {
    definition: Definition,
    propose: F,
}

impl<F> Tool for Defined<F>
where
    F: Fn(Action, &Map<String, Value>) -> Result<Proposal, BadInput> + Send + Sync,
{
    fn spec(&self) -> &ToolSpec {
        &self.definition.spec
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        self.definition.check(input)?;
        (self.propose)(Action::new(call_id, &self.definition.spec.name, self.definition.kind), input)
    }
}
