//! A model for agents of every depth: the text of a task is its script.
//!
//! A script is a JSON list of turns, each a list of calls `[tool, input]`, or a text that the turn says. A task of a
//! subagent is such a script within a script. When it has ended, the agent says `done`. `$HANDLE` in a call becomes the
//! handle that the conversation has seen last.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{ModelServer, Tokens, Turn};

use crate::binary::Ran;
use crate::support::{Running, Stage, Wire, children};

/// What each answer costs.
pub(super) const COST: Tokens = Tokens { input: 100, output: 10, cached: 0, cache_write: 0, thinking: 0 };

/// A turn of one call.
pub(super) fn call(tool: &str, input: Value) -> Value {
    json!([[tool, input]])
}

pub(super) fn shell(command: &str) -> Value {
    call("shell_exec", json!({"command": command}))
}

pub(super) fn read(file: &str) -> Value {
    call("files_read", json!({"filePath": file}))
}

pub(super) fn write(file: &str) -> Value {
    call("files_write", json!({"filePath": file, "content": "new"}))
}

pub(super) fn finish(summary: &str) -> Value {
    call("finish_subagent", json!({"status": "succeeded", "summary": summary}))
}

/// The call that hands a script to a subagent.
pub(super) fn spawn(root: &str, label: &str, script: &[Value]) -> Value {
    let task = Value::from(script).to_string();
    json!(["spawn_subagent", {"task": task, "target": {"kind": "filesystem", "root": root}, "label": label}])
}

/// A turn that hands out one.
pub(super) fn delegate(root: &str, label: &str, script: &[Value]) -> Value {
    json!([spawn(root, label, script)])
}

/// A script for the top that has another played so many levels below, by agents `level1`, `level2`, … in `root`.
pub(super) fn nested(depth: usize, root: &str, script: &[Value]) -> Vec<Value> {
    (1..=depth).rev().fold(script.to_vec(), |inner, level| {
        let outer = delegate(root, &format!("level{level}"), &inner);
        if level == 1 { vec![outer] } else { vec![outer, finish("handed down")] }
    })
}

/// A stage whose agents all play their tasks.
pub(super) fn stage(more: &str) -> Stage {
    let stage = Stage::on(Wire::OpenAi, "", ModelServer::answering(|_, request| turn(&request.body)));
    stage.declare(more);
    stage
}

pub(super) fn turn(body: &Value) -> Turn {
    let messages = body["messages"].as_array().expect("a conversation");
    let role = |message: &&Value, role: &str| message["role"] == role;
    let task = messages.iter().find(|message| role(message, "user")).map(content).expect("a task");
    let begin = task.find('[').expect("a script");
    let script: Vec<Value> = serde_json::Deserializer::from_str(&task[begin..])
        .into_iter()
        .next()
        .expect("a script")
        .expect("a script is JSON");
    let played = messages.iter().filter(|message| role(message, "assistant")).count();
    let handle = body.to_string().rfind("protected://").map(|at| body.to_string()[at..at + 36].to_owned());
    let turn = Turn::new().tokens(COST);
    match script.get(played) {
        None => turn.text("done"),
        Some(Value::String(text)) => turn.text(text),
        Some(calls) => calls.as_array().expect("calls").iter().fold(turn, |turn, call| {
            let input = call[1].to_string().replace("$HANDLE", handle.as_deref().unwrap_or("$HANDLE"));
            turn.tool(call[0].as_str().expect("a tool"), serde_json::from_str(&input).expect("an input"))
        }),
    }
}

fn content(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        parts => parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect(),
    }
}

/// The traces of a home by their depth and label, the session at the top as depth 0.
pub(super) fn traces(stage: &Stage) -> BTreeMap<(u64, String), Vec<Value>> {
    let mut found = BTreeMap::new();
    let mut labels = BTreeMap::new();
    for trace in all(stage) {
        for start in crate::support::of_type(&trace, "subagent_start") {
            labels.insert(
                start["subagent"].as_str().unwrap().to_owned(),
                start["label"].as_str().unwrap_or("").to_owned(),
            );
        }
    }
    for trace in all(stage) {
        let depth = trace[0]["parent"]["depth"].as_u64().unwrap_or(0);
        let label = labels.get(trace[0]["session_id"].as_str().unwrap()).cloned().unwrap_or_default();
        assert_eq!(found.insert((depth, label), trace), None, "labels tell subagents apart");
    }
    found
}

fn all(stage: &Stage) -> Vec<Vec<Value>> {
    let read = |dir: PathBuf| {
        let text = std::fs::read_to_string(dir.join("trace.jsonl")).expect("each session has a trace");
        text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
    };
    children(&stage.mur.home.home().join("sessions")).into_iter().map(read).collect()
}

/// Runs a script as the task of the top.
pub(super) fn run(stage: &Stage, script: &[Value]) -> Ran {
    Ran::of(&mut command(stage, script))
}

pub(super) fn start(stage: &Stage, script: &[Value]) -> Running {
    Running::of(&mut command(stage, script))
}

/// A script as the text of a task.
pub(super) fn told(script: &[Value]) -> String {
    format!("Play this: {}", Value::from(script))
}

fn command(stage: &Stage, script: &[Value]) -> Command {
    stage.command(&["--task", &told(script)])
}

/// Holds that every session's record is whole, and that no request broke a rule.
pub(super) fn whole(stage: &Stage) {
    assert_eq!(stage.server.violations(), Vec::<String>::new());
    for dir in children(&stage.mur.home.home().join("sessions")) {
        let session = dir.file_name().unwrap().to_str().unwrap();
        let verified = stage.mur.run(&["trace", "verify", session]);
        assert_eq!((verified.status, verified.stderr.as_str()), (Some(0), ""), "{verified:?}");
    }
}
