//! What `trace.capture` keeps, and many runs in one home at once.

use serde_json::{Value, json};
use testkit::Turn;

use crate::support::{KEY, Running, Stage, Wire, children, each_file, of_type};

const WORD: &str = "quokka-in-the-file";

fn stage(capture: &str) -> Stage {
    let turns = vec![
        Turn::new().tool("files_read", json!({"filePath": "quokka.txt"})),
        Turn::new().tool("files_read", json!({"filePath": "../out-of-reach"})),
        Turn::new().text("The quokka-in-the-reply."),
    ];
    let stage = Stage::new(Wire::Anthropic, "", turns);
    stage.declare(&format!("capabilities: {{ tools: [files_read] }}\ntrace: {{ capture: {capture} }}\n"));
    stage.mur.home.write("work/quokka.txt", WORD);
    stage
}

fn call(stage: &Stage) -> Value {
    let trace = stage.trace();
    of_type(&trace, "tool_call")[0].clone()
}

#[test]
fn content_keeps_bodies_as_the_model_saw_them() {
    let stage = stage("content");
    stage.succeed();
    let line = call(&stage);
    assert_eq!(line["input"], json!({"filePath": "quokka.txt"}));
    assert_eq!(line["output"].as_str().unwrap(), stage.results()[0]);
    let trace = stage.trace();
    assert_eq!(of_type(&trace, "task_start")[0]["text"], "do it");
    assert_eq!(of_type(&trace, "task_end")[0]["reply"], "The quokka-in-the-reply.");
    assert!(of_type(&trace, "call_denied")[0]["output"].as_str().unwrap().contains("blocked"));
}

#[test]
fn meta_keeps_hashes_and_sizes() {
    let stage = stage("meta");
    stage.succeed();
    let line = call(&stage);
    let output = &stage.results()[0];
    assert_eq!((&line["input"], &line["output"]), (&Value::Null, &Value::Null));
    assert_eq!(line["output_bytes"], output.len());
    assert_eq!(line["input_bytes"], r#"{"filePath":"quokka.txt"}"#.len());
    assert_eq!(line["output_sha256"].as_str().map(str::len), Some(64), "{line}");
    assert_eq!(line["input_sha256"].as_str().map(str::len), Some(64), "{line}");
    nothing_of_it_in_the_trace(&stage);
}

#[test]
fn none_keeps_neither() {
    let stage = stage("none");
    stage.succeed();
    let line = call(&stage);
    assert!(line["output_bytes"].is_u64(), "{line}");
    nothing_of_it_in_the_trace(&stage);
    for line in stage.trace() {
        assert!(!line.as_object().unwrap().keys().any(|key| key.contains("_sha")), "{line}");
    }
}

/// `capture` governs the trace alone: the conversation has to be whole.
fn nothing_of_it_in_the_trace(stage: &Stage) {
    each_file(&stage.mur.home.home().join("sessions"), &mut |path, bytes| {
        let text = String::from_utf8_lossy(bytes);
        for word in [WORD, "quokka-in-the-reply", "do it"] {
            assert!(!text.contains(word), "{word} in {}", path.display());
        }
    });
    assert!(stage.results()[0].contains(WORD));
}

#[test]
fn eight_runs_in_one_home_all_verify() {
    // Each answer follows from its request's own history, because eight conversations are mixed.
    let server = testkit::ModelServer::answering(|_, request| {
        let answered = request.body["messages"].as_array().map_or(0, Vec::len);
        if answered < 7 {
            Turn::new().tool("shell_exec", json!({"command": "echo a line"}))
        } else {
            Turn::new().text("done")
        }
    });
    let stage = Stage::on(Wire::Anthropic, "shell_exec", server);
    // The key is not there yet: all eight want to make it.
    let running: Vec<Running> = (0..8).map(|_| stage.start()).collect();
    for run in running {
        let ran = run.end();
        assert_eq!((ran.status, ran.stdout()), (Some(0), "done\n"), "{ran:?}");
    }
    assert_eq!(stage.server.violations(), Vec::<String>::new());
    let key = stage.mur.run(&["trace", "key"]);
    let sessions = children(&stage.mur.home.home().join("sessions"));
    assert_eq!(sessions.len(), 8);
    for session in sessions {
        let id = session.file_name().unwrap().to_str().unwrap().to_owned();
        let verified = stage.mur.run(&["trace", "verify", &id, "--public-key", key.stdout().trim()]);
        assert_eq!((verified.status, verified.stderr.as_str()), (Some(0), ""), "{verified:?}");
    }
    assert_eq!(children(&stage.mur.home.home().join("conversations")).len(), 8);
    assert!(!key.stdout().contains(KEY));
}
