//! What a person is told who has to do something next, or who meant something else.

use std::io::{BufReader, Read as _};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Gate, Turn};

use crate::binary::Mur;
use crate::send::with_a_tool_that_asks;
use crate::serve::{SERVES, Serving};
use crate::support::{Stage, Wire, of_type};

fn serving(more: &str, turns: Vec<Turn>) -> Stage {
    let stage = Stage::new(Wire::Anthropic, "", turns);
    stage.declare(&format!("{SERVES}{more}"));
    stage
}

/// Reads on until a line has this in it, and gives that line.
fn until(lines: &mut impl std::io::BufRead, text: &str) -> String {
    let mut seen = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "`{text}` never came: {seen}");
        if line.contains(text) {
            return line.trim_end().to_owned();
        }
        seen.push_str(&line);
    }
}

#[test]
fn a_question_says_how_it_is_answered_and_whoever_comes_late_sees_it() {
    let stage = Stage::new(Wire::Anthropic, "", vec![Turn::new().tool("ask", json!({})), Turn::new().text("Thanks.")]);
    with_a_tool_that_asks(&stage);
    let mut command = stage.command(&["--task", "do it", "--quiet"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(run.stderr.take().unwrap());
    assert_eq!(until(&mut stderr, "input required"), "input required: Which \\u{1b}[2Jone?");
    let hint = until(&mut stderr, "hint: ");
    let trace = stage.trace();
    let received = of_type(&trace, "task_received")[0];
    let (session, task) = (received["session_id"].as_str().unwrap(), received["task_id"].as_str().unwrap());
    assert!(hint.starts_with("  hint: answer within 10 min 00 s (until 20"), "{hint}");
    assert!(hint.ends_with(&format!(" UTC): `mur send {session} --task {task} \"…\"`")), "{hint}");

    assert_eq!(stage.mur.run(&["ps", "--json"]).json()[0]["status"], "input required");
    let mut watch = stage.mur.command(&["watch"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut seen = BufReader::new(watch.stdout.take().unwrap());
    assert_eq!(until(&mut seen, task), format!("{task} input-required: Which \\u{{1b}}[2Jone?"));
    assert_eq!(until(&mut seen, "hint"), format!("  hint: answer with `mur send {session} --task {task} \"…\"`"));
    let mut json = stage.mur.command(&["watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut frames = BufReader::new(json.stdout.take().unwrap());
    let frame: Value = serde_json::from_str(&until(&mut frames, "input-required")).unwrap();
    let expected = json!({
        "id": null,
        "event": "status",
        "data": {
            "id": task,
            "context_id": received["context_id"],
            "status": {"state": "input-required", "message": "Which \u{1b}[2Jone?"},
            "final": false,
        },
    });
    assert_eq!(frame, expected);

    // The end of an id is enough, and one that fits nothing is told.
    let none = stage.mur.run(&["send", "--task", "zzzz", "the second"]);
    assert_eq!(none.status, Some(2), "{none:?}");
    assert!(none.stderr.starts_with("error[E-CLI-003]: no task of this session is named `zzzz`"), "{none:?}");
    let answered = stage.mur.run(&["send", "--task", &task[task.len() - 6..], "the second"]);
    assert_eq!((answered.status, answered.stdout()), (Some(0), "Thanks.\n"), "{answered:?}");
    for child in [&mut run, &mut watch, &mut json] {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_conversation_is_named_where_it_is_gone_on_with() {
    let stage = Stage::new(Wire::OpenAi, "", vec![Turn::new().text("one"), Turn::new().text("two")]);
    let first = stage.run(&["--json"]);
    let ended: Value = serde_json::from_str(first.stdout().lines().last().unwrap()).unwrap();
    let (session, context) = (ended["session_id"].as_str().unwrap(), ended["context_id"].as_str().unwrap());
    assert!(first.stderr.contains(&format!("; context {context}; `mur trace show")), "{first:?}");
    let again = stage.run(&["--resume", session]);
    let expected = format!("resumes  {session}, 1 conversation\ncontext  {context}\n");
    assert!(again.stderr.contains(&expected), "{again:?}");
    let shown = stage.mur.run(&["trace", "show"]);
    assert!(shown.stdout().contains(&format!("  user, trusted, by cli  in {context}\n")), "{shown:?}");
}

#[test]
fn a_session_that_was_stopped_says_what_it_came_to() {
    for signal in [Signal::INT, Signal::TERM] {
        let stage = serving("", Vec::new());
        let mut session = stage.command(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(session.stderr.take().unwrap());
        until(&mut stderr, "waiting for a task");
        rustix::process::kill_process(rustix::process::Pid::from_child(&session), signal).unwrap();
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(session.wait().unwrap().code(), Some(0), "{rest}");
        let id = stage.trace()[0]["session_id"].as_str().unwrap().to_owned();
        let took = "0 tasks, 0 turns, 0 tool calls, 0 tokens in, 0 out";
        assert_eq!(rest, format!("stopped: {took}; `mur trace show {id}` tells it all\n"));
        let gone = stage.mur.run(&["send", &id[id.len() - 8..], "hi"]);
        assert_eq!(gone.status, Some(2));
        assert!(gone.stderr.starts_with(&format!("error[E-REC-006]: the session `{id}` has ended\n")), "{gone:?}");
        let stop = stage.mur.run(&["stop", &id]);
        assert!(
            stop.stderr.contains(&format!("`mur trace show {id}`")) && stop.stderr.contains("--resume"),
            "{stop:?}"
        );
    }
}

#[test]
fn a_task_that_never_started_is_told_once_with_its_reason() {
    let gate = Gate::new();
    let stage = Stage::new(Wire::Anthropic, "", vec![Turn::new().text("done").gate(&gate)]);
    stage.declare("lifecycle: { after_task: sleep }\n");
    let session = Serving::start(&stage, &["--task", "do it"]);
    stage.wait_requests(1);
    let rejected = stage.mur.run(&["send", "--json", "too much"]);
    let ended: Value = serde_json::from_str(rejected.stdout().lines().last().unwrap()).unwrap();
    let (task, reason) = (ended["task_id"].as_str().unwrap(), ended["reason"].as_str().unwrap());
    gate.open();
    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    session.end();
    let shown = stage.mur.run(&["trace", "show"]);
    assert_eq!(shown.stdout().matches(&format!("task {task}")).count(), 1, "{shown:?}");
    let expected = format!("  too much\n  (8 bytes, never started)\n  rejected: {reason}\n");
    assert!(shown.stdout().contains(&expected), "{shown:?}");
    assert!(!shown.stdout().contains(&format!("{task}  goes on")), "{shown:?}");
}

#[test]
fn an_address_is_known_in_each_of_its_forms_and_a_token_may_be_named() {
    let turns = (0..4).map(|_| Turn::new().text("Hello.")).collect();
    let stage = serving("network: { authentication: { scheme: bearer } }\n", turns);
    let session = Serving::start(&stage, &[]);
    let bare = session.url().strip_prefix("http://").unwrap().to_owned();
    let named = session.url().replace("127.0.0.1", "localhost");
    for address in [bare.as_str(), named.as_str(), &bare.replace("127.0.0.1", "localhost")] {
        let sent = stage.mur.run(&["send", "-q", address, "hi"]);
        assert_eq!((sent.status, sent.stdout()), (Some(0), "Hello.\n"), "{address}: {sent:?}");
    }
    // From another home: with a copy of the token, if it is nobody else's, and not without.
    let other = Mur::new();
    let token = stage.mur.home.read(format!("home/running/{}.door", session.session()));
    let file = other.home.write("token", format!("{token}\n"));
    let file = file.to_str().unwrap();
    let refused = other.run(&["send", session.url(), "hi"]);
    assert!(refused.stderr.starts_with("error[E-NET-003]: ") && refused.stderr.contains("--token-file"), "{refused:?}");
    let mode = |mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    let open = other.run(&["send", session.url(), "--token-file", file, "hi"]);
    assert_eq!(open.status, Some(2));
    assert!(open.stderr.starts_with("error[E-CLI-004]: ") && open.stderr.contains("chmod 600"), "{open:?}");
    mode(0o600);
    let sent = other.run(&["send", "-q", session.url(), "--token-file", file, "hi"]);
    assert_eq!((sent.status, sent.stdout()), (Some(0), "Hello.\n"), "{sent:?}");
    assert_eq!(other.run(&["stop", "--token-file", file, session.url()]).status, Some(0));
    session.end();
}

#[test]
fn words_without_quotes_are_told_how_they_are_meant() {
    let mur = Mur::new();
    let quoted = |args: &[&str], hint: &str| {
        let ran = mur.run(args);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(hint), "{ran:?}");
    };
    quoted(&["send", "say", "hello", "there"], "error[E-CLI-002]: the text is 3 arguments and not one");
    quoted(&["send", "say", "hello", "there"], "`mur send \"say hello there\"`");
    quoted(&["send", "@1", "say", "hello"], "`mur send @1 \"say hello\"`");
    quoted(&["run", "s2", "hi"], "a task is given with `--task`");
    let other = mur.run(&["check", "s2", "hi"]);
    assert!(!other.stderr.contains("--task"), "{other:?}");
}
