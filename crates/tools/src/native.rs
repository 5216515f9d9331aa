//! Native artifacts: a publisher's program, one process for each call.
//!
//! It reads `{"input": …}` and answers on stdout, either in the published form
//! (`{"status": "passed|failed|error", …}`) or in plain text. Anything that is not exactly the form is
//! plain text: guessing would let half an answer pass for a whole one. An exit status other than 0 is a
//! failure whatever stdout says.
//!
//! `{"status": "input_required", "prompt": …}` asks whoever sent the task. A process that waits for people
//! would hold its time limit, so it ends, and the program is started again with the answers so far beside
//! its input: `{"input": …, "answers": [ … ]}`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fence::RuntimeWords;
use manifest::ToolPackage;
use policy::{
    ActionKind, Cancel, Effect, Execution, Operation, Outcome, Permit, Proposal, Question, RawResult, Resume, Tool,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{BoxFuture, StateEffect, ToolSpec};

use crate::definition::Definition;
use crate::execution::ended_early;
use crate::proc::{self, Finished, Halt, Job, ProcessError, Processes};
use crate::{Environment, Gateway, GatewayGrant, ToolError};

/// Where a tool's process finds the address of its service.
const GATEWAY: &str = "MURMUR_GATEWAY_ENDPOINT";

/// The tool of a native artifact: its entry's `name`, its `package`, and the `argv` that this declares. Its
/// process, and no other, gets the address of `gateway` in `MURMUR_GATEWAY_ENDPOINT`.
///
/// # Errors
/// [`ToolError::Schema`] when the publisher's input schema is not valid.
pub fn native_tool(
    name: &str,
    package: &ToolPackage,
    argv: &[OsString],
    gateway: Option<Arc<dyn Gateway>>,
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
    let definition = Definition::foreign(spec, ActionKind::NativeTool, effect)?;
    let command: Vec<String> = argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let root = environment.root().to_owned();
    let native = Arc::new(Native {
        name: name.to_owned(),
        argv: argv.to_vec(),
        shown: command.join(" "),
        dir: package.dir.clone(),
        mutates: effect == StateEffect::Mutate,
        gateway: gateway.map(|gateway| GatewayGrant { variables: vec![GATEWAY.to_owned()], gateway }),
        processes: Arc::clone(processes),
    });
    Ok(definition.tool(move |action, input| {
        let action = action.with(Effect::argv(command.clone())).with(Effect::path(Operation::Execute, &root));
        let call = Call { native: Arc::clone(&native), input: input.clone(), answers: Vec::new() };
        Ok(Proposal { action, execution: Box::new(call) })
    }))
}

/// One call, with the answers that it has had.
struct Call {
    native: Arc<Native>,
    input: Map<String, Value>,
    answers: Vec<String>,
}

/// A call whose tool asked something.
struct Asked {
    call: Call,
    permit: Permit,
    cancel: Cancel,
}

impl Execution for Call {
    fn run(self: Box<Self>, permit: Permit, cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(self.go(permit, cancel))
    }
}

impl Resume for Asked {
    fn answer(self: Box<Self>, answer: String) -> BoxFuture<'static, Outcome> {
        let Self { mut call, permit, cancel } = *self;
        call.answers.push(answer);
        // The question may have stood open for hours.
        Box::pin(async move {
            match permit.renew().await {
                Ok(permit) => call.go(permit, cancel).await,
                Err(denial) => Outcome::Refused(denial),
            }
        })
    }
}

impl Call {
    async fn go(self, permit: Permit, mut cancel: Cancel) -> Outcome {
        if cancel.is_canceled() {
            return Outcome::NotRun(RuntimeWords::new("the call was canceled before it began"));
        }
        let mut stdin = json!({"input": self.input});
        if let Some(stdin) = stdin.as_object_mut().filter(|_| !self.answers.is_empty()) {
            stdin.insert("answers".to_owned(), json!(self.answers));
        }
        match self.native.run(stdin.to_string().into_bytes(), &permit, &mut cancel).await {
            Ok(Told::Result(result)) => Outcome::Ran(*result),
            Ok(Told::Question(_)) if self.answers.len() >= QUESTIONS => Outcome::Ran(RawResult::error(format!(
                "the tool asked more than {QUESTIONS} questions and was given up"
            ))),
            Ok(Told::Question(prompt)) => {
                Outcome::Asks(Question { prompt, resume: Box::new(Asked { call: self, permit, cancel }) })
            }
            Err(stop) => ended_early(stop),
        }
    }
}

/// What a tool's process came to.
enum Told {
    Result(Box<RawResult>),
    Question(String),
}

/// How often one call may ask.
const QUESTIONS: usize = 16;

struct Native {
    name: String,
    argv: Vec<OsString>,
    /// The arguments, for the record.
    shown: String,
    dir: PathBuf,
    mutates: bool,
    gateway: Option<GatewayGrant>,
    processes: Arc<Processes>,
}

impl Native {
    async fn run(&self, stdin: Vec<u8>, permit: &Permit, cancel: &mut Cancel) -> Result<Told, Halt> {
        let cwd = permit.root().to_owned();
        let program = self.program()?;
        let cleared = permit.confirm_process(&program, &self.argv, &cwd)?;
        let job = Job {
            argv: self.argv.clone(),
            env: self.processes.environment.variables().collect(),
            cwd,
            gateways: self.gateway.iter().cloned().collect(),
            stdin: Some(stdin),
            timeout: self.processes.timeout,
            log: Some(permit.action().call_id().to_owned()),
            values: Some(permit.values().clone()),
        };
        if self.mutates {
            permit.mutated();
        }
        let mut finished = proc::run(&self.processes, cleared, job, cancel).await?;
        let taken = finished.taken();
        let mut facts = finished.facts(&self.name, &self.shown);
        let answer = finished.answer();
        if let Some(Answer { status: Status::InputRequired, prompt: Some(prompt), .. }) = &answer
            && finished.succeeded()
            && !taken.is_faulty()
        {
            return Ok(Told::Question(prompt.clone()));
        }
        facts.truncated |= answer.as_ref().is_some_and(|answer| answer.truncated);
        let (failed, text) = told(&finished, answer, permit.root());
        let result = if failed { RawResult::error(text) } else { RawResult::ok(text) };
        Ok(Told::Result(Box::new(result.with_facts(facts).with_taken(taken))))
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
    prompt: Option<String>,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Passed,
    Failed,
    Error,
    /// Without a prompt, or from a process that failed, it is a failure like others.
    InputRequired,
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
            Status::InputRequired => "input_required without a prompt",
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
