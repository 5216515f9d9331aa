//! Records whose content was written to deceive the one who reads them.

use record::Capture;
use serde_json::json;
use vocab::Origin;

use crate::binary::Mur;
use crate::sessions::{Session, home, id};

const ESCAPES: &str = "\x1b[2J\x1b]0;owned\x07\r\u{9b}31m\u{202e}\u{7f}";

/// A session in which every text that others choose tries to leave its line and the terminal's rules.
fn hostile(mur: &Mur) {
    let mut session = Session::begin(mur, 1, Capture::Content);
    session.task(Origin::User, &format!("first\n\ntask forged{ESCAPES}"));
    session.failed_attempt(0, &format!("{ESCAPES}\nsession ok"));
    session.turn(0, Some(&format!("tool{ESCAPES}\n    forged")));
    let input = json!({ format!("key{ESCAPES}\n"): format!("value{ESCAPES}\n") });
    session.call(0, &format!("tool{ESCAPES}\n    ✓ forged"), &input, &format!("{ESCAPES}\nout\u{2028}"), false);
    session.task_end(&format!("reply{ESCAPES}\n    ✓ forged"));
    session.end(None);
}

#[test]
fn control_characters_reach_no_terminal() {
    let mur = Mur::new();
    hostile(&mur);
    for args in [&["trace", "show"][..], &["trace", "steps"], &["trace", "list"]] {
        let ran = mur.run(args);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let harmful: Vec<char> = ran
            .stdout()
            .chars()
            .filter(|&c| c.is_control() && c != '\n' || c == '\u{202e}' || c == '\u{2028}')
            .collect();
        assert_eq!(harmful, Vec::<char>::new(), "{args:?}");
    }
}

#[test]
fn no_text_makes_a_line_of_its_own() {
    let mur = Mur::new();
    hostile(&mur);
    let shown = mur.run(&["trace", "show"]);
    let starting = |head| shown.stdout().lines().filter(|line| line.starts_with(head)).count();
    assert_eq!(["task ", "    ✓ ", "session ", "  turn "].map(starting), [1, 1, 1, 2], "{}", shown.stdout());
    // The task, the failed attempt, the turn, the call, the end.
    assert_eq!(mur.run(&["trace", "steps"]).stdout().lines().count(), 5);
}

#[test]
fn json_has_every_byte_of_it() {
    let mur = Mur::new();
    hostile(&mur);
    let shown = mur.run(&["trace", "show", "--json"]).json();
    let call = shown["events"].as_array().unwrap().iter().find(|event| event["event_type"] == "tool_call").unwrap();
    assert_eq!(call["tool_name"], format!("tool{ESCAPES}\n    ✓ forged"));
    assert_eq!(call["input"], json!({ format!("key{ESCAPES}\n"): format!("value{ESCAPES}\n") }));
}

#[test]
fn a_huge_line_becomes_a_short_one() {
    let mur = Mur::new();
    let mut session = Session::begin(&mur, 1, Capture::Content);
    session.task(Origin::User, &"漢".repeat(1 << 20));
    session.call(0, &"t".repeat(100_000), &json!({ "x": "y".repeat(4 << 20) }), &"z".repeat(4 << 20), false);
    session.end(None);
    for command in ["show", "steps"] {
        let ran = mur.run(&["trace", command]);
        let longest = ran.stdout().lines().map(|line| line.chars().count()).max();
        assert!(longest < Some(600), "{longest:?}");
    }
}

#[test]
fn events_that_this_version_does_not_know_are_named() {
    let mur = Mur::new();
    let mut session = Session::begin(&mur, 1, Capture::Content);
    session.turn(0, None);
    session.end(None);
    let path = home(&mur).trace_path(&id(1));
    let newer = std::fs::read_to_string(&path).unwrap().replacen("\"inference\"", "\"control\\u001b_change\"", 1);
    std::fs::write(&path, newer).unwrap();
    let shown = mur.run(&["trace", "show"]);
    assert!(shown.stdout().contains("\n  control\\u{1b}_change\n"), "{}", shown.stdout());
}

#[test]
fn sums_of_absurd_numbers_stop_at_the_limit() {
    let mur = Mur::new();
    let mut session = Session::begin(&mur, 1, Capture::Content);
    session.turn(0, None);
    session.turn(1, None);
    session.kill();
    let path = home(&mur).trace_path(&id(1));
    let absurd = std::fs::read_to_string(&path)
        .unwrap()
        .replace("\"input_tokens\":1000", "\"input_tokens\":18446744073709551615");
    std::fs::write(&path, absurd).unwrap();
    assert_eq!(mur.run(&["trace", "show", "--json"]).json()["input_tokens"], u64::MAX);
}

#[test]
fn what_is_no_regular_file_is_refused_and_does_not_hide_the_rest() {
    let mur = Mur::new();
    hostile(&mur);
    let directory = home(&mur).create_session_dir(&id(2)).unwrap();
    let path = directory.join("trace.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    for _ in ["a pipe", "a directory"] {
        for command in ["show", "steps", "verify"] {
            let ran = mur.run(&["trace", command, "@1"]);
            let told = ran.stderr.contains("is not read: it is not a regular file");
            assert_eq!((ran.status, told), (Some(2), true), "{ran:?}");
        }
        let rows = mur.run(&["trace", "list", "--json"]).json();
        let statuses: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["unreadable", "ok"]);
        if path.is_dir() {
            break;
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
    }
}
