//! `mur watch`: every frame once, whatever happens to the connection, and for people in readable form.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Gate, Turn};

use crate::binary::{Mur, Ran};
use crate::peers::{BreakingWay, Canned, answer, events};
use crate::run_output::on_a_terminal;
use crate::serve::{SERVES, Serving};
use crate::support::{Stage, Wire};

fn serving(tools: &str, turns: Vec<Turn>) -> Stage {
    let stage = Stage::new(Wire::Anthropic, tools, turns);
    stage.declare(&format!("capabilities: {{ tools: [{tools}] }}\n{SERVES}"));
    stage
}

/// A watch under way, line by line.
struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
    seen: Vec<String>,
}

impl Watching {
    fn start(mur: &Mur, args: &[&str]) -> Self {
        let all: Vec<&str> = ["watch"].iter().chain(args).copied().collect();
        let mut child = mur.command(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines, seen: Vec::new() }
    }

    /// Reads on until a line has this in it.
    fn until(&mut self, text: &str) {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "`{text}` never came: {:?}", self.seen);
            let found = line.contains(text);
            self.seen.push(line.trim_end_matches('\n').to_owned());
            if found {
                return;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// All lines, the exit status and stderr.
    fn end(mut self) -> (Vec<String>, Option<i32>, String) {
        self.seen.extend(self.lines.lines().map(Result::unwrap));
        let output = self.child.wait_with_output().unwrap();
        (self.seen, output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

fn frames(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_task_is_shown_as_it_goes() {
    let gate = Gate::new();
    let stage = serving(
        "shell_exec",
        vec![
            Turn::new().text("Let me look.").tool("shell_exec", json!({"command": "echo one; echo two"})).gate(&gate),
            Turn::new().text("It says \x1b[2Jone."),
        ],
    );
    let session = Serving::start(&stage, &["--task", "do it"]);
    stage.wait_requests(1);
    let mut watching = Watching::start(&stage.mur, &["--replay"]);
    watching.until("working");
    gate.open();
    watching.until("completed");
    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    let (lines, status, stderr) = watching.end();
    assert_eq!((status, stderr), (Some(0), format!("watching {}: agent 0.1.0\n", session.session())));
    let task = lines[0].strip_suffix(" submitted").unwrap().to_owned();
    let took = lines.iter().find_map(|line| line.split(" (").nth(1)?.strip_suffix(" ms)")).unwrap().to_owned();
    assert!(took.parse::<u64>().is_ok(), "{lines:?}");
    let expected = [
        &format!("{task} submitted"),
        &format!("{task} working"),
        "Let me look.",
        "shell_exec",
        &format!("  ✓ shell_exec: exit code 0; stdout 8 bytes, stderr 0 bytes ({took} ms)"),
        "    stdout:",
        "    one",
        "    two",
        "It says \\u{1b}[2Jone.",
        &format!("{task} completed"),
        "the session has ended",
    ];
    assert_eq!(lines, expected);
    session.end();
}

#[test]
fn every_frame_comes_once_over_a_way_that_breaks() {
    const TASKS: usize = 4;
    let stage = serving("", (0..TASKS).map(|number| Turn::new().text(format!("größer {number} 漢字"))).collect());
    let session = Serving::start(&stage, &[]);
    for _ in 0..TASKS {
        assert_eq!(stage.mur.run(&["send", "go"]).status, Some(0));
    }
    // Cut in heads, in acknowledgements, in frames and in characters.
    let way = BreakingWay::to(session.url(), vec![200, 30, 331, 500, 777, 1001, 250, 613, 1500]);
    let mut watching = Watching::start(&stage.mur, &["--json", "--replay", &way.url()]);
    for _ in 0..TASKS {
        watching.until("\"completed\"");
    }
    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    let (lines, status, stderr) = watching.end();
    assert_eq!(status, Some(0), "{stderr}");
    let frames = frames(&lines);
    let numbered: Vec<u64> = frames.iter().filter_map(|frame| frame["id"].as_u64()).collect();
    assert_eq!(numbered, (1..=numbered.len() as u64).collect::<Vec<_>>());
    let replies: Vec<_> = frames.iter().filter_map(|frame| frame["data"]["status"]["response"].as_str()).collect();
    assert_eq!(replies, (0..TASKS).map(|number| format!("größer {number} 漢字")).collect::<Vec<_>>());
    let last = frames.last().unwrap();
    assert_eq!((&last["event"], &last["data"]), (&json!("capsule-closed"), &json!({})));
    let others: Vec<_> = frames.iter().filter(|frame| frame["id"].is_null()).map(|frame| &frame["event"]).collect();
    assert!(others.len() > 3 && others.iter().all(|event| *event == "connection-ack"), "{others:?}");
    assert!(stderr.contains("the connection broke (") && stderr.contains("connected again\n"), "{stderr}");
    session.end();
}

#[test]
fn a_session_that_is_killed_ends_the_watch_with_an_error() {
    let stage = serving("", vec![Turn::new().text("done")]);
    let session = Serving::start(&stage, &["--task", "do it"]);
    let mut watching = Watching::start(&stage.mur, &["--json", "--replay", session.session()]);
    watching.until("\"completed\"");
    session.signal(Signal::KILL);
    let name = session.session().to_owned();
    session.end();
    let (_, status, stderr) = watching.end();
    assert_eq!(status, Some(1), "{stderr}");
    let expected = format!(
        "error[E-NET-005]: the session `{name}` is gone, and did not say how it ended\n  hint: `mur trace show {name}` \
         tells what is on record\n"
    );
    assert!(stderr.ends_with(&expected), "{stderr}");
}

#[test]
fn an_interrupt_and_a_closed_stdout_end_it_quietly() {
    let stage = serving("", vec![Turn::new().text("one"), Turn::new().text("two")]);
    let session = Serving::start(&stage, &["--task", "do it"]);
    let mut watching = Watching::start(&stage.mur, &["--json", "--replay"]);
    watching.until("\"completed\"");
    watching.signal(Signal::INT);
    let (_, status, stderr) = watching.end();
    assert_eq!((status, stderr.as_str()), (Some(130), ""));

    let mut watching = Watching::start(&stage.mur, &["--json", "--replay"]);
    watching.until("\"completed\"");
    let Watching { child, lines, .. } = watching;
    drop(lines);
    assert_eq!(stage.mur.run(&["send", "again"]).stdout(), "two\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    session.end();
}

#[test]
fn what_is_lost_is_told_and_what_is_unknown_is_passed_over() {
    let body = ":heartbeat\n\nevent: connection-ack\ndata: {\"role\":\"observer\",\"more\":1}\n\nevent: \
                gap\ndata: {\"first_available_id\":7}\n\nid: 7\nevent: text\ndata: \
                {\"id\":\"t\",\"text\":\"a\\u001b[2J\",\"final\":true}\n\nid: 8\nevent: of-tomorrow\ndata: [1]\n\nevent: \
                lagged\ndata: {\"skipped\":5}\n\nid: 14\nevent: status\ndata: not JSON\n\nevent: error\ndata: \
                {\"error\":\"no\"}\n\nid: 15\nevent: capsule-closed\ndata: {}\n\n";
    let mur = Mur::new();
    let canned = Canned::start(vec![events(body), events(body)]);
    let shown = Ran::of(&mut mur.command(&["watch", &canned.url()]));
    assert_eq!(
        (shown.status, shown.stdout()),
        (
            Some(0),
            "note: frames before number 7 are not kept any more\na\\u{1b}[2J\nnote: 5 frames came faster than they were \
             read, and are left out\nnote: the session reports an error: no\nthe session has ended\n"
        ),
        "{shown:?}"
    );
    let json = mur.run(&["watch", "--json", &canned.url()]);
    let told: Vec<_> = json.stdout().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    assert_eq!(told[3], json!({"id": 8, "event": "of-tomorrow", "data": [1]}));
    assert_eq!(told[5], json!({"id": 14, "event": "status", "data": "not JSON"}));
    assert_eq!(told.len(), 8);
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let body = "id: 1\nevent: status\ndata: {\"id\":\"t\",\"status\":{\"state\":\"failed\"},\"final\":true}\n\nid: \
                2\nevent: capsule-closed\ndata: {}\n\n";
    let canned = Canned::start(vec![events(body), events(body), events(body)]);
    let mur = Mur::new();
    let plain = "t failed\nthe session has ended\n";
    assert_eq!(mur.run(&["watch", &canned.url()]).stdout(), plain);
    let on = |no_color: &str| {
        let mut command = mur.command(&["watch", &canned.url()]);
        on_a_terminal(command.env("TERM", "xterm").env("NO_COLOR", no_color)).1.replace("\r\n", "\n")
    };
    let coloured = on("");
    assert!(coloured.contains("\x1b[31mfailed\x1b[0m"), "{coloured:?}");
    assert_eq!(on("1"), plain);
}

#[test]
fn a_token_goes_to_its_session_alone() {
    let stage = serving("", Vec::new());
    let session = Serving::start(&stage, &[]);
    let token =
        std::fs::read_to_string(stage.mur.home.home().join(format!("running/{}.door", session.session()))).unwrap();
    let other = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", session.url());
    let canned = Canned::start(vec![other.into_bytes(), answer("404 Not Found", "", "")]);
    for args in [["watch", &canned.url()], ["stop", &canned.url()]] {
        let ran = stage.mur.run(&args);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.starts_with("error[E-NET-002]: "), "{ran:?}");
    }
    let requests = canned.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(!request.to_lowercase().contains("authorization") && !request.contains(&token), "{request}");
    }
    // The same words at the right address are let in, also with a slash at the end.
    assert_eq!(stage.mur.run(&["stop", &format!("{}/", session.url())]).status, Some(0));
    session.end();
}

/// What moves the cursor, erases, colours, renames the window or turns the writing around.
const HOSTILE: &str = "a\rb\u{8}\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}2J\u{85}\u{7f}\u{202e}\u{2066}; touch x";

/// Whether a terminal shows all of it and obeys nothing but our styles.
fn is_shown(text: &str) -> bool {
    let text = text.replace("\r\n", "\n");
    let mut pieces = text.split('\u{1b}');
    let first = pieces.next().unwrap_or_default();
    let rest = pieces.map(|piece| {
        let (style, rest) = piece.split_once('m').unwrap_or((piece, ""));
        if style.chars().all(|char| char.is_ascii_digit() || "[;".contains(char)) { rest } else { "\u{1b}" }
    });
    let harmless = |char: char| {
        let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        !turns && (!char.is_control() || char == '\n' || char == '\t')
    };
    std::iter::once(first).chain(rest).all(|piece| piece.chars().all(harmless))
}

#[test]
fn nothing_that_a_server_says_steers_the_terminal() {
    let frames = [
        ("status", json!({"id": HOSTILE, "context_id": HOSTILE, "status": {"state": "working", "message": HOSTILE}})),
        ("text", json!({"id": HOSTILE, "text": HOSTILE, "final": false})),
        ("thinking", json!({"id": HOSTILE, "text": HOSTILE, "final": true})),
        ("tool-call-started", json!({"id": HOSTILE, "tool_name": HOSTILE})),
        ("artifact", json!({"id": HOSTILE, "artifact": {"tool_name": HOSTILE, "content": HOSTILE, "exit_code": 1}})),
        (HOSTILE.split('\r').next_back().unwrap(), json!({HOSTILE: HOSTILE})),
        ("error", json!({"error": HOSTILE})),
        ("status", json!({"id": HOSTILE, "status": {"state": "input-required", "message": HOSTILE}})),
        ("status", json!({"id": HOSTILE, "status": {"state": "completed", "response": HOSTILE}, "final": true})),
        ("capsule-closed", json!({})),
    ];
    let body: String = frames
        .iter()
        .enumerate()
        .map(|(at, (event, data))| format!("id: {}\nevent: {event}\ndata: {data}\n\n", at + 1))
        .collect();
    let refused = json!({"error": {"code": -32001, "message": HOSTILE}}).to_string();
    let mur = Mur::new();
    for args in [&["watch"][..], &["watch", "--json"], &["send"], &["send", "--json"], &["stop"]] {
        for answered in [events(&body), answer("400 Bad Request", "content-type: application/json\r\n", &refused)] {
            let canned = Canned::start(vec![answered.clone(), answered]);
            let url = canned.url();
            let more = if args[0] == "send" { vec![url.as_str(), "hello"] } else { vec![url.as_str()] };
            let all: Vec<&str> = args.iter().copied().chain(more).collect();
            let piped = mur.run(&all);
            let (status, seen, stderr) = on_a_terminal(mur.command(&all).env("TERM", "xterm"));
            assert_eq!(status, piped.status, "{all:?}: {stderr}");
            assert!(is_shown(&seen) && is_shown(&stderr), "{all:?}: {seen:?} {stderr:?}");
            if !args.contains(&"--json") {
                assert!(is_shown(piped.stdout()) || args[0] == "send", "{all:?}: {:?}", piped.stdout());
                assert!(!seen.contains("--task a") && !stderr.contains("--task a"), "{seen:?} {stderr:?}");
                continue;
            }
            let read =
                |text: &str| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
            assert_eq!(read(&seen), read(piped.stdout()), "{all:?}");
            if status == Some(0) {
                assert!(piped.stdout().contains("\u{9b}2J\u{85}\u{7f}\u{202e}"), "a program gets every byte");
            }
        }
    }
}
