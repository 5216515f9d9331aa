//! Tools that start processes, with real ones.
//!
//! A call takes the whole way: propose, review, run, protect, redact, fence. Where a test has to know
//! that nothing of a process tree is left, it waits for the end of a pipe that the whole tree holds
//! open: an event, not a guess. The deadline around each call only turns a hang into a failure.

mod commit;
mod detached;
pub(crate) mod git;
mod logs;
pub(crate) mod native;
mod protected;
mod shell;
mod skill;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fence::Source;
use policy::{Cancel, Canceler, Facts, Outcome, Policy, Review, Rules, Tool, cancel_pair};
use sandbox::Limits;
use secrets::{Redactor, Secret};
use serde_json::Value;
use tempfile::TempDir;
use tools::{Containment, Directories, Environment, EnvironmentGrant, ProcessEnvironment, Processes};
use vocab::Part;

/// Longer than any of it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
const TOKEN: &str = "tok_5d41402abc4b2a76b9719d911017c592";

/// A session's directories: `work` is the root; `home` and `tmp` stand beside it.
struct Host {
    dir: TempDir,
    environment: Environment,
    processes: Arc<Processes>,
    rules: Rules,
    /// The task that the calls belong to; without one, each is a task of its own.
    task: Option<Policy>,
}

/// What the model got.
#[derive(Debug, PartialEq)]
struct Seen {
    text: String,
    is_error: bool,
    facts: Facts,
    fenced: bool,
}

impl Host {
    fn new() -> Self {
        Self::with(Duration::from_secs(50), &EnvironmentGrant::default(), &[])
    }

    /// A session with this time limit, this grant, and these variables in the runtime's environment.
    fn with(timeout: Duration, grant: &EnvironmentGrant, host: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["work", "home", "tmp"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        let redactor = Redactor::new();
        redactor.learn(&Secret::new(TOKEN.to_owned()));
        let path = std::env::var_os("PATH").unwrap();
        let host = host.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let host = std::iter::once((OsString::from("PATH"), path)).chain(host);
        let (work, home, tmp) = (base.join("work"), base.join("home"), base.join("tmp"));
        let directories = Directories { root: &work, home: &home, tmp: &tmp };
        let environment = ProcessEnvironment::new(host, grant, directories, &redactor);
        let processes = Processes {
            workdir: work.clone(),
            environment,
            limits: Limits::default(),
            containment: Containment::advisory(),
            gateways: Vec::new(),
            timeout,
            grace: None,
            redactor,
        };
        let environment = Environment::open(&work).unwrap();
        let rules = Rules::new(environment.root().to_owned());
        Self { dir, environment, processes: Arc::new(processes), rules, task: None }
    }

    fn work(&self, below: impl AsRef<Path>) -> PathBuf {
        self.environment.root().join(below)
    }

    /// A path beside the root.
    fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn shell(&self) -> Arc<dyn Tool> {
        tools::shell_exec(&self.environment, &self.processes, &["bash".to_owned()])
    }

    async fn call(&self, tool: &Arc<dyn Tool>, input: Value) -> Seen {
        let (_canceler, cancel) = cancel_pair();
        self.call_with(tool, input, cancel).await
    }

    async fn call_with(&self, tool: &Arc<dyn Tool>, input: Value, cancel: Cancel) -> Seen {
        let outcome = tokio::time::timeout(DEADLINE, self.outcome(tool, input, cancel)).await.expect("the call hangs");
        let raw = match outcome {
            Outcome::Ran(raw) => raw,
            Outcome::Refused(denial) => panic!("refused: {}", denial.words("tool").as_str()),
            other => panic!("neither ran nor refused: {other:?}"),
        };
        let values = self.task.as_ref().map(|task| task.values().clone()).unwrap_or_default();
        let shown = raw.protect(&values).redact(&self.processes.redactor).fence(&Source::tool("t"));
        let fenced = shown.fence().is_some();
        let whole: String = shown.parts.iter().map(text_of).collect();
        let text = fence::parse(&whole).block.map_or(whole.clone(), |block| block.content.to_owned());
        Seen { text, is_error: shown.is_error, facts: shown.facts, fenced }
    }

    async fn outcome(&self, tool: &Arc<dyn Tool>, input: Value, cancel: Cancel) -> Outcome {
        let proposal = tool
            .propose("call_1", input.as_object().unwrap())
            .unwrap_or_else(|bad| panic!("bad input: {}", bad.0.as_str()));
        let policy = self.task.clone().unwrap_or_else(|| Policy::new(self.rules.clone()));
        match policy.review(proposal.action).await {
            Review::Allowed(approved) => match approved.renew().await {
                Ok(permit) => proposal.execution.run(permit, cancel).await,
                Err(denial) => Outcome::Refused(denial),
            },
            Review::Denied(_, denial) => Outcome::Refused(denial),
        }
    }

    /// The codes of the blockers with which the call is refused.
    async fn refused(&self, tool: &Arc<dyn Tool>, input: Value) -> Vec<&'static str> {
        let (_canceler, cancel): (Canceler, Cancel) = cancel_pair();
        match self.outcome(tool, input, cancel).await {
            Outcome::Refused(denial) => denial.blockers().iter().map(|blocker| blocker.code).collect(),
            other => panic!("not refused: {other:?}"),
        }
    }

    /// The words with which an input is not taken.
    fn bad_input(&self, tool: &Arc<dyn Tool>, input: Value) -> String {
        match tool.propose("call_1", input.as_object().unwrap()) {
            Ok(_) => panic!("taken: {input}"),
            Err(bad) => bad.0.as_str().to_owned(),
        }
    }
}

fn text_of(part: &Part) -> &str {
    match part {
        Part::Text(text) => text.as_str(),
        other => panic!("not text: {other:?}"),
    }
}

/// A FIFO whose reader learns when every process that holds its other end is gone.
struct Witness {
    end: std::thread::JoinHandle<Vec<u8>>,
}

impl Witness {
    /// Makes the FIFO. Commands open it with `exec 9>PATH`, and their children inherit it.
    fn new(path: PathBuf) -> Self {
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        // Opening waits for the first writer, reading to the end for the last one's end.
        let end = std::thread::spawn(move || std::fs::read(path).unwrap());
        Self { end }
    }

    /// Waits for the end of all holders and gives what they wrote.
    async fn all_gone(self) -> String {
        let wait = tokio::task::spawn_blocking(move || self.end.join().unwrap());
        let written = tokio::time::timeout(DEADLINE, wait).await.expect("a process is left").unwrap();
        String::from_utf8(written).unwrap()
    }
}
