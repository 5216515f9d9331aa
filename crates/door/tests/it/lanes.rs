//! Lanes, queue and acceptance, as a client meets them.

use door::Scope;
use runtime::Acceptance;
use serde_json::{Value, json};

use crate::client::Event;
use crate::stage::{Setting, Stage, lifecycle};

fn stage(acceptance: Acceptance, depth: usize) -> Stage {
    Stage::with(Setting { lifecycle: lifecycle(acceptance, depth), ..Setting::default() })
}

fn send(stage: &Stage, text: &str, headers: &[(&str, &str)]) -> Value {
    let params = json!({"message": {"parts": [{"text": text}]}});
    stage.client().call("message/send", &params, headers).result()
}

/// How a task that was handed in stands, and why.
fn outcome(task: &Value) -> (String, Value) {
    (task["status"]["state"].as_str().unwrap().to_owned(), task["status"]["message"]["parts"][0]["text"].clone())
}

#[test]
fn a_capsule_that_takes_one_rejects_a_second() {
    let stage = stage(Acceptance::Single, 8);
    let first = send(&stage, "wait g", &[]);
    let reason = "the capsule is busy with another task and does not queue (`lifecycle.task_acceptance: single`)";
    assert_eq!(outcome(&send(&stage, "say b", &[])), ("rejected".into(), json!(reason)));
    let params = json!({"message": {"parts": [{"text": "say b"}]}});
    let streamed: Vec<Event> = stage.client().stream("message/stream", &params, &[]).collect();
    let states: Vec<Value> = streamed.iter().map(|event| event.json()["status"]["state"].clone()).collect();
    assert_eq!(states, ["submitted", "rejected"]);
    let canceled = stage.client().call("tasks/cancel", &json!({"id": first["id"]}), &[]).result();
    assert_eq!(canceled["status"]["state"], "canceled");
    let params = json!({"message": {"parts": [{"text": "say c"}]}, "configuration": {"blocking": true}});
    assert_eq!(stage.client().call("message/send", &params, &[]).result()["status"]["state"], "completed");
}

#[test]
fn a_queue_takes_as_many_as_it_holds_and_runs_the_operator_s_first() {
    let stage = stage(Acceptance::Queue, 2);
    let params = json!({"message": {"parts": [{"text": "wait g"}]}});
    let mut first = stage.client().stream("message/stream", &params, &[]);
    first.until(|event| event.json()["status"]["state"] == "working");
    let operator = stage.bearer(Scope::Operator);
    let event = send(&stage, "say event", &[]);
    let peer = send(&stage, "say peer", &[("x-murmur-task-origin", "peer")]);
    let (state, why) = outcome(&send(&stage, "say more", &[]));
    assert_eq!(state, "rejected");
    assert_eq!(why, "the capsule is busy and its queue is full, 2 waiting already (`lifecycle.queue_depth`)");
    let user = send(&stage, "say user", &[("Authorization", &operator)]);
    let mut watch = stage.client().stream("stream/watch", &json!({}), &[]);
    watch.next();
    stage.gates.open("g");
    let mut order = Vec::new();
    while order.len() < 4 {
        let event = watch.next().unwrap();
        if event.name == "status" && event.json()["final"] == true {
            order.push(event.json()["id"].clone());
        }
    }
    assert_eq!(order[1..], [user["id"].clone(), peer["id"].clone(), event["id"].clone()]);
}

#[test]
fn a_task_that_waits_can_be_canceled() {
    let stage = stage(Acceptance::Queue, 3);
    send(&stage, "wait g", &[]);
    let waiting = send(&stage, "say b", &[]);
    let canceled = stage.client().call("tasks/cancel", &json!({"id": waiting["id"]}), &[]).result();
    assert_eq!(outcome(&canceled), ("canceled".into(), json!("the task was canceled before it began")));
}

#[test]
fn whoever_leaves_cancels_nothing() {
    let stage = stage(Acceptance::Queue, 3);
    let params = json!({"message": {"parts": [{"text": "wait g\nsay a"}]}});
    let mut own = stage.client().stream("message/stream", &params, &[]);
    let task = own.until(|event| event.json()["status"]["state"] == "working")[0].json()["id"].clone();
    drop(own);
    let mut blocking = stage.client();
    let answered = json!({"message": {"parts": [{"text": "say b"}]}, "configuration": {"blocking": true}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": answered});
    let mut watch = stage.client().stream("stream/watch", &json!({}), &[]);
    watch.next();
    blocking.send("POST", "/", &[], &call.to_string());
    watch.until(|event| event.json()["status"]["state"] == "submitted");
    drop(blocking);
    stage.gates.open("g");
    for _ in 0..2 {
        let end = watch.until(|event| event.name == "status" && event.json()["final"] == true);
        assert_eq!(end.last().unwrap().json()["status"]["state"], "completed");
    }
    let task = stage.client().call("tasks/get", &json!({"id": task}), &[]).result();
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "a");
}

#[test]
fn tasks_of_one_context_share_a_conversation() {
    let stage = stage(Acceptance::Queue, 3);
    let params = json!({"message": {"contextId": "my-talk_1", "parts": [{"text": "say a"}]}, "configuration": {"blocking": true}});
    for _ in 0..2 {
        let task = stage.client().call("message/send", &params, &[]).result();
        assert_eq!((&task["contextId"], &task["status"]["state"]), (&json!("my-talk_1"), &json!("completed")));
    }
}
