//! A session that serves: its address, its running record, conversations that go on, the docs' examples.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{ModelServer, Turn};

use crate::binary::Ran;
use crate::support::{Stage, Wire, children, of_type, text_of, trace};

pub(crate) const SERVES: &str = "lifecycle: { task_acceptance: queue, after_task: sleep }\n";

/// A session under way, with its first line on stdout.
pub(crate) struct Serving {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) started: Value,
}

impl Serving {
    pub(crate) fn start(stage: &Stage, args: &[&str]) -> Self {
        let mut all = vec!["--json"];
        all.extend(args);
        Self::of(&mut stage.command(&all))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let started = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no first line: {line:?}"));
        Self { child, stdout, started }
    }

    pub(crate) fn url(&self) -> &str {
        self.started["url"].as_str().unwrap()
    }

    pub(crate) fn session(&self) -> &str {
        self.started["session_id"].as_str().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; gives the exit status and the last line.
    pub(crate) fn end(mut self) -> (Option<i32>, Value) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap().code();
        let last = rest.lines().last().map_or(Value::Null, |line| serde_json::from_str(line).unwrap());
        (status, last)
    }

    /// One request with a JSON body and these headers; gives the status and the answer's body.
    pub(crate) fn post(&self, headers: &str, body: &Value) -> (u16, Value) {
        let address = self.url().strip_prefix("http://").unwrap();
        let mut connection = TcpStream::connect(address).unwrap();
        let body = body.to_string();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::String(body.to_owned())))
    }

    /// Sends a task, waits for its end, and gives it.
    pub(crate) fn send(&self, headers: &str, text: &str, context: Option<&str>) -> Value {
        let mut message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]});
        if let Some(context) = context {
            message["contextId"] = context.into();
        }
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
        let (status, answer) = self.post(&format!("a2a-version: 1.0\r\n{headers}"), &request);
        assert_eq!(status, 200, "{answer}");
        answer["result"]["task"].clone()
    }
}

impl Drop for Serving {
    /// A test that fails leaves no session behind; of one that ended there is nothing to kill.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn operator(stage: &Stage, serving: &Serving) -> String {
    let token = std::fs::read_to_string(running(stage).join(format!("{}.door", serving.session()))).unwrap();
    format!("authorization: Bearer {token}\r\n")
}

fn running(stage: &Stage) -> PathBuf {
    stage.mur.home.home().join("running")
}

fn serving(wire: Wire, more: &str, turns: Vec<Turn>) -> Stage {
    let stage = Stage::new(wire, "", turns);
    stage.declare(more);
    stage
}

#[test]
fn a_session_serves_until_it_is_stopped_and_leaves_no_trace_of_running() {
    let stage = serving(Wire::Anthropic, SERVES, vec![Turn::new().text("first"), Turn::new().text("second")]);
    let session = Serving::start(&stage, &[]);
    assert_eq!(session.started["event"], "started");
    let files = children(&running(&stage));
    let names: Vec<_> = files.iter().map(|file| file.extension().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["diag", "door", "json", "peer"]);
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o600, "{}", file.display());
    }
    let task = session.send("", "a stranger's task", None);
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "first");
    session.send(&operator(&stage, &session), "the operator's task", None);
    session.signal(Signal::TERM);
    let (status, last) = session.end();
    assert_eq!(status, Some(0), "stopped between two tasks: {last}");
    assert_eq!((&last["event"], &last["reply"], &last["turns"]), (&json!("ended"), &json!("second"), &json!(2)));
    assert_eq!(children(&running(&stage)), Vec::<PathBuf>::new());
    let trace = stage.trace();
    let starts: Vec<_> = of_type(&trace, "task_start").iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(
        starts,
        ["<untrusted-content source=task:event>\na stranger's task\n</untrusted-content>", "the operator's task"]
    );
    assert_eq!(stage.mur.run(&["trace", "verify"]).status, Some(0));
}

