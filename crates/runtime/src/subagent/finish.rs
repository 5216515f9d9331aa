//! `finish_subagent`: how a subagent ends.
//!
//! It must be the only call of its turn: a report is about what was done, and a call beside it is not done yet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fence::RuntimeWords;
use policy::{Action, ActionKind, BadInput, Cancel, Execution, Outcome, Permit, Proposal, RawResult, Tool};
use serde_json::{Map, Value, json};
use vocab::{BoxFuture, StateEffect, ToolSpec};

/// The tool's name.
pub(crate) const FINISH: &str = "finish_subagent";

/// What the model reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reported {
    pub(crate) succeeded: bool,
    pub(crate) summary: String,
    pub(crate) verification: Option<String>,
}

/// Where the report of a task goes.
#[derive(Debug, Default)]
pub(crate) struct Finish {
    alone: AtomicBool,
    report: Mutex<Option<Reported>>,
}

impl Finish {
    /// A turn asks for so many calls.
    pub(crate) fn turn_of(&self, calls: usize) {
        self.alone.store(calls == 1, Ordering::Relaxed);
    }

    /// The report, if there is one.
    pub(crate) fn report(&self) -> Option<Reported> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn tool(self: &Arc<Self>) -> Arc<dyn Tool> {
        let description = "Ends your work and reports to the agent that gave you the task. Call it alone, as the only call \
                           of its turn: that agent sees nothing else of what you said.";
        let input_schema = json!({
            "type": "object",
            "properties": {
                "status": {"type": "string", "enum": ["succeeded", "failed"]},
                "summary": {"type": "string", "description": "what you did and found, and what you did not"},
                "verification": {"type": "string", "description": "how you made sure, such as a command and its result"},
            },
            "required": ["status", "summary"],
            "additionalProperties": false,
        });
        let spec = ToolSpec { name: FINISH.to_owned(), description: description.to_owned(), input_schema };
        Arc::new(FinishTool { spec, finish: Arc::clone(self) })
    }
}

struct FinishTool {
    spec: ToolSpec,
    finish: Arc<Finish>,
}

impl Tool for FinishTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn state_effect(&self) -> StateEffect {
        StateEffect::Mutate
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let text = |name: &'static str| match input.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(bad("`").echo(name).text("` must be a text")),
        };
        let read = || {
            if let Some(key) = input.keys().find(|key| !["status", "summary", "verification"].contains(&key.as_str())) {
                return Err(bad("there is no field `").echo(key).text("`"));
            }
            let succeeded = match text("status")?.as_deref() {
                Some("succeeded") => true,
                Some("failed") => false,
                _ => return Err(bad("`status` must be `succeeded` or `failed`")),
            };
            let summary = text("summary")?.filter(|text| !text.trim().is_empty());
            let summary = summary.ok_or_else(|| bad("`summary` must say what was done"))?;
            Ok(Reported { succeeded, summary, verification: text("verification")? })
        };
        let report = read().map_err(BadInput)?;
        let action = Action::new(call_id, FINISH, ActionKind::FinishSubagent);
        Ok(Proposal { action, execution: Box::new(Finishing { finish: Arc::clone(&self.finish), report }) })
    }
}

fn bad(text: &'static str) -> RuntimeWords {
    RuntimeWords::new("the input of `finish_subagent`: ").text(text)
}

struct Finishing {
    finish: Arc<Finish>,
    report: Reported,
}

impl Execution for Finishing {
    fn run(self: Box<Self>, _permit: Permit, _cancel: Cancel) -> BoxFuture<'static, Outcome> {
        let outcome = if self.finish.alone.load(Ordering::Relaxed) {
            *self.finish.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.report);
            Outcome::Ran(RawResult::ok("reported"))
        } else {
            let words = "nothing was reported: it must be the only call of its turn. Call it again when the others have \
                         their results";
            Outcome::NotRun(RuntimeWords::new(words))
        };
        Box::pin(std::future::ready(outcome))
    }
}
