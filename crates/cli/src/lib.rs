//! `mur`, the command line, as a library: the binary and the generator of the reference pages use it.
//!
//! It wires the rooms together, renders, and sets the exit status. What a command does stands in
//! `commands`, one module each; how a session is put together in `launch`.
//!
//! ```
//! // The pages under docs/reference come from the same tables as the program.
//! assert!(mur::command_markdown().contains("## mur run"));
//! assert!(mur::diagnostics_markdown().contains("`E-RUN-004`"));
//! ```

mod address;
mod args;
mod boundary;
mod choices;
mod client;
mod codes;
mod commands;
mod connect;
mod credentials;
mod equip;
mod export;
mod failure;
mod launch;
mod output;
mod place;
mod progress;
mod reference;
mod results;
mod resume;
mod scope;
mod settings;
mod subagent;
mod task;
mod terminal;
mod ways;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::{Cli, Command, ControlCommand, FenceCommand, PolicyCommand, TraceCommand};
use crate::failure::Failure;

pub use crate::reference::{command_markdown, diagnostics_markdown};

/// Runs the command line of this process to its exit status.
///
/// The very first thing is to see whether the process was started as a sandbox helper: that branch must
/// run before anything else is set up, in a single thread.
#[must_use]
pub fn main() -> ExitCode {
    sandbox::helper_main();
    let outcome = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        Err(mut error) => {
            taskless(&mut error);
            // Help and version are no errors; clap knows which stream and which status.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::UNUSABLE));
        }
    };
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.status())
        }
    }
}

/// Says how a task is given, where one stands beside the manifest.
fn taskless(error: &mut clap::Error) {
    let runs = std::env::args_os().nth(1).is_some_and(|word| word == "run");
    let stray =
        matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(word)) if !word.starts_with('-'));
    if runs && stray && error.kind() == ErrorKind::UnknownArgument {
        let tip = "a task is given with `--task`, as in `mur run my-agent --task \"Say hello\"`";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

fn run(command: Command) -> Result<u8, Failure> {
    // Memory may hold credentials: no core dump, no reading by processes of the same user. A file limit
    // becomes an error of the write that meets it.
    sandbox::harden_self().map_err(|error| {
        Failure::unusable(error.to_string()).code("E-RUN-003").hint("the host refuses what it should allow any process")
    })?;
    match command {
        Command::Run(args) => commands::run::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Init(args) => commands::init::run(&args),
        Command::Ps(args) => commands::ps::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Send(args) => commands::send::run(&args),
        Command::Stop(args) => commands::stop::run(&args),
        Command::Control(ControlCommand::Show(args)) => commands::control::show(&args),
        Command::Control(ControlCommand::Set(args)) => commands::control::set(&args),
        Command::Control(ControlCommand::Secret(args)) => commands::control::secret(&args),
        Command::Control(ControlCommand::Forget(args)) => commands::control::forget(&args),
        Command::Control(ControlCommand::Watch(args)) => commands::control::watch(&args),
        Command::Mcp(command) => commands::mcp::run(&command),
        Command::Policy(PolicyCommand::Show(args)) => commands::policy::show(&args),
        Command::Policy(PolicyCommand::Set(args)) => commands::policy::set(&args),
        Command::Policy(PolicyCommand::Check(args)) => commands::policy::check(&args),
        Command::Policy(PolicyCommand::Add(args)) => commands::policy::add(&args),
        Command::Policy(PolicyCommand::Remove(args)) => commands::policy::remove(&args),
        Command::Policy(PolicyCommand::Enable(args)) => commands::policy::enable(&args, true),
        Command::Policy(PolicyCommand::Disable(args)) => commands::policy::enable(&args, false),
        Command::Policy(PolicyCommand::Test(args)) => commands::policy::test(&args),
        Command::Policy(PolicyCommand::Log(args)) => commands::policy::log(&args),
        Command::Trace(TraceCommand::List(args)) => commands::trace::list(&args),
        Command::Trace(TraceCommand::Show(args)) => commands::trace::show(&args),
        Command::Trace(TraceCommand::Steps(args)) => commands::trace::steps(&args),
        Command::Trace(TraceCommand::Verify(args)) => commands::trace::verify(&args),
        Command::Trace(TraceCommand::Key(args)) => commands::trace::key(&args),
        Command::Fence(FenceCommand::Wrap(args)) => commands::fence::wrap(&args),
        Command::Fence(FenceCommand::Parse(args)) => commands::fence::parse(&args),
        Command::Fence(FenceCommand::Scan(args)) => commands::fence::scan(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Subagent => commands::subagent::run(),
        Command::Completions(args) => commands::completions::run(&args),
    }
}
