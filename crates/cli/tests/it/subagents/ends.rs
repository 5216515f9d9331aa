//! How subagents end that do not report: canceled, out of time, crashed, killed. Nothing of them stays, the status is
//! honest, and the task above goes on.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::play::{call, finish, nested, run, shell, spawn, stage, start, traces, whole};
use crate::support::{Stage, children, first_line, of_type, paired, until_all_are_gone};

const DEEP: &str = "capabilities:
  tools: [files_read, shell_exec, spawn_subagent]
  shell: { timeout_secs: 300 }
  spawn: { max_depth: 3, max_children: 4 }
";

/// A command whose processes hold the FIFO in every way that outlives a plain kill.
const TREE: &str = r#"exec 3>alive
sleep 1000 &
setsid sleep 1000 &
( setsid sh -c 'sleep 1000 & exec sleep 1000' & )
setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1000; done' &
echo up >&3
wait
"#;

/// A command that runs three levels below, under way; and what tells the end of its processes.
fn under_way(more: &str) -> (Stage, crate::support::Running, std::fs::File) {
    let stage = stage(more);
    let alive = stage.fifo("alive");
    let running = start(&stage, &nested(3, &stage.path("work"), &[shell(TREE), finish("never")]));
    let (_, alive) = first_line(&alive);
    (stage, running, alive)
}

/// The process of the session at this depth.
fn pid_at(stage: &Stage, depth: u64) -> Pid {
    let found = traces(stage).into_iter().find(|((of, _), _)| *of == depth).unwrap().1;
    Pid::from_raw(i32::try_from(found[0]["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

/// How the subagent that the session at this depth started ended, and why.
fn end_at(stage: &Stage, depth: u64) -> (String, String) {
    let found = traces(stage).into_iter().find(|((of, _), _)| *of == depth).unwrap().1;
    let end = of_type(&found, "subagent_end")[0].clone();
    let word = |name: &str| end[name].as_str().unwrap_or_default().to_owned();
    (word("status"), word("error"))
}

/// Holds that nothing is left on disk but records, and the conversation of the top is paired.
fn nothing_left(stage: &Stage) {
    assert_eq!(children(std::path::Path::new(&stage.path("tmp"))), Vec::<std::path::PathBuf>::new());
    for dir in children(&stage.mur.home.home().join("conversations")) {
        let text = std::fs::read_to_string(dir.join("conversation.jsonl")).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // One that was cut off ends with calls that have no result yet; its reader completes it.
        let whole = lines.iter().rposition(|line| line["role"] == "tool").map_or(0, |at| at + 1);
        paired(&lines[..whole]);
    }
}

#[test]
fn a_signal_at_the_top_ends_the_tree() {
    let (stage, running, alive) = under_way(DEEP);
    running.signal(Signal::TERM);
    until_all_are_gone(alive);
    let ran = running.end();
    assert_eq!(ran.status, Some(130), "{ran:?}");
    whole(&stage);
    nothing_left(&stage);
    for depth in 0..3 {
        assert_eq!(end_at(&stage, depth), ("cancelled".to_owned(), "the task was stopped".to_owned()), "depth {depth}");
    }
}

#[test]
fn a_subagent_whose_time_is_up_is_ended_and_the_task_above_goes_on() {
    let stage = stage(&DEEP.replace("max_children: 4", "max_children: 4, timeout_secs: 1"));
    let alive = stage.fifo("alive");
    let script = [json!([spawn(&stage.path("work"), "slow", &[shell(TREE), finish("never")])]), shell("echo on")];
    let running = start(&stage, &script);
    let (_, alive) = first_line(&alive);
    until_all_are_gone(alive);
    let ran = running.end();
    assert_eq!((ran.status, ran.stdout()), (Some(0), "done\n"), "{ran:?}");
    whole(&stage);
    nothing_left(&stage);
    assert_eq!(
        end_at(&stage, 0),
        ("timed_out".to_owned(), "its time was up (`capabilities.spawn.timeout_secs`)".to_owned())
    );
    let top = &traces(&stage)[&(0, String::new())];
    assert_eq!(of_type(top, "tool_call")[1]["status"], "ok");
}

#[test]
fn a_killed_subagent_takes_all_below_along_and_the_task_above_goes_on() {
    for depth in 1..=3 {
        let (stage, running, alive) = under_way(DEEP);
        kill_process(pid_at(&stage, depth), Signal::KILL).unwrap();
        until_all_are_gone(alive);
        let ran = running.end();
        assert_eq!((ran.status, ran.stdout()), (Some(0), "done\n"), "depth {depth}: {ran:?}");
        assert_eq!(stage.server.violations(), Vec::<String>::new());
        let (status, why) = end_at(&stage, depth - 1);
        assert_eq!(status, "failed");
        assert!(why.starts_with("its process ended without a report"), "{why}");
        // Those above it reported.
        for above in 0..depth - 1 {
            assert_eq!(end_at(&stage, above).0, "succeeded", "depth {above}");
        }
    }
}

#[test]
fn a_killed_top_takes_the_tree_along() {
    let (stage, running, alive) = under_way(DEEP);
    running.signal(Signal::KILL);
    until_all_are_gone(alive);
    assert_eq!(running.end().status, None);
    for (key, trace) in traces(&stage) {
        let verified = stage.mur.run(&["trace", "verify", trace[0]["session_id"].as_str().unwrap()]);
        assert_eq!(verified.status, Some(0), "{key:?}: {verified:?}");
    }
}

#[test]
fn handles_and_tokens_of_the_parent_are_nothing_to_its_subagents() {
    let more = "control: { settings: [inference.max_tokens] }\n";
    let stage = stage(&format!("{DEEP}{more}"));
    let marked = "echo '{\"$burrowSensitive\":{\"type\":\"token\",\"value\":\"s3cr3t-of-the-parent\"}}'";
    let use_it = call("shell_exec", json!({"command": "echo ${#TOKEN}", "protectedBindings": {"TOKEN": "$HANDLE"}}));
    let tokens = shell(&format!("cat {}/running/* 2>/dev/null; echo end", stage.path("home")));
    let script = [
        shell(marked),
        use_it.clone(),
        json!([spawn(
            &stage.path("work"),
            "child",
            &[
                call("shell_exec", json!({"command": "echo ${#TOKEN}", "protectedBindings": {"TOKEN": "$HANDLE"}})),
                tokens,
                finish("tried")
            ]
        )]),
    ];
    let ran = run(&stage, &script);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let traces = traces(&stage);
    let (top, child) = (&traces[&(0, String::new())], &traces[&(1, "child".to_owned())]);
    assert!(of_type(top, "tool_call")[1]["output"].as_str().unwrap().contains("20"), "the parent uses it");
    let refused =
        child.iter().find(|line| line["tool_call_id"].is_string() && line["event_type"] != "action_review").unwrap();
    assert!(refused["output"].as_str().unwrap().contains("protected_binding_"), "{refused}");
    assert!(child[0]["control"].is_null(), "a subagent has no controller");
    let all = serde_json::to_string(child).unwrap();
    assert!(!all.contains("s3cr3t-of-the-parent"));
}
