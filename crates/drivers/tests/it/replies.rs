//! What a well-behaved provider sends, read whole.

use serde_json::json;
use testkit::{ModelServer, Tokens, Turn};
use vocab::{Message, Part, Reply, StopReason, Thinking, ToolCall, Usage};

use crate::support::{WIRES, ask, asked, call, config, driver, error_of, failure, joined, literal, model_text, result};

fn rich() -> Turn {
    Turn::new()
        .thinking("Zwölf Boxkämpfer.", "c2ln")
        .text("Let me look – both.")
        .tool_raw("call_1", "files_read", r#"{"path":"ä.txt"}"#)
        .tool_raw("call_2", "files_list", "")
        .tokens(Tokens { input: 10, output: 20, cached: 3, cache_write: 4, thinking: 5 })
}

fn expected(name: &str) -> Reply {
    let anthropic = name == "anthropic";
    Reply {
        content: vec![
            Part::Thinking(Thinking {
                text: "Zwölf Boxkämpfer.".to_owned(),
                signature: anthropic.then(|| "c2ln".to_owned()),
                redacted: None,
                author: format!("{name}/test-model"),
            }),
            model_text("Let me look – both."),
            Part::ToolCall(ToolCall::new("call_1", "files_read", r#"{"path":"ä.txt"}"#)),
            Part::ToolCall(ToolCall::new("call_2", "files_list", "{}")),
        ],
        stop: StopReason::ToolUse,
        usage: Usage {
            input_tokens: 17,
            output_tokens: 20,
            cached_tokens: Some(3),
            cache_write_tokens: anthropic.then_some(4),
            thinking_tokens: (!anthropic).then_some(5),
        },
        provider_id: Some(if anthropic { "msg_0" } else { "chatcmpl-0" }.to_owned()),
        attempts: 1,
    }
}

#[tokio::test]
async fn a_reply_is_read_whole_and_streamed_in_pieces() {
    for name in WIRES {
        let (reply, seen) = ask(name, vec![rich()]).await;
        assert_eq!(reply, Ok(expected(name)));
        assert_eq!(joined(&seen, "thinking"), "Zwölf Boxkämpfer.");
        assert_eq!(joined(&seen, "text"), "Let me look – both.");
        assert!(seen.iter().filter(|delta| delta.starts_with("text ")).count() > 1);
        assert_eq!(seen[seen.len() - 2..], ["call call_1 files_read", "call call_2 files_list"]);
    }
}

#[tokio::test]
async fn redacted_thinking_is_kept_as_it_came() {
    let (reply, _) = ask("anthropic", vec![Turn::new().redacted_thinking("b3BhcXVl").text("Done.")]).await;
    let redacted = Thinking {
        text: String::new(),
        signature: None,
        redacted: Some("b3BhcXVl".to_owned()),
        author: "anthropic/test-model".to_owned(),
    };
    assert_eq!(reply.unwrap().content, [Part::Thinking(redacted), model_text("Done.")]);
}

#[tokio::test]
async fn every_stop_reason_has_its_word() {
    use StopReason::{EndTurn, MaxTokens, PauseTurn, Refusal, StopSequence};
    let anthropic = [
        ("end_turn", EndTurn),
        ("max_tokens", MaxTokens),
        ("model_context_window_exceeded", MaxTokens),
        ("stop_sequence", StopSequence),
        ("refusal", Refusal),
        ("pause_turn", PauseTurn),
        ("tool_use", EndTurn),
        ("a_word_of_tomorrow", EndTurn),
    ];
    let openai = [
        ("stop", EndTurn),
        ("length", MaxTokens),
        ("content_filter", Refusal),
        ("tool_calls", EndTurn),
        ("eos", EndTurn),
    ];
    let cases = anthropic.iter().map(|case| ("anthropic", case)).chain(openai.iter().map(|case| ("openai", case)));
    for (name, (word, stop)) in cases {
        let (reply, _) = ask(name, vec![Turn::new().text("So far.").stop(*word)]).await;
        assert_eq!(reply.unwrap().stop, *stop, "{name} {word}");
    }
    for (name, word) in [("anthropic", "end_turn"), ("openai", "stop")] {
        let (reply, _) = ask(name, vec![Turn::new().tool("files_list", json!({})).stop(word)]).await;
        assert_eq!(reply.unwrap().stop, StopReason::ToolUse, "{name}: calls were asked for, whatever the reason says");
    }
}

#[tokio::test]
async fn a_call_cut_by_the_output_cap_is_malformed_not_empty() {
    for (name, word) in [("anthropic", "max_tokens"), ("openai", "length")] {
        let cut = Turn::new().tool_raw("call_1", "files_read", "").stop(word);
        let (reply, _) = ask(name, vec![cut]).await;
        let reply = reply.unwrap();
        assert_eq!(reply.stop, StopReason::MaxTokens);
        let [Part::ToolCall(call)] = reply.content.as_slice() else { panic!("one call") };
        assert!(matches!(&call.arguments, vocab::Arguments::Malformed { reason, .. } if reason.contains("output cap")));
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_leave_their_siblings_alone() {
    for name in WIRES {
        let turn = Turn::new().tool_raw("call_1", "files_read", r#"{"path": "#).tool_raw("call_2", "files_list", "{}");
        let (reply, _) = ask(name, vec![turn]).await;
        assert_eq!(
            reply.unwrap().content,
            [
                Part::ToolCall(ToolCall::new("call_1", "files_read", r#"{"path": "#)),
                Part::ToolCall(ToolCall::new("call_2", "files_list", "{}")),
            ]
        );
    }
}

#[tokio::test]
async fn the_credential_goes_in_the_providers_own_header() {
    for name in WIRES {
        let turn = || vec![Turn::new().text("Hello.")];
        let server = ModelServer::turns(turn()).api_key("key-of-the-test").start().await;
        let mut config = config(&server.url());
        config.api_key = literal("key-of-the-test").into();
        config.user_agent = "mur/9 test".to_owned();
        config.request = json!({"temperature": 0.5}).as_object().cloned().unwrap();
        let keyed = drivers::build(name, config).unwrap();
        let wire = asked(keyed.as_ref());
        assert_eq!(call(keyed.as_ref(), wire.as_ref()).await.0.unwrap().content, [model_text("Hello.")]);
        let request = &server.requests()[0];
        assert_eq!(request.headers["user-agent"], "mur/9 test");
        assert_eq!(request.body["temperature"], 0.5);
        assert_eq!(request.body["max_tokens"], 1024);

        let keyless = driver(name, &server);
        let error = call(keyless.as_ref(), wire.as_ref()).await.0.unwrap_err();
        assert_eq!((error.kind, error.status), (vocab::DriverErrorKind::Auth, Some(401)));
    }
}

#[tokio::test]
async fn calls_of_one_driver_share_a_connection() {
    for name in WIRES {
        let server = ModelServer::start((0..3).map(|_| Turn::new().text("Hi.")).collect()).await;
        let driver = driver(name, &server);
        let mut wire = asked(driver.as_ref());
        for _ in 0..3 {
            let reply = call(driver.as_ref(), wire.as_ref()).await.0.unwrap();
            wire.push(&Message::assistant(reply.content));
            wire.push(&crate::support::user("Again."));
        }
        assert_eq!(server.connections(), 1, "{name}");
        assert_eq!(server.violations(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_tool_loop_keeps_every_rule_of_the_wire() {
    for name in WIRES {
        let server = ModelServer::start(vec![rich(), Turn::new().text("Both are there.")]).await;
        let driver = driver(name, &server);
        let mut wire = asked(driver.as_ref());
        let reply = call(driver.as_ref(), wire.as_ref()).await.0.unwrap();
        wire.push(&Message::assistant(reply.content));
        wire.push(&result("call_1", "hello"));
        wire.push(&failure("call_2"));
        let reply = call(driver.as_ref(), wire.as_ref()).await.0.unwrap();
        assert_eq!((reply.content, reply.stop), (vec![model_text("Both are there.")], StopReason::EndTurn));
        assert_eq!(server.violations(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn any_name_of_a_tool_is_a_call_that_the_runtime_can_answer() {
    for name in WIRES {
        for tool in ["no\u{1b}[31m\nsuch".to_owned(), "x".repeat(64 << 10)] {
            let server = ModelServer::start(vec![
                Turn::new().tool_raw("call_1", &tool, "{}"),
                Turn::new().text("There is none."),
            ])
            .await;
            let driver = driver(name, &server);
            let mut wire = asked(driver.as_ref());
            let reply = call(driver.as_ref(), wire.as_ref()).await.0.unwrap();
            assert_eq!(reply.content, [Part::ToolCall(ToolCall::new("call_1", &tool, "{}"))]);
            wire.push(&Message::assistant(reply.content));
            wire.push(&failure("call_1"));
            let reply = call(driver.as_ref(), wire.as_ref()).await.0.unwrap();
            assert_eq!(reply.content, [model_text("There is none.")]);
            assert_eq!(server.violations(), Vec::<String>::new());
        }
        let error = error_of(name, vec![Turn::new().tool_raw("call_1", "x".repeat((64 << 10) + 1), "{}")]).await;
        assert_eq!(error.kind, vocab::DriverErrorKind::BadResponse);
    }
}
