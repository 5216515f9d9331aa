//! The control surface under load: reads, and changes with their trace lines, over connections that stay open.
//!
//! The door has its one thread, and what that thread does in a second of its core is what is measured, so that the
//! figure stands whoever else uses the machine. The clients write and read as little as HTTP allows, in the same
//! process on another thread.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    reason = "a bench that cannot set its scene ends; its product is what it prints"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use door::{Door, Limits, Listening, Options, Scope, TokenKey};
use policy::{Policy, Rules};
use record::{Capture, Home};
use runtime::{
    Acceptance, AfterTask, ChoiceCredential, ControlDeclared, DriverChoice, Lifecycle, Registry, Session, Setting,
    Setup,
};
use secrets::{Redactor, Vault};
use vocab::{
    BoxFuture, CallParams, DeltaSink, Driver, DriverError, Message, Reply, SessionId, SystemClock, ToolSpec, Wire,
};

const CONNECTIONS: usize = 8;
const TIME: Duration = Duration::from_secs(5);

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
    let read = load(address, get.as_bytes());
    let changed = load(address, put.as_bytes());
    assert_eq!(lines(&trace, &handle.info().session), changed.count + CONNECTIONS, "each change has its line");
    door.close();
    drop(session);

    println!("| Work | Measured | Reach for |\n|---|---|---|");
    read.row(&format!("`GET /control`, {CONNECTIONS} connections that stay open"), "60,000");
    changed.row("a setting's `PUT` with its trace line, the same", "40,000");
}

/// What was done in the time of the bench.
struct Done {
    count: usize,
    took: Duration,
    /// How long the door's thread was on a core.
    busy: Duration,
}

impl Done {
    fn row(&self, work: &str, goal: &str) {
        let (wall, core) = (self.count as f64 / self.took.as_secs_f64(), self.count as f64 / self.busy.as_secs_f64());
        println!("| {work} | {core:.0} for each second of the door's core ({wall:.0} a second here) | {goal} |");
    }
}

/// Asks on all connections at once and reads all answers, again and again. One thread does that: with one for
/// each connection their turns on the core would be what is measured.
fn load(address: SocketAddr, request: &[u8]) -> Done {
    let mut connections: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let tcp = TcpStream::connect(address).unwrap();
            tcp.set_nodelay(true).unwrap();
            tcp
        })
        .collect();
    // Before anything is counted: the thread is there, and what is made once is made.
    round(&mut connections, request);
    let (began, busy) = (Instant::now(), busy());
    let mut count = 0;
    while began.elapsed() < TIME {
        round(&mut connections, request);
        count += connections.len();
    }
    Done { count, took: began.elapsed(), busy: self::busy() - busy }
}

fn round(connections: &mut [TcpStream], request: &[u8]) {
    let mut buffer = [0; 4096];
    for connection in &mut *connections {
        connection.write_all(request).unwrap();
    }
    for connection in connections {
        let mut got = 0;
        while length(&buffer[..got]).is_none_or(|whole| got < whole) {
            got += connection.read(&mut buffer[got..]).unwrap();
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&buffer[..got]));
    }
}

/// How long the door's thread has been on a core.
fn busy() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_door = |task: &std::path::PathBuf| std::fs::read_to_string(task.join("comm")).unwrap().trim() == "door";
    let door = tasks.into_iter().find(is_door).unwrap();
    let nanos = std::fs::read_to_string(door.join("schedstat")).unwrap();
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
        resumed_from: None,
        contexts: Vec::new(),
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
