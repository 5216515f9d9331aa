//! What passes, and as what it arrives.

use std::sync::Arc;

use http::Response;
use http_body_util::Full;
use relay::{Upstream, UpstreamAuth};

use crate::support::{KEY, Stub, config, fetch, get, literal, open, own, parse, post, raw, say};

#[tokio::test]
async fn a_request_arrives_as_it_was_sent_with_the_key() {
    let stub = Stub::start(|_, _| say(201, "made")).await;
    let gateway = open(&format!("{}/v1/", stub.url), literal(KEY));
    let request = "PUT @/things/%C3%BC?a=1&b=%2F HTTP/1.1\r\nhost: x\r\nX-Mine: 1\r\nuser-agent: tool/1\r\n\
                   accept: text/plain\r\ncontent-type: text/plain\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    assert_eq!(fetch(&gateway, request).await, (201, "made".to_owned()));
    let seen = &stub.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("PUT", "/v1/things/%C3%BC?a=1&b=%2F"));
    assert_eq!(&seen.body[..], b"hello");
    let mut headers: Vec<String> =
        seen.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    headers.sort();
    let host = stub.url.strip_prefix("http://").unwrap();
    assert_eq!(
        headers,
        [
            "accept-encoding: identity".to_owned(),
            "accept: text/plain".to_owned(),
            "content-length: 5".to_owned(),
            "content-type: text/plain".to_owned(),
            format!("host: {host}"),
            "user-agent: tool/1".to_owned(),
            format!("x-api-key: {KEY}"),
            "x-mine: 1".to_owned(),
        ]
    );
}

#[tokio::test]
async fn the_key_is_written_as_the_template_says() {
    let stub = Stub::start(|_, _| say(200, "")).await;
    let mut config = config(&stub.url, literal(KEY), &Arc::default());
    config.key = Some((literal(KEY).into(), UpstreamAuth::new("Authorization", "Token token={key}").unwrap()));
    let gateway = Upstream::new(config).unwrap().open().unwrap();
    let (status, _) = fetch(
        &gateway,
        "GET @ HTTP/1.1\r\nhost: x\r\nauthorization: Bearer mine\r\nAUTHORIZATION: again\r\nconnection: close\r\n\r\n",
    )
    .await;
    let seen = &stub.seen()[0];
    assert_eq!((status, seen.target.as_str()), (200, "/"));
    assert_eq!(seen.header("authorization"), Some(format!("Token token={KEY}").as_str()));
}

#[tokio::test]
async fn an_answer_arrives_as_it_was_given() {
    let stub = Stub::start(|_, seen| {
        let status = seen.target[1..].parse::<u16>().unwrap();
        Response::builder()
            .status(status)
            .header("x-theirs", "1")
            .header("set-cookie", "a=1")
            .header("set-cookie", "b=2")
            .header("connection", "x-hop")
            .header("x-hop", "1")
            .body(Full::from("body"))
            .unwrap()
    })
    .await;
    let gateway = open(&stub.url, literal(KEY));
    for status in [200, 404, 403, 422, 429, 500, 503] {
        let answer = raw(&gateway, &format!("GET @/{status} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
        assert_eq!(parse(&answer), (status, "body".to_owned()));
        for line in ["x-theirs: 1", "set-cookie: a=1", "set-cookie: b=2"] {
            assert!(answer.contains(&format!("\r\n{line}\r\n")), "{answer}");
        }
        assert!(!answer.contains("x-hop"), "{answer}");
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let other = Stub::start(|_, _| say(200, "the key came here")).await;
    let location = format!("{}/elsewhere", other.url);
    let stub = Stub::start(move |_, seen| {
        let status = seen.target[1..].parse::<u16>().unwrap();
        Response::builder().status(status).header("location", &location).body(Full::from("moved")).unwrap()
    })
    .await;
    let gateway = open(&stub.url, literal(KEY));
    for status in [301, 302, 303, 307, 308] {
        let answer = raw(
            &gateway,
            &format!("POST @/{status} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi"),
        )
        .await;
        assert_eq!(parse(&answer), (status, "moved".to_owned()));
        assert!(answer.contains(&format!("location: {}/elsewhere", other.url)), "{answer}");
    }
    assert_eq!((stub.seen().len(), other.seen().len()), (5, 0));
}

#[tokio::test]
async fn a_head_request_keeps_the_length_and_an_empty_answer_is_empty() {
    let stub = Stub::start(|_, seen| say(if seen.target == "/none" { 204 } else { 200 }, "12345")).await;
    let gateway = open(&stub.url, literal(KEY));
    let answer = raw(&gateway, "HEAD @ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.contains("content-length: 5\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    assert_eq!(get(&gateway, "/none").await, (204, String::new()));
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let stub = Stub::start(|number, _| say(200, format!("answer {number}"))).await;
    let gateway = open(&stub.url, literal(KEY));
    let one = "POST @/x HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc";
    let last = "GET @/y HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answers = raw(&gateway, &format!("{one}{one}{last}")).await;
    for number in 0..3 {
        assert!(answers.contains(&format!("answer {number}")), "{answers}");
    }
    assert_eq!(stub.keys(), [KEY; 3]);
}

#[tokio::test]
async fn a_keyless_service_gets_no_key_and_the_tools_own_headers() {
    let stub = Stub::start(|_, _| say(401, "who are you")).await;
    let mut config = config(&stub.url, literal(KEY), &Arc::default());
    config.key = None;
    let gateway = Upstream::new(config).unwrap().open().unwrap();
    let request =
        "GET @/x HTTP/1.1\r\nhost: x\r\nx-api-key: mine\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n";
    let answer = raw(&gateway, request).await;
    assert!(answer.contains("content-length: 11\r\n"), "{answer}");
    assert_eq!(parse(&answer), (401, "who are you".to_owned()));
    let seen = stub.seen();
    assert_eq!((seen.len(), seen[0].key(), seen[0].header("accept-encoding")), (1, Some("mine"), Some("gzip")));
}

#[tokio::test]
async fn only_the_gateways_own_address_is_answered() {
    let stub = Stub::start(|_, _| say(200, "")).await;
    let (gateway, other) = (open(&stub.url, literal(KEY)), open(&stub.url, literal(KEY)));
    let token = crate::support::place(&gateway).1.to_owned();
    let foreign = crate::support::place(&other).1.to_owned();
    assert_ne!(token, foreign);
    let shorter = token[..token.len() - 1].to_owned();
    let cases = [
        "/".to_owned(),
        "/x".to_owned(),
        foreign,
        shorter,
        format!("{token}x"),
        format!("/{token}"),
        "/favicon.ico".to_owned(),
    ];
    for path in cases {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(fetch(&gateway, &request).await, (404, own("there is no such address")), "{path}");
    }
    assert_eq!(stub.seen().len(), 0);
    assert_eq!(post(&gateway, "", "x").await.0, 200);
}
