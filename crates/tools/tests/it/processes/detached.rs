//! Commands that go on in the background: what is shown at once and in the end, and what ends them.
//!
//! A grace of nothing lets every command that waits for something outrun it, so no test depends on how quick it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use policy::{
    Canceler, Completed, Detached, Gates, Outcome, Policy, ProtectedValues, StructuralAction, TaskIdentity, Tool,
    cancel_pair,
};
use secrets::Secret;
use serde_json::{Value, json};
use tools::{Gateway, GatewayGrant, OpenGateway, ReservedGateway};

use super::{DEADLINE, Host, Seen, Witness, text_of};

/// A session whose commands are not waited for.
fn host() -> Host {
    let mut host = Host::new();
    impatient(&mut host);
    host
}

fn impatient(host: &mut Host) {
    Arc::get_mut(&mut host.processes).unwrap().grace = Some(Duration::ZERO);
}

fn task(host: &Host) -> Policy {
    let values = ProtectedValues::new(TaskIdentity::default(), host.processes.redactor.clone());
    let gates = Gates::new(StructuralAction::Factory, vec!["test -e done".to_owned()]);
    Policy::new(host.rules.clone()).for_task(gates).with_values(values)
}

/// A FIFO through which a command waits for the test.
fn fifo(host: &Host, name: &str) -> PathBuf {
    let path = host.work(name);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    path
}

/// Lets a command go on that reads from a FIFO.
async fn open(path: PathBuf) {
    let write = tokio::task::spawn_blocking(move || std::fs::write(path, "go\n").unwrap());
    tokio::time::timeout(DEADLINE, write).await.expect("nobody reads").unwrap();
}

/// A call whose command goes on; canceled when the canceler is dropped no more.
async fn detach(host: &Host, tool: &Arc<dyn Tool>, input: Value) -> Box<Detached> {
    let (_canceler, cancel) = cancel_pair();
    let outcome = tokio::time::timeout(DEADLINE, host.outcome(tool, input, cancel)).await.expect("the call hangs");
    let Outcome::Detached(detached) = outcome else { panic!("it was waited for: {outcome:?}") };
    detached
}

fn seen(raw: policy::RawResult, values: &ProtectedValues, host: &Host) -> Seen {
    let shown = raw.protect(values).redact(&host.processes.redactor).fence(&fence::Source::tool("t"));
    let whole: String = shown.parts.iter().map(text_of).collect();
    let text = fence::parse(&whole).block.unwrap().content.to_owned();
    Seen { text, is_error: shown.is_error, fenced: shown.fence().is_some(), facts: shown.facts }
}

async fn finish(detached: Detached, canceler: impl FnOnce(&Canceler)) -> Completed {
    let (kept, cancel) = cancel_pair();
    canceler(&kept);
    tokio::time::timeout(DEADLINE, detached.rest.finish(cancel)).await.expect("it does not end")
}

#[tokio::test]
async fn a_command_that_outruns_its_grace_is_shown_now_and_again_when_it_has_ended() {
    let host = host();
    let gate = fifo(&host, "gate");
    let detached = detach(&host, &host.shell(), json!({"command": "echo early; read x < gate; echo $x; exit 3"})).await;
    let Detached { so_far, rest } = *detached;
    let now = seen(so_far, &ProtectedValues::default(), &host);
    // Whether the first word is there yet is a matter of luck.
    let early = now.text.contains("early\n");
    let expected = format!(
        "still running after 0 s; stdout {}, stderr 0 bytes by now\nstdout (all of it goes to logs/call_1.stdout.log):\n{}\
         stderr (all of it goes to logs/call_1.stderr.log):\n",
        if early { "6 bytes" } else { "0 bytes" },
        if early { "early\n" } else { "" },
    );
    assert_eq!((now.text, now.is_error), (expected, false));
    assert!(now.fenced && now.facts.detached && now.facts.shell.is_none() && now.facts.exit_code.is_none());
    let (_kept, cancel) = cancel_pair();
    let (Completed { how, command, result }, ()) = tokio::join!(rest.finish(cancel), open(gate));
    assert_eq!(how.as_str(), "exit code 3");
    let end = seen(result, &ProtectedValues::default(), &host);
    assert_eq!(command, "echo early; read x < gate; echo $x; exit 3");
    let expected = "exit code 3; stdout 9 bytes, stderr 0 bytes\nstdout:\nearly\ngo\n";
    assert_eq!((end.text.as_str(), end.is_error, end.facts.exit_code), (expected, true, Some(3)));
    assert_eq!((end.facts.shell.unwrap().bytes, end.facts.detached), (9, false));
    assert_eq!(std::fs::read_to_string(host.work("logs/call_1.stdout.log")).unwrap(), "early\ngo\n");
}

