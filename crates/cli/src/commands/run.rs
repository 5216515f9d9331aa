//! `mur run`: launch a capsule, run its task, say how it ended.
//!
//! Everything that can be wrong is found before anything is made or started. Stdout carries the reply
//! and nothing else; with `--json` it carries one line at the start and one at the end, or one with the error
//! when it did not come to a start.

use std::io::{IsTerminal as _, Write as _};

use anstyle::Style;
use runtime::{Caller, NewTask, RequestError, Session, SessionHandle, TaskReport};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use vocab::{EndStatus, TaskSource};

use crate::args::RunArgs;
use crate::failure::{FAILED, Failure, INTERRUPTED};
use crate::launch::{self, Launch};
use crate::output::Output;
use crate::progress::Progress;
use crate::terminal::{count, printable};

pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let refused = |failure| refused(args, failure);
    let task = launch::task(args.task.as_deref()).map_err(refused)?;
    let launch = Launch::prepare(args).map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(session(args, launch, task));
    // A blocking read that hangs on a dead mount must not keep the process.
    runtime.shutdown_background();
    status
}

async fn session(args: &RunArgs, launch: Launch, task: String) -> Result<u8, Failure> {
    let about = About::of(&launch);
    let live = !args.json && std::io::stdout().is_terminal();
    let notes = (!args.quiet).then(|| Box::new(anstream::stderr()) as Box<dyn std::io::Write + Send>);
    let stream = live.then(|| Box::new(std::io::stdout()) as Box<dyn std::io::Write + Send>);
    let (setup, mut belongings) = launch.into_setup(Box::new(Progress::new(notes, stream)));
    let mut session = Session::start(setup).map_err(|error| refused(args, launch::record_failure(&error)))?;
    belongings.settle();
    let handle = session.handle();
    listen(handle.clone()).map_err(|failure| refused(args, failure))?;
    if let Err(error) = about.announce(args) {
        // The end may fail as well; the first failure is what the operator needs.
        let _ = session.finish(Some(&error.to_string()));
        return Err(error.into());
    }
    let task = NewTask { text: task, source: TaskSource::Cli, claim: None, context: None, traceparent: None };
    let mut last = None;
    let served = match handle.submit(Caller::Operator, task) {
        Ok(_) => session.serve(&mut |report| last = Some(report.clone())).await.map(|()| last),
        Err(RequestError::Record(error)) => Err(error),
        Err(error) => return Err(Failure::unusable(error.to_string()).code("E-RUN-001")),
    };
    drop(belongings);
    match served {
        Ok(Some(report)) => {
            let ended = session.finish(None);
            let status = about.conclude(args, live, &report)?;
            ended.map(|()| status).map_err(|error| launch::record_failure(&error).on_the_way())
        }
        Ok(None) => session.finish(None).map(|()| 0).map_err(|error| launch::record_failure(&error).on_the_way()),
        Err(error) => {
            let _ = session.finish(Some(&error.to_string()));
            about.broke_off(args, &error.to_string())?;
            Err(launch::record_failure(&error).on_the_way())
        }
    }
}

/// A launch that could not be: a program gets the reason as one line of JSON, and people get it as ever.
fn refused(args: &RunArgs, failure: Failure) -> Failure {
    if args.json {
        // If nobody takes it, the reason is still told on stderr.
        let _ = json_line(&failure.event());
    }
    failure
}

