//! The end of a whole tree, whatever its members did to get away.

use std::time::Duration;

use rustix::process::{Pid, Signal};
use sandbox::{Access, Class, Confinement, Exit, Grant, Process, SandboxError, Stdin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::held::{classes, held};
use crate::{Lifeline, Output, finish, run, shell, soon, start};

/// Five processes: plain, in a session of its own, double-forked, double-forked into its own session,
/// and one that is stopped; each holds the lifeline and says so. Then what the program itself does.
fn family(lifeline: &std::path::Path, prelude: &str, last: &str) -> String {
    format!(
        "{prelude} exec 9>{}
         hold() {{ echo up >&9; exec sleep 1000; }}
         (hold) &
         setsid sh -c '{prelude} echo up >&9; sleep 1000; :' &
         ( (hold) & )
         ( setsid sh -c '{prelude} echo up >&9; sleep 1000; :' & )
         sh -c '{prelude} echo up >&9; kill -STOP $$; sleep 1000' &
         {last}",
        lifeline.display()
    )
}

#[tokio::test]
async fn terminate_reaches_those_that_left_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lifeline");
    let mut lifeline = Lifeline::new(&path);
    let process = start(&shell(&family(&path, "", "wait"))).await;
    lifeline.heard(5).await;
    // Nobody ignores TERM, so the grace is not used up: it is far beyond the deadline.
    process.terminate(Duration::from_secs(3600));
    lifeline.cut().await;
    assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(15));
}

#[tokio::test]
async fn those_that_ignore_term_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lifeline");
    let mut lifeline = Lifeline::new(&path);
    let process = start(&shell(&family(&path, "trap \"\" TERM;", "wait"))).await;
    lifeline.heard(5).await;
    process.terminate(Duration::from_millis(50));
    lifeline.cut().await;
    assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(9));
}

#[tokio::test]
async fn a_later_request_shortens_the_grace() {
    let mut process = start(&shell("trap '' TERM; echo up; while :; do sleep 1000; done")).await;
    let mut up = [0; 3];
    soon(process.stdout.as_mut().unwrap().read_exact(&mut up)).await.unwrap();
    process.terminate(Duration::from_secs(3600));
    process.terminate(Duration::ZERO);
    assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(9));
}

#[tokio::test]
async fn term_lets_a_program_finish() {
    let mut confinement = shell("trap 'echo tidy; exit 5' TERM; echo up; read line");
    confinement.stdin = Stdin::Pipe;
    let mut process = start(&confinement).await;
    let mut up = [0; 3];
    soon(process.stdout.as_mut().unwrap().read_exact(&mut up)).await.unwrap();
    process.terminate(Duration::from_secs(3600));
    assert_eq!(finish(process).await, Output { exit: Exit::Code(5), stdout: "tidy\n".into(), stderr: String::new() });
}

#[tokio::test]
async fn what_breeds_is_killed() {
    // Every member replaces itself by two, until some hundred are there.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lifeline");
    let mut lifeline = Lifeline::new(&path);
    let script = format!(
        "exec 9>{}; trap '' TERM; echo up >&9
         breed() {{ while :; do (sleep 0.01) & (setsid sh -c 'sleep 0.01; :' &) ; wait; done; }}
         breed & (breed &) ; breed",
        path.display()
    );
    let process = start(&shell(&script)).await;
    lifeline.heard(1).await;
    process.terminate(Duration::ZERO);
    lifeline.cut().await;
    assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(9));
}

#[tokio::test]
async fn a_dropped_process_ends_with_its_tree() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lifeline");
    let mut lifeline = Lifeline::new(&path);
    let process = start(&shell(&family(&path, "trap \"\" TERM;", "wait"))).await;
    lifeline.heard(5).await;
    drop(process);
    lifeline.cut().await;
}

#[tokio::test]
async fn what_stays_in_the_background_ends_and_what_it_wrote_is_kept() {
    for background in ["sleep 1000 &", "setsid sleep 1000 &", "(trap '' TERM; sleep 1000; :) &"] {
        let output = run(&format!("{background} echo kept; exit 3")).await;
        assert_eq!(
            output,
            Output { exit: Exit::Code(3), stdout: "kept\n".into(), stderr: String::new() },
            "{background}"
        );
    }
}

