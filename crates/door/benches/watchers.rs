//! A thousand watchers of one session at a hundred frames a second, one of them stalled: how late the
//! others are, what the door's memory does, and what a frame costs the agent with and without them.
//!
//! The watchers are in a process of their own, so that their memory and their work are not counted as
//! the door's. Each frame carries the time at which it was published.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a bench that cannot set its scene ends; its product is what it prints"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use door::{Door, Limits, Listening, Options, TokenKey};
use fence::{ModelText, Unfenced};
use policy::{Policy, Rules};
use record::{Capture, Home};
use runtime::{
    Acceptance, AfterTask, Caller, ChoiceCredential, ControlDeclared, DriverChoice, Lifecycle, NewTask, Registry,
    Session, SessionHandle, Setup,
};
use secrets::Redactor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use vocab::{
    BoxFuture, CallParams, Delta, DeltaSink, Driver, DriverError, Message, Part, Reply, SessionId, StopReason,
    SystemClock, TaskSource, ToolSpec, Usage, Wire,
};

const WATCHERS: usize = 1000;
const FRAMES: usize = 1000;
const BETWEEN: Duration = Duration::from_millis(10);
/// Before the others come, so much is said that the stalled one's connection is full.
const BURST: usize = 3000;

fn main() {
    if let Ok(address) = std::env::var("WATCHERS_OF") {
        return watchers(address.parse().unwrap());
    }
    let took = Arc::new(Mutex::new(Vec::new()));
    let (session, handle, _dir) = session(Arc::clone(&took));
    let listening = Listening::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let options = Options {
        key: Arc::new(TokenKey::new().unwrap()),
        authentication: false,
        skills: Vec::new(),
        limits: Limits::default(),
    };
    let door = Door::open(listening, handle.clone(), options).unwrap();
    let agent = std::thread::spawn(move || serve(session));

    run(&handle, FRAMES);
    let alone = std::mem::take(&mut *took.lock().unwrap());
    let mut crowd = Crowd::start(door.address());
    crowd.expect("stalled");
    run(&handle, BURST);
    crowd.tell("come");
    crowd.expect("ready");
    took.lock().unwrap().clear();
    let (before, began, idle) = (resident(), Instant::now(), busy("door"));
    run(&handle, FRAMES);
    let (after, share) = (resident(), (busy("door") - idle).as_secs_f64() / began.elapsed().as_secs_f64());
    let watched = std::mem::take(&mut *took.lock().unwrap());
    crowd.tell("end");
    let late = crowd.line();
    handle.stop();
    agent.join().unwrap();
    door.close();
    crowd.child.wait().unwrap();

    println!("| Work | Measured | Reach for |\n|---|---|---|");
    println!("| {WATCHERS} watchers of one session, 100 frames/s, one stalled: lateness | {late} | none over 50 ms |");
    println!("| the same: what of a core the door's thread takes | {share:.2} | – |");
    println!(
        "| the same: the door's resident memory | {before:.1} MiB before, {after:.1} MiB after {FRAMES} frames | bounded |"
    );
    println!(
        "| the same: what a frame costs the agent | {} with watchers, {} without | the same |",
        spread(watched),
        spread(alone)
    );
}

/// Median and 99th percentile, in microseconds.
fn spread(mut nanos: Vec<u64>) -> String {
    nanos.sort_unstable();
    let at = |part: usize| nanos[(nanos.len() - 1) * part / 100] as f64 / 1000.0;
    format!("{:.1} µs (p99 {:.1})", at(50), at(99))
}

/// Resident memory of this process, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// How long a thread of this process has been on a core.
fn busy(thread: &str) -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_it = |task: &std::path::PathBuf| std::fs::read_to_string(task.join("comm")).unwrap().trim() == thread;
    let nanos = std::fs::read_to_string(tasks.into_iter().find(is_it).unwrap().join("schedstat")).unwrap();
    Duration::from_nanos(nanos.split(' ').next().unwrap().parse().unwrap())
}

fn micros() -> u64 {
    u64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap()
}

// ---- the agent ----

fn session(took: Arc<Mutex<Vec<u64>>>) -> (Session, SessionHandle, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("home")).unwrap();
    home.ensure().unwrap();
    let setup = Setup {
        session: SessionId::new(),
        mur_version: "0.0.0",
        capsule: ("bench".into(), "1".into()),
        workdir: "/w".into(),
        home,
        capture: Capture::Meta,
        choices: vec![DriverChoice {
            name: "primary".into(),
            driver: Arc::new(Talker(took)),
            context_window: 1 << 20,
            credential: ChoiceCredential::Resolved("keyless"),
        }],
        control: ControlDeclared::default(),
        vault: Arc::default(),
        credentials: Default::default(),
        scripted: false,
        system: String::new(),
        registry: Registry::new(Vec::new(), |_| "no grant"),
        policy: Policy::new(Rules::new("/w".into())),
        verify: Vec::new(),
        guidance: Default::default(),
        redactor: Redactor::new(),
        limits: runtime::Limits { max_turns: 1, max_tokens: 100, max_session_tokens: None },
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
    };
    let session = Session::start(setup).unwrap();
    let handle = session.handle();
    (session, handle, dir)
}

fn serve(mut session: Session) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { session.serve(&mut |_| {}).await.unwrap() });
    session.finish(None).unwrap();
}

