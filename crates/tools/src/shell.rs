//! `shell_exec`, and one tool for each program that the manifest grants.
//!
//! A command text goes to a shell and an argument list never does: there is no form that is both, so
//! quoting is never guessed. `shell_exec` uses `bash` where the manifest grants that program and the
//! host has it, and `sh` otherwise.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fence::RuntimeWords;
use policy::{Action, ActionKind, BadInput, Cancel, Effect, Operation, Permit, Proposal, RawResult, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use crate::Environment;
use crate::definition::Definition;
use crate::proc::{self, Halt, Job, Processes, directory, waiting};

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
         in a file that the result names.",
        processes.timeout.as_secs()
    );
    let properties = json!({
        "command": {"type": "string", "minLength": 1, "description": "the command text"},
        "cwd": cwd_property(),
        "timeoutSecs": {"type": "integer", "minimum": 1, "maximum": longest, "description": "seconds after which it is stopped"},
        "reason": {"type": "string", "description": "why it is run, for the record"},
        "protectedBindings": bindings_property(),
    });
    let definition = Definition::new("shell_exec", StateEffect::Mutate, &description, properties, &["command"]);
    Arc::new(ShellExec { definition, shell, root: environment.root().to_owned(), processes: Arc::clone(processes) })
}

/// The tool that runs the program `name` of `capabilities.shell.allow` with an argument list.
#[must_use]
pub fn shell_binary(name: &str, environment: &Environment, processes: &Arc<Processes>) -> Arc<dyn Tool> {
    let description = format!(
        "Run the program `{name}` with these arguments, without a shell: no globs, variables, pipes or redirections. It is stopped \
         after {} s. Long output is shown in part, and in full in a file that the result names.",
        processes.timeout.as_secs()
    );
    let properties = json!({
        "args": {"type": "array", "items": {"type": "string"}, "description": "the arguments, without the program's name"},
        "stdin": {"type": "string", "description": "text that it reads as its input; none by default"},
        "cwd": cwd_property(),
        "protectedBindings": bindings_property(),
    });
    let definition = Definition::new(name, StateEffect::Mutate, &description, properties, &["args"]);
    Arc::new(ShellBinary { definition, root: environment.root().to_owned(), processes: Arc::clone(processes) })
}

fn cwd_property() -> Value {
    json!({"type": "string", "minLength": 1, "description": "directory to run in, under the working directory"})
}

fn bindings_property() -> Value {
    json!({
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "protected values for its environment: variable name to handle",
    })
}

struct ShellExec {
    definition: Definition,
    shell: &'static str,
    root: PathBuf,
    processes: Arc<Processes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShellInput {
    command: String,
    cwd: Option<String>,
    timeout_secs: Option<u64>,
    #[serde(default)]
    protected_bindings: BTreeMap<String, String>,
}

impl Tool for ShellExec {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let input: ShellInput = self.definition.read(input)?;
        no_bindings(&input.protected_bindings)?;
        no_nul("command", &input.command)?;
        let cwd = input.cwd.unwrap_or_else(|| ".".to_owned());
        no_nul("cwd", &cwd)?;
        let action = Action::new(call_id, &self.spec().name, ActionKind::ShellExec)
            .with(Effect::command(&input.command))
            .with(Effect::path(Operation::Execute, self.root.join(&cwd)));
        let start = Start {
            program: self.shell.to_owned(),
            args: vec!["-c".to_owned(), input.command.clone()],
            shown: input.command,
            cwd,
            stdin: None,
            timeout: input.timeout_secs.map_or(self.processes.timeout, Duration::from_secs),
            processes: Arc::clone(&self.processes),
        };
        Ok(Proposal { action, execution: waiting(|permit, cancel| start.run(permit, cancel)) })
    }
}

struct ShellBinary {
    definition: Definition,
    root: PathBuf,
    processes: Arc<Processes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BinaryInput {
    args: Vec<String>,
    stdin: Option<String>,
    cwd: Option<String>,
    #[serde(default)]
    protected_bindings: BTreeMap<String, String>,
}

impl Tool for ShellBinary {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let input: BinaryInput = self.definition.read(input)?;
        no_bindings(&input.protected_bindings)?;
        for arg in &input.args {
            no_nul("args", arg)?;
        }
        let cwd = input.cwd.unwrap_or_else(|| ".".to_owned());
        no_nul("cwd", &cwd)?;
        let program = self.spec().name.clone();
        let argv: Vec<String> = std::iter::once(&program).chain(&input.args).cloned().collect();
        let shown = shown(&argv);
        let action = Action::new(call_id, &program, ActionKind::ShellBinary)
            .with(Effect::argv(argv))
            .with(Effect::path(Operation::Execute, self.root.join(&cwd)));
        let start = Start {
            program,
            args: input.args,
            shown,
            cwd,
            stdin: input.stdin.map(String::into_bytes),
            timeout: self.processes.timeout,
            processes: Arc::clone(&self.processes),
        };
        Ok(Proposal { action, execution: waiting(|permit, cancel| start.run(permit, cancel)) })
    }
}

/// A program of the host, to be started by name.
struct Start {
    program: String,
    args: Vec<String>,
    shown: String,
    cwd: String,
    stdin: Option<Vec<u8>>,
    timeout: Duration,
    processes: Arc<Processes>,
}

impl Start {
    async fn run(self, permit: Permit, mut cancel: Cancel) -> Result<RawResult, Halt> {
        let cwd = directory(permit.root(), &self.cwd)?;
        let program = proc::find(&self.program, self.processes.environment.search())?;
        let cleared = permit.confirm_process(&program, &cwd)?;
        let job = Job {
            argv: std::iter::once(&self.program).chain(&self.args).map(OsString::from).collect(),
            env: self.processes.environment.variables().collect(),
            cwd,
            stdin: self.stdin,
            timeout: self.timeout,
            log: Some(permit.action().call_id().to_owned()),
        };
        let finished = proc::run(&self.processes, cleared, job, &mut cancel).await?;
        Ok(finished.report(&self.program, &self.shown, permit.root()))
    }
}

fn no_bindings(bindings: &BTreeMap<String, String>) -> Result<(), BadInput> {
    if bindings.is_empty() {
        return Ok(());
    }
    Err(BadInput(RuntimeWords::new(
        "`protectedBindings` must be empty: this version has no protected values that could be bound to a process",
    )))
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
