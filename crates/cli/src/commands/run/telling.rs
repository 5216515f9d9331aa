//! What `mur run` tells of a session: its start, each task's end, its own end.
//!
//! Stdout carries replies and nothing else, or JSON lines and nothing else; a person reads stderr.

use std::fmt::Write as _;
use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use runtime::{Tally, TaskReport};
use secrets::Redactor;
use serde_json::{Value, json};
use vocab::{ContextId, EndStatus, SessionId};

use crate::args::RunArgs;
use crate::launch::Launch;
use crate::output::Output;
use crate::terminal::{count, printable, tell};

/// What is told of a session, and what it has come to.
pub(crate) struct Telling {
    json: bool,
    quiet: bool,
    /// Whether replies were shown as they came.
    live: bool,
    session: String,
    url: String,
    capsule: String,
    version: String,
    workdir: String,
    records: String,
    model: String,
    scripted: bool,
    /// The conversation that the first task goes on with, or begins.
    context: Option<ContextId>,
    /// The session that is resumed, and how many conversations it had.
    resumes: Option<(SessionId, usize)>,
    warnings: Vec<String>,
    tasks: u64,
    tally: Tally,
    last: Option<TaskReport>,
    fault: Option<std::io::Error>,
}

impl Telling {
    pub(crate) fn of(launch: &Launch, url: String, args: &RunArgs, live: bool) -> Self {
        Self {
            json: args.json,
            quiet: args.quiet,
            live,
            session: launch.session().to_string(),
            url,
            capsule: launch.capsule().0.to_owned(),
            version: launch.capsule().1.to_owned(),
            workdir: launch.workdir().to_string_lossy().into_owned(),
            records: launch.records().to_string_lossy().into_owned(),
            model: launch.model(),
            scripted: launch.is_scripted(),
            context: launch.context().cloned(),
            resumes: launch.resumes().map(|(session, contexts)| (session.clone(), contexts)),
            warnings: launch.warnings().to_vec(),
            tasks: 0,
            tally: Tally::default(),
            last: None,
            fault: None,
        }
    }

    /// Tells that the session runs. A closed stderr must not end the agent's work, so its errors are dropped.
    pub(crate) fn started(&self, waits: bool) -> std::io::Result<()> {
        let mut err = String::new();
        if self.scripted {
            let _ = writeln!(err, "scripted: the answers come from a script, no model is asked");
        }
        for warning in &self.warnings {
            let _ = writeln!(err, "{}", warning.trim_end());
        }
        if !self.quiet {
            let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
            let _ = writeln!(err, "{bold}{} {}{bold:#} on {}", self.capsule, self.version, printable(&self.model));
            let _ = writeln!(err, "{dim}session  {}{dim:#}", self.session);
            let _ = writeln!(err, "{dim}address  {}{dim:#}", self.url);
            let _ = writeln!(err, "{dim}workdir  {}{dim:#}", printable(&self.workdir));
            let _ = writeln!(err, "{dim}records  {}{dim:#}", printable(&self.records));
            if let Some((earlier, contexts)) = &self.resumes {
                let many = u64::try_from(*contexts).unwrap_or(u64::MAX);
                let _ = writeln!(err, "{dim}resumes  {earlier}, {}{dim:#}", count(many, "conversation"));
            }
            if let Some(context) = &self.context {
                let _ = writeln!(err, "{dim}context  {context}{dim:#}");
            }
            if waits {
                let _ = writeln!(err, "waiting for a task: `mur send {} \"…\"`", self.session);
            }
        }
        let _ = tell(&err);
        if self.json {
            json_line(&json!({
                "event": "started",
                "session_id": self.session,
                "url": self.url,
                "pid": std::process::id(),
                "workdir": self.workdir,
                "records": self.records,
                "capsule": self.capsule,
                "version": self.version,
            }))?;
        }
        Ok(())
    }

    /// Tells how a task ended. A reply that cannot be written is on record: the work goes on, and the end
    /// tells of it.
    pub(crate) fn task_ended(&mut self, report: &TaskReport) {
        self.tasks += 1;
        self.tally.add(report.tally);
        self.last = Some(report.clone());
        if !self.json && !self.live && report.end.status == EndStatus::Ok {
            self.fault = self.fault.take().or(reply(&report.end.reply).err());
        }
        self.note(report);
    }

