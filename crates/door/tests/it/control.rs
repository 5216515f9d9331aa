//! The control surface: its token, its resources, and each row of its table of refusals by name.

use door::Scope;
use runtime::{ControlDeclared, Setting};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::stage::{self, Stage};

/// Everything that can be declared.
pub(crate) fn all() -> ControlDeclared {
    ControlDeclared {
        settings: vec![Setting::MaxTokens, Setting::Driver],
        secrets: vec!["KEY".into(), "OTHER".into()],
        agent_settings: Vec::new(),
    }
}

pub(crate) fn steered(control: ControlDeclared) -> Stage {
    Stage::with(stage::Setting { control, ..stage::Setting::default() })
}

pub(crate) const CAP: &str = "/control/settings/inference.max_tokens";
pub(crate) const DRIVER: &str = "/control/settings/inference.driver";
pub(crate) const KEY: &str = "/control/secrets/KEY";

/// A request, part by part, so that each can be wrong by itself.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// The `Authorization` header lines.
    pub(crate) shown: Vec<String>,
    pub(crate) media_type: Option<&'static str>,
    pub(crate) body: Vec<u8>,
    /// What `content-length` says, if not the truth; `None` in it leaves the header out.
    pub(crate) length: Option<Option<usize>>,
    /// Whether half of the body is sent and then the sending half is closed.
    pub(crate) cut: bool,
}

impl Ask {
    pub(crate) fn new(stage: &Stage, method: &'static str, path: &str) -> Self {
        let shown = vec![stage.bearer(Scope::Control)];
        let (path, body) = (path.to_owned(), Vec::new());
        Self { method, path, shown, media_type: None, body, length: Some(None), cut: false }
    }

    /// A change of a setting.
    pub(crate) fn set(stage: &Stage, path: &str, value: &Value) -> Self {
        let body = json!({"value": value}).to_string().into_bytes();
        Self { media_type: Some("application/json"), body, length: None, ..Self::new(stage, "PUT", path) }
    }

    /// The injection of a secret.
    pub(crate) fn inject(stage: &Stage, path: &str, value: &[u8]) -> Self {
        Self { body: value.to_owned(), length: None, ..Self::new(stage, "PUT", path) }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nhost: localhost\r\n", self.method, self.path);
        for shown in &self.shown {
            text.push_str(&format!("authorization: {shown}\r\n"));
        }
        if let Some(media_type) = self.media_type {
            text.push_str(&format!("content-type: {media_type}\r\n"));
        }
        if let Some(length) = self.length.unwrap_or(Some(self.body.len())) {
            text.push_str(&format!("content-length: {length}\r\n"));
        }
        let sent = if self.cut { self.body.len() / 2 } else { self.body.len() };
        [text.as_bytes(), b"\r\n", &self.body[..sent]].concat()
    }

    pub(crate) fn on(&self, client: &mut Client) -> Answer {
        client.raw(&self.bytes());
        if self.cut {
            client.half_close();
        }
        client.answer()
    }

    pub(crate) fn send(&self, stage: &Stage) -> Answer {
        self.on(&mut stage.client())
    }
}

/// A token as the trace names it.
pub(crate) fn token_id(bearer: &str) -> String {
    let token = bearer.strip_prefix("Bearer ").unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
    digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields of a line that are its own.
pub(crate) fn own(line: &Value) -> Value {
    let mut line = line.clone();
    for key in ["event_type", "event_id", "parent_id", "session_id", "timestamp", "prev"] {
        line.as_object_mut().unwrap().remove(key);
    }
    line
}

pub(crate) fn ok(answer: &Answer) -> Value {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.json()
}

/// Sees that a request is refused as the table says, in the answer and in the trace, which gets one line.
pub(crate) fn refused(stage: &Stage, ask: &Ask, (status, reason): (u16, &str), named: Option<(&str, &str)>) -> Answer {
    let before = stage.trace("control_refused").len();
    let answer = ask.send(stage);
    assert_eq!(answer.status, status, "{reason}: {answer:?}");
    let body = answer.json();
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(1), "{body}");
    assert!(body["error"].as_str().is_some_and(|sentence| !sentence.is_empty() && !sentence.contains('\n')), "{body}");
    let mut line = json!({"principal": "controller", "status": status, "reason": reason});
    if reason != "unauthenticated" {
        line["token_id"] = token_id(&ask.shown[0]).into();
    }
    if let Some((kind, name)) = named {
        line["kind"] = kind.into();
        line["name"] = name.into();
    }
    let lines = stage.trace("control_refused");
    assert_eq!(lines.len(), before + 1, "{reason}");
    assert_eq!(own(&lines[before]), line);
    answer
}

