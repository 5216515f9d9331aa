//! A conversation in each provider's form: grouping, breakpoints, ids, what crosses providers.

use drivers::build;
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{ModelServer, Turn};
use vocab::{Driver, Message, Part, Thinking, ToolCall, Wire};

use crate::support::{PARAMS, WIRES, asked, call, config, driver, failure, model_text, result, tools, user};

fn offline(name: &str) -> Box<dyn Driver> {
    build(name, config("http://127.0.0.1:9")).unwrap()
}

fn body(wire: &dyn Wire) -> Value {
    serde_json::from_slice(&wire.body(PARAMS, Vec::new())).unwrap()
}

fn calls(ids: &[&str]) -> Message {
    Message::assistant(
        ids.iter().map(|id| Part::ToolCall(ToolCall::new(*id, "files_read", r#"{"path":"a"}"#))).collect(),
    )
}

/// Paths of everything that carries `cache_control`.
fn breakpoints(body: &Value) -> Vec<String> {
    fn walk(value: &Value, at: String, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if map.contains_key("cache_control") {
                    found.push(at.clone());
                }
                map.iter().for_each(|(key, value)| walk(value, format!("{at}/{key}"), found));
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, value)| walk(value, format!("{at}/{i}"), found))
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(body, String::new(), &mut found);
    found
}

#[test]
fn anthropic_groups_results_and_moves_its_breakpoints() {
    let driver = offline("anthropic");
    let mut wire = asked(driver.as_ref());
    assert_eq!(breakpoints(&body(wire.as_ref())), ["/tools/1", "/system/0", "/messages/0/content/0"]);

    wire.push(&calls(&["a", "b"]));
    wire.push(&result("a", "hello"));
    wire.push(&failure("b"));
    let second = body(wire.as_ref());
    assert_eq!(breakpoints(&second), ["/tools/1", "/system/0", "/messages/0/content/0", "/messages/2/content/1"]);
    assert_eq!(
        second["messages"],
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "What is in a.txt?", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "files_read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "b", "name": "files_read", "input": {"path": "a"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a",
                 "content": "<untrusted-content source=tool:files_read>\nhello\n</untrusted-content>"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no such file", "is_error": true,
                 "cache_control": {"type": "ephemeral"}}]},
        ])
    );

    wire.push(&calls(&["c"]));
    wire.push(&result("c", "x"));
    assert_eq!(
        breakpoints(&body(wire.as_ref())),
        ["/tools/1", "/system/0", "/messages/2/content/1", "/messages/4/content/0"]
    );
}

