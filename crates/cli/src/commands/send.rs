//! `mur send`: gives a running session a task, or the answer that a task waits for, and brings its reply.
//!
//! As with `mur run`, stdout carries the reply and nothing else: as it comes on a terminal, whole at the end
//! otherwise. The task is the session's own: it goes on when this command is gone, whether by Ctrl-C or with a
//! connection. A connection that breaks is made anew, and no word of the reply is lost.

mod answer;

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use vocab::{MessageId, SessionId};

use self::answer::Answer;
use crate::args::SendArgs;
use crate::client::{Client, Follow, News, Status, Target, Told, on_interrupt};
use crate::failure::Failure;
use crate::output::Output;
use crate::task;
use crate::terminal::{one_line, printable, tell, word};

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
    if let Some(words) = args.unquoted() {
        return Err(too_many(words));
    }
    // The session is looked for first: a text that was not quoted begins with a word that names none.
    let target = Target::find(args.target(), args.token_file.as_deref());
    let client = Client::new(target.map_err(|failure| unquoted(args, failure))?)?;
    let text = text(args.text())?;
    // A task without an id: the session has not said yet that it took it.
    let taken: Arc<OnceLock<String>> = Arc::default();
    let (watched, name) = (Arc::clone(&taken), client.target().name().to_owned());
    on_interrupt(move || {
        // What was written last may be half a line.
        let _ = tell(&match watched.get() {
            Some(task) => format!("\n{}", goes_on(&name, task)),
            None => format!("\nnot known whether the session has the task: `mur watch {}` shows\n", word(&name)),
        });
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(converse(args, &client, &text, &taken))
}

/// More words than a session and a text, as they may have been meant.
fn too_many(words: &[String]) -> Failure {
    let named = |word: &&String| word.starts_with('@') || word.starts_with(SessionId::PREFIX) || word.contains("://");
    let (target, text) = match words.split_first().filter(|(first, _)| named(first)) {
        Some((target, text)) => (format!("{} ", printable(target)), text),
        None => (String::new(), words),
    };
    let text = one_line(&text.join(" "), 200);
    Failure::unusable(format!("the text is {} arguments and not one", words.len() - usize::from(!target.is_empty())))
        .code("E-CLI-002")
        .hint(format!("put it in quotes: `mur send {target}\"{text}\"`"))
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
        return task::read("-");
    }
    if argument.trim().is_empty() {
        let failure = Failure::unusable("the text is empty").code("E-RUN-001");
        return Err(failure.hint("say what the agent is to do"));
    }
    Ok(argument.to_owned())
}

/// What is told of a task that nobody waits for any more.
fn goes_on(name: &str, task: &str) -> String {
    let (name, task) = (word(name), word(task));
    format!("the task goes on: `mur watch {name}` shows it, `mur stop {name} --task {task}` cancels it\n")
}

async fn converse(args: &SendArgs, client: &Client, text: &str, taken: &OnceLock<String>) -> Result<u8, Failure> {
    let mut message = Map::new();
    message.insert("messageId".into(), json!(MessageId::new()));
    message.insert("role".into(), json!("user"));
    message.insert("parts".into(), json!([{"kind": "text", "text": text}]));
    if let Some(context) = &args.context {
        message.insert("contextId".into(), json!(context));
    }
    if let Some(task) = &args.task {
        let task = client.find_task(task).await?;
        message.insert("taskId".into(), json!(&task));
        let _ = taken.set(task.to_string());
    }
    let mut follow = Follow::message(client, &json!({"message": message})).await?;
    let mut answer = Answer::new(args);
    loop {
        let told = match follow.next().await? {
            News::Frame(frame) => Told::of(&frame),
            // Without a frame there is none that the session could go on after.
            News::Broke(why) if !follow.has_begun() => return Err(untold(client, &why)),
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
            Told::Status(status) if status.ends_the_wait() => return answer.ended(client, status),
            Told::Closed => return Err(untold(client, "the session has ended")),
            told => answer.told(told)?,
        }
        if let (Told::Gap { .. } | Told::Lagged { .. }, Some(task)) = (&told, taken.get()) {
            // The end may be among what is missing.
            let now = client.call("tasks/get", &json!({"id": task})).await?;
            if let Some(status) = Status::of_task(&now).filter(Status::ends_the_wait) {
                return answer.ended(client, &status);
            }
        }
    }
}

/// The session went before it said what becomes of the task.
fn untold(client: &Client, why: &str) -> Failure {
    let name = word(client.target().name());
    Failure::failed(format!("the end of the task was not told: {}", printable(why)))
        .code("E-NET-005")
        .hint(format!("`mur watch {name}` shows what the session does, `mur trace show` what is on record"))
}

fn json_line(value: &Value) -> std::io::Result<()> {
    let mut out = Output::plain();
    writeln!(out, "{value}")?;
    out.finish()
}
