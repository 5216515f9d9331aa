//! Rules in one PostgreSQL, changed by another process with a home of its own, and by one in another network.
//!
//! The server's socket is a file (`cargo xtask test` starts one), so a process that shares no network with the session
//! reaches it too. Without a server, or where no network can be made, the test says what it left out.

use std::process::Command;

use serde_json::json;
use testkit::postgres::Database;
use testkit::{Gate, Turn};

use crate::binary::{Mur, Ran};
use crate::support::{Running, Stage, Wire, of_type};

/// A host: a home that is shared with no other, and perhaps a network of its own.
struct Host<'a> {
    mur: Mur,
    store: &'a str,
    apart: bool,
}

impl Host<'_> {
    fn policy(&self, args: &[&str]) -> Ran {
        let direct = self.mur.command(&[&["policy"], args].concat());
        let mut command = if self.apart { in_a_network_of_its_own(&direct) } else { direct };
        Ran::of(command.env("MURMUR_STORE", self.store))
    }

    fn done(&self, args: &[&str]) {
        let ran = self.policy(args);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{args:?}: {ran:?}");
    }

    fn ids(&self) -> Vec<String> {
        let shown = self.policy(&["show", "--json"]).json();
        let rules = shown["hardBlocks"].as_array().unwrap();
        rules.iter().map(|rule| rule["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// What makes a network. Only who is not root needs a user namespace for it, and in one root would lose the right to
/// the directory of a server that runs as another user.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args([if rustix::process::geteuid().is_root() { "-n" } else { "-rn" }, "--"]);
    command
}

fn in_a_network_of_its_own(direct: &Command) -> Command {
    let mut command = unshare();
    command.env_clear().envs(direct.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.arg(direct.get_program()).args(direct.get_args());
    command.current_dir(direct.get_current_dir().unwrap());
    command
}

fn networks_can_be_made() -> bool {
    let tried = unshare().arg("true").output();
    tried.is_ok_and(|tried| tried.status.success())
}

#[test]
#[expect(clippy::print_stderr, reason = "what is left out is said")]
fn a_session_sees_what_other_processes_and_hosts_change_at_its_next_action() {
    // Its connection lives on the runtime.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(database) = runtime.block_on(Database::make()) else { return };
    let store = database.url.clone();
    let apart = networks_can_be_made();
    if !apart {
        eprintln!("LEFT OUT: this host makes no network for an unprivileged process; the other host shares this one's");
    }
    let near = Host { mur: Mur::new(), store: &store, apart: false };
    let far = Host { mur: Mur::new(), store: &store, apart };

    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let write = |name: &str| Turn::new().tool("files_write", json!({"filePath": name, "content": "x"}));
    let [first, second, third] = &gates;
    let turns = vec![
        write("one"),
        write("two").gate(first),
        write("three").gate(second),
        write("four").gate(third),
        Turn::new().text("done"),
    ];
    let stage = Stage::new(Wire::OpenAi, "files_write", turns);
    let running = Running::of(stage.command(&["--task", "do it"]).env("MURMUR_STORE", &store));
    stage.wait_requests(2);
    near.done(&["add", "near", "--path", "two", "--op", "write"]);
    first.open();
    stage.wait_requests(3);
    assert_eq!(far.ids(), ["near"]);
    far.done(&["add", "far", "--path", "**/{three,four}", "--op", "write"]);
    second.open();
    stage.wait_requests(4);
    far.done(&["remove", "far"]);
    assert_eq!(near.ids(), ["near"]);
    third.open();
    let ended = running.end();
    assert_eq!(ended.status, Some(0), "{ended:?}");

    let trace = stage.trace();
    let denied: Vec<_> = of_type(&trace, "call_denied").into_iter().map(|line| line["rule_ids"].clone()).collect();
    assert_eq!(denied, [json!(["near"]), json!(["far"])]);
    let work = stage.mur.home.workdir();
    let there = ["one", "two", "three", "four"].map(|name| work.join(name).exists());
    assert_eq!(there, [true, false, false, true]);
    runtime.block_on(database.remove());
}
