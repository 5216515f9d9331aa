//! What is left of the control surface's work: lines, events, and no secret anywhere.

use std::sync::{Barrier, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::Event;
use crate::control::{Ask, CAP, DRIVER, KEY, all, ok, own, steered};
use crate::stage::Stage;

/// Sees that each change of a setting begins where the one before it ended.
fn chain(changes: &[Value], name: &str, first: &Value) -> Vec<(Value, Value)> {
    let mut last = first.clone();
    let mut links = Vec::new();
    for change in changes.iter().filter(|change| change["name"] == name) {
        assert_eq!(change["previous"], last, "{change}");
        last = change["value"].clone();
        links.push((change["previous"].clone(), last.clone()));
    }
    links
}

#[test]
fn of_200_changes_at_once_each_is_answered_and_recorded_once_and_they_form_one_chain() {
    let stage = steered(all());
    let (barrier, answers) = (Barrier::new(200), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for index in 0..200_u32 {
            let (stage, barrier, answers) = (&stage, &barrier, &answers);
            scope.spawn(move || {
                let ask = if index % 4 == 0 {
                    Ask::set(stage, DRIVER, &json!(if index % 8 == 0 { "primary" } else { "cheap" }))
                } else {
                    Ask::set(stage, CAP, &json!(1000 + index))
                };
                let mut client = stage.client();
                barrier.wait();
                let answer = ok(&ask.on(&mut client));
                answers.lock().unwrap().push(answer);
            });
        }
    });
    let answers = answers.into_inner().unwrap();
    let changes = stage.trace("control_change");
    assert_eq!((answers.len(), changes.len()), (200, 200));
    let view = ok(&Ask::new(&stage, "GET", "/control").send(&stage));
    for (index, name, first) in [(0, "inference.max_tokens", json!(100)), (1, "inference.driver", json!("primary"))] {
        let mut recorded = chain(&changes, name, &first);
        assert_eq!(view["settings"][index]["value"], recorded.last().unwrap().1);
        let mut answered: Vec<(Value, Value)> = answers
            .iter()
            .filter(|answer| answer["name"] == name)
            .map(|answer| (answer["previous"].clone(), answer["value"].clone()))
            .collect();
        let key = |pair: &(Value, Value)| format!("{pair:?}");
        recorded.sort_by_key(key);
        answered.sort_by_key(key);
        assert_eq!(answered, recorded, "{name}");
    }
}

const MARKER: &str = "marker 7f3a+/c0ffee";

/// The forms in which a value could hide.
fn forms() -> Vec<String> {
    let hex: String = MARKER.bytes().map(|byte| format!("{byte:02x}")).collect();
    let url = MARKER.replace(' ', "%20").replace('+', "%2B").replace('/', "%2F");
    vec![MARKER.to_owned(), STANDARD.encode(MARKER).trim_end_matches('=').to_owned(), hex, url]
}

#[test]
fn a_secret_is_in_no_answer_no_line_and_no_event() {
    let mut stage = steered(all());
    let mut events = watch(&stage, stage.client());
    let at = stage.session.stream().last();
    let mut told = String::new();
    let inject = |path: &str| Ask::inject(&stage, path, MARKER.as_bytes());
    let broken = format!("{MARKER}\n");
    for ask in [
        inject(KEY),
        inject(KEY),
        inject("/control/secrets/HOME"),
        Ask::inject(&stage, KEY, broken.as_bytes()),
        Ask { cut: true, ..inject(KEY) },
        Ask { shown: Vec::new(), ..inject(KEY) },
        Ask { method: "POST", ..inject(KEY) },
        Ask { media_type: None, ..Ask::set(&stage, DRIVER, &json!(MARKER)) },
        Ask::set(&stage, DRIVER, &json!("keyed")),
        Ask::new(&stage, "GET", "/control"),
        Ask::new(&stage, "DELETE", KEY),
        Ask::set(&stage, DRIVER, &json!("primary")),
        Ask::new(&stage, "DELETE", KEY),
        // What knows it has forgotten it, and it is hidden all the same.
        Ask::set(&stage, DRIVER, &json!(MARKER)),
    ] {
        told.push_str(&format!("{:?}\n", ask.send(&stage)));
    }
    let said = format!("say the key is {MARKER}");
    let params = json!({"message": {"parts": [{"text": said}]}, "configuration": {"blocking": true}});
    stage.client().call("message/send", &params, &[]).result();
    let seen = events.until(|event| event.data.contains("forget"));
    told.push_str(&format!("{seen:?}"));
    let of_control: String =
        stage.trace_text().lines().filter(|line| line.contains("\"control_")).collect::<Vec<_>>().join("\n");
    assert!(of_control.lines().count() > 10, "{of_control}");
    stage.end();
    let (trace, frames) = (stage.trace_text(), format!("{:?}", stage.session.stream().after(at, 1000).frames));
    assert!(frames.contains("the key is [redacted]"), "{frames}");
    for form in forms() {
        for (place, text) in
            [("answers and events", &told), ("lines", &of_control), ("trace", &trace), ("frames", &frames)]
        {
            assert!(!text.contains(&form), "{place} hold `{form}`:\n{text}");
        }
    }
}

