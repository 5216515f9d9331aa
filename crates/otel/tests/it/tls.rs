//! A receiver behind TLS: its certificate is trusted when `SSL_CERT_FILE` names it, and only then.
//!
//! The variable is the process's, so each case exports from a child: this test again, told where to send.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::play::Play;

const CHILD: &str = "MUR_TEST_OTLP";

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "drivers", "tests", "fixtures", name].iter().collect()
}

/// Serves one connection; gives the head of the request that came, if one did.
fn serve(listener: &TcpListener) -> String {
    let certificate = CertificateDer::from_pem_file(fixture("localhost.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("localhost.key")).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (tcp, _) = listener.accept().unwrap();
    let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(server)).unwrap(), tcp);
    let mut request = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return String::new(),
            Ok(read) => request.extend_from_slice(&piece[..read]),
        }
        let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(request[..end].to_vec()).unwrap();
        let length = head.split_once("content-length: ").unwrap().1.split("\r\n").next().unwrap();
        if request.len() == end + 4 + length.parse::<usize>().unwrap() {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            return head;
        }
    }
}

/// Exports a short session from a child that trusts this certificate; gives what the receiver read
/// and what the child's report said.
fn exported(test: &str, roots: Option<&str>) -> (String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || serve(&listener));
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(CHILD, url).env_remove("SSL_CERT_FILE");
    child.envs(roots.map(|name| ("SSL_CERT_FILE", fixture(name))));
    let output = child.output().unwrap();
    (served.join().unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// The child's part.
fn export(url: &str) {
    let (play, exporter) = Play::start(url);
    play.short();
    let mut output = std::io::stdout();
    writeln!(output, "{:?}", exporter.finish()).unwrap();
}

#[test]
fn a_named_certificate_is_trusted() {
    if let Ok(url) = std::env::var(CHILD) {
        return export(&url);
    }
    let (head, report) = exported("tls::a_named_certificate_is_trusted", Some("localhost.pem"));
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(report.contains("Report { sent: 4, dropped: 0, error: None }"), "{report}");
}

#[test]
fn an_unknown_certificate_is_refused_and_gets_nothing() {
    if let Ok(url) = std::env::var(CHILD) {
        return export(&url);
    }
    let (head, report) = exported("tls::an_unknown_certificate_is_refused_and_gets_nothing", None);
    assert_eq!(head, "");
    assert!(report.contains("sent: 0, dropped: 4") && report.contains("invalid peer certificate"), "{report}");
}

#[test]
fn certificates_that_cannot_be_read_are_said() {
    if let Ok(url) = std::env::var(CHILD) {
        return export(&url);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["tls::certificates_that_cannot_be_read_are_said", "--exact", "--nocapture"]);
    child.env(CHILD, format!("https://{}", listener.local_addr().unwrap()));
    child.env("SSL_CERT_FILE", fixture("none.pem"));
    let report = String::from_utf8(child.output().unwrap().stdout).unwrap();
    assert!(report.contains("sent: 0, dropped: 4") && report.contains("Unreadable"), "{report}");
}