fn sentence(answer: &Answer) -> String {
    answer.json()["error"].as_str().unwrap().to_owned()
}

const OF_CAP: Option<(&str, &str)> = Some(("setting", "inference.max_tokens"));
const OF_DRIVER: Option<(&str, &str)> = Some(("setting", "inference.driver"));
const OF_KEY: Option<(&str, &str)> = Some(("secret", "KEY"));

#[test]
fn the_whole_of_it_is_read_changed_and_read_again() {
    let stage = steered(all());
    let token = token_id(&stage.bearer(Scope::Control));
    let choice = |name: &str, available: bool| json!({"name": name, "driver": "fake", "model": "fake-1", "available": available});
    let view = |cap: u32, driver: &str, set: bool| {
        json!({
            "session_id": stage.session.info().session,
            "settings": [
                {"name": "inference.max_tokens", "value": cap},
                {"name": "inference.driver", "value": driver, "choices": [
                    choice("primary", true), choice("cheap", true), choice("keyed", set), choice("lost", false),
                ]},
            ],
            "secrets": [{"name": "KEY", "set": set}, {"name": "OTHER", "set": false}],
        })
    };
    let mut client = stage.client();
    let mut done = |ask: Ask| ok(&ask.on(&mut client));
    let get = || Ask::new(&stage, "GET", "/control");
    assert_eq!(done(get()), view(100, "primary", false));
    let cap = |previous: u32, value: u32| json!({"name": "inference.max_tokens", "previous": previous, "value": value, "applies_from": "next_inference_call"});
    assert_eq!(done(Ask::set(&stage, CAP, &json!(60))), cap(100, 60));
    assert_eq!(done(Ask::set(&stage, CAP, &json!(60))), cap(60, 60));
    let secret = |replaced: bool| json!({"name": "KEY", "set": true, "replaced": replaced});
    assert_eq!(done(Ask::inject(&stage, KEY, b" a value, with spaces ")), secret(false));
    assert_eq!(done(Ask::inject(&stage, KEY, b"another")), secret(true));
    let driver = json!({"name": "inference.driver", "previous": "primary", "value": "keyed", "applies_from": "next_inference_call"});
    assert_eq!(done(Ask::set(&stage, DRIVER, &json!("keyed"))), driver);
    assert_eq!(done(get()), view(60, "keyed", true));
    done(Ask::set(&stage, DRIVER, &json!("primary")));
    for _ in 0..2 {
        assert_eq!(done(Ask::new(&stage, "DELETE", KEY)), json!({"name": "KEY", "set": false}));
    }
    assert_eq!(done(get()), view(60, "primary", false));

    let by = |mut line: Value| {
        line["principal"] = "controller".into();
        line["token_id"] = token.as_str().into();
        line
    };
    let setting = |name: &str, previous: Value, value: Value| {
        by(json!({
            "kind": "setting", "name": name, "action": "set", "previous": previous, "value": value,
            "applies_from": "next_inference_call",
        }))
    };
    let injected = |replaced: bool| by(json!({"kind": "secret", "name": "KEY", "action": "set", "replaced": replaced}));
    let forgotten = by(json!({"kind": "secret", "name": "KEY", "action": "forget"}));
    let changes: Vec<Value> = stage.trace("control_change").iter().map(own).collect();
    let expected = [
        setting("inference.max_tokens", json!(100), json!(60)),
        setting("inference.max_tokens", json!(60), json!(60)),
        injected(false),
        injected(true),
        setting("inference.driver", json!("primary"), json!("keyed")),
        setting("inference.driver", json!("keyed"), json!("primary")),
        forgotten.clone(),
        forgotten,
    ];
    assert_eq!(changes, expected);
    assert!(stage.trace("control_refused").is_empty());
}

#[test]
fn no_control_block_is_404_whoever_asks_and_leaves_no_line() {
    let agents_alone = ControlDeclared { agent_settings: vec![Setting::Driver], ..ControlDeclared::default() };
    for declared in [ControlDeclared::default(), agents_alone] {
        let stage = steered(declared);
        for path in ["/control", "/control/", "/control/events", CAP, KEY, "/control/no/such"] {
            for method in ["GET", "PUT", "DELETE", "BREW"] {
                let with = Ask::new(&stage, method, path);
                let without = Ask { shown: Vec::new(), ..with.clone() };
                for ask in [with, without] {
                    let answer = ask.send(&stage);
                    let body = json!({"error": "this capsule has no control surface"});
                    assert_eq!((answer.status, answer.json()), (404, body), "{ask:?}");
                }
            }
        }
        assert!(stage.trace("control_refused").is_empty());
    }
}

