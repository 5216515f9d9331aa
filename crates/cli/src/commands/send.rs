//! `mur send`: gives a running session a task, or the answer that a task waits for, and brings its reply.
//!
//! As with `mur run`, stdout carries the reply and nothing else: as it comes on a terminal, whole at the end
//! otherwise. The task is the session's own: it goes on when this command is gone, whether by Ctrl-C or with a
//! connection. A connection that breaks is made anew, and no word of the reply is lost.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, OnceLock};

use anstyle::Style;
use serde_json::{Value, json};
use vocab::MessageId;

use crate::args::SendArgs;
use crate::client::{Client, DIM, Follow, News, Status, Target, Told, call_result, notice, on_interrupt, state_colour};
use crate::failure::{FAILED, Failure};
use crate::launch;
use crate::output::Output;
use crate::terminal::{one_line, printable};

pub(crate) fn run(args: &SendArgs) -> Result<u8, Failure> {
    let outcome = send(args);
    if args.json
        && let Err(failure) = &outcome
    {
        // If nobody takes it, the reason is still told on stderr.
        let _ = json_line(&failure.event());
    }
    outcome
}

fn send(args: &SendArgs) -> Result<u8, Failure> {
    // The session is looked for first: a text that was not quoted begins with a word that names none.
    let client = Client::new(Target::find(args.target()).map_err(|failure| unquoted(args, failure))?)?;
    let text = text(args.text())?;
    // A task without an id: the session has not said yet that it took it.
    let taken: Arc<OnceLock<String>> = Arc::default();
    let (watched, name) = (Arc::clone(&taken), client.target().name().to_owned());
    on_interrupt(move || {
        if let Some(task) = watched.get() {
            let _ = write!(anstream::stderr(), "\n{}", goes_on(&name, task));
        }
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(converse(args, &client, &text, &taken))
}

/// A name that names no session, with what may have been meant.
fn unquoted(args: &SendArgs, failure: Failure) -> Failure {
    match args.target() {
        Some(target) if !target.contains("://") && !target.starts_with('@') => {
            failure.hint("`mur ps` shows the running sessions; a text of several words stands in quotes")
        }
        _ => failure,
    }
}

fn text(argument: &str) -> Result<String, Failure> {
    if argument == "-" {
        return launch::task("-");
    }
    if argument.trim().is_empty() {
        let failure = Failure::unusable("the text is empty").code("E-RUN-001");
        return Err(failure.hint("say what the agent is to do"));
    }
    Ok(argument.to_owned())
}

/// What is told of a task that nobody waits for any more.
fn goes_on(name: &str, task: &str) -> String {
    let (name, task) = (printable(name), printable(task));
    format!("the task goes on: `mur watch {name}` shows it, `mur stop {name} --task {task}` cancels it\n")
}

async fn converse(args: &SendArgs, client: &Client, text: &str, taken: &OnceLock<String>) -> Result<u8, Failure> {
    let mut message = json!({
        "messageId": MessageId::new(),
        "role": "user",
        "parts": [{"kind": "text", "text": text}],
    });
    if let Some(context) = &args.context {
        message["contextId"] = json!(context);
    }
    if let Some(task) = &args.task {
        message["taskId"] = json!(task);
        let _ = taken.set(task.to_string());
    }
    let mut follow = Follow::message(client, &json!({"message": message})).await?;
    let mut answer = Answer::new(args);
    loop {
        let told = match follow.next().await? {
            News::Frame(frame) => Told::of(&frame),
            News::Broke(why) if taken.get().is_none() => return Err(untold(client, &why)),
            News::Broke(why) => {
                answer.note(&format!("the connection broke ({}); connecting again\n", one_line(&why, 200)))?;
                continue;
            }
            News::Back => {
                answer.note("connected again\n")?;
                continue;
            }
        };
        let Some(told) = told else { continue };
        if let (None, Told::Status(status)) = (taken.get(), &told) {
            let _ = taken.set(status.task.clone());
            answer.started(client, status)?;
        }
        // After a break the frames of other tasks come as well.
        if told.task().is_some_and(|task| taken.get().is_none_or(|ours| task != ours)) {
            continue;
        }
        match &told {
            Told::Status(status) if status.last || status.status.state == "input-required" => {
                return answer.ended(client, status);
            }
            Told::Closed => return Err(untold(client, "the session has ended")),
            told => answer.told(told)?,
        }
    }
}

/// The session went before it said what becomes of the task.
fn untold(client: &Client, why: &str) -> Failure {
    let name = printable(client.target().name()).into_owned();
    Failure::failed(format!("the end of the task was not told: {}", printable(why)))
        .code("E-NET-005")
        .hint(format!("`mur watch {name}` shows what the session does, `mur trace show` what is on record"))
}

/// The reply on its way out.
struct Answer {
    json: bool,
    quiet: bool,
    /// Whether the reply is shown as it comes.
    live: bool,
    out: Output,
    /// Whether the last line on stdout has not ended.
    open: bool,
    /// The words of this turn; while more may come, nobody knows whether they are the reply.
    said: String,
}

impl Answer {
    fn new(args: &SendArgs) -> Self {
        let live = !args.json && std::io::stdout().is_terminal();
        Self { json: args.json, quiet: args.quiet, live, out: Output::plain(), open: false, said: String::new() }
    }

    /// Progress, on stderr.
    fn note(&mut self, lines: &str) -> Result<(), Failure> {
        self.end_line()?;
        if !self.quiet {
            // A closed stderr must not end the wait for the reply.
            let _ = write!(anstream::stderr(), "{lines}");
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

    fn started(&mut self, client: &Client, status: &Status) -> Result<(), Failure> {
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
        let (task, context) = (printable(&status.task), printable(&status.context_id));
        self.note(&format!("{DIM}task     {task}\ncontext  {context}{DIM:#}\n"))
    }

    fn told(&mut self, told: &Told) -> Result<(), Failure> {
        match told {
            Told::Text(piece) => {
                self.said.push_str(&piece.text);
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
        let said = said.trim();
        if self.live || said.is_empty() {
            return self.end_line();
        }
        self.note(&format!("{}\n", printable(said)))
    }

    /// The task has ended, or waits for an answer.
    fn ended(mut self, client: &Client, status: &Status) -> Result<u8, Failure> {
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
        let mut err = anstream::stderr().lock();
        // A closed stderr changes nothing of how the task ended.
        if !done || reason.is_some() {
            let colour = state_colour(state).bold();
            let reason = printable(reason.unwrap_or("no reason was given").trim_end());
            let _ = writeln!(err, "{colour}{}{colour:#}: {reason}", one_line(state, 40));
        }
        if state == "input-required" {
            let (name, task) = (printable(client.target().name()), printable(&status.task));
            let _ = writeln!(err, "  {DIM}hint:{DIM:#} answer with `mur send {name} --task {task} \"…\"`");
        }
        Ok(if done { 0 } else { FAILED })
    }

    /// The whole reply; on a terminal only if it was not seen as it came.
    fn reply(&mut self, reply: &str) -> Result<(), Failure> {
        if self.live && self.said.trim() == reply.trim() {
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

fn json_line(value: &Value) -> std::io::Result<()> {
    let mut out = Output::plain();
    writeln!(out, "{value}")?;
    out.finish()
}
