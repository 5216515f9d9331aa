//! What a person sees of a running task: progress on stderr, the reply on stdout.
//!
//! Stdout carries only the final reply. On a terminal the text of a turn is shown there as it comes,
//! before anybody can know whether it is the final one; in a pipe the reply comes whole, at the end.

use std::io::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use runtime::{Artifact, Frame, Observer};
use vocab::{Clock as _, Part, SessionId, SystemClock, TaskId};

use crate::commands::trace::{lasted, utc};
use crate::results::{CallResult, DIM};
use crate::terminal::{printable, tell};

/// Where a task's progress goes.
pub(crate) struct Progress {
    session: SessionId,
    /// How long a tool's question waits for its answer.
    patience: Duration,
    /// Whether the operator wants to hear only what asks something of him.
    quiet: bool,
    /// Stdout, when it is a terminal that text can be streamed to.
    live: Option<Box<dyn Write + Send>>,
    /// Whether the last character on `live` was not a newline.
    open_line: bool,
    /// The turn's text so far, while it cannot be known whether it is the reply.
    said: String,
}

impl Progress {
    pub(crate) fn new(session: SessionId, patience: Duration, quiet: bool, live: bool) -> Self {
        let live = live.then(|| Box::new(std::io::stdout()) as Box<dyn Write + Send>);
        Self { session, patience, quiet, live, open_line: false, said: String::new() }
    }

    fn note(&mut self, line: std::fmt::Arguments<'_>) {
        self.end_line();
        if !self.quiet {
            // A closed stderr must not end the agent's work.
            let _ = tell(&format!("{line}\n"));
        }
    }

    /// What is told in any case.
    fn warn(&mut self, line: std::fmt::Arguments<'_>) {
        self.end_line();
        let _ = tell(&format!("{line}\n"));
    }

    /// A tool's question, and how it is answered and until when.
    fn question(&mut self, task: &TaskId, prompt: &str) {
        let yellow = AnsiColor::Yellow.on_default();
        let patience = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        let until = utc(SystemClock.now_ms().saturating_add(patience));
        let session = self.session.clone();
        self.warn(format_args!(
            "{yellow}input required{yellow:#}: {}\n  {DIM}hint:{DIM:#} answer within {} (until {until} UTC): `mur send \
             {session} --task {task} \"…\"`",
            printable(prompt.trim_end()),
            lasted(patience),
        ));
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.open_line)
            && let Some(live) = &mut self.live
        {
            let _ = writeln!(live);
        }
    }

    fn text(&mut self, piece: &str) {
        if let Some(live) = &mut self.live {
            let _ = live.write_all(printable(piece).as_bytes());
            let _ = live.flush();
            self.open_line = !piece.ends_with('\n');
        } else {
            self.said.push_str(piece);
        }
    }

    /// The text of a turn that goes on with tool calls is not the reply: it is progress.
    fn remark(&mut self) {
        let said = std::mem::take(&mut self.said);
        for line in said.trim().lines() {
            self.note(format_args!("{}", printable(line)));
        }
    }

    fn artifact(&mut self, artifact: &Artifact<'_>) {
        let text: String = artifact.shown.parts.iter().filter_map(text_of).collect();
        // A connection's tool is told by its own name, not by that of the tool that calls it.
        let called = artifact.shown.facts.mcp.as_ref().map(|mcp| format!("{}/{}", mcp.name, mcp.tool));
        let result = CallResult {
            tool_name: called.as_deref().unwrap_or(artifact.tool_name),
            text: &text,
            fenced: artifact.fence_source.is_some(),
            is_error: artifact.shown.is_error,
            duration_ms: artifact.duration.map(|took| took.as_millis()),
            command: artifact.shown.facts.shell.is_some(),
        };
        self.note(format_args!("{}", result.lines()));
        if let Some(shell) = artifact.shown.facts.shell.as_ref().filter(|shell| !shell.unmasked.is_empty()) {
            let rules = shell.unmasked.join(", ");
            let yellow = AnsiColor::Yellow.on_default();
            self.warn(format_args!(
                "{yellow}warning[W-CAP-003]{yellow:#}: the kernel did not hold that process to all of these rules: {}",
                printable(&rules)
            ));
        }
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Thinking(_) | Part::ToolCall(_) | Part::Image { .. } => None,
    }
}

impl Observer for Progress {
    fn frame(&mut self, task: &TaskId, frame: &Frame<'_>) {
        match frame {
            Frame::Text(piece) => self.text(piece),
            Frame::ToolRunning { tool_name, summary, .. } => {
                let bold = Style::new().bold();
                let gap = if summary.is_empty() { "" } else { " " };
                self.note(format_args!("{bold}{}{bold:#}{gap}{}", printable(tool_name), printable(summary)));
            }
            Frame::Artifact(artifact) => self.artifact(artifact),
            Frame::InputRequired { prompt } => self.question(task, prompt),
            Frame::Retrying { error, delay, attempt } => {
                let yellow = AnsiColor::Yellow.on_default();
                self.said.clear();
                let (text, wait) = (printable(&error.message), delay.as_millis());
                self.note(format_args!("{yellow}retry{yellow:#} {text}; attempt {attempt} in {wait} ms"));
            }
            Frame::Warning { code, text } => {
                let yellow = AnsiColor::Yellow.on_default();
                self.warn(format_args!("{yellow}warning[{code}]{yellow:#}: {}", printable(text)));
            }
            Frame::Summarising => self.note(format_args!("older turns are being summarised")),
            Frame::Subagent(progress) => {
                let indent = usize::try_from(progress.depth).unwrap_or(1) * 2;
                let (text, gap) = (progress.to_string(), "");
                self.note(format_args!("{DIM}{gap:indent$}{}{DIM:#}", printable(&text)));
            }
            Frame::TurnEnded { tool_calls } => {
                self.end_line();
                if *tool_calls > 0 {
                    self.remark();
                }
                self.said.clear();
            }
            Frame::Ended { .. } => self.end_line(),
            Frame::Working | Frame::Thinking(_) | Frame::ToolCallStarted { .. } => {}
        }
    }
}
