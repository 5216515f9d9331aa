//! What many clients, or one that means ill, cannot take from the others: memory, places, the thread's time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use door::{Limits, Scope};
use runtime::Caller;
use serde_json::{Value, json};

use crate::client::Client;
use crate::stage::{Setting, Stage};
use crate::v1::{V1, message};

fn stage(limits: Limits) -> Stage {
    Stage::with(Setting { limits, ..Setting::default() })
}

/// Carries a task out that is called by its context.
fn done(stage: &Stage, context: &str, text: &str) -> Value {
    let mut params = message(text);
    params["message"]["contextId"] = context.into();
    params["configuration"] = json!({"historyLength": 0});
    stage.client().call("SendMessage", &params, &[V1]).result()["task"]["id"].clone()
}

fn listed(stage: &Stage, params: &Value) -> Value {
    stage.client().call("ListTasks", params, &[V1]).result()
}

fn contexts(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().map(|task| task["contextId"].as_str().unwrap()).collect()
}

#[test]
fn a_page_of_long_tasks_ends_early_and_goes_on() {
    let stage = stage(Limits { page: 1000, excerpt: 400, ..Limits::default() });
    // One text that is cut, one that goes beyond what a page may have, short ones.
    for (context, length) in [("a", 2), ("b", 300), ("c", 390), ("d", 5000)] {
        done(&stage, context, &format!("say {}", "x".repeat(length)));
    }
    let bare = listed(&stage, &json!({}));
    assert_eq!(contexts(&bare), ["d", "c", "b", "a"]);
    assert!(bare["tasks"].as_array().unwrap().iter().all(|task| task.get("history").is_none()), "nobody asked: {bare}");
    let asked = json!({"includeArtifacts": true, "historyLength": 1});
    let first = listed(&stage, &asked);
    assert_eq!((contexts(&first), &first["totalSize"]), (vec!["d"], &json!(4)));
    let text = &first["tasks"][0]["artifacts"][0]["parts"][0]["text"];
    assert_eq!(text, &format!("{}[4600 more bytes: ask for the task]", "x".repeat(400)));
    let mut seen = contexts(&first).join("");
    let mut token = first["nextPageToken"].clone();
    while token != "" {
        let page = listed(&stage, &json!({"includeArtifacts": true, "historyLength": 1, "pageToken": token}));
        let before = seen.len();
        seen.extend(contexts(&page));
        assert!(seen.len() > before, "each page has a task: {page}");
        token = page["nextPageToken"].clone();
    }
    assert_eq!(seen, "dcba", "each once, in order");
}

#[test]
fn a_task_that_is_longer_than_a_page_is_listed_and_had_whole_by_its_id() {
    let stage = stage(Limits { page: 100, excerpt: 80, ..Limits::default() });
    let id = done(&stage, "a", &format!("say {}", "x".repeat(500)));
    let page = listed(&stage, &json!({"includeArtifacts": true, "historyLength": 1}));
    assert_eq!((contexts(&page), &page["nextPageToken"]), (vec!["a"], &json!("")));
    let request = &page["tasks"][0]["history"][0]["parts"][0]["text"];
    assert_eq!(
        request,
        &format!("say {}[484 more bytes: ask for the task]", "x".repeat(16)),
        "what was left of the page"
    );
    let task = stage.client().call("GetTask", &json!({"id": id}), &[V1]).result();
    let whole = [&task["artifacts"][0], &task["history"][0]].map(|of| of["parts"][0]["text"].as_str().unwrap().len());
    assert_eq!(whole, [500, 504]);
}

