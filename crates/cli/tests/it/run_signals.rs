//! Signals and sudden ends while a command runs: nothing of its tree stays, and the records hold.

use std::io::Write as _;

use rustix::process::Signal;
use serde_json::json;
use testkit::Turn;

use crate::support::{Stage, WIRES, Wire, children, first_line, of_type, paired, until_all_are_gone};

/// A command whose processes hold the FIFO `alive` in every way that outlives a plain kill: a child, one
/// of a session of its own, one whose parent is gone, and one that does not listen to TERM.
const TREE: &str = r#"exec 3>alive
sleep 1000 &
setsid sleep 1000 &
( setsid sh -c 'sleep 1000 & exec sleep 1000' & )
setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1000; done' &
echo "tmp=$TMPDIR home=$HOME" >&3
wait
"#;

fn tree(wire: Wire) -> Stage {
    let turns = vec![
        Turn::new()
            .text("I wait.")
            .tool("shell_exec", json!({"command": TREE}))
            .tool("shell_exec", json!({"command": "touch after"})),
        Turn::new().text("done"),
    ];
    let stage = Stage::new(wire, "shell_exec", turns);
    stage.fifo("alive");
    stage
}

#[test]
fn a_signal_ends_the_commands_with_all_that_they_started() {
    for (wire, signal) in [(Wire::Anthropic, Signal::TERM), (Wire::OpenAi, Signal::INT)] {
        let stage = tree(wire);
        let running = stage.start();
        let (places, alive) = first_line(&stage.mur.home.workdir().join("alive"));
        running.signal(signal);
        until_all_are_gone(alive);
        let ran = running.end();
        assert_eq!((ran.status, ran.stdout()), (Some(130), ""), "{ran:?}");
        stage.whole();

        let trace = stage.trace();
        assert_eq!(trace.last().unwrap()["status"], "interrupted");
        assert!(stage.results()[0].contains("canceled: it was stopped with everything it started"));
        assert!(stage.results()[1].contains("the task was stopped before this call began"));
        assert_eq!(of_type(&trace, "call_denied")[0]["reason"], "canceled");
        assert!(!stage.mur.home.workdir().join("after").exists());
        assert_eq!(stage.server.requests().len(), 1, "nobody is asked after the signal");

        assert!(places.contains(&stage.path("tmp")), "{places}");
        assert!(children(&stage.mur.home.root().join("tmp")).is_empty(), "the private directory is gone");
    }
}

#[test]
fn a_second_signal_ends_at_once_and_still_leaves_no_process() {
    let stage = tree(Wire::OpenAi);
    let running = stage.start();
    let (_, alive) = first_line(&stage.mur.home.workdir().join("alive"));
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    until_all_are_gone(alive);
    let ran = running.end();
    assert_eq!(ran.status, Some(130), "{ran:?}");
    assert_eq!(stage.mur.run(&["trace", "verify"]).status, Some(0));
}

#[test]
fn a_killed_runtime_takes_its_commands_along_and_its_trace_verifies_unsigned() {
    for wire in WIRES {
        let stage = tree(wire);
        let running = stage.start();
        let (_, alive) = first_line(&stage.mur.home.workdir().join("alive"));
        running.signal(Signal::KILL);
        until_all_are_gone(alive);
        assert_eq!(running.end().status, None);

        let verified = stage.mur.run(&["trace", "verify"]);
        assert_eq!(verified.status, Some(0), "{verified:?}");
        assert!(format!("{}{}", verified.stdout(), verified.stderr).contains("unsigned"), "{verified:?}");
        let trace = stage.trace();
        assert_eq!(trace.last().unwrap()["event_type"], "action_review");
        // What the conversation lacks is the results; nothing in it is half.
        let conversation = stage.conversation();
        paired(&conversation[..1]);
        assert_eq!(conversation.last().unwrap()["role"], "assistant");
    }
}

#[test]
fn a_torn_last_line_is_passed_over_and_hides_no_earlier_one() {
    let stage = tree(Wire::Anthropic);
    let running = stage.start();
    let (_, alive) = first_line(&stage.mur.home.workdir().join("alive"));
    running.signal(Signal::KILL);
    until_all_are_gone(alive);
    running.end();
    let lines = stage.trace().len();
    let session = children(&stage.mur.home.home().join("sessions")).remove(0);
    let mut file = std::fs::OpenOptions::new().append(true).open(session.join("trace.jsonl")).unwrap();
    file.write_all(b"{\"event_type\":\"tool_call\",\"event_id\":\"evt_0").unwrap();

    let verified = stage.mur.run(&["trace", "verify"]);
    assert_eq!(verified.status, Some(0), "{verified:?}");
    let text = format!("{}{}", verified.stdout(), verified.stderr);
    assert!(text.contains("unsigned") && text.contains(&format!("{lines} lines")), "{text}");

    // The next session in the same home is not touched by it.
    let next = stage.run(&[]);
    assert_eq!(next.status, Some(0), "{next:?}");
    assert_eq!(stage.mur.run(&["trace", "verify", "@1"]).stderr, "");
}
