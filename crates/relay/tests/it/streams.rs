//! Bodies of any size pass piece by piece, in both directions at once.

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{KEY, Stub, connect, literal, open, parse, place, post, rest, say, until};

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

async fn chunk(tcp: &mut TcpStream, text: &str) {
    tcp.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.unwrap();
}

#[tokio::test]
async fn large_bodies_pass_whole_both_ways() {
    let stub = Stub::start(|_, seen| say(200, seen.body.clone())).await;
    let gateway = open(&stub.url, literal(KEY));
    let body: String = (0..1_000_000_u32).map(|number| format!("{number:08x}")).collect();
    let (status, answer) = post(&gateway, "", &body).await;
    assert_eq!((status, answer.len()), (200, 8_000_000));
    assert!(answer == body, "the answer is another one");
    assert_eq!(stub.seen()[0].header("content-length"), Some("8000000"));
}

#[tokio::test]
async fn each_piece_passes_before_the_next_one_is_sent() {
    let (listener, url) = listen().await;
    let served = tokio::spawn(async move {
        let (mut service, _) = listener.accept().await.unwrap();
        until(&mut service, "\r\n\r\n").await;
        service.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        for number in 0..3 {
            until(&mut service, &format!("piece {number}\r\n")).await;
            chunk(&mut service, &format!("echo {number}")).await;
        }
        until(&mut service, "0\r\n\r\n").await;
        service.write_all(b"0\r\n\r\n").await.unwrap();
    });
    let gateway = open(&url, literal(KEY));
    let mut tool = connect(&gateway).await;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        place(&gateway).1
    );
    tool.write_all(head.as_bytes()).await.unwrap();
    for number in 0..3 {
        chunk(&mut tool, &format!("piece {number}")).await;
        until(&mut tool, &format!("echo {number}")).await;
    }
    tool.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(rest(&mut tool).await, "\r\n0\r\n\r\n");
    served.await.unwrap();
}

#[tokio::test]
async fn events_pass_as_they_come() {
    let (listener, url) = listen().await;
    let (heard, mut wait) = tokio::sync::mpsc::channel::<()>(1);
    tokio::spawn(async move {
        let (mut service, _) = listener.accept().await.unwrap();
        until(&mut service, "\r\n\r\n").await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        service.write_all(head.as_bytes()).await.unwrap();
        for number in 0..3 {
            service.write_all(format!("data: {number}\n\n").as_bytes()).await.unwrap();
            wait.recv().await.unwrap();
        }
    });
    let gateway = open(&url, literal(KEY));
    let mut tool = connect(&gateway).await;
    let head = format!("GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", place(&gateway).1);
    tool.write_all(head.as_bytes()).await.unwrap();
    let mut all = String::new();
    for number in 0..3 {
        all += &until(&mut tool, &format!("data: {number}\n\n")).await;
        heard.send(()).await.unwrap();
    }
    all += &rest(&mut tool).await;
    assert_eq!(parse(&all), (200, "data: 0\n\ndata: 1\n\ndata: 2\n\n".to_owned()));
}

#[tokio::test]
async fn a_service_that_answers_early_is_heard_while_the_tool_still_sends() {
    let (listener, url) = listen().await;
    tokio::spawn(async move {
        let (mut service, _) = listener.accept().await.unwrap();
        until(&mut service, "\r\n\r\n").await;
        let answer = "HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig";
        service.write_all(answer.as_bytes()).await.unwrap();
        let mut sink = vec![0; 1 << 16];
        while service.read(&mut sink).await.is_ok_and(|read| read > 0) {}
    });
    let gateway = open(&url, literal(KEY));
    let mut tool = connect(&gateway).await;
    let head = format!("POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n", place(&gateway).1);
    tool.write_all(head.as_bytes()).await.unwrap();
    tool.write_all(&Bytes::from(vec![b'x'; 1 << 16])).await.unwrap();
    let answer = until(&mut tool, "\r\n0\r\n\r\n").await;
    assert_eq!(parse(&answer), (413, "big".to_owned()));
}
