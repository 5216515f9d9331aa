//! What becomes of calls: results of every kind, and servers that fail.

use policy::{Lifecycle, Outcome, cancel_pair};
use secrets::Secret;
use serde_json::json;
use vocab::Part;

use super::{Setting, Stage, eventually, fake, program};

const MAY_HAVE_RUN: &str = "The call was sent and may have run. It was not sent again.";
const NOTHING_RAN: &str = "The call was not sent: nothing ran.";

#[tokio::test]
async fn a_result_is_fenced_under_the_connection_and_the_tool() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    stage.grant(&a, &["echo", "fail", "secret"]).await;
    let input = json!({"provider": "server A", "tool": "echo", "arguments": {"text": "hi"}});
    let seen = stage.run("mcp_call", input).await;
    assert_eq!(seen, ("you said hi".to_owned(), false, "tool:Server a/echo".to_owned()));
    assert_eq!(stage.call("a", "fail", json!({})).await, ("it is broken".to_owned(), true));
    assert_eq!(stage.seen(), ["start", "call echo", "start", "call fail"]);
    let (text, is_error) = stage.call("a", "secret", json!({})).await;
    assert!(text.starts_with(r#"{"login":"x","token":"[protected token: protected://"#) && !is_error, "{text}");
    assert!(!stage.redactor.is_clean("s3cr3t-of-the-server"));
}

#[tokio::test]
async fn images_are_shown_and_other_media_are_named() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    stage.grant(&a, &["image"]).await;
    let (_canceler, cancel) = cancel_pair();
    let outcome = stage.outcome("mcp_call", json!({"provider": "a", "tool": "image"}), cancel).await;
    let shown = stage.shown(outcome, "mcp_call");
    let images: Vec<&Part> = shown.parts.iter().filter(|part| matches!(part, Part::Image { .. })).collect();
    let expected = Part::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
    assert_eq!(images, [&expected]);
    let Some(Part::Text(text)) = shown.parts.first() else { panic!("text comes first") };
    assert!(text.as_str().contains("[audio audio/wav, 3 bytes: not shown]"), "{}", text.as_str());
}

#[tokio::test]
async fn a_result_that_is_too_long_is_cut_and_that_is_told() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    stage.grant(&a, &["large"]).await;
    let (_canceler, cancel) = cancel_pair();
    let shown = stage.shown(stage.outcome("mcp_call", json!({"provider": "a", "tool": "large"}), cancel).await, "t");
    assert!(shown.facts.truncated && !shown.is_error);
    let Some(Part::Text(text)) = shown.parts.first() else { panic!("text") };
    let block = fence::parse(text.as_str()).block.unwrap();
    let expected = format!("{}\n[... 262144 bytes left out ...]", "abcdefgh".repeat(32 * 1024));
    assert!(block.content == expected, "{} bytes", block.content.len());
}

#[tokio::test]
async fn arguments_that_do_not_fit_start_nothing() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    stage.grant(&a, &["echo"]).await;
    let (text, is_error) = stage.call("a", "echo", json!({"text": 7})).await;
    assert!(text.contains("the arguments of `echo` do not fit its schema: /text: ") && is_error, "{text}");
    assert!(stage.seen().is_empty());
    assert_eq!(stage.call("a", "echo", json!({"text": "7"})).await, ("you said 7".to_owned(), false));
}

#[tokio::test]
async fn a_call_that_crashed_its_server_is_not_sent_again_and_the_next_one_gets_a_new_server() {
    for lifecycle in [Lifecycle::Ephemeral, Lifecycle::KeepAlive] {
        let stage = Stage::new();
        let a = stage.connect("a", "usual", lifecycle).await;
        stage.grant(&a, &["echo", "crash"]).await;
        let (canceler, cancel) = cancel_pair();
        let crashed = stage.outcome("mcp_call", json!({"provider": "a", "tool": "crash"}), cancel).await;
        let shown = stage.shown(crashed, "t");
        let Some(Part::Text(text)) = shown.parts.first() else { panic!("text") };
        assert!(shown.is_error && text.as_str().contains(MAY_HAVE_RUN), "{}", text.as_str());
        assert_eq!(stage.call("a", "echo", json!({"text": "b"})).await.0, "you said b");
        assert_eq!(stage.seen(), ["start", "call crash", "start", "call echo"], "{lifecycle:?}");
        drop(canceler);
    }
}

