//! The matrix of grants, from the command line to what reached the server, on every transport.

use std::fs;

use serde_json::json;
use testkit::Turn;

use super::fake::server::Server;
use super::{add, call, calls, mcp, operator::change_record, seen, stage, with_mod};
use crate::support::{Stage, of_type};

/// Adds the connection `files` to a server behind an address, in a thread that ends with the tests.
fn add_http(stage: &Stage) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Server::new("usual", stage.path("work/seen"));
    std::thread::spawn(move || server.serve_http(&listener));
    mcp(stage, &["add", "files", "--http", &url]);
}

fn granted(stage: &Stage) {
    mcp(stage, &["grant", "agent", "files", "echo"]);
}

/// What is done after the connection was looked at.
type Prepare = fn(&Stage);

const GONE: &str = "mcp_provider_not_available";
const NOT_FOUND: &str = "mcp_tool_not_found";

/// What keeps a call of `echo`, and one of `Echo`, from the server; the first alone runs when it is granted.
const CASES: [(&str, Prepare, [&str; 2]); 11] = [
    ("granted", granted, ["you said a", NOT_FOUND]),
    ("never granted", |_| {}, ["mcp_tool_not_granted", NOT_FOUND]),
    (
        "another agent's",
        |stage| drop(mcp(stage, &["grant", "Agent", "files", "echo"])),
        ["mcp_tool_not_granted", NOT_FOUND],
    ),
    (
        "another tool's",
        |stage| drop(mcp(stage, &["grant", "agent", "files", "fail"])),
        ["mcp_tool_not_granted", NOT_FOUND],
    ),
    (
        "revoked",
        |stage| {
            granted(stage);
            mcp(stage, &["revoke", "agent", "files", "echo"]);
        },
        ["mcp_tool_not_granted", NOT_FOUND],
    ),
    (
        "disabled",
        |stage| {
            granted(stage);
            mcp(stage, &["disable", "files"]);
        },
        [GONE, GONE],
    ),
    (
        "disabled and enabled",
        |stage| {
            granted(stage);
            mcp(stage, &["disable", "files"]);
            mcp(stage, &["enable", "files"]);
        },
        ["you said a", NOT_FOUND],
    ),
    (
        "removed",
        |stage| {
            granted(stage);
            mcp(stage, &["remove", "files"]);
        },
        [GONE, GONE],
    ),
    (
        // No command gives a name twice; a record that was made otherwise may.
        "ambiguous",
        |stage| {
            granted(stage);
            change_record(stage, |record| {
                let one = record.select("files").unwrap().clone();
                record.put(policy::Connection { id: "twin".to_owned(), name: "Files".to_owned(), ..one }).unwrap();
            });
        },
        [GONE, GONE],
    ),
    (
        "changed",
        |stage| {
            granted(stage);
            let ran = mcp(stage, &["update", "files", "--stdio", "/bin/cat"]);
            let said = ran.stdout();
            assert!(
                said.contains("1 grant suspended") && said.contains("`mur mcp discover files`, then grant"),
                "{said}"
            );
        },
        ["mcp_tool_changed", NOT_FOUND],
    ),
    (
        "an unreadable record",
        |stage| {
            granted(stage);
            let store = stage.path("home/settings.db");
            fs::OpenOptions::new().write(true).open(store).unwrap().set_len(4096).unwrap();
        },
        ["boundaries_unreadable"; 2],
    ),
];
#[test]
fn what_is_not_granted_does_not_reach_the_server() {
    for transport in ["stdio", "http"] {
        for (name, prepare, expected) in CASES {
            let stage = stage(vec![call("echo", json!({"text": "a"})), call("Echo", json!({"text": "a"}))]);
            match transport {
                "stdio" => drop(add(&stage, "files", "usual")),
                _ => add_http(&stage),
            }
            mcp(&stage, &["discover", "files"]);
            prepare(&stage);
            let before = seen(&stage);
            stage.succeed();
            let (results, case) = (stage.results(), format!("{transport}, {name}"));
            assert!(results[0].contains(expected[0]), "{case}: {}", results[0]);
            assert!(results[1].contains(expected[1]), "{case}: {}", results[1]);
            let has_run = usize::from(expected[0] == "you said a");
            assert_eq!(calls(&stage), has_run, "{case}: {:?}", seen(&stage));
            assert!(has_run == 1 || seen(&stage) == before, "{case}: nothing is started");
            let trace = stage.trace();
            let told = (of_type(&trace, "call_denied").len(), of_type(&trace, "tool_call").len());
            assert_eq!(told, (2 - has_run, has_run), "{case}");
        }
    }
}

