//! The scripted model server.
//!
//! It lives on the runtime of the test that starts it, or on a thread of its own for tests that block
//! ([`Builder::start_on_thread`]). A request that breaks a rule takes no turn of the script: it gets the
//! vendor's 400 and stands in [`ModelServer::violations`].

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::body::{Piece, ScriptBody, pieces};
use crate::render;
use crate::strict::{self, WireForm};
use crate::turn::{Answer, Turn};

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which vendor's form it speaks; `None` for a path that neither has.
    pub wire: Option<WireForm>,
    /// Path and query.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: HeaderMap,
    /// The body's bytes.
    pub raw: Bytes,
    /// The body, or null if it is not JSON.
    pub body: Value,
}

type Script = dyn Fn(usize, &Request) -> Turn + Send + Sync;

struct Shared {
    script: Box<Script>,
    key: Option<String>,
    strict: bool,
    record: bool,
    log: Mutex<Log>,
    arrived: watch::Sender<usize>,
    abandoned: watch::Sender<usize>,
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    violations: Vec<String>,
    turns: usize,
    connections: usize,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server before it starts.
pub struct Builder {
    script: Box<Script>,
    key: Option<String>,
    strict: bool,
    record: bool,
    address: SocketAddr,
}

impl Builder {
    /// Demands this key, in the wire's own header. Without it a request that sends one is refused.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Checks nothing, records nothing and does not keep what it reads: for benches, whose figures the server
    /// must not dominate.
    #[must_use]
    pub fn unchecked(mut self) -> Self {
        self.strict = false;
        self.record = false;
        self
    }

    /// Listens here instead of a free port of 127.0.0.1.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Starts on the current tokio runtime; dropping the server stops it.
    pub async fn start(self) -> ModelServer {
        let listener = TcpListener::bind(self.address).await.expect("the address can be bound");
        let address = listener.local_addr().expect("a bound listener has an address");
        let shared = self.shared();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(serve(listener, Arc::clone(&shared), stopped));
        ModelServer { address, shared, _stop: stop }
    }

    /// Starts on a thread with a runtime of its own, for tests that block their thread.
    #[must_use]
    pub fn start_on_thread(self) -> ModelServer {
        let listener = std::net::TcpListener::bind(self.address).expect("the address can be bound");
        let address = listener.local_addr().expect("a bound listener has an address");
        listener.set_nonblocking(true).expect("a listener can be made nonblocking");
        let shared = self.shared();
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be built").block_on(async {
                let listener = TcpListener::from_std(listener).expect("the listener is nonblocking");
                serve(listener, served, stopped).await;
            });
        });
        ModelServer { address, shared, _stop: stop }
    }

    fn shared(self) -> Arc<Shared> {
        Arc::new(Shared {
            script: self.script,
            key: self.key,
            strict: self.strict,
            record: self.record,
            log: Mutex::default(),
            arrived: watch::Sender::new(0),
            abandoned: watch::Sender::new(0),
        })
    }
}

/// A running scripted model server. It stops when it is dropped.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    // Its drop ends the accept loop and every connection with it.
    _stop: oneshot::Sender<Infallible>,
}

impl ModelServer {
    /// Plays these turns in order, keyless, and answers 400 when they are used up.
    pub async fn start(turns: Vec<Turn>) -> Self {
        Self::turns(turns).start().await
    }

    /// A server that plays these turns in order.
    #[must_use]
    pub fn turns(turns: Vec<Turn>) -> Builder {
        Self::answering(move |turn, _| {
            turns.get(turn).cloned().unwrap_or_else(|| Turn::status(400, format!("the script has no turn {turn}")))
        })
    }

    /// A server that makes each turn from its number, from 0, and the request.
    #[must_use]
    pub fn answering(script: impl Fn(usize, &Request) -> Turn + Send + Sync + 'static) -> Builder {
        Builder {
            script: Box::new(script),
            key: None,
            strict: true,
            record: true,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        }
    }

    /// A server that asks `rounds` times for one tool with these arguments, then says `done`, forever.
    #[must_use]
    pub fn looping(tool: impl Into<String>, arguments: Value, rounds: usize) -> Builder {
        let ask = Turn::new().tool(tool, arguments);
        Self::answering(
            move |turn, _| {
                if turn % (rounds + 1) < rounds { ask.clone() } else { Turn::new().text("done") }
            },
        )
    }