#[test]
fn a_stop_in_a_task_is_an_interruption() {
    let gate = testkit::Gate::new();
    let stage = serving(Wire::OpenAi, SERVES, vec![Turn::new().text("never").gate(&gate)]);
    let session = Serving::start(&stage, &["--task", "do it"]);
    stage.wait_requests(1);
    session.signal(Signal::INT);
    let (status, last) = session.end();
    assert_eq!((status, &last["status"]), (Some(130), &json!("interrupted")));
    assert_eq!(children(&running(&stage)), Vec::<PathBuf>::new());
}

#[test]
fn a_killed_session_is_not_listed() {
    let stage = serving(Wire::Anthropic, SERVES, Vec::new());
    let (lives, killed) = (Serving::start(&stage, &[]), Serving::start(&stage, &[]));
    killed.signal(Signal::KILL);
    assert_eq!(killed.end().0, None);
    let listed: Value = serde_json::from_slice(&stage.mur.run(&["ps", "--json"]).stdout).unwrap();
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|entry| entry["session_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [lives.session()]);
    assert_eq!(children(&running(&stage)).len(), 4, "only the living session's files are left");
    lives.signal(Signal::TERM);
    lives.end();
}

#[test]
fn without_a_task_the_default_waits_for_one_and_ends_with_it() {
    for (turn, expected) in [(Turn::new().text("done"), 0), (Turn::status(400, "no"), 1)] {
        let stage = serving(Wire::Anthropic, "", vec![turn]);
        let session = Serving::start(&stage, &[]);
        session.send("", "the only task", None);
        let (status, last) = session.end();
        assert_eq!(status, Some(expected), "{last}");
    }
}

#[test]
fn an_address_that_is_taken_stops_the_launch_before_anything_is_made() {
    let stage = serving(Wire::Anthropic, "", Vec::new());
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let ran: Ran = stage.run(&["--port", &port]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("E-RUN-050") && ran.stderr.contains("hint:"), "{ran:?}");
    assert_eq!(children(&stage.mur.home.home().join("sessions")), Vec::<PathBuf>::new());
}

/// The texts of the messages in the model's last request.
fn last_request(stage: &Stage) -> Vec<String> {
    let requests = stage.server.requests();
    let messages = requests.last().unwrap().body["messages"].as_array().unwrap().clone();
    messages.iter().map(|message| message["content"].as_str().map_or_else(|| text_of(message), str::to_owned)).collect()
}

#[test]
fn a_conversation_goes_on_in_another_session() {
    let stage = serving(
        Wire::Anthropic,
        "",
        vec![Turn::new().text("one"), Turn::new().text("two"), Turn::new().text("three"), Turn::new().text("four")],
    );
    let first = stage.run(&["--context", "a-thread"]);
    assert_eq!(first.status, Some(0), "{first:?}");
    let second = stage.run(&["--context", "a-thread"]);
    assert_eq!(second.status, Some(0), "{second:?}");
    assert_eq!(last_request(&stage), ["do it", "one", "do it"]);
    let resumed = stage.run(&["--resume", "@1"]);
    assert_eq!(resumed.status, Some(0), "{resumed:?}");
    assert_eq!(last_request(&stage), ["do it", "one", "do it", "two", "do it"]);
    let trace = trace(&stage.mur);
    let earlier: Value = serde_json::from_slice(&stage.mur.run(&["trace", "list", "--json"]).stdout).unwrap();
    assert_eq!(of_type(&trace, "session_start")[0]["resumed_from"], earlier[1]["session_id"]);
    assert_eq!(of_type(&trace, "task_start")[0]["context_id"], "a-thread");
    let afresh = stage.run(&[]);
    assert_eq!((afresh.status, last_request(&stage)), (Some(0), vec!["do it".to_owned()]));
}

#[test]
fn a_session_that_was_killed_in_a_call_is_resumed_with_a_paired_history() {
    let script = vec![
        Turn::new().tool("shell_exec", json!({"command": "echo ready > pipe; sleep 600"})),
        Turn::new().text("resumed"),
    ];
    let stage = Stage::on(Wire::Anthropic, "shell_exec", ModelServer::turns(script));
    let fifo = stage.fifo("pipe");
    let run = stage.start();
    let (_, held) = crate::support::first_line(&fifo);
    run.signal(Signal::KILL);
    run.end();
    crate::support::until_all_are_gone(held);
    let resumed = stage.run(&["--resume", "@1"]);
    assert_eq!(resumed.status, Some(0), "{resumed:?}");
    stage.whole();
}

#[test]
fn a_session_whose_workdir_is_gone_is_resumed_in_another_that_is_named_and_in_no_other() {
    let stage = Stage::new(Wire::OpenAi, "", vec![Turn::new().text("one"), Turn::new().text("two")]);
    assert_eq!(stage.run(&[]).status, Some(0));
    std::fs::rename(stage.path("work"), stage.path("moved")).unwrap();
    let before = children(&stage.mur.home.home().join("sessions"));
    let path = stage.path("agent");
    let again = |more: &[&str]| {
        let mut command = stage.mur.command(&[&["run", &path, "--task", "go on", "--resume", "@1"], more].concat());
        command.envs(stage.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
        Ran::of(command.current_dir(&path))
    };
    let refused = again(&[]);
    assert_eq!((refused.status, refused.stdout()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("error[E-RUN-006]: the workdir `"), "{refused:?}");
    assert_eq!(children(&stage.mur.home.home().join("sessions")), before);
    let moved = stage.path("moved");
    let resumed = again(&["--workdir", &moved]);
    assert_eq!((resumed.status, resumed.stdout()), (Some(0), "two\n"), "{resumed:?}");
    assert!(!resumed.stderr.contains("W-RUN-008"), "{resumed:?}");
}

#[test]
fn another_capsule_that_takes_a_session_over_is_told_of() {
    let stage = Stage::new(Wire::OpenAi, "", vec![Turn::new().text("one"), Turn::new().text("two")]);
    assert_eq!(stage.run(&[]).status, Some(0));
    let text = stage.mur.home.read("agent/murmur.yaml");
    let line = text.lines().find(|line| line.starts_with("name:")).unwrap();
    stage.mur.home.write("agent/murmur.yaml", text.replace(line, "name: somebody-else"));
    let resumed = stage.run(&["--resume", "@1"]);
    assert_eq!(resumed.status, Some(0), "{resumed:?}");
    assert!(resumed.stderr.contains("warning[W-RUN-008]: the session `ses_"), "{resumed:?}");
    assert!(resumed.stderr.contains("taken over by `somebody-else`"), "{resumed:?}");
}

#[test]
fn a_session_that_runs_is_not_resumed() {
    let stage = serving(Wire::Anthropic, SERVES, Vec::new());
    let session = Serving::start(&stage, &[]);
    let ran = stage.run(&["--resume", session.session()]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("E-RUN-005"), "{ran:?}");
    session.signal(Signal::TERM);
    session.end();
}

#[cfg(feature = "interop")]
#[test]
fn the_curl_examples_of_the_docs_work_as_they_stand() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serving.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let examples: Vec<&str> = docs.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 8, "{examples:?}");
    let turns = (0..examples.len()).map(|_| Turn::new().text("Hello.")).collect();
    let stage =
        serving(Wire::Anthropic, &format!("{SERVES}network: {{ authentication: {{ scheme: bearer }} }}\n"), turns);
    let session = Serving::start(&stage, &[]);
    let token = std::fs::read_to_string(running(&stage).join(format!("{}.door", session.session()))).unwrap();
    for example in examples {
        let output = Command::new("bash")
            .args(["-euc", example])
            .env("URL", session.url())
            .env("TOKEN", &token)
            .output()
            .expect("bash runs");
        assert!(output.status.success(), "{example}\n{output:?}");
        assert!(!output.stdout.is_empty(), "{example}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("\"error\""), "{example}\n{output:?}");
    }
    let (status, _) = session.end();
    assert_eq!(status, Some(0), "the last example stops the session");
}
