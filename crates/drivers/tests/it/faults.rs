//! Every way in which a provider fails: its kind, whether it is tried again, what the message says.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::json;
use testkit::{Gate, ModelServer, Turn};
use vocab::{DriverErrorKind as Kind, StopReason};

use crate::support::{WIRES, ask, asked, call, config, driver, error_of, literal, model_text};

fn fine() -> Turn {
    Turn::new().text("Fine.")
}

#[tokio::test]
async fn what_a_later_try_may_cure_is_tried_again() {
    for name in WIRES {
        let end = if name == "anthropic" { "overloaded_error" } else { "server_error" };
        let mid = if name == "anthropic" { "overloaded" } else { "server" };
        let cases = [
            (Turn::status(408, "slow"), "network"),
            (Turn::status(425, "early"), "server"),
            (Turn::status(429, "slow down"), "rate_limit"),
            (Turn::status(429, "slow down").header("retry-after-ms", "2"), "rate_limit"),
            (Turn::status(429, "slow down").header("retry-after", "0"), "rate_limit"),
            (Turn::status(500, "oops"), "server"),
            (Turn::status(502, "oops"), "server"),
            (Turn::raw(502, Some("text/html"), "<html>bad gateway</html>"), "server"),
            (Turn::status(503, "busy"), "overloaded"),
            (Turn::status(529, "busy"), "overloaded"),
            (Turn::hang_up(), "network"),
            (fine().reset_at(0), "cut_stream"),
            (fine().reset_at(300), "cut_stream"),
            (fine().cut_at(0), "cut_stream"),
            (fine().cut_at(300), "cut_stream"),
            (fine().then_error(end, "busy"), mid),
        ];
        for (index, (turn, kind)) in cases.into_iter().enumerate() {
            let (reply, seen) = ask(name, vec![turn, fine()]).await;
            let reply = reply.unwrap_or_else(|error| panic!("{name} case {index}: {error}"));
            assert_eq!((reply.content, reply.attempts), (vec![model_text("Fine.")], 2), "{name} case {index}");
            let restart = seen.iter().position(|delta| *delta == format!("restart 2 {kind}"));
            assert!(restart.is_some(), "{name} case {index}: {seen:?}");
        }
    }
}

