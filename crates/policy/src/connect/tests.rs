//! What may be called, judged through the policy as every call is.

mod laws;
mod record;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use vocab::BoxFuture;

use crate::{
    Action, ActionKind, Approved, Catalog, CatalogTool, Connection, Connections, Connectors, Denial, Effect,
    FixedConnections, Lifecycle, Permit, Phase, Pinned, Policy, Reach, Review, Rules, Unreadable,
};

fn stdio(id: &str, name: &str) -> Connection {
    Connection {
        id: id.to_owned(),
        name: name.to_owned(),
        enabled: true,
        reach: Reach::Stdio { command: "server".to_owned(), args: vec!["--stdio".to_owned()] },
        lifecycle: Lifecycle::Ephemeral,
        variables: BTreeMap::new(),
        secrets: BTreeMap::new(),
        adapter: None,
        secret_rules: Vec::new(),
        resolver: None,
    }
}

fn http(id: &str, name: &str, url: &str) -> Connection {
    Connection { reach: Reach::Http { url: url.to_owned() }, ..stdio(id, name) }
}

fn modification(id: &str, package: &str) -> Connection {
    Connection { reach: Reach::Mod { package: package.to_owned() }, ..stdio(&format!("mod.{id}"), id) }
}

fn definition(number: u8) -> String {
    format!("{number:02x}").repeat(32)
}

fn tool(name: &str, number: u8) -> CatalogTool {
    CatalogTool {
        name: name.to_owned(),
        description: "Says it again.".to_owned(),
        input_schema: json!({"type": "object"}),
        definition: definition(number),
        unusable: None,
        mod_authorized: false,
    }
}

fn policy(source: &Arc<FixedConnections>) -> Policy {
    let source: Arc<dyn Connectors> = Arc::<FixedConnections>::clone(source);
    Policy::new(Rules::new("/srv/agent".into())).with_connectors("triage", source)
}

async fn review(policy: &Policy, provider: &str, tool: &str) -> Result<Approved, Denial> {
    let action = Action::new("call_1", "mcp_call", ActionKind::McpCall).with(Effect::connected(provider, tool));
    match policy.review(action).await {
        Review::Allowed(approved) => Ok(approved),
        Review::Denied(_, denial) => Err(denial),
    }
}

/// Both reviews of a call, and its one code when it is refused.
async fn call(policy: &Policy, provider: &str, tool: &str) -> Result<Permit, String> {
    let renewed = match review(policy, provider, tool).await {
        Ok(approved) => approved.renew().await,
        Err(denial) => Err(denial),
    };
    renewed.map_err(|denial| denial.blockers().iter().map(|blocker| blocker.code).collect::<Vec<_>>().join(" "))
}

/// What became of a grant.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    Never,
    Stands,
    Revoked,
    Suspended,
    Definition,
    Settings,
    OtherAgent,
    OtherConnection,
    GivenAgain,
}

const ALL: [Then; 9] = [
    Then::Never,
    Then::Stands,
    Then::Revoked,
    Then::Suspended,
    Then::Definition,
    Then::Settings,
    Then::OtherAgent,
    Then::OtherConnection,
    Then::GivenAgain,
];

/// The connection of a cell of the matrix, before and after a change of its settings.
fn versions(transport: &str) -> [Connection; 2] {
    match transport {
        "stdio" => {
            let other = Reach::Stdio { command: "server".to_owned(), args: Vec::new() };
            [stdio("c1", "Echo"), Connection { reach: other, ..stdio("c1", "Echo") }]
        }
        "http" => ["https://a.example/mcp", "https://b.example/mcp"].map(|url| http("c1", "Echo", url)),
        _ => ["one", "two"].map(|package| modification("Echo", package)),
    }
}