/// Starts a script that waits for a line first, and gives it: only then is the start's report surely sent, and may the
/// script turn on its helper.
async fn start_then(script: &str) -> Process {
    let mut confinement = shell(&format!("read line; {script}"));
    confinement.stdin = Stdin::Pipe;
    let mut process = start(&confinement).await;
    process.stdin.as_mut().unwrap().write_all(b"\n").await.unwrap();
    process
}

#[tokio::test]
async fn waiting_can_be_given_up_and_taken_up_again() {
    let process = start(&shell("sleep 1000")).await;
    for _ in 0..3 {
        let waiting = tokio::time::timeout(Duration::from_millis(1), process.wait()).await;
        assert!(waiting.is_err());
    }
    process.terminate(Duration::ZERO);
    assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(9));
}

#[tokio::test]
async fn a_killed_helper_takes_the_program_and_its_group_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lifeline");
    let mut lifeline = Lifeline::new(&path);
    let script = format!("exec 9>{}; sleep 1000 & echo up >&9; kill -KILL $PPID; wait", path.display());
    let process = start_then(&script).await;
    lifeline.heard(1).await;
    lifeline.cut().await;
    let error = soon(process.wait()).await.unwrap_err();
    assert!(matches!(error, SandboxError::HelperLost), "{error:?}");
}

#[tokio::test]
async fn what_a_killed_helper_leaves_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lifeline");
    let mut lifeline = Lifeline::new(&path);
    let script = family(&path, "trap \"\" TERM HUP;", "read line; kill -KILL $PPID; sleep 1000");
    let mut confinement = shell(&script);
    confinement.stdin = Stdin::Pipe;
    let mut process = start(&confinement).await;
    lifeline.heard(5).await;
    process.stdin.as_mut().unwrap().write_all(b"\n").await.unwrap();
    let error = soon(process.wait()).await.unwrap_err();
    assert!(matches!(error, SandboxError::HelperLost), "{error:?}");
    // It is told only when nothing is left.
    lifeline.cut_already();
}

#[tokio::test]
async fn what_breeds_after_its_helper_was_killed_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lifeline");
    let mut lifeline = Lifeline::new(&path);
    let script = format!(
        "exec 9>{}; breed() {{ while :; do (sleep 0.01) & (setsid sh -c 'sleep 0.01; :' &) ; wait; done; }}
         breed & (breed &) ; echo up >&9; kill -KILL $PPID; sleep 1000",
        path.display()
    );
    let process = start_then(&script).await;
    lifeline.heard(1).await;
    let error = soon(process.wait()).await.unwrap_err();
    assert!(matches!(error, SandboxError::HelperLost), "{error:?}");
    lifeline.cut_already();
}

#[tokio::test]
async fn a_stopped_helper_is_woken_for_the_end() {
    let mut process = start_then("kill -STOP $PPID; echo up; sleep 1000").await;
    let mut up = [0; 3];
    soon(process.stdout.as_mut().unwrap().read_exact(&mut up)).await.unwrap();
    process.terminate(Duration::from_secs(3600));
    assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(15));
}

#[tokio::test]
async fn a_helper_that_is_kept_stopped_does_not_hold_the_end_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lifeline");
    let mut lifeline = Lifeline::new(&path);
    // In a session of its own, so that only the search below the helper finds it.
    let script = format!(
        "exec 9>{}; helper=$PPID; export helper
         setsid sh -c 'trap \"\" TERM; echo up >&9; while kill -STOP $helper; do :; done' & wait",
        path.display()
    );
    let process = start_then(&script).await;
    lifeline.heard(1).await;
    process.terminate(Duration::ZERO);
    lifeline.cut().await;
    // Between two stops the helper may get as far as doing its work.
    let ending = soon(process.wait()).await;
    assert!(matches!(ending, Ok(Exit::Signal(9)) | Err(SandboxError::HelperLost)), "{ending:?}");
}

#[tokio::test]
async fn only_a_kill_ends_the_helper() {
    // All but KILL and STOP, also those that the C library keeps to itself.
    let script = "n=0; while [ $n -lt 64 ]; do n=$((n + 1)); case $n in 9 | 19) ;; \
                  *) kill -$n $PPID || exit 1;; esac; done; echo alive";
    assert_eq!(run(script).await, Output::ok("alive\n"));
}