#[tokio::test]
async fn an_error_names_the_file_that_the_servers_last_words_are_in() {
    for taken in [false, true] {
        let stage = Stage::new();
        let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
        stage.grant(&a, &["crash", "garbled"]).await;
        let name = if taken { "logs/mcp-a-2.stderr.log" } else { "logs/mcp-a.stderr.log" };
        if taken {
            std::fs::create_dir(stage.work.join("logs")).unwrap();
            std::fs::write(stage.work.join("logs/mcp-a.stderr.log"), "of another session").unwrap();
        }
        let said = async |tool: &str| {
            let (_canceler, cancel) = cancel_pair();
            let outcome = stage.outcome("mcp_call", json!({"provider": "a", "tool": tool}), cancel).await;
            let shown = stage.shown(outcome, "t");
            let Some(Part::Text(text)) = shown.parts.first() else { panic!("text") };
            text.as_str().to_owned()
        };
        // Nothing was written before.
        let text = said("garbled").await;
        assert!(
            text.contains("is malformed: it is no message of the protocol") && text.contains(MAY_HAVE_RUN),
            "{text}"
        );
        assert!(!text.contains("stderr"), "{text}");
        let text = said("crash").await;
        let note = format!("{MAY_HAVE_RUN} What the server wrote to stderr is in `{name}`.");
        assert!(text.ends_with(&note), "{text}");
        assert_eq!(stage.seen(), ["start", "call garbled", "start", "call crash"]);
        let log = stage.work.join(name);
        eventually(|| std::fs::read_to_string(&log).is_ok_and(|text| text == "its last words\n")).await;
    }
}

#[tokio::test]
async fn a_server_that_ends_in_the_handshake_is_started_twice_and_nothing_ran() {
    for lifecycle in [Lifecycle::Ephemeral, Lifecycle::KeepAlive] {
        let stage = Stage::new();
        let known = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
        let catalog = policy::Connectors::catalog(&*stage.hub, &known.id).await.unwrap();
        let reach = policy::Reach::Stdio { command: program(), args: fake::words("stillborn", &stage.seen_file()) };
        let b = super::connection("b", reach, lifecycle);
        stage.store(&b, (*catalog).clone());
        stage.grant(&b, &["echo"]).await;
        let (_canceler, cancel) = cancel_pair();
        let input = json!({"provider": "b", "tool": "echo", "arguments": {"text": "x"}});
        let shown = stage.shown(stage.outcome("mcp_call", input, cancel).await, "t");
        let Some(Part::Text(text)) = shown.parts.first() else { panic!("text") };
        let text = text.as_str();
        assert!(text.contains("the server ended during the handshake\n") && text.contains(NOTHING_RAN), "{text}");
        assert!(!text.contains("may have run"), "{text}");
        assert_eq!(stage.seen(), ["start", "start"], "{lifecycle:?}");
        assert_eq!(shown.facts.mcp.map(|facts| facts.started), Some(2));
    }
}

#[tokio::test]
async fn what_is_recorded_of_a_call() {
    let stage = Stage::new();
    for (id, lifecycle, starts) in [("a", Lifecycle::Ephemeral, [1, 1]), ("b", Lifecycle::KeepAlive, [1, 0])] {
        let connection = stage.connect(id, "usual", lifecycle).await;
        stage.grant(&connection, &["secret"]).await;
        for started in starts {
            let (_canceler, cancel) = cancel_pair();
            let outcome = stage.outcome("mcp_call", json!({"provider": id, "tool": "secret"}), cancel).await;
            let shown = stage.shown(outcome, "t");
            let facts = *shown.facts.mcp.unwrap();
            let expected = policy::McpFacts {
                connection: id.to_owned(),
                name: format!("Server {id}"),
                tool: "secret".to_owned(),
                transport: "stdio",
                started,
                took: facts.took,
            };
            assert_eq!((facts, shown.facts.protected), (expected, 1));
        }
    }
}

