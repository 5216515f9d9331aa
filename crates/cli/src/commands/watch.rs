//! `mur watch`: what a session does, as it does it, until it ends.
//!
//! A connection that breaks is made anew and goes on where it was. `--json` gives every frame, also those
//! that this version does not know.

use std::io::Write as _;

use anstyle::Style;
use serde_json::json;

use crate::args::WatchArgs;
use crate::client::{
    Client, DIM, Follow, News, Said, Status, Target, Told, call_result, notice, on_interrupt, state_colour,
};
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::{one_line, printable, tell, word};

pub(crate) fn run(args: &WatchArgs) -> Result<u8, Failure> {
    let client = Client::new(Target::find(args.target.as_deref(), args.token_file.as_deref())?)?;
    on_interrupt(|| {})?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(watch(args, &client))?;
    Ok(0)
}

async fn watch(args: &WatchArgs, client: &Client) -> Result<(), Failure> {
    let mut follow = Follow::watch(client, args.replay).await?;
    let mut out = if args.json { Output::plain() } else { Output::styled() };
    let mut screen = Screen { session: client.target().name().to_owned(), ..Screen::default() };
    if !args.json {
        // A closed stderr does not end the watch.
        let _ = tell(&greeting(client.target()));
    }
    if !args.replay {
        for status in under_way(client).await {
            if args.json {
                writeln!(out, "{}", json!({"id": null, "event": "status", "data": status.frame()}))?;
            } else {
                out.write_all(screen.render(&Told::Status(status)).as_bytes())?;
            }
        }
        out.flush()?;
    }
    while !out.gone() {
        match follow.next().await? {
            News::Frame(frame) => {
                let told = Told::of(&frame);
                if args.json {
                    writeln!(out, "{}", json!({"id": frame.id, "event": frame.event, "data": frame.data}))?;
                } else if let Some(told) = &told {
                    out.write_all(screen.render(told).as_bytes())?;
                }
                out.flush()?;
                if told == Some(Told::Closed) {
                    break;
                }
            }
            News::Broke(why) => {
                out.write_all(screen.end_line().as_bytes())?;
                out.flush()?;
                if !client.target().is_gone() {
                    let _ = tell(&format!("the connection broke ({}); connecting again\n", one_line(&why, 200)));
                }
            }
            News::Back => {
                let _ = tell("connected again\n");
            }
        }
    }
    out.finish()?;
    Ok(())
}

/// The tasks that began before this watch did, and have not ended. They are asked for after the stream has
/// begun, so that none is missed; one that changes meanwhile is told twice.
async fn under_way(client: &Client) -> Vec<Status> {
    if !client.target().is_known() {
        return Vec::new();
    }
    // Whoever may watch and not list still sees what comes.
    client.open_tasks().await.unwrap_or_default()
}

fn greeting(target: &Target) -> String {
    let name = printable(target.name());
    match target.session() {
        Some(session) => {
            format!("{DIM}watching {name}: {} {}{DIM:#}\n", printable(&session.capsule), printable(&session.version))
        }
        None => format!("{DIM}watching {name}{DIM:#}\n"),
    }
}

/// What stands on the screen, as far as it decides what comes next.
#[derive(Debug, Default)]
struct Screen {
    /// How a command names the session.
    session: String,
    /// Whether the last line has not ended.
    open: bool,
    /// Whether the last words were thoughts, which do not go on as text.
    thought: bool,
    /// The task whose words came last, and those of its turn.
    said: (String, Said),
}

impl Screen {
    fn render(&mut self, told: &Told) -> String {
        match told {
            Told::Text(piece) => {
                if piece.task != self.said.0 {
                    self.said = (piece.task.clone(), Said::default());
                }
                self.said.1.add(&piece.text);
                self.words(&piece.text, piece.last, false)
            }
            Told::Thinking(piece) => self.words(&piece.text, piece.last, true),
            Told::ToolCall(call) => {
                self.said = Default::default();
                let bold = Style::new().bold();
                self.line(&format!("{bold}{}{bold:#}\n", one_line(&call.tool_name, 100)))
            }
            Told::Artifact(artifact) => {
                self.said = Default::default();
                self.line(&call_result(&artifact.artifact))
            }
            Told::Status(status) => self.status(status),
            Told::Closed => self.line(&format!("{DIM}the session has ended{DIM:#}\n")),
            Told::Gap { .. } | Told::Lagged { .. } | Told::Error { .. } => self.line(&notice(told).unwrap_or_default()),
        }
    }