    /// `http://127.0.0.1:<port>`, what `gateway.endpoint` should name.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far, refused ones included.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log().requests.clone()
    }

    /// The rules that requests broke so far.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.shared.log().violations.clone()
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.log().connections
    }

    /// Waits until so many requests have come whole.
    pub async fn wait_requests(&self, count: usize) {
        let mut seen = self.shared.arrived.subscribe();
        let _ = seen.wait_for(|arrived| *arrived >= count).await;
    }

    /// Waits until so many answers lost their reader before their end.
    pub async fn wait_abandoned(&self, count: usize) {
        let mut seen = self.shared.abandoned.subscribe();
        let _ = seen.wait_for(|abandoned| *abandoned >= count).await;
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stopped: oneshot::Receiver<Infallible>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => return,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue };
        // Small frames must leave at once: the client waits for them.
        let _ = stream.set_nodelay(true);
        shared.log().connections += 1;
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&shared)));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// The script hangs up here.
#[derive(Debug)]
struct HangUp;

impl std::fmt::Display for HangUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the script hangs up here")
    }
}

impl std::error::Error for HangUp {}

/// Counts an answer as abandoned when it is dropped before it was disarmed.
struct Watch(Option<Arc<Shared>>);

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.abandoned.send_modify(|count| *count += 1);
        }
    }
}

/// Reads a body to its end and keeps nothing of it.
async fn drained(mut body: Incoming) -> Result<Bytes, HangUp> {
    while let Some(frame) = body.frame().await {
        frame.map_err(|_| HangUp)?;
    }
    Ok(Bytes::new())
}

async fn answer(request: http::Request<Incoming>, shared: Arc<Shared>) -> Result<Response<ScriptBody>, HangUp> {
    let (head, body) = request.into_parts();
    let looked_at = shared.strict || shared.record;
    let raw = if looked_at { body.collect().await.map_err(|_| HangUp)?.to_bytes() } else { drained(body).await? };
    let path = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
    let wire = WireForm::of(head.uri.path()).filter(|_| head.method == http::Method::POST);
    let body = if looked_at { serde_json::from_slice(&raw).unwrap_or(Value::Null) } else { Value::Null };
    let request = Request { wire, path, headers: head.headers, raw, body };
    let Some(wire) = wire else {
        note(&shared, &request, Some(format!("no such route: {} {}", head.method, request.path)));
        return Ok(json(404, &render::error(WireForm::OpenAi, 404, None, "no such route")));
    };
    let refusal = if shared.strict {
        strict::check(wire, &request.headers, &request.body, shared.key.as_deref()).err()
    } else {
        None
    };
    let number = note(&shared, &request, refusal.as_ref().map(|refusal| refusal.message.clone()));
    if let Some(refusal) = refusal {
        return Ok(json(refusal.status, &render::error(wire, refusal.status, None, &refusal.message)));
    }

    let turn = (shared.script)(number, &request);
    if let Some(gate) = &turn.before {
        let mut watch = Watch(Some(Arc::clone(&shared)));
        gate.wait().await;
        watch.0 = None;
    }
    let model = request.body.get("model").and_then(Value::as_str).unwrap_or_default();
    let (code, content_type, body) = match &turn.answer {
        Answer::HangUp => return Err(HangUp),
        Answer::Status { code, kind, message } => {
            let body = render::error(wire, *code, kind.as_deref(), message).to_string();
            (*code, Some("application/json"), Bytes::from(body))
        }
        Answer::Raw { code, content_type, body } => (*code, content_type.as_deref(), body.clone()),
        Answer::Model => {
            (200, Some("text/event-stream; charset=utf-8"), Bytes::from(render::stream(wire, &turn, model, number)))
        }
    };
    let mut parts = pieces(&turn, body);
    let body = match parts.as_mut_slice() {
        [] => ScriptBody::Full(None),
        [Piece::Data(data)] => ScriptBody::Full(Some(std::mem::take(data))),
        _ => {
            let shared = Arc::clone(&shared);
            ScriptBody::play(parts, move || shared.abandoned.send_modify(|count| *count += 1))
        }
    };
    let mut response = Response::builder().status(code);
    if let Some(content_type) = content_type {
        response = response.header(http::header::CONTENT_TYPE, content_type);
    }
    for (name, value) in &turn.headers {
        response = response.header(name, value);
    }
    Ok(response.body(body).expect("a scripted status and scripted headers are valid"))
}

/// Logs a request and, if it broke no rule, takes the next turn's number.
fn note(shared: &Shared, request: &Request, violation: Option<String>) -> usize {
    let mut log = shared.log();
    let number = log.turns;
    if shared.record {
        log.requests.push(request.clone());
    }
    match violation {
        Some(violation) => log.violations.push(violation),
        None => log.turns += 1,
    }
    drop(log);
    shared.arrived.send_modify(|count| *count += 1);
    number
}

fn json(status: u16, body: &Value) -> Response<ScriptBody> {
    let mut response = Response::new(ScriptBody::Full(Some(Bytes::from(body.to_string()))));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
