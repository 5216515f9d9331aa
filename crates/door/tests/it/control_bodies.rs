//! Bodies as clients send them to the control surface: in chunks, announced, late, never.

use std::time::Duration;

use door::Limits;
use serde_json::json;

use crate::control::{Ask, CAP, KEY, all, ok, own, steered, token_id};
use crate::stage::{Setting, Stage};

/// A PUT whose body comes in chunks.
fn chunked(stage: &Stage, path: &str, chunks: &str) -> Vec<u8> {
    let ask = Ask { length: Some(None), body: Vec::new(), ..Ask::set(stage, path, &json!(0)) };
    let head = String::from_utf8(ask.bytes()).unwrap();
    let head = head.strip_suffix("\r\n").unwrap();
    format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}").into_bytes()
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn last_reason(stage: &Stage) -> String {
    let lines = stage.trace("control_refused");
    lines.last().unwrap()["reason"].as_str().unwrap().to_owned()
}

#[test]
fn chunks_are_read_up_to_the_limit() {
    let stage = steered(all());
    let kilo = "v".repeat(1024);
    let whole: String = (0..8).map(|_| chunk(&kilo)).collect();
    for (path, chunks, expected) in [
        (CAP, chunk("{\"val") + &chunk("ue\":5}") + "0\r\n\r\n", Ok(())),
        (CAP, "0\r\n\r\n".to_owned(), Err((422, "missing_body"))),
        (CAP, chunk(&kilo) + &chunk("v") + "0\r\n\r\n", Err((413, "body_too_large"))),
        // The answer does not wait for an end that may never come.
        (CAP, chunk(&kilo) + &chunk("v"), Err((413, "body_too_large"))),
        (KEY, whole.clone() + "0\r\n\r\n", Ok(())),
        (KEY, whole + &chunk("v") + "0\r\n\r\n", Err((413, "body_too_large"))),
        (KEY, "0\r\n\r\n".to_owned(), Err((422, "missing_body"))),
        (KEY, "zz\r\n".to_owned(), Err((400, "truncated_body"))),
    ] {
        let mut client = stage.client();
        client.raw(&chunked(&stage, path, &chunks));
        let answer = client.answer();
        match expected {
            Ok(()) => drop(ok(&answer)),
            Err((status, reason)) => {
                assert_eq!((answer.status, last_reason(&stage).as_str()), (status, reason), "{answer:?}");
                if status != 422 {
                    assert_eq!(answer.header("connection"), Some("close"));
                    assert!(client.is_closed());
                }
            }
        }
    }
    let mut client = stage.client();
    client.raw(&chunked(&stage, KEY, &chunk("half of it")));
    client.half_close();
    assert_eq!((client.answer().status, last_reason(&stage).as_str()), (400, "truncated_body"));
}

#[test]
fn a_body_that_is_announced_is_asked_for_and_one_that_is_refused_is_not() {
    let stage = steered(all());
    let announced = |length: usize| {
        let ask = Ask { length: Some(Some(length)), body: Vec::new(), ..Ask::set(&stage, CAP, &json!(0)) };
        String::from_utf8(ask.bytes()).unwrap().replacen("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n", 1)
    };
    let body = json!({"value": 5}).to_string();
    let mut client = stage.client();
    client.raw(announced(body.len()).as_bytes());
    assert_eq!(client.head().unwrap().0, 100);
    client.raw(body.as_bytes());
    ok(&client.answer());
    let mut client = stage.client();
    client.raw(announced(1025).as_bytes());
    assert_eq!(client.head().unwrap().0, 413);
}

#[test]
fn a_length_that_is_too_great_is_answered_unread_and_the_answer_reaches_who_still_sends() {
    let stage = steered(all());
    let ask = Ask::inject(&stage, KEY, &vec![b'v'; 4 << 20]);
    let mut client = stage.client();
    let answer = ask.on(&mut client);
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for_without_end() {
    let limits = Limits { receive: Duration::from_millis(20), ..Limits::default() };
    let stage = Stage::with(Setting { control: all(), limits, ..Setting::default() });
    let ask = Ask { length: Some(Some(10)), ..Ask::inject(&stage, KEY, b"") };
    assert_eq!(ask.send(&stage).status, 408);
    let line = json!({
        "principal": "controller", "token_id": token_id(&ask.shown[0]), "status": 408, "reason": "truncated_body",
        "kind": "secret", "name": "KEY",
    });
    assert_eq!(own(stage.trace("control_refused").last().unwrap()), line);
}

#[test]
fn one_connection_takes_one_request_after_the_other() {
    let stage = steered(all());
    let mut client = stage.client();
    for cap in 1..50 {
        assert_eq!(ok(&Ask::set(&stage, CAP, &json!(cap)).on(&mut client))["value"], cap);
        let refused = Ask::set(&stage, CAP, &json!(0)).on(&mut client);
        assert_eq!((refused.status, refused.header("connection")), (422, None), "a read body keeps it open");
    }
}
