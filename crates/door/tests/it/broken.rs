//! Requests that are wrong: each gets its status, and the session goes on as if nothing had been.

use std::time::Duration;

use door::{Limits, Scope};
use serde_json::{Value, json};

use crate::client::Client;
use crate::stage::{Setting, Stage};

/// How a connection ends after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It takes another request.
    Open,
    /// It is closed.
    Closed,
}
use Then::{Closed, Open};

/// One broken request: what is sent, whether the sender then half-closes, and what comes of it.
struct Case {
    name: &'static str,
    sent: Vec<u8>,
    half_closed: bool,
    status: u16,
    then: Then,
}

fn case(name: &'static str, sent: impl Into<Vec<u8>>, status: u16, then: Then) -> Case {
    Case { name, sent: sent.into(), half_closed: false, status, then }
}

fn half_closed(name: &'static str, sent: impl Into<Vec<u8>>, status: u16) -> Case {
    Case { name, sent: sent.into(), half_closed: true, status, then: Closed }
}

const HOST: &str = "host: localhost\r\n";

fn get(head: &str) -> String {
    format!("GET /health HTTP/1.1\r\n{HOST}{head}\r\n")
}

/// A POST with these header lines and this body, without a length of its own.
fn post(head: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\n{HOST}{head}\r\n{body}")
}

/// A JSON body with its length.
fn json_body(body: &str) -> String {
    post(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()), body)
}

fn heads() -> Vec<Case> {
    let many = |count: usize| (0..count).map(|index| format!("x-{index}: 1\r\n")).collect::<String>();
    let long = |length: usize| format!("x-long: {}\r\n", "a".repeat(length));
    vec![
        case("not HTTP at all", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}hello\r\n\r\n", 400, Closed),
        case("a version that is none", format!("GET /health HTTP/9.9\r\n{HOST}\r\n"), 400, Closed),
        case("a method with a space before it", " GET /health HTTP/1.1\r\n\r\n", 400, Closed),
        case("a target that is none", format!("GET he\u{1}alth HTTP/1.1\r\n{HOST}\r\n"), 400, Closed),
        case("a header without a colon", get("no-colon\r\n"), 400, Closed),
        case("a header with a space before its colon", get("x-a : 1\r\n"), 400, Closed),
        case("a header with a control character", get("x-a: \u{1}\r\n"), 400, Closed),
        case("a folded header", get("x-a: 1\r\n 2\r\n"), 400, Closed),
        case("no host", "GET /health HTTP/1.1\r\n\r\n", 400, Open),
        case("an old version without a host", "GET /health HTTP/1.0\r\n\r\n", 400, Closed),
        case("two hosts", get("host: localhost\r\n"), 400, Open),
        case("an empty host", "GET /health HTTP/1.1\r\nhost:\r\n\r\n", 400, Open),
        case("a host that is none", "GET /health HTTP/1.1\r\nhost: a b\r\n\r\n", 400, Open),
        case("a foreign host", "GET /health HTTP/1.1\r\nhost: evil.example\r\n\r\n", 421, Open),
        case(
            "a foreign host in the target",
            format!("GET http://evil.example/health HTTP/1.1\r\n{HOST}\r\n"),
            421,
            Open,
        ),
        case("a foreign origin", get("origin: http://evil.example\r\n"), 403, Open),
        case("two origins", get("origin: http://localhost\r\norigin: http://localhost\r\n"), 403, Open),
        case("as many headers as may be", get(&many(63)), 200, Open),
        case("too many headers", get(&many(64)), 431, Closed),
        case("a header that is too long", get(&long(200 << 10)), 431, Closed),
        case("a target that is too long", format!("GET /{} HTTP/1.1\r\n{HOST}\r\n", "a".repeat(70_000)), 414, Closed),
        half_closed("a head that ends early", "GET /health HTTP/1.1\r\nhost: local", 400),
        half_closed("a complete request and no more", get(""), 200),
    ]
}

fn methods() -> Vec<Case> {
    let line = |method: &str, target: &str| format!("{method} {target} HTTP/1.1\r\n{HOST}\r\n");
    vec![
        case("no such path", line("GET", "/nothing"), 404, Open),
        case("a path with dots", line("GET", "/rest/../health"), 404, Open),
        case("a path with a slash too many", line("GET", "//health"), 404, Open),
        case("the control surface", line("GET", "/control/"), 404, Open),
        case("a peer's file", line("GET", "/resources/peer/x"), 404, Open),
        case("a read of what is written", line("GET", "/"), 405, Open),
        case(
            "a write of what is read",
            "POST /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
            405,
            Open,
        ),
        case("a delete", line("DELETE", "/rest/tasks/t"), 405, Open),
        case("a trace", line("TRACE", "/"), 405, Open),
        case("options of a page elsewhere", line("OPTIONS", "/"), 405, Open),
        case("options of everything", line("OPTIONS", "*"), 404, Open),
        case("a method of nobody", line("BREW", "/"), 405, Open),
        case("a method in small letters", line("post", "/"), 405, Open),
        case("a tunnel", line("CONNECT", "localhost:80"), 404, Open),
    ]
}

