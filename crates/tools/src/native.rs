//! Native artifacts: a publisher's program, one process for each call.
//!
//! It reads `{"input": …}` and answers on stdout, either in the published form
//! (`{"status": "passed|failed|error", …}`) or in plain text. Anything that is not exactly the form is
//! plain text: guessing would let half an answer pass for a whole one. An exit status other than 0 is a
//! failure whatever stdout says.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manifest::ToolPackage;
use policy::{Action, ActionKind, BadInput, Cancel, Effect, Operation, Permit, Proposal, RawResult, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use crate::definition::Definition;
use crate::proc::{self, Finished, Halt, Job, ProcessError, Processes, waiting};
use crate::{Environment, ToolError};

/// The tool of a native artifact: its entry's `name`, its `package`, and the `argv` that this declares.
///
/// # Errors
/// [`ToolError::Schema`] when the publisher's input schema is not valid.
pub fn native_tool(
    name: &str,
    package: &ToolPackage,
    argv: &[OsString],
    environment: &Environment,
    processes: &Arc<Processes>,
) -> Result<Arc<dyn Tool>, ToolError> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: package.description.clone(),
        input_schema: Value::Object(package.input_schema.clone()),
    };
    let effect = match package.state_effect {
        manifest::StateEffect::Read => StateEffect::Read,
        manifest::StateEffect::Mutate => StateEffect::Mutate,
    };
    Ok(Arc::new(Native {
        definition: Definition::foreign(spec, effect)?,
        argv: argv.to_vec(),
        dir: package.dir.clone(),
        root: environment.root().to_owned(),
        processes: Arc::clone(processes),
    }))
}

struct Native {
    definition: Definition,
    argv: Vec<OsString>,
    dir: PathBuf,
    root: PathBuf,
    processes: Arc<Processes>,
}

impl Tool for Native {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        self.definition.check(input)?;
        let name = self.spec().name.clone();
        let command: Vec<String> = self.argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let shown = command.join(" ");
        let action = Action::new(call_id, &name, ActionKind::NativeTool)
            .with(Effect::argv(command))
            .with(Effect::path(Operation::Execute, &self.root));
        let call = Call {
            name,
            argv: self.argv.clone(),
            dir: self.dir.clone(),
            shown,
            stdin: json!({"input": input}).to_string().into_bytes(),
            processes: Arc::clone(&self.processes),
        };
        Ok(Proposal { action, execution: waiting(|permit, cancel| call.run(permit, cancel)) })
    }
}

struct Call {
    name: String,
    argv: Vec<OsString>,
    dir: PathBuf,
    shown: String,
    stdin: Vec<u8>,
    processes: Arc<Processes>,
}

impl Call {
    async fn run(self, permit: Permit, mut cancel: Cancel) -> Result<RawResult, Halt> {
        let cwd = permit.root().to_owned();
        let program = self.program()?;
        let cleared = permit.confirm_process(&program, &cwd)?;
        let job = Job {
            argv: self.argv,
            env: self.processes.environment.variables().collect(),
            cwd,
            stdin: Some(self.stdin),
            timeout: self.processes.timeout,
            log: Some(permit.action().call_id().to_owned()),
        };
        let finished = proc::run(&self.processes, cleared, job, &mut cancel).await?;
        let mut facts = finished.facts(&self.name, &self.shown);
        let answer = finished.answer();
        facts.truncated |= answer.as_ref().is_some_and(|answer| answer.truncated);
        let (failed, text) = told(&finished, answer, permit.root());
        let result = if failed { RawResult::error(text) } else { RawResult::ok(text) };
        Ok(result.with_facts(facts))
    }

    fn program(&self) -> Result<PathBuf, ProcessError> {
        let first = self.argv.first().map(PathBuf::from).unwrap_or_default();
        match first.to_str() {
            Some(name) if !name.contains('/') => proc::find(name, self.processes.environment.search()),
            _ => {
                let path = self.dir.join(first);
                proc::executable(&path).ok_or(ProcessError::ToolProgram { path })
            }
        }
    }
}

/// The published form of an answer.
#[derive(Debug, Deserialize)]
struct Answer {
    status: Status,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Passed,
    Failed,
    Error,
}

impl Finished {
    /// The answer in the published form, if the whole of stdout is one.
    fn answer(&self) -> Option<Answer> {
        let stdout = &self.stdout.captured;
        if stdout.omitted > 0 {
            return None;
        }
        serde_json::from_slice(&stdout.head).ok()
    }
}

/// Whether the call failed, and the text of its result.
fn told(finished: &Finished, answer: Option<Answer>, root: &Path) -> (bool, String) {
    let mut failed = !finished.succeeded();
    let mut text = String::new();
    if failed {
        text.push_str(&format!("the tool failed: {}\n", finished.end.words()));
    }
    match answer {
        Some(answer) => {
            failed |= answer.status != Status::Passed;
            text.push_str(&answer.text());
        }
        None if !failed && finished.stdout.captured.omitted == 0 => {
            text.push_str(&proc::visible(&finished.stdout.captured.head));
            if text.is_empty() {
                text.push_str("the tool ended without a word\n");
            }
        }
        None => finished.stdout.section("stdout", root, &mut text),
    }
    if failed {
        finished.stderr.section("stderr", root, &mut text);
    }
    (failed, text)
}

impl Answer {
    /// The parts that there are, each on lines of its own. Data passes as it is.
    fn text(&self) -> String {
        let status = match self.status {
            Status::Passed => "passed",
            Status::Failed => "failed",
            Status::Error => "error",
        };
        let mut text = match self.summary.as_deref() {
            Some(summary) if !summary.is_empty() => format!("{status}: {summary}\n"),
            _ => format!("{status}\n"),
        };
        match &self.data {
            Value::Null => {}
            Value::String(data) => text.push_str(data),
            data => text.push_str(&data.to_string()),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        if self.truncated {
            text.push_str("the tool says that this is not all of its data\n");
        }
        text
    }
}
