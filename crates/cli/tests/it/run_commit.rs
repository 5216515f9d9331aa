//! A verified commit, from the command line to the branch; and what keeps one from being made.

use std::process::Command;

use serde_json::{Value, json};
use testkit::Turn;

use crate::binary::Ran;
use crate::support::{Stage, Wire, of_type};

const CAPSULE: &str = "capabilities:
  tools: [files_read, files_write, shell_exec, git_commit]
  shell: { timeout_secs: 60 }
verify: [test -s a.txt]
";

fn git(stage: &Stage, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(stage.path("work")).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// An agent in a repository of one file, on these turns.
fn stage(turns: Vec<Turn>) -> Stage {
    let stage = Stage::new(Wire::Anthropic, "", turns);
    stage.declare(CAPSULE);
    stage.mur.home.write("work/a.txt", "one\n");
    stage.mur.home.write("gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.com\n");
    git(&stage, &["init", "-q", "-b", "main"]);
    git(&stage, &["add", "."]);
    git(&stage, &["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first"]);
    stage
}

fn run(stage: &Stage, args: &[&str]) -> Ran {
    let all: Vec<&str> = ["--task", "Ship it"].iter().chain(args).copied().collect();
    let ran = crate::support::Running::of(stage.command(&all).env("GIT_CONFIG_GLOBAL", stage.path("gitconfig"))).end();
    assert_eq!((ran.status, ran.stdout()), (Some(0), "done\n"), "{ran:?}");
    ran
}

fn turns() -> Vec<Turn> {
    let commit = || Turn::new().tool("git_commit", json!({"message": "Second"}));
    let write = || Turn::new().tool("files_write", json!({"filePath": "a.txt", "content": "two\n"}));
    vec![
        write(),
        Turn::new().tool("files_read", json!({"filePath": "a.txt"})),
        write(),
        commit(),
        Turn::new().tool("shell_exec", json!({"command": "test -s a.txt"})),
        commit(),
        Turn::new().text("done"),
    ]
}

fn denied(stage: &Stage) -> Vec<Value> {
    of_type(&stage.trace(), "call_denied")
        .iter()
        .map(|line| line.pointer("/blockers/0").cloned().unwrap_or_default())
        .collect()
}

#[test]
fn verified_work_is_committed() {
    let stage = stage(turns());
    run(&stage, &["--action", "factory"]);
    assert_eq!(denied(&stage), ["mutation_gate:not_seen", "commit_gate:not_verified"]);
    assert_eq!(
        git(&stage, &["log", "--format=%an <%ae> %s"]),
        "Ada <ada@example.com> Second\nt <t@example.com> first\n"
    );
    // The log of nothing else: what the runtime leaves in a workdir is no business of the repository.
    assert_eq!(git(&stage, &["show", "--format=", "--name-status"]), "M\ta.txt\n");
    let result = stage.results().into_iter().find(|text| text.contains("committed ")).unwrap();
    assert!(result.contains(" on branch main: Second\n1 file:\n  modified: a.txt\n"), "{result}");
}

#[test]
fn without_the_action_nothing_is_committed() {
    for args in [&[][..], &["--action", "chat"]] {
        let stage = stage(turns());
        run(&stage, args);
        assert_eq!(denied(&stage), ["mutation_gate:not_seen", "commit_gate:action", "commit_gate:action"]);
        assert_eq!(git(&stage, &["log", "--format=%s"]), "first\n");
    }
}

#[test]
fn an_action_is_one_word_of_a_task() {
    let stage = stage(Vec::new());
    for args in [&["--task", "x", "--action", "a b"][..], &["--action", "factory"]] {
        let ran = crate::support::Running::of(&mut stage.command(args)).end();
        assert_eq!(ran.status, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("--action") || ran.stderr.contains("--task"), "{ran:?}");
    }
}