fn bodies() -> Vec<Case> {
    let chunked = |chunks: &str| post("content-type: application/json\r\ntransfer-encoding: chunked\r\n", chunks);
    let typed = |value: &str| post(&format!("content-type: {value}\r\ncontent-length: 2\r\n"), "{}");
    let mega = |bytes: usize| post(&format!("content-length: {bytes}\r\n"), "");
    vec![
        case("a length that is none", post("content-length: +10\r\n", "0123456789"), 400, Closed),
        case("a negative length", post("content-length: -1\r\n", ""), 400, Closed),
        case("two lengths that differ", post("content-length: 2\r\ncontent-length: 3\r\n", "{} "), 400, Closed),
        case("a length beyond counting", post("content-length: 99999999999999999999\r\n", ""), 400, Closed),
        case("a coding that is not the last", post("transfer-encoding: chunked, gzip\r\n", "0\r\n\r\n"), 400, Closed),
        case("a coding that nobody unwraps", post("transfer-encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501, Closed),
        case("a body that is too long", mega((4 << 20) + 1), 413, Closed),
        case("a body that is far too long", mega(usize::MAX >> 1), 413, Closed),
        case("a chunk that is no number", chunked("zz\r\n{}\r\n0\r\n\r\n"), 400, Closed),
        case("a chunk that is too long", chunked("ffffffffffffffffff\r\n"), 400, Closed),
        half_closed("a chunked body that ends early", chunked("2\r\n{}\r\n"), 400),
        half_closed("a body that ends early", post("content-length: 100\r\n", "{\"jsonrpc\""), 400),
        half_closed("a body that never begins", post("content-length: 100\r\n", ""), 400),
        case("a body that is packed", post("content-encoding: gzip\r\ncontent-length: 2\r\n", "{}"), 415, Closed),
        case("a form", typed("application/x-www-form-urlencoded"), 415, Closed),
        case("plain text, as a page elsewhere may send it", typed("text/plain"), 415, Closed),
        case(
            "two types",
            post("content-type: application/json\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n", "{}"),
            415,
            Closed,
        ),
        case("a type of JSON", typed("Application/JSON; charset=utf-8"), 200, Open),
        case("a body where none belongs", get("content-length: 2\r\n") + "{}", 200, Closed),
    ]
}

fn calls() -> Vec<Case> {
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/get\",\"params\":{}1{}}}",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let mut not_utf8 = json_body("{\"jsonrpc\":\"2.0\",\"id\":1,\"x\":\"..\"}").into_bytes();
    let length = not_utf8.len();
    not_utf8[length - 4] = 0xff;
    vec![
        case("no body", post("content-length: 0\r\n", ""), 200, Open),
        case("a body that is no JSON", json_body("{"), 200, Open),
        case("a body that is not UTF-8", not_utf8, 200, Open),
        case("a body without end", json_body(&deep), 200, Open),
    ]
}

/// That the session still answers, on a connection of its own.
fn works(stage: &Stage) {
    let params = json!({"message": {"parts": [{"text": "say still here"}]}, "configuration": {"blocking": true}});
    let task = stage.client().call("message/send", &params, &[]).result();
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "still here");
}

#[test]
fn broken_requests_get_their_status_and_cost_nothing() {
    let stage = Stage::open();
    let cases: Vec<Case> = [heads(), methods(), bodies(), calls()].into_iter().flatten().collect();
    assert!(cases.len() >= 40, "{}", cases.len());
    for Case { name, sent, half_closed, status, then } in cases {
        let mut client = stage.client();
        client.raw(&sent);
        if half_closed {
            client.half_close();
        }
        let answer = client.try_answer(true).unwrap_or_else(|| panic!("{name}: no answer"));
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        match then {
            Open => {
                client.raw(get("").as_bytes());
                assert_eq!(client.answer().status, 200, "{name}: the connection goes on");
            }
            Closed => assert!(client.is_closed(), "{name}: the connection ends"),
        }
    }
    works(&stage);
    let health = stage.client().get("/health", &[("Authorization", &stage.bearer(Scope::Diagnostics))]).json();
    assert_eq!((&health["tasks_waiting"], &health["tasks_working"]), (&json!(0), &json!(0)), "nothing is left");
}

#[test]
fn broken_calls_have_their_codes_and_their_ids() {
    let stage = Stage::open();
    let call = |body: &str| {
        let mut client = stage.client();
        client.raw(json_body(body).as_bytes());
        let answer = client.answer();
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{body}");
        let answer = answer.json();
        (answer["id"].clone(), answer["error"]["code"].clone())
    };
    let null = Value::Null;
    for (body, id, code) in [
        ("", null.clone(), -32700),
        ("nonsense", null.clone(), -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1", null.clone(), -32700),
        ("\u{feff}{}", null.clone(), -32700),
        ("[]", null.clone(), -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"tasks/get"}]"#, null.clone(), -32600),
        ("null", null.clone(), -32600),
        ("\"tasks/get\"", null.clone(), -32600),
        ("{}", null.clone(), -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"tasks/get"}"#, json!(1), -32600),
        (r#"{"id":"a","method":"tasks/get"}"#, json!("a"), -32600),
        (r#"{"jsonrpc":"2.0","method":"session/stop"}"#, null.clone(), -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"session/stop"}"#, null.clone(), -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"session/stop"}"#, null.clone(), -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"session/stop"}"#, null.clone(), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"session/stop","method":"tasks/get"}"#, null.clone(), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, json!(1), -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"nothing"}"#, null.clone(), -32601),
        (r#"{"jsonrpc":"2.0","id":-1.5e3,"method":"nothing"}"#, json!(-1500.0), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"Session/Stop"}"#, json!(1), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#, json!(1), -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":[]}"#, json!(1), -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":7}}"#, json!(1), -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}"#, json!(1), -32001),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks"}"#, json!(1), -32009),
    ] {
        assert_eq!(call(body), (id, json!(code)), "{body}");
    }
    let mut client = stage.client();
    client.raw(json_body(r#"{"jsonrpc":"2.0","id":12345678901234567890123,"method":"nothing"}"#).as_bytes());
    let text = String::from_utf8(client.answer().body).unwrap();
    assert!(text.contains(r#""id":12345678901234567890123,"#), "as it came: {text}");
    for (length, id, code) in [(1024, json!("i".repeat(1022)), -32601), (1025, Value::Null, -32600)] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"nothing"}}"#, "i".repeat(length - 2));
        assert_eq!(call(&body), (id, json!(code)), "an id of {length} bytes");
    }
    assert_eq!(stage.session.status(), "idle", "none of them stopped it");
}

#[test]
fn several_requests_at_once_are_answered_in_their_order() {
    let stage = Stage::open();
    let mut client = stage.client();
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": {"id": "x"}}).to_string();
    client.raw(
        format!("{}{}{}{}", get(""), json_body(&body), "GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n", get(""))
            .as_bytes(),
    );
    let statuses: Vec<u16> = (0..4).map(|_| client.answer().status).collect();
    assert_eq!(statuses, [200, 200, 404, 200]);
    // What follows a refusal that left its body unread is never taken for a request.
    let mut client = stage.client();
    let smuggled = "POST /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 57\r\n\r\n";
    client.raw(format!("{smuggled}POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes());
    assert_eq!(client.answer().status, 405);
    assert!(client.is_closed());
    // Two framings of one body: the chunked one counts, and nothing after it is read.
    let mut client = stage.client();
    let both = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    client.raw(format!("{both}{}", get("")).as_bytes());
    assert_eq!(client.answer().error(), (200, json!(-32600)));
    assert!(client.is_closed());
}

#[test]
fn a_body_up_to_the_limit_is_taken_and_its_sender_asked_to_go_on() {
    let stage = Stage::with(Setting { limits: Limits { body: 1000, ..Limits::default() }, ..Setting::default() });
    let body = |length: usize| {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": ""}}).to_string();
        call.clone() + &" ".repeat(length - call.len())
    };
    let chunked = |body: &str| {
        let head = "POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
        format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
    };
    for (length, status) in [(1000, 200), (1001, 413)] {
        for sent in [json_body(&body(length)), chunked(&body(length))] {
            let mut client = stage.client();
            client.raw(sent.as_bytes());
            assert_eq!(client.answer().status, status, "{length}");
        }
        let mut client = stage.client();
        client.raw(
            format!("POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n")
                .as_bytes(),
        );
        let (interim, _) = client.head().unwrap();
        assert_eq!(interim, if status == 200 { 100 } else { 413 }, "nobody is asked for what is not taken");
        if status == 200 {
            client.raw(body(length).as_bytes());
            assert_eq!(client.answer().status, 200);
        }
    }
    // One that sends all the same still reads its answer.
    let mut client = stage.client();
    client.raw(json_body(&"x".repeat(900_000)).as_bytes());
    assert_eq!(client.answer().status, 413);
    assert!(client.is_closed());
}

#[test]
fn all_bodies_together_have_a_limit() {
    let limits = Limits { body: 10_000, bodies: 12_288, free: 0, ..Limits::default() };
    let stage = Stage::with(Setting { limits, ..Setting::default() });
    let mut held = stage.client();
    held.raw(post("content-length: 10000\r\nexpect: 100-continue\r\n", "").as_bytes());
    assert_eq!(held.head().unwrap().0, 100, "its body is being read");
    held.raw(" ".repeat(9000).as_bytes());
    let status = |headers: &[(&str, &str)]| {
        let mut client = stage.client();
        client.send("POST", "/", headers, &" ".repeat(9000));
        client.answer().status
    };
    // The first has its 9000 bytes once the second is refused; until then there is room.
    let mut tries = 0..1000;
    assert!(tries.any(|_| status(&[]) == 503), "nobody is refused");
    let operator = [("Authorization", &*stage.bearer(Scope::Operator))];
    assert_eq!(status(&operator), 200, "strangers take nothing of what is the operator's");
    held.raw(" ".repeat(1000).as_bytes());
    assert_eq!(held.answer().error(), (200, json!(-32700)));
    works(&stage);
}

#[test]
fn who_is_slow_is_let_go() {
    let short = Duration::from_millis(60);
    let limits = Limits { head: short, receive: short, ..Limits::default() };
    let stage = Stage::with(Setting { limits, ..Setting::default() });
    let slow = |sent: &str| {
        let mut client = stage.client();
        client.raw(sent.as_bytes());
        let answer = client.try_answer(true);
        assert!(client.is_closed(), "{sent}");
        answer.map(|answer| answer.status)
    };
    assert_eq!(slow("GET /health HTTP/1.1\r\nhost: loc"), Some(408), "a head");
    assert_eq!(slow(&post("content-length: 100\r\n", "{")), Some(408), "a body");
    assert_eq!(slow(&post("transfer-encoding: chunked\r\n", "1\r\n{\r\n")), Some(408), "a chunked body");
    assert_eq!(slow(""), None, "a connection without a request");
    let mut idle = stage.client();
    assert_eq!(idle.get("/health", &[]).status, 200);
    assert!(idle.is_closed(), "a connection between requests");
}

#[test]
fn a_watcher_that_takes_nothing_is_let_go_and_costs_the_others_nothing() {
    let limits = Limits { stall: Duration::from_millis(100), connections: 2, reserve: 0, ..Limits::default() };
    let stage = Stage::with(Setting { limits, ..Setting::default() });
    let stalled = stage.client().stream("stream/watch", &json!({}), &[]);
    let long = format!("say {}", format!("{} ", "x".repeat(2000)).repeat(300));
    let text = [long.as_str(); 6].join("\n");
    let params = json!({"message": {"parts": [{"text": text}]}});
    let end = stage.client().stream("message/stream", &params, &[]).last().unwrap();
    assert_eq!(end.json()["final"], true);
    // Both places are free again once the stalled one is gone.
    let token = stage.bearer(Scope::Peer);
    let mut others: Vec<Client> = Vec::new();
    while others.len() < 2 {
        let mut client = stage.client();
        match client.get("/health", &[("Authorization", &token)]).status {
            200 => others.push(client),
            status => assert_eq!(status, 503),
        }
    }
    let seen = stalled.count();
    assert!(seen > 0);
}

#[test]
fn one_connection_too_many_is_told_so() {
    let limits = Limits { connections: 2, reserve: 0, ..Limits::default() };
    let stage = Stage::with(Setting { limits, ..Setting::default() });
    let token = stage.bearer(Scope::Peer);
    let mut open: Vec<Client> = (0..2).map(|_| stage.client()).collect();
    for client in &mut open {
        assert_eq!(client.get("/health", &[("Authorization", &token)]).status, 200);
    }
    let mut refused = stage.client();
    let answer = refused.answer();
    assert_eq!((answer.status, &answer.json()["error"]["status"]), (503, &json!("UNAVAILABLE")));
    assert!(refused.is_closed());
    assert_eq!(open[0].get("/health", &[("Authorization", &token)]).status, 200);
    drop(open.pop());
    let mut again = stage.client();
    // The place is free as soon as the door has seen the other go.
    while again.get("/health", &[]).status == 503 {
        again = stage.client();
    }
}

#[test]
fn a_head_has_no_body_and_its_length() {
    let stage = Stage::open();
    let mut client = stage.client();
    client.send("HEAD", "/health", &[], "");
    let head = client.try_answer(false).unwrap();
    let whole = client.get("/health", &[]);
    assert_eq!((head.status, head.header("content-length")), (200, whole.header("content-length")));
    client.send("OPTIONS", "/rest/tasks", &[], "");
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
}
