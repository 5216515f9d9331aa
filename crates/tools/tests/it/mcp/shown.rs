//! What the model and the operator are shown of connections.

use policy::{Lifecycle, Outcome, Reach, cancel_pair};
use serde_json::json;

use super::{Stage, connection};

#[tokio::test]
async fn tools_are_shown_in_pages_with_what_keeps_them_from_being_called() {
    let stage = Stage::new();
    let a = stage.connect("a", "twice", Lifecycle::Ephemeral).await;
    stage.grant(&a, &["fail", "noise"]).await;
    let mut other = stage.record.lock().unwrap().clone();
    let catalog = policy::Connectors::catalog(&*stage.hub, "a").await.unwrap();
    let pinned = other.grant_of(super::AGENT, "a", "noise").unwrap().pinned.clone();
    other.suspend(&pinned);
    stage.change(|record| *record = other);

    let first = stage.listing("mcp_capabilities", json!({"provider": "Server A", "limit": 5})).await;
    assert_eq!((&first["provider"], &first["total"], &first["next"]), (&json!("a"), &json!(15), &json!("5")));
    let names = |page: &serde_json::Value| -> Vec<String> {
        page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["echo", "hang", "endless", "crash", "fail"]);
    let twice = json!({"name": "echo", "description": "Does echo.", "granted": false, "unusable": "the server lists its name more than once"});
    assert_eq!(first["tools"][0], twice);
    assert_eq!(first["tools"][4]["granted"], true);
    let rest = stage.listing("mcp_capabilities", json!({"provider": "a", "cursor": "5", "limit": 20})).await;
    assert_eq!((names(&rest).len(), rest.get("next")), (10, None));
    assert_eq!(rest["tools"][0]["granted"], false);
    assert!(rest["tools"][0]["why"].as_str().unwrap().starts_with("mcp_tool_changed: "));
    assert_eq!(
        names(&stage.listing("mcp_capabilities", json!({"provider": "a", "query": "DOES imag"})).await),
        ["image"]
    );
    assert_eq!(catalog.tools.len(), 15);
    assert!(stage.seen().is_empty());
}

#[tokio::test]
async fn what_is_not_available_is_not_shown() {
    let stage = Stage::new();
    stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    stage.change(|record| record.enable("a", false).unwrap());
    for provider in ["a", "nobody"] {
        let (_canceler, cancel) = cancel_pair();
        let outcome = stage.outcome("mcp_capabilities", json!({"provider": provider}), cancel).await;
        let Outcome::NotRun(words) = outcome else { panic!("{outcome:?}") };
        assert!(words.as_str().ends_with("[mcp_provider_not_available]"), "{}", words.as_str());
    }
    let listed = stage.listing("mcp_providers", json!({})).await;
    let a = json!({"id": "a", "name": "Server a", "transport": "stdio", "enabled": false, "tools": 14});
    assert_eq!(listed, json!({"providers": [a], "more": false}));
}

#[tokio::test]
async fn the_operator_is_told_how_far_a_server_can_be_used() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    let operator = stage.operator();
    let found = operator.diagnose(&a).await;
    assert!(found.is_well() && found.usable == 14, "{found:?}");
    let missing = Reach::Stdio { command: "no-such-program".to_owned(), args: Vec::new() };
    let found = operator.diagnose(&connection("b", missing, Lifecycle::Ephemeral)).await;
    let (_, error) = found.failed.unwrap();
    assert!(error.to_string().contains("`no-such-program`"), "{error}");
    let noisy = Reach::Stdio { command: "sh".to_owned(), args: vec!["-c".into(), "echo it is broken >&2".into()] };
    assert!(operator.discover(&connection("c", noisy, Lifecycle::Ephemeral)).await.is_err());
    super::eventually(|| operator.stderr().contains("it is broken")).await;
}
