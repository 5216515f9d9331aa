//! `mur trace list`, `show`, `steps` and `key` on sessions of every state.

use std::io::Read as _;
use std::process::Stdio;

use insta::assert_snapshot;
use record::{Capture, ControlApplied, ControlChange, ControlRefused};
use serde_json::json;
use vocab::{EndStatus, Origin};

use crate::binary::{Mur, Ran};
use crate::sessions::{Session, home, id, key, whole};

#[test]
fn an_empty_home_lists_nothing_and_finds_nothing() {
    let mur = Mur::new();
    assert_snapshot!(mur.shown(&mur.run(&["trace", "list"])), @r#"
    exit 0
    --- stderr
    no sessions on record in `[home]`
    "#);
    assert_eq!(mur.run(&["trace", "list", "--json"]).json(), json!([]));
    assert_snapshot!(mur.shown(&mur.run(&["trace", "show"])), @r#"
    exit 2
    --- stderr
    error[E-REC-006]: there are no recorded sessions in `[home]/sessions`
      hint: run one with `mur run`
    "#);
}

#[test]
fn the_list_has_the_newest_first_and_says_how_each_stands() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    let mut killed = Session::begin(&mur, 2, Capture::Content);
    killed.task(Origin::User, "go on");
    killed.turn(0, None);
    killed.kill();
    home(&mur).create_session_dir(&id(3)).unwrap();
    mur.home.write(format!("home/sessions/{}/trace.jsonl", id(4)), "not a trace\n");
    let mut running = Session::begin(&mur, 5, Capture::Content);
    running.task(Origin::User, "go on");

    let listed = mur.run(&["trace", "list"]);
    assert_snapshot!(mur.shown(&listed), @r#"
    exit 0
    --- stdout
    SESSION                               STARTED (UTC)        STATUS      TASKS  TURNS  CALLS  TOKENS IN/OUT        TIME  CAPSULE, CONTEXTS
    ses_0190a1b2c3d47e5f8a9b0c1d00000005  2026-11-30 07:28:25  running         1      0      0            0/0      500 ms  bug-hunt 1.2.3 (scripted)  a-thread
    ses_0190a1b2c3d47e5f8a9b0c1d00000004                       unreadable  `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000004/trace.jsonl` line 1: not a record line: expected ident at line 1 column 2
    ses_0190a1b2c3d47e5f8a9b0c1d00000003                       empty
    ses_0190a1b2c3d47e5f8a9b0c1d00000002  2026-11-30 07:28:22  killed          1      1      0        1000/20      750 ms  bug-hunt 1.2.3 (scripted)  a-thread
    ses_0190a1b2c3d47e5f8a9b0c1d00000001  2026-11-30 07:28:21  ok              1      2      1        2000/40  1 min 02 s  bug-hunt 1.2.3 (scripted)  a-thread
    "#);
    let listed = mur.run(&["trace", "list", "--json"]).json();
    let of = |index: usize| {
        let row = &listed[index];
        json!([row["session_id"], row["status"], row["turns"], row["duration_ms"], row["capsule"], row["scripted"]])
    };
    assert_eq!((&listed[0]["contexts"], &listed[0]["more_contexts"]), (&json!(["a-thread"]), &json!(false)));
    assert_eq!(of(0), json!([id(5), "running", 0, 500, "bug-hunt", true]));
    assert_eq!(of(1), json!([id(4), "unreadable", null, null, null, null]));
    assert_eq!(of(2), json!([id(3), "empty", null, null, null, null]));
    assert_eq!(of(3), json!([id(2), "killed", 1, 750, "bug-hunt", true]));
    assert_eq!(of(4), json!([id(1), "ok", 2, 62_000, "bug-hunt", true]));
    assert!(listed[1]["error"].as_str().unwrap().contains("line 1: not a record line"), "{listed}");
    running.kill();
    assert_eq!(mur.run(&["trace", "list", "--json"]).json()[0]["status"], "killed");
}

#[test]
fn a_long_status_makes_its_column_wide_for_every_row() {
    let mur = Mur::new();
    Session::begin(&mur, 1, Capture::Content).end(None);
    Session::begin(&mur, 2, Capture::Content).end_as(EndStatus::SpendCeilingReached, None);
    assert_snapshot!(mur.shown(&mur.run(&["trace", "list"])), @r#"
    exit 0
    --- stdout
    SESSION                               STARTED (UTC)        STATUS                 TASKS  TURNS  CALLS  TOKENS IN/OUT        TIME  CAPSULE, CONTEXTS
    ses_0190a1b2c3d47e5f8a9b0c1d00000002  2026-11-30 07:28:22  spend_ceiling_reached      1      2      1        2000/40  1 min 02 s  bug-hunt 1.2.3 (scripted)
    ses_0190a1b2c3d47e5f8a9b0c1d00000001  2026-11-30 07:28:21  ok                         1      2      1        2000/40  1 min 02 s  bug-hunt 1.2.3 (scripted)
    "#);
}

#[test]
fn a_session_is_shown_as_a_story() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    assert_snapshot!(mur.shown(&mur.run(&["trace", "show"])), @r#"
    exit 0
    --- stdout
    ses_0190a1b2c3d47e5f8a9b0c1d00000001
      capsule  bug-hunt 1.2.3
      model    script on scripted (a script was played, no model answered)
      workdir  /srv/agent
      tools    files_read, shell_exec
      started  2026-11-30 07:28:21 UTC by mur 0.1.0
      capture  content

    task task_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b  user, trusted, by cli  in a-thread
      Why do the tests fail?
      turn 0  rate_limit 429 at attempt 1: too many requests; again in 500 ms
      turn 0  tool_call (1 call)  1000 in, 20 out, 1.2 s, stopped by tool_use
        ✓ files_read  ok  3 ms, 78 bytes
          in  {"filePath":"src/lib.rs"}
          out [tool:files_read] fn main() {\n}\n
        ✗ cargo  error, exit 101  3 ms, 79 bytes, truncated, 2 look-alikes
          in  {"argv":["test"]}
          out [tool:cargo] error: 1 test failed
        ⊘ shell_exec  denied: blocked  by workdir_only  rules rule-7  at propose
          in  {"command":"rm -rf /"}
          out the call was blocked
      turn 1  reply  1000 in, 20 out, 1.2 s, 2 attempts, stopped by end_turn
      ok  2 turns, 1 call, 2000 in, 40 out, 1 min 01 s
      │ The loop ends
      │ one too early: 漢字.

    session ok  1 task, 2 turns, 1 call, 2000 in, 40 out, 1 min 02 s
    the chain was not checked here: `mur trace verify ses_0190a1b2c3d47e5f8a9b0c1d00000001` does that
    "#);
}

fn secret_changed(action: &str, replaced: Option<bool>) -> ControlChange<'_> {
    ControlChange {
        principal: "controller",
        token_id: Some("0123456789abcdef"),
        kind: "secret",
        name: "KEY",
        action,
        previous: None,
        value: None,
        applies_from: None,
        replaced,
    }
}

#[test]
fn what_was_changed_and_which_choice_served_each_turn_stand_at_the_end() {
    let mur = Mur::new();
    let mut session = Session::begin(&mur, 1, Capture::Content);
    session.task(Origin::User, "go on");
    session.served(0, "primary");
    session.served(1, "primary");
    let (previous, value) = (json!("primary"), json!("cheap\n\u{1b}[2J"));
    let setting = |principal, token_id| ControlChange {
        principal,
        token_id,
        kind: "setting",
        name: "inference.driver",
        action: "set",
        previous: Some(&previous),
        value: Some(&value),
        applies_from: Some("next_inference_call"),
        replaced: None,
    };
    session.control(setting("agent", None));
    let change = session.control(setting("controller", Some("0123456789abcdef")));
    session.control(secret_changed("set", Some(false)));
    session.control(secret_changed("set", Some(true)));
    session.control(ControlRefused {
        principal: "controller",
        token_id: None,
        status: 401,
        reason: "unauthenticated",
        kind: None,
        name: None,
    });
    session.control(secret_changed("forget", None));
    let task_id = session.task.clone();
    session.control(ControlApplied {
        turn: 2,
        task_id: &task_id,
        name: "inference.driver",
        value: &value,
        change_id: Some(&change),
    });
    session.served(2, "cheap");
    session.task_end("done");
    session.end(None);
    assert_snapshot!(mur.shown(&mur.run(&["trace", "show"])), @r#"
    exit 0
    --- stdout
    ses_0190a1b2c3d47e5f8a9b0c1d00000001
      capsule  bug-hunt 1.2.3
      model    script on scripted (a script was played, no model answered)
      workdir  /srv/agent
      tools    files_read, shell_exec
      started  2026-11-30 07:28:21 UTC by mur 0.1.0
      capture  content

    task task_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b  user, trusted, by cli  in a-thread
      go on
      turn 0  reply  1000 in, 20 out, 1.2 s, a-model on primary, stopped by end_turn
      turn 1  reply  1000 in, 20 out, 1.2 s, 2 attempts, a-model on primary, stopped by end_turn
      ⊘ a control request by controller refused: unauthenticated
      turn 2  reply  1000 in, 20 out, 1.2 s, 3 attempts, a-model on cheap, stopped by end_turn
      ok  2 turns, 1 call, 2000 in, 40 out, 1 min 01 s
      │ done

    Control
      inference.driver: primary → cheap\n\u{1b}[2J  by agent, no call turned to it
      inference.driver: primary → cheap\n\u{1b}[2J  by controller 0123456789abcdef, from turn 2 of task_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b
      KEY set  by controller 0123456789abcdef
      KEY replaced  by controller 0123456789abcdef
      KEY forgotten  by controller 0123456789abcdef

    Driver choices
      task_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b  turns 0 to 1 primary, turn 2 cheap

    session ok  1 task, 2 turns, 1 call, 2000 in, 40 out, 1 min 02 s
    the chain was not checked here: `mur trace verify ses_0190a1b2c3d47e5f8a9b0c1d00000001` does that
    "#);
}

#[test]
fn a_session_is_one_document() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    let shown = mur.run(&["trace", "show", "--json", "@1"]).json();
    let trace = std::fs::read_to_string(home(&mur).trace_path(&id(1))).unwrap();
    let events: Vec<serde_json::Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = json!({
        "session_id": id(1), "path": home(&mur).trace_path(&id(1)), "events": events, "status": "ok", "error": null,
        "tasks": 1, "turns": 2, "tool_calls": 1, "input_tokens": 2_000, "output_tokens": 40, "duration_ms": 62_000,
        "torn_bytes": 0, "damage": null,
    });
    assert_eq!(shown, expected);
}

#[test]
fn a_trace_without_bodies_says_their_sizes() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::None);
    assert_snapshot!(mur.shown(&mur.run(&["trace", "steps"])), @r#"
    exit 0
    --- stdout
        0.500       task user, trusted  in (22 bytes, not kept)
        0.750  t0   model rate_limit  too many requests
        1.000  t0   model tool_call, 1 call  in 1000 tokens  out 20 tokens  1.2 s
        1.250  t0   files_read ok 3 ms  in (25 bytes, not kept)  out (78 bytes, not kept)
        1.500  t0   cargo error 3 ms  in (17 bytes, not kept)  out (79 bytes, not kept)
        1.750  t0   shell_exec denied blocked  in (22 bytes, not kept)  out (20 bytes, not kept)
        2.000  t1   model reply, 0 calls  in 1000 tokens  out 20 tokens  1.2 s
        2.250       end ok  out (36 bytes, not kept)  1 min 01 s
    "#);
}

#[test]
fn steps_are_one_line_each() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    assert_snapshot!(mur.shown(&mur.run(&["trace", "steps"])), @r#"
    exit 0
    --- stdout
        0.500       task user, trusted  in Why do the tests fail?
        0.750  t0   model rate_limit  too many requests
        1.000  t0   model tool_call, 1 call  in 1000 tokens  out 20 tokens  1.2 s
        1.250  t0   files_read ok 3 ms  in {"filePath":"src/lib.rs"}  out [tool:files_read] fn main() {\n}\n
        1.500  t0   cargo error 3 ms  in {"argv":["test"]}  out [tool:cargo] error: 1 test failed
        1.750  t0   shell_exec denied blocked  in {"command":"rm -rf /"}  out the call was blocked
        2.000  t1   model reply, 0 calls  in 1000 tokens  out 20 tokens  1.2 s
        2.250       end ok  out The loop ends\none too early: 漢字.  1 min 01 s
    "#);
    let steps = mur.run(&["trace", "steps", "--json"]).json();
    assert_eq!(
        steps[3],
        json!({
            "timestamp": 1_796_023_702_250_u64, "task_id": "task_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b", "turn": 0,
            "step": "tool_call", "tool": "files_read", "status": "ok", "output_bytes": 78, "duration_ms": 3,
            "tool_call_id": "call_1", "input": {"filePath": "src/lib.rs"},
            "output": fence::wrap(&fence::Source::tool("files_read"), "fn main() {\n}\n"),
            "fence_source": "tool:files_read",
        })
    );
    let sources: Vec<_> = steps.as_array().unwrap().iter().map(|step| &step["fence_source"]).collect();
    let none = &serde_json::Value::Null;
    assert_eq!(sources, [none, none, none, &json!("tool:files_read"), &json!("tool:cargo"), none, none, none]);
}

#[test]
fn a_session_that_was_killed_is_shown_up_to_its_last_whole_line() {
    let mur = Mur::new();
    let mut session = Session::begin(&mur, 1, Capture::Content);
    session.task(Origin::Event, "<untrusted-content source=task:event>\ndo it\n</untrusted-content>");
    session.turn(0, Some("files_read"));
    session.kill();
    let path = home(&mur).trace_path(&id(1));
    let torn = [std::fs::read(&path).unwrap(), b"{\"event_type\":\"tool".to_vec()].concat();
    std::fs::write(&path, torn).unwrap();
    assert_snapshot!(mur.shown(&mur.run(&["trace", "show"])), @r#"
    exit 0
    --- stdout
    ses_0190a1b2c3d47e5f8a9b0c1d00000001
      capsule  bug-hunt 1.2.3
      model    script on scripted (a script was played, no model answered)
      workdir  /srv/agent
      tools    files_read, shell_exec
      started  2026-11-30 07:28:21 UTC by mur 0.1.0
      capture  content

    task task_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b  event, untrusted, by cli  in a-thread
      [task:event] do it
      turn 0  tool_call (1 call)  1000 in, 20 out, 1.2 s, stopped by tool_use

    session killed (no end on record)  1 task, 1 turn, 1 call, 1000 in, 20 out, 750 ms
      19 bytes of an unfinished line at the end
    the chain was not checked here: `mur trace verify ses_0190a1b2c3d47e5f8a9b0c1d00000001` does that
    "#);
    let shown = mur.run(&["trace", "show", "--json"]).json();
    assert_eq!((&shown["status"], &shown["torn_bytes"], &shown["turns"]), (&json!("killed"), &json!(19), &json!(1)));
}

#[test]
fn a_damaged_line_ends_the_story_and_is_named() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    let path = home(&mur).trace_path(&id(1));
    let damaged =
        std::fs::read_to_string(&path).unwrap().replacen("\"event_type\":\"inference\"", "\"event_type\":", 1);
    std::fs::write(&path, damaged).unwrap();
    assert_snapshot!(mur.shown(&mur.run(&["trace", "show"])), @r#"
    exit 1
    --- stdout
    ses_0190a1b2c3d47e5f8a9b0c1d00000001
      capsule  bug-hunt 1.2.3
      model    script on scripted (a script was played, no model answered)
      workdir  /srv/agent
      tools    files_read, shell_exec
      started  2026-11-30 07:28:21 UTC by mur 0.1.0
      capture  content

    task task_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b  user, trusted, by cli  in a-thread
      Why do the tests fail?
      turn 0  rate_limit 429 at attempt 1: too many requests; again in 500 ms

    session damaged  1 task, 0 turns, 0 calls, 0 in, 0 out, 750 ms
      the rest of the trace cannot be read
    the chain was not checked here: `mur trace verify ses_0190a1b2c3d47e5f8a9b0c1d00000001` does that
    --- stderr
    error[E-REC-003]: `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000001/trace.jsonl` line 5: not a record line: expected value at line 1 column 15
      hint: the record was damaged: move it away, or restore it from a copy
    "#);
    for command in ["show", "steps"] {
        let ran = mur.run(&["trace", command, "--json"]);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.json().is_object() || ran.json().as_array().unwrap().len() == 2, "{ran:?}");
    }
}

#[test]
fn a_session_is_found_by_rank_id_and_suffix_and_by_nothing_else() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::None);
    whole(&mur, 2, Capture::None);
    let shown = |name: &str| mur.run(&["trace", "show", name, "--json"]);
    for (name, number) in [("@1", 2), ("@2", 1), (id(1).as_str(), 1), ("0002", 2)] {
        assert_eq!(shown(name).json()["session_id"], json!(id(number)), "{name}");
    }
    for name in ["@3", "@0", "9999", "001", "../etc", ""] {
        let ran = shown(name);
        assert_eq!((ran.status, ran.stdout()), (Some(2), ""), "{name}: {ran:?}");
        assert!(ran.stderr.contains("[E-REC-006]"), "{name}: {ran:?}");
    }
}

#[test]
fn the_key_is_made_once_and_only_its_public_half_is_shown() {
    let mur = Mur::new();
    let first = mur.run(&["trace", "key"]);
    assert_eq!(first.stdout(), format!("{}\n", key(&mur).public()));
    let json = mur.run(&["trace", "key", "--json"]).json();
    assert_eq!(json["public_key"], first.stdout().trim());
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mur = Mur::new();
    let mut session = Session::begin(&mur, 1, Capture::Content);
    session.task(Origin::User, "read much");
    // Far more than a pipe holds.
    for turn in 0..2_000 {
        session.turn(turn, Some("files_read"));
        session.call(turn, "files_read", &json!({"filePath": "a"}), &"x".repeat(200), false);
    }
    session.end(None);
    for args in
        [&["trace", "show"][..], &["trace", "show", "--json"], &["trace", "steps"], &["trace", "steps", "--json"]]
    {
        let mut child = mur.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 10]).unwrap();
        drop(stdout);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), String::from_utf8(ended.stderr).unwrap()),
            (Some(0), String::new()),
            "{args:?}"
        );
    }
}

#[test]
fn a_full_disk_is_told() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    for args in [&["trace", "show"][..], &["trace", "list", "--json"], &["trace", "verify"], &["doctor"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(mur.command(args).stdout(full));
        assert_eq!(ran.status, Some(1), "{args:?}");
        assert!(ran.stderr.contains("cannot write to standard output: "), "{args:?}: {ran:?}");
    }
}

#[test]
fn colours_are_for_terminals() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    let coloured = |name, value| Ran::of(mur.command(&["trace", "show"]).env(name, value)).stdout.contains(&0x1b);
    assert!(!coloured("TERM", "xterm-256color"));
    assert!(coloured("CLICOLOR_FORCE", "1"));
    let both = Ran::of(mur.command(&["trace", "show"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1"));
    assert!(!both.stdout.contains(&0x1b));
}
