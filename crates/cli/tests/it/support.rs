//! What the tests of `mur run` share: an agent on a scripted model, its run, and what it left.
//!
//! Nothing here sleeps: a test waits for the model server, for a FIFO that a command opens, or for an end.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::{ModelServer, Turn};

use crate::binary::{Mur, Ran};

/// The credential of every agent here. Its letters differ in each encoding.
pub(crate) const KEY: &str = "sk-marker+0123456789/ABCdef==zyx~WVU";

/// A driver and the wire that it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    OpenAi,
}

pub(crate) const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::OpenAi];

impl Wire {
    pub(crate) fn driver(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }
}

/// A home, a workdir, an agent's manifest, and the model that it asks.
pub(crate) struct Stage {
    pub(crate) mur: Mur,
    pub(crate) server: ModelServer,
    wire: Wire,
}

impl Stage {
    /// An agent with these built-in tools on a model that plays these turns.
    pub(crate) fn new(wire: Wire, tools: &str, turns: Vec<Turn>) -> Self {
        Self::on(wire, tools, ModelServer::turns(turns))
    }

    pub(crate) fn on(wire: Wire, tools: &str, server: testkit::Builder) -> Self {
        let server = server.api_key(KEY).start_on_thread();
        let stage = Self { mur: Mur::new(), server, wire };
        stage.declare(&format!("capabilities:\n  tools: [{tools}]\n  shell: {{ timeout_secs: 60 }}\n"));
        stage
    }

    /// Writes the manifest anew, with `more` at its end.
    pub(crate) fn declare(&self, more: &str) {
        let text = manifest(self.wire.driver(), &self.server.url(), more);
        self.mur.home.write("agent/murmur.yaml", text);
    }

    /// `mur run` on the agent, in the workdir.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let agent = self.path("agent");
        let work = self.path("work");
        let mut all = vec!["run", &agent, "--workdir", &work];
        all.extend(args);
        let mut command = self.mur.command(&all);
        std::fs::create_dir_all(self.path("tmp")).expect("a directory of the test's own");
        command.env("MODEL_KEY", KEY).env("TMPDIR", self.path("tmp"));
        command
    }

    /// Runs the task to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let mut all = vec!["--task", "do it"];
        all.extend(args);
        Ran::of(&mut self.command(&all))
    }

    /// Starts the task.
    pub(crate) fn start(&self) -> Running {
        Running::of(&mut self.command(&["--task", "do it"]))
    }

    pub(crate) fn path(&self, relative: &str) -> String {
        self.mur.home.root().join(relative).into_os_string().into_string().expect("a temp dir has a plain name")
    }

    /// Runs the task, and holds that it ended well, on a history that the model's server accepted.
    pub(crate) fn succeed(&self) -> Ran {
        let ran = self.run(&[]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        self.whole();
        ran
    }

    /// Holds that the records are whole and signed, the history paired, and no request broke a rule.
    pub(crate) fn whole(&self) {
        assert_eq!(self.server.violations(), Vec::<String>::new());
        let verified = self.mur.run(&["trace", "verify"]);
        assert_eq!((verified.status, verified.stderr.as_str()), (Some(0), ""), "{verified:?}");
        paired(&self.conversation());
    }

    pub(crate) fn trace(&self) -> Vec<Value> {
        trace(&self.mur)
    }

    pub(crate) fn conversation(&self) -> Vec<Value> {
        let mut dirs = children(&self.mur.home.home().join("conversations"));
        assert_eq!(dirs.len(), 1, "one task has one conversation");
        lines(&dirs.remove(0).join("conversation.jsonl"))
    }

    /// The result texts that the model read in its last request.
    pub(crate) fn results(&self) -> Vec<String> {
        self.conversation().iter().filter(|line| line["role"] == "tool").map(text_of).collect()
    }

    /// Makes a FIFO in the workdir; a command that opens it says so, and each of its processes holds it.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.mur.home.workdir().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("the temp dir takes a FIFO");
        path
    }

    pub(crate) fn wait_requests(&self, count: usize) {
        block_on(self.server.wait_requests(count));
    }
}

/// A run under way.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    pub(crate) fn of(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        Self { child }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("a child that was not waited for can be signalled");
    }

    /// Waits for the end; with a signal that ended it the status is none.
    pub(crate) fn end(self) -> Ran {
        let output = self.child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8(output.stderr).expect("stderr is UTF-8");
        Ran { status: output.status.code(), stdout: output.stdout, stderr }
    }
}

pub(crate) fn block_on(future: impl Future) {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future);
}

/// Reads a FIFO from its first writer's opening: gives that writer's first line, and what tells the end
/// of all writers.
pub(crate) fn first_line(fifo: &Path) -> (String, std::fs::File) {
    let mut file = std::fs::File::open(fifo).expect("the FIFO opens");
    let mut line = Vec::new();
    let mut byte = [0];
    while file.read(&mut byte).expect("the FIFO reads") == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    (String::from_utf8(line).expect("text"), file)
}

