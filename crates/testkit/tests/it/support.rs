//! A minimal HTTP client, so that the server is not tested with the drivers that it tests.

use testkit::ModelServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) const ANTHROPIC: &str = "/v1/messages";
pub(crate) const OPENAI: &str = "/v1/chat/completions";

/// Posts a body and reads the connection to its end: status, head and body as they came.
pub(crate) async fn post(server: &ModelServer, path: &str, headers: &str, body: &str) -> (u16, String) {
    let version = if path == ANTHROPIC { "anthropic-version: 2023-06-01\r\n" } else { "" };
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-type: application/json\r\n{version}{headers}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A broken connection is an answer too: what came before it.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
