//! The reply of a task that was sent, on its way to whoever sent it.

use std::io::{IsTerminal as _, Write as _};

use anstyle::Style;
use serde_json::{Value, json};

use crate::args::SendArgs;
use crate::client::{Client, DIM, Said, Status, Told, call_result, notice, state_colour};
use crate::failure::{FAILED, Failure};
use crate::output::Output;
use crate::terminal::{one_line, printable, tell, word};

/// The reply on its way out.
pub(super) struct Answer {
    json: bool,
    quiet: bool,
    /// Whether the reply is shown as it comes.
    live: bool,
    out: Output,
    /// Whether the last line on stdout has not ended.
    open: bool,
    /// The words of this turn; while more may come, nobody knows whether they are the reply.
    said: Said,
}

impl Answer {
    pub(super) fn new(args: &SendArgs) -> Self {
        let live = !args.json && std::io::stdout().is_terminal();
        Self { json: args.json, quiet: args.quiet, live, out: Output::plain(), open: false, said: Said::default() }
    }

    /// Progress, on stderr.
    pub(super) fn note(&mut self, lines: &str) -> Result<(), Failure> {
        self.end_line()?;
        if !self.quiet {
            // A closed stderr must not end the wait for the reply.
            let _ = tell(lines);
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.open) {
            self.out.write_all(b"\n")?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// One line of JSON, at once.
    fn line(&mut self, value: &Value) -> Result<(), Failure> {
        writeln!(self.out, "{value}")?;
        Ok(self.out.flush()?)
    }

    pub(super) fn started(&mut self, client: &Client, status: &Status) -> Result<(), Failure> {
        let target = client.target();
        if self.json {
            return self.line(&json!({
                "event": "started",
                "session_id": target.session().map(|session| &session.session_id),
                "url": target.url.as_str(),
                "task_id": status.task,
                "context_id": status.context_id,
            }));
        }
        let (task, context) = (one_line(&status.task, 100), one_line(&status.context_id, 100));
        self.note(&format!("{DIM}task     {task}\ncontext  {context}{DIM:#}\n"))
    }

    pub(super) fn told(&mut self, told: &Told) -> Result<(), Failure> {
        match told {
            Told::Text(piece) => {
                self.said.add(&piece.text);
                if self.live && !piece.text.is_empty() {
                    self.out.write_all(printable(&piece.text).as_bytes())?;
                    self.out.flush()?;
                    self.open = !piece.text.ends_with('\n');
                }
                Ok(())
            }
            Told::ToolCall(call) => {
                self.remark()?;
                let bold = Style::new().bold();
                self.note(&format!("{bold}{}{bold:#}\n", one_line(&call.tool_name, 100)))
            }
            Told::Artifact(artifact) => {
                self.remark()?;
                self.note(&call_result(&artifact.artifact))
            }
            Told::Status(status) => match &status.status.message {
                Some(message) => self.note(&format!("{DIM}{}{DIM:#}\n", printable(message.trim_end()))),
                None => Ok(()),
            },
            Told::Gap { .. } | Told::Lagged { .. } | Told::Error { .. } => self.note(&notice(told).unwrap_or_default()),
            Told::Thinking(_) | Told::Closed => Ok(()),
        }
    }

    /// The words of a turn that goes on with a call are not the reply: they are progress.
    fn remark(&mut self) -> Result<(), Failure> {
        let said = std::mem::take(&mut self.said);
        let said = said.text().trim();
        if self.live || said.is_empty() {
            return self.end_line();
        }
        self.note(&format!("{}\n", printable(said)))
    }

    /// The task has ended, or waits for an answer.
    pub(super) fn ended(mut self, client: &Client, status: &Status) -> Result<u8, Failure> {
        let state = status.status.state.as_str();
        let (reply, reason) = (status.status.response.as_deref(), status.status.message.as_deref());
        let done = state == "completed";
        if self.json {
            let target = client.target();
            self.line(&json!({
                "event": "ended",
                "session_id": target.session().map(|session| &session.session_id),
                "task_id": status.task,
                "context_id": status.context_id,
                "status": state,
                "reply": reply.unwrap_or_default(),
                "reason": reason,
            }))?;
        } else if done {
            self.reply(reply.unwrap_or_default())?;
        } else {
            self.end_line()?;
        }
        let mut err = String::new();
        if !done || reason.is_some() {
            let colour = state_colour(state).bold();
            let reason = printable(reason.unwrap_or("no reason was given").trim_end());
            err.push_str(&format!("{colour}{}{colour:#}: {reason}\n", one_line(state, 40)));
        }
        if state == "input-required" {
            let (name, task) = (word(client.target().name()), word(&status.task));
            err.push_str(&format!("  {DIM}hint:{DIM:#} answer with `mur send {name} --task {task} \"…\"`\n"));
        }
        // A closed stderr changes nothing of how the task ended.
        let _ = tell(&err);
        Ok(if done { 0 } else { FAILED })
    }

    /// The whole reply; on a terminal only if it was not seen as it came.
    fn reply(&mut self, reply: &str) -> Result<(), Failure> {
        if self.live && self.said.is(reply) {
            self.end_line()?;
            return Ok(());
        }
        self.end_line()?;
        if self.live {
            self.out.write_all(printable(reply).as_bytes())?;
        } else {
            self.out.write_all(reply.as_bytes())?;
        }
        if !reply.is_empty() && !reply.ends_with('\n') {
            self.out.write_all(b"\n")?;
        }
        Ok(self.out.flush()?)
    }
}
