//! TLS: a certificate of one's own is trusted when it is named, and only then.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use vocab::DriverErrorKind as Kind;

use crate::support::{asked, call, config, model_text};

const ANSWER: &str = concat!(
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Safe.\"},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
);

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect()
}

/// Serves one connection with the fixture's certificate; the result is what it read, if anything.
fn serve() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let certificate = CertificateDer::from_pem_file(fixture("localhost.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("localhost.key")).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let served = std::thread::spawn(move || {
        let (tcp, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(server)).unwrap(), tcp);
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        // The body is one JSON object and ends with its output cap.
        while !request.ends_with(b"\"max_tokens\":1024}") {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => return String::new(),
                Ok(read) => request.extend_from_slice(&piece[..read]),
            }
        }
        stream.write_all(ANSWER.as_bytes()).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        String::from_utf8(request).unwrap()
    });
    (url, served)
}

#[tokio::test]
async fn a_named_certificate_is_trusted() {
    let (url, served) = serve();
    let mut config = config(&url);
    config.extra_roots = Some(fixture("localhost.pem"));
    let driver = drivers::build("openai", config).unwrap();
    let reply = call(driver.as_ref(), asked(driver.as_ref()).as_ref()).await.0.unwrap();
    assert_eq!(reply.content, [model_text("Safe.")]);
    assert!(served.join().unwrap().starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_for_good_and_gets_nothing() {
    let (url, served) = serve();
    let driver = drivers::build("openai", config(&url)).unwrap();
    let (outcome, seen) = call(driver.as_ref(), asked(driver.as_ref()).as_ref()).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind, error.retryable), (Kind::Network, false), "{error}");
    assert!(error.message.contains("cannot be reached: invalid peer certificate"), "{error}");
    assert_eq!(seen, Vec::<String>::new());
    assert_eq!(served.join().unwrap(), "");
}
