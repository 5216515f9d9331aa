//! A2A 1.0 over HTTP+JSON.
use crate::client::{Answer, Event};
use crate::stage::Stage;
use crate::v1::{V1, message};
use serde_json::{Value, json};

fn post(stage: &Stage, path: &str, body: &Value) -> Answer {
    let mut client = stage.client();
    client.send("POST", path, &[V1], &body.to_string());
    client.answer()
}

#[test]
fn a_task_from_its_message_to_its_end() {
    let stage = Stage::open();
    let sent = post(&stage, "/rest/message:send", &message("say done"));
    assert_eq!((sent.status, sent.header("content-type")), (200, Some("application/a2a+json")));
    let task = sent.json()["task"].clone();
    assert_eq!(task["artifacts"][0]["parts"], json!([{"text": "done"}]));
    let path = format!("/rest/tasks/{}", task["id"].as_str().unwrap());
    assert_eq!(stage.client().get(&path, &[V1]).json(), task);
    let short = stage.client().get(&format!("{path}?historyLength=0"), &[V1]).json();
    assert_eq!(short.get("history"), None);
    let list = stage.client().get("/rest/tasks?pageSize=10", &[V1]).json();
    assert_eq!((&list["totalSize"], &list["tasks"][0]["id"]), (&json!(1), &task["id"]));
    let mut params = message("wait g");
    params["configuration"] = json!({"returnImmediately": true});
    let open = post(&stage, "/rest/message:send", &params).json()["task"]["id"].clone();
    let cancel = format!("/rest/tasks/{}:cancel", open.as_str().unwrap());
    assert_eq!(post(&stage, &cancel, &json!({"id": open})).json()["status"]["state"], "TASK_STATE_CANCELED");
    let again = post(&stage, &cancel, &json!({}));
    assert_eq!((again.status, &again.json()["error"]["status"]), (400, &json!("FAILED_PRECONDITION")));
}

#[test]
fn a_stream_is_of_bare_events() {
    let stage = Stage::open();
    let mut client = stage.client();
    client.send("POST", "/rest/message:stream", &[V1], &message("say a").to_string());
    let events: Vec<Event> = client.events().collect();
    let names: Vec<String> =
        events.iter().map(|event| event.json().as_object().unwrap().keys().next().unwrap().clone()).collect();
    assert_eq!(names, ["task", "statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]);
    let id = events[0].json()["task"]["id"].as_str().unwrap().to_owned();
    let ended = post(&stage, &format!("/rest/tasks/{id}:subscribe"), &json!({}));
    assert_eq!((ended.status, &ended.json()["error"]["details"][0]["reason"]), (400, &json!("UNSUPPORTED_OPERATION")));
}

#[test]
fn faults_have_their_statuses() {
    let stage = Stage::open();
    let unknown = stage.client().get("/rest/tasks/nope", &[V1]);
    assert_eq!(
        (unknown.status, unknown.json()),
        (
            404,
            json!({"error": {
                "code": 404,
                "status": "NOT_FOUND",
                "message": "there is no task `nope` in this session",
                "details": [{
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                    "metadata": {},
                }],
            }})
        )
    );
    for (path, headers, status, reason) in [
        ("/rest/tasks", &[][..], 400, "VERSION_NOT_SUPPORTED"),
        ("/rest/tasks", &[("A2A-Version", "2.0")], 400, "VERSION_NOT_SUPPORTED"),
        ("/rest/tasks?pageSize=x", &[V1], 400, "INVALID_PARAMS"),
        ("/rest/tasks?pageSize=1&pageSize=2", &[V1], 400, "INVALID_PARAMS"),
        ("/rest/tasks/t/pushNotificationConfigs", &[V1], 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("/rest/extendedAgentCard", &[V1], 400, "UNSUPPORTED_OPERATION"),
    ] {
        let answer = stage.client().get(path, headers);
        assert_eq!(
            (answer.status, &answer.json()["error"]["details"][0]["reason"]),
            (status, &json!(reason)),
            "{path}"
        );
    }
    assert_eq!(
        stage.client().get("/rest/tasks?A2A-Version=1.0", &[]).status,
        200,
        "a browser's address bar sets no header"
    );
    for (body, reason) in [("[]", "INVALID_REQUEST"), ("{", "INVALID_JSON"), ("{}", "INVALID_PARAMS")] {
        let mut client = stage.client();
        client.send("POST", "/rest/message:send", &[V1], body);
        assert_eq!(client.answer().json()["error"]["details"][0]["reason"], reason, "{body}");
    }
}