/// What holds after `then`, with the connection last.
fn cell(transport: &str, is_enabled: bool, is_marked: bool, then: Then) -> (Connections, Connection, Catalog) {
    let [first, second] = versions(transport).map(|one| Connection { enabled: is_enabled, ..one });
    let offer = |number| Catalog::new(vec![CatalogTool { mod_authorized: is_marked, ..tool("echo", number) }]);
    let mut record = Connections::default();
    let put = |record: &mut Connections, connection: &Connection| {
        if transport != "mod" {
            record.put(connection.clone()).unwrap();
        }
    };
    put(&mut record, &first);
    let twin = Connection { name: "Other".to_owned(), ..http("c2", "Other", "https://c.example") };
    record.put(twin.clone()).unwrap();
    let pinned = |agent: &str| Pinned {
        agent: agent.to_owned(),
        connection: first.id.clone(),
        tool: "echo".to_owned(),
        definition: definition(1),
        settings: first.settings(),
    };
    let (mut now, mut offered) = (first.clone(), offer(1));
    match then {
        Then::Never => {}
        Then::OtherAgent => record.grant("Triage", &first, "echo", &offered).unwrap(),
        Then::OtherConnection => record.grant("triage", &twin, "echo", &offered).unwrap(),
        _ => record.grant("triage", &first, "echo", &offered).unwrap(),
    }
    match then {
        Then::Revoked => record.revoke("triage", &first.id, "echo").unwrap(),
        Then::Suspended => assert!(record.suspend(&pinned("triage")) && !record.suspend(&pinned("triage"))),
        Then::Definition => offered = offer(2),
        Then::Settings => now = second,
        Then::GivenAgain => {
            assert_eq!(record.compare(&first.id, &offer(2)), 1);
            (now, offered) = (second, offer(2));
            put(&mut record, &now);
            record.grant("triage", &now, "echo", &offered).unwrap();
        }
        Then::Never | Then::Stands | Then::OtherAgent | Then::OtherConnection => {}
    }
    put(&mut record, &now);
    assert_eq!(Connections::parse(Some(&record.to_text())), Ok(record.clone()));
    (record, now, offered)
}

#[tokio::test]
async fn the_matrix_of_grants() {
    let mut allowed = 0;
    for transport in ["stdio", "http", "mod"] {
        for (is_enabled, is_marked, name) in [true, false]
            .into_iter()
            .flat_map(|on| [false, true].map(|mark| (on, mark)))
            .flat_map(|(on, mark)| ["echo", "Echo", "ech"].map(|name| (on, mark, name)))
        {
            for then in ALL {
                let (record, connection, offered) = cell(transport, is_enabled, is_marked, then);
                let source = Arc::new(FixedConnections::none());
                source.set(record.with_mods((transport == "mod").then(|| connection.clone())));
                source.offer(&connection.id, offered);
                let code = match then {
                    _ if !is_enabled => Some("mcp_provider_not_available"),
                    _ if name != "echo" => Some("mcp_tool_not_found"),
                    _ if is_marked && transport == "mod" => None,
                    Then::Stands | Then::GivenAgain => None,
                    Then::Never | Then::Revoked | Then::OtherAgent | Then::OtherConnection => {
                        Some("mcp_tool_not_granted")
                    }
                    Then::Suspended | Then::Definition | Then::Settings => Some("mcp_tool_changed"),
                };
                let policy = policy(&source);
                for provider in [connection.id.as_str(), "eCHO"] {
                    let permit = call(&policy, provider, name).await;
                    let what = format!("{transport} {is_enabled} {is_marked} {name} {then:?} {provider}");
                    assert_eq!(permit.as_ref().err().map(String::as_str), code, "{what}");
                    if let Ok(permit) = permit {
                        let cleared = permit.confirm_call().unwrap();
                        assert_eq!(
                            (cleared.connection(), cleared.tool(), cleared.agent()),
                            (&connection, "echo", "triage")
                        );
                        let number = if matches!(then, Then::Definition | Then::GivenAgain) { 2 } else { 1 };
                        assert_eq!(cleared.definition(), definition(number), "{what}");
                        allowed += 1;
                    }
                }
            }
        }
    }
    // Two of each transport without the mark; with it two, two, and every one of the mod: by each way to name it.
    assert_eq!(allowed, 2 * (2 * 3 + 2 + 2 + ALL.len()));
}