/// The first signal ends the session cleanly; the second ends the process at once.
fn listen(session: SessionHandle) -> Result<(), Failure> {
    let (mut int, mut term, mut hup) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    tokio::spawn(async move {
        loop {
            tokio::select! { _ = int.recv() => {}, _ = term.recv() => {}, _ = hup.recv() => {} }
            if !session.stop() {
                // Helpers see the runtime gone and end what they hold.
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    });
    Ok(())
}

/// What is told of a session at its two ends.
struct About {
    session: String,
    capsule: String,
    version: String,
    workdir: String,
    records: String,
    model: String,
    scripted: bool,
    warnings: Vec<String>,
}

impl About {
    fn of(launch: &Launch) -> Self {
        Self {
            session: launch.session().to_string(),
            capsule: launch.capsule().0.to_owned(),
            version: launch.capsule().1.to_owned(),
            workdir: launch.workdir().to_string_lossy().into_owned(),
            records: launch.records().to_string_lossy().into_owned(),
            model: launch.model(),
            scripted: launch.is_scripted(),
            warnings: launch.warnings().to_vec(),
        }
    }

    /// Tells that the session runs. A closed stderr must not end the agent's work, so its errors are dropped.
    fn announce(&self, args: &RunArgs) -> std::io::Result<()> {
        let mut err = anstream::stderr().lock();
        if self.scripted {
            let _ = writeln!(err, "scripted: the answers come from a script, no model is asked");
        }
        for warning in &self.warnings {
            let _ = writeln!(err, "{}", warning.trim_end());
        }
        if !args.quiet {
            let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
            let _ = writeln!(err, "{bold}{} {}{bold:#} on {}", self.capsule, self.version, printable(&self.model));
            let _ = writeln!(err, "{dim}session  {}{dim:#}", self.session);
            let _ = writeln!(err, "{dim}workdir  {}{dim:#}", printable(&self.workdir));
            let _ = writeln!(err, "{dim}records  {}{dim:#}", printable(&self.records));
        }
        if args.json {
            json_line(&json!({
                "event": "started",
                "session_id": self.session,
                "url": null,
                "pid": std::process::id(),
                "workdir": self.workdir,
                "records": self.records,
                "capsule": self.capsule,
                "version": self.version,
            }))?;
        }
        Ok(())
    }

    /// Tells of a task whose record could not be written on: what it took is not known.
    fn broke_off(&self, args: &RunArgs, reason: &str) -> std::io::Result<()> {
        if !args.json {
            return Ok(());
        }
        json_line(&json!({
            "event": "ended",
            "session_id": self.session,
            "status": EndStatus::Failed.as_str(),
            "reply": "",
            "reason": reason,
            "turns": null,
            "tool_calls": null,
            "input_tokens": null,
            "output_tokens": null,
        }))
    }

    fn conclude(&self, args: &RunArgs, live: bool, report: &TaskReport) -> Result<u8, Failure> {
        let (end, tally) = (&report.end, report.tally);
        if args.json {
            json_line(&json!({
                "event": "ended",
                "session_id": self.session,
                "status": end.status.as_str(),
                "reply": end.reply,
                "reason": end.reason,
                "turns": tally.turns,
                "tool_calls": tally.tool_calls,
                "input_tokens": tally.input_tokens,
                "output_tokens": tally.output_tokens,
            }))?;
        } else if !live && end.status == EndStatus::Ok {
            let mut out = Output::plain();
            out.write_all(end.reply.as_bytes())?;
            if !end.reply.is_empty() && !end.reply.ends_with('\n') {
                out.write_all(b"\n")?;
            }
            out.finish()?;
        }
        let mut err = anstream::stderr().lock();
        if let Some(reason) = &end.reason {
            let red = anstyle::AnsiColor::Red.on_default().bold();
            let _ = writeln!(err, "{red}{}{red:#}: {}", end.status.as_str(), printable(reason));
        }
        if !args.quiet {
            let dim = Style::new().dimmed();
            // Where the reason follows the status, that is said already.
            let status = if end.reason.is_none() { format!("{}: ", end.status.as_str()) } else { String::new() };
            let (turns, calls) = (count(tally.turns.into(), "turn"), count(tally.tool_calls.into(), "tool call"));
            let (input, output) = (tally.input_tokens, tally.output_tokens);
            let _ = writeln!(
                err,
                "{dim}{status}{turns}, {calls}, {} in, {output} out; `mur trace show {}` tells it all{dim:#}",
                count(input, "token"),
                self.session
            );
        }
        Ok(match end.status {
            EndStatus::Ok => 0,
            EndStatus::Interrupted => INTERRUPTED,
            EndStatus::Failed
            | EndStatus::Canceled
            | EndStatus::Rejected
            | EndStatus::SpendCeilingReached
            | EndStatus::MaxTurnsReached => FAILED,
        })
    }
}

/// One line of JSON on stdout, at once: whoever reads it waits for it.
fn json_line(value: &serde_json::Value) -> std::io::Result<()> {
    let mut out = Output::plain();
    writeln!(out, "{value}")?;
    out.finish()
}
