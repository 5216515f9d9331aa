//! `mur ps`: what runs, as it is.

use record::{Home, Running, RunningSession, process_start};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Gate, Turn};

use crate::peers::{Canned, answer};
use crate::serve::{SERVES, Serving};
use crate::support::{Stage, Wire};

fn serving(turns: Vec<Turn>) -> Stage {
    let stage = Stage::new(Wire::Anthropic, "", turns);
    stage.declare(SERVES);
    stage
}

#[test]
fn nothing_running_is_an_empty_list() {
    let stage = serving(Vec::new());
    let (table, json) = (stage.mur.run(&["ps"]), stage.mur.run(&["ps", "--json"]));
    assert_eq!(
        stage.mur.shown(&table),
        "exit 0\n--- stderr\nno session is running in `[home]`\n",
        "a table without a row"
    );
    assert_eq!(stage.mur.shown(&json), "exit 0\n--- stdout\n[]\n");
}

#[test]
fn each_session_is_listed_with_how_it_does() {
    let gate = Gate::new();
    let stage = serving(vec![Turn::new().text("done").gate(&gate)]);
    let idle = Serving::start(&stage, &[]);
    let busy = Serving::start(&stage, &["--task", "do it"]);
    stage.wait_requests(1);

    let listed = stage.mur.run(&["ps", "--json"]).json();
    let entry = |serving: &Serving, status: &str, listed: &Value| {
        let of = |key: &str| serving.started[key].clone();
        json!({
            "session_id": of("session_id"),
            "url": of("url"),
            "pid": of("pid"),
            "process_start": listed["process_start"],
            "capsule": "agent",
            "version": "0.1.0",
            "workdir": of("workdir"),
            "records": of("records"),
            "started_ms": listed["started_ms"],
            "status": status,
        })
    };
    let (newest, oldest) = (&listed[0], &listed[1]);
    assert_eq!(listed, json!([entry(&busy, "working", newest), entry(&idle, "idle", oldest)]));

    let table = stage.mur.run(&["ps"]);
    assert_eq!((table.status, table.stderr.as_str()), (Some(0), ""));
    let rows: Vec<Vec<&str>> = table.stdout().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["SESSION", "CAPSULE", "STATUS", "PID", "AGE", "URL"]);
    let cells = |row: &[&str]| [row[0], row[1], row[2], row[3], row[row.len() - 1]].map(str::to_owned);
    let expected = |serving: &Serving, status: &str| {
        [serving.session(), "agent", "0.1.0", status, serving.url()].map(str::to_owned)
    };
    assert_eq!([cells(&rows[1]), cells(&rows[2])], [expected(&busy, "working"), expected(&idle, "idle")]);
    let columns: Vec<_> = table.stdout().lines().map(|line| line.find("URL").or(line.find("http"))).collect();
    assert!(columns.iter().all(|column| column.is_some() && *column == columns[0]), "{}", table.stdout());

    gate.open();
    for session in [idle, busy] {
        session.signal(Signal::TERM);
        session.end();
    }
}

#[test]
fn one_that_does_not_answer_is_listed_all_the_same() {
    let stage = serving(Vec::new());
    let home = Home::at(&stage.mur.home.home()).unwrap();
    let other = json!({"ok": true, "session_id": vocab::SessionId::new(), "status": "idle"}).to_string();
    // Somebody else has the port by now, and answers for himself; another port has nobody.
    let foreign = Canned::start(vec![answer("200 OK", "", &other)]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let entry = |url: String, capsule: &str| RunningSession {
        session_id: vocab::SessionId::new(),
        url,
        pid: 7,
        process_start: process_start(),
        capsule: capsule.to_owned(),
        version: "1.0.0".to_owned(),
        workdir: "/w".into(),
        records: "/r".into(),
        started_ms: 1,
    };
    let first = entry(foreign.url(), "a\x1b[2Jb");
    let second = entry(format!("http://{nobody}"), "c");
    let held = [&first, &second].map(|entry| Running::announce(&home, entry, &[]).unwrap());
    let listed = stage.mur.run(&["ps", "--json"]).json();
    let shown: Vec<_> = listed.as_array().unwrap().iter().map(|entry| (&entry["capsule"], &entry["status"])).collect();
    assert_eq!(shown, [(&json!("c"), &Value::Null), (&json!("a\x1b[2Jb"), &Value::Null)]);
    let table = stage.mur.run(&["ps"]);
    assert!(table.stdout().contains("a\\u{1b}[2Jb 1.0.0  no answer  7"), "{table:?}");
    drop(held);
    assert_eq!(stage.mur.run(&["ps", "--json"]).stdout(), "[]\n");
}
