//! Who may do what: tokens and methods, one table; and where a request may come from.

use door::Scope;
use runtime::Caller;
use serde_json::{Value, json};
use vocab::{Origin, Trust};

use crate::client::Answer;
use crate::stage::{Setting, Stage};

fn guarded() -> Stage {
    Stage::with(Setting { authentication: true, ..Setting::default() })
}

const NOBODY: &str = "task_00000000000000000000000000000000";

/// How each of the four is answered: the HTTP status, which tells whether a call was let in.
fn statuses(stage: &Stage, mut ask: impl FnMut(&[(&str, &str)]) -> Answer) -> [u16; 4] {
    let operator = stage.bearer(Scope::Operator);
    let peer = stage.bearer(Scope::Peer);
    let diagnostics = stage.bearer(Scope::Diagnostics);
    [
        ask(&[("Authorization", &operator)]).status,
        ask(&[("Authorization", &peer)]).status,
        ask(&[("Authorization", &diagnostics)]).status,
        ask(&[]).status,
    ]
}

#[test]
fn each_token_opens_its_own_methods() {
    let stage = guarded();
    let all = [200, 200, 200, 401];
    let no_diagnostics = [200, 200, 403, 401];
    let no_peer = [200, 403, 200, 401];
    for (method, expected) in [
        ("SendMessage", no_diagnostics),
        ("SendStreamingMessage", no_diagnostics),
        ("GetTask", all),
        ("ListTasks", all),
        ("CancelTask", no_diagnostics),
        ("SubscribeToTask", no_diagnostics),
        ("GetExtendedAgentCard", no_diagnostics),
        ("CreateTaskPushNotificationConfig", no_diagnostics),
        ("message/send", no_diagnostics),
        ("message/stream", no_diagnostics),
        ("tasks/get", all),
        ("tasks/cancel", no_diagnostics),
        ("tasks/resubscribe", no_diagnostics),
        ("no/such/method", all),
    ] {
        let version = if method.contains('/') { "0.3" } else { "1.0" };
        let seen = statuses(&stage, |headers| {
            let mut headers = headers.to_vec();
            headers.push(("A2A-Version", version));
            stage.client().call(method, &json!({"id": NOBODY}), &headers)
        });
        assert_eq!(seen, expected, "{method}");
    }
    let watched = statuses(&stage, |headers| {
        let mut client = stage.client();
        client.send("POST", "/", headers, &json!({"jsonrpc": "2.0", "id": 1, "method": "stream/watch"}).to_string());
        client.try_answer(false).unwrap()
    });
    assert_eq!(watched, no_peer, "stream/watch");
    for (path, expected) in [
        ("/rest/tasks", all),
        ("/rest/extendedAgentCard", [400, 400, 403, 401]),
        ("/rest/tasks/nope", [404, 404, 404, 401]),
        ("/health", [200, 200, 200, 200]),
        ("/.well-known/agent-card.json", [200, 200, 200, 200]),
        ("/control/inference", [404, 404, 404, 404]),
    ] {
        let seen = statuses(&stage, |headers| {
            let mut headers = headers.to_vec();
            headers.push(("A2A-Version", "1.0"));
            stage.client().get(path, &headers)
        });
        assert_eq!(seen, expected, "{path}");
    }
    // Last, since the first to be let in ends the session.
    let mut stopped = statuses(&stage, |headers| {
        if headers.first().is_some_and(|(_, token)| token.contains("door1")) {
            return stage.client().get("/health", headers);
        }
        stage.client().call("session/stop", &json!({}), headers)
    });
    assert_eq!(stage.session.status(), "idle");
    let operator = stage.bearer(Scope::Operator);
    stopped[0] = stage.client().call("session/stop", &json!({}), &[("Authorization", &operator)]).status;
    assert_eq!(stopped, [200, 403, 403, 401], "session/stop");
    assert_eq!(stage.session.status(), "ending");
}

#[test]
fn a_token_that_is_none_is_never_as_good_as_none() {
    let operator = |stage: &Stage| stage.bearer(Scope::Operator);
    for authentication in [true, false] {
        let stage = Stage::with(Setting { authentication, ..Setting::default() });
        let (good, other) = (operator(&stage), operator(&Stage::open()));
        let ask = |headers: &[(&str, &str)]| stage.client().call("tasks/get", &json!({"id": NOBODY}), headers);
        let lower = good.replacen("Bearer ", "bearer   ", 1);
        let without = if authentication { 401 } else { 200 };
        for (headers, expected) in [
            (vec![("Authorization", good.as_str())], 200),
            (vec![("authorization", lower.as_str())], 200),
            (vec![], without),
            (vec![("Authorization", "Basic bXVyOm11cg==")], without),
            (vec![("Authorization", other.as_str())], 401),
            (vec![("Authorization", "Bearer door1.e30.AAAA")], 401),
            (vec![("Authorization", "Bearer ")], 401),
            (vec![("Authorization", good.as_str()), ("Authorization", good.as_str())], 401),
            (vec![("Authorization", good.as_str()), ("Authorization", "Basic bXVyOm11cg==")], 401),
        ] {
            let answer = ask(&headers);
            assert_eq!(answer.status, expected, "{authentication} {headers:?}");
            let challenge = (expected == 401).then_some("Bearer");
            assert_eq!(answer.header("www-authenticate"), challenge, "{headers:?}");
        }
        assert_eq!(stage.client().get("/health", &[("Authorization", &other)]).status, 401);
    }
}

