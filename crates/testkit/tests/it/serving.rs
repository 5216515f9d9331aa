//! Turns and faults as they leave the server.

use serde_json::json;
use testkit::{Gate, ModelServer, Turn};

use crate::support::{OPENAI, post};

fn body() -> String {
    json!({"model": "m", "max_tokens": 1, "stream": true, "messages": [{"role": "user", "content": "go"}]}).to_string()
}

async fn play(turn: Turn) -> (u16, String) {
    let server = ModelServer::start(vec![turn]).await;
    post(&server, OPENAI, "", &body()).await
}

#[tokio::test]
async fn a_script_ends_with_a_refusal_that_says_so() {
    let server = ModelServer::start(vec![Turn::new().text("one")]).await;
    let (status, text) = post(&server, OPENAI, "", &body()).await;
    assert!(status == 200 && text.contains(r#"{"content":"one"}"#) && text.contains("data: [DONE]"), "{text}");
    let (status, text) = post(&server, OPENAI, "", &body()).await;
    assert!(status == 400 && text.contains("the script has no turn 1"), "{text}");
}

#[tokio::test]
async fn statuses_headers_and_raw_bodies_go_out_as_scripted() {
    let (status, text) = play(Turn::status(429, "slow").error_kind("insufficient_quota")).await;
    assert!(status == 429 && text.contains(r#""code":"insufficient_quota""#), "{text}");
    assert_eq!(play(Turn::raw(200, Some("text/html"), "<p>")).await, (200, "<p>".to_owned()));
    assert_eq!(play(Turn::hang_up()).await, (0, String::new()));
}

#[tokio::test]
async fn a_cut_ends_properly_and_a_reset_does_not() {
    let (status, whole) = play(Turn::new().text("one")).await;
    let (cut_status, cut) = play(Turn::new().text("one").cut_at(20)).await;
    assert_eq!((status, cut_status), (200, 200));
    assert_eq!(cut.len(), 20);
    assert!(whole.starts_with(cut.as_str()));
    let (_, reset) = play(Turn::new().text("one").reset_at(20)).await;
    assert!(reset.contains(cut.as_str()) && !reset.contains("\r\n0\r\n"), "a chunked body without its end: {reset:?}");
}

#[tokio::test]
async fn a_gate_holds_the_answer_until_it_opens() {
    let gate = Gate::new();
    let server = ModelServer::start(vec![Turn::new().text("one").gate(&gate), Turn::new().text("two")]).await;
    let request = body();
    let held = async {
        let answer = post(&server, OPENAI, "", &request).await;
        (gate_was_open(&gate).await, answer.0)
    };
    let opener = async {
        server.wait_requests(1).await;
        gate.open();
    };
    let ((open, status), ()) = tokio::join!(held, opener);
    assert!(open && status == 200);
}

async fn gate_was_open(gate: &Gate) -> bool {
    tokio::select! {
        biased;
        () = gate.wait() => true,
        () = std::future::ready(()) => false,
    }
}

#[tokio::test]
async fn a_looping_server_on_its_own_thread_asks_and_ends_and_begins_again() {
    let server = ModelServer::looping("files_list", json!({"path": "."}), 2).unchecked().start_on_thread();
    let mut asked = Vec::new();
    for _ in 0..6 {
        let (status, text) = post(&server, OPENAI, "", "{}").await;
        assert_eq!(status, 200);
        asked.push(text.contains("files_list"));
    }
    assert_eq!(asked, [true, true, false, true, true, false]);
    assert_eq!(server.requests().len(), 0, "an unchecked server records nothing");
}
