//! What a person sees of a running task: progress on stderr, the reply on stdout.
//!
//! Stdout carries only the final reply. On a terminal the text of a turn is shown there as it comes,
//! before anybody can know whether it is the final one; in a pipe the reply comes whole, at the end.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use runtime::{Artifact, Frame, Observer};
use vocab::{Part, TaskId};

use crate::terminal::{cut, one_line, printable};

const DIM: Style = Style::new().dimmed();
const WIDE: usize = 100;
/// How many of a command's last lines are shown.
const TAIL: usize = 8;

/// Where a task's progress goes.
pub(crate) struct Progress {
    /// Stderr, unless the operator wants quiet.
    notes: Option<Box<dyn Write + Send>>,
    /// Stdout, when it is a terminal that text can be streamed to.
    live: Option<Box<dyn Write + Send>>,
    /// Whether the last character on `live` was not a newline.
    open_line: bool,
    /// The turn's text so far, while it cannot be known whether it is the reply.
    said: String,
}

impl Progress {
    pub(crate) fn new(notes: Option<Box<dyn Write + Send>>, live: Option<Box<dyn Write + Send>>) -> Self {
        Self { notes, live, open_line: false, said: String::new() }
    }

    fn note(&mut self, line: std::fmt::Arguments<'_>) {
        self.end_line();
        if let Some(notes) = &mut self.notes {
            // A closed stderr must not end the agent's work.
            let _ = writeln!(notes, "{line}");
        }
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
        let parts = &artifact.shown.parts;
        let text: String = parts.iter().filter_map(text_of).collect();
        let body = fence::parse(&text).block.map_or(text.as_str(), |block| block.content);
        let took = artifact.duration.unwrap_or_default().as_millis();
        let (mark, colour) = if artifact.shown.is_error { ('✗', AnsiColor::Red) } else { ('✓', AnsiColor::Green) };
        let colour = colour.on_default();
        let said = match (artifact.fence_source, artifact.shown.is_error) {
            // The runtime's own words say why nothing ran: all of them count.
            (None, true) => one_line(body, WIDE * 5),
            (None, false) => format!("{} bytes of guidance", body.len()),
            (Some(_), _) => one_line(body, WIDE),
        };
        let name = one_line(artifact.tool_name, WIDE);
        self.note(format_args!("  {colour}{mark}{colour:#} {name}: {said} {DIM}({took} ms){DIM:#}"));
        if artifact.shown.facts.shell.is_some() {
            // A command's last words say most.
            let lines: Vec<&str> = body.lines().skip(1).filter(|line| !line.trim().is_empty()).collect();
            for line in lines.iter().skip(lines.len().saturating_sub(TAIL)) {
                self.note(format_args!("    {DIM}{}{DIM:#}", cut(line, WIDE)));
            }
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
    fn frame(&mut self, _: &TaskId, frame: &Frame<'_>) {
        match frame {
            Frame::Text(piece) => self.text(piece),
            Frame::ToolRunning { tool_name, summary, .. } => {
                let bold = Style::new().bold();
                let gap = if summary.is_empty() { "" } else { " " };
                self.note(format_args!("{bold}{}{bold:#}{gap}{}", printable(tool_name), printable(summary)));
            }
            Frame::Artifact(artifact) => self.artifact(artifact),
            Frame::InputRequired { prompt } => {
                let yellow = AnsiColor::Yellow.on_default();
                self.note(format_args!("{yellow}input required{yellow:#}: {}", printable(prompt)));
            }
            Frame::Retrying { error, delay, attempt } => {
                let yellow = AnsiColor::Yellow.on_default();
                self.said.clear();
                let (text, wait) = (printable(&error.message), delay.as_millis());
                self.note(format_args!("{yellow}retry{yellow:#} {text}; attempt {attempt} in {wait} ms"));
            }
            Frame::Warning { code, text } => {
                let yellow = AnsiColor::Yellow.on_default();
                self.note(format_args!("{yellow}warning[{code}]{yellow:#}: {text}"));
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
