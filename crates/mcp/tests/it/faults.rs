//! Servers that crash, hang, shout and flood.

use std::time::Duration;

use mcp::{Error, Limits, Step};
use serde_json::{Value, json};

use crate::support::{Fake, Reaction, echo, line, said};

#[tokio::test]
async fn a_call_that_crashed_its_server_is_never_sent_again() {
    for is_kept in [true, false] {
        let fake =
            Fake::new(
                |start, message| {
                    if start == 1 && message["method"] == "tools/call" { Reaction::End } else { Reaction::Usual }
                },
            );
        let server = if is_kept { fake.kept() } else { fake.ephemeral() };
        let failed = echo(&server, "once").await.unwrap_err();
        assert!(matches!(failed, Error::Ended { step: Step::Call, sent: true }) && failed.may_have_run(), "{failed}");
        assert_eq!((fake.starts(), fake.got("tools/call").len()), (1, 1));
        // The next call is another one, and has a server.
        assert_eq!(echo(&server, "again").await.unwrap(), said("again"));
        assert_eq!((fake.starts(), fake.got("tools/call").len()), (2, 2));
    }
}

#[tokio::test]
async fn a_server_that_crashed_before_a_call_is_started_again_for_it() {
    // It ends when it has listed its tools, and once more when it was started again.
    for (crashes, works) in [(1, true), (2, false)] {
        for is_kept in [true, false] {
            let fake = Fake::new(move |start, message| {
                if start <= crashes && message["method"] == "tools/list" { Reaction::End } else { Reaction::Usual }
            });
            let answer = echo(&if is_kept { fake.kept() } else { fake.ephemeral() }, "hi").await;
            assert_eq!((answer.is_ok(), fake.starts()), (works, 2));
            if let Err(failed) = answer {
                assert!(matches!(failed, Error::Ended { step: Step::List, .. }) && !failed.may_have_run(), "{failed}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_ends_in_the_handshake_is_started_once_more_and_nothing_ran() {
    for is_kept in [true, false] {
        let fake = Fake::new(|_, _| Reaction::End);
        let failed = echo(&if is_kept { fake.kept() } else { fake.ephemeral() }, "hi").await.unwrap_err();
        assert_eq!(failed.to_string(), "the server ended during the handshake");
        assert!(matches!(failed, Error::Ended { step: Step::Open, .. }) && !failed.may_have_run());
        assert_eq!((fake.starts(), fake.got("tools/call").len()), (2, 0));
    }
    // What the handshake took is not there for the list of tools.
    let fake = Fake::new(|start, message| match message["method"].as_str() {
        Some("server/discover") => Reaction::End,
        Some("tools/list") if start == 2 => Reaction::End,
        _ => Reaction::Usual,
    });
    let server = fake.kept();
    assert!(matches!(echo(&server, "a").await, Err(Error::Ended { step: Step::List, .. })));
    assert_eq!((fake.starts(), fake.got("tools/call").len()), (2, 0));
    assert_eq!(echo(&server, "b").await.unwrap(), said("b"));
    assert_eq!((fake.starts(), fake.got("tools/call").len()), (3, 1));
}

#[tokio::test]
async fn a_kept_server_that_ended_between_two_calls_is_started_again() {
    let bye = line(json!({"jsonrpc": "2.0", "id": 99, "method": "ping"}));
    let fake = Fake::new(move |start, message| match message["method"].as_str() {
        // Asked to ping back after the call, it ends at the answer.
        Some("tools/call") if start == 1 => Reaction::RawThenUsual(bye.clone()),
        None => Reaction::End,
        _ => Reaction::Usual,
    });
    let server = fake.kept();
    assert_eq!(echo(&server, "a").await.unwrap(), said("a"));
    // Whether the end was seen before the next call was sent or while it waited: the call runs once at most.
    let second = echo(&server, "b").await;
    let calls = fake.got("tools/call").len();
    match second {
        Ok(outcome) => assert_eq!((outcome, fake.starts(), calls), (said("b"), 2, 2)),
        Err(failed) => assert!(matches!(failed, Error::Ended { .. }) && calls <= 2, "{failed}"),
    }
    assert_eq!(echo(&server, "c").await.unwrap(), said("c"));
    assert_eq!(fake.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hung_server_is_cut_ended_and_replaced() {
    let fake =
        Fake::new(
            |start, message| {
                if start == 1 && message["method"] == "tools/call" { Reaction::Silence } else { Reaction::Usual }
            },
        );
    let server = fake.kept();
    let begun = tokio::time::Instant::now();
    let failed = echo(&server, "a").await.unwrap_err();
    assert!(matches!(failed, Error::TimedOut { step: Step::Call, .. }) && failed.may_have_run(), "{failed}");
    assert!(begun.elapsed() >= Duration::from_secs(30));
    assert_eq!((fake.starts(), fake.ends(), fake.got("tools/call").len()), (1, 1, 1));
    assert_eq!(fake.got("notifications/cancelled").len(), 1);
    assert_eq!(echo(&server, "b").await.unwrap(), said("b"));
    assert_eq!(fake.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_list_its_tools_is_given_up() {
    let fake = Fake::on("tools/list", |_| Reaction::Silence);
    for server in [fake.kept(), fake.ephemeral()] {
        let failed = server.discover().await.unwrap_err();
        assert!(matches!(failed, Error::TimedOut { step: Step::List, .. }), "{failed}");
    }
    assert_eq!((fake.starts(), fake.ends()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_does_not_hold_its_caller() {
    let fake = Fake::new(|_, message| match message["params"]["arguments"]["text"].as_str() {
        Some("deaf") => Reaction::Deafness,
        _ => Reaction::Usual,
    });
    let server = fake.kept();
    let long = "x".repeat(1024 * 1024);
    assert_eq!(echo(&server, &long).await.unwrap(), said(&long));
    let (deaf, stuck) = tokio::join!(echo(&server, "deaf"), echo(&server, &long));
    for failed in [deaf.unwrap_err(), stuck.unwrap_err()] {
        assert!(matches!(failed, Error::TimedOut { step: Step::Call, .. } | Error::Ended { .. }), "{failed}");
    }
    assert_eq!((fake.starts(), fake.ends()), (1, 1));
}

#[tokio::test]
async fn endless_output_is_cut() {
    let endless: [(&[u8], &str); 3] = [
        (b"xxxxxxxxxxxxxxxx", "what is no message, in bytes, is larger than the 8388608 that are taken"),
        (b"log line\n", "what is no message, in bytes, is larger than the 8388608 that are taken"),
        (b"{\"a\":\"xxxxxxxxxx", "a message in bytes is larger than the 16777216 that are taken"),
    ];
    for (bytes, expected) in endless {
        let fake = Fake::on("tools/call", move |_| Reaction::Forever(bytes.repeat(4096)));
        let failed = echo(&fake.kept(), "hi").await.unwrap_err();
        assert_eq!(failed.to_string(), expected);
        assert!(failed.may_have_run());
        assert_eq!((fake.starts(), fake.ends(), fake.got("tools/call").len()), (1, 1, 1));
    }
}

#[tokio::test]
async fn a_result_may_be_as_large_as_the_limit_and_no_larger() {
    let fake = Fake::on("tools/call", |message| {
        let length = message["params"]["arguments"]["text"].as_str().unwrap().parse::<usize>().unwrap();
        Reaction::Result(json!({"content": [{"type": "text", "text": "é".repeat(length / 2)}]}))
    });
    let server = fake.kept_within(Limits { result_bytes: 100_000, ..Limits::default() });
    assert_eq!(echo(&server, "99000").await.unwrap(), said(&"é".repeat(49_500)));
    let failed = echo(&server, "100000").await.unwrap_err();
    assert_eq!(failed.to_string(), "the result in bytes is larger than the 100000 that are taken");
    assert!(failed.may_have_run());
}

#[tokio::test]
async fn a_message_of_millions_of_parts_is_not_parsed() {
    let fake = Fake::on("tools/call", |message| {
        Reaction::Raw(
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[{}1]}}}}\n",
                message["id"],
                "[],".repeat(400_000)
            )
            .into_bytes(),
        )
    });
    let failed = echo(&fake.ephemeral(), "hi").await.unwrap_err();
    assert!(matches!(failed, Error::TooLarge { what: "a message in bytes", .. }), "{failed}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_ends_the_call_at_once() {
    for raw in ["{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"content\":[}", "{\"jsonrpc\":\"2.0\",\"id\":4}"] {
        let fake = Fake::new(move |start, message| {
            let is_first = start == 1 && message["method"] == "tools/call";
            if is_first { Reaction::Raw(format!("{raw}\n").into_bytes()) } else { Reaction::Usual }
        });
        let server = fake.kept();
        let failed = echo(&server, "hi").await.unwrap_err();
        assert_eq!(
            failed.to_string(),
            "the server's answer to the call is malformed: it is no message of the protocol",
            "{raw}"
        );
        assert!(failed.may_have_run());
        assert_eq!((fake.starts(), fake.ends(), fake.got("tools/call").len()), (1, 1, 1));
        // Where it cannot be read, nobody knows what comes next: the server is another one.
        assert_eq!(echo(&server, "again").await.unwrap(), said("again"));
        assert_eq!((fake.starts(), fake.got("tools/call").len()), (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_message_is_no_answer_and_is_told_to_who_waited_for_one() {
    for raw in ["{ rubbish", "{}", "{\"level\":\"info\",\"id\":4}", "[]", "null", "\u{0}"] {
        let fake = Fake::on("tools/call", move |_| Reaction::Raw(format!("{raw}\n").into_bytes()));
        let failed = echo(&fake.ephemeral(), "hi").await.unwrap_err();
        assert_eq!(
            failed.to_string(),
            "the server did not finish the call within 30 s; it has written 1 line that is no message",
            "{raw}"
        );
        assert!(failed.may_have_run() && failed.hint().contains("stderr"), "{}", failed.hint());
        let fake = Fake::on("tools/call", move |_| Reaction::RawThenUsual(format!("{raw}\n").into_bytes()));
        assert_eq!(echo(&fake.ephemeral(), "hi").await.unwrap(), said("hi"), "{raw}");
    }
}

#[tokio::test]
async fn results_of_another_shape_are_malformed() {
    for result in [json!({"content": "text"}), json!([1]), json!("text"), json!({"content": [], "isError": 1})] {
        let shown = result.to_string();
        let fake = Fake::on("tools/call", move |_| Reaction::Result(result.clone()));
        let failed = echo(&fake.ephemeral(), "hi").await.unwrap_err();
        assert!(matches!(failed, Error::Malformed { step: Step::Call, .. }), "{shown}: {failed}");
    }
}

#[tokio::test]
async fn a_tool_that_wants_more_input_is_told_apart() {
    let fake = Fake::on("tools/call", |_| {
        Reaction::Result(json!({"resultType": "input_required", "requestState": "s", "inputRequests": {}}))
    });
    let failed = echo(&fake.ephemeral(), "hi").await.unwrap_err();
    assert!(matches!(failed, Error::Unsupported { what: "input" }), "{failed}");
}

#[tokio::test]
async fn what_a_server_asks_is_refused_but_a_ping() {
    let asks = |id: u64, method: &str, params: Value| {
        line(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    let message = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 9});
    let questions = [
        asks(1, "roots/list", json!({})),
        asks(2, "sampling/createMessage", message),
        asks(
            3,
            "elicitation/create",
            json!({"message": "pin?", "requestedSchema": {"type": "object", "properties": {}}}),
        ),
        asks(4, "murmur/other", json!({})),
        asks(5, "ping", json!({})),
    ]
    .concat();
    let fake = Fake::new(move |_, message| match (message["method"].as_str(), message["id"].as_u64()) {
        (Some("tools/call"), _) => Reaction::Raw(questions.clone()),
        // The last of the answers: now the call's own.
        (None, Some(5)) => Reaction::Raw(line(
            json!({"jsonrpc": "2.0", "id": 3, "result": {"content": [{"type": "text", "text": "done"}]}}),
        )),
        _ => Reaction::Usual,
    });
    assert_eq!(echo(&fake.ephemeral(), "hi").await.unwrap(), said("done"));
    let mut answers: Vec<(u64, Value)> =
        fake.answers().iter().map(|answer| (answer["id"].as_u64().unwrap(), answer["error"]["code"].clone())).collect();
    answers.sort_by_key(|(id, _)| *id);
    let refused = json!(-32601);
    let expected = [(1, refused.clone()), (2, refused.clone()), (3, refused.clone()), (4, refused), (5, Value::Null)];
    for answer in answers {
        assert!(expected.contains(&answer), "{answer:?}");
    }
}

#[tokio::test]
async fn a_flood_of_requests_is_cut() {
    let ping = line(json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
    let fake = Fake::on("tools/call", move |_| Reaction::Forever(ping.repeat(1000)));
    let failed = echo(&fake.ephemeral(), "hi").await.unwrap_err();
    assert!(matches!(failed, Error::Flood { step: Step::Call }), "{failed}");
    assert_eq!((fake.starts(), fake.got("tools/call").len()), (1, 1));
    // Log messages want no answer, and are only dropped.
    let log =
        line(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}));
    let fake = Fake::on("tools/call", move |_| Reaction::RawThenUsual(log.repeat(10_000)));
    assert_eq!(echo(&fake.ephemeral(), "hi").await.unwrap(), said("hi"));
}

#[tokio::test]
async fn a_storm_of_changes_is_looked_into_once_for_each_call() {
    let told = line(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let fake = Fake::on("tools/call", move |_| Reaction::RawThenUsual(told.repeat(10_000)));
    let server = fake.kept();
    for text in ["a", "b", "c"] {
        assert_eq!(echo(&server, text).await.unwrap(), said(text));
    }
    assert_eq!((fake.starts(), fake.got("tools/list").len(), fake.got("tools/call").len()), (1, 3, 3));
}
