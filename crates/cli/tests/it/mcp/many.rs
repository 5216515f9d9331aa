//! Many connections with many tools: nothing is started that is not called, and people still can read the list.

use std::collections::BTreeMap;

use policy::{Catalog, CatalogTool, Connection, Lifecycle, Reach};
use serde_json::json;
use testkit::Turn;

use super::{
    add, call, mcp,
    operator::{change_record, in_store},
    seen, server, stage,
};

/// How many connections there are beside the one that is called.
const OTHERS: usize = 49;
/// How many tools one in seven of them has, and how many the others.
const MANY: usize = 1000;
const FEW: usize = 20;

/// Whether a connection is one of those with many.
fn has_many(number: usize) -> bool {
    number.is_multiple_of(7)
}

#[test]
fn fifty_connections_with_thousands_of_tools_start_nothing_that_is_not_called() {
    let stage = stage(vec![
        Turn::new().tool("mcp_providers", json!({})),
        Turn::new().tool("mcp_capabilities", json!({"provider": "number 7", "query": "tool 999"})),
        Turn::new().tool("mcp_capabilities", json!({"provider": "number 8"})),
        Turn::new().tool("mcp_call", json!({"provider": "number 7", "tool": "tool_1", "arguments": {}})),
        call("echo", json!({"text": "a"})),
    ]);
    add(&stage, "files", "usual");
    mcp(&stage, &["discover", "files"]);
    mcp(&stage, &["grant", "agent", "files", "echo"]);
    let command = server(&stage, "usual");
    let tool = |number: usize| CatalogTool {
        name: format!("tool_{number}"),
        description: format!("Is tool {number}."),
        input_schema: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        definition: format!("{number:064x}"),
        unusable: None,
        mod_authorized: false,
    };
    let catalogs = [FEW, MANY].map(|tools| Catalog::new((0..tools).map(tool).collect()));
    let connection = |number: usize| Connection {
        id: format!("c{number}"),
        name: format!("number {number}"),
        enabled: true,
        reach: Reach::Stdio { command: command[0].clone(), args: command[1..].to_vec() },
        lifecycle: Lifecycle::KeepAlive,
        variables: BTreeMap::new(),
        secrets: BTreeMap::new(),
        adapter: None,
        secret_rules: Vec::new(),
        resolver: None,
    };
    change_record(&stage, |record| (0..OTHERS).for_each(|number| record.put(connection(number)).unwrap()));
    in_store(&stage, async |store| {
        let change = store::Change { who: "a test", action: "mcp.add", detail: None };
        for number in 0..OTHERS {
            let catalog = &catalogs[usize::from(has_many(number))];
            assert_eq!(store.save_catalog(&change, &connection(number), catalog).await.unwrap(), 0);
            // A few tools of each to one agent, and many to another.
            for (agent, tools) in [("agent", 2..5), ("other", 0..20)] {
                let tools: Vec<String> = tools.map(|tool| format!("tool_{tool}")).collect();
                let id = format!("c{number}");
                store.grant::<super::operator::Refused>("a test", (agent, &id), &tools).await.unwrap();
            }
        }
    });
    let before = seen(&stage);
    stage.succeed();
    let results = stage.results();
    assert!(results[0].contains("\"number 48\"") && results[0].contains("\"files\""), "{}", results[0]);
    assert!(results[1].contains("tool_999"), "{}", results[1]);
    assert!(results[2].contains("tool_11") && !results[2].contains("tool_12\""), "{}", results[2]);
    assert!(results[3].contains("mcp_tool_not_granted"), "{}", results[3]);
    assert!(results[4].contains("you said a"), "{}", results[4]);
    let new = &seen(&stage)[before.len()..];
    assert_eq!(new, ["start", "call echo"], "one server, for the one call");

    let listed = mcp(&stage, &["list"]);
    let lines: Vec<&str> = listed.stdout().lines().collect();
    // Three of each connection and one for each agent that may call something of it.
    assert_eq!(lines.len(), 3 * (OTHERS + 1) + 2 * OTHERS + 1, "{}", listed.stdout());
    let other = "  other may call tool_0, tool_1, tool_2, tool_3, tool_4, tool_5, tool_6, tool_7 and 12 more";
    assert_eq!(lines.iter().filter(|line| **line == other).count(), OTHERS);
    assert_eq!(lines.iter().filter(|line| line.trim() == "1000 tools").count(), OTHERS / 7);
    let json = mcp(&stage, &["list", "--json"]).json();
    let all = json.as_array().unwrap();
    assert_eq!(all.len(), OTHERS + 1);
    // After the one that is called.
    assert_eq!(all[8]["tools"].as_array().unwrap().len(), MANY);
    assert_eq!(all[8]["granted_to"].as_array().unwrap().len(), 23);
    assert_eq!(
        all[8]["granted_to"][1],
        json!({"agent": "agent", "tool": "tool_3", "definition": format!("{:064x}", 3), "suspended": null})
    );
    assert_eq!(seen(&stage).len(), before.len() + 2, "a list starts nothing");
}