    /// Ends the line of the words that came last.
    fn end_line(&mut self) -> String {
        if std::mem::take(&mut self.open) { "\n".to_owned() } else { String::new() }
    }

    fn line(&mut self, text: &str) -> String {
        self.end_line() + text
    }

    fn words(&mut self, text: &str, last: bool, thought: bool) -> String {
        let mut shown = if thought == self.thought { String::new() } else { self.end_line() };
        self.thought = thought;
        if !text.is_empty() {
            let style = if thought { DIM } else { Style::new() };
            shown.push_str(&format!("{style}{}{style:#}", printable(text)));
            self.open = !text.ends_with('\n');
        }
        if last {
            shown.push_str(&self.end_line());
        }
        shown
    }

    fn status(&mut self, status: &Status) -> String {
        let mut shown = self.end_line();
        let (state, colour) = (&status.status.state, state_colour(&status.status.state));
        // A reply that was not seen as it came, from a turn that began before this watch did.
        if let Some(reply) = &status.status.response
            && state == "completed"
            && (self.said.0 != status.task || !self.said.1.is(reply))
        {
            shown.push_str(printable(reply.trim_end()).as_ref());
            shown.push('\n');
        }
        shown.push_str(&format!(
            "{DIM}{}{DIM:#} {colour}{}{colour:#}",
            one_line(&status.task, 100),
            one_line(state, 40)
        ));
        if let Some(message) = &status.status.message {
            shown.push_str(&format!(": {}", printable(message.trim_end())));
        }
        shown.push('\n');
        if state == "input-required" {
            let (name, task) = (word(&self.session), word(&status.task));
            shown.push_str(&format!("  {DIM}hint:{DIM:#} answer with `mur send {name} --task {task} \"…\"`\n"));
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Screen;
    use crate::client::{Frame, Told};

    fn shown(frames: &[(&str, Value)]) -> String {
        let mut screen = Screen::default();
        let rendered = frames.iter().map(|(event, data)| {
            let frame = Frame { id: None, event: (*event).to_owned(), data: data.clone() };
            Told::of(&frame).map(|told| screen.render(&told)).unwrap_or_default()
        });
        anstream::adapter::strip_str(&rendered.collect::<String>()).to_string()
    }

    #[test]
    fn a_task_reads_like_a_story() {
        let fenced = fence::wrap(&fence::Source::tool("shell_exec"), "exit 1\n\u{1b}[2Jone\ntwo\n");
        let call = json!({"id": "t", "artifact": {
            "tool_name": "shell_exec", "content": fenced, "fence_source": "tool:shell_exec",
            "is_error": true, "duration_ms": 120, "exit_code": 1, "of tomorrow": 1,
        }});
        let story = shown(&[
            ("connection-ack", json!({"role": "observer"})),
            ("status", json!({"id": "t", "context_id": "c", "status": {"state": "working"}, "final": false})),
            ("thinking", json!({"id": "t", "text": "Hm", "final": false})),
            ("text", json!({"id": "t", "text": "Let me ", "final": false})),
            ("text", json!({"id": "t", "text": "look.", "final": false})),
            ("text", json!({"id": "t", "text": "", "final": true})),
            ("tool-call-started", json!({"id": "t", "tool_name": "shell_exec", "tool_call_id": "1"})),
            ("artifact", call),
            ("of tomorrow", json!({})),
            ("status", json!({"id": 7})),
            ("lagged", json!({"skipped": 3})),
            ("text", json!({"id": "t", "text": "Do\u{1b}ne", "final": true})),
            ("status", json!({"id": "t", "status": {"state": "completed", "response": "Do\u{1b}ne"}, "final": true})),
            ("status", json!({"id": "u", "status": {"state": "failed", "message": "no\nmore"}, "final": true})),
            ("status", json!({"id": "v", "status": {"state": "completed", "response": "Unseen.\n"}, "final": true})),
            ("capsule-closed", json!({})),
        ]);
        let expected = "t working\nHm\nLet me look.\nshell_exec\n  ✗ shell_exec: exit 1 (120 ms)\n    \\u{1b}[2Jone\n    \
            two\nnote: 3 frames came faster than they were read, and are left out\nDo\\u{1b}ne\nt completed\nu failed: \
            no\nmore\nUnseen.\nv completed\nthe session has ended\n";
        assert_eq!(story, expected);
    }
}
