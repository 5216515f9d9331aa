//! Who may call what: every combination, counted at the server.

use std::net::TcpListener;

use policy::{Connection, Connectors as _, Lifecycle, Reach, Suspended};
use serde_json::json;

use super::fake::server::Server;
use super::{AGENT, Stage, connection};

/// The same server behind an address, in a thread that ends with the tests.
async fn over_http(stage: &Stage, id: &str) -> Connection {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Server::new("usual", stage.seen_file());
    std::thread::spawn(move || server.serve_http(&listener));
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
