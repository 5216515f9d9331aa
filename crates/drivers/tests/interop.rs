//! The drivers against a maintained mock server package, with the vendors' own wire forms.
//!
//! `MUR_INTEROP_AIMOCK` is the URL of `@copilotkit/aimock`, started with
//! `-f crates/drivers/tests/fixtures/aimock.json --strict --validate-on-load`. Without the variable
//! the tests fail: this target is only built with the feature `interop`, by whoever started it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

use drivers::{Config, Retry, build};
use fence::{ModelText, Source, Unfenced};
use serde_json::json;
use vocab::{CallParams, Delta, Driver, DriverErrorKind, Message, Part, Reply, StopReason, ToolCall, ToolSpec, Usage};

const PARAMS: CallParams = CallParams { max_tokens: 512, traceparent: None };

fn driver(name: &str) -> Box<dyn Driver> {
    let url = std::env::var("MUR_INTEROP_AIMOCK").expect("MUR_INTEROP_AIMOCK names a running aimock");
    let mut config = Config::new(url, "test-model");
    config.api_key =
        secrets::LiveCredential::literal(secrets::Secret::new("sk-test-dummy".to_owned()), &secrets::Redactor::new())
            .into();
    config.retry = Retry { max_retries: 0, ..Retry::default() };
    build(name, config).unwrap()
}

fn tools() -> Vec<ToolSpec> {
    vec![ToolSpec {
        name: "get_weather".to_owned(),
        description: "The weather of a city.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
    }]
}

fn user(text: &str) -> Message {
    Message::user(ModelText::unfenced(Unfenced::Operator, text))
}

async fn call(driver: &dyn Driver, history: &[Message]) -> (Result<Reply, vocab::DriverError>, String) {
    let mut wire = driver.open("You are terse.", &tools());
    history.iter().for_each(|message| wire.push(message));
    let mut text = String::new();
    let mut sink = |delta: Delta<'_>| {
        if let Delta::Text(piece) = delta {
            text.push_str(piece);
        }
    };
    let outcome = driver.call(wire.as_ref(), PARAMS, &mut sink).await;
    (outcome, text)
}

fn said(text: &str) -> Part {
    Part::Text(ModelText::unfenced(Unfenced::Model, text))
}

#[tokio::test]
async fn a_tool_loop_in_two_steps() {
    for name in ["anthropic", "openai"] {
        let driver = driver(name);
        let mut history = vec![user("What is the weather in Oslo and Bergen?")];
        let (reply, text) = call(driver.as_ref(), &history).await;
        let reply = reply.unwrap();
        assert_eq!(text, "Let me check.");
        assert_eq!(
            reply.content,
            [
                said("Let me check."),
                Part::ToolCall(ToolCall::new("call_w1", "get_weather", r#"{"city":"Oslo"}"#)),
                Part::ToolCall(ToolCall::new("call_w2", "get_weather", r#"{"city":"Bergen"}"#)),
            ],
            "{name}"
        );
        assert_eq!(reply.stop, StopReason::ToolUse);
        history.push(Message::assistant(reply.content));
        for (id, degrees) in [("call_w1", "4"), ("call_w2", "7")] {
            let text = ModelText::fenced(&Source::tool("get_weather"), degrees);
            history.push(Message::tool_result(id, false, vec![Part::Text(text)]));
        }
        let (reply, _) = call(driver.as_ref(), &history).await;
        let reply = reply.unwrap();
        assert_eq!(
            (reply.content, reply.stop),
            (vec![said("It is 4 degrees in Oslo, 7 in Bergen.")], StopReason::EndTurn)
        );
        assert_eq!(
            Usage { cached_tokens: None, cache_write_tokens: None, thinking_tokens: None, ..reply.usage },
            Usage { input_tokens: 31, output_tokens: 12, ..Usage::default() },
            "{name}"
        );
    }
}

#[tokio::test]
async fn failures_are_typed() {
    for name in ["anthropic", "openai"] {
        let driver = driver(name);
        for (task, kind, status) in [
            ("rate", DriverErrorKind::RateLimit, 429),
            ("overload", DriverErrorKind::Overloaded, 529),
            ("refuse", DriverErrorKind::InvalidRequest, 400),
            ("something that no fixture knows", DriverErrorKind::Overloaded, 503),
        ] {
            let error = call(driver.as_ref(), &[user(task)]).await.0.unwrap_err();
            assert_eq!((error.kind, error.status), (kind, Some(status)), "{name}: {error}");
        }
    }
}

#[tokio::test]
async fn reasoning_is_thinking() {
    for name in ["anthropic", "openai"] {
        let (reply, _) = call(driver(name).as_ref(), &[user("think hard")]).await;
        let content = reply.unwrap().content;
        assert!(
            matches!(content.as_slice(), [Part::Thinking(thinking), Part::Text(_)] if thinking.text == "Six times seven."),
            "{name}: {content:?}"
        );
    }
}