#[tokio::test]
async fn what_no_later_try_cures_is_not_tried_again() {
    for name in WIRES {
        let cases = [
            (Turn::status(400, "no such field"), Kind::InvalidRequest),
            (Turn::status(404, "no such model"), Kind::InvalidRequest),
            (Turn::status(422, "no"), Kind::InvalidRequest),
            (Turn::status(401, "bad key"), Kind::Auth),
            (Turn::status(403, "not yours"), Kind::Auth),
            (Turn::status(402, "no credit"), Kind::Auth),
            (Turn::status(429, "no credit").error_kind("insufficient_quota"), Kind::Auth),
            (Turn::status(413, "too large"), Kind::ContextTooLong),
            (Turn::status(307, "").header("location", "http://127.0.0.1:1/x"), Kind::BadResponse),
        ];
        for (index, (turn, kind)) in cases.into_iter().enumerate() {
            let server = ModelServer::start(vec![turn, fine()]).await;
            let driver = driver(name, &server);
            let error = call(driver.as_ref(), asked(driver.as_ref()).as_ref()).await.0.unwrap_err();
            assert_eq!((error.kind, error.retryable), (kind, false), "{name} case {index}: {error}");
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_known_by_each_servers_words() {
    let anthropic = [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
    ];
    for words in anthropic {
        let error = error_of("anthropic", vec![Turn::status(400, words)]).await;
        assert_eq!((error.kind, error.retryable), (Kind::ContextTooLong, false), "{words}");
    }
    let openai = [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        "the request exceeds the available context size. try increasing it",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Please reduce the length of the messages or completion.",
    ];
    for words in openai {
        let error = error_of("openai", vec![Turn::status(400, words)]).await;
        assert_eq!((error.kind, error.retryable), (Kind::ContextTooLong, false), "{words}");
    }
    let coded = Turn::status(400, "too much").error_kind("context_length_exceeded");
    assert_eq!(error_of("openai", vec![coded]).await.kind, Kind::ContextTooLong);
    let near = Turn::status(400, "max_tokens is too large for this endpoint");
    assert_eq!(error_of("openai", vec![near]).await.kind, Kind::InvalidRequest);
}

#[tokio::test]
async fn retries_end_and_say_so() {
    for name in WIRES {
        let error = error_of(name, vec![Turn::status(500, "oops"), Turn::status(500, "oops")]).await;
        assert_eq!((error.kind, error.status, error.retryable), (Kind::Server, Some(500), true));
        assert!(error.message.starts_with(&format!("{name} at 127.0.0.1:")), "{error}");
        assert!(error.message.ends_with(" failed (500): oops; gave up after 2 attempts"), "{error}");
    }
}

#[tokio::test]
async fn a_longer_wait_than_allowed_ends_the_call() {
    for (header, value) in
        [("retry-after", "1"), ("retry-after-ms", "900"), ("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")]
    {
        let turn = Turn::status(429, "slow down").header(header, value);
        let error = error_of("anthropic", vec![turn, fine()]).await;
        assert_eq!((error.kind, error.retryable), (Kind::RateLimit, true));
        assert!(error.retry_after.is_some_and(|wait| wait >= Duration::from_millis(900)), "{header}: {value}");
        assert!(error.message.contains("longer than the 0.02 s that `inference.retry` allows"), "{error}");
    }
}

#[tokio::test]
async fn nonsense_is_a_bad_response() {
    let sse = |text: &str| Turn::sse(text.to_owned());
    let shared = [
        Turn::raw(200, Some("text/html"), "<html>Welcome</html>"),
        Turn::raw(200, Some("application/json"), r#"{"id":"x","choices":[]}"#),
        Turn::raw(200, Some("text/plain"), "hello"),
        Turn::raw(204, Some("text/plain"), ""),
        sse("hello\n\nworld\n\n"),
        sse("data: not json\n\n"),
        sse("data: [1,2]\n\n"),
        Turn::sse(b"data: \xff\xfe\n\n".to_vec()),
    ];
    let anthropic = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"","input":{}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"","name":"x","input":{}}}"#,
        r#"{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"x"}}"#,
        r#"{"type":"content_block_start","index":0}"#,
        r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":-5}}"#,
        r#"{"type":"message_start","message":{"usage":{"input_tokens":1.5}}}"#,
    ]
    .map(|data| sse(&format!("data: {data}\n\n")));
    let twice = r#"{"type":"content_block_start","index":N,"content_block":{"type":"tool_use","id":"a","name":"x","input":{}}}"#;
    let twice = sse(&format!("data: {}\n\ndata: {}\n\n", twice.replace('N', "0"), twice.replace('N', "1")));
    let openai = [
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x"}},{"index":1,"id":"a","function":{"name":"y"}}]}}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":-1}}"#,
        r#"{"choices":[{"index":0,"delta":{"content":7}}]}"#,
    ]
    .map(|data| sse(&format!("data: {data}\n\ndata: [DONE]\n\n")));
    // The bounds hold beneath both wires alike.
    let huge = [
        Turn::sse([b"data: ".as_slice(), &vec![b'x'; 9 << 20]].concat()),
        Turn::sse(b": a comment that is not much\n".repeat((33 << 20) / 28)),
    ];
    let cases = WIRES
        .into_iter()
        .flat_map(|name| shared.iter().map(move |turn| (name, turn)))
        .chain(anthropic.iter().chain([&twice]).map(|turn| ("anthropic", turn)))
        .chain(openai.iter().chain(&huge).map(|turn| ("openai", turn)));
    for (index, (name, turn)) in cases.enumerate() {
        let error = error_of(name, vec![turn.clone()]).await;
        assert_eq!((error.kind, error.retryable), (Kind::BadResponse, false), "{name} case {index}: {error}");
        assert!(!error.message.contains('\n'));
    }
}

#[tokio::test]
async fn a_200_that_carries_an_error_is_that_error() {
    for name in WIRES {
        let body = json!({"error": {"type": "overloaded_error", "message": "busy"}}).to_string();
        let (reply, seen) = ask(name, vec![Turn::raw(200, Some("application/json"), body), fine()]).await;
        assert_eq!(reply.unwrap().attempts, 2);
        assert!(seen.contains(&"restart 2 overloaded".to_owned()));
    }
}

