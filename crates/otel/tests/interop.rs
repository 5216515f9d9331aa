//! The exporter against receivers that others wrote.
//!
//! `MUR_INTEROP_OTELTAP` is the program of the PyPI package `oteltap`, which prints what it receives and
//! ends at the span that it waits for; `MUR_INTEROP_ROTEL` is the collector `rotel-agent` of the PyPI
//! package `rotel`, which prints what it received in its own words. Without the variables the tests fail:
//! this target is only built with the feature `interop`, by whoever installed them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

#[path = "it/play.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod play;

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use otel::Exporter;
use play::{BODY, Play, SECRET};
use serde_json::Value;
use vocab::{EndStatus, StopReason};

/// A receiver that is stopped when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a receiver at a free port and waits until it listens there.
fn start(variable: &str, arguments: impl FnOnce(u16) -> Vec<String>) -> (Running, BufReader<ChildStdout>, String) {
    let program = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} names an installed receiver"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(program);
    command.args(arguments(port)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut running = Running(command.spawn().unwrap());
    let output = BufReader::new(running.0.stdout.take().unwrap());
    let give_up = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(running.0.try_wait().unwrap().is_none() && Instant::now() < give_up, "the receiver does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    (running, output, format!("http://127.0.0.1:{port}"))
}

/// A session with everything that a span may hold; seven spans.
fn export(endpoint: &str) -> Exporter {
    let (play, exporter) = Play::start(endpoint);
    let task = play.task(None);
    play.failed(&task, 0, 1, Some(1), play.span_of(&task, 1));
    play.answered(&task, 0, StopReason::ToolUse, play.span_of(&task, 1));
    play.tool(&task, 0, "shell", Some(2));
    play.denied(&task, 0);
    play.answered(&task, 1, StopReason::EndTurn, play.span_of(&task, 1));
    play.task_ended(&task, EndStatus::Failed, Some("it did not work"));
    play.ended(EndStatus::Failed);
    exporter
}

/// Each span with the one above it, in the order in which they end.
const TREE: [(&str, &str); 7] = [
    ("chat model-1", "turn"),
    ("execute_tool shell", "turn"),
    ("turn", "invoke_agent demo"),
    ("chat model-1", "turn"),
    ("turn", "invoke_agent demo"),
    ("invoke_agent demo", "session demo"),
    ("session demo", ""),
];

/// Each span of `(name, id, parent's id)` with the name of the one above it.
fn tree(spans: &[(String, String, String)]) -> Vec<(&str, &str)> {
    let name_of = |id: &str| {
        let above = spans.iter().find(|(_, other, _)| other == id);
        above.map_or("", |(name, _, _)| name.as_str())
    };
    spans.iter().map(|(name, _, parent)| (name.as_str(), name_of(parent))).collect()
}

/// Nothing that must stay at home stands in what a receiver printed, and the attributes do.
fn assert_told(text: &str) {
    assert!(!text.contains(SECRET) && !text.contains(BODY));
    for told in ["gen_ai.usage.input_tokens", "murmur.task.trust", "murmur.call_denied", "it did not work"] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn oteltap_sees_the_tree() {
    let arguments = |port: u16| vec!["--port".to_owned(), port.to_string(), "--await-span".into(), "^session ".into()];
    let (mut running, output, endpoint) = start("MUR_INTEROP_OTELTAP", arguments);
    let report = export(&endpoint).finish();
    assert_eq!((report.sent, report.dropped), (7, 0), "{report:?}");
    let lines: Vec<String> = output.lines().map(Result::unwrap).collect();
    assert!(running.0.wait().unwrap().success(), "it saw the span that it waited for");
    let spans: Vec<Value> =
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect();
    let field = |span: &Value, key: &str| span[key].as_str().unwrap().to_owned();
    let spans: Vec<_> = spans
        .iter()
        .filter(|span| span["traceId"].is_string())
        .map(|span| (field(span, "name"), field(span, "spanId"), field(span, "parentSpanId")))
        .collect();
    assert_eq!(tree(&spans), TREE);
    assert_told(&lines.concat());
}

#[test]
fn rotel_sees_the_tree() {
    let arguments = |port: u16| {
        let words = ["start", "--exporter", "blackhole", "--debug-log", "traces", "--debug-log-verbosity", "detailed"];
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        words.extend(["--otlp-grpc-endpoint".to_owned(), "127.0.0.1:0".to_owned()]);
        words.extend(["--otlp-http-endpoint".to_owned(), format!("127.0.0.1:{port}")]);
        words
    };
    let (_running, output, endpoint) = start("MUR_INTEROP_ROTEL", arguments);
    let report = export(&endpoint).finish();
    assert_eq!((report.sent, report.dropped), (7, 0), "{report:?}");
    let (mut text, mut spans, mut ids) = (String::new(), Vec::new(), (String::new(), String::new()));
    for line in output.lines().map(Result::unwrap) {
        text.push_str(&line);
        match line.trim().split_once(':').map(|(key, value)| (key.trim(), value.trim().to_owned())) {
            Some(("Parent ID", id)) => ids.1 = id,
            Some(("ID", id)) => ids.0 = id,
            Some(("Name", name)) => spans.push((name, std::mem::take(&mut ids.0), std::mem::take(&mut ids.1))),
            // The last attribute of the last span: it prints nothing more, and does not end by itself.
            _ if spans.len() == TREE.len() && line.contains("error.type") => break,
            _ => {}
        }
    }
    assert_eq!(tree(&spans), TREE);
    assert_told(&text);
}
