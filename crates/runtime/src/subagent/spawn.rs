//! `spawn_subagent`: hands a task to a subagent and waits for its report.
//!
//! It takes the way of every call. What is reviewed is the directory, for the operation `delegate`; what the subagent does
//! there is reviewed again, call by call, in its own session and by the rules of all sessions above.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use fence::RuntimeWords;
use policy::{
    Action, ActionKind, BadInput, Cancel, Denial, Effect, Execution, Operation, Outcome, Permit, Proposal, RawResult,
    Tool,
};
use serde_json::{Map, Value, json};
use vocab::{BoxFuture, StateEffect, ToolSpec};

use super::family::Family;
use super::serving::{Order, Serving};

const NAME: &str = "spawn_subagent";
/// The longest name that a call may give.
const LABEL: usize = 80;

pub(super) struct SpawnSubagent {
    spec: ToolSpec,
    family: Arc<Family>,
}

/// What a call asks for.
struct Input {
    task: String,
    root: PathBuf,
    label: Option<String>,
    model: Option<String>,
}

impl SpawnSubagent {
    pub(super) fn tool(family: &Arc<Family>) -> Arc<dyn Tool> {
        let names: Vec<&str> = family.choices().iter().map(|choice| choice.name.as_str()).collect();
        let minutes = family.delegation.timeout.as_secs().div_ceil(60);
        let description = format!(
            "Hands a task to a subagent and waits for its report. The subagent works on its own, with at most your rights, in \
             the directory that you name, and knows nothing of this conversation: say in `task` all that it needs. Several \
             calls in one turn run at the same time. At most {} for one task, {minutes} minutes each.",
            family.delegation.max_children
        );
        let input_schema = json!({
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "what it is to do and to report"},
                "target": {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "enum": ["filesystem"]},
                        "root": {"type": "string", "description": "the directory that it works in, as an absolute path"},
                    },
                    "required": ["kind", "root"],
                    "additionalProperties": false,
                },
                "label": {"type": "string", "description": "a short name for those who watch"},
                "model": {"type": "string", "enum": names, "description": "which driver choice answers it; yours when absent"},
            },
            "required": ["task", "target"],
            "additionalProperties": false,
        });
        let spec = ToolSpec { name: NAME.to_owned(), description, input_schema };
        Arc::new(Self { spec, family: Arc::clone(family) })
    }

    fn read(&self, input: &Map<String, Value>) -> Result<Input, RuntimeWords> {
        known(input, "", &["task", "target", "label", "model"])?;
        let task = text(input, "task")?.filter(|text| !text.trim().is_empty());
        let task = task.ok_or_else(|| bad("`task` must say what is to be done"))?;
        let Some(Value::Object(target)) = input.get("target") else {
            return Err(bad("`target` must be an object with `kind` and `root`"));
        };
        known(target, "target.", &["kind", "root"])?;
        if text(target, "kind")?.as_deref() != Some("filesystem") {
            return Err(bad("`target.kind` must be `filesystem`"));
        }
        let root = text(target, "root")?.map(PathBuf::from).filter(|root| root.is_absolute());
        let root = root.ok_or_else(|| bad("`target.root` must be the absolute path of a directory"))?;
        let label = text(input, "label")?.filter(|label| !label.trim().is_empty());
        if label.as_deref().is_some_and(|label| label.chars().count() > LABEL || label.chars().any(char::is_control)) {
            return Err(bad("`label` must be one line of at most ").number(LABEL).text(" characters"));
        }
        let model = text(input, "model")?;
        if let Some(name) = model.as_deref().filter(|name| self.family.choice(Some(name)).is_none()) {
            return Err(bad("there is no driver choice `").echo(name).text("`"));
        }
        Ok(Input { task, root, label, model })
    }
}

fn bad(text: &'static str) -> RuntimeWords {
    RuntimeWords::new("the input of `spawn_subagent`: ").text(text)
}

fn known(input: &Map<String, Value>, at: &'static str, names: &[&str]) -> Result<(), RuntimeWords> {
    match input.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(bad("there is no field `").text(at).echo(key).text("`")),
        None => Ok(()),
    }
}

fn text(input: &Map<String, Value>, name: &'static str) -> Result<Option<String>, RuntimeWords> {
    match input.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(bad("`").text(name).text("` must be a text")),
    }
}

impl Tool for SpawnSubagent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn state_effect(&self) -> StateEffect {
        StateEffect::Delegate
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let input = self.read(input).map_err(BadInput)?;
        let action =
            Action::new(call_id, NAME, ActionKind::SpawnSubagent).with(Effect::path(Operation::Delegate, &input.root));
        let family = Arc::clone(&self.family);
        Ok(Proposal { action, execution: Box::new(Spawning { family, input }) })
    }
}

struct Spawning {
    family: Arc<Family>,
    input: Input,
}

impl Execution for Spawning {
    fn run(self: Box<Self>, permit: Permit, cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(async move { self.spawn(permit, cancel).await.unwrap_or_else(Outcome::Refused) })
    }
}

impl Spawning {
    async fn spawn(self, permit: Permit, cancel: Cancel) -> Result<Outcome, Denial> {
        let Self { family, input } = self;
        let found = input.root.canonicalize().and_then(|real| real.metadata().map(|metadata| (real, metadata)));
        let (root, metadata) = match found {
            Ok((real, metadata)) if metadata.is_dir() => (real, metadata),
            Ok(_) => return Ok(failed("`target.root` is not a directory")),
            Err(_) => return Ok(failed("`target.root` does not exist, or cannot be reached")),
        };
        let cleared = permit.confirm_path(Operation::Delegate, &root)?;
        let Some(ground) = family.admit() else {
            let most = family.delegation.max_children;
            return Ok(failed(&format!(
                "this task has started all its {most} subagents (`capabilities.spawn.max_children`); nothing was started"
            )));
        };
        let order = Order {
            call: permit.action().call_id().to_owned(),
            task: input.task,
            label: input.label,
            model: input.model,
            root,
            root_node: (metadata.dev(), metadata.ino()),
            ground,
        };
        // Whatever comes of it, it may have changed something.
        permit.mutated();
        let finished = Serving::new(&family, order).run(cleared, cancel).await;
        Ok(match finished {
            Ok(finished) => {
                permit.delegated(finished.changed());
                Outcome::Ran(finished.for_model(permit.root()))
            }
            Err(why) => failed(&why),
        })
    }
}

fn failed(why: &str) -> Outcome {
    Outcome::Ran(RawResult::error(why))
}