#[tokio::test]
async fn a_pid_that_is_gone_after_the_wait_is_gone() {
    let process = start(&shell("sleep 1000 & exec sleep 1000")).await;
    let pid = Pid::from_raw(process.pid()).unwrap();
    rustix::process::test_kill_process_group(pid).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(9));
    assert_eq!(rustix::process::test_kill_process_group(pid), Err(rustix::io::Errno::SRCH));
}

/// A folder that a held tree may write to, with a lifeline in it.
struct Ground {
    folder: tempfile::TempDir,
    lifeline: Lifeline,
}

impl Ground {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lifeline = Lifeline::new(&folder.path().join("lifeline"));
        Self { folder, lifeline }
    }

    fn family(&self, class: Class, prelude: &str, last: &str) -> Confinement {
        let mut confinement = held(class, &family(&self.folder.path().join("lifeline"), prelude, last));
        confinement.grants.push(Grant::new(self.folder.path(), Access::Write));
        confinement
    }
}

#[tokio::test]
async fn a_held_tree_ends_when_it_is_asked_to() {
    for class in classes() {
        let mut ground = Ground::new();
        let process = start(&ground.family(class, "", "wait")).await;
        ground.lifeline.heard(5).await;
        // Nobody ignores TERM, so the grace is not used up: it is far beyond the deadline.
        process.terminate(Duration::from_secs(3600));
        ground.lifeline.cut().await;
        assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(15), "{class}");
    }
}

#[tokio::test]
async fn a_held_tree_that_ignores_it_is_killed() {
    for class in classes() {
        let mut ground = Ground::new();
        let process = start(&ground.family(class, "trap \"\" TERM HUP;", "wait")).await;
        ground.lifeline.heard(5).await;
        process.terminate(Duration::from_millis(50));
        ground.lifeline.cut().await;
        assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(9), "{class}");
    }
}

#[tokio::test]
async fn what_a_held_program_leaves_in_the_background_ends() {
    for class in classes() {
        let mut ground = Ground::new();
        // One of them ignores TERM.
        let mut confinement = ground.family(class, "trap \"\" TERM;", "read line; exit 7");
        confinement.stdin = Stdin::Pipe;
        let mut process = start(&confinement).await;
        ground.lifeline.heard(5).await;
        process.stdin.as_mut().unwrap().write_all(b"\n").await.unwrap();
        assert_eq!(soon(process.wait()).await.unwrap(), Exit::Code(7), "{class}");
        ground.lifeline.cut_already();
    }
}

#[tokio::test]
async fn a_held_tree_ends_with_its_helper() {
    for class in classes() {
        let mut ground = Ground::new();
        let process = start(&ground.family(class, "trap \"\" TERM HUP;", "wait")).await;
        ground.lifeline.heard(5).await;
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
        let helper = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(helper).unwrap(), Signal::KILL).unwrap();
        let error = soon(process.wait()).await.unwrap_err();
        assert!(matches!(error, SandboxError::HelperLost), "{error:?}");
        // It is told only when nothing is left.
        ground.lifeline.cut_already();
    }
}

#[tokio::test]
async fn what_breeds_is_killed_in_every_class() {
    for class in classes() {
        let mut ground = Ground::new();
        let script = format!(
            "exec 9>{}/lifeline; trap '' TERM; echo up >&9
             breed() {{ while :; do (sleep 0.01) & (setsid sh -c 'sleep 0.01; :' &) ; wait; done; }}
             breed & (breed &) ; breed",
            ground.folder.path().display()
        );
        let mut confinement = held(class, &script);
        confinement.grants.push(Grant::new(ground.folder.path(), Access::Write));
        let process = start(&confinement).await;
        ground.lifeline.heard(1).await;
        process.terminate(Duration::ZERO);
        ground.lifeline.cut().await;
        assert_eq!(soon(process.wait()).await.unwrap(), Exit::Signal(9), "{class}");
    }
}

#[tokio::test]
async fn exits_come_back_from_every_class() {
    for class in classes() {
        for (script, exit) in [
            ("exit 3", Exit::Code(3)),
            ("kill -KILL $$", Exit::Signal(9)),
            ("kill -TERM $$", Exit::Signal(15)),
            ("kill -INT 0", Exit::Signal(2)),
        ] {
            assert_eq!(crate::output(&held(class, script)).await.exit, exit, "{class} {script}");
        }
    }
}