#[tokio::test]
async fn programs_go_on_as_commands_do_and_a_session_that_waits_lets_none() {
    let mut host = host();
    let gate = fifo(&host, "gate");
    let cat = tools::shell_binary("cat", &host.environment, &host.processes);
    let detached = detach(&host, &cat, json!({"args": ["gate"]})).await;
    let (end, ()) = tokio::join!(finish(*detached, |_| ()), open(gate));
    assert!(seen(end.result, &ProtectedValues::default(), &host).text.ends_with("stdout:\ngo\n"));
    drop(cat);
    Arc::get_mut(&mut host.processes).unwrap().grace = Some(Duration::from_secs(40));
    assert!(host.shell().spec().description.contains("not ended after 40 s goes on in the background"));
    let quick = host.call(&host.shell(), json!({"command": "echo quick"})).await;
    assert_eq!(quick.text, "exit code 0; stdout 6 bytes, stderr 0 bytes\nstdout:\nquick\n");
    Arc::get_mut(&mut host.processes).unwrap().grace = None;
    assert!(!host.shell().spec().description.contains("goes on in the background"));
}

#[tokio::test]
async fn its_time_limit_counts_from_its_start_and_ends_all_that_it_left() {
    let mut host = Host::with(Duration::from_secs(1), &tools::EnvironmentGrant::default(), &[]);
    impatient(&mut host);
    let witness = Witness::new(host.work("witness"));
    let command = "exec 9>witness; setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' & \
                   while :; do sleep 1000; done";
    let detached = detach(&host, &host.shell(), json!({"command": command})).await;
    let end = finish(*detached, |_| ()).await;
    assert_eq!(end.how.as_str(), "timed out after 1 s and was stopped with everything it started");
    assert_eq!(witness.all_gone().await, "");
    // A limit that is no longer than the grace is met in the call itself.
    Arc::get_mut(&mut host.processes).unwrap().grace = Some(Duration::from_secs(1));
    let stopped = host.call(&host.shell(), json!({"command": "sleep 1000"})).await;
    assert!(stopped.text.starts_with("timed out after 1 s"), "{}", stopped.text);
}

#[tokio::test]
async fn it_ends_when_it_is_told_to_and_when_nobody_follows_it() {
    let host = host();
    let hold = json!({"command": "exec 9>witness; echo held >&9; while :; do sleep 1000; done"});
    let witness = Witness::new(host.work("witness"));
    let detached = detach(&host, &host.shell(), hold.clone()).await;
    let end = finish(*detached, Canceler::cancel).await;
    assert_eq!(end.how.as_str(), "canceled: it was stopped with everything it started");
    assert!(seen(end.result, &ProtectedValues::default(), &host).is_error);
    // It may not even have come to open the witness.
    drop(std::fs::OpenOptions::new().write(true).read(true).open(host.work("witness")).unwrap());
    witness.all_gone().await;
    std::fs::remove_file(host.work("witness")).unwrap();
    let witness = Witness::new(host.work("witness"));
    let detached = detach(&host, &host.shell(), hold).await;
    drop(detached);
    drop(std::fs::OpenOptions::new().write(true).read(true).open(host.work("witness")).unwrap());
    witness.all_gone().await;
}

#[tokio::test]
async fn a_value_that_is_marked_late_is_the_next_tasks_and_a_secret_that_is_learned_late_is_not_shown() {
    let mut host = host();
    host.task = Some(task(&host));
    let gate = fifo(&host, "gate");
    let command = "printf known-later; read x < gate; \
                   printf '{\"$burrowSensitive\":{\"type\":\"token\",\"value\":\"%s%s\"}}' late- value-one";
    let detached = detach(&host, &host.shell(), json!({"command": command})).await;
    // The task ends, and a secret becomes known.
    host.task.as_ref().unwrap().values().end();
    host.processes.redactor.learn(&Secret::new("known-later".to_owned()));
    let (end, ()) = tokio::join!(finish(*detached, |_| ()), open(gate));
    host.task = Some(task(&host));
    let end = seen(end.result, host.task.as_ref().unwrap().values(), &host);
    assert!(end.text.contains("[redacted]\"[protected token: protected://"), "{}", end.text);
    assert!(!end.text.contains("known-later") && !end.text.contains("late-value-one"), "{}", end.text);
    assert_eq!(end.facts.protected, 1);
    let at = end.text.find("protected://").unwrap();
    let handle = end.text.get(at..at + 36).unwrap();
    Arc::get_mut(&mut host.processes).unwrap().grace = None;
    let bound = json!({"command": "printf %s \"$V\" | wc -c", "protectedBindings": {"V": handle}});
    assert!(host.call(&host.shell(), bound).await.text.contains("14\n"));
}

