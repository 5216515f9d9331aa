//! What the tests share: lists as a manifest has them, resolvers, a note of what the observer is told, servers.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use egress::{AllowList, Decision, Egress, Lookup, Observer, Proxy, Resolve, Transfer};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use manifest::NetworkEntry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The entries as the manifest's own reader understands them; `None` where it refuses one.
pub(crate) fn read(entries: &[impl AsRef<str>]) -> Option<Vec<NetworkEntry>> {
    let quoted: Vec<String> = entries.iter().map(|entry| format!("'{}'", entry.as_ref())).collect();
    let network = format!("\ncapabilities:\n  network: {{ allow: [{}] }}\n", quoted.join(", "));
    let text = manifest::scaffold("tester").replace("\ncapabilities:\n", &network);
    let loaded = manifest::parse(text.as_bytes(), "/nowhere/murmur.yaml".as_ref()).ok()?;
    loaded.manifest.capabilities.network.clone().map(|network| network.allow)
}

pub(crate) fn list(entries: &[impl AsRef<str>]) -> AllowList {
    AllowList::new(&read(entries).expect("the manifest takes these entries"))
}

/// Answers every name by what the function says of it and of how often was asked before.
pub(crate) struct Names<F> {
    answer: F,
    asked: AtomicUsize,
}

impl<F> Names<F> {
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

pub(crate) fn names<F: Fn(&str, usize) -> Vec<&'static str>>(answer: F) -> Arc<Names<F>> {
    Arc::new(Names { answer, asked: AtomicUsize::new(0) })
}

impl<F: Fn(&str, usize) -> Vec<&'static str> + Send + Sync> Resolve for Names<F> {
    fn resolve<'a>(&'a self, name: &'a str) -> Lookup<'a> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let found = (self.answer)(name, asked);
        Box::pin(async move {
            if found.is_empty() {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(found.into_iter().map(|address| address.parse::<IpAddr>().unwrap()).collect())
        })
    }
}

/// What an observer was told, a line each.
pub(crate) struct Told(UnboundedReceiver<String>);

struct Teller(UnboundedSender<String>);

impl Observer for Teller {
    fn decided(&self, decision: &Decision<'_>) {
        let Decision { scheme, host, port, outcome } = decision;
        let outcome = match outcome {
            Ok(address) => format!("connected {address}"),
            Err(refusal) => {
                assert_eq!((&refusal.scheme, refusal.host.as_str(), &refusal.port), (scheme, *host, port));
                refusal.code().to_owned()
            }
        };
        let _ = self.0.send(format!("{} {host}:{port} {outcome}", scheme.as_str()));
    }

    fn ended(&self, transfer: &Transfer<'_>) {
        let Transfer { scheme, host, port, address, sent, received } = transfer;
        let _ = self.0.send(format!("{} {host}:{port} ended {address} {sent} {received}", scheme.as_str()));
    }
}

impl Told {
    /// The next line, waited for.
    pub(crate) async fn next(&mut self) -> String {
        self.0.recv().await.unwrap()
    }

    /// What has been told by now.
    pub(crate) fn so_far(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// An egress whose observer is listened to; nothing resolves.
pub(crate) fn watched(allow: AllowList) -> (Egress, Told) {
    let (sender, receiver) = unbounded_channel();
    let mut egress = Egress::new(allow);
    egress.observer = Arc::new(Teller(sender));
    egress.resolver = names(|_, _| Vec::new());
    (egress, Told(receiver))
}

/// A proxy on loopback.
pub(crate) fn serve(egress: Egress) -> (Proxy, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Proxy::serve(listener, Arc::new(egress)).unwrap(), address)
}

/// A proxy for `localhost`, whatever the port.
pub(crate) fn local() -> (Proxy, SocketAddr, Told) {
    let (egress, told) = watched(list(&["localhost"]));
    let (proxy, address) = serve(egress);
    (proxy, address, told)
}

/// Sends bytes as they are and reads until the connection ends.
pub(crate) async fn raw(proxy: SocketAddr, request: impl AsRef<[u8]>) -> String {
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    tcp.write_all(request.as_ref()).await.unwrap();
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

/// The status and the body of an answer that is no stream of chunks.
pub(crate) fn parse(answer: &str) -> (u16, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (head[9..12].parse().unwrap(), body)
}

/// Opens a tunnel and reads its answer.
pub(crate) async fn tunnel(proxy: SocketAddr, target: &str) -> TcpStream {
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    tcp.write_all(format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n").as_bytes()).await.unwrap();
    let head = until(&mut tcp, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(!head.contains("content-length") && !head.contains("transfer-encoding"), "{head}");
    tcp
}

pub(crate) async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A server that sends back what it gets, and ends when its client does.
pub(crate) async fn echo() -> u16 {
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut read, mut write) = tcp.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    port
}

/// One request as a server got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    /// Its headers, a line each, in order of their names.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }
}

/// An HTTP server that reads each request whole.
pub(crate) struct Stub {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

pub(crate) fn say(status: u16, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(body.into())).unwrap()
}

impl Stub {
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Response<Full<Bytes>> + Send + Sync + 'static) -> Self {
        let (listener, port) = listen().await;
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
                        noted.lock().unwrap().push(seen.clone());
                        Ok::<_, Infallible>(answer(&seen))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(tcp), service));
            }
        });
        Self { port, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}