#[test]
fn answers_that_nobody_reads_have_a_limit_and_leave_the_operator_its_part() {
    const LONG: usize = 3 << 20;
    let stage = stage(Limits { answers: 5 << 20, ..Limits::default() });
    let id = done(&stage, "a", &format!("# {}\nsay b", "x".repeat(LONG)));
    let get = |client: &mut Client, headers: &[(&str, &str)]| {
        client.send("GET", &format!("/rest/tasks/{}", id.as_str().unwrap()), headers, "");
        client.head().unwrap().0
    };
    let mut unread = stage.client();
    assert_eq!(get(&mut unread, &[V1]), 200);
    let mut other = stage.client();
    other.send("GET", &format!("/rest/tasks/{}", id.as_str().unwrap()), &[V1], "");
    let refused = other.answer();
    assert_eq!((refused.status, &refused.json()["error"]["status"]), (503, &json!("UNAVAILABLE")));
    let call = stage.client().call("GetTask", &json!({"id": id}), &[V1]);
    assert_eq!(
        (call.error(), &call.json()["error"]["data"][0]["reason"]),
        ((200, json!(-31029)), &json!("OVERLOADED"))
    );
    let short = stage.client().call("GetTask", &json!({"id": id, "historyLength": 0}), &[V1]).result();
    assert_eq!(short["contextId"], "a", "short answers need no room");
    let brief = stage.client().call("SendMessage", &message(&format!("# {}", "x".repeat(LONG))), &[V1]).result();
    let text = brief["task"]["history"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(brief["task"]["id"].is_string() && text.ends_with(" more bytes: ask for the task]"), "{}", text.len());
    let operator = stage.bearer(Scope::Operator);
    assert_eq!(get(&mut stage.client(), &[V1, ("Authorization", &operator)]), 200);
    drop(unread);
    let mut tries = 0..10_000;
    assert!(tries.any(|_| get(&mut stage.client(), &[V1]) == 200), "what a lost client held is free again");
}

#[test]
fn a_body_that_stops_short_is_let_go_long_before_a_body_must_have_come() {
    let limits = Limits { patience: Duration::from_millis(60), rate: 1, ..Limits::default() };
    let stage = stage(limits);
    let mut client = stage.client();
    client.raw(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n");
    client.raw(" ".repeat(999).as_bytes());
    let answer = client.answer();
    assert_eq!(answer.status, 408, "what came early is no credit for more than a moment");
    assert!(client.is_closed());
    assert_eq!(stage.client().call("tasks/get", &json!({"id": "x"}), &[]).error(), (200, json!(-32001)));
}

#[test]
fn the_last_places_are_for_those_in_charge() {
    let stage = stage(Limits { connections: 4, reserve: 2, ..Limits::default() });
    let mut open = [stage.client(), stage.client()];
    for client in &mut open {
        client.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\nauthorization: bearer");
    }
    let [operator, control, peer] = [Scope::Operator, Scope::Control, Scope::Peer].map(|scope| stage.bearer(scope));
    for headers in [&[][..], &[("Authorization", &*peer)], &[("Authorization", "Bearer nothing")]] {
        let mut stranger = stage.client();
        let answer = stranger.get("/health", headers);
        assert_eq!((answer.status, answer.header("connection")), (503, Some("close")), "{headers:?}");
        assert!(stranger.is_closed());
    }
    // Who says nothing makes room for the next.
    let mut silent = [stage.client(), stage.client(), stage.client(), stage.client()];
    let mut first = stage.client();
    let shown = [("Authorization", &*operator)];
    assert_eq!(first.get("/health", &shown).status, 200);
    assert_eq!(silent[0].answer().status, 503);
    assert_eq!(first.get("/health", &shown).status, 200, "it goes on");
    let mut second = stage.client();
    assert_eq!(second.get("/control", &[("Authorization", &*control)]).status, 404, "nothing is declared");
    let mut third = stage.client();
    assert_eq!(third.answer().status, 503, "two are in charge already");
    let answer = first.get("/health", &[]);
    assert_eq!((answer.status, answer.header("connection")), (503, Some("close")), "each request shows the token");
}

/// In a process of its own, which may have few files open.
#[test]
fn connections_leave_files_for_the_work_where_few_may_be_open() {
    let mut served = Command::new("sh")
        .args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "crowd::few_files", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(served.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = said.filter_map(|line| line.split_once("at ").map(|(_, rest)| rest.to_owned()));
    let (address, operator) = said.next().unwrap().split_once(' ').map(|(a, o)| (a.to_owned(), o.to_owned())).unwrap();
    let address = address.parse().unwrap();
    let idle: Vec<Client> = (0..200).map(|_| Client::connect(address)).collect();
    for _ in 0..3 {
        let shown = [V1, ("Authorization", operator.as_str())];
        let task = Client::connect(address).call("SendMessage", &message("call echo\nsay done"), &shown).result();
        assert_eq!(task["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    }
    drop((idle, served.stdin.take()));
    assert!(served.wait().unwrap().success());
}

#[test]
#[ignore = "started by connections_leave_files_for_the_work_where_few_may_be_open"]
fn few_files() {
    let stage = Stage::open();
    let (address, token) = (stage.door.as_ref().unwrap().address(), stage.bearer(Scope::Operator));
    writeln!(std::io::stdout(), "\nat {address} {token}").unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn strangers_keep_no_connection_while_places_are_few() {
    let stage = stage(Limits { connections: 4, reserve: 0, ..Limits::default() });
    let mut client = stage.client();
    assert_eq!(client.get("/health", &[]).header("connection"), None);
    let token = stage.bearer(Scope::Diagnostics);
    let mut others = [stage.client(), stage.client()];
    for other in &mut others {
        assert_eq!(other.get("/health", &[("Authorization", &token)]).header("connection"), None);
    }
    let answer = client.get("/health", &[]);
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn long_frames_arrive_whole_in_each_form_of_a_stream() {
    let stage = Stage::open();
    let long = "x".repeat(300_000);
    let watcher = stage.client().stream("stream/watch", &json!({}), &[]);
    let text = format!("say a \nsay {long}\nsay  b");
    let events: Vec<Value> = stage
        .client()
        .stream("SendStreamingMessage", &message(&text), &[V1])
        .map(|event| event.json()["result"].clone())
        .collect();
    let pieces: Vec<&str> = events
        .iter()
        .filter(|event| event["artifactUpdate"].is_object() && event["artifactUpdate"].get("lastChunk").is_none())
        .map(|event| event["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(pieces.concat(), format!("a {long} b"));
    let mut watcher = watcher;
    let seen = watcher.until(|event| event.name == "status" && event.json()["final"] == true);
    let texts = seen.iter().filter(|event| event.name == "text").map(|event| event.json()["text"].clone());
    assert_eq!(texts.map(|text| text.as_str().unwrap().to_owned()).collect::<String>(), format!("a {long} b"));
    assert_eq!(seen.last().unwrap().json()["status"]["response"], format!("a {long} b"));
    let ids: Vec<u64> = seen.iter().filter_map(|event| event.id).collect();
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "{ids:?}");
}

#[test]
fn the_question_of_an_operators_task_is_not_a_strangers_to_answer() {
    let stage = Stage::open();
    let operator = stage.bearer(Scope::Operator);
    let shown = [V1, ("Authorization", &*operator)];
    let asked = stage.client().call("SendMessage", &message("call ask\nsay thanks"), &shown).result()["task"].clone();
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let mut answer = message("mine");
    answer["message"]["taskId"] = asked["id"].clone();
    let refused = stage.client().call("SendMessage", &answer, &[V1]);
    let told = &refused.json()["error"]["data"][0]["reason"];
    assert_eq!((refused.error(), told), ((200, json!(-31003)), &json!("CALLER_NOT_ALLOWED")));
    let mut rest = stage.client();
    rest.send("POST", "/rest/message:send", &[V1], &answer.to_string());
    assert_eq!(rest.answer().error(), (403, json!(403)));
    let done = stage.client().call("SendMessage", &answer, &shown).result()["task"].clone();
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
}

/// A client that waits for the end of a task which waits itself, at a door with one place.
fn waiting(stage: &Stage) -> Client {
    let mut client = stage.client();
    client.start("SendMessage", &message("wait gate\nsay done"), &[V1]);
    while stage.session.tasks(Caller::Operator, |_| true).is_empty() {
        std::thread::yield_now();
    }
    client
}

#[test]
fn who_was_reset_gives_its_place_back_and_who_ended_its_half_has_it_until_its_answer() {
    let stage = stage(Limits { connections: 1, reserve: 0, ..Limits::default() });
    waiting(&stage).reset();
    let mut tries = 0..10_000;
    assert!(tries.any(|_| stage.client().get("/health", &[]).status == 200), "the place is free again");
    stage.gates.open("gate");
    while stage.session.tasks(Caller::Operator, |view| view.state.is_final()).is_empty() {
        std::thread::yield_now();
    }

    let mut client = stage.client();
    // The place of the one before is free as soon as the door has seen it go.
    while client.get("/health", &[]).status == 503 {
        client = stage.client();
    }
    client.start("SendMessage", &message("wait gate\nsay done"), &[V1]);
    client.half_close();
    while stage.session.tasks(Caller::Operator, |_| true).len() < 2 {
        std::thread::yield_now();
    }
    assert_eq!(stage.client().answer().status, 503, "it is still there");
    stage.gates.open("gate");
    assert_eq!(client.answer().result()["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn who_sends_far_ahead_is_answered_in_order_all_the_same() {
    let stage = Stage::open();
    let mut client = stage.client();
    client.start("SendMessage", &message("wait gate\nsay done"), &[V1]);
    // More than is read ahead of an answer.
    for _ in 0..200 {
        client.send("GET", "/health", &[("x-fill", &"x".repeat(100))], "");
    }
    stage.gates.open("gate");
    assert_eq!(client.answer().result()["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    for _ in 0..200 {
        assert_eq!(client.answer().json()["ok"], true);
    }
}
