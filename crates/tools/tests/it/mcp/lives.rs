//! When servers are started, with what, and when they end.

use std::path::Path;
use std::time::Duration;

use policy::{Lifecycle, Reach};
use sandbox::{Class, Network};
use serde_json::json;
use tools::Containment;

use super::{AGENT, DEADLINE, Setting, Stage, connection, eventually, fake, program};

#[tokio::test]
async fn nothing_is_started_that_is_not_called() {
    let stage = Stage::new();
    let a = stage.connect("c00", "usual", Lifecycle::Ephemeral).await;
    let catalog = policy::Connectors::catalog(&*stage.hub, "c00").await.unwrap();
    let mut tools = Vec::new();
    for tool in &catalog.tools {
        tools.extend(
            (0..2).map(|number| policy::CatalogTool { name: format!("{}{number}", tool.name), ..tool.clone() }),
        );
    }
    for number in 1..50 {
        let other = connection(&format!("c{number:02}"), a.reach.clone(), Lifecycle::KeepAlive);
        stage.store(&other, policy::Catalog::new(tools.clone()));
        stage.grant(&other, &["echo0"]).await;
    }
    let listed = stage.listing("mcp_providers", json!({})).await;
    let counts: usize =
        listed["providers"].as_array().unwrap().iter().map(|one| one["tools"].as_u64().unwrap() as usize).sum();
    assert_eq!((counts, &listed["more"]), (14 + 49 * 28, &json!(false)));
    for number in 0..50 {
        stage.listing("mcp_capabilities", json!({"provider": format!("c{number:02}"), "limit": 20})).await;
    }
    assert!(stage.seen().is_empty());
    stage.grant(&a, &["echo"]).await;
    assert_eq!(stage.call("c00", "echo", json!({"text": "a"})).await.0, "you said a");
    assert_eq!(stage.seen(), ["start", "call echo"]);
}

#[tokio::test]
async fn a_server_lives_for_a_call_or_for_the_session_and_ends_with_its_settings() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    let b = stage.connect("b", "usual", Lifecycle::KeepAlive).await;
    stage.grant(&a, &["echo"]).await;
    stage.grant(&b, &["echo"]).await;
    let call = async |id: &str| assert_eq!(stage.call(id, "echo", json!({"text": "x"})).await.0, "you said x");
    call("a").await;
    call("a").await;
    assert_eq!(stage.seen(), ["start", "call echo", "start", "call echo"]);
    stage.forget_seen();
    call("b").await;
    call("b").await;
    assert_eq!(stage.seen(), ["start", "call echo", "call echo"]);

    let mut changed = b.clone();
    changed.secrets.insert("env.MODE".to_owned(), "rehtona".to_owned());
    stage.change(|record| record.put(changed.clone()).unwrap());
    assert_eq!(stage.refused("b", "echo").await, ["mcp_tool_changed"]);
    stage.grant(&changed, &["echo"]).await;
    call("b").await;
    assert_eq!(stage.seen(), ["start", "call echo", "call echo", "start", "call echo"]);
}

#[tokio::test]
async fn given_values_stand_in_the_servers_environment_and_nothing_of_the_runtimes_does() {
    let stage = Stage::new();
    let mut a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    a.secrets.insert("env.SERVICE_TOKEN".to_owned(), "terces-fo-eht-ecivres".to_owned());
    a.variables.extend([("MODE", "1"), ("LANG", "production")].map(|(name, value)| (name.into(), value.into())));
    stage.change(|record| record.put(a.clone()).unwrap());
    stage.grant(&a, &["environment"]).await;
    let (text, _) = stage.call("a", "environment", json!({})).await;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let names: Vec<&str> = lines.iter().map(|line| line.split('=').next().unwrap()).collect();
    assert_eq!(names, ["HOME", "LANG", "MODE", "PATH", "SERVICE_TOKEN", "TMPDIR"]);
    // What is given in clear is no secret, and stands in place of what the runtime would give.
    assert_eq!((lines[1], lines[2], lines[4]), ("LANG=production", "MODE=1", "SERVICE_TOKEN=[redacted]"));
    // What the agent's processes leave in their HOME, an interpreter of the server's would load.
    let home = Path::new(lines[0].strip_prefix("HOME=").unwrap());
    assert!(home.ends_with("home") && !home.starts_with(stage.work.parent().unwrap()), "{}", home.display());
    assert!(!stage.redactor.is_clean("service-the-of-secret"));

    a.secrets.insert("env.SERVICE_TOKEN".to_owned(), "broken".to_owned());
    stage.change(|record| record.put(a.clone()).unwrap());
    stage.grant(&a, &["environment"]).await;
    stage.forget_seen();
    let (text, is_error) = stage.call("a", "environment", json!({})).await;
    assert!(text.contains("`env.SERVICE_TOKEN` cannot be opened: the seal is broken") && is_error, "{text}");
    assert!(stage.seen().is_empty());
}