#[test]
fn of_a_mod_what_is_not_granted_does_not_reach_it_either() {
    fn grant(stage: &Stage) {
        mcp(stage, &["grant", "agent", "mod.notes", "echo", "--capsule", &stage.path("agent")]);
    }
    let cases: [(&str, Prepare, &str); 6] = [
        ("granted", grant, "you said a"),
        ("never granted", |_| {}, "mcp_tool_not_granted"),
        (
            "another agent's",
            |stage| drop(mcp(stage, &["grant", "other", "mod.notes", "echo", "--capsule", &stage.path("agent")])),
            "mcp_tool_not_granted",
        ),
        (
            "revoked",
            |stage| {
                grant(stage);
                mcp(stage, &["revoke", "agent", "mod.notes", "echo"]);
            },
            "mcp_tool_not_granted",
        ),
        (
            "changed",
            |stage| {
                grant(stage);
                let run = stage.path("agent/notes/run");
                let text = fs::read_to_string(&run).unwrap();
                fs::write(&run, text.replace("exec", "# As it was not granted.\nexec")).unwrap();
            },
            "mcp_tool_changed",
        ),
        (
            "changed and granted again",
            |stage| {
                grant(stage);
                let package = stage.path("agent/notes/murmur.yaml");
                let text = fs::read_to_string(&package).unwrap();
                fs::write(&package, text.replace("0.1.0", "0.2.0")).unwrap();
                grant(stage);
            },
            "you said a",
        ),
    ];
    for (name, prepare, expected) in cases {
        let stage = with_mod(&[("echo", json!({"text": "a"})), ("Echo", json!({"text": "a"}))]);
        prepare(&stage);
        stage.succeed();
        let results = stage.results();
        assert!(results[0].contains(expected), "{name}: {}", results[0]);
        assert!(results[1].contains("mcp_tool_not_found"), "{name}: {}", results[1]);
        assert_eq!(calls(&stage), usize::from(expected == "you said a"), "{name}: {:?}", seen(&stage));
    }
}

#[test]
fn a_grant_says_what_it_rests_on_and_so_does_the_log() {
    let stage = stage(vec![call("echo", json!({"text": "a"})), Turn::new().text("unused")]);
    let id = add(&stage, "files", "usual");
    let found = mcp(&stage, &["discover", "files", "--json"]).json();
    let definition = found["tools"][0]["definition"].as_str().unwrap().to_owned();
    let granted = mcp(&stage, &["grant", "agent", "files", "echo", "--json"]).json();
    let rests_on = json!([{"tool": "echo", "definition": definition}]);
    assert_eq!(granted, json!({"agent": "agent", "connection": id, "granted": ["echo"], "rests_on": rests_on}));
    let log = mcp(&stage, &["log", "--json"]).json();
    assert_eq!(
        (&log[0]["action"], &log[0]["detail"]),
        (&json!("mcp.grant"), &json!(format!("agent {id} echo={definition}")))
    );
    // Of several tools all are granted or none.
    let ran = stage.mur.run(&["mcp", "grant", "agent", "files", "fail", "Echo"]);
    assert!(ran.status == Some(1) && ran.stderr.contains("offers no tool `Echo`"), "{ran:?}");
    assert_eq!(mcp(&stage, &["log", "--json"]).json(), log);
}