/// Returns when no process holds the other end any more.
pub(crate) fn until_all_are_gone(mut fifo: std::fs::File) {
    let mut rest = Vec::new();
    fifo.read_to_end(&mut rest).expect("the FIFO reads");
}

pub(crate) fn manifest(driver: &str, endpoint: &str, more: &str) -> String {
    format!(
        "name: agent
version: 0.1.0
artifacts:
  - name: {driver}
    runtime: driver
    gateway: {{ endpoint: \"{endpoint}\", api_key: \"${{MODEL_KEY}}\" }}
    models: {{ a-model: {{ context_window: 200000, max_output_tokens: 8192 }} }}
inference:
  model: a-model
  max_tokens: 1024
  max_turns: 20
  driver: {{ artifact: {driver} }}
  retry: {{ max_retries: 2, initial_delay_ms: 1, max_delay_ms: 5 }}
  system_prompt: You are a test.
{more}"
    )
}

/// The newest session's trace.
/// A manifest with two driver choices: `primary` on anthropic, and `other` on openai with the key of this name.
pub(crate) fn two_choices(first: &str, (second, key): (&str, &str), more: &str) -> String {
    format!(
        r#"name: agent
version: 0.1.0
artifacts:
  - name: anthropic
    runtime: driver
    gateway: {{ endpoint: "{first}", api_key: "${{MODEL_KEY}}" }}
    models: {{ a-model: {{ context_window: 200000, max_output_tokens: 8192 }} }}
  - name: openai
    runtime: driver
    gateway: {{ endpoint: "{second}", api_key: "${{{key}}}" }}
    models: {{ b-model: {{ context_window: 100000, max_output_tokens: 8192 }} }}
inference:
  model: a-model
  max_tokens: 1024
  driver: {{ artifact: anthropic }}
  alternates:
    - {{ name: other, model: b-model, driver: {{ artifact: openai }} }}
{more}"#
    )
}

pub(crate) fn trace(mur: &Mur) -> Vec<Value> {
    let newest = children(&mur.home.home().join("sessions")).pop().expect("a session is on record");
    lines(&newest.join("trace.jsonl"))
}

/// The entries of a directory, sorted; none when it is not there.
pub(crate) fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.sort();
    paths
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the record is there");
    assert!(text.ends_with('\n'), "the last line is whole: {text}");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// The lines of one type.
pub(crate) fn of_type<'t>(trace: &'t [Value], kind: &str) -> Vec<&'t Value> {
    trace.iter().filter(|line| line["event_type"] == kind).collect()
}

pub(crate) fn text_of(line: &Value) -> String {
    let parts = line["content"].as_array().expect("content is a list");
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

/// Holds that each call of a conversation has exactly one result, before the next answer.
pub(crate) fn paired(conversation: &[Value]) {
    let mut open: HashSet<&str> = HashSet::new();
    for line in conversation {
        match line["role"].as_str() {
            Some("assistant") => {
                assert!(open.is_empty(), "calls without results: {open:?}");
                for part in line["content"].as_array().expect("content is a list") {
                    if part["type"] == "tool_call" {
                        assert!(open.insert(part["id"].as_str().expect("an id")), "an id twice in one answer");
                    }
                }
            }
            Some("tool") => {
                let id = line["tool_call_id"].as_str().expect("a result names its call");
                assert!(open.remove(id), "a result without a call: {line}");
            }
            other => assert_eq!(other, Some("user")),
        }
    }
    assert!(open.is_empty(), "calls without results: {open:?}");
}

/// Every file, directory and link below a directory, with its content, in order.
pub(crate) fn tree(root: &Path) -> String {
    let mut listing = String::new();
    for path in children(root) {
        let kind = path.symlink_metadata().expect("it is there").file_type();
        let content = if kind.is_file() { std::fs::read(&path).expect("readable") } else { Vec::new() };
        writeln!(listing, "{} {:?}", path.display(), String::from_utf8_lossy(&content)).expect("a string takes all");
        if kind.is_dir() {
            listing.push_str(&tree(&path));
        }
    }
    listing
}

/// The bytes of every regular file below a directory, one by one. A session that runs may take one away meanwhile.
pub(crate) fn each_file(root: &Path, see: &mut impl FnMut(&Path, &[u8])) {
    for path in children(root) {
        let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        let kind = match path.symlink_metadata() {
            Err(error) if is_gone(&error) => continue,
            found => found.expect("it can be looked at").file_type(),
        };
        if kind.is_dir() {
            each_file(&path, see);
        } else if kind.is_file() {
            match std::fs::read(&path) {
                Err(error) if is_gone(&error) => {}
                read => see(&path, &read.expect("readable")),
            }
        }
    }
}

/// Copies a directory's files and directories.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory of the test's own");
    for path in children(from) {
        let target = to.join(path.file_name().unwrap_or(OsStr::new("")));
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a file can be copied");
        }
    }
}
