//! The key reaches the service and nobody else.

use std::sync::Arc;

use base64::Engine as _;
use http::Response;
use http_body_util::Full;
use relay::{Upstream, UpstreamAuth};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::support::{Home, KEY, Stub, config, get, literal, open, own, put, raw, say, until};

/// Ways to write the key; the raw one first.
fn forms(key: &str) -> Vec<String> {
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let engine = base64::engine::general_purpose::STANDARD;
    let basic = engine.encode(format!("user:{key}"));
    vec![key.to_owned(), hex, engine.encode(key), basic]
}

#[tokio::test]
async fn a_service_that_repeats_the_key_does_not_give_it_to_the_tool() {
    for form in forms(KEY) {
        let words = format!("you sent {form}, did you?");
        let said = words.clone();
        let stub = Stub::start(move |_, _| {
            let response = Response::builder().status(400).header("x-echo", &said);
            response.body(Full::from(said.clone())).unwrap()
        })
        .await;
        let answer =
            raw(&open(&stub.url, literal(KEY)), "GET @ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        assert!(!answer.contains(&form) && !answer.contains(KEY), "{answer}");
        assert_eq!(answer.matches("[redacted]").count(), 2, "{answer}");
        // Another gateway's key is none of this one's business.
        let other =
            raw(&open(&stub.url, literal("another-key")), "GET @ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                .await;
        assert!(other.contains(&words), "{other}");
    }
}

#[tokio::test]
async fn a_key_in_pieces_of_an_answer_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut service, _) = listener.accept().await.unwrap();
        until(&mut service, "\r\n\r\n").await;
        service.set_nodelay(true).unwrap();
        service.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        for byte in format!("[{KEY}]").bytes() {
            service.write_all(format!("1\r\n{}\r\n", byte as char).as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        service.write_all(b"0\r\n\r\n").await.unwrap();
    });
    assert_eq!(get(&open(&url, literal(KEY)), "").await, (200, "[[redacted]]".to_owned()));
}

#[tokio::test]
async fn a_key_that_was_replaced_stays_out_of_answers() {
    let home = Home::new("first-key");
    let stub = Stub::start(|_, _| say(200, "first-key second-key")).await;
    let gateway = open(&stub.url, home.credential("KEY"));
    assert_eq!(get(&gateway, "").await.1, "[redacted] second-key");
    put(&home.file(), "second-key");
    assert_eq!(get(&gateway, "").await.1, "[redacted] [redacted]");
}

#[tokio::test]
async fn nothing_that_can_be_printed_holds_the_key_or_the_address() {
    let upstream = Upstream::new(config("http://127.0.0.1:1/v1", literal(KEY), &Arc::default())).unwrap();
    let gateway = upstream.open().unwrap();
    let auth = UpstreamAuth::new("authorization", "Bearer {key}").unwrap();
    let shown = format!("{upstream:?} {gateway:?} {auth:?}");
    assert!(!shown.contains(KEY) && !shown.contains(crate::support::place(&gateway).1), "{shown}");
    assert!(shown.starts_with("Upstream { endpoint: \"http://127.0.0.1:1/v1\", .. } Gateway "), "{shown}");
}

#[tokio::test]
async fn a_key_that_no_header_may_hold_is_not_in_the_refusal() {
    let home = Home::new("unused");
    home.vault.set("CARD", secrets::Secret::new("hunter2\nx: y".to_owned()));
    let stub = Stub::start(|_, _| say(200, "")).await;
    let gateway = open(&stub.url, home.credential("CARD"));
    assert_eq!(get(&gateway, "").await, (502, own("credential `CARD` cannot be read")));
    assert_eq!(stub.seen().len(), 0);
}

#[tokio::test]
async fn an_answer_that_cannot_be_searched_is_not_passed_on_and_one_without_a_key_is() {
    let hex = forms(KEY).remove(1);
    let stub = Stub::start(move |number, _| {
        let response = Response::builder().header(format!("x-{hex}"), "1").header("x-plain", "1");
        let response = match number {
            0 | 3 => response.header("content-encoding", "gzip"),
            1 => response.header("content-encoding", "identity, br"),
            _ => response.header("content-encoding", "Identity"),
        };
        response.body(Full::from("words")).unwrap()
    })
    .await;
    let gateway = open(&stub.url, literal(KEY));
    for status in [502, 502, 200] {
        let answer = raw(&gateway, "GET @ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert_eq!((answer.contains("words"), answer.contains("x-plain")), (status == 200, status == 200), "{answer}");
        assert!(!answer.contains(&forms(KEY)[1]), "{answer}");
    }
    let mut keyless = config(&stub.url, literal(KEY), &Arc::default());
    keyless.key = None;
    let gateway = Upstream::new(keyless).unwrap().open().unwrap();
    assert_eq!(get(&gateway, "").await, (200, "words".to_owned()));
}
