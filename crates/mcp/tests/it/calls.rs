//! Calls that work, what goes with them, and how they are given up.

use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp::{Call, CallOutcome, Confirm, Definition, Error, Limits, StartError, Step};
use serde_json::json;
use tokio::sync::Notify;
use vocab::BoxFuture;

use crate::support::{Fake, Reaction, arguments, echo, echo_tool, line, never, said};

#[tokio::test]
async fn what_the_runtime_says_travels_apart_from_the_arguments() {
    let fake = Fake::usual();
    let (input, meta) =
        (arguments(json!({"text": "hi"})), arguments(json!({"murmur/agent": "a", "murmur/session": "s"})));
    let call = Call { tool: "echo", arguments: &input, definition: None, meta: Some(&meta), confirm: None };
    assert_eq!(fake.ephemeral().call(&call, never()).await.unwrap(), said("hi"));
    let got = fake.got("tools/call").remove(0);
    assert_eq!(got["params"]["name"], "echo");
    assert_eq!(got["params"]["arguments"], json!({"text": "hi"}));
    assert_eq!(got["params"]["_meta"]["murmur/agent"], "a");
    assert_eq!(got["params"]["_meta"]["murmur/session"], "s");
}

#[tokio::test]
async fn a_failure_that_the_tool_reports_is_an_outcome() {
    let fake = Fake::on("tools/call", |_| {
        Reaction::Result(
            json!({"content": [{"type": "text", "text": "hi"}], "isError": true, "structuredContent": {"a": [1]}}),
        )
    });
    let expected = CallOutcome { structured: Some(json!({"a": [1]})), is_error: true, ..said("hi") };
    assert_eq!(echo(&fake.ephemeral(), "hi").await.unwrap(), expected);
    let empty = Fake::on("tools/call", |_| Reaction::Result(json!({})));
    assert_eq!(echo(&empty.ephemeral(), "hi").await.unwrap(), CallOutcome::default());
}

#[tokio::test]
async fn an_error_of_the_protocol_is_an_error_and_the_server_stays() {
    let fake = Fake::on("tools/call", |message| {
        if message["params"]["arguments"]["text"] == "bad" {
            Reaction::Error(-32602, "not\nthat")
        } else {
            Reaction::Usual
        }
    });
    let server = fake.kept();
    let failed = echo(&server, "bad").await.unwrap_err();
    assert_eq!(failed.to_string(), "the server refused the call (-32602): not that");
    assert!(failed.may_have_run());
    assert_eq!(echo(&server, "good").await.unwrap(), said("good"));
    assert_eq!(fake.starts(), 1);
}

#[tokio::test]
async fn a_definition_that_is_not_the_expected_one_keeps_the_call_back() {
    let fake = Fake::usual();
    let (server, input) = (fake.kept(), arguments(json!({"text": "hi"})));
    let pinned = server.discover().await.unwrap().find("echo").unwrap().definition;
    assert_eq!(pinned, Definition::of(Some("Says it again."), &echo_tool()["inputSchema"]));
    let call =
        |definition| Call { tool: "echo", arguments: &input, definition: Some(definition), meta: None, confirm: None };
    assert_eq!(server.call(&call(pinned), never()).await.unwrap(), said("hi"));
    let other = Definition::of(Some("Says it twice."), &echo_tool()["inputSchema"]);
    let failed = server.call(&call(other), never()).await.unwrap_err();
    assert!(matches!(&failed, Error::ToolChanged { tool } if tool == "echo"), "{failed}");
    assert!(!failed.may_have_run());
    assert_eq!(fake.got("tools/call").len(), 1);
}

/// A server whose tool is described anew at each listing.
fn fickle() -> Fake {
    let told = std::sync::atomic::AtomicUsize::new(0);
    Fake::on("tools/list", move |_| {
        let mut tool = echo_tool();
        tool["description"] = json!(format!("Version {}.", told.fetch_add(1, std::sync::atomic::Ordering::SeqCst)));
        Reaction::Result(json!({"tools": [tool]}))
    })
}