#[test]
fn openai_answers_each_call_and_sends_images_after_the_last() {
    let driver = offline("openai");
    let mut wire = asked(driver.as_ref());
    wire.push(&calls(&["a", "b"]));
    let image = Part::Image { media_type: "image/png".to_owned(), data: "iVBORw0K".to_owned() };
    wire.push(&Message::tool_result("a", false, vec![image]));
    wire.push(&failure("b"));
    let tail = json!([
        {"role": "tool", "tool_call_id": "a", "content": ""},
        {"role": "tool", "tool_call_id": "b", "content": "no such file"},
        {"role": "user", "content": [
            {"type": "text", "text": "Returned by the tool call a:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}}]},
    ]);
    let before = body(wire.as_ref());
    assert_eq!(before["messages"].as_array().unwrap()[3..], tail.as_array().unwrap()[..]);
    wire.push(&Message::assistant(vec![model_text("A picture.")]));
    let after = body(wire.as_ref());
    assert_eq!(after["messages"].as_array().unwrap()[..6], before["messages"].as_array().unwrap()[..]);
    assert_eq!(after["messages"][6], json!({"role": "assistant", "content": "A picture."}));
    assert_eq!(after["stream_options"], json!({"include_usage": true}));
}

#[test]
fn an_empty_conversation_is_empty_and_grows() {
    for name in WIRES {
        let driver = offline(name);
        let mut wire = driver.open("", &[]);
        assert!(wire.is_empty());
        let before = wire.len();
        wire.push(&user("Hi."));
        assert!(!wire.is_empty() && wire.len() > before);
        let body = body(wire.as_ref());
        assert!(body.get("tools").is_none() && body.get("system").is_none());
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn the_serialized_history_is_only_ever_appended_to() {
    for name in WIRES {
        let driver = offline(name);
        let mut wire = asked(driver.as_ref());
        wire.push(&calls(&["a"]));
        wire.push(&result("a", "one"));
        let before = String::from_utf8(wire.body(PARAMS, Vec::new()))
            .unwrap()
            .replace(r#","cache_control":{"type":"ephemeral"}"#, "");
        wire.push(&calls(&["b"]));
        wire.push(&result("b", "two"));
        let after = String::from_utf8(wire.body(PARAMS, Vec::new()))
            .unwrap()
            .replace(r#","cache_control":{"type":"ephemeral"}"#, "");
        let kept = before.split("],\"max_tokens\"").next().unwrap().trim_end_matches("]}");
        assert!(after.starts_with(kept), "{name}: a provider's cache only serves an unchanged prefix");
    }
}

fn thought(author: &str) -> Part {
    Part::Thinking(Thinking {
        text: "Hm.".to_owned(),
        signature: Some("c2ln".to_owned()),
        redacted: None,
        author: author.to_owned(),
    })
}

#[tokio::test]
async fn a_conversation_crosses_providers_and_comes_back() {
    let server = ModelServer::start(vec![
        Turn::new().thinking("Mine.", "c2ln").text("Look.").tool("files_read", json!({"path": "a"})),
        Turn::new().thinking("Other's.", "").tool_raw("functions.files_read:0", "files_read", r#"{"path":"b"}"#),
        Turn::new().text("Done."),
    ])
    .await;
    let anthropic = driver("anthropic", &server);
    let openai = driver("openai", &server);
    let mut history = vec![user("Read both.")];
    for driver in [&anthropic, &openai, &anthropic] {
        let mut wire = driver.open("You are terse.", &tools());
        history.iter().for_each(|message| wire.push(message));
        let reply = call(driver.as_ref(), wire.as_ref()).await.0.unwrap();
        let message = Message::assistant(reply.content);
        let results: Vec<Message> = message.tool_calls().map(|call| result(&call.id, "text")).collect();
        history.push(message);
        history.extend(results);
    }
    assert_eq!(server.violations(), Vec::<String>::new());
    let last = &server.requests()[2].body["messages"];
    assert_eq!(
        last[1]["content"][0],
        json!({"type": "thinking", "thinking": "Mine.", "signature": "c2ln"}),
        "its own reasoning comes back"
    );
    assert_eq!(
        last[3]["content"],
        json!([{"type": "tool_use", "id": "functions_files_read_0", "name": "files_read", "input": {"path": "b"}}]),
        "another model's reasoning does not, and its id fits this wire"
    );
    assert_eq!(
        server.requests()[1].body["messages"][2].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["role", "content", "tool_calls"]
    );
}

#[test]
fn reasoning_goes_back_to_its_author_alone() {
    let driver = offline("anthropic");
    for (author, kept) in [("anthropic/test-model", 2), ("anthropic/other-model", 1), ("openai/test-model", 1)] {
        let mut wire = asked(driver.as_ref());
        wire.push(&Message::assistant(vec![thought(author), model_text("So.")]));
        assert_eq!(body(wire.as_ref())["messages"][1]["content"].as_array().map(Vec::len), Some(kept), "{author}");
    }
}

#[tokio::test]
async fn odd_histories_are_sent_in_a_form_that_the_wire_takes() {
    let malformed = Part::ToolCall(ToolCall::new("weird id/é", "no such tool!", "{\"a\": "));
    let history = [
        user("  "),
        Message::assistant(vec![model_text("")]),
        user("Again."),
        Message::assistant(vec![model_text(" "), malformed]),
        Message::tool_result("weird id/é", true, Vec::new()),
        calls(&["0"]),
        result("0", ""),
        calls(&["0"]),
        result("0", "the same id once more"),
    ];
    for name in WIRES {
        let server = ModelServer::start(vec![Turn::new().text("Fine.")]).await;
        let driver = driver(name, &server);
        let mut wire = driver.open("", &tools());
        history.iter().for_each(|message| wire.push(message));
        let (outcome, _) = call(driver.as_ref(), wire.as_ref()).await;
        assert_eq!(server.violations(), Vec::<String>::new(), "{name}");
        assert_eq!(outcome.unwrap().content, [model_text("Fine.")]);
    }
}

fn message_texts() -> impl Strategy<Value = Vec<(String, Vec<String>)>> {
    // Per turn: what the model says, and the ids of its calls, which may repeat across turns.
    proptest::collection::vec((".{0,12}", proptest::collection::hash_set("[ -~é]{1,50}", 0..4)), 1..6)
        .prop_map(|turns| turns.into_iter().map(|(text, ids)| (text, ids.into_iter().collect())).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_paired_history_passes_the_strict_server(turns in message_texts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for name in WIRES {
                let server = ModelServer::start(vec![Turn::new().text("Fine.")]).await;
                let driver = driver(name, &server);
                let mut wire = asked(driver.as_ref());
                for (text, ids) in &turns {
                    let mut content = vec![model_text(text)];
                    content.extend(ids.iter().map(|id| Part::ToolCall(ToolCall::new(id, id.as_str(), text))));
                    wire.push(&Message::assistant(content));
                    ids.iter().for_each(|id| wire.push(&result(id, text)));
                    if ids.is_empty() {
                        wire.push(&user(text));
                    }
                }
                let (outcome, _) = call(driver.as_ref(), wire.as_ref()).await;
                assert_eq!(server.violations(), Vec::<String>::new(), "{}", name);
                assert_eq!(outcome.unwrap().content, [model_text("Fine.")]);
            }
        });
    }
}