#[test]
fn unauthenticated() {
    let stage = steered(all());
    let other = steered(all()).bearer(Scope::Control);
    let good = stage.bearer(Scope::Control);
    let get = Ask::new(&stage, "GET", "/control");
    let mut no_tokens = vec![
        vec![],
        vec!["Basic bXVyOm11cg==".to_owned()],
        vec!["Bearer".to_owned()],
        vec!["Bearer ctl1.e30.AAAA".to_owned()],
        vec![other],
        vec![good.clone(), good.clone()],
        vec![good.replacen("ctl1", "door1", 1)],
        vec![format!("{good}x")],
    ];
    for scope in [Scope::Operator, Scope::Diagnostics, Scope::Peer] {
        let token = stage.bearer(scope);
        no_tokens.push(vec![token.replacen(scope.tag(), "ctl1", 1)]);
        no_tokens.push(vec![token]);
    }
    for shown in no_tokens {
        let answer = refused(&stage, &Ask { shown, ..get.clone() }, (401, "unauthenticated"), None);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"murmur-control\""));
    }
    for shown in [good.clone(), good.replacen("Bearer ", "bEARER   ", 1)] {
        ok(&Ask { shown: vec![shown], ..get.clone() }.send(&stage));
    }
}

#[test]
fn the_control_token_opens_nothing_else() {
    let stage = steered(all());
    let control = stage.bearer(Scope::Control);
    let headers = [("authorization", control.as_str()), ("a2a-version", "1.0")];
    for path in ["/rest/tasks", "/health"] {
        assert_eq!(stage.client().get(path, &headers).status, 403, "{path}");
    }
    for method in ["ListTasks", "session/stop"] {
        assert_eq!(stage.client().call(method, &json!({}), &headers).status, 403, "{method}");
    }
    let operator = stage.bearer(Scope::Operator);
    let headers = [("authorization", operator.as_str()), ("a2a-version", "1.0")];
    assert_eq!(stage.client().get("/rest/tasks", &headers).status, 200);
    assert_eq!(stage.session.status(), "idle");
}

#[test]
fn unknown_path() {
    let stage = steered(all());
    for path in ["/control/", "/control/settings", "/control/secrets/", "/control/KEY", "/control/secrets/KEY/x"] {
        refused(&stage, &Ask::new(&stage, "GET", path), (404, "unknown_path"), None);
    }
    ok(&Ask::new(&stage, "GET", "/control").send(&stage));
    ok(&Ask::new(&stage, "GET", "/control?whatever").send(&stage));
}

#[test]
fn undeclared_setting() {
    let declared = ControlDeclared { agent_settings: vec![Setting::Driver], ..all() };
    let stage = steered(ControlDeclared { settings: vec![Setting::MaxTokens], ..declared });
    for name in ["inference.driver", "inference.model", "INFERENCE.MAX_TOKENS", "KEY"] {
        let ask = Ask::set(&stage, &format!("/control/settings/{name}"), &json!("cheap"));
        let answer = refused(&stage, &ask, (404, "undeclared_setting"), Some(("setting", name)));
        assert_eq!(sentence(&answer), format!("`{name}` is not a setting that this capsule lets a controller change"));
    }
    ok(&Ask::set(&stage, "/control/settings/inference%2emax_tokens", &json!(5)).send(&stage));
}

#[test]
fn undeclared_secret() {
    let stage = steered(all());
    for (path, name) in
        [("HOME", "HOME"), ("key", "key"), ("inference.driver", "inference.driver"), ("%FF", "\u{fffd}")]
    {
        let path = format!("/control/secrets/{path}");
        for ask in [Ask::inject(&stage, &path, b"v"), Ask::new(&stage, "DELETE", &path)] {
            refused(&stage, &ask, (404, "undeclared_secret"), Some(("secret", name)));
        }
    }
    ok(&Ask::inject(&stage, "/control/secrets/%4BEY", b"v").send(&stage));
}

#[test]
fn method_not_allowed() {
    let stage = steered(all());
    for (path, named, allow) in [
        ("/control", None, "GET"),
        ("/control/events", None, "GET"),
        (CAP, OF_CAP, "PUT"),
        (DRIVER, OF_DRIVER, "PUT"),
        (KEY, OF_KEY, "PUT, DELETE"),
    ] {
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "put"] {
            if allow.split(", ").any(|allowed| allowed == method) {
                continue;
            }
            let answer = refused(&stage, &Ask::new(&stage, method, path), (405, "method_not_allowed"), named);
            assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
        }
    }
}