#[tokio::test(start_paused = true)]
async fn a_catalog_is_kept_until_it_is_old() {
    let fake = fickle();
    let (server, input) = (fake.kept(), arguments(json!({"text": "hi"})));
    let pinned = server.discover().await.unwrap().find("echo").unwrap().definition;
    let call = Call { tool: "echo", arguments: &input, definition: Some(pinned), meta: None, confirm: None };
    assert_eq!(server.call(&call, never()).await.unwrap(), said("hi"));
    assert_eq!(fake.got("tools/list").len(), 1);
    tokio::time::advance(Limits::default().catalog_age).await;
    assert!(matches!(server.call(&call, never()).await, Err(Error::ToolChanged { .. })));
    assert_eq!((fake.got("tools/list").len(), fake.got("tools/call").len()), (2, 1));
}

#[tokio::test]
async fn an_announced_change_counts_from_the_next_call_on() {
    let told = line(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let progress = line(
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
    );
    for (announcement, lists) in [(told, 2), (progress, 1)] {
        let fake = fickle();
        let react = fake.clone();
        let fake = Fake::new(move |start, message| match message["method"].as_str() {
            Some("tools/call") => Reaction::RawThenUsual(announcement.clone()),
            _ => react.react(start, message),
        });
        let (server, input) = (fake.kept(), arguments(json!({"text": "hi"})));
        let pinned = server.discover().await.unwrap().find("echo").unwrap().definition;
        let call = Call { tool: "echo", arguments: &input, definition: Some(pinned), meta: None, confirm: None };
        assert_eq!(server.call(&call, never()).await.unwrap(), said("hi"));
        assert_eq!(server.call(&call, never()).await.is_ok(), lists == 1);
        assert_eq!(fake.got("tools/list").len(), lists);
    }
}

#[tokio::test]
async fn a_cancelled_call_is_told_to_the_server_which_stays() {
    let arrived = Arc::new(Notify::new());
    let tell = Arc::clone(&arrived);
    let fake = Fake::on("tools/call", move |message| {
        if message["params"]["arguments"]["text"] == "wait" {
            tell.notify_one();
            return Reaction::Silence;
        }
        Reaction::Usual
    });
    let (server, input) = (fake.kept(), arguments(json!({"text": "wait"})));
    let call = Call { tool: "echo", arguments: &input, definition: None, meta: None, confirm: None };
    let failed = server.call(&call, async { arrived.notified().await }).await.unwrap_err();
    assert!(matches!(failed, Error::Cancelled { step: Step::Call }) && failed.may_have_run(), "{failed}");
    assert_eq!(echo(&server, "on").await.unwrap(), said("on"));
    let told = fake.got("notifications/cancelled");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["params"]["requestId"], fake.got("tools/call")[0]["id"]);
    assert_eq!((fake.starts(), fake.ends()), (1, 0));
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_starts_nothing() {
    let fake = Fake::usual();
    let input = arguments(json!({"text": "hi"}));
    let call = Call { tool: "echo", arguments: &input, definition: None, meta: None, confirm: None };
    for server in [fake.kept(), fake.ephemeral()] {
        let failed = server.call(&call, ready(())).await.unwrap_err();
        assert!(matches!(failed, Error::Cancelled { step: Step::Open }) && !failed.may_have_run(), "{failed}");
    }
    assert!(fake.got("tools/call").is_empty());
}

#[tokio::test]
async fn a_call_whose_caller_is_gone_is_told_to_the_server() {
    let (arrived, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, tell_too) = (Arc::clone(&arrived), Arc::clone(&told));
    let fake = Fake::new(move |_, message| match message["method"].as_str() {
        Some("tools/call") => {
            tell.notify_one();
            Reaction::Silence
        }
        Some("notifications/cancelled") => {
            tell_too.notify_one();
            Reaction::Silence
        }
        _ => Reaction::Usual,
    });
    let server = fake.kept();
    let calling = tokio::spawn({
        let server = server.clone();
        async move { echo(&server, "hi").await }
    });
    arrived.notified().await;
    calling.abort();
    told.notified().await;
    assert_eq!(fake.got("notifications/cancelled").len(), 1);
}

#[tokio::test]
async fn calls_run_beside_each_other_on_one_connection() {
    // The first call is answered only after the second has arrived.
    let fake = Fake::on("tools/call", |message| {
        match message["params"]["arguments"]["text"].as_str() {
        Some("first") => Reaction::Silence,
        _ => Reaction::Raw(
            [
                line(json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "second"}]}})),
                line(json!({"jsonrpc": "2.0", "id": message["id"].as_u64().unwrap() - 1, "result": {"content": [{"type": "text", "text": "first"}]}})),
            ]
            .concat(),
        ),
    }
    });
    let server = fake.kept();
    server.discover().await.unwrap();
    let (first, second) = tokio::join!(echo(&server, "first"), echo(&server, "second"));
    assert_eq!((first.unwrap(), second.unwrap()), (said("first"), said("second")));
    assert_eq!(fake.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_another_request_is_none() {
    let fake = Fake::on("tools/call", |_| {
        Reaction::Raw(
            [999, 0, -1]
                .into_iter()
                .flat_map(|id| line(json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})))
                .collect(),
        )
    });
    let failed = echo(&fake.ephemeral(), "hi").await.unwrap_err();
    assert!(
        matches!(failed, Error::TimedOut { step: Step::Call, after, unreadable: 0 } if after == Duration::from_secs(30)),
        "{failed}"
    );
}

