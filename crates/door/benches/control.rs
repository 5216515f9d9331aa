//! The control surface under load: reads, and changes with their trace lines, over connections that stay open.
//!
//! The door has its one thread, and what that thread does in a second of its core is what is measured. That depends on
//! the machine and on who else uses it, so the same is asked of an HTTP server that does nothing but give a fixed answer,
//! in turns with the door; what the door adds to that is its own. The clients write and read as little as HTTP allows, in
//! the same process on another thread.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    reason = "a bench that cannot set its scene ends; its product is what it prints"
)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use door::{Door, Limits, Listening, Options, Scope, TokenKey};
use http::Response;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use policy::{Policy, Rules};
use record::{Capture, Home};
use runtime::{
    Acceptance, AfterTask, ChoiceCredential, ControlDeclared, DriverChoice, Lifecycle, Registry, Session, Setting,
    Setup,
};
use secrets::{Redactor, Vault};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use vocab::{
    BoxFuture, CallParams, DeltaSink, Driver, DriverError, Message, Reply, SessionId, SystemClock, ToolSpec, Wire,
};

const CONNECTIONS: usize = 8;
/// How long each is asked at a time, and how often: the medians count.
const TIME: Duration = Duration::from_millis(300);
const TURNS: usize = 21;
/// Bytes of the fixed answer: about as many as those of the door have.
const ANSWER: usize = 400;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("home")).unwrap();
    home.ensure().unwrap();
    let trace = home.clone();
    let session = Session::start(setup(home)).unwrap();
    let handle = session.handle();
    let listening = Listening::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let key = Arc::new(TokenKey::new().unwrap());
    let token = key.mint(Scope::Control, &handle.info().session, 1);
    let options = Options { key, authentication: true, skills: Vec::new(), limits: Limits::default() };
    let door = Door::open(listening, handle.clone(), options).unwrap();
    let (address, token) = (door.address(), token.reveal());

    let head = format!("host: {address}\r\nauthorization: Bearer {token}\r\n");
    let get = format!("GET /control HTTP/1.1\r\n{head}\r\n");
    let body = r#"{"value": 2000}"#;
    let put = format!(
        "PUT /control/settings/inference.max_tokens HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let bare = bare();
    let fixed = format!("GET / HTTP/1.1\r\n{head}\r\n");
    let mut rates = [const { Vec::new() }; 3];
    let mut changes = 0;
    for _ in 0..TURNS {
        rates[0].push(load(bare, "bare", fixed.as_bytes()).rate());
        rates[1].push(load(address, "door", get.as_bytes()).rate());
        let changed = load(address, "door", put.as_bytes());
        rates[2].push(changed.rate());
        changes += changed.count + CONNECTIONS;
    }
    assert_eq!(lines(&trace, &handle.info().session), changes, "each change has its line");
    door.close();
    drop(session);

    let [fixed, read, changed] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[TURNS / 2]
    });
    let row = |work: &str, rate: f64, goal: &str| {
        println!("| {work} | {rate:.0}, {:.2}× a server of one fixed answer ({fixed:.0}) | {goal} |", rate / fixed);
    };
    println!("| Work | Measured | Reach for |\n|---|---|---|");
    let get = format!("`GET /control`, {CONNECTIONS} connections, for each second of the door's core");
    row(&get, read, "≥ 60,000");
    row("a setting's `PUT` with its trace line, the same", changed, "≥ 40,000");
}

/// What was done in the time of the bench.
struct Done {
    count: usize,
    /// How long the server's thread was on a core.
    busy: Duration,
}

impl Done {
    /// For each second of the core.
    fn rate(&self) -> f64 {
        self.count as f64 / self.busy.as_secs_f64()
    }
}

