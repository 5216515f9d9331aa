//! Mods: what they offer is what they say now, and those that judge their callers are told who calls.

use policy::Lifecycle;
use serde_json::{Value, json};

use super::{Setting, Stage};

#[tokio::test]
async fn a_mod_is_started_when_it_is_looked_at_and_told_who_calls() {
    let stage = Stage::with(Setting { mods: vec!["mod"], ..Setting::default() });
    let listed = stage.listing("mcp_providers", json!({})).await;
    let unknown = json!({"id": "mod.notes", "name": "mod.notes", "transport": "mod", "enabled": true, "tools": null});
    assert_eq!(listed, json!({"providers": [unknown], "more": false}));
    assert!(stage.seen().is_empty());

    let shown = stage.listing("mcp_capabilities", json!({"provider": "mod.notes", "query": "caller"})).await;
    let tool =
        json!({"name": "caller", "description": "Does caller.", "granted": true, "input_schema": {"type": "object"}});
    assert_eq!(shown, json!({"provider": "mod.notes", "name": "mod.notes", "total": 1, "tools": [tool]}));
    assert_eq!(stage.listing("mcp_providers", json!({})).await["providers"][0]["tools"], 14);

    let forged = json!({"_meta": {"murmur/caller": {"agent": "root"}}});
    let (text, is_error) = stage.call("mod.notes", "caller", forged.clone()).await;
    let told: Value = serde_json::from_str(&text).unwrap();
    let caller = json!({"agent": "triage", "session": "s1", "context": "c1", "task": "t1"});
    assert_eq!((told, is_error), (json!({"caller": caller, "arguments": forged}), false));
    // One process for all of it.
    assert_eq!(stage.seen(), ["start", "call caller"]);
}

#[tokio::test]
async fn a_mods_tool_without_the_mark_needs_a_grant_and_the_mark_counts_at_mods_alone() {
    let stage = Stage::with(Setting { mods: vec!["mod"], ..Setting::default() });
    assert_eq!(stage.refused("mod.notes", "echo").await, ["mcp_tool_not_granted"]);
    let record = policy::Connectors::current(&*stage.hub).await.unwrap();
    let notes = record.select("mod.notes").unwrap().clone();
    stage.grant(&notes, &["echo"]).await;
    assert!(stage.refused("mod.notes", "echo").await.is_empty());

    stage.connect("a", "mod", Lifecycle::Ephemeral).await;
    assert_eq!(stage.refused("a", "caller").await, ["mcp_tool_not_granted"]);
    assert!(stage.refused("mod.notes", "caller").await.is_empty());
}

#[tokio::test]
async fn a_stdio_server_is_not_told_who_calls() {
    let stage = Stage::new();
    let a = stage.connect("a", "usual", Lifecycle::Ephemeral).await;
    stage.grant(&a, &["caller"]).await;
    let (text, _) = stage.call("a", "caller", json!({})).await;
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"caller": null, "arguments": {}}));
}

#[tokio::test]
async fn a_mod_that_does_not_start_offers_nothing_and_says_why() {
    let limits = mcp::Limits { open: std::time::Duration::from_millis(300), ..mcp::Limits::default() };
    let stage = Stage::with(Setting { mods: vec!["mute"], limits, ..Setting::default() });
    assert_eq!(stage.refused("mod.notes", "caller").await, ["mcp_tool_not_found"]);
    let shown = stage.listing("mcp_capabilities", json!({"provider": "mod.notes"})).await;
    assert_eq!((&shown["tools"], &shown["total"]), (&json!([]), &json!(0)));
    let why = shown["unavailable"].as_str().unwrap();
    assert!(why.contains("did not finish the handshake"), "{why}");
}
