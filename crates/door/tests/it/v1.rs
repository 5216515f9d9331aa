//! A2A 1.0 over JSON-RPC.

use serde_json::{Value, json};

use crate::client::{Client, Event};
use crate::stage::Stage;

pub(crate) const V1: (&str, &str) = ("A2A-Version", "1.0");

pub(crate) fn message(text: &str) -> Value {
    json!({"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

fn ask(client: &mut Client, method: &str, params: &Value) -> Value {
    client.call(method, params, &[V1]).result()
}

fn code(client: &mut Client, method: &str, params: &Value) -> Value {
    let answer = client.call(method, params, &[V1]);
    let (status, code) = answer.error();
    assert_eq!(status, 200);
    let detail = &answer.json()["error"]["data"][0];
    assert_eq!(detail["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
    assert_eq!(detail["domain"], "a2a-protocol.org");
    json!([code, detail["reason"]])
}

#[test]
fn the_card_is_one_for_both_versions() {
    let stage = Stage::open();
    let answer = stage.client().get("/.well-known/agent-card.json", &[]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let url = &stage.url;
    assert_eq!(
        answer.json(),
        json!({
            "name": "fake",
            "description": "A fake.",
            "version": "1.2.3",
            "supportedInterfaces": [
                {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
                {"url": format!("{url}/rest"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            ],
            "protocolVersion": "0.3",
            "url": url,
            "preferredTransport": "JSONRPC",
            "capabilities": {
                "streaming": true,
                "pushNotifications": false,
                "extensions": [{
                    "uri": door::TOOL_RESULTS_EXTENSION,
                    "description": "The results of tools are artifacts, with where they came from in their metadata.",
                    "required": false,
                }],
            },
            "defaultInputModes": ["text/plain", "application/json"],
            "defaultOutputModes": ["text/plain"],
            "skills": [
                {"id": "house-style", "name": "house-style", "description": "How we write.", "tags": ["murmur"]},
            ],
        })
    );
    assert_eq!(stage.client().get("/.well-known/agent.json", &[]).json(), answer.json());
}

#[test]
fn a_message_is_answered_with_the_task_that_has_ended() {
    let stage = Stage::open();
    let mut client = stage.client();
    let task = ask(&mut client, "SendMessage", &message("say all done"))["task"].clone();
    let (id, context) = (task["id"].clone(), task["contextId"].clone());
    let stamp = task["status"]["timestamp"].as_str().unwrap();
    assert!(stamp.ends_with('Z') && stamp.len() == 24, "{stamp}");
    assert_eq!(
        task,
        json!({
            "id": id,
            "contextId": context,
            "status": {"state": "TASK_STATE_COMPLETED", "timestamp": stamp},
            "artifacts": [{"artifactId": "reply", "name": "reply", "parts": [{"text": "all done"}]}],
            "history": [{
                "messageId": "m1",
                "role": "ROLE_USER",
                "taskId": id,
                "contextId": context,
                "parts": [{"text": "say all done"}],
            }],
        })
    );
    assert_eq!(ask(&mut client, "GetTask", &json!({"id": id})), task, "a bare task");
    let short = ask(&mut client, "GetTask", &json!({"id": id, "historyLength": 0}));
    assert_eq!(short.get("history"), None);
}

#[test]
fn a_message_may_ask_not_to_wait() {
    let stage = Stage::open();
    let mut client = stage.client();
    let mut params = message("wait g");
    params["configuration"] = json!({"returnImmediately": true});
    let task = ask(&mut client, "SendMessage", &params)["task"].clone();
    let state = task["status"]["state"].as_str().unwrap();
    assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state), "{state}");
    let ended = ask(&mut client, "CancelTask", &json!({"id": task["id"]}));
    assert_eq!(ended["status"]["state"], "TASK_STATE_CANCELED");
    let again = code(&mut client, "CancelTask", &json!({"id": task["id"]}));
    assert_eq!(again, json!([-32002, "TASK_NOT_CANCELABLE"]));
}

/// What a stream told, in short: the member's name and its state or text.
pub(crate) fn told(event: &Event) -> String {
    let event = event.json();
    assert_eq!((&event["jsonrpc"], &event["id"]), (&json!("2.0"), &json!(7)));
    let (name, value) = event["result"].as_object().unwrap().iter().next().unwrap();
    match name.as_str() {
        "artifactUpdate" => {
            let mark = |name: &'static str| if value[name] == true { name } else { "" };
            let text = value["artifact"]["parts"][0]["text"].as_str().unwrap();
            format!("{}:{text}:{}{}", value["artifact"]["name"].as_str().unwrap(), mark("append"), mark("lastChunk"))
        }
        _ => format!("{name} {}", value["status"]["state"].as_str().unwrap()),
    }
}

#[test]
fn a_stream_begins_with_the_task_and_closes_after_its_end() {
    let stage = Stage::open();
    let events: Vec<Event> = stage.client().stream("SendStreamingMessage", &message("say a b"), &[V1]).collect();
    let lines: Vec<String> = events.iter().map(told).collect();
    assert_eq!(
        lines,
        [
            "task TASK_STATE_SUBMITTED",
            "statusUpdate TASK_STATE_WORKING",
            "reply:a :",
            "reply:b:append",
            "reply:a b:lastChunk",
            "statusUpdate TASK_STATE_COMPLETED"
        ]
    );
    let ids: Vec<Option<u64>> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, [None, Some(2), Some(3), Some(4), None, Some(6)], "an id once all of its frame is told");
}

#[test]
fn tool_results_are_artifacts_for_those_who_name_the_extension() {
    let stage = Stage::open();
    let fenced = "<untrusted-content source=tool:echo>\n{\"a\":1}\n</untrusted-content>";
    let extension = ("A2A-Extensions", &*format!("https://example.com/other, {}", door::TOOL_RESULTS_EXTENSION));
    let artifact = json!({
        "artifactId": "tool-call_1",
        "name": "echo",
        "parts": [{"text": fenced}],
        "metadata": {"fence_source": "tool:echo", "tool_name": "echo", "tool_call_id": "call_1", "is_error": false},
        "extensions": [door::TOOL_RESULTS_EXTENSION],
    });
    let reply = json!({"artifactId": "reply", "name": "reply", "parts": [{"text": "done"}]});
    let answer = stage.client().call("SendMessage", &message("call echo\nsay done"), &[V1, extension]);
    assert_eq!(answer.header("a2a-extensions"), Some(door::TOOL_RESULTS_EXTENSION));
    let task = answer.result()["task"].clone();
    assert_eq!(task["artifacts"], json!([artifact, reply]));
    let plain = stage.client().call("GetTask", &json!({"id": task["id"]}), &[V1]);
    assert_eq!((plain.header("a2a-extensions"), &plain.result()["artifacts"]), (None, &json!([reply])));
    let stream = |headers: &[(&str, &str)]| -> Vec<String> {
        stage
            .client()
            .stream("SendStreamingMessage", &message("call echo\nsay done"), headers)
            .map(|e| told(&e))
            .collect()
    };
    assert!(stream(&[V1, extension]).contains(&format!("echo:{fenced}:lastChunk")));
    assert!(!stream(&[V1]).iter().any(|line| line.starts_with("echo")));
}

#[test]
fn a_client_that_lost_its_stream_takes_it_up_again() {
    let stage = Stage::open();
    let mut stream = stage.client().stream("SendStreamingMessage", &message("say a\nwait g\nsay b"), &[V1]);
    let seen = stream.until(|event| event.data.contains("\"a\""));
    let id = seen[0].json()["result"]["task"]["id"].clone();
    let last = seen.last().unwrap().id.unwrap().to_string();
    drop(stream);
    let resumed = stage.client().stream("SubscribeToTask", &json!({"id": id}), &[V1, ("Last-Event-ID", &last)]);
    stage.gates.open("g");
    let lines: Vec<String> = resumed.map(|event| told(&event)).collect();
    let expected = ["task TASK_STATE_WORKING", "reply:b:", "reply:ab:lastChunk", "statusUpdate TASK_STATE_COMPLETED"];
    assert_eq!(lines, expected);
    let mut client = stage.client();
    let ended = code(&mut client, "SubscribeToTask", &json!({"id": id}));
    assert_eq!(ended, json!([-32004, "UNSUPPORTED_OPERATION"]));
    let replayed = stage.client().stream("SubscribeToTask", &json!({"id": id}), &[V1, ("Last-Event-ID", &last)]);
    let end = replayed.last().unwrap();
    assert_eq!(told(&end), "statusUpdate TASK_STATE_COMPLETED");
    let all = end.id.unwrap().to_string();
    let again = stage.client().stream("SubscribeToTask", &json!({"id": id}), &[V1, ("Last-Event-ID", &all)]);
    let lines: Vec<String> = again.map(|event| told(&event)).collect();
    let expected = ["task TASK_STATE_COMPLETED", "reply:ab:lastChunk", "statusUpdate TASK_STATE_COMPLETED"];
    assert_eq!(lines, expected, "one who saw the end already does not wait for it");
}

#[test]
fn a_question_pauses_the_stream_and_a_message_answers_it() {
    let stage = Stage::open();
    let mut client = stage.client();
    let asked = ask(&mut client, "SendMessage", &message("call ask\nsay thanks"))["task"].clone();
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(asked["status"]["message"]["parts"], json!([{"text": "which one?"}]));
    let mut answer = message("the blue one");
    answer["message"]["taskId"] = asked["id"].clone();
    answer["message"]["contextId"] = "another".into();
    assert_eq!(code(&mut client, "SendMessage", &answer), json!([-32602, "INVALID_PARAMS"]));
    answer["message"]["contextId"] = asked["contextId"].clone();
    let done = ask(&mut client, "SendMessage", &answer)["task"].clone();
    assert_eq!((&done["id"], &done["status"]["state"]), (&asked["id"], &json!("TASK_STATE_COMPLETED")));
    assert_eq!(code(&mut client, "SendMessage", &answer), json!([-32004, "UNSUPPORTED_OPERATION"]));
    let stream = stage.client().stream("SendStreamingMessage", &message("call ask"), &[V1]);
    assert_eq!(stream.last().map(|event| told(&event)).unwrap(), "statusUpdate TASK_STATE_INPUT_REQUIRED");
}

#[test]
fn tasks_are_listed_newest_first_page_by_page() {
    let stage = Stage::open();
    let mut client = stage.client();
    let mut send = |text: &str, context: &str| -> Value {
        let mut params = message(text);
        params["message"]["contextId"] = context.into();
        ask(&mut client, "SendMessage", &params)["task"]["id"].clone()
    };
    let tasks: Vec<Value> = [("say 1", "a"), ("say 2", "b"), ("fail", "a"), ("say 4", "a")]
        .map(|(text, context)| send(text, context))
        .into();
    let mut list = |params: Value| ask(&mut client, "ListTasks", &params);
    let ids = |page: &Value| -> Vec<Value> {
        page["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()).collect()
    };
    let all = list(json!({}));
    assert_eq!(ids(&all), tasks.iter().rev().cloned().collect::<Vec<Value>>());
    assert_eq!((&all["totalSize"], &all["pageSize"], &all["nextPageToken"]), (&json!(4), &json!(50), &json!("")));
    assert_eq!(all["tasks"][0].get("artifacts"), None);
    let first = list(json!({"pageSize": 3, "includeArtifacts": true, "historyLength": 0}));
    assert_eq!(ids(&first), [tasks[3].clone(), tasks[2].clone(), tasks[1].clone()]);
    assert_eq!(
        (&first["tasks"][0]["artifacts"][0]["parts"], first["tasks"][0].get("history")),
        (&json!([{"text": "4"}]), None)
    );
    let second = list(json!({"pageSize": 3, "pageToken": first["nextPageToken"]}));
    assert_eq!(
        (ids(&second), &second["nextPageToken"], &second["totalSize"]),
        (vec![tasks[0].clone()], &json!(""), &json!(4))
    );
    assert_eq!(ids(&list(json!({"contextId": "b"}))), [tasks[1].clone()]);
    assert_eq!(ids(&list(json!({"status": "TASK_STATE_FAILED"}))), [tasks[2].clone()]);
    assert_eq!(ids(&list(json!({"statusTimestampAfter": "2100-01-01T00:00:00Z"}))), Vec::<Value>::new());
    for bad in [
        json!({"pageSize": 0}),
        json!({"pageSize": 101}),
        json!({"pageSize": -1}),
        json!({"pageToken": "!"}),
        json!({"status": "working"}),
        json!({"contextId": "a/b"}),
        json!({"statusTimestampAfter": "yesterday"}),
        json!({"includeArtifacts": "perhaps"}),
    ] {
        assert_eq!(code(&mut client, "ListTasks", &bad), json!([-32602, "INVALID_PARAMS"]), "{bad}");
    }
}

#[test]
fn faults_have_their_codes_and_reasons() {
    let stage = Stage::open();
    let mut client = stage.client();
    let unknown = json!({"id": "task_00000000000000000000000000000000"});
    for (method, params, expected) in [
        ("GetTask", unknown.clone(), json!([-32001, "TASK_NOT_FOUND"])),
        ("GetTask", json!({"id": "nope"}), json!([-32001, "TASK_NOT_FOUND"])),
        ("CancelTask", unknown.clone(), json!([-32001, "TASK_NOT_FOUND"])),
        ("SubscribeToTask", unknown, json!([-32001, "TASK_NOT_FOUND"])),
        ("GetTask", json!({}), json!([-32602, "INVALID_PARAMS"])),
        ("GetTask", json!([]), json!([-32602, "INVALID_PARAMS"])),
        ("SendMessage", json!({}), json!([-32602, "INVALID_PARAMS"])),
        ("GetExtendedAgentCard", json!({}), json!([-32004, "UNSUPPORTED_OPERATION"])),
        ("CreateTaskPushNotificationConfig", json!({}), json!([-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"])),
        ("Nothing", json!({}), json!([-32601, "METHOD_NOT_FOUND"])),
        ("message/send", json!({}), json!([-32601, "METHOD_NOT_FOUND"])),
    ] {
        assert_eq!(code(&mut client, method, &params), expected, "{method} {params}");
    }
    for headers in [&[][..], &[("A2A-Version", "0.3")], &[("A2A-Version", "2.0")], &[("A2A-Version", "")], &[V1, V1]] {
        let answer = client.call("GetTask", &json!({"id": "x"}), headers);
        assert_eq!(answer.error(), (200, json!(-32009)), "{headers:?}");
    }
    assert_eq!(client.call("GetTask", &json!({"id": "x"}), &[("A2A-Version", "1.0.3")]).error().1, -32001);
}
