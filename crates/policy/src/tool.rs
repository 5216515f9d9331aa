//! What every tool is: something that proposes, and then runs what was permitted.

use fence::RuntimeWords;
use vocab::{BoxFuture, StateEffect, ToolSpec};

use crate::{Action, Cancel, Outcome, Permit};

/// A tool that the model can call.
pub trait Tool: Send + Sync {
    /// How it is offered to the model.
    fn spec(&self) -> &ToolSpec;

    /// Whether it changes anything.
    fn state_effect(&self) -> StateEffect;

    /// Turns a call into an action, touching nothing. The input is an object; its agreement with the
    /// schema is this method's to check.
    ///
    /// # Errors
    /// [`BadInput`], which names the field.
    fn propose(&self, call_id: &str, input: &serde_json::Map<String, serde_json::Value>) -> Result<Proposal, BadInput>;
}

/// A call that is ready for review.
pub struct Proposal {
    /// What it would do.
    pub action: Action,
    /// How it is done.
    pub execution: Box<dyn Execution>,
}

/// The doing of one proposed call.
pub trait Execution: Send {
    /// Does what the permit allows, confirming each concrete target.
    fn run(self: Box<Self>, permit: Permit, cancel: Cancel) -> BoxFuture<'static, Outcome>;
}

/// An input that does not fit the tool's schema. The call never ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadInput(pub RuntimeWords);