#[tokio::test]
async fn what_changes_between_the_two_reviews_counts() {
    let (connection, catalog) = (stdio("c1", "Echo"), Catalog::new(vec![tool("echo", 1)]));
    let granted = || {
        let mut record = Connections::default();
        record.put(connection.clone()).unwrap();
        record.grant("triage", &connection, "echo", &catalog).unwrap();
        record
    };
    type Change = fn(&mut Connections);
    let changes: [(Change, Option<&str>); 6] = [
        (|_| {}, None),
        (|record| record.revoke("triage", "c1", "echo").unwrap(), Some("mcp_tool_not_granted")),
        (|record| record.enable("echo", false).unwrap(), Some("mcp_provider_not_available")),
        (|record| drop(record.remove("c1").unwrap()), Some("mcp_provider_not_available")),
        (|record| record.put(http("c1", "Echo", "https://a.example")).unwrap(), Some("mcp_tool_changed")),
        (|record| record.put(stdio("c2", "ECHO")).unwrap(), Some("mcp_provider_not_available")),
    ];
    for (change, code) in changes {
        let source = Arc::new(FixedConnections::none());
        source.set(granted());
        source.offer("c1", catalog.clone());
        let approved = review(&policy(&source), "Echo", "echo").await.unwrap();
        let mut record = granted();
        change(&mut record);
        source.set(record);
        let denial = approved.renew().await.err();
        assert_eq!(denial.as_ref().map(|denial| denial.blockers()[0].code), code);
        assert!(denial.is_none_or(|denial| denial.phase() == Phase::Execute));
    }
}

#[tokio::test]
async fn a_tool_that_was_found_changed_stays_so() {
    let (source, connection) = (Arc::new(FixedConnections::none()), stdio("c1", "Echo"));
    let (catalog, mut record) = (Catalog::new(vec![tool("echo", 1)]), Connections::default());
    record.put(connection.clone()).unwrap();
    record.grant("triage", &connection, "echo", &catalog).unwrap();
    source.set(record.clone());
    source.offer("c1", catalog.clone());
    let policy = policy(&source);
    let permit = call(&policy, "c1", "echo").await.unwrap();
    source.suspend(&permit.confirm_call().unwrap().pinned()).await.unwrap();
    assert_eq!(call(&policy, "c1", "echo").await.err().as_deref(), Some("mcp_tool_changed"));
    assert_eq!(permit.changed().blockers()[0].code, "mcp_tool_changed");
    record.grant("triage", &connection, "echo", &catalog).unwrap();
    source.set(record);
    assert!(call(&policy, "c1", "echo").await.is_ok());
}

#[derive(Debug)]
struct Broken {
    is_record: bool,
}

impl Connectors for Broken {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Connections>, Unreadable>> {
        let mut record = Connections::default();
        record.put(stdio("c1", "Echo")).unwrap();
        let now = if self.is_record { Err(Unreadable::new("gone")) } else { Ok(Arc::new(record)) };
        Box::pin(std::future::ready(now))
    }

    fn catalog<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Arc<Catalog>, Unreadable>> {
        Box::pin(std::future::ready(Err(Unreadable::new("gone"))))
    }

    fn suspend<'a>(&'a self, _: &'a Pinned) -> BoxFuture<'a, Result<(), Unreadable>> {
        Box::pin(std::future::ready(Err(Unreadable::new("gone"))))
    }
}

#[tokio::test]
async fn what_cannot_be_read_blocks_calls_and_nothing_else() {
    for is_record in [true, false] {
        let broken = Arc::new(Broken { is_record });
        let policy = Policy::new(Rules::new("/srv/agent".into())).with_connectors("triage", broken);
        let code = call(&policy, "c1", "echo").await.err();
        assert_eq!(code.as_deref(), Some("hard_policy_block:boundaries_unreadable"));
        let read = Action::new("call_1", "files_read", ActionKind::FilesRead)
            .with(Effect::path(crate::Operation::Read, "/srv/agent/a"));
        assert!(matches!(policy.review(read).await, Review::Allowed(_)));
    }
}
