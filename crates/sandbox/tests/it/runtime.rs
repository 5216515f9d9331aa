//! What depends on the process that asks: its death, its file, its own shield.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use sandbox::Class;

use crate::held::classes;
use crate::{DEADLINE, Lifeline};

const RUNTIME: &str = env!("CARGO_BIN_EXE_sandbox-runtime");

fn runtime(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn told(arguments: &[&str]) -> String {
    let output = runtime(Path::new(RUNTIME), arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn children(of: &Child) -> Vec<Pid> {
    let pid = of.id();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn a_runtime_killed_outright_leaves_nothing() {
    for class in [&[Class::Advisory][..], &classes()].concat() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lifeline");
        let mut lifeline = Lifeline::new(&path);
        let script = format!(
            "exec 9>{}; trap '' TERM HUP
             (echo up >&9; sleep 1000; :) & (setsid sh -c 'echo up >&9; sleep 1000; :' &)
             echo up >&9; while :; do sleep 1000; done",
            path.display()
        );
        let mut arguments = vec!["stay", &script];
        if class > Class::Advisory {
            arguments.extend([class.name(), folder.path().to_str().unwrap()]);
        }
        let mut runtime = runtime(Path::new(RUNTIME), &arguments).spawn().unwrap();
        lifeline.heard(3).await;
        let helpers: Vec<_> = children(&runtime)
            .into_iter()
            .map(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap())
            .collect();
        assert_eq!(helpers.len(), 1);
        runtime.kill().unwrap();
        runtime.wait().unwrap();
        lifeline.cut().await;
        for helper in helpers {
            let mut ended = [PollFd::new(&helper, PollFlags::IN)];
            let deadline = Timespec::try_from(DEADLINE).unwrap();
            assert_eq!(rustix::event::poll(&mut ended, Some(&deadline)), Ok(1));
        }
    }
}

#[test]
fn a_binary_that_was_replaced_on_disk_finds_its_own_helper() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("runtime");
    // Copied by another process: a start in another thread would hold the written file open, and it could not be run.
    assert!(Command::new("cp").arg(RUNTIME).arg(&copy).status().unwrap().success());
    // The script is the first process that the copy starts; it replaces the copy, and says what it sees.
    let replaced = folder.path().join("replaced");
    let program = format!(
        "rm {copy} && echo broken > {copy} && chmod 755 {copy} && touch {replaced} && echo one",
        copy = copy.display(),
        replaced = replaced.display()
    );
    let output = runtime(&copy, &["twice", &program]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Ok((Code(0), \"one\\n\")) Ok((Code(0), \"again\\n\"))\n");
    assert!(replaced.exists());
}

/// With the feature on, as a build of the whole workspace has it, the same run shows that the feature works.
#[test]
fn a_binary_without_the_hook_refuses() {
    let unhooked = if cfg!(feature = "test-hook") {
        "Ok((Code(0), \"\"))\n"
    } else {
        "Err(\"this binary cannot act as the sandbox helper\")\n"
    };
    assert_eq!(told(&["unhooked"]), unhooked);
    assert_eq!(told(&["run", "echo hooked"]), "Ok((Code(0), \"hooked\\n\"))\n");
}

#[test]
fn a_hardened_runtime_still_starts_programs_that_are_not() {
    // A program's own /proc files belong to it only while it is dumpable.
    let script = "[ -O /proc/self/environ ] && ulimit -c";
    assert_eq!(told(&["hardened", script]), "Ok(()) Some(0) Ok(NotDumpable) Ok((Code(0), \"0\\n\"))\n");
}

#[test]
fn a_lost_helper_costs_nobody_elses_processes_their_lives() {
    // Each of the others was there to be asked to end, and ended by that: a program with a helper, an ordinary child,
    // and a daemon. Where the runtime itself can gain no privileges, a daemon is not told from what was lost.
    let daemon = (!rustix::thread::no_new_privs().unwrap()).then_some(15);
    let script = "setsid sh -c 'trap \"\" TERM; sleep 1000; :' & (setsid sleep 1000 &); kill -KILL $PPID; sleep 1000";
    let lost = "Err(\"the sandbox helper was killed or stopped\")";
    assert_eq!(told(&["bystanders", script]), format!("{lost} Ok(Signal(15)) Some(15) {daemon:?}, left \"\"\n"));
}

#[test]
fn a_hardened_runtime_is_told_of_a_file_that_grows_too_large_and_programs_die_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let path = path.to_str().unwrap();
    assert_eq!(told(&["full", path]), "Ok(()) Err(FileTooLarge)\n");
    assert_eq!(std::fs::read(path).unwrap(), b"1234", "what the limit leaves room for is written");
    let script = format!("ulimit -f 0; exec head -c 1 /dev/zero > {path}");
    assert_eq!(told(&["hardened", &script]), "Ok(()) Some(0) Ok(NotDumpable) Ok((Signal(25), \"\"))\n");
}

#[test]
fn a_runtime_that_was_started_with_children_ignored_still_gets_the_exit() {
    let script = format!("trap '' CHLD; exec {RUNTIME} run 'sleep 0 & exit 3'");
    let output = runtime(Path::new("/bin/sh"), &["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Ok((Code(3), \"\"))\n");
}

#[test]
fn a_crowd_leaves_no_child_behind() {
    assert_eq!(told(&["crowd"]), "64 \"\"\n");
}