    fn note(&self, report: &TaskReport) {
        let end = &report.end;
        let mut err = String::new();
        if let Some(reason) = &end.reason {
            let red = AnsiColor::Red.on_default().bold();
            let _ = writeln!(err, "{red}{}{red:#}: {}", end.status.as_str(), printable(reason));
        }
        if !self.quiet {
            let dim = Style::new().dimmed();
            // Where the reason follows the status, that is said already.
            let status = if end.reason.is_none() { format!("{}: ", end.status.as_str()) } else { String::new() };
            let (took, context) = (took(report.tally), &report.context);
            let _ = writeln!(err, "{dim}{status}{took}; context {context}; {}{dim:#}", self.on_record());
        }
        let _ = tell(&err);
    }

    fn on_record(&self) -> String {
        format!("`mur trace show {}` tells it all", self.session)
    }

    /// Tells something that the operator should know.
    pub(crate) fn warn(&self, warning: &str) {
        let _ = tell(&format!("{}\n", printable(warning)));
    }

    /// Tells that the session has ended: people where it was stopped and did not end with its task, programs in
    /// any case. `fault` says what of its record could not be written, for a session that so ended badly. `redactor` may
    /// know more than when the last task ended. Gives the first reply that could not be written.
    pub(crate) fn ended(&mut self, stopped: bool, fault: Option<&str>, redactor: &Redactor) -> std::io::Result<()> {
        if !self.quiet && (stopped || self.last.is_none()) {
            let (dim, tasks) = (Style::new().dimmed(), count(self.tasks, "task"));
            let _ = tell(&format!("{dim}stopped: {tasks}, {}; {}{dim:#}\n", took(self.tally), self.on_record()));
        }
        if !self.json {
            return self.fault.take().map_or(Ok(()), Err);
        }
        let last = self.last.as_ref();
        let tally = self.tally;
        let status = match (fault, last) {
            (Some(_), _) => EndStatus::Failed,
            (None, last) => last.map_or(EndStatus::Ok, |last| last.end.status),
        };
        json_line(&json!({
            "event": "ended",
            "session_id": self.session,
            "context_id": last.map(|last| &last.context),
            "status": status.as_str(),
            "reply": redactor.redact(last.map_or("", |last| last.end.reply.as_str())).as_str(),
            "reason": fault.or(last.and_then(|last| last.end.reason.as_deref())),
            "turns": tally.turns,
            "tool_calls": tally.tool_calls,
            "input_tokens": tally.input_tokens,
            "output_tokens": tally.output_tokens,
        }))
    }

    /// Tells of a session whose record could not be written on: what its task took is not known.
    pub(crate) fn broke_off(&self, reason: &str) -> std::io::Result<()> {
        if !self.json {
            return Ok(());
        }
        json_line(&json!({
            "event": "ended",
            "session_id": self.session,
            "context_id": null,
            "status": EndStatus::Failed.as_str(),
            "reply": "",
            "reason": reason,
            "turns": null,
            "tool_calls": null,
            "input_tokens": null,
            "output_tokens": null,
        }))
    }

    /// How the last task ended, if there was one.
    pub(crate) fn last_status(&self) -> Option<EndStatus> {
        self.last.as_ref().map(|last| last.end.status)
    }
}

/// What a task or a session took.
fn took(tally: Tally) -> String {
    let (turns, calls) = (count(tally.turns.into(), "turn"), count(tally.tool_calls.into(), "tool call"));
    format!("{turns}, {calls}, {} in, {} out", count(tally.input_tokens, "token"), tally.output_tokens)
}

fn reply(text: &str) -> std::io::Result<()> {
    let mut out = Output::plain();
    out.write_all(text.as_bytes())?;
    if !text.is_empty() && !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.finish()
}

/// One line of JSON on stdout, at once: whoever reads it waits for it.
pub(crate) fn json_line(value: &Value) -> std::io::Result<()> {
    let mut out = Output::plain();
    writeln!(out, "{value}")?;
    out.finish()
}