#[tokio::test]
async fn a_program_that_the_agent_could_replace_is_not_started_and_a_missing_one_is_told() {
    let stage = Stage::new();
    stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    let own = stage.work.join("server");
    std::fs::copy(program(), &own).unwrap();
    let catalog = policy::Connectors::catalog(&*stage.hub, "a").await.unwrap();
    let (usual, own) = (fake::words("usual", &stage.seen_file()), own.to_str().unwrap());
    let commands = [
        (own, usual.clone(), "lies where the agent can write"),
        ("./server", usual, "nor one in `PATH`"),
        ("/bin/sh", vec!["-x".to_owned(), format!("{own}.new")], "lies where the agent can write"),
        // The script is as good as the program.
        ("/bin/sh", vec![own.to_owned()], "lies where the agent can write"),
    ];
    for (command, args, says) in commands {
        let b = connection("b", Reach::Stdio { command: command.to_owned(), args }, Lifecycle::Ephemeral);
        stage.store(&b, (*catalog).clone());
        stage.grant(&b, &["echo"]).await;
        let (text, is_error) = stage.call("b", "echo", json!({"text": "a"})).await;
        assert!(text.contains(says) && is_error, "{text}");
    }
    assert!(stage.seen().is_empty());
}

#[tokio::test]
async fn a_rule_on_the_command_forbids_its_start_and_the_use_of_one_that_runs() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::KeepAlive).await;
    stage.grant(&a, &["echo"]).await;
    assert!(stage.refused("a", "echo").await.is_empty());
    stage.rules(
        json!([{"id": "no", "type": "path", "pattern": program(), "match": "exact", "operations": ["execute"]}]),
    );
    // As the program that is started, and as the one that its command names.
    assert_eq!(stage.refused("a", "echo").await, ["hard_policy_block:user_configured_hard_block"; 2]);
    assert_eq!(stage.seen(), ["start", "call echo"]);
    stage.rules(json!([]));
    assert!(stage.refused("a", "echo").await.is_empty());
}

#[tokio::test]
async fn a_kept_server_is_started_anew_when_the_rules_are_others() {
    if !sandbox::Host::probe(None).missing(Class::Scoped).is_empty() {
        eprintln!("left out: this host has no class of containment");
        return;
    }
    let containment = Containment::new(Class::Scoped, Network::None);
    let stage = Stage::with(Setting { containment, ..Setting::default() });
    std::fs::write(stage.work.join("key"), "k").unwrap();
    let a = stage.connect("a", "usual", Lifecycle::KeepAlive).await;
    stage.grant(&a, &["echo"]).await;
    let call = async || assert_eq!(stage.call("a", "echo", json!({"text": "x"})).await.0, "you said x");
    call().await;
    call().await;
    assert_eq!(stage.seen(), ["start", "call echo", "call echo"]);
    stage.rules(json!([{"id": "key", "type": "path", "pattern": "key", "match": "exact", "operations": ["read"]}]));
    call().await;
    call().await;
    assert_eq!(stage.seen()[3..], ["start", "call echo", "call echo"]);
    // The file is another one, so the mask has fallen.
    std::fs::rename(stage.work.join("key"), stage.work.join("old")).unwrap();
    std::fs::write(stage.work.join("key"), "k").unwrap();
    call().await;
    assert_eq!(stage.seen()[6..], ["start", "call echo"]);
}

#[tokio::test]
async fn nothing_is_left_of_a_session() {
    for orderly in [true, false] {
        let stage = Stage::new();
        let known = stage.connect("b", "usual", Lifecycle::Ephemeral).await;
        // Reading begins with the server's start and ends with its end.
        let (a, end) = held(&stage, &known);
        stage.store(&a, (*policy::Connectors::catalog(&*stage.hub, &known.id).await.unwrap()).clone());
        stage.grant(&a, &["echo"]).await;
        assert_eq!(stage.call("k", "echo", json!({"text": "x"})).await.0, "you said x");
        assert!(!end.is_finished());
        if orderly {
            stage.hub.close().await;
        }
        drop(stage);
        tokio::time::timeout(DEADLINE, end).await.expect("a server is left").unwrap();
    }
}

