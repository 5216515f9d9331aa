//! `shell_exec`, and one tool for each program that the manifest grants.
//!
//! A command text goes to a shell and an argument list never does: there is no form that is both, so
//! quoting is never guessed. `shell_exec` uses `bash` where the manifest grants that program and the
//! host has it, and `sh` otherwise.
//!
//! These are the tools whose commands can go on in the background: a command's output is for reading, early or late. A native
//! tool's answer is its result, and there is none before it ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fence::RuntimeWords;
use policy::{
    Action, ActionKind, AtLarge, BadInput, BindingError, Bindings, Cancel, Completed, Detached, Effect, Operation,
    Outcome, Permit, Proposal, ProtectedValues, RawResult, Rest, Tool, holds_handle,
};
use secrets::Secret;
use serde::Deserialize;
use serde_json::{Value, json};
use vocab::{BoxFuture, StateEffect};

use crate::Environment;
use crate::definition::{About, Definition};
use crate::execution::waiting;
use crate::proc::{self, Finished, Halt, Job, ProcessError, Processes, Running, Started};

/// The longest time that a call may ask for, when the manifest's own is shorter.
const MAX_TIMEOUT_SECS: u64 = 600;

/// The tool `shell_exec`. `granted` are the programs of `capabilities.shell.allow`.
#[must_use]
pub fn shell_exec(environment: &Environment, processes: &Arc<Processes>, granted: &[String]) -> Arc<dyn Tool> {
    let has_bash =
        granted.iter().any(|name| name == "bash") && proc::find("bash", processes.environment.search()).is_ok();
    let shell = if has_bash { "bash" } else { "sh" };
    let longest = processes.timeout.as_secs().max(MAX_TIMEOUT_SECS);
    let description = format!(
        "Run a command text with `{shell} -c` in the working directory. It gets no input, and it is stopped after {} s unless \
         `timeoutSecs` says otherwise. What it starts in the background ends with it. Long output is shown in part, and in full \
         in a file that the result names.{}{}",
        processes.timeout.as_secs(),
        patience(processes),
        processes.containment.about
    );
    let properties = json!({
        "command": {"type": "string", "minLength": 1, "description": "the command text"},
        "cwd": cwd_property(),
        "timeoutSecs": {"type": "integer", "minimum": 1, "maximum": longest, "description": "seconds after which it is stopped"},
        "reason": {"type": "string", "description": "why it is run, for the record"},
        "protectedBindings": bindings_property(),
    });
    let definition = Definition::new(About {
        name: "shell_exec",
        kind: ActionKind::ShellExec,
        state_effect: StateEffect::Mutate,
        description: &description,
        properties,
        required: &["command"],
    });
    let host = Host::new(environment, processes);
    definition.typed(move |action, input: ShellInput| {
        let (cwd, bindings) = input.at.checked()?;
        plain("command", &input.command)?;
        let action = action.with(Effect::command(&input.command));
        let start = Start {
            program: shell.to_owned(),
            args: vec!["-c".to_owned(), input.command.clone()],
            shown: input.command,
            cwd,
            stdin: None,
            bindings,
            timeout: input.timeout_secs.map_or(host.processes.timeout, Duration::from_secs),
        };
        Ok(host.proposal(action, start))
    })
}

/// The tool that runs the program `name` of `capabilities.shell.allow` with an argument list.
#[must_use]
pub fn shell_binary(name: &str, environment: &Environment, processes: &Arc<Processes>) -> Arc<dyn Tool> {
    let description = format!(
        "Run the program `{name}` with these arguments, without a shell: no globs, variables, pipes or redirections. It is stopped \
         after {} s. Long output is shown in part, and in full in a file that the result names.{}{}",
        processes.timeout.as_secs(),
        patience(processes),
        processes.containment.about
    );
    let properties = json!({
        "args": {"type": "array", "items": {"type": "string"}, "description": "the arguments, without the program's name"},
        "stdin": {"type": "string", "description": "text that it reads as its input; none by default"},
        "cwd": cwd_property(),
        "protectedBindings": bindings_property(),
    });
    let definition = Definition::new(About {
        name,
        kind: ActionKind::ShellBinary,
        state_effect: StateEffect::Mutate,
        description: &description,
        properties,
        required: &["args"],
    });
    let (host, program) = (Host::new(environment, processes), name.to_owned());
    definition.typed(move |action, input: BinaryInput| {
        let (cwd, bindings) = input.at.checked()?;
        for arg in &input.args {
            plain("args", arg)?;
        }
        no_handle("stdin", input.stdin.as_deref().unwrap_or_default())?;
        let argv: Vec<String> = std::iter::once(&program).chain(&input.args).cloned().collect();
        let shown = shown(&argv);
        let action = action.with(Effect::argv(argv));
        let start = Start {
            program: program.clone(),
            args: input.args,
            shown,
            cwd,
            stdin: input.stdin.map(String::into_bytes),
            bindings,
            timeout: host.processes.timeout,
        };
        Ok(host.proposal(action, start))
    })
}

