//! One conversation that goes from one provider to another and back, in the middle of its work.

use serde_json::{Value, json};
use testkit::{ModelServer, Turn};

use crate::serve::Serving;
use crate::support::{KEY, Stage, Wire, children, of_type, two_choices};

const MORE: &str = "\
capabilities: { tools: [files_inspect] }
control: { settings: [inference.driver] }
lifecycle: { task_acceptance: queue, after_task: sleep, conversation: threaded }
";
const THOUGHTS: [&str; 2] = ["first I look", "now I know"];

/// Every text, call and result of a request, in order, whatever the provider's form.
fn told(body: &Value) -> Vec<String> {
    let mut told = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        match &message["content"] {
            Value::String(text) if role == "tool" => told.push(format!("result of {}", message["tool_call_id"])),
            Value::String(text) if role != "system" => told.push(format!("{role}: {text}")),
            Value::Array(parts) => told.extend(parts.iter().filter_map(|part| match part["type"].as_str().unwrap() {
                "text" => Some(format!("{role}: {}", part["text"].as_str().unwrap())),
                "tool_use" => Some(format!("call {}", part["id"])),
                "tool_result" => Some(format!("result of {}", part["tool_use_id"])),
                _ => None,
            })),
            _ => {}
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            told.push(format!("call {}", call["id"]));
        }
    }
    told
}

/// The signed thinking of a request to anthropic.
fn signed(body: &Value) -> Vec<(String, String)> {
    let parts = body["messages"].as_array().unwrap().iter().filter_map(|message| message["content"].as_array());
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    parts
        .flatten()
        .filter(|part| part["type"] == "thinking")
        .map(|part| (word(&part["thinking"]), word(&part["signature"])))
        .collect()
}

#[test]
fn a_threaded_conversation_loses_nothing_on_its_way_between_two_providers() {
    let look = |id: &str| Turn::new().tool_raw(id, "files_inspect", r#"{"filePath": "a.txt"}"#);
    let twice = look("one").tool_raw("two", "files_inspect", r#"{"filePath": "b.txt"}"#);
    let first = vec![
        Turn::new().thinking(THOUGHTS[0], "sig-1").tool_raw("zero", "files_inspect", r#"{"filePath": "a.txt"}"#),
        Turn::new().text("done by the first"),
        Turn::new().thinking(THOUGHTS[1], "sig-2").text("done by the first again"),
        Turn::new().text("and once more"),
    ];
    let stage = Stage::new(Wire::Anthropic, "files_inspect", first);
    let second = vec![twice, Turn::new().text("done by the second"), Turn::new().text("the second again")];
    let other = ModelServer::turns(second).api_key(KEY).start_on_thread();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(stage.mur.home.workdir().join(name), "words\n").unwrap();
    }
    stage.mur.home.write("agent/murmur.yaml", two_choices(&stage.server.url(), (&other.url(), "MODEL_KEY"), MORE));
    let session = Serving::start(&stage, &[]);
    let ask = |task: &str| {
        let conversations = stage.mur.home.home().join("conversations");
        let begun = conversations.exists().then(|| children(&conversations).remove(0));
        let context = begun.as_ref().map(|dir| dir.file_name().unwrap().to_str().unwrap());
        let mut args = vec!["send", task];
        args.extend(context.iter().flat_map(|context| ["--context", context]));
        let ran = stage.mur.run(&args);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    };
    let switch = |choice: &str| {
        let ran = stage.mur.run(&["control", "set", "inference.driver", choice]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    };
    ask("task one");
    switch("other");
    ask("task two");
    switch("primary");
    ask("task three");
    switch("other");
    ask("task four");
    switch("primary");
    ask("task five");
    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    session.end();
    for server in [&stage.server, &other] {
        assert_eq!(server.violations(), Vec::<String>::new());
    }
    stage.whole();

    let (of_first, of_second) = (stage.server.requests(), other.requests());
    let said = |who: &str, text: &str| format!("{who}: {text}");
    let (call, result) = (|id: &str| format!("call \"{id}\""), |id: &str| format!("result of \"{id}\""));
    let whole = [
        said("user", "task one"),
        call("zero"),
        result("zero"),
        said("assistant", "done by the first"),
        said("user", "task two"),
        call("one"),
        call("two"),
        result("one"),
        result("two"),
        said("assistant", "done by the second"),
        said("user", "task three"),
        said("assistant", "done by the first again"),
        said("user", "task four"),
        said("assistant", "the second again"),
        said("user", "task five"),
    ];
    assert_eq!(told(&of_first.last().unwrap().body), whole);
    assert_eq!(told(&of_second.last().unwrap().body), whole[..13]);
    let signatures =
        [(THOUGHTS[0], "sig-1"), (THOUGHTS[1], "sig-2")].map(|(text, sig)| (text.to_owned(), sig.to_owned()));
    assert_eq!(signed(&of_first.last().unwrap().body), signatures);
    for request in &of_second {
        let text = String::from_utf8_lossy(&request.raw);
        assert!(!text.contains("sig-") && !text.contains(THOUGHTS[0]), "another model gets no signed thinking: {text}");
    }
    let trace = stage.trace();
    let choices: Vec<&Value> = of_type(&trace, "inference").into_iter().map(|line| &line["driver_choice"]).collect();
    assert_eq!(choices, ["primary", "primary", "other", "other", "primary", "other", "primary"]);
    let applied: Vec<&Value> = of_type(&trace, "control_applied").into_iter().map(|line| &line["value"]).collect();
    assert_eq!(json!(applied), json!(["other", "primary", "other", "primary"]));
}
