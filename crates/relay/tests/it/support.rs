//! What the tests share: a service that notes what it gets, a gateway before it, a client of bare bytes.

use std::convert::Infallible;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use relay::{Gateway, Limits, Upstream, UpstreamAuth, UpstreamConfig};
use secrets::{
    CredentialChange as Change, CredentialEvent, CredentialObserver, Keyring, LiveCredential, Lookup, Redactor, Secret,
    Vault,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const KEY: &str = "key-of-the-test";

/// One request as the service got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().unwrap());
        assert_eq!(values.next(), None, "`{name}` stands twice");
        value
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.header("x-api-key")
    }
}

/// A service that reads each request whole.
pub(crate) struct Stub {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

pub(crate) fn say(status: u16, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(body.into())).unwrap()
}

impl Stub {
    /// Answers the request of this number, from 0.
    pub(crate) async fn start(answer: impl Fn(usize, &Seen) -> Response<Full<Bytes>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (noted, answer) = (Arc::clone(&seen), Arc::new(answer));
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.map_or_else(|_| Bytes::from("cut"), |all| all.to_bytes());
                        let (method, target) = (head.method.to_string(), head.uri.to_string());
                        let seen = Seen { method, target, headers: head.headers, body };
                        let number = {
                            let mut noted = noted.lock().unwrap();
                            noted.push(seen.clone());
                            noted.len() - 1
                        };
                        Ok::<_, Infallible>(answer(number, &seen))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(tcp), service));
            }
        });
        Self { url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.key().unwrap_or("none").to_owned()).collect()
    }
}

/// Notes what it is told, as one word and the reason.
#[derive(Default)]
pub(crate) struct Told(Mutex<Vec<String>>);

impl Told {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl CredentialObserver for Told {
    fn credential(&self, event: &CredentialEvent<'_>) {
        let change = match event.change {
            Change::Rotated => "rotated",
            Change::Rejected => "rejected",
            Change::Unreadable(_) => "unreadable",
            Change::NotInjected => "not_injected",
        };
        let name = event.credential.unwrap_or("-");
        self.0.lock().unwrap().push(format!("{name} {} {change}", event.source.as_str()));
    }
}

pub(crate) fn auth() -> UpstreamAuth {
    UpstreamAuth::new("X-Api-Key", "{key}").unwrap()
}

pub(crate) fn literal(key: &str) -> LiveCredential {
    LiveCredential::literal(Secret::new(key.to_owned()), &Redactor::new())
}

pub(crate) fn config(endpoint: &str, credential: LiveCredential, told: &Arc<Told>) -> UpstreamConfig {
    let mut config = UpstreamConfig::new(endpoint);
    let told = Arc::clone(told) as Arc<dyn CredentialObserver>;
    config.key = Some((Keyring::new(credential, told), auth()));
    config.extra_roots = None;
    config
}

pub(crate) fn open(endpoint: &str, credential: LiveCredential) -> Gateway {
    Upstream::new(config(endpoint, credential, &Arc::default())).unwrap().open().unwrap()
}

/// A gateway that gives up soon.
pub(crate) fn hasty(endpoint: &str) -> Gateway {
    let mut config = config(endpoint, literal(KEY), &Arc::default());
    config.limits = Limits { idle: Duration::from_millis(50), ..Limits::default() };
    Upstream::new(config).unwrap().open().unwrap()
}

/// Where a gateway listens, and the path that it answers at.
pub(crate) fn place(gateway: &Gateway) -> (&str, &str) {
    let rest = gateway.url().strip_prefix("http://").unwrap();
    rest.split_at(rest.find('/').unwrap())
}

pub(crate) async fn connect(gateway: &Gateway) -> TcpStream {
    TcpStream::connect(place(gateway).0).await.unwrap()
}

/// Sends bytes as they are, with the gateway's path for `@`, and reads until the connection ends.
pub(crate) async fn raw(gateway: &Gateway, request: &str) -> String {
    let mut tcp = connect(gateway).await;
    tcp.write_all(request.replace('@', place(gateway).1).as_bytes()).await.unwrap();
    rest(&mut tcp).await
}

/// What comes until the connection ends, in whatever way.
pub(crate) async fn rest(tcp: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = tcp.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

/// Reads until what has come ends like this.
pub(crate) async fn until(tcp: &mut TcpStream, end: &str) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        let mut byte = [0];
        let read = tcp.read(&mut byte).await.unwrap();
        assert_ne!(read, 0, "it ended after {}", String::from_utf8_lossy(&answer));
        answer.push(byte[0]);
    }
    String::from_utf8(answer).unwrap()
}

/// A plain request: the answer's status and body.
pub(crate) async fn get(gateway: &Gateway, path: &str) -> (u16, String) {
    fetch(gateway, &format!("GET @{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await
}

pub(crate) async fn post(gateway: &Gateway, path: &str, body: &str) -> (u16, String) {
    let head = format!("POST @{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}", body.len());
    fetch(gateway, &format!("{head}\r\n\r\n{body}")).await
}

/// The answer's status and its body, taken out of its chunks.
pub(crate) async fn fetch(gateway: &Gateway, request: &str) -> (u16, String) {
    parse(&raw(gateway, request).await)
}

pub(crate) fn parse(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head[9..12].parse().unwrap();
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return (status, body.to_owned());
    }
    let (mut left, mut whole) = (body, String::new());
    while let Some((size, after)) = left.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole.push_str(&after[..size]);
        left = &after[size + 2..];
    }
    (status, whole)
}

/// The gateway's own words.
pub(crate) fn own(sentence: &str) -> String {
    format!("{{\"error\":\"{sentence}\"}}")
}

/// A home whose config file holds `KEY`, and a vault with a place for `CARD`.
pub(crate) struct Home {
    dir: TempDir,
    lookup: Arc<Lookup>,
    pub(crate) vault: Arc<Vault>,
}

impl Home {
    pub(crate) fn new(key: &str) -> Self {
        let dir = TempDir::new().unwrap();
        put(&dir.path().join("config.yaml"), key);
        let lookup = Arc::new(Lookup::open(dir.path(), |_| None));
        Self { dir, lookup, vault: Arc::new(Vault::new(["CARD".to_owned()])) }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    pub(crate) fn credential(&self, name: &str) -> LiveCredential {
        LiveCredential::named(name, &self.lookup, &self.vault, &Redactor::new())
    }
}

pub(crate) fn put(file: &Path, key: &str) {
    std::fs::write(file, format!("credentials: {{KEY: {key}}}")).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}