/// What the model is told of commands that are not waited for.
fn patience(processes: &Processes) -> String {
    processes.grace.map_or_else(String::new, |grace| {
        format!(
            " A command that has not ended after {} s goes on in the background, until its own time is up: the call's result \
             shows what there is by then, and the end comes as a task of its own. Do not wait for it.",
            grace.as_secs()
        )
    })
}

fn cwd_property() -> Value {
    json!({"type": "string", "minLength": 1, "description": "directory to run in, under the working directory"})
}

fn bindings_property() -> Value {
    json!({
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "protected values for its environment: variable name to handle, as a result of this task showed it: \
            {\"DB_PASSWORD\": \"protected://…\"}",
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShellInput {
    command: String,
    timeout_secs: Option<u64>,
    #[serde(flatten)]
    at: Surroundings,
}

#[derive(Deserialize)]
struct BinaryInput {
    args: Vec<String>,
    stdin: Option<String>,
    #[serde(flatten)]
    at: Surroundings,
}

/// What a process starts in, as both inputs say it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Surroundings {
    cwd: Option<String>,
    #[serde(default)]
    protected_bindings: BTreeMap<String, String>,
}

impl Surroundings {
    /// The directory as the agent wrote it, and what is to be bound.
    fn checked(self) -> Result<(String, Bindings), BadInput> {
        let bindings = Bindings::parse(&self.protected_bindings).map_err(|error| {
            BadInput(RuntimeWords::new("").echo(&error.to_string()).text(". Nothing ran; ").text(error.hint()))
        })?;
        let cwd = self.cwd.unwrap_or_else(|| ".".to_owned());
        plain("cwd", &cwd)?;
        Ok((cwd, bindings))
    }
}

/// What both tools start processes with.
struct Host {
    root: PathBuf,
    processes: Arc<Processes>,
}

impl Host {
    fn new(environment: &Environment, processes: &Arc<Processes>) -> Self {
        Self { root: environment.root().to_owned(), processes: Arc::clone(processes) }
    }

    fn proposal(&self, action: Action, start: Start) -> Proposal {
        let action = action.with(Effect::path(Operation::Execute, self.root.join(&start.cwd)));
        let processes = Arc::clone(&self.processes);
        Proposal { action, execution: waiting(move |permit, cancel| start.run(processes, permit, cancel)) }
    }
}

/// A program of the host, to be started by name.
struct Start {
    program: String,
    args: Vec<String>,
    shown: String,
    cwd: String,
    stdin: Option<Vec<u8>>,
    bindings: Bindings,
    timeout: Duration,
}

impl Start {
    async fn run(self, processes: Arc<Processes>, permit: Permit, mut cancel: Cancel) -> Result<Outcome, Halt> {
        let cwd = directory(permit.root(), &self.cwd)?;
        let program = proc::find(&self.program, processes.environment.search())?;
        let argv: Vec<OsString> = std::iter::once(&self.program).chain(&self.args).map(OsString::from).collect();
        let cleared = permit.confirm_process(&program, &argv, &cwd)?;
        let bound = self.bound(&processes, &permit).await?;
        // What a command that goes on brings may be shown in another task than this one.
        let values = permit.values().apart();
        let job = Job {
            argv,
            env: processes.environment.with_values(&bound),
            cwd,
            gateways: processes.gateways.clone(),
            stdin: self.stdin,
            timeout: self.timeout,
            log: Some(permit.action().call_id().to_owned()),
            values: Some(values.clone()),
        };
        // A verification is the command as it is declared: here, and without an input of the agent's making.
        let plain = job.cwd == permit.root() && job.stdin.is_none() && bound.is_empty();
        permit.mutated();
        let (root, names) = (permit.root().to_owned(), Names { program: self.program, shown: self.shown });
        let mut running = match proc::start(&processes, cleared, job).await? {
            Started::Running(running) => running,
            Started::Never(finished) => return Ok(names.report(*finished, &root).into()),
        };
        // What a commit waits for is waited for.
        let grace = processes.grace.filter(|_| !(plain && permit.is_verification(&names.shown)));
        if let Some(grace) = grace
            && running.outruns(grace, &mut cancel).await
        {
            let so_far = proc::so_far(running.so_far().await, grace, &root).kept_in(&values);
            let at_large = permit.at_large();
            let rest = Box::new(Going { running, names, root, values, at_large });
            return Ok(Outcome::Detached(Box::new(Detached { so_far, rest })));
        }
        let finished = running.finish(&mut cancel).await;
        if plain {
            permit.ran(&names.shown, finished.succeeded());
        }
        Ok(names.report(finished, &root).kept_in(&values).into())
    }

    /// The protected values for its environment, as the task holds them now.
    async fn bound(&self, processes: &Processes, permit: &Permit) -> Result<Vec<(String, Secret)>, ProcessError> {
        let services = processes.gateways.iter().chain(&processes.containment.egress);
        let taken: Vec<&str> = services.flat_map(|grant| &grant.variables).map(String::as_str).collect();
        if let Some(name) = self.bindings.names().find(|name| taken.contains(name)) {
            return Err(BindingError::NameInvalid(name.to_owned()).into());
        }
        Ok(permit.bind(&self.bindings).await?)
    }
}

/// What a command is called in its result.
struct Names {
    program: String,
    shown: String,
}

impl Names {
    fn report(&self, finished: Finished, root: &Path) -> RawResult {
        finished.report(&self.program, &self.shown, root)
    }
}

/// A command that goes on. Dropping it ends it.
struct Going {
    running: Box<Running>,
    names: Names,
    root: PathBuf,
    values: ProtectedValues,
    at_large: AtLarge,
}

impl Rest for Going {
    fn finish(self: Box<Self>, mut cancel: Cancel) -> BoxFuture<'static, Completed> {
        let Self { running, names, root, values, at_large } = *self;
        Box::pin(async move {
            let finished = running.finish(&mut cancel).await;
            drop(at_large);
            let completed = finished.completed(&names.program, names.shown, &root);
            Completed { result: completed.result.kept_in(&values), ..completed }
        })
    }
}

/// The real path of a directory that the agent named; whether it may be used is the permit's to say.
fn directory(root: &Path, given: &str) -> Result<PathBuf, ProcessError> {
    let real = root.join(given).canonicalize().ok().filter(|real| real.is_dir());
    real.ok_or_else(|| ProcessError::Directory { path: crate::show::path(Path::new(given)) })
}

/// A text that a process is started with.
fn plain(field: &str, text: &str) -> Result<(), BadInput> {
    no_handle(field, text)?;
    no_nul(field, text)
}

/// A handle means nothing to a process, and whoever wrote it there expects the value.
fn no_handle(field: &str, text: &str) -> Result<(), BadInput> {
    if holds_handle(text) {
        let words = RuntimeWords::new("`").echo(field).text("` holds a protected handle, which no process can read. ");
        return Err(BadInput(words.text("Nothing ran; bind it to a variable with `protectedBindings` and use that.")));
    }
    Ok(())
}

/// The system could not carry it, and what stands before it would run alone.
fn no_nul(field: &str, text: &str) -> Result<(), BadInput> {
    if text.contains('\0') {
        return Err(BadInput(
            RuntimeWords::new("`").echo(field).text("` holds a NUL character, which no command can carry"),
        ));
    }
    Ok(())
}

/// The arguments as a shell would take them, for reading.
fn shown(argv: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    let quoted = argv.iter().map(|arg| {
        if !arg.is_empty() && arg.chars().all(plain) {
            arg.clone()
        } else {
            format!("'{}'", arg.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn arguments_are_shown_as_a_shell_would_take_them() {
        let argv = ["git", "commit", "-m", "it's done", "", "a*b"].map(str::to_owned);
        assert_eq!(shown(&argv), r"git commit -m 'it'\''s done' '' 'a*b'");
    }
}