#[tokio::test]
async fn a_variable_by_which_the_agents_code_would_be_loaded_keeps_a_server_from_its_secrets() {
    let stage = Stage::new();
    let mut a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    for (lib, starts) in [(stage.work.join("lib"), false), (stage.dir.path().join("lib"), true)] {
        a.secrets.insert("env.PYTHONPATH".to_owned(), lib.to_str().unwrap().chars().rev().collect());
        stage.change(|record| record.put(a.clone()).unwrap());
        stage.grant(&a, &["echo"]).await;
        let (text, is_error) = stage.call("a", "echo", json!({"text": "x"})).await;
        assert_eq!(is_error, !starts, "{text}");
        assert_eq!(text.contains("variable `PYTHONPATH` leads to where the agent can write"), !starts, "{text}");
        assert_eq!(stage.seen().is_empty(), !starts);
    }
}

/// Who reads there learns of the server's end.
fn held(stage: &Stage, known: &policy::Connection) -> (policy::Connection, tokio::task::JoinHandle<Vec<u8>>) {
    let hold = stage.fifo("hold");
    let Reach::Stdio { command, mut args } = known.reach.clone() else { panic!("stdio") };
    args.push(format!("hold={}", hold.display()));
    let kept = connection("k", Reach::Stdio { command, args }, Lifecycle::KeepAlive);
    (kept, tokio::task::spawn_blocking(move || std::fs::read(hold).unwrap()))
}

#[tokio::test]
async fn what_is_kept_for_nobody_ends_at_the_next_look() {
    type Change = (&'static str, fn(&mut policy::Connections, &policy::Connection));
    let changes: [Change; 5] = [
        ("revoked", |record, _| record.revoke(AGENT, "k", "echo").unwrap()),
        ("disabled", |record, _| record.enable("k", false).unwrap()),
        ("removed", |record, _| drop(record.remove("k").unwrap())),
        ("changed", |record, k| {
            let mut changed = k.clone();
            changed.variables.insert("A".into(), "b".into());
            record.put(changed).unwrap();
        }),
        ("not kept", |record, k| {
            record.put(policy::Connection { lifecycle: Lifecycle::Ephemeral, ..k.clone() }).unwrap();
        }),
    ];
    for (name, change) in changes {
        for by_itself in [false, true] {
            let stage = Stage::new();
            let known = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
            let (k, end) = held(&stage, &known);
            stage.store(&k, (*policy::Connectors::catalog(&*stage.hub, "a").await.unwrap()).clone());
            stage.grant(&k, &["echo", "fail"]).await;
            assert!(stage.refused("k", "echo").await.is_empty());
            // With one grant of two it still is wanted.
            stage.change(|record| record.revoke(AGENT, "k", "fail").unwrap());
            stage.listing("mcp_providers", json!({})).await;
            assert!(stage.refused("k", "echo").await.is_empty());
            assert_eq!(stage.seen(), ["start", "call echo", "call echo"]);
            stage.change(|record| change(record, &k));
            if by_itself {
                tokio::time::pause();
                tokio::time::advance(Duration::from_secs(15)).await;
                tokio::time::resume();
            } else {
                stage.listing("mcp_providers", json!({})).await;
            }
            let ended = tokio::time::timeout(DEADLINE, end).await;
            assert!(ended.is_ok(), "{name}, by itself: {by_itself}");
        }
    }
}

#[tokio::test]
async fn the_session_of_a_server_behind_an_address_is_deleted_when_nobody_may_use_it() {
    let stage = Stage::new();
    let known = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = fake::server::Server::new("usual", stage.seen_file());
    std::thread::spawn(move || server.serve_http(&listener));
    let k = connection("k", Reach::Http { url }, Lifecycle::KeepAlive);
    stage.store(&k, (*policy::Connectors::catalog(&*stage.hub, &known.id).await.unwrap()).clone());
    stage.grant(&k, &["echo"]).await;
    for _ in 0..2 {
        assert!(stage.refused("k", "echo").await.is_empty());
    }
    assert_eq!(stage.seen(), ["start", "call echo", "call echo"]);
    stage.change(|record| record.revoke(AGENT, "k", "echo").unwrap());
    assert_eq!(stage.refused("k", "echo").await, ["mcp_tool_not_granted"]);
    eventually(|| stage.seen() == ["start", "call echo", "call echo", "delete"]).await;
}
