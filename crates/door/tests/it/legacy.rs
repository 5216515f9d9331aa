//! A2A 0.3 over JSON-RPC, and our own methods and frames.

use serde_json::{Value, json};

use crate::client::Event;
use crate::stage::Stage;

fn message(text: &str) -> Value {
    let parts = json!([{"kind": "text", "text": text}]);
    json!({"message": {"kind": "message", "messageId": "m1", "role": "user", "parts": parts}})
}

#[test]
fn a_message_is_answered_at_once_or_at_the_end() {
    let stage = Stage::open();
    let mut client = stage.client();
    let mut params = message("say all done");
    params["configuration"] = json!({"blocking": true});
    let task = client.call("message/send", &params, &[]).result();
    let (id, context) = (task["id"].clone(), task["contextId"].clone());
    assert_eq!(
        task,
        json!({
            "kind": "task",
            "id": id,
            "contextId": context,
            "status": {"state": "completed", "timestamp": task["status"]["timestamp"]},
            "artifacts": [
                {"artifactId": "reply", "name": "reply", "parts": [{"kind": "text", "text": "all done"}]},
            ],
            "history": [{
                "kind": "message",
                "messageId": "m1",
                "role": "user",
                "taskId": id,
                "contextId": context,
                "parts": [{"kind": "text", "text": "say all done"}],
            }],
        })
    );
    assert_eq!(client.call("tasks/get", &json!({"id": id}), &[]).result(), task);
    let open = client.call("message/send", &message("wait g"), &[("a2a-version", "0.3")]).result();
    assert!(["submitted", "working"].contains(&open["status"]["state"].as_str().unwrap()));
    let canceled = client.call("tasks/cancel", &json!({"id": open["id"]}), &[]).result();
    assert_eq!((&canceled["kind"], &canceled["status"]["state"]), (&json!("task"), &json!("canceled")));
    let fault = client.call("tasks/get", &json!({"id": "nope"}), &[]).json();
    let expected = json!({"code": -32001, "message": "there is no task `nope` in this session"});
    assert_eq!(fault, json!({"jsonrpc": "2.0", "id": 7, "error": expected}));
}

#[test]
fn a_client_of_0_3_gets_its_own_events() {
    let stage = Stage::open();
    let told = |event: &Event| {
        let result = event.json()["result"].clone();
        let kind = result["kind"].as_str().unwrap().to_owned();
        let text = result["artifact"]["parts"][0]["text"].as_str();
        let state = result["status"]["state"].as_str();
        format!("{kind} {} {}", text.or(state).unwrap(), result["final"])
    };
    let with_kind = stage.client().stream("message/stream", &message("say a"), &[]);
    let expected = [
        "task submitted null",
        "status-update working false",
        "artifact-update a null",
        "artifact-update a null",
        "status-update completed true",
    ];
    assert_eq!(with_kind.map(|event| told(&event)).collect::<Vec<String>>(), expected);
    let mut plain = message("say a");
    plain["message"].as_object_mut().unwrap().remove("kind");
    let with_version = stage.client().stream("message/stream", &plain, &[("A2A-Version", "0.3")]);
    assert_eq!(with_version.map(|event| told(&event)).collect::<Vec<String>>(), expected);
    let fault = stage.client().call("tasks/resubscribe", &json!({"id": "task_1"}), &[]);
    assert_eq!(fault.error(), (200, json!(-32001)));
}

#[test]
fn without_a_kind_a_stream_is_of_frames() {
    let stage = Stage::open();
    let params = json!({"message": {"parts": [{"text": "think hm\nsay a\ncall echo"}]}});
    let frames: Vec<Event> = stage.client().stream("message/stream", &params, &[]).collect();
    let task = frames[0].json()["id"].clone();
    let context = frames[0].json()["context_id"].clone();
    let fenced = "<untrusted-content source=tool:echo>\n{\"a\":1}\n</untrusted-content>";
    let status = |state: &str| json!({"id": task, "context_id": context, "status": {"state": state}, "final": false});
    let text = |text: &str, last: bool| json!({"id": task, "text": text, "final": last});
    let artifact = frames.iter().find(|frame| frame.name == "artifact").unwrap().json()["artifact"].clone();
    let expected = [
        ("status", status("submitted")),
        ("status", status("working")),
        ("thinking", text("hm", false)),
        ("text", text("a", false)),
        ("tool-call-started", json!({"id": task, "tool_name": "echo", "tool_call_id": "call_1"})),
        ("thinking", text("", true)),
        ("text", text("", true)),
        (
            "artifact",
            json!({"id": task, "artifact": {
                "tool_name": "echo",
                "content": fenced,
                "fence_source": "tool:echo",
                "tool_call_id": "call_1",
                "is_error": false,
                "duration_ms": artifact["duration_ms"],
                "exit_code": null,
                "truncated": false,
            }}),
        ),
        ("thinking", text("hm", false)),
        ("text", text("a", false)),
        ("thinking", text("", true)),
        ("text", text("", true)),
        (
            "status",
            json!({"id": task, "context_id": context, "status": {"state": "completed", "response": "a"}, "final": true}),
        ),
    ];
    let seen: Vec<(&str, Value)> = frames.iter().map(|frame| (frame.name.as_str(), frame.json())).collect();
    assert_eq!(seen, expected);
    let ids: Vec<u64> = frames.iter().map(|frame| frame.id.unwrap()).collect();
    assert_eq!(ids, (1..=13).collect::<Vec<u64>>());
}

#[test]
fn a_session_is_stopped_and_its_streams_are_told() {
    let stage = Stage::open();
    let mut watch = stage.client().stream("stream/watch", &json!({}), &[]);
    let ack = watch.next().unwrap();
    let expected = json!({"role": "observer", "conversation_mode": "threaded"});
    assert_eq!((ack.id, ack.name.as_str(), ack.json()), (None, "connection-ack", expected));
    let stopped = stage.client().call("session/stop", &json!({}), &[]).result();
    assert_eq!(stopped, json!({"session_id": stage.session.info().session, "status": "ending"}));
    let closed = watch.next().unwrap();
    assert_eq!((closed.name.as_str(), closed.data.as_str()), ("capsule-closed", "{}"));
    assert_eq!(watch.next(), None);
}