/// A way to this machine that is not loopback, if it has one. Nothing is sent.
fn outward() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

/// A caller at this machine's loopback that comes from one of its other addresses.
fn from(source: std::net::IpAddr, door: std::net::SocketAddr) -> Client {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket(family, SocketType::STREAM, None).unwrap();
    bind(&fd, &std::net::SocketAddr::new(source, 0)).unwrap();
    connect(&fd, &door).unwrap();
    Client::over(std::net::TcpStream::from(fd), door)
}

/// Where a host has no address but loopback, there is nobody to refuse: the check's own tests hold there.
#[test]
fn not_loopback() {
    let stage = steered(all());
    let door = stage.door.as_ref().unwrap().address();
    for inside in ["127.0.0.1", "127.1.2.3"] {
        ok(&Ask::inject(&stage, KEY, b"v").on(&mut from(inside.parse().unwrap(), door)));
    }
    let Some(outward) = outward() else { return };
    for ask in [Ask::inject(&stage, KEY, b"v"), Ask::new(&stage, "DELETE", KEY)] {
        let answer = ask.on(&mut from(outward, door));
        assert_eq!(answer.status, 403, "{answer:?}");
        let lines = stage.trace("control_refused");
        assert_eq!(
            (&lines.last().unwrap()["reason"], &lines.last().unwrap()["name"]),
            (&json!("not_loopback"), &json!("KEY"))
        );
    }
    ok(&Ask::set(&stage, CAP, &json!(5)).on(&mut from(outward, door)));
    ok(&Ask::new(&stage, "GET", "/control").on(&mut from(outward, door)));
}

#[test]
fn body_too_large() {
    let stage = steered(all());
    let long = |length: usize, value: &str| {
        let body = json!({"value": value, "pad": ""}).to_string();
        let pad = "x".repeat(length - body.len());
        body.replace("\"pad\":\"\"", &format!("\"pad\":\"{pad}\"")).into_bytes()
    };
    let set = |length| Ask { body: long(length, "cheap"), ..Ask::set(&stage, DRIVER, &json!("")) };
    let answer = refused(&stage, &set(1025), (413, "body_too_large"), OF_DRIVER);
    assert_eq!(
        (answer.header("connection"), sentence(&answer).as_str()),
        (Some("close"), "the body is longer than 1024 bytes")
    );
    ok(&set(1024).send(&stage));
    let answer = refused(&stage, &Ask::inject(&stage, KEY, &[b'v'; 8193]), (413, "body_too_large"), OF_KEY);
    assert_eq!(answer.header("connection"), Some("close"));
    ok(&Ask::inject(&stage, KEY, &[b'v'; 8192]).send(&stage));
    let delete = |length| Ask { length: Some(Some(length)), ..Ask::new(&stage, "DELETE", KEY) };
    refused(&stage, &delete(8193), (413, "body_too_large"), OF_KEY);
    ok(&delete(0).send(&stage));
}

#[test]
fn missing_body() {
    let stage = steered(all());
    for length in [None, Some(0)] {
        let set = Ask { body: Vec::new(), length: Some(length), ..Ask::set(&stage, CAP, &json!(5)) };
        refused(&stage, &set, (422, "missing_body"), OF_CAP);
        let inject = Ask { length: Some(length), ..Ask::new(&stage, "PUT", KEY) };
        refused(&stage, &inject, (422, "missing_body"), OF_KEY);
    }
    ok(&Ask::inject(&stage, KEY, b"v").send(&stage));
}

#[test]
fn unsupported_media_type() {
    let stage = steered(all());
    let typed = |media_type| Ask { media_type, ..Ask::set(&stage, CAP, &json!(5)) };
    for media_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonl")] {
        refused(&stage, &typed(media_type), (415, "unsupported_media_type"), OF_CAP);
    }
    ok(&typed(Some("application/json; charset=utf-8")).send(&stage));
    // A secret is whatever was sent, of any type.
    ok(&Ask { media_type: Some("text/plain"), ..Ask::inject(&stage, KEY, b"v") }.send(&stage));
}