#[tokio::test]
async fn a_malformed_mark_withholds_what_came_before_it_and_its_log() {
    let mut host = host();
    host.task = Some(task(&host));
    let gate = fifo(&host, "gate");
    let command =
        "echo before; read x < gate; echo '{\"$burrowSensitive\":{\"type\":\"odd\",\"value\":\"other-value\"}}'";
    let detached = detach(&host, &host.shell(), json!({"command": command})).await;
    let (end, ()) = tokio::join!(finish(*detached, |_| ()), open(gate));
    let end = seen(end.result, host.task.as_ref().unwrap().values(), &host);
    assert!(end.is_error && end.text.contains("malformed_sensitive_response"), "{}", end.text);
    assert!(!end.text.contains("before") && !end.text.contains("other-value"));
    assert_eq!(std::fs::read_to_string(host.work("logs/call_1.stdout.log")).unwrap(), "");
}

#[tokio::test]
async fn a_verification_is_waited_for_and_counts_no_more_once_a_command_is_at_large() {
    let mut host = host();
    std::fs::write(host.work("done"), "").unwrap();
    host.task = Some(task(&host));
    let verify = json!({"command": "test -e done"});
    let passed = host.call(&host.shell(), verify.clone()).await;
    assert!(!passed.is_error && passed.facts.shell.is_some());
    let gate = fifo(&host, "gate");
    let detached = detach(&host, &host.shell(), json!({"command": "read x < gate"})).await;
    host.call(&host.shell(), verify.clone()).await;
    assert_eq!(commit(&host).await, Some("commit_gate:background"));
    let (_, ()) = tokio::join!(finish(*detached, |_| ()), open(gate));
    assert_eq!(commit(&host).await, Some("commit_gate:not_verified"));
    host.call(&host.shell(), verify).await;
    assert_eq!(commit(&host).await, None);
}

/// Why the task may not commit.
async fn commit(host: &Host) -> Option<&'static str> {
    let action = policy::Action::new("c", "git_commit", policy::ActionKind::GitCommit);
    let policy::Review::Allowed(approved) = host.task.as_ref().unwrap().review(action).await else { panic!("blocked") };
    let denial = approved.renew().await.unwrap().confirm_commit().err()?;
    denial.blockers().first().map(|blocker| blocker.code)
}

/// A service of which is known whether it is open.
#[derive(Debug, Clone)]
struct Known(Arc<AtomicBool>);

impl Gateway for Known {
    fn reserve(&self, _: std::net::SocketAddr) -> std::io::Result<Box<dyn ReservedGateway>> {
        Ok(Box::new(self.clone()))
    }
}

impl ReservedGateway for Known {
    fn url(&self) -> &str {
        "http://127.0.0.1:1"
    }

    fn serve(self: Box<Self>, _: std::net::TcpListener) -> std::io::Result<OpenGateway> {
        self.0.store(true, Ordering::SeqCst);
        Ok(Box::new(Opened(*self)))
    }
}

struct Opened(Known);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn its_ways_out_are_open_until_it_has_ended() {
    let mut host = host();
    let open_now = Arc::new(AtomicBool::new(false));
    let grant = GatewayGrant { variables: vec!["SERVICE".to_owned()], gateway: Arc::new(Known(Arc::clone(&open_now))) };
    Arc::get_mut(&mut host.processes).unwrap().gateways.push(grant);
    let gate = fifo(&host, "gate");
    let detached = detach(&host, &host.shell(), json!({"command": "read x < gate; echo $SERVICE"})).await;
    assert!(open_now.load(Ordering::SeqCst));
    let (end, ()) = tokio::join!(finish(*detached, |_| ()), open(gate));
    assert!(seen(end.result, &ProtectedValues::default(), &host).text.ends_with("stdout:\nhttp://127.0.0.1:1\n"));
    assert!(!open_now.load(Ordering::SeqCst));
}