#[tokio::test]
async fn a_providers_words_are_shown_cut_printable_and_without_the_key() {
    let words = format!("bad key key-of-the-test\u{1b}[31m\nand \u{202e}more {}", "x".repeat(500));
    let server = ModelServer::turns(vec![Turn::status(401, words)]).api_key("key-of-the-test").start().await;
    let mut config = config(&server.url());
    config.api_key = literal("key-of-the-test").into();
    let driver = drivers::build("openai", config).unwrap();
    let error = call(driver.as_ref(), asked(driver.as_ref()).as_ref()).await.0.unwrap_err();
    let start = format!(
        "openai at {} refused the credential (401): bad key [redacted]\\u{{1b}}[31m and \\u{{202e}}more xxx",
        server.address()
    );
    assert!(error.message.starts_with(&start), "{error}");
    assert!(error.message.ends_with("xx…") && error.message.chars().count() < 450, "{error}");
}

#[tokio::test]
async fn the_key_is_in_no_message_wherever_a_provider_repeats_it() {
    // Letters of both cases, a separator of media types, and longer than any piece of a message.
    let key = format!("Sk-Live;{}", "aB9".repeat(50));
    let chunk = |call: serde_json::Value| {
        Turn::sse(format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]})))
    };
    let started = |block: serde_json::Value| {
        Turn::sse(format!("data: {}\n\n", json!({"type": "content_block_start", "index": 0, "content_block": block})))
    };
    let padded = |count: usize| format!("{}{key}", "x".repeat(count));
    let mut cases = vec![
        ("openai", Turn::raw(200, Some(key.as_str()), "hello")),
        ("openai", Turn::status(307, "").header("location", padded(90))),
        ("openai", Turn::status(400, padded(290))),
        ("openai", Turn::sse(format!("data: {}\n\n", json!({"choices": padded(100)})))),
        ("openai", chunk(json!({"id": padded(300), "function": {"name": "x"}}))),
        ("openai", chunk(json!({"id": "a", "function": {"name": padded(64 << 10)}}))),
        ("anthropic", started(json!({"type": "tool_use", "id": padded(300), "name": "x"}))),
    ];
    cases.push(("anthropic", Turn::sse(format!("data: {}\n\n", json!({"type": "error", "error": padded(290)})))));
    for (index, (name, turn)) in cases.into_iter().enumerate() {
        let server = ModelServer::turns(vec![turn.clone(), turn]).api_key(key.clone()).start().await;
        let mut config = config(&server.url());
        config.api_key = literal(key.clone()).into();
        let driver = drivers::build(name, config).unwrap();
        let error = call(driver.as_ref(), asked(driver.as_ref()).as_ref()).await.0.unwrap_err();
        let message = error.message.to_lowercase();
        assert!(!message.contains("sk-l") && !message.contains("ab9"), "case {index}: {error}");
        assert_eq!(server.requests().len(), usize::from(error.retryable) + 1, "case {index}: {error}");
    }
}

#[tokio::test]
async fn nobody_listening_is_a_network_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for name in WIRES {
        let driver = drivers::build(name, config(&url)).unwrap();
        let (outcome, seen) = call(driver.as_ref(), asked(driver.as_ref()).as_ref()).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.kind, error.status, error.retryable), (Kind::Network, None, true));
        assert!(error.message.contains("cannot be reached: "), "{error}");
        assert_eq!(seen, ["restart 2 network"]);
    }
}

#[tokio::test]
async fn a_silent_provider_is_given_up() {
    for name in WIRES {
        let gate = Gate::new();
        for turn in [fine().gate(&gate), fine().gate_at(200, &gate)] {
            let server = ModelServer::start(vec![turn, fine()]).await;
            let mut config = config(&server.url());
            config.idle_timeout = Duration::from_millis(50);
            let driver = drivers::build(name, config).unwrap();
            let reply = call(driver.as_ref(), asked(driver.as_ref()).as_ref()).await.0.unwrap();
            assert_eq!(reply.attempts, 2);
            server.wait_abandoned(1).await;
        }
    }
}

