//! The scripted driver plays its file, notices a run that left it, and says where a file is wrong.

use drivers::{Config, build};
use testkit::TempHome;
use vocab::{Driver, DriverErrorKind as Kind, Message, Part, StopReason, Thinking, ToolCall, Usage};

use crate::support::{call, config, failure, joined, model_text, result, tools, user};

const DEMO: &str = r#"
turns:
  - thinking: I should look.
    text: Let me look at the file, then I can tell you what is in it.
    tool_calls:
      - { id: call_a, name: files_read, arguments: { path: a.txt } }
    usage: { input_tokens: 12, output_tokens: 7, cached_tokens: 3 }
  - expect: [hello]
    text: It says hello.
"#;

fn scripted(home: &TempHome, name: &str, text: &str) -> Result<Box<dyn Driver>, drivers::BuildError> {
    let config = Config { script: Some(home.write(name, text)), ..config("") };
    build("scripted", config)
}

#[tokio::test]
async fn a_script_plays_turn_by_turn_and_then_is_over() {
    let home = TempHome::new();
    let driver = scripted(&home, "demo.yaml", DEMO).unwrap();
    let mut wire = driver.open("System.", &tools());
    wire.push(&user("What is in a.txt?"));
    let (first, seen) = call(driver.as_ref(), wire.as_ref()).await;
    let first = first.unwrap();
    let thought = Thinking {
        text: "I should look.".to_owned(),
        signature: None,
        redacted: None,
        author: "scripted/test-model".to_owned(),
    };
    let text = "Let me look at the file, then I can tell you what is in it.";
    assert_eq!(
        first.content,
        [
            Part::Thinking(thought),
            model_text(text),
            Part::ToolCall(ToolCall::new("call_a", "files_read", r#"{"path":"a.txt"}"#)),
        ]
    );
    assert_eq!(first.stop, StopReason::ToolUse);
    assert_eq!(first.usage, Usage { input_tokens: 12, output_tokens: 7, cached_tokens: Some(3), ..Usage::default() });
    assert_eq!(joined(&seen, "text"), text);
    assert!(seen.iter().filter(|delta| delta.starts_with("text ")).count() > 1);

    wire.push(&Message::assistant(first.content));
    wire.push(&result("call_a", "hello"));
    let second = call(driver.as_ref(), wire.as_ref()).await.0.unwrap();
    assert_eq!((second.content, second.stop), (vec![model_text("It says hello.")], StopReason::EndTurn));

    let over = call(driver.as_ref(), wire.as_ref()).await.0.unwrap_err();
    assert_eq!((over.kind, over.retryable), (Kind::Script, false));
    assert_eq!(over.message, "scripted at demo.yaml has 2 turns and was asked for turn 3: the script is over");
}

#[tokio::test]
async fn a_run_that_left_its_script_is_told_what_was_expected() {
    let home = TempHome::new();
    let driver = scripted(&home, "demo.yaml", DEMO).unwrap();
    let mut wire = driver.open("", &[]);
    wire.push(&user("What is in a.txt?"));
    let first = call(driver.as_ref(), wire.as_ref()).await.0.unwrap();
    wire.push(&Message::assistant(first.content));
    wire.push(&failure("call_a"));
    let error = call(driver.as_ref(), wire.as_ref()).await.0.unwrap_err();
    assert_eq!(
        error.message,
        "scripted at demo.yaml expects `hello` in the tool results before turn 2, which are `no such file`: \
         the run has left its script"
    );
}

#[tokio::test]
async fn failures_are_played_and_retried_like_a_providers() {
    let home = TempHome::new();
    let lines = concat!(
        r#"{"text": "Half an ans", "error": {"kind": "overloaded", "message": "busy", "retry_after_ms": 1}}"#,
        "\n\n",
        r#"{"text": "A whole answer.", "stop": "max_tokens"}"#,
        "\n",
        r#"{"error": {"kind": "auth"}}"#,
        "\n",
        r#"{"tool_calls": [{"name": "files_read", "arguments": "{\"path\": "}]}"#,
        "\n",
    );
    let driver = scripted(&home, "demo.jsonl", lines).unwrap();
    let wire = driver.open("", &[]);
    let (reply, seen) = call(driver.as_ref(), wire.as_ref()).await;
    let reply = reply.unwrap();
    assert_eq!((reply.attempts, reply.stop), (2, StopReason::MaxTokens));
    assert_eq!(reply.content, [model_text("A whole answer.")]);
    assert_eq!(seen, ["text Half an ans", "restart 2 overloaded", "text A whole answer."]);
    let error = call(driver.as_ref(), wire.as_ref()).await.0.unwrap_err();
    assert_eq!(error.message, "scripted at demo.jsonl plays a failure in turn 3 (auth): no message");
    let malformed = call(driver.as_ref(), wire.as_ref()).await.0.unwrap();
    let [Part::ToolCall(call)] = malformed.content.as_slice() else { panic!("one call") };
    assert!(matches!(&call.arguments, vocab::Arguments::Malformed { raw, .. } if raw == "{\"path\": "));
    assert!(call.id.starts_with("call_"));
}

#[test]
fn a_wrong_script_is_refused_with_its_place() {
    let home = TempHome::new();
    let refuse = |name: &str, text: &str| match scripted(&home, name, text) {
        Ok(_) => panic!("{name} was read"),
        Err(error) => error.to_string().replace(home.root().to_str().unwrap(), ""),
    };
    insta::assert_snapshot!(refuse("key.yaml", "turns:\n  - text: a\n    tool_call: []\n"), @r#"/key.yaml:3:5: unknown field `tool_call`, expected one of expect, thinking, text, tool_calls, usage, stop, error"#);
    insta::assert_snapshot!(refuse("type.yaml", "turns:\n  - text: [a]\n"), @r#"/type.yaml:2:11: expected string scalar"#);
    insta::assert_snapshot!(refuse("twice.yaml", "turns:\n  - text: a\n    text: b\n"), @r#"/twice.yaml:3:5: duplicate mapping key: text"#);
    insta::assert_snapshot!(refuse("syntax.yaml", "turns: [\n"), @r#"/syntax.yaml:1:8: unclosed bracket '['"#);
    insta::assert_snapshot!(refuse("kind.yaml", "turns:\n  - error: { kind: tired }\n"), @r#"/kind.yaml:2:20: unknown variant `tired`, expected one of auth, rate_limit, overloaded, invalid_request, context_too_long, network, bad_response, cut_stream, server, script, spend_ceiling"#);
    insta::assert_snapshot!(refuse("empty.yaml", "turns: []\n"), @r#"/empty.yaml:1:1: the script has no turn"#);
    insta::assert_snapshot!(refuse("idle.yaml", "turns:\n  - usage: { input_tokens: 1 }\n"), @r#"/idle.yaml:2:5: the turn says nothing, calls nothing and does not fail"#);
    insta::assert_snapshot!(refuse("list.yaml", "turns:\n  - tool_calls: [{ name: x, arguments: [1] }]\n"), @r#"/list.yaml:2:5: the turn calls `x` with arguments that are neither an object nor a text"#);
    insta::assert_snapshot!(refuse("line.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n"), @r#"/line.jsonl:2:6: unknown field `txt`, expected one of `expect`, `thinking`, `text`, `tool_calls`, `usage`, `stop`, `error`"#);
    let missing = build("scripted", Config { script: Some(home.root().join("none.yaml")), ..config("") });
    assert_eq!(missing.err().map(|error| error.code()), Some("E-DRV-007"));
}