#[tokio::test]
async fn a_server_may_shout_and_what_it_says_twice_is_shown_once() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::KeepAlive).await;
    stage.grant(&a, &["shout", "wrapped"]).await;
    assert_eq!(stage.call("a", "shout", json!({})).await, ("hoarse".to_owned(), false));
    assert_eq!(stage.call("a", "wrapped", json!({})).await, ("said".to_owned(), false));
    let log = stage.work.join("logs/mcp-a.stderr.log");
    eventually(|| std::fs::metadata(&log).is_ok_and(|meta| meta.len() == 64 * 65_536)).await;
    assert_eq!(stage.seen(), ["start", "call shout", "call wrapped"]);
}

#[tokio::test]
async fn a_server_that_hangs_or_answers_without_end_is_cut_and_replaced() {
    let short = mcp::Limits { call: std::time::Duration::from_millis(500), ..mcp::Limits::default() };
    let small = mcp::Limits { message_bytes: 256 * 1024, ..mcp::Limits::default() };
    for (tool, limits, says) in [("hang", short, "did not finish the call"), ("endless", small, "is larger than")] {
        let stage = Stage::with(Setting { limits, ..Setting::default() });
        let a = stage.connect("a", "usual", Lifecycle::KeepAlive).await;
        stage.grant(&a, &["echo", tool]).await;
        let (text, is_error) = stage.call("a", tool, json!({})).await;
        assert!(text.contains(says) && is_error, "{tool}: {text}");
        assert_eq!(stage.call("a", "echo", json!({"text": "b"})).await.0, "you said b", "{tool}");
        assert_eq!(stage.seen(), ["start", &format!("call {tool}"), "start", "call echo"]);
    }
}

#[tokio::test]
async fn a_call_that_is_canceled_ends_and_says_that_it_may_have_run() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::KeepAlive).await;
    stage.grant(&a, &["hang"]).await;
    let (canceler, cancel) = cancel_pair();
    let input = json!({"provider": "a", "tool": "hang"});
    let cancels = async {
        eventually(|| stage.seen().contains(&"call hang".to_owned())).await;
        canceler.cancel();
    };
    let (outcome, ()) = tokio::join!(stage.outcome("mcp_call", input.clone(), cancel), cancels);
    let shown = stage.shown(outcome, "t");
    let Some(Part::Text(text)) = shown.parts.first() else { panic!("text") };
    assert!(shown.is_error && text.as_str().contains(MAY_HAVE_RUN), "{}", text.as_str());

    let (canceler, cancel) = cancel_pair();
    canceler.cancel();
    let outcome = stage.outcome("mcp_call", input, cancel).await;
    assert!(matches!(outcome, Outcome::NotRun(_)), "{outcome:?}");
    assert_eq!(stage.seen(), ["start", "call hang"]);
}

#[tokio::test]
async fn what_a_server_writes_to_stderr_is_logged_and_redacted() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    stage.grant(&a, &["noise"]).await;
    stage.redactor.learn(&Secret::new("tok_5d41402abc4b2a76b9719d911017c592".to_owned()));
    for _ in 0..2 {
        assert_eq!(stage.call("a", "noise", json!({})).await, ("noisy".to_owned(), false));
    }
    let log = stage.work.join("logs/mcp-a.stderr.log");
    let expected = "something about [redacted]\n".repeat(2);
    eventually(|| std::fs::read_to_string(&log).is_ok_and(|text| text == expected)).await;
}
