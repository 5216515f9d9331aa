//! Requests that two readers could read in two ways.

use crate::support::{Stub, local, parse, raw, say};

#[tokio::test]
async fn what_could_be_read_as_two_requests_is_refused() {
    let stub = Stub::start(|seen| say(200, seen.body.clone())).await;
    let (_proxy, proxy, mut told) = local();
    let url = format!("http://localhost:{}/", stub.port);
    let refused = [
        "content-length: 3\r\ncontent-length: 5\r\n\r\nabcde",
        "content-length: +3\r\n\r\nabc",
        "content-length: 3, 5\r\n\r\nabc",
        "content-length: 0x3\r\n\r\nabc",
        "transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: identity\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        "transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        " transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "x: a\r\n b\r\n\r\n",
        "x: a\0b\r\n\r\n",
        "x\0: a\r\n\r\n",
        "x: a\rcontent-length: 3\r\n\r\nabc",
    ];
    for lines in refused {
        let answer = raw(proxy, format!("POST {url} HTTP/1.1\r\nhost: x\r\n{lines}")).await;
        assert_eq!(parse(&answer).0, 400, "{lines:?}: {answer}");
    }
    let connected: Vec<String> = told.so_far().into_iter().filter(|line| line.contains(" connected ")).collect();
    assert_eq!((stub.seen().len(), connected), (0, vec![]));
    for lines in ["content-length: 3\r\n\r\nabc", "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"] {
        let answer = raw(proxy, format!("POST {url} HTTP/1.1\r\nconnection: close\r\n{lines}")).await;
        assert_eq!(parse(&answer), (200, "abc"), "{lines:?}");
    }
}

#[tokio::test]
async fn a_length_beside_chunks_counts_for_nothing_and_ends_the_connection() {
    let stub = Stub::start(|seen| say(200, seen.body.clone())).await;
    let (_proxy, proxy, _told) = local();
    for both in ["content-length: 60\r\ntransfer-encoding: chunked", "transfer-encoding: chunked\r\ncontent-length: 2"]
    {
        let inner = format!("GET http://localhost:{}/inner HTTP/1.1\r\n\r\n", stub.port);
        let request =
            format!("POST http://localhost:{}/ HTTP/1.1\r\n{both}\r\n\r\n2\r\nhi\r\n0\r\n\r\n{inner}", stub.port);
        assert_eq!(parse(&raw(proxy, request).await), (200, "hi"), "{both}");
        let seen = stub.seen().pop().unwrap();
        let host = format!("host: localhost:{}", stub.port);
        assert_eq!(seen.lines(), [host.as_str(), "transfer-encoding: chunked"], "{both}");
    }
    assert_eq!(stub.seen().len(), 2);
}

#[tokio::test]
async fn a_tunnel_has_no_body() {
    let stub = Stub::start(|_| say(200, "")).await;
    let (_proxy, proxy, mut told) = local();
    for line in ["content-length: 5", "content-length: 0", "transfer-encoding: chunked"] {
        let request = format!("CONNECT localhost:{} HTTP/1.1\r\n{line}\r\n\r\n0\r\n\r\n", stub.port);
        assert_eq!(parse(&raw(proxy, request).await).0, 400, "{line}");
        assert_eq!(told.so_far(), [format!("https localhost:{} body", stub.port)], "{line}");
    }
}

#[tokio::test]
async fn a_body_stays_one_requests() {
    let stub = Stub::start(|seen| say(200, seen.body.clone())).await;
    let (_proxy, proxy, _told) = local();
    let inner = "GET http://localhost/inner HTTP/1.1\r\n\r\n";
    let request = format!(
        "POST http://localhost:{}/ HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{inner}",
        stub.port,
        inner.len()
    );
    assert_eq!(parse(&raw(proxy, request).await), (200, inner));
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_head_has_its_limits() {
    let stub = Stub::start(|_| say(200, "fine")).await;
    let (_proxy, proxy, _told) = local();
    let request =
        |lines: &str| format!("GET http://localhost:{}/ HTTP/1.1\r\n{lines}connection: close\r\n\r\n", stub.port);
    assert_eq!(parse(&raw(proxy, request(&format!("x: {}\r\n", "a".repeat(40_000)))).await).0, 200);
    assert_eq!(parse(&raw(proxy, request(&"x: a\r\n".repeat(99))).await).0, 200);
    for lines in [format!("x: {}\r\n", "a".repeat(200_000)), "x: a\r\n".repeat(101)] {
        assert_eq!(parse(&raw(proxy, request(&lines)).await).0, 431);
    }
    assert_eq!(stub.seen().len(), 2);
}
