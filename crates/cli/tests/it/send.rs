//! `mur send`: a task for a session that runs, and its reply.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Gate, Turn};

use crate::binary::Mur;
use crate::peers::{BreakingWay, Canned, answer, events};
use crate::run_disk::limited;
use crate::run_output::on_a_terminal;
use crate::serve::{SERVES, Serving};
use crate::support::{Stage, Wire, of_type};

fn serving(more: &str, turns: Vec<Turn>) -> Stage {
    let stage = Stage::new(Wire::Anthropic, "", turns);
    stage.declare(more);
    stage
}

fn stop(stage: &Stage, session: Serving) {
    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    session.end();
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn stdout_carries_the_reply_and_stderr_how_it_came() {
    let stage = Stage::new(
        Wire::OpenAi,
        "shell_exec",
        vec![
            Turn::new().text("Let me look.").tool("shell_exec", json!({"command": "echo one; exit 3"})),
            Turn::new().text("It says one."),
            Turn::new().text("Quiet."),
        ],
    );
    stage.declare(&format!("capabilities: {{ tools: [shell_exec] }}\n{SERVES}"));
    let session = Serving::start(&stage, &[]);
    let sent = stage.mur.run(&["send", "do it"]);
    assert_eq!((sent.status, sent.stdout()), (Some(0), "It says one.\n"), "{sent:?}");
    let lines: Vec<&str> = sent.stderr.lines().collect();
    assert!(lines[0].starts_with("task     task_") && lines[1].starts_with("context  ctx_"), "{lines:?}");
    assert_eq!(lines[2..4], ["Let me look.", "shell_exec"]);
    assert!(
        lines[4].starts_with("  ✗ shell_exec: exit code 3; stdout 4 bytes") && lines[4].ends_with(" ms)"),
        "{lines:?}"
    );
    assert_eq!(lines[5..], ["    stdout:", "    one"]);

    let quiet = stage.mur.run(&["send", "--quiet", session.session(), "do it"]);
    assert_eq!((quiet.status, quiet.stdout(), quiet.stderr.as_str()), (Some(0), "Quiet.\n", ""));
    let trace = stage.trace();
    let starts: Vec<_> = of_type(&trace, "task_start").iter().map(|line| (&line["origin"], &line["text"])).collect();
    assert_eq!(starts, [(&json!("user"), &json!("do it")); 2], "the operator's own task");
    stop(&stage, session);
}

#[test]
fn json_is_one_line_at_each_end() {
    let stage = serving(SERVES, vec![Turn::new().text("done"), Turn::status(400, "no such model")]);
    let session = Serving::start(&stage, &[]);
    for (status, state, reply) in [(0, "completed", "done"), (1, "failed", "")] {
        let sent = stage.mur.run(&["send", "--json", "@1", "do it"]);
        assert_eq!(sent.status, Some(status), "{sent:?}");
        let lines = json_lines(sent.stdout());
        let (started, ended) = (&lines[0], &lines[1]);
        let same = json!({"task_id": started["task_id"], "context_id": started["context_id"]});
        let expected = json!({
            "event": "started",
            "session_id": session.session(),
            "url": format!("{}/", session.url()),
            "task_id": same["task_id"],
            "context_id": same["context_id"],
        });
        assert_eq!(started, &expected);
        let expected = json!({
            "event": "ended",
            "session_id": session.session(),
            "task_id": same["task_id"],
            "context_id": same["context_id"],
            "status": state,
            "reply": reply,
            "reason": ended["reason"],
        });
        assert_eq!(ended, &expected);
        assert_eq!(ended["reason"].is_null(), status == 0, "{ended}");
        assert_eq!(lines.len(), 2);
    }
    stop(&stage, session);
}

#[test]
fn how_a_task_ended_decides_the_exit_status() {
    let gate = Gate::new();
    let stage = serving("lifecycle: { after_task: sleep }\n", vec![Turn::status(400, "bad"), Turn::new().gate(&gate)]);
    let session = Serving::start(&stage, &[]);
    let failed = stage.mur.run(&["send", "-q", "do it"]);
    assert_eq!((failed.status, failed.stdout()), (Some(1), ""), "{failed:?}");
    assert!(failed.stderr.starts_with("failed: ") && failed.stderr.contains("bad"), "{failed:?}");

    let mut busy = stage.mur.command(&["send", "wait"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    stage.wait_requests(2);
    let rejected = stage.mur.run(&["send", "-q", "too much"]);
    assert_eq!((rejected.status, rejected.stdout()), (Some(1), ""), "{rejected:?}");
    assert!(rejected.stderr.starts_with("rejected: "), "{rejected:?}");

    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    let mut said = String::new();
    busy.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(busy.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.lines().last().unwrap().starts_with("failed: ") || said.contains("canceled: "), "{said}");
    session.end();
}

#[test]
fn a_text_comes_from_stdin_too_and_an_empty_one_from_nowhere() {
    let stage = serving(SERVES, vec![Turn::new().text("done")]);
    let session = Serving::start(&stage, &[]);
    let sent = stage.mur.run_with(&["send", "-"], "größer\nals 漢字\n".as_bytes());
    assert_eq!((sent.status, sent.stdout()), (Some(0), "done\n"), "{sent:?}");
    assert_eq!(of_type(&stage.trace(), "task_start")[0]["text"], "größer\nals 漢字\n");
    for (args, input) in [(["send", "-"], "\n"), (["send", " "], "")] {
        let ran = stage.mur.run_with(&args, input.as_bytes());
        assert_eq!(ran.status, Some(2));
        assert!(ran.stderr.starts_with("error[E-RUN-001]: ") && ran.stderr.contains("hint: "), "{ran:?}");
    }
    let unquoted = stage.mur.run(&["send", "do", "it"]);
    assert_eq!(unquoted.status, Some(2));
    assert!(unquoted.stderr.contains("a text of several words stands in quotes"), "{unquoted:?}");
    stop(&stage, session);
}

#[test]
fn a_conversation_goes_on_by_its_context() {
    let threaded = "lifecycle: { task_acceptance: queue, after_task: sleep, conversation: threaded }\n";
    let stage = serving(threaded, vec![Turn::new().text("one"), Turn::new().text("two")]);
    let session = Serving::start(&stage, &[]);
    let first = json_lines(stage.mur.run(&["send", "--json", "I am Ann."]).stdout()).remove(0);
    let context = first["context_id"].as_str().unwrap();
    let second = stage.mur.run(&["send", "--context", context, "Who am I?"]);
    assert_eq!((second.status, second.stdout()), (Some(0), "two\n"), "{second:?}");
    let request = stage.server.requests().pop().unwrap().body.to_string();
    assert!(request.contains("I am Ann.") && request.contains("Who am I?"), "{request}");
    let bad = stage.mur.run(&["send", "--context", "a/b", "x"]);
    assert_eq!(bad.status, Some(2));
    stop(&stage, session);
}

/// Gives the agent the tool `ask`, which asks which one.
pub(crate) fn with_a_tool_that_asks(stage: &Stage) {
    let script = "#!/bin/sh\nread -r input\ncase $input in\n*answers*) echo \"got $input\";;\n\
                  *) echo '{\"status\":\"input_required\",\"prompt\":\"Which \\u001b[2Jone?\"}';;\nesac\n";
    let path = stage.mur.home.write("agent/ask/run.sh", script);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let package =
        "name: ask\nversion: 0.1.0\nruntime: tool\nimplementation: native\ndescription: Asks.\ncommand: [./run.sh]\n";
    stage.mur.home.write("agent/ask/murmur.yaml", package);
    let text = stage.mur.home.read("agent/murmur.yaml");
    let entry = "  - { name: ask, runtime: tool, source: ./ask }\ninference:\n";
    stage.mur.home.write("agent/murmur.yaml", text.replace("inference:\n", entry));
}

#[test]
fn a_tools_question_is_answered_by_a_second_send() {
    let stage = serving(SERVES, vec![Turn::new().tool("ask", json!({})), Turn::new().text("Thanks.")]);
    with_a_tool_that_asks(&stage);
    let session = Serving::start(&stage, &[]);

    let asked = stage.mur.run(&["send", "do it"]);
    assert_eq!((asked.status, asked.stdout()), (Some(1), ""), "{asked:?}");
    let task = asked.stderr.lines().next().unwrap().strip_prefix("task     ").unwrap();
    let expected = format!(
        "input-required: Which \\u{{1b}}[2Jone?\n  hint: answer with `mur send {} --task {task} \"…\"`\n",
        session.session()
    );
    assert!(asked.stderr.ends_with(&expected), "{asked:?}");
    let answered = stage.mur.run(&["send", session.session(), "--task", task, "the second"]);
    assert_eq!((answered.status, answered.stdout()), (Some(0), "Thanks.\n"), "{answered:?}");
    assert!(answered.stderr.contains("✓ ask: got {"), "{answered:?}");
    let late = stage.mur.run(&["send", "--task", task, "too late"]);
    assert_eq!(late.status, Some(2));
    assert!(late.stderr.starts_with("error[E-NET-004]: the session says no: the task `"), "{late:?}");
    stop(&stage, session);
}

#[test]
fn an_interrupt_leaves_the_task_to_the_session() {
    let gate = Gate::new();
    let stage = serving(SERVES, vec![Turn::new().text("one").gate(&gate), Turn::new().text("two")]);
    let session = Serving::start(&stage, &[]);
    let mut child =
        stage.mur.command(&["send", "do it"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let task = line.trim_end().strip_prefix("task     ").unwrap().to_owned();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    let name = session.session();
    let hint = format!("the task goes on: `mur watch {name}` shows it, `mur stop {name} --task {task}` cancels it\n");
    assert!(rest.ends_with(&hint), "{rest}");
    gate.open();
    assert_eq!(stage.mur.run(&["send", "next"]).stdout(), "two\n");
    let trace = stage.trace();
    let ends: Vec<_> = of_type(&trace, "task_end").iter().map(|line| &line["reply"]).collect();
    assert_eq!(ends, ["one", "two"]);
    stop(&stage, session);
}

#[test]
fn no_word_is_lost_on_a_way_that_breaks() {
    let gate = Gate::new();
    let reply = "größer als 漢字 ".repeat(60);
    let stage = serving(SERVES, vec![Turn::new().text(reply.trim()).split_every(40).gate(&gate)]);
    let session = Serving::start(&stage, &[]);
    // The first cut leaves the first frame whole; the others fall where they may.
    let way = BreakingWay::to(session.url(), vec![500, 150, 900, 1500]);
    let url = way.url();
    let sending =
        stage.mur.command(&["send", &url, "do it"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    stage.wait_requests(1);
    gate.open();
    let output = sending.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n", reply.trim()));
    assert!(stderr.contains("the connection broke (") && stderr.contains("connected again"), "{stderr}");
    stop(&stage, session);
}

#[test]
fn an_end_that_was_missed_is_asked_for() {
    let first =
        "id: 1\nevent: status\ndata: {\"id\":\"t\",\"context_id\":\"c\",\"status\":{\"state\":\"working\"}}\n\n";
    let gap = "event: connection-ack\ndata: {}\n\nevent: gap\ndata: {\"first_available_id\":9000}\n\n";
    let task = "{\"result\":{\"id\":\"t\",\"status\":{\"state\":\"completed\"},\"artifacts\":[{\"name\":\"reply\",\
                \"parts\":[{\"text\":\"done\"}]}]}}";
    let json = "content-type: application/json\r\n";
    let canned = Canned::start(vec![events(first), events(gap), answer("200 OK", json, task)]);
    let sent = Mur::new().run(&["send", "--quiet", &canned.url(), "do it"]);
    assert_eq!((sent.status, sent.stdout(), sent.stderr.as_str()), (Some(0), "done\n", ""));
    let requests = canned.requests();
    assert!(requests[1].contains("last-event-id: 1\r\n") && requests[1].contains("stream/watch"), "{}", requests[1]);
    assert!(requests[2].ends_with("\"method\":\"tasks/get\",\"params\":{\"id\":\"t\"}}"), "{}", requests[2]);
}

#[test]
fn a_terminal_gets_the_reply_as_it_comes_and_once() {
    let turns = vec![
        Turn::new().text("One \x1b[2Jmoment.").tool("none", json!({})),
        Turn::new().text("Do\x1b]0;x\x07ne.").split_every(3),
    ];
    let stage = serving(SERVES, turns);
    let session = Serving::start(&stage, &[]);
    let (status, seen, stderr) = on_a_terminal(&mut stage.mur.command(&["send", "--quiet", "do it"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert_eq!(seen, "One \\u{1b}[2Jmoment.\r\nDo\\u{1b}]0;x\\u{7}ne.\r\n");
    stop(&stage, session);
}

#[test]
fn frames_may_be_split_anywhere_and_those_of_other_tasks_are_not_ours() {
    let body = "id: 1\nevent: status\ndata: {\"id\":\"t\",\"context_id\":\"c\",\"status\":{\"state\":\"submitted\"}}\n\n\
                id: 2\r\nevent: text\r\ndata: {\"id\":\"u\",\"text\":\"not ours\",\"final\":true}\r\n\r\nid: 3\nevent: \
                status\ndata: {\"id\":\"u\",\"status\":{\"state\":\"completed\",\"response\":\"no\"},\"final\":true}\n\n\
                event: later\ndata: {}\n\nid: 4\nevent: status\ndata: {\"id\":\"t\",\"status\":{\"state\":\"completed\",\
                \"response\":\"größer 漢字 👩‍🔬\\n\"},\"final\":true,\"more\":1}\n\n";
    let pieces = events(body).into_iter().map(|byte| vec![byte]).collect();
    let canned = Canned::in_pieces(vec![pieces]);
    let sent = Mur::new().run(&["send", &canned.url(), "do it"]);
    assert_eq!((sent.status, sent.stdout()), (Some(0), "größer 漢字 👩‍🔬\n"), "{sent:?}");
    assert_eq!(sent.stderr, "task     t\ncontext  c\n");
}

#[test]
fn what_is_no_session_is_told_apart() {
    let json = "content-type: application/json\r\n";
    let error = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":\"no \\u001b[2J\"}}";
    let cases: &[(&str, Vec<u8>, i32, &str, &str)] = &[
        (
            "a refusal",
            answer("401 Unauthorized", json, "{\"error\":{\"message\":\"who?\"}}"),
            2,
            "E-NET-003",
            "(401): who?",
        ),
        ("a redirect", answer("302 Found", "location: http://x/\r\n", ""), 2, "E-NET-002", "redirects (302)"),
        ("a page", answer("200 OK", "content-type: text/html\r\n", "<html>"), 2, "E-NET-002", "no JSON-RPC answer"),
        ("a wrong place", answer("404 Not Found", "", "x"), 2, "E-NET-002", "status 404: Not Found"),
        ("an error", answer("200 OK", json, error), 2, "E-NET-004", "no \\u{1b}[2J (-32602)"),
        ("no stream", answer("200 OK", json, "{\"result\":{}}"), 2, "E-NET-002", "without an event stream"),
        ("a crowd", answer("503 Service Unavailable", "", ""), 2, "E-NET-001", "overloaded"),
        ("nothing", Vec::new(), 2, "E-NET-001", "cannot reach"),
        ("an end", events(""), 1, "E-NET-005", "the stream ended"),
        ("no text", [events("data: "), vec![0xff, b'\n']].concat(), 2, "E-NET-002", "not UTF-8"),
        (
            "too much",
            answer("413 Content Too Large", json, "{\"error\":{\"message\":\"4 MiB\"}}"),
            2,
            "E-NET-004",
            "4 MiB (413)",
        ),
    ];
    let mur = Mur::new();
    for (name, answer, status, code, says) in cases {
        let canned = Canned::start(vec![answer.clone()]);
        let ran = mur.run(&["send", "--json", &canned.url(), "x"]);
        assert_eq!(ran.status, Some(*status), "{name}: {ran:?}");
        let event = ran.json();
        assert_eq!((&event["event"], &event["code"]), (&json!("error"), &json!(code)), "{name}: {event}");
        assert!(event["message"].as_str().unwrap().contains(says), "{name}: {event}");
        let (message, hint) = (event["message"].as_str().unwrap(), event["hint"].as_str().unwrap());
        assert_eq!(ran.stderr, format!("error[{code}]: {message}\n  hint: {hint}\n"), "{name}");
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ran = mur.run(&["send", &format!("http://{nobody}"), "x"]);
    assert!(ran.stderr.contains("E-NET-001") && ran.stderr.contains("refused"), "{ran:?}");
    let ran = mur.run(&["send", "ftp://h/", "x"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.starts_with("error[E-CLI-001]: `ftp://h/` is neither http nor https"), "{ran:?}");
}

/// A task, sent so that its end is waited for; gives the state and the reason that came.
fn waited(session: &Serving, text: &str) -> (String, String) {
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
    let (status, answer) = session.post("a2a-version: 1.0\r\n", &request);
    assert_eq!(status, 200, "{answer}");
    let word = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    match answer.get("error") {
        Some(_) => ("error".to_owned(), word("/error/message")),
        None => (word("/result/task/status/state"), word("/result/task/status/message/parts/0/text")),
    }
}

/// Holds that a session whose record could not be written ended for that reason and left nothing behind.
fn ended_full(stage: &Stage, session: Serving) {
    let (status, last) = session.end();
    assert_eq!((status, &last["event"], &last["status"]), (Some(1), &json!("ended"), &json!("failed")), "{last}");
    assert!(last["reason"].as_str().unwrap().contains("File too large"), "{last}");
    let running = std::fs::read_dir(stage.mur.home.home().join("running")).unwrap().count();
    assert_eq!(running, 0, "neither record nor token is left");
    assert_eq!(stage.mur.run(&["ps", "--json"]).json(), json!([]));
    assert_eq!(stage.mur.run(&["trace", "verify"]).status, Some(0), "what was written is whole");
}

#[test]
fn on_a_full_disk_everybody_who_waits_learns_it_and_the_session_ends() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = testkit::ModelServer::answering(move |turn, _| {
        let turn =
            Turn::new().text(format!("turn {turn} {}", "x".repeat(4000))).tool("files_list", json!({"path": "."}));
        turn.gate(&held)
    });
    let stage = Stage::on(Wire::Anthropic, "files_list", server);
    stage.declare(&format!("capabilities: {{ tools: [files_list] }}\n{SERVES}"));
    let session = Serving::of(&mut limited(&stage.command(&["--json"])));
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| waited(&session, "go on"))).collect();
        stage.wait_requests(1);
        while stage.trace().iter().filter(|line| line["event_type"] == "task_received").count() < 3 {
            std::thread::yield_now();
        }
        gate.open();
        let mut ends: Vec<_> = waiting.into_iter().map(|client| client.join().unwrap()).collect();
        ends.sort();
        let states: Vec<&str> = ends.iter().map(|(state, _)| state.as_str()).collect();
        assert_eq!(states, ["TASK_STATE_FAILED", "TASK_STATE_REJECTED", "TASK_STATE_REJECTED"], "{ends:?}");
        assert!(ends[0].1.contains("cannot write `"), "{ends:?}");
    });
    ended_full(&stage, session);
}

#[test]
fn a_task_that_cannot_be_recorded_as_it_comes_is_refused_and_ends_the_session() {
    let gate = Gate::new();
    let stage = serving(
        "lifecycle: { task_acceptance: single, after_task: sleep }\n",
        vec![Turn::new().text("never").gate(&gate)],
    );
    let session = Serving::of(&mut limited(&stage.command(&["--json"])));
    let (first, others) = std::thread::scope(|scope| {
        let first = scope.spawn(|| waited(&session, "wait"));
        stage.wait_requests(1);
        // Each that is rejected as busy leaves two lines, until there is room for none.
        let mut others = Vec::new();
        while others.last().is_none_or(|(state, _)| state == "TASK_STATE_REJECTED") && others.len() < 1000 {
            others.push(waited(&session, "me too"));
        }
        (first.join().unwrap(), others)
    });
    assert!(others.len() > 10);
    let (state, why) = others.last().unwrap();
    assert!(state == "error" && why.contains("cannot be put on record"), "{state}: {why}");
    assert!(matches!(first.0.as_str(), "TASK_STATE_CANCELED" | "TASK_STATE_FAILED"), "{first:?}");
    ended_full(&stage, session);
    gate.open();
}