#[test]
fn invalid_value() {
    let stage = steered(all());
    for value in
        [json!(0), json!(-1), json!(1.5), json!(5.0), json!(4_294_967_296_u64), json!("5"), json!(null), json!([5])]
    {
        refused(&stage, &Ask::set(&stage, CAP, &value), (422, "invalid_value"), OF_CAP);
    }
    for body in ["", "5", "[5]", "{}", r#"{"value":5"#, r#"{"value":5} 5"#, r#"{"value":5,"value":6}"#, "\u{1}"] {
        let body = if body.is_empty() { b"\xff".to_vec() } else { body.as_bytes().to_vec() };
        for (path, named) in [(CAP, OF_CAP), (DRIVER, OF_DRIVER)] {
            let ask = Ask { body: body.clone(), ..Ask::set(&stage, path, &json!(5)) };
            refused(&stage, &ask, (422, "invalid_value"), named);
        }
    }
    for value in [&b"a\nb"[..], b"a\n", b"\t", b"\0", b"\x7f", b"caf\xc3\xa9", b"\xff"] {
        refused(&stage, &Ask::inject(&stage, KEY, value), (422, "invalid_value"), OF_KEY);
    }
    ok(&Ask::set(&stage, CAP, &json!(1)).send(&stage));
    ok(&Ask { body: br#" {"why":"less","value":7} "#.to_vec(), ..Ask::set(&stage, CAP, &json!(5)) }.send(&stage));
    ok(&Ask::inject(&stage, KEY, b" ~!").send(&stage));
}

#[test]
fn no_input_budget() {
    let stage = steered(all());
    for cap in [2000_u32, 2001, 4000, u32::MAX] {
        // Of several choices the first in the order of declaration.
        let (name, window) = if cap < 4000 { ("cheap", 2000) } else { ("primary", 4000) };
        let answer = refused(&stage, &Ask::set(&stage, CAP, &json!(cap)), (422, "no_input_budget"), OF_CAP);
        assert_eq!(
            sentence(&answer),
            format!(
                "inference.max_tokens of {cap} leaves driver choice '{name}' no input budget: its context window is {window}"
            )
        );
    }
    ok(&Ask::set(&stage, CAP, &json!(1999)).send(&stage));
}

#[test]
fn undeclared_driver() {
    let stage = steered(all());
    for value in [json!("other"), json!("Primary"), json!(""), json!(1), json!(null), json!(["cheap"])] {
        let answer = refused(&stage, &Ask::set(&stage, DRIVER, &value), (422, "undeclared_driver"), OF_DRIVER);
        assert!(sentence(&answer).ends_with(": primary, cheap, keyed, lost"), "{answer:?}");
    }
    ok(&Ask::set(&stage, DRIVER, &json!("cheap")).send(&stage));
}

#[test]
fn credential_unresolvable() {
    let stage = steered(all());
    let set = |name: &str| Ask::set(&stage, DRIVER, &json!(name));
    for (choice, credential) in
        [("keyed", "`KEY` has not been injected"), ("lost", "`LOST_KEY` was found nowhere at launch")]
    {
        let answer = refused(&stage, &set(choice), (409, "credential_unresolvable"), OF_DRIVER);
        assert!(sentence(&answer).contains(credential), "{answer:?}");
    }
    ok(&Ask::inject(&stage, KEY, b"v").send(&stage));
    ok(&set("keyed").send(&stage));
    refused(&stage, &set("lost"), (409, "credential_unresolvable"), OF_DRIVER);
}

#[test]
fn in_use() {
    let stage = steered(all());
    ok(&Ask::inject(&stage, KEY, b"v").send(&stage));
    ok(&Ask::set(&stage, DRIVER, &json!("keyed")).send(&stage));
    let forget = Ask::new(&stage, "DELETE", KEY);
    refused(&stage, &forget, (409, "in_use"), OF_KEY);
    let view = ok(&Ask::new(&stage, "GET", "/control").send(&stage));
    assert_eq!(view["secrets"][0], json!({"name": "KEY", "set": true}), "the value is kept");
    ok(&Ask::new(&stage, "DELETE", "/control/secrets/OTHER").send(&stage));
    ok(&Ask::set(&stage, DRIVER, &json!("primary")).send(&stage));
    ok(&forget.send(&stage));
}

#[test]
fn truncated_body() {
    let stage = steered(all());
    let cut = |ask: Ask| Ask { cut: true, ..ask };
    let answer = refused(&stage, &cut(Ask::set(&stage, CAP, &json!(5))), (400, "truncated_body"), OF_CAP);
    assert_eq!(answer.header("connection"), Some("close"));
    refused(&stage, &cut(Ask::inject(&stage, KEY, b"half of it")), (400, "truncated_body"), OF_KEY);
    let view = ok(&Ask::new(&stage, "GET", "/control").send(&stage));
    assert_eq!((&view["settings"][0]["value"], &view["secrets"][0]["set"]), (&json!(100), &json!(false)));
    // A client that closes its sending half after the whole request is answered like any other.
    let mut client = stage.client();
    client.raw(&Ask::inject(&stage, KEY, b"all of it").bytes());
    client.half_close();
    ok(&client.answer());
}
