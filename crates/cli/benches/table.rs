//! The figures of docs/performance.md, measured in one run on one machine and printed as its table.
//!
//! A figure that has a yardstick (a plain copy, a plain spawn) is measured beside it. The model server
//! runs in this process and notes when a request has come whole; what lies between two of them is the
//! runtime's own time, the tool's and the network's. Medians, unless a row says otherwise.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a bench that cannot set its scene ends; its product is what it prints"
)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fence::{Source, neutralise};
use record::{Capture, Home, TraceOptions, TraceWriter};
use secrets::{Redactor, Secret};
use serde_json::json;
use testkit::{ModelServer, Turn};
use vocab::{SessionId, SystemClock};

const MIB: f64 = 1024.0 * 1024.0;

fn main() {
    sandbox::helper_main();
    println!("| Work | Measured | Reach for |\n|---|---|---|");
    launch_and_memory();
    idle_session();
    turns();
    fence_rates();
    redaction();
    trace_line();
    process_start();
}

fn row(work: &str, measured: impl std::fmt::Display, goal: &str) {
    println!("| {work} | {measured} | {goal} |");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// A capsule on a model server that asks `rounds` times for a tool; the moments of its requests.
struct Stage {
    dir: tempfile::TempDir,
    server: ModelServer,
    seen: Arc<Mutex<Vec<Instant>>>,
    /// Peak resident memory of the child at its last request, in KiB.
    peak: Arc<Mutex<f64>>,
    child: Arc<Mutex<Option<u32>>>,
    rounds: usize,
}

impl Stage {
    fn new(rounds: usize) -> Self {
        let seen: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let peak: Arc<Mutex<f64>> = Arc::default();
        let child: Arc<Mutex<Option<u32>>> = Arc::default();
        let (moments, most, pid) = (Arc::clone(&seen), Arc::clone(&peak), Arc::clone(&child));
        let server = ModelServer::answering(move |_, _| {
            let mut moments = moments.lock().unwrap();
            moments.push(Instant::now());
            if moments.len() <= rounds {
                Turn::new().tool("files_inspect", json!({"filePath": "a.txt"}))
            } else {
                if let Some(pid) = *pid.lock().unwrap() {
                    *most.lock().unwrap() = status(pid, "VmHWM:");
                }
                Turn::new().text("done")
            }
        })
        .unchecked()
        .start_on_thread();
        let dir = tempfile::tempdir().unwrap();
        let manifest = format!(
            "name: bench\nversion: 0.1.0\nartifacts:\n  - name: openai\n    runtime: driver\n    gateway: {{ endpoint: {}, \
             keyless: true }}\n    models: {{ m: {{ context_window: 100000000, max_output_tokens: 8192 }} }}\ninference:\n  \
             model: m\n  max_turns: 100000\n  driver: {{ artifact: openai }}\ncapabilities:\n  tools: [files_inspect]\n",
            server.url()
        );
        std::fs::write(dir.path().join("murmur.yaml"), manifest).unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        std::fs::write(dir.path().join("work/a.txt"), "hello\n").unwrap();
        Self { dir, server, seen, peak, child, rounds }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mur"));
        command.arg("run").arg(self.dir.path()).args(["--task", "do it now", "--quiet", "--workdir"]);
        command.arg(self.dir.path().join("work")).env("MURMUR_HOME", self.dir.path().join("home"));
        command
    }

    /// Runs it once: the start, the requests' moments, the end, the peak memory in MiB.
    fn run(&self) -> (Instant, Vec<Instant>, Instant, f64) {
        self.seen.lock().unwrap().clear();
        let start = Instant::now();
        let mut child = self.command().stdout(Stdio::null()).spawn().unwrap();
        *self.child.lock().unwrap() = Some(child.id());
        assert!(child.wait().unwrap().success());
        let end = Instant::now();
        let moments = self.seen.lock().unwrap().clone();
        assert_eq!(moments.len(), self.rounds + 1, "{}", self.server.url());
        (start, moments, end, *self.peak.lock().unwrap() / 1024.0)
    }
}

/// A line of a process's status, in KiB; zero when it cannot be read.
fn status(pid: u32, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or_default()
}

fn launch_and_memory() {
    let stage = Stage::new(0);
    stage.run();
    let runs: Vec<_> = (0..60).map(|_| stage.run()).collect();
    let first = runs.iter().map(|(start, moments, ..)| millis(moments[0] - *start)).collect();
    let whole = runs.iter().map(|(start, _, end, _)| millis(*end - *start)).collect();
    let peak = runs.iter().map(|(.., peak)| *peak).collect();
    row("launch: exec to first model request", format!("{:.1} ms", median(first)), "≤ 8 ms");
    let whole = format!("{:.1} ms, {:.1} MiB", median(whole), median(peak));
    row("whole run of one turn, peak memory", whole, "≤ 15 ms, ≤ 24 MiB");
}

/// What a session holds that serves and has nothing to do, after its first task.
fn idle_session() {
    let stage = Stage::new(0);
    let manifest = stage.dir.path().join("murmur.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let serves = "lifecycle: { task_acceptance: queue, after_task: sleep }\n";
    std::fs::write(&manifest, format!("{text}{serves}")).unwrap();
    let mut child = stage.command().arg("--json").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let home = stage.dir.path().join("home");
    let ended = || {
        std::fs::read_dir(home.join("sessions")).into_iter().flatten().flatten().any(|session| {
            std::fs::read_to_string(session.path().join("trace.jsonl"))
                .is_ok_and(|trace| trace.contains("\"task_end\""))
        })
    };
    while !ended() {
        std::thread::yield_now();
    }
    let (resident, anonymous) = (status(child.id(), "VmRSS:") / 1024.0, status(child.id(), "RssAnon:") / 1024.0);
    child.kill().unwrap();
    child.wait().unwrap();
    row(
        "idle serving session: resident, of it anonymous",
        format!("{resident:.1} MiB, {anonymous:.1} MiB"),
        "≤ 18, ≤ 5 MiB",
    );
}

fn turns() {
    let stage = Stage::new(1001);
    let (_, moments, _, peak) = stage.run();
    let gaps: Vec<f64> = moments.windows(2).map(|pair| millis(pair[1] - pair[0])).collect();
    row(
        "overhead per turn with a tool call, turns 1–50",
        format!("{:.2} ms", median(gaps[..50].to_vec())),
        "≤ 0.25 ms",
    );
    let late = format!("{:.2} ms", median(gaps[950..1000].to_vec()));
    row("the same at turns 950–1000 of one conversation", late, "≤ 0.5 ms");
    row("peak memory after 1,000 turns", format!("{peak:.1} MiB"), "–");
}

/// GB/s of the best of several passes over a text, which is what the code can do.
fn rate(bytes: usize, mut pass: impl FnMut()) -> f64 {
    let best = (0..200).map(|_| {
        let start = Instant::now();
        pass();
        start.elapsed().as_secs_f64()
    });
    bytes as f64 / best.fold(f64::MAX, f64::min) / 1e9
}

fn fence_rates() {
    let prose = "The quick brown fox jumps over the lazy dog, again and again. ".repeat(17_000);
    let html = "<div class=\"row\"><a href=\"/x\">text</a> &amp; more text here</div>\n".repeat(16_000);
    let brackets = "<".repeat(1 << 20);
    let copy = rate(prose.len(), || drop(std::hint::black_box(prose.clone())));
    let clean = rate(prose.len(), || drop(std::hint::black_box(neutralise(&prose))));
    let ratio = format!("{:.2}× the time of a copy ({clean:.0} GB/s)", copy / clean);
    row("fence: neutralise, text without `<`", ratio, "≤ 1.5×");
    let html = rate(html.len(), || drop(std::hint::black_box(neutralise(&html))));
    row("fence: neutralise, HTML", format!("{html:.1} GB/s"), "≥ 2 GB/s");
    let worst = rate(brackets.len(), || drop(std::hint::black_box(neutralise(&brackets))));
    row("fence: neutralise, all `<`", format!("{worst:.1} GB/s"), "≥ 0.3 GB/s");
    let source = Source::tool("bench");
    let wrap = rate(prose.len(), || drop(std::hint::black_box(fence::wrap(&source, &prose))));
    row("fence: wrap", format!("{wrap:.1} GB/s"), "–");
}

fn redaction() {
    let redactor = Redactor::new();
    for number in 0..50 {
        redactor.learn(&Secret::new(format!("sk-{number:02}-q8Zr5vT1xW9yB3nM7cJ4kL6pD0sF2gH")));
    }
    let prose = "The quick brown fox jumps over the lazy dog, again and again. ".repeat(17_000);
    assert!(redactor.is_clean(&prose));
    let rate = rate(prose.len(), || drop(std::hint::black_box(redactor.redact(&prose))));
    row("redaction, 50 known values and their encodings", format!("{rate:.1} GB/s"), "≥ 1 GB/s");
}

fn trace_line() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path()).unwrap();
    let session = SessionId::new();
    home.create_session_dir(&session).unwrap();
    let options = TraceOptions {
        session: session.clone(),
        capture: Capture::Content,
        redactor: Redactor::new(),
        clock: Arc::new(SystemClock),
    };
    let mut trace = TraceWriter::create(&home.trace_path(&session), options).unwrap();
    let (task, context) = (vocab::TaskId::new(), vocab::ContextId::new());
    let text = "x".repeat(100);
    let times = (0..20_000).map(|_| {
        let start = Instant::now();
        let event = record::TaskReceived {
            task_id: &task,
            context_id: &context,
            source: vocab::TaskSource::Cli,
            origin: vocab::Origin::User,
            trust: vocab::Trust::Trusted,
            lane: vocab::Lane::User,
            bytes: text.len() as u64,
            from_task_id: None,
            from_tool_call_id: None,
        };
        trace.append(None, event).unwrap();
        start.elapsed().as_secs_f64() * 1e6
    });
    row("trace line written and chained", format!("{:.1} µs", median(times.collect())), "≤ 5 µs");
}

fn process_start() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let plain =
        median((0..200).map(|_| timed(|| assert!(Command::new("/bin/true").status().unwrap().success()))).collect());
    let confinement = sandbox::Confinement::new("/bin/true", "/");
    let held = (0..200).map(|_| {
        timed(|| {
            runtime.block_on(async {
                let (process, _) = sandbox::spawn(&confinement).await.unwrap();
                assert_eq!(process.wait().await.unwrap(), sandbox::Exit::Code(0));
            });
        })
    });
    let held = median(held.collect());
    let measured = format!("+{:.2} ms over a plain spawn of {plain:.2} ms", held - plain);
    row("process start, class advisory", measured, "scoped: ≤ +1.5 ms");
    row(
        "size of `mur`",
        format!("{:.1} MiB", std::fs::metadata(env!("CARGO_BIN_EXE_mur")).unwrap().len() as f64 / MIB),
        "–",
    );
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    millis(start.elapsed())
}
