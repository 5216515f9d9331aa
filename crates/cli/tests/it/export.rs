//! Spans of a run at a receiver, and a run whose receiver is not there.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::json;
use testkit::Turn;

use crate::support::{Stage, Wire};

/// Reads one request and answers 200; gives its head and body.
fn take(connection: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
            let length: usize =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
            if bytes.len() >= end + 4 + length {
                connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                return Some((head, bytes[end + 4..].to_vec()));
            }
        }
        match connection.read(&mut piece).unwrap() {
            0 => return None,
            read => bytes.extend(&piece[..read]),
        }
    }
}

fn exporting(endpoint: &str) -> Stage {
    let turns = vec![
        Turn::new().tool("files_list", json!({"path": "."})),
        Turn::new().text("a reply that is nobody's business"),
    ];
    let stage = Stage::new(Wire::Anthropic, "files_list", turns);
    stage.declare(&format!(
        "capabilities: {{ tools: [files_list] }}\nobservability: {{ otlp_endpoint: \"{endpoint}\" }}\n"
    ));
    stage
}

#[test]
fn a_receiver_gets_the_spans_of_a_run_and_no_bodies() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stage = exporting(&format!("http://{}", listener.local_addr().unwrap()));
    let receiver = thread::spawn(move || {
        let mut requests = Vec::new();
        let (mut connection, _) = listener.accept().unwrap();
        while let Some(request) = take(&mut connection) {
            requests.push(request);
        }
        requests
    });
    let ran = stage.succeed();
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    let requests = receiver.join().unwrap();
    assert!(requests.iter().all(|(head, _)| head.starts_with("post /v1/traces http/1.1")), "{requests:?}");
    let bytes: Vec<u8> = requests.into_iter().flat_map(|(_, body)| body).collect();
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    for name in ["session agent", "invoke_agent agent", "chat a-model", "execute_tool files_list", "gen_ai.usage"] {
        assert!(has(name), "{name}");
    }
    assert!(!has("nobody's business") && !has("do it"), "no body is exported");
    let passed_on = stage.server.requests().iter().all(|request| request.headers.contains_key("traceparent"));
    assert!(passed_on, "each call to the model carries its span");
}

#[test]
fn a_receiver_that_is_not_there_costs_a_warning() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ran = exporting(&format!("http://127.0.0.1:{port}")).run(&[]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("warning[W-RUN-007]: "), "{}", ran.stderr);
}
