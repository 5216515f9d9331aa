//! A gateway's address lives as long as the gateway, for as many at a time as it may.

use std::sync::Arc;
use std::time::Duration;

use relay::{Limits, Upstream};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{KEY, Stub, config, connect, get, hasty, literal, open, place, post, rest, say, until};

#[tokio::test]
async fn a_dropped_gateway_ends_its_connections_and_its_address() {
    let stub = Stub::start(|_, _| say(200, "fine")).await;
    let gateway = open(&stub.url, literal(KEY));
    let address = place(&gateway).0.to_owned();
    let mut tool = connect(&gateway).await;
    let head = format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", place(&gateway).1);
    tool.write_all(head.as_bytes()).await.unwrap();
    until(&mut tool, "0\r\n\r\n").await;
    drop(gateway);
    let _ = tool.write_all(head.as_bytes()).await;
    assert_eq!(rest(&mut tool).await, "");
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_dropped_gateway_ends_a_request_at_the_service() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = open(&format!("http://{}", listener.local_addr().unwrap()), literal(KEY));
    let mut tool = connect(&gateway).await;
    tool.write_all(format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", place(&gateway).1).as_bytes()).await.unwrap();
    let (mut service, _) = listener.accept().await.unwrap();
    until(&mut service, "\r\n\r\n").await;
    drop(gateway);
    assert_eq!((rest(&mut service).await, rest(&mut tool).await), (String::new(), String::new()));
}

#[tokio::test]
async fn one_service_has_an_address_for_each_call() {
    let stub = Stub::start(|_, _| say(200, "fine")).await;
    let upstream = Upstream::new(config(&stub.url, literal(KEY), &Arc::default())).unwrap();
    let (first, second) = (upstream.open().unwrap(), upstream.open().unwrap());
    assert_ne!(place(&first), place(&second));
    drop(first);
    assert_eq!(get(&second, "").await, (200, "fine".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_at_once_get_their_own_answers() {
    let stub = Stub::start(|_, seen| say(200, seen.body.clone())).await;
    for connections in [2, 64] {
        let mut config = config(&stub.url, literal(KEY), &Arc::default());
        config.limits = Limits { connections, ..Limits::default() };
        let gateway = Arc::new(Upstream::new(config).unwrap().open().unwrap());
        let asked: Vec<_> = (0..40)
            .map(|number| {
                let gateway = Arc::clone(&gateway);
                tokio::spawn(async move {
                    let body = format!("request {number} ").repeat(1000);
                    (post(&gateway, "", &body).await, (200, body))
                })
            })
            .collect();
        for asked in asked {
            let (answer, expected) = asked.await.unwrap();
            assert!(answer == expected, "{connections}: an answer is another request's");
        }
    }
    assert_eq!(stub.seen().len(), 80);
    assert!(stub.keys().iter().all(|key| key == KEY));
}

#[tokio::test]
async fn a_connection_above_the_limit_waits_for_a_place() {
    let stub = Stub::start(|_, _| say(200, "fine")).await;
    let mut config = config(&stub.url, literal(KEY), &Arc::default());
    config.limits = Limits { connections: 1, ..Limits::default() };
    let gateway = Upstream::new(config).unwrap().open().unwrap();
    let request = format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", place(&gateway).1);
    let mut first = connect(&gateway).await;
    first.write_all(request.as_bytes()).await.unwrap();
    until(&mut first, "0\r\n\r\n").await;
    let mut second = connect(&gateway).await;
    second.write_all(request.as_bytes()).await.unwrap();
    // The first one still has the place, and uses it.
    first.write_all(request.as_bytes()).await.unwrap();
    until(&mut first, "0\r\n\r\n").await;
    assert_eq!(stub.seen().len(), 2);
    drop(first);
    until(&mut second, "0\r\n\r\n").await;
    assert_eq!(stub.seen().len(), 3);
}

#[tokio::test]
async fn a_head_that_does_not_come_loses_its_connection() {
    let mut config = config("http://127.0.0.1:1", literal(KEY), &Arc::default());
    config.limits = Limits { head: Duration::from_millis(50), ..Limits::default() };
    let gateway = Upstream::new(config).unwrap().open().unwrap();
    for beginning in ["", "GET ", "GET / HTTP/1.1\r\nhost: x\r\n"] {
        let mut tool = connect(&gateway).await;
        tool.write_all(beginning.as_bytes()).await.unwrap();
        assert_eq!(rest(&mut tool).await, "", "{beginning}");
    }
}

#[tokio::test]
async fn a_tool_that_takes_nothing_of_its_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = hasty(&format!("http://{}", listener.local_addr().unwrap()));
    let mut tool = connect(&gateway).await;
    tool.write_all(format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", place(&gateway).1).as_bytes()).await.unwrap();
    let (mut service, _) = listener.accept().await.unwrap();
    until(&mut service, "\r\n\r\n").await;
    service.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n").await.unwrap();
    let piece = vec![b'x'; 1 << 16];
    // It ends when the gateway has ended: nothing else stops this.
    while service.write_all(&piece).await.is_ok() {}
}