fn watch(stage: &Stage, mut client: crate::client::Client) -> crate::client::Events {
    client.raw(&Ask::new(stage, "GET", "/control/events").bytes());
    client.events()
}

#[test]
fn changes_and_what_applies_them_are_told_as_they_happen() {
    let mut stage = steered(all());
    let mut events = watch(&stage, stage.client());
    ok(&Ask::set(&stage, CAP, &json!(60)).send(&stage));
    ok(&Ask::inject(&stage, KEY, b"v").send(&stage));
    Ask::set(&stage, CAP, &json!(0)).send(&stage);
    ok(&Ask::new(&stage, "DELETE", KEY).send(&stage));
    let params = json!({"message": {"parts": [{"text": "say a"}]}, "configuration": {"blocking": true}});
    let task = stage.client().call("message/send", &params, &[]).result()["id"].clone();
    let seen: Vec<(String, Value)> = events
        .until(|event| event.name == "applied")
        .into_iter()
        .map(|event: Event| (event.name.clone(), event.json()))
        .collect();
    let changes = stage.trace("control_change");
    let id = |index: usize| changes[index]["event_id"].clone();
    let change = |index: usize, rest: Value| {
        let mut data = json!({"change_id": id(index), "principal": "controller"});
        data.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        ("change".to_owned(), data)
    };
    let expected = [
        change(
            0,
            json!({"kind": "setting", "name": "inference.max_tokens", "action": "set", "previous": 100, "value": 60}),
        ),
        change(1, json!({"kind": "secret", "name": "KEY", "action": "set"})),
        change(2, json!({"kind": "secret", "name": "KEY", "action": "forget"})),
        (
            "applied".to_owned(),
            json!({"name": "inference.max_tokens", "value": 60, "turn": 0, "task_id": task, "change_id": id(0)}),
        ),
    ];
    assert_eq!(seen, expected);
    let applied = json!({"turn": 0, "task_id": task, "name": "inference.max_tokens", "value": 60, "change_id": id(0)});
    assert_eq!(own(&stage.trace("control_applied")[0]), applied);
    // The stream ends when the door closes.
    stage.door.take().unwrap().close();
    assert_eq!(events.next(), None);
}

#[test]
fn nobody_watches_without_the_token() {
    let stage = steered(all());
    let ask = Ask { shown: Vec::new(), ..Ask::new(&stage, "GET", "/control/events") };
    assert_eq!(ask.send(&stage).status, 401);
}

/// A change that cannot be put on record, as on a full disk, is not made. Here the trace has its end, so that it
/// takes no line.
#[test]
fn what_cannot_be_recorded_is_not_done() {
    let mut stage = steered(all());
    ok(&Ask::inject(&stage, KEY, b"v").send(&stage));
    let view = || ok(&Ask::new(&stage, "GET", "/control").send(&stage));
    let before = view();
    stage.end();
    let trace = stage.trace_text();
    for ask in [
        Ask::set(&stage, CAP, &json!(60)),
        Ask::set(&stage, DRIVER, &json!("cheap")),
        Ask::inject(&stage, "/control/secrets/OTHER", b"v"),
        Ask::new(&stage, "DELETE", KEY),
        // Nor is a refusal answered that is not on record.
        Ask::set(&stage, CAP, &json!(0)),
        Ask { shown: Vec::new(), ..Ask::new(&stage, "GET", "/control") },
    ] {
        let answer = ask.send(&stage);
        assert_eq!(answer.status, 500, "{answer:?}");
        let sentence = "it cannot be put on record, so it was not done, and the session ends";
        assert_eq!(answer.json(), json!({"error": sentence}));
    }
    let after = ok(&Ask::new(&stage, "GET", "/control").send(&stage));
    assert_eq!((after, stage.trace_text()), (before, trace));
}
