//! Who may call what: every combination, counted at the server.

use std::net::TcpListener;

use policy::{Connection, Connectors as _, Lifecycle, Reach, Suspended};
use serde_json::json;

use super::fake::server::Server;
use super::{AGENT, Setting, Stage, connection, eventually, fake, open_gate, program};

/// The address of this server, in a thread that ends with the tests.
fn served(server: Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || server.serve_http(&listener));
    url
}

/// The same server behind an address.
async fn over_http(stage: &Stage, id: &str) -> Connection {
    let url = served(Server::new("usual", stage.seen_file()));
    let mut http = connection(id, Reach::Http { url }, Lifecycle::Ephemeral);
    http.secrets.insert("bearer".to_owned(), "terces-hhpttth".to_owned());
    stage.discover(&http).await;
    stage.forget_seen();
    http
}

#[tokio::test]
async fn only_an_enabled_connection_an_exact_name_and_a_standing_grant_reach_the_server() {
    for transport in ["stdio", "http"] {
        let stage = Stage::new();
        let a = match transport {
            "stdio" => stage.connect("a", "usual", Lifecycle::Ephemeral).await,
            _ => over_http(&stage, "a").await,
        };
        let catalog = stage.hub.catalog("a").await.unwrap();
        for enabled in [true, false] {
            for name in ["echo", "Echo", "echo "] {
                for state in ["granted", "none", "revoked", "other", "definition", "settings"] {
                    stage.forget_seen();
                    stage.change(|record| {
                        let _ = record.revoke(AGENT, "a", "echo");
                        let agent = if state == "other" { "another" } else { AGENT };
                        let mut granted = a.clone();
                        let mut offered = (*catalog).clone();
                        match state {
                            "none" => return,
                            "definition" => offered.tools[0].definition = "00".repeat(32),
                            "settings" => drop(granted.secrets.insert("env.A".to_owned(), "x".to_owned())),
                            _ => {}
                        }
                        record.grant(agent, &granted, "echo", &offered).unwrap();
                        if state == "revoked" {
                            record.revoke(AGENT, "a", "echo").unwrap();
                        }
                    });
                    stage.change(|record| record.enable("a", enabled).unwrap());
                    let expected: &[&str] = match (enabled, name, state) {
                        (false, ..) => &["mcp_provider_not_available"],
                        (true, "echo", "granted") => &[],
                        (true, "echo", "definition" | "settings") => &["mcp_tool_changed"],
                        (true, "echo", _) => &["mcp_tool_not_granted"],
                        (true, ..) => &["mcp_tool_not_found"],
                    };
                    let case = format!("{transport} {enabled} {name:?} {state}");
                    assert_eq!(stage.refused("a", name).await, expected, "{case}");
                    let calls = stage.seen().iter().filter(|line| *line == "call echo").count();
                    assert_eq!(calls, usize::from(expected.is_empty()), "{case}");
                    assert_eq!(stage.seen().is_empty(), !expected.is_empty(), "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_token_goes_to_the_server_and_nowhere_else() {
    let stage = Stage::new();
    let a = over_http(&stage, "a").await;
    stage.grant(&a, &["echo"]).await;
    let said = stage.call("a", "echo", json!({"text": "is it htttphh-secret?"})).await;
    assert_eq!(said, ("you said is it [redacted]?".to_owned(), false));
    let seen = stage.seen();
    assert!(seen.iter().any(|line| line == "Bearer htttphh-secret"), "{seen:?}");
}

#[tokio::test]
async fn a_tool_that_changed_at_its_server_is_refused_and_its_grant_suspended() {
    let stage = Stage::new();
    let a = stage.connect("a", "changes", Lifecycle::KeepAlive).await;
    stage.grant(&a, &["echo", "fail"]).await;
    assert_eq!(stage.refused("a", "echo").await, [] as [&str; 0]);
    // The server has changed every tool; the stored catalog is as it was.
    assert_eq!(stage.refused("a", "echo").await, ["mcp_tool_changed"]);
    assert_eq!(stage.seen(), ["start", "call echo"]);
    let record = stage.hub.current().await.unwrap();
    let standing = |tool| record.grant_of(AGENT, "a", tool).unwrap().suspended;
    assert_eq!((standing("echo"), standing("fail")), (Some(Suspended::Definition), None));
    // It stays so, even though a new process would say what the old one said.
    stage.hub.close().await;
    assert_eq!(stage.refused("a", "echo").await, ["mcp_tool_changed"]);
    assert_eq!(stage.seen(), ["start", "call echo"]);
    stage.grant(&a, &["echo"]).await;
    assert_eq!(stage.refused("a", "echo").await, [] as [&str; 0]);
}

/// What the operator does while a server starts, and how the call is refused.
type Change = (&'static str, fn(&mut policy::Connections, &Connection), &'static [&'static str]);

#[tokio::test]
async fn what_is_taken_back_while_a_server_starts_is_not_called() {
    let changes: [Change; 7] = [
        ("nothing", |_, _| {}, &[]),
        ("revoked", |record, _| record.revoke(AGENT, "b", "echo").unwrap(), &["mcp_tool_not_granted"]),
        ("disabled", |record, _| record.enable("b", false).unwrap(), &["mcp_provider_not_available"]),
        ("removed", |record, _| drop(record.remove("b").unwrap()), &["mcp_provider_not_available"]),
        (
            "suspended",
            |record, _| {
                let pinned = record.grant_of(AGENT, "b", "echo").unwrap().pinned.clone();
                assert!(record.suspend(&pinned));
            },
            &["mcp_tool_changed"],
        ),
        ("changed", |record, b| record.put(changed(b)).unwrap(), &["mcp_tool_changed"]),
        // Another connection was judged than the one that it is now, whatever was granted to that.
        (
            "changed and granted",
            |record, b| {
                let now = changed(b);
                record.put(now.clone()).unwrap();
                let offered = policy::CatalogTool {
                    name: "echo".into(),
                    description: String::new(),
                    input_schema: json!({}),
                    definition: record.grant_of(AGENT, "b", "echo").unwrap().pinned.definition.clone(),
                    unusable: None,
                    mod_authorized: false,
                };
                record.grant(AGENT, &now, "echo", &policy::Catalog::new(vec![offered])).unwrap();
            },
            &["mcp_tool_changed"],
        ),
    ];
    for transport in ["stdio", "http"] {
        for lifecycle in [Lifecycle::Ephemeral, Lifecycle::KeepAlive] {
            for (name, change, expected) in changes {
                let stage = Stage::new();
                let known = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
                let fifo = stage.fifo("gate");
                let reach = if transport == "stdio" {
                    let mut args = fake::words("usual", &stage.seen_file());
                    args.push(format!("gate=tools/list:{}", fifo.display()));
                    Reach::Stdio { command: program(), args }
                } else {
                    Reach::Http { url: served(Server::new("usual", stage.seen_file()).gated("tools/list", &fifo)) }
                };
                let b = connection("b", reach, lifecycle);
                stage.store(&b, (*stage.hub.catalog(&known.id).await.unwrap()).clone());
                stage.grant(&b, &["echo"]).await;
                let meanwhile = async {
                    eventually(|| stage.seen().contains(&"at tools/list".to_owned())).await;
                    stage.change(|record| change(record, &b));
                    open_gate(fifo).await;
                };
                let (refused, ()) = tokio::join!(stage.refused("b", "echo"), meanwhile);
                let case = format!("{transport} {lifecycle:?} {name}");
                assert_eq!(refused, expected, "{case}");
                let calls = stage.seen().iter().filter(|line| *line == "call echo").count();
                assert_eq!(calls, usize::from(expected.is_empty()), "{case}: {:?}", stage.seen());
            }
        }
    }
}

/// The same connection with another variable, or another address.
fn changed(connection: &Connection) -> Connection {
    let mut changed = connection.clone();
    match &mut changed.reach {
        Reach::Http { url } => url.push('2'),
        _ => drop(changed.variables.insert("MODE".into(), "other".into())),
    }
    changed
}

#[tokio::test]
async fn what_is_taken_back_while_a_mod_starts_is_not_called() {
    for is_revoked in [true, false] {
        let words = |base: &std::path::Path| vec![format!("gate=tools/list:{}", base.join("gate").display())];
        let stage = Stage::with(Setting { mods: vec!["mod"], words, ..Setting::default() });
        let fifo = stage.fifo("gate");
        let known = stage.connect("a", "mod", Lifecycle::Ephemeral).await;
        let catalog = stage.hub.catalog(&known.id).await.unwrap();
        let notes = stage.hub.current().await.unwrap().select("mod.notes").unwrap().clone();
        stage.change(|record| record.grant(AGENT, &notes, "echo", &catalog).unwrap());
        let meanwhile = async {
            eventually(|| stage.seen().contains(&"at tools/list".to_owned())).await;
            if is_revoked {
                stage.change(|record| record.revoke(AGENT, "mod.notes", "echo").unwrap());
            }
            open_gate(fifo).await;
        };
        let (refused, ()) = tokio::join!(stage.refused("mod.notes", "echo"), meanwhile);
        assert_eq!(refused, if is_revoked { vec!["mcp_tool_not_granted"] } else { vec![] });
        let calls = stage.seen().iter().filter(|line| *line == "call echo").count();
        assert_eq!(calls, usize::from(!is_revoked));
    }
}

#[tokio::test]
async fn a_change_tells_the_operator_what_to_do() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    stage.grant(&a, &["echo"]).await;
    stage.change(|record| record.put(changed(&a)).unwrap());
    let shown = stage.listing("mcp_capabilities", json!({"provider": "a", "query": "echo"})).await;
    let why = shown["tools"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("mcp_tool_changed: "), "{why}");
    assert!(why.ends_with("`mur mcp discover NAME`, then `mur mcp grant AGENT NAME TOOL`"), "{why}");
}