/// Who lets so many calls pass, and remembers how often the tools were listed when he was asked.
#[derive(Debug)]
pub(crate) struct Turnstile {
    pub(crate) passes: usize,
    pub(crate) asked: Mutex<Vec<usize>>,
    pub(crate) lists: Arc<AtomicUsize>,
}

impl Confirm for Turnstile {
    fn confirm(&self) -> BoxFuture<'_, Result<(), StartError>> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(self.lists.load(Ordering::SeqCst));
        let may = if asked.len() > self.passes { Err("it was revoked".into()) } else { Ok(()) };
        Box::pin(ready(may))
    }
}

#[tokio::test]
async fn the_last_word_comes_after_the_catalog_and_before_the_call() {
    for is_kept in [true, false] {
        let lists = Arc::new(AtomicUsize::new(0));
        let listed = Arc::clone(&lists);
        let fake = Fake::new(move |start, message| match message["method"].as_str() {
            // The first one ends when it has been asked for its tools.
            Some("tools/list") => {
                listed.fetch_add(1, Ordering::SeqCst);
                if start == 1 { Reaction::End } else { Reaction::Usual }
            }
            _ => Reaction::Usual,
        });
        let server = if is_kept { fake.kept() } else { fake.ephemeral() };
        let last = Turnstile { passes: 1, asked: Mutex::default(), lists };
        let input = arguments(json!({"text": "hi"}));
        let call = Call { tool: "echo", arguments: &input, definition: None, meta: None, confirm: Some(&last) };
        assert_eq!(server.call(&call, never()).await.unwrap(), said("hi"));
        assert_eq!(*last.asked.lock().unwrap(), [2]);
        let failed = server.call(&call, never()).await.unwrap_err();
        assert_eq!(failed.to_string(), "the call was not sent: it was revoked");
        assert!(matches!(failed, Error::Withdrawn(_)) && !failed.may_have_run());
        assert_eq!(*last.asked.lock().unwrap(), [2, if is_kept { 2 } else { 3 }]);
        assert_eq!((fake.got("tools/call").len(), fake.starts()), (1, if is_kept { 2 } else { 3 }));
        assert_eq!(server.call(&Call { confirm: None, ..call }, never()).await.unwrap(), said("hi"));
    }
}