/// Runs one task to its end.
fn run(handle: &SessionHandle, frames: usize) {
    let text = frames.to_string();
    let new = NewTask {
        text,
        source: TaskSource::A2a,
        claim: None,
        context: None,
        traceparent: None,
        message_id: None,
        action: None,
    };
    let task = handle.submit(Caller::Operator, new).unwrap().id;
    while !handle.task(Caller::Operator, &task).unwrap().state.is_final() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // What the last frames need to arrive.
    std::thread::sleep(Duration::from_millis(200));
}

/// Says as many pieces as the task's text tells: at the rate of the bench or, for the burst, at once.
struct Talker(Arc<Mutex<Vec<u64>>>);

struct Last(String);

impl Wire for Last {
    fn push(&mut self, message: &Message) {
        self.0 = message.text();
    }

    fn body(&self, _: CallParams, _: Vec<u8>) -> Vec<u8> {
        self.0.clone().into_bytes()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Driver for Talker {
    fn name(&self) -> &str {
        "bench"
    }

    fn model(&self) -> &str {
        "bench"
    }

    fn open(&self, _: &str, _: &[ToolSpec]) -> Box<dyn Wire> {
        Box::new(Last(String::new()))
    }

    fn call<'a>(
        &'a self,
        wire: &'a dyn Wire,
        params: CallParams,
        sink: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Reply, DriverError>> {
        let frames: usize = String::from_utf8(wire.body(params, Vec::new())).unwrap().parse().unwrap();
        Box::pin(async move {
            let mut tick = tokio::time::interval(if frames == BURST { Duration::from_micros(50) } else { BETWEEN });
            let filler = "x".repeat(if frames == BURST { 1000 } else { 60 });
            for _ in 0..frames {
                tick.tick().await;
                let piece = format!("@{} {filler} ", micros());
                let began = Instant::now();
                sink.delta(Delta::Text(&piece));
                self.0.lock().unwrap().push(u64::try_from(began.elapsed().as_nanos()).unwrap());
            }
            let content = vec![Part::Text(ModelText::unfenced(Unfenced::Model, "done"))];
            Ok(Reply { content, stop: StopReason::EndTurn, usage: Usage::default(), provider_id: None, attempts: 1 })
        })
    }
}

// ---- the watchers ----

/// The process of the watchers, and the words with it.
struct Crowd {
    child: Child,
    said: BufReader<ChildStdout>,
    told: ChildStdin,
}

impl Crowd {
    fn start(address: SocketAddr) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("WATCHERS_OF", address.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (said, told) = (BufReader::new(child.stdout.take().unwrap()), child.stdin.take().unwrap());
        Self { child, said, told }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn expect(&mut self, word: &str) {
        assert_eq!(self.line(), word);
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.told, "{word}").unwrap();
    }
}

fn watchers(address: SocketAddr) {
    let mut told = BufReader::new(std::io::stdin());
    let mut wait = |word: &str| {
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), word);
    };
    let mut stalled = std::net::TcpStream::connect(address).unwrap();
    stalled.write_all(ask(address).as_bytes()).unwrap();
    stalled.read_exact(&mut [0; 1]).unwrap();
    println!("stalled");
    wait("come");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    let late = Arc::new(Mutex::new(Vec::with_capacity(WATCHERS * FRAMES)));
    let ready = Arc::new(tokio::sync::Semaphore::new(0));
    let (seen, came) = (Arc::clone(&late), Arc::clone(&ready));
    let share = runtime.block_on(async move {
        let mut all = tokio::task::JoinSet::new();
        for _ in 1..WATCHERS {
            all.spawn(watcher(address, Arc::clone(&seen), Arc::clone(&came)));
        }
        let others = u32::try_from(WATCHERS - 1).unwrap();
        came.acquire_many(others).await.unwrap().forget();
        println!("ready");
        let (began, before) = (Instant::now(), busy(comm.trim()));
        while all.join_next().await.is_some() {}
        (busy(comm.trim()) - before).as_secs_f64() / began.elapsed().as_secs_f64()
    });
    wait("end");
    let mut late = std::mem::take(&mut *late.lock().unwrap());
    assert_eq!(late.len(), (WATCHERS - 1) * FRAMES, "every frame reached everybody, once");
    late.sort_unstable();
    let at = |part: usize| late[(late.len() - 1) * part / 1000] as f64 / 1000.0;
    println!(
        "max {:.1} ms, p99 {:.1} ms, median {:.2} ms; the clients take {share:.2} of a core",
        at(1000),
        at(990),
        at(500)
    );
}

fn ask(address: SocketAddr) -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"stream/watch"}"#;
    format!("POST / HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Notes how late each frame of the measured task is, until all have come.
async fn watcher(address: SocketAddr, late: Arc<Mutex<Vec<u64>>>, ready: Arc<tokio::sync::Semaphore>) {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_all(ask(address).as_bytes()).await.unwrap();
    let mut buffer = vec![0; 16 << 10];
    let (mut kept, mut seen, mut acknowledged) = (0, 0, false);
    while seen < FRAMES {
        let read = tcp.read(&mut buffer[kept..]).await.unwrap();
        assert!(read > 0, "the stream ended early");
        let now = micros();
        let text = &buffer[..kept + read];
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut delays = Vec::new();
        for line in text[..end].split(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(line).unwrap();
            if line.contains("connection-ack") && !std::mem::replace(&mut acknowledged, true) {
                ready.add_permits(1);
            }
            if let Some((_, rest)) = line.split_once("\"text\":\"@") {
                delays.push(now.saturating_sub(rest.split_once(' ').unwrap().0.parse::<u64>().unwrap()));
            }
        }
        seen += delays.len();
        late.lock().unwrap().extend(delays);
        kept = text.len() - end;
        buffer.copy_within(end..end + kept, 0);
    }
}