/// A server that gives everybody one answer, on a thread of its own until the bench ends.
fn bare() -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move || {
        runtime().block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                tcp.set_nodelay(true).unwrap();
                let answer =
                    |_| async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&[b'x'; ANSWER])))) };
                tokio::spawn(
                    http1::Builder::new().writev(false).serve_connection(TokioIo::new(tcp), service_fn(answer)),
                );
            }
        });
    };
    std::thread::Builder::new().name("bare".to_owned()).spawn(serve).unwrap();
    address
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Asks on each connection again as soon as its answer is there. One thread does that for all of them: with one for
/// each their turns on the core would be what is measured.
fn load(address: SocketAddr, thread: &str, request: &[u8]) -> Done {
    runtime().block_on(async {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut tcp = TcpStream::connect(address).await.unwrap();
            tcp.set_nodelay(true).unwrap();
            // Before anything is counted: the thread is there, and what is made once is made.
            ask(&mut tcp, request).await;
            connections.push(tcp);
        }
        let (began, before) = (Instant::now(), busy(thread));
        let mut all = tokio::task::JoinSet::new();
        for mut tcp in connections {
            let request = request.to_owned();
            all.spawn(async move {
                let mut count = 0;
                while began.elapsed() < TIME {
                    ask(&mut tcp, &request).await;
                    count += 1;
                }
                count
            });
        }
        let count = all.join_all().await.into_iter().sum();
        Done { count, busy: busy(thread) - before }
    })
}

async fn ask(tcp: &mut TcpStream, request: &[u8]) {
    let mut buffer = [0; 4096];
    tcp.write_all(request).await.unwrap();
    let mut got = 0;
    while length(&buffer[..got]).is_none_or(|whole| got < whole) {
        got += tcp.read(&mut buffer[got..]).await.unwrap();
    }
    assert!(buffer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&buffer[..got]));
}

/// How long the server's thread has been on a core.
fn busy(thread: &str) -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_it = |task: &std::path::PathBuf| std::fs::read_to_string(task.join("comm")).unwrap().trim() == thread;
    let nanos = std::fs::read_to_string(tasks.into_iter().find(is_it).unwrap().join("schedstat")).unwrap();
    Duration::from_nanos(nanos.split(' ').next().unwrap().parse().unwrap())
}

/// How long an answer is, once its head is there.
fn length(answer: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(answer).unwrap();
    let (head, _) = text.split_once("\r\n\r\n")?;
    let body: usize = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().unwrap();
    Some(head.len() + 4 + body)
}

fn lines(home: &Home, session: &SessionId) -> usize {
    let text = std::fs::read_to_string(home.trace_path(session)).unwrap();
    text.lines().filter(|line| line.contains("\"control_change\"")).count()
}

fn setup(home: Home) -> Setup {
    let control = ControlDeclared {
        settings: vec![Setting::MaxTokens, Setting::Driver],
        secrets: vec!["KEY".into()],
        agent_settings: Vec::new(),
    };
    let choice = |name: &str| DriverChoice {
        name: name.into(),
        driver: Arc::new(Silent),
        context_window: 1 << 20,
        credential: ChoiceCredential::Resolved("keyless"),
    };
    Setup {
        session: SessionId::new(),
        mur_version: "0.0.0",
        capsule: ("bench".into(), "1".into()),
        workdir: "/w".into(),
        home,
        capture: Capture::Meta,
        choices: vec![choice("primary"), choice("cheap")],
        vault: Arc::new(Vault::new(control.secrets.clone())),
        credentials: Default::default(),
        control,
        scripted: false,
        system: String::new(),
        registry: Registry::new(Vec::new(), |_| "no grant"),
        policy: Policy::new(Rules::new("/w".into())),
        verify: Vec::new(),
        guidance: Default::default(),
        redactor: Redactor::new(),
        limits: runtime::Limits { max_turns: 1, max_tokens: 1000, max_session_tokens: None },
        compaction: None,
        clock: Arc::new(SystemClock),
        observer: Box::new(()),
        telemetry: None,
        description: None,
        lifecycle: Lifecycle { acceptance: Acceptance::Queue, after_task: AfterTask::Sleep, ..Lifecycle::default() },
        effective_grants: None,
        resumed_from: None,
        contexts: Vec::new(),
        delegation: None,
        parent: None,
    }
}

/// No model is asked here.
struct Silent;

impl Driver for Silent {
    fn name(&self) -> &str {
        "bench"
    }

    fn model(&self) -> &str {
        "bench"
    }

    fn open(&self, _: &str, _: &[ToolSpec]) -> Box<dyn Wire> {
        Box::new(Self)
    }

    fn call<'a>(
        &'a self,
        _: &'a dyn Wire,
        _: CallParams,
        _: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Reply, DriverError>> {
        Box::pin(std::future::pending())
    }
}

impl Wire for Silent {
    fn push(&mut self, _: &Message) {}

    fn body(&self, _: CallParams, _: Vec<u8>) -> Vec<u8> {
        Vec::new()
    }

    fn len(&self) -> usize {
        0
    }

    fn is_empty(&self) -> bool {
        true
    }
}
