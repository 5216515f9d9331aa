//! Services that are down, slow or break off, and tools that do.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{KEY, connect, fetch, get, hasty, literal, open, own, parse, place, rest, until};

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// A service that reads a head, sends these bytes and ends.
async fn sending(answer: &'static [u8]) -> String {
    let (listener, url) = listen().await;
    tokio::spawn(async move {
        loop {
            let (mut service, _) = listener.accept().await.unwrap();
            until(&mut service, "\r\n\r\n").await;
            service.write_all(answer).await.unwrap();
        }
    });
    url
}

#[tokio::test]
async fn a_service_that_is_down_is_a_502() {
    let (listener, url) = listen().await;
    drop(listener);
    let (status, body) = get(&open(&url, literal(KEY)), "").await;
    assert_eq!(status, 502);
    assert!(body.starts_with("{\"error\":\"the service cannot be reached: "), "{body}");
}

#[tokio::test]
async fn a_service_that_gives_no_answer_is_a_502() {
    for answer in [b"".as_slice(), b"HTTP/1.1 2", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"]
    {
        let url = sending(answer).await;
        let (status, body) = get(&open(&url, literal(KEY)), "").await;
        assert_eq!(status, 502, "{}", String::from_utf8_lossy(answer));
        assert!(body.starts_with("{\"error\":\"the service gave no answer: "), "{body}");
    }
}

#[tokio::test]
async fn a_service_that_wants_another_protocol_is_a_502() {
    let url = sending(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n").await;
    assert_eq!(get(&open(&url, literal(KEY)), "").await.0, 502);
}

#[tokio::test]
async fn a_silent_service_is_a_504() {
    let (listener, url) = listen().await;
    let gateway = hasty(&url);
    let answer = get(&gateway, "").await;
    assert_eq!(answer, (504, own("the service gave no answer in time")));
    drop(listener);
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_for_the_tool_too() {
    for answer in [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".as_slice(),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let url = sending(answer).await;
        let answer = get_raw(&open(&url, literal(KEY))).await;
        assert!(answer.contains("half") && !answer.contains("0\r\n\r\n"), "{answer}");
    }
}

async fn get_raw(gateway: &relay::Gateway) -> String {
    crate::support::raw(gateway, "GET @ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await
}

#[tokio::test]
async fn an_answer_that_stands_still_breaks_off() {
    let (listener, url) = listen().await;
    let served = tokio::spawn(async move {
        let (mut service, _) = listener.accept().await.unwrap();
        until(&mut service, "\r\n\r\n").await;
        service.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await.unwrap();
        // It learns that nobody waits any more.
        assert_eq!(rest(&mut service).await, "");
    });
    let answer = get_raw(&hasty(&url)).await;
    assert!(answer.contains("half") && !answer.contains("0\r\n\r\n"), "{answer}");
    served.await.unwrap();
}

#[tokio::test]
async fn a_tool_that_stops_sending_is_a_408() {
    let (listener, url) = listen().await;
    let served = tokio::spawn(async move {
        let (mut service, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        let _ = service.read_to_end(&mut all).await;
        String::from_utf8(all).unwrap()
    });
    let gateway = hasty(&url);
    let request = "POST @ HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf";
    assert_eq!(fetch(&gateway, request).await, (408, own("the request stopped before its end")));
    assert!(served.await.unwrap().ends_with("\r\n\r\nhalf"));
}

#[tokio::test]
async fn a_tool_that_goes_away_ends_its_request_at_the_service() {
    let half = "POST @ HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf";
    let whole = "GET @ HTTP/1.1\r\nhost: x\r\n\r\n";
    for request in [half, whole] {
        let (listener, url) = listen().await;
        let gateway = open(&url, literal(KEY));
        let mut tool = connect(&gateway).await;
        tool.write_all(request.replace('@', place(&gateway).1).as_bytes()).await.unwrap();
        let (mut service, _) = listener.accept().await.unwrap();
        until(&mut service, "\r\n\r\n").await;
        drop(tool);
        let left = rest(&mut service).await;
        assert!(["", "half"].contains(&left.as_str()), "{left}");
    }
}

#[tokio::test]
async fn a_refusal_reaches_a_tool_that_still_sends() {
    let (listener, url) = listen().await;
    drop(listener);
    let gateway = open(&url, literal(KEY));
    let mut tool = connect(&gateway).await;
    let head = format!("POST {}/.. HTTP/1.1\r\nhost: x\r\ncontent-length: 900000\r\n\r\n", place(&gateway).1);
    tool.write_all(head.as_bytes()).await.unwrap();
    tool.write_all(&vec![b'x'; 900_000]).await.unwrap();
    assert_eq!(parse(&rest(&mut tool).await).0, 400);
}
