//! The order of the control surface's checks: every two faults at once, generated from one table.

use serde_json::json;

use crate::client::Answer;
use crate::control::{Ask, CAP, DRIVER, KEY, all, ok, refused, steered};
use crate::stage::Stage;

/// A way to be wrong.
struct Fault {
    reason: &'static str,
    status: u16,
    /// Faults of one step exclude each other: a request has one path, one body.
    step: u8,
    make: fn(&mut Ask),
}

const fn fault(step: u8, status: u16, reason: &'static str, make: fn(&mut Ask)) -> Fault {
    Fault { reason, status, step, make }
}

const TOKEN: Fault = fault(1, 401, "unauthenticated", |ask| ask.shown.clear());
const METHOD: Fault = fault(3, 405, "method_not_allowed", |ask| ask.method = "POST");
const MISSING: Fault = fault(5, 422, "missing_body", |ask| (ask.length, ask.body) = (Some(Some(0)), Vec::new()));
const CUT: Fault = fault(7, 400, "truncated_body", |ask| ask.cut = true);

/// In the order of the contract; of what it leaves open, in that of the decisions.
const OF_SETTING: &[Fault] = &[
    TOKEN,
    fault(2, 404, "unknown_path", |ask| ask.path = "/control/setting/inference.driver".to_owned()),
    fault(2, 404, "undeclared_setting", |ask| ask.path = "/control/settings/inference.model".to_owned()),
    METHOD,
    fault(5, 413, "body_too_large", |ask| ask.length = Some(Some(1025))),
    MISSING,
    fault(6, 415, "unsupported_media_type", |ask| ask.media_type = Some("text/plain")),
    CUT,
    fault(8, 422, "invalid_value", |ask| ask.body = b"no json".to_vec()),
    fault(8, 422, "undeclared_driver", |ask| ask.body = br#"{"value":"nobody"}"#.to_vec()),
    fault(8, 409, "credential_unresolvable", |ask| ask.body = br#"{"value":"lost"}"#.to_vec()),
];

const OF_SECRET: &[Fault] = &[
    TOKEN,
    fault(2, 404, "unknown_path", |ask| ask.path = "/control/secret/KEY".to_owned()),
    fault(2, 404, "undeclared_secret", |ask| ask.path = "/control/secrets/HOME".to_owned()),
    METHOD,
    fault(5, 413, "body_too_large", |ask| ask.length = Some(Some(8193))),
    MISSING,
    CUT,
    fault(8, 422, "invalid_value", |ask| ask.body = b"a\nb".to_vec()),
];

/// What a refusal names, by what was asked.
fn named<'a>(ask: &'a Ask, reason: &str) -> Option<(&'static str, &'a str)> {
    if matches!(reason, "unauthenticated" | "unknown_path") {
        return None;
    }
    let setting = ask.path.strip_prefix("/control/settings/").map(|name| ("setting", name));
    setting.or_else(|| ask.path.strip_prefix("/control/secrets/").map(|name| ("secret", name)))
}

/// Each fault alone, then every two: the earlier is the answer.
fn pairwise(stage: &Stage, good: &Ask, faults: &[Fault]) {
    ok(&good.send(stage));
    let mut tried = 0;
    for (index, first) in faults.iter().enumerate() {
        for second in &faults[index..] {
            let mut ask = good.clone();
            if second.reason != first.reason {
                if second.step == first.step {
                    continue;
                }
                (second.make)(&mut ask);
            }
            (first.make)(&mut ask);
            refused(stage, &ask, (first.status, first.reason), named(&ask, first.reason));
            tried += 1;
        }
    }
    assert!(tried > faults.len() * 2, "{tried}");
    ok(&good.send(stage));
}

#[test]
fn of_a_setting() {
    let stage = steered(all());
    pairwise(&stage, &Ask::set(&stage, DRIVER, &json!("cheap")), OF_SETTING);
    // The one that the other setting alone has.
    let cap = fault(8, 422, "no_input_budget", |ask| ask.body = br#"{"value":2000}"#.to_vec());
    for first in OF_SETTING.iter().filter(|first| first.step < 8) {
        let mut ask = Ask::set(&stage, CAP, &json!(5));
        (cap.make)(&mut ask);
        (first.make)(&mut ask);
        refused(&stage, &ask, (first.status, first.reason), named(&ask, first.reason));
    }
}

#[test]
fn of_a_secret() {
    let stage = steered(all());
    pairwise(&stage, &Ask::inject(&stage, KEY, b"v"), OF_SECRET);
}

#[test]
fn of_a_secret_to_forget() {
    let stage = steered(all());
    ok(&Ask::inject(&stage, KEY, b"v").send(&stage));
    ok(&Ask::set(&stage, DRIVER, &json!("keyed")).send(&stage));
    for first in OF_SECRET.iter().filter(|fault| fault.step <= 5 && fault.reason != "missing_body") {
        let mut ask = Ask::new(&stage, "DELETE", KEY);
        (first.make)(&mut ask);
        refused(&stage, &ask, (first.status, first.reason), named(&ask, first.reason));
    }
    refused(&stage, &Ask::new(&stage, "DELETE", KEY), (409, "in_use"), Some(("secret", "KEY")));
}

/// Before all of them: for whom the request is meant, and whether there is a surface at all.
#[test]
fn of_what_comes_before() {
    let (with, without) = (steered(all()), steered(runtime::ControlDeclared::default()));
    for first in OF_SETTING {
        let mut ask = Ask::set(&with, DRIVER, &json!("cheap"));
        (first.make)(&mut ask);
        let send = |stage: &Stage, head: &str| -> Answer {
            let mut client = stage.client();
            let text = String::from_utf8(ask.bytes()).unwrap().replacen("host: localhost\r\n", head, 1);
            client.raw(text.as_bytes());
            client.half_close();
            client.answer()
        };
        assert_eq!(send(&without, "host: localhost\r\n").status, 404, "{}", first.reason);
        for stage in [&with, &without] {
            assert_eq!(send(stage, "host: evil.example\r\n").status, 421, "{}", first.reason);
            assert_eq!(send(stage, "host: localhost\r\norigin: null\r\n").status, 403, "{}", first.reason);
        }
    }
    assert!(with.trace("control_refused").is_empty() && without.trace("control_refused").is_empty());
}
