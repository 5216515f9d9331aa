//! `switch-driver`: the agent changes which of the declared driver choices answers it.
//!
//! Offered exactly when the manifest lets the agent change `inference.driver`. It takes the way of every
//! call, and what a controller is refused it is refused as well, in the same words.

use std::sync::Arc;

use policy::{Action, ActionKind, BadInput, Cancel, Execution, Outcome, Permit, Proposal, RawResult, Tool};
use serde_json::{Map, Value, json};
use vocab::{BoxFuture, StateEffect, ToolSpec};

use crate::control::{Control, ControlRefusal, Principal, Refused, Setting};

/// The tool.
pub(crate) struct SwitchDriver {
    spec: ToolSpec,
    control: Arc<Control>,
}

impl SwitchDriver {
    pub(crate) const NAME: &'static str = "switch-driver";

    pub(crate) fn tool(control: &Arc<Control>) -> Arc<dyn Tool> {
        let choices = control.choices();
        let names: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
        let list: Vec<String> = choices
            .iter()
            .map(|choice| format!("`{}` ({} on {})", choice.name, choice.driver.model(), choice.driver.name()))
            .collect();
        let description =
            format!("Changes which driver answers from the next call on. The choices: {}.", list.join(", "));
        let input_schema = json!({
            "type": "object",
            "properties": {"driver": {"type": "string", "enum": names, "description": "the choice to turn to"}},
            "required": ["driver"],
            "additionalProperties": false,
        });
        let spec = ToolSpec { name: Self::NAME.to_owned(), description, input_schema };
        Arc::new(Self { spec, control: Arc::clone(control) })
    }
}

impl Tool for SwitchDriver {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn state_effect(&self) -> StateEffect {
        StateEffect::Mutate
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        // What it asks for is judged where a controller's wish is, so that its refusal is on record like another.
        let value = input.get("driver").cloned().unwrap_or_default();
        let stray = input.keys().any(|key| key != "driver");
        let action = Action::new(call_id, Self::NAME, ActionKind::SwitchDriver);
        Ok(Proposal { action, execution: Box::new(Switching { control: Arc::clone(&self.control), value, stray }) })
    }
}

struct Switching {
    control: Arc<Control>,
    value: Value,
    /// Whether the input has a field that there is none of.
    stray: bool,
}

impl Execution for Switching {
    fn run(self: Box<Self>, _permit: Permit, _cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::Ran(self.switch())))
    }
}

impl Switching {
    fn switch(&self) -> RawResult {
        let setting = Setting::Driver.as_str();
        let outcome = if self.stray {
            Err(ControlRefusal::InvalidValue("the input of `switch-driver` is one field, `driver`"))
        } else {
            self.control.set(Principal::Agent, setting, &self.value)
        };
        match outcome {
            Ok(change) => RawResult::ok(format!(
                "the driver choice was `{}` and is `{}` from the next call on",
                change.previous.as_str().unwrap_or_default(),
                change.value.as_str().unwrap_or_default()
            )),
            Err(refusal) => {
                let named = Some(("setting", setting));
                let refused = Refused { status: refusal.status(), reason: refusal.reason(), named };
                if !matches!(refusal, ControlRefusal::Record(_))
                    && self.control.refused(Principal::Agent, &refused).is_err()
                {
                    return RawResult::error("the refusal of the change cannot be put on record");
                }
                RawResult::error(refusal.to_string())
            }
        }
    }
}