/// Serves connections one after another: the first gets `again` without end, the next one `answer`.
fn pinging(again: &'static str, answer: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for first in [true, false] {
            let (mut tcp, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            // The body is one JSON object and ends with its end.
            while !request.ends_with(b"}") {
                let read = tcp.read(&mut piece).unwrap();
                request.extend_from_slice(&piece[..read]);
            }
            tcp.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").unwrap();
            if !first {
                tcp.write_all(answer.as_bytes()).unwrap();
                return;
            }
            // Each read waits for as long as the time limit says, or learns that the other side is gone.
            tcp.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
            while tcp.write_all(again.as_bytes()).is_ok() && !matches!(tcp.read(&mut piece), Ok(0)) {}
        }
    });
    url
}

#[tokio::test]
async fn a_provider_that_only_keeps_the_connection_alive_is_given_up() {
    let anthropic = concat!(
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Fine.\"}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );
    let openai = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Fine.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let cases = [
        ("anthropic", ": still here\n\n", anthropic),
        ("anthropic", "event: ping\ndata: {\"type\":\"ping\"}\n\n", anthropic),
        ("openai", ": still here\n\n", openai),
        ("openai", "x", openai),
        ("openai", "data: {\"id\":\"x\",\"choices\":[]}\n\n", openai),
    ];
    for (name, again, answer) in cases {
        let mut config = config(&pinging(again, answer));
        config.idle_timeout = Duration::from_millis(100);
        let driver = drivers::build(name, config).unwrap();
        let (outcome, seen) = call(driver.as_ref(), asked(driver.as_ref()).as_ref()).await;
        let reply = outcome.unwrap();
        assert_eq!((reply.content, reply.attempts), (vec![model_text("Fine.")], 2), "{name}: {again}");
        assert_eq!(seen, ["restart 2 cut_stream", "text Fine."], "{name}: {again}");
    }
}

#[tokio::test]
async fn an_end_without_an_answer_is_a_cut_stream_and_an_empty_answer_is_none() {
    let cases = [
        ("openai", "data: [DONE]\n\n", false),
        ("openai", "data: {}\n\ndata: [DONE]\n\n", false),
        (
            "openai",
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\ndata: [DONE]\n\n",
            false,
        ),
        ("openai", "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", true),
        ("anthropic", "data: {\"type\":\"message_stop\"}\n\n", false),
        (
            "anthropic",
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
            true,
        ),
    ];
    for (name, body, answers) in cases {
        let outcome = ask(name, vec![Turn::sse(body), Turn::sse(body)]).await.0;
        let shown = outcome.map(|reply| (reply.content, reply.stop)).map_err(|error| (error.kind, error.retryable));
        let expected = if answers { Ok((Vec::new(), StopReason::EndTurn)) } else { Err((Kind::CutStream, true)) };
        assert_eq!(shown, expected, "{name}: {body}");
    }
}

#[tokio::test]
async fn dropping_the_call_cancels_the_request() {
    for name in WIRES {
        let gate = Gate::new();
        for turn in [fine().gate(&gate), fine().gate_at(200, &gate)] {
            let server = ModelServer::start(vec![turn]).await;
            let driver = driver(name, &server);
            let wire = asked(driver.as_ref());
            tokio::select! {
                outcome = call(driver.as_ref(), wire.as_ref()) => panic!("the gate is closed: {outcome:?}"),
                () = server.wait_requests(1) => {}
            }
            server.wait_abandoned(1).await;
        }
    }
}

#[tokio::test]
async fn bad_certificates_are_named_and_not_tried_again() {
    let home = testkit::TempHome::new();
    let bad = home.write("roots.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    for path in [bad, home.root().join("missing.pem")] {
        let server = ModelServer::start(vec![fine()]).await;
        let mut config = config(&server.url());
        config.extra_roots = Some(path.clone());
        let driver = drivers::build("openai", config).unwrap();
        let error = call(driver.as_ref(), asked(driver.as_ref()).as_ref()).await.0.unwrap_err();
        assert_eq!((error.kind, error.retryable), (Kind::Network, false));
        assert!(error.message.contains(&format!("the certificates in `{}` ", path.display())), "{error}");
        assert_eq!(server.requests().len(), 0);
    }
}
