//! Requests that are built to leave the endpoint, to carry another key, or to be read as two.

use crate::support::{KEY, Stub, fetch, get, literal, open, own, parse, raw, say};

#[tokio::test]
async fn no_path_leaves_the_endpoint() {
    let stub = Stub::start(|_, _| say(200, "inside")).await;
    let gateway = open(&format!("{}/v1", stub.url), literal(KEY));
    let cases = [
        "/../admin",
        "/..",
        "/a/../../admin",
        "/%2e%2e/admin",
        "/.%2E/admin",
        "/%252e%252e/admin",
        "/%25252e%25252e/admin",
        "/..%2fadmin",
        "/..%5cadmin",
        "/..\\admin",
        "/..;/admin",
        "/%c0%ae%c0%ae/admin",
        "/%u002e%u002e/admin",
        "/%00",
        "/a%0d%0ax-api-key:mine",
        "/%",
    ];
    for path in cases {
        let answer = raw(&gateway, &format!("GET @{path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{path}: {answer}");
    }
    assert_eq!(stub.seen().len(), 0);
    for path in ["", "/", "/..a/a..b", "/a%2Fb", "/a?b=/../c", "//c"] {
        assert_eq!(get(&gateway, path).await, (200, "inside".to_owned()), "{path}");
    }
    let targets: Vec<String> = stub.seen().iter().map(|seen| seen.target.clone()).collect();
    assert_eq!(targets, ["/v1", "/v1/", "/v1/..a/a..b", "/v1/a%2Fb", "/v1/a?b=/../c", "/v1//c"]);
}

#[tokio::test]
async fn a_target_that_is_no_path_is_refused() {
    let stub = Stub::start(|_, _| say(200, "")).await;
    let other = Stub::start(|_, _| say(200, "")).await;
    let gateway = open(&stub.url, literal(KEY));
    let foreign = other.url.strip_prefix("http://").unwrap();
    for line in [
        format!("GET {}@ HTTP/1.1", other.url),
        format!("GET http://{foreign}/ HTTP/1.1"),
        format!("GET {} HTTP/1.1", gateway.url()),
        format!("CONNECT {foreign} HTTP/1.1"),
        "OPTIONS * HTTP/1.1".to_owned(),
    ] {
        let answer = raw(&gateway, &format!("{line}\r\nhost: {foreign}\r\n\r\n")).await;
        assert_eq!(parse(&answer), (400, own("the path does not lie plainly beneath the endpoint")), "{line}");
    }
    assert_eq!((stub.seen().len(), other.seen().len()), (0, 0));
}

#[tokio::test]
async fn a_trace_is_refused_since_it_would_show_the_key() {
    let stub = Stub::start(|_, _| say(200, "")).await;
    let gateway = open(&stub.url, literal(KEY));
    let trace = fetch(&gateway, "TRACE @/x HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!((trace, stub.seen().len()), ((405, own("this method is not passed on")), 0));
    let options = fetch(&gateway, "OPTIONS @/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert_eq!((options.0, stub.keys()), (200, vec![KEY.to_owned()]));
}

#[tokio::test]
async fn no_header_brings_another_key_takes_the_key_away_or_names_another_host() {
    let stub = Stub::start(|_, _| say(200, "fine")).await;
    let gateway = open(&stub.url, literal(KEY));
    let cases = [
        "x-api-key: mine",
        "X-API-KEY: mine\r\nx-api-key: again",
        "x_api_key: mine",
        "X-Api_Key: mine",
        "connection: x-api-key",
        "connection: keep-alive, X-Api-Key\r\nx-api-key: mine",
        "connection: host",
        "host: elsewhere.example",
        "proxy-authorization: Basic x",
        "te: trailers",
        "trailer: x-api-key",
        "upgrade: websocket\r\nconnection: upgrade",
        "upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\nconnection: upgrade, http2-settings",
        "expect: 100-continue",
        "referer: http://127.0.0.1/x",
        "origin: http://127.0.0.1",
    ];
    let host = stub.url.strip_prefix("http://").unwrap();
    for (number, lines) in cases.into_iter().enumerate() {
        let end = "connection: close\r\n\r\n";
        let (status, body) = fetch(&gateway, &format!("GET @/x HTTP/1.1\r\nhost: x\r\n{lines}\r\n{end}")).await;
        assert_eq!((status, body.as_str()), (200, "fine"), "{lines}");
        let seen = &stub.seen()[number];
        assert_eq!((seen.key(), seen.header("host")), (Some(KEY), Some(host)), "{lines}");
        let mut names: Vec<&str> = seen.headers.keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "accept-encoding", "host", "user-agent", "x-api-key"], "{lines}");
    }
}

#[tokio::test]
async fn a_key_in_the_trailers_does_not_pass() {
    let stub = Stub::start(|_, _| say(200, "fine")).await;
    let gateway = open(&stub.url, literal(KEY));
    let request = "POST @ HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ntrailer: x-api-key\r\n\
                   connection: close\r\n\r\n2\r\nhi\r\n0\r\nx-api-key: mine\r\n\r\n";
    assert_eq!(fetch(&gateway, request).await, (200, "fine".to_owned()));
    let seen = &stub.seen()[0];
    assert_eq!((&seen.body[..], seen.key(), seen.header("trailer")), (&b"hi"[..], Some(KEY), None));
}

#[tokio::test]
async fn what_could_be_read_as_two_requests_is_refused_or_read_as_one() {
    let stub = Stub::start(|_, _| say(200, "fine")).await;
    let gateway = open(&stub.url, literal(KEY));
    let refused = [
        "content-length: 3\r\ncontent-length: 5\r\n\r\nabcde",
        "content-length: +3\r\n\r\nabc",
        "content-length: 3, 3\r\n\r\nabc",
        "transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        "x-api-key : mine\r\n\r\n",
        " x-api-key: mine\r\n\r\n",
        "x: a\r\n b\r\n\r\n",
        "x: a\0b\r\n\r\n",
        "x\0: a\r\n\r\n",
    ];
    for lines in refused {
        let answer = raw(&gateway, &format!("POST @ HTTP/1.1\r\nhost: x\r\n{lines}")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lines:?}: {answer}");
    }
    assert_eq!(stub.seen().len(), 0);
    // The length counts for nothing beside the chunks, and arrives nowhere.
    let both =
        "POST @ HTTP/1.1\r\nhost: x\r\ncontent-length: 60\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    assert_eq!(fetch(&gateway, both).await, (200, "fine".to_owned()));
    let seen = &stub.seen()[0];
    assert_eq!((&seen.body[..], seen.header("content-length")), (&b"hi"[..], None));
}

#[tokio::test]
async fn a_head_has_its_limits() {
    let stub = Stub::start(|_, _| say(200, "fine")).await;
    let gateway = open(&stub.url, literal(KEY));
    let request = |lines: &str| format!("GET @ HTTP/1.1\r\nhost: x\r\n{lines}connection: close\r\n\r\n");
    assert_eq!(fetch(&gateway, &request(&format!("x: {}\r\n", "a".repeat(40_000)))).await.0, 200);
    assert_eq!(fetch(&gateway, &request(&"x: a\r\n".repeat(90))).await.0, 200);
    for lines in [format!("x: {}\r\n", "a".repeat(200_000)), "x: a\r\n".repeat(101)] {
        let answer = raw(&gateway, &request(&lines)).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(stub.seen().len(), 2);
}