#[test]
fn nothing_tells_a_stranger_whether_a_task_exists() {
    let stage = guarded();
    let operator = stage.bearer(Scope::Operator);
    let params = json!({"message": {"parts": [{"text": "say a"}]}, "configuration": {"blocking": true}});
    let task = stage.client().call("message/send", &params, &[("Authorization", &operator)]).result()["id"].clone();
    let ask = |id: &str| {
        let mut answer = stage.client().call("tasks/get", &json!({"id": id}), &[]);
        let rest = stage.client().get(&format!("/rest/tasks/{id}"), &[("A2A-Version", "1.0")]);
        answer.body.extend(rest.body);
        (answer.status, rest.status, answer.body)
    };
    assert_eq!(ask(task.as_str().unwrap()), ask("nope"));
    let peer = stage.bearer(Scope::Peer);
    let hidden = stage.client().call("tasks/get", &json!({"id": task}), &[("Authorization", &peer)]);
    let unknown = stage.client().call("tasks/get", &json!({"id": NOBODY}), &[("Authorization", &peer)]);
    assert_eq!((hidden.error(), unknown.error()), ((200, json!(-32001)), (200, json!(-32001))));
}

#[test]
fn a_peer_sees_its_own_tasks_alone() {
    let stage = guarded();
    let (operator, peer, diagnostics) =
        (stage.bearer(Scope::Operator), stage.bearer(Scope::Peer), stage.bearer(Scope::Diagnostics));
    let params = json!({"message": {"parts": [{"text": "say a"}]}, "configuration": {"blocking": true}});
    let send =
        |token: &str| stage.client().call("message/send", &params, &[("Authorization", token)]).result()["id"].clone();
    let (of_operator, of_peer) = (send(&operator), send(&peer));
    let list = |token: &str| -> Vec<Value> {
        let answer = stage.client().call("ListTasks", &json!({}), &[("Authorization", token), ("A2A-Version", "1.0")]);
        answer.result()["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()).collect()
    };
    assert_eq!(list(&peer), std::slice::from_ref(&of_peer));
    assert_eq!(list(&operator), [of_peer.clone(), of_operator.clone()]);
    assert_eq!(list(&diagnostics), [of_peer, of_operator]);
}

#[test]
fn the_extended_health_is_for_those_who_may_look() {
    let stage = guarded();
    let session = &stage.session.info().session;
    let plain = json!({"ok": true, "session_id": session, "status": "idle"});
    let health = |token: &str| stage.client().get("/health", &[("Authorization", token)]).json();
    assert_eq!(stage.client().get("/health", &[]).json(), plain);
    assert_eq!(health(&stage.bearer(Scope::Peer)), plain);
    let mut extended = plain;
    for (key, value) in [
        ("capsule", json!("fake")),
        ("version", json!("1.2.3")),
        ("tasks_waiting", json!(0)),
        ("tasks_working", json!(0)),
        ("last_frame_id", json!(0)),
    ] {
        extended[key] = value;
    }
    assert_eq!(health(&stage.bearer(Scope::Diagnostics)), extended);
    assert_eq!(health(&stage.bearer(Scope::Operator)), extended);
}

#[test]
fn origin_and_class_follow_from_the_token_and_the_claim() {
    let stage = Stage::open();
    let peer = ("x-murmur-task-origin", "peer");
    let trusted = ("x-murmur-task-trust", "trusted");
    let bearer = |scope| ("Authorization", stage.bearer(scope));
    let (operator, other) = (bearer(Scope::Operator), bearer(Scope::Peer));
    let (operator, other) = ((operator.0, operator.1.as_str()), (other.0, other.1.as_str()));
    for (headers, expected) in [
        (vec![], (Origin::Event, Trust::Untrusted)),
        (vec![peer, trusted], (Origin::Peer, Trust::Untrusted)),
        (vec![("x-murmur-task-origin", "user"), trusted], (Origin::Event, Trust::Untrusted)),
        (vec![operator], (Origin::User, Trust::Trusted)),
        (vec![other], (Origin::Event, Trust::Untrusted)),
        (vec![other, peer, trusted], (Origin::Peer, Trust::Trusted)),
        (vec![other, peer], (Origin::Peer, Trust::Untrusted)),
        (vec![other, peer, peer, trusted], (Origin::Event, Trust::Untrusted)),
    ] {
        let params = json!({"message": {"parts": [{"text": "say a"}]}});
        let id = stage.client().call("message/send", &params, &headers).result()["id"].clone();
        let view = stage.session.task(Caller::Operator, &id.as_str().unwrap().parse().unwrap()).unwrap();
        assert_eq!((view.origin, view.trust), expected, "{headers:?}");
    }
}

#[test]
fn other_names_and_other_origins_are_kept_out_before_everything() {
    let stage = guarded();
    let port = stage.door.as_ref().unwrap().address().port();
    let own = format!("http://127.0.0.1:{port}");
    for (host, origin, expected) in [
        (format!("127.0.0.1:{port}"), None, 200),
        (format!("localhost:{port}"), None, 200),
        ("localhost".to_owned(), None, 200),
        (format!("127.0.0.1:{port}"), Some(own.as_str()), 200),
        (format!("evil.example:{port}"), None, 421),
        (format!("127.0.0.1:{port}"), Some("http://evil.example"), 403),
        (format!("127.0.0.1:{port}"), Some("null"), 403),
        (format!("127.0.0.1:{port}"), Some("http://localhost:1"), 403),
    ] {
        let origin_line = origin.map_or_else(String::new, |origin| format!("origin: {origin}\r\n"));
        for path in ["/health", "/no/such/path", "/rest/tasks"] {
            let mut client = stage.client();
            client.raw(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{origin_line}\r\n").as_bytes());
            let answer = client.answer();
            let inside = match path {
                "/health" => 200,
                "/rest/tasks" => 401,
                _ => 404,
            };
            let expected = if expected == 200 { inside } else { expected };
            assert_eq!(answer.status, expected, "{path} {host} {origin:?}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
}
