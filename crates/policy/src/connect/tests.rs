//! What may be called, judged through the policy as every call is, and the laws of the record.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use vocab::BoxFuture;

use crate::{
    Action, ActionKind, Approved, Catalog, CatalogTool, Connection, Connections, ConnectionsError, Connectors, Denial,
    Effect, FixedConnections, Lifecycle, Permit, Phase, Pinned, Policy, Reach, Review, Rules, SecretRule, Standing,
    Suspended, Unfit, Unreadable,
};

fn stdio(id: &str, name: &str) -> Connection {
    Connection {
        id: id.to_owned(),
        name: name.to_owned(),
        enabled: true,
        reach: Reach::Stdio { command: "server".to_owned(), args: vec!["--stdio".to_owned()] },
        lifecycle: Lifecycle::Ephemeral,
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
    renewed.map_err(|denial| denial.blockers().iter().map(|blocker| &*blocker.code).collect::<Vec<_>>().join(" "))
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
        assert_eq!(denial.as_ref().map(|denial| &*denial.blockers()[0].code), code);
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

#[test]
fn a_provider_is_named_by_its_id_or_by_a_name_of_its_own() {
    let mut record = Connections::default();
    for one in [stdio("a", "b"), stdio("b", "Twin"), stdio("c", "twin"), stdio("d", "Größe")] {
        record.put(one).unwrap();
    }
    record.enable("c", false).unwrap();
    let record = record.with_mods([modification("Twine", "x"), modification("GRÖßE", "x")]);
    for (provider, id) in [
        ("a", Some("a")),
        ("b", Some("b")),
        ("B", Some("a")),
        ("twin", None),
        ("TWIN", None),
        ("c", Some("c")),
        ("größe", None),
        ("mod.Twine", Some("mod.Twine")),
        ("mod.twine", None),
        ("tWine", Some("mod.Twine")),
        ("", None),
        ("a ", None),
    ] {
        assert_eq!(record.select(provider).map(|one| one.id.as_str()), id, "{provider:?}");
    }
}

#[test]
fn only_a_mod_joins_as_one() {
    let mut record = Connections::default();
    record.put(stdio("c1", "Echo")).unwrap();
    let package = Reach::Mod { package: "x".to_owned() };
    let mods = [
        Connection { reach: package.clone(), ..stdio("c1", "Echo") },
        Connection { reach: package, ..stdio("c2", "Other") },
        stdio("mod.a", "a"),
        modification("b", "x"),
        modification("b", "y"),
    ];
    let joined = record.with_mods(mods);
    assert_eq!(joined.all(), [stdio("c1", "Echo"), modification("b", "x")]);
    assert!(Connections::parse(Some(&joined.to_text())).is_err(), "a mod is never stored");
}

#[test]
fn a_connection_is_taken_only_as_it_can_be_used() {
    let with = |change: &dyn Fn(&mut Connection)| {
        let mut one = http("c1", "Echo", "https://a.example/mcp?x=a@b");
        change(&mut one);
        one
    };
    let secret =
        |name: &'static str| move |one: &mut Connection| drop(one.secrets.insert(name.to_owned(), "s".to_owned()));
    let url = |url: &'static str| move |one: &mut Connection| one.reach = Reach::Http { url: url.to_owned() };
    let run = |word: &'static str| {
        move |one: &mut Connection| one.reach = Reach::Stdio { command: word.to_owned(), args: vec![word.to_owned()] }
    };
    let rule = |tool: &'static str, pointer: &'static str| {
        move |one: &mut Connection| {
            one.secret_rules = vec![SecretRule { tool: tool.to_owned(), pointers: vec![pointer.to_owned()] }];
        }
    };
    for (one, fault) in [
        (with(&|_| {}), None),
        (with(&|one| one.id = "A-b_9".to_owned()), None),
        (with(&|one| one.id = "i".repeat(64)), None),
        (with(&|one| one.id = "i".repeat(65)), Some(Unfit::Id)),
        (with(&|one| one.id = String::new()), Some(Unfit::Id)),
        (with(&|one| one.id = "mod.a".to_owned()), Some(Unfit::Id)),
        (with(&|one| one.name = "Größe (2)".to_owned()), None),
        (with(&|one| one.name = "a ".to_owned()), Some(Unfit::Name)),
        (with(&|one| one.name = "a\nb".to_owned()), Some(Unfit::Name)),
        (with(&|one| one.name = "Mod.a".to_owned()), Some(Unfit::Name)),
        (with(&|one| one.name = "<b>".to_owned()), Some(Unfit::Name)),
        (with(&url("http://127.0.0.1:80")), None),
        (with(&url("https://")), Some(Unfit::Address)),
        (with(&url("https:///a")), Some(Unfit::Address)),
        (with(&url("ftp://a")), Some(Unfit::Address)),
        (with(&url("https://a b")), Some(Unfit::Address)),
        (with(&url("https://a#b")), Some(Unfit::Address)),
        (with(&url("https://u:p@a.example")), Some(Unfit::Credential)),
        (with(&url("https:///u:p@a.example")), Some(Unfit::Credential)),
        (with(&run("server")), None),
        (with(&run("")), Some(Unfit::Command)),
        (with(&run("a\0b")), Some(Unfit::Command)),
        (with(&|one| one.reach = modification("a", "x").reach), Some(Unfit::Mod)),
        (with(&secret("bearer")), None),
        (with(&secret("env.KEY")), Some(Unfit::Secret)),
        (Connection { reach: stdio("c1", "a").reach, ..with(&secret("env.KEY_2")) }, None),
        (Connection { reach: stdio("c1", "a").reach, ..with(&secret("bearer")) }, Some(Unfit::Secret)),
        (Connection { reach: stdio("c1", "a").reach, ..with(&secret("env.2KEY")) }, Some(Unfit::Secret)),
        (Connection { reach: stdio("c1", "a").reach, ..with(&secret("env.A=B")) }, Some(Unfit::Secret)),
        (with(&rule("get", "/a/0")), None),
        (with(&rule("get", "")), None),
        (with(&rule("get", "a")), Some(Unfit::Rule)),
        (with(&rule("", "/a")), Some(Unfit::Rule)),
        (with(&|one| one.resolver = Some("resolve".to_owned())), None),
        (with(&|one| one.resolver = Some(String::new())), Some(Unfit::Resolver)),
    ] {
        let (mut record, what) = (Connections::default(), format!("{one:?}"));
        let put = record.put(one.clone());
        let refused = fault.map(|fault| ConnectionsError::Unfit { name: one.name.clone(), fault });
        assert_eq!(put.err(), refused, "{what}");
        assert_eq!(record.all().len(), usize::from(fault.is_none()), "{what}");
        // What is not taken is not read either.
        let stored = json!({"version": 1, "connections": [one], "grants": []}).to_string();
        assert_eq!(Connections::parse(Some(&stored)).is_ok(), fault.is_none(), "{what}");
    }
}

#[test]
fn a_change_that_names_nothing_changes_nothing() {
    let (mut record, connection) = (Connections::default(), stdio("c1", "Echo"));
    record.put(connection.clone()).unwrap();
    let broken = CatalogTool { unusable: Some("it has no input schema".to_owned()), ..tool("broken", 2) };
    let catalog = Catalog::new(vec![tool("echo", 1), broken]);
    let before = record.clone();
    let text = str::to_owned;
    let missing = ConnectionsError::Tool { connection: text("Echo"), tool: text("ECHO") };
    let unusable = ConnectionsError::Unusable { tool: text("broken"), why: text("it has no input schema") };
    assert_eq!(record.grant("triage", &connection, "ECHO", &catalog), Err(missing));
    assert_eq!(record.grant("triage", &connection, "broken", &catalog), Err(unusable));
    assert_eq!(record.grant("", &connection, "echo", &catalog), Err(ConnectionsError::Agent(String::new())));
    let [agent, of, tool] = ["triage", "c1", "echo"].map(text);
    let not_granted = ConnectionsError::NotGranted { agent, connection: of, tool };
    assert_eq!(not_granted.to_string(), "`triage` has no grant for `echo` of `c1`");
    assert_eq!(record.revoke("triage", "c1", "echo"), Err(not_granted));
    assert_eq!(record.enable("c2", false), Err(ConnectionsError::Selected(text("c2"))));
    assert_eq!(record.remove("c2"), Err(ConnectionsError::Selected(text("c2"))));
    assert_eq!(record, before);
}

#[test]
fn a_stored_record_is_whole_or_none() {
    let (mut record, connection) = (Connections::default(), stdio("c1", "Echo"));
    record.put(connection.clone()).unwrap();
    record.grant("triage", &connection, "echo", &Catalog::new(vec![tool("echo", 1)])).unwrap();
    let whole: Value = serde_json::from_str(&record.to_text()).unwrap();
    let parse = |change: &dyn Fn(&mut Value)| {
        let mut changed = whole.clone();
        change(&mut changed);
        Connections::parse(Some(&changed.to_string())).map_err(|error| error.why().to_owned())
    };
    assert_eq!(parse(&|_| {}), Ok(record));
    assert_eq!(Connections::parse(None), Ok(Connections::default()));
    let prefix = "the stored connections are not valid: ";
    for (change, why) in [
        (
            (&|all: &mut Value| all["version"] = json!(2)) as &dyn Fn(&mut Value),
            "it has the version 2, and 1 is the one that is known here",
        ),
        (
            &|all| *all = json!({"version": 2, "servers": {}}),
            "it has the version 2, and 1 is the one that is known here",
        ),
        (&|all| all["more"] = json!(1), "unknown field `more`"),
        (&|all| all["connections"][0]["more"] = json!(1), "unknown field `more`"),
        (&|all| all["connections"][0]["reach"]["more"] = json!(1), "unknown field `more`"),
        (&|all| all["connections"][0]["reach"]["transport"] = json!("pipe"), "unknown variant `pipe`"),
        (&|all| all["connections"][0]["enabled"] = json!("yes"), "invalid type"),
        (&|all| all["connections"][0]["id"] = json!("a b"), "connections.0 has an id that is none"),
        (
            &|all| all["connections"] = json!([all["connections"][0], all["connections"][0]]),
            "connections.1 has an id that stands twice",
        ),
        (&|all| all["grants"] = json!([all["grants"][0], all["grants"][0]]), "grants.1 stands twice"),
        (&|all| all["grants"][0]["pinned"]["agent"] = json!(""), "grants.0 names nothing"),
        (&|all| all["grants"][0]["pinned"]["definition"] = json!("A5".repeat(32)), "grants.0 names nothing"),
        (&|all| all["grants"][0]["pinned"]["settings"] = json!("a5"), "grants.0 names nothing"),
        (&|all| all["grants"][0]["suspended"] = json!("maybe"), "unknown variant `maybe`"),
        (&|all| *all = json!([]), "invalid length 0"),
    ] {
        let error = parse(change).unwrap_err();
        assert!(error.starts_with(&format!("{prefix}{why}")), "{error} | {why}");
    }
    for text in ["", "{", "null", "1", "[]", "{}", r#"{"version":1}"#] {
        assert!(Connections::parse(Some(text)).is_err() && Catalog::parse(Some(text)).is_err(), "{text}");
    }
}

#[test]
fn a_catalog_can_be_read_back_whatever_its_server_says() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"properties": inner}));
    let deep = |levels| CatalogTool { input_schema: nested(levels), ..tool("deep", 1) };
    let refused = CatalogTool { unusable: Some("it has no name".to_owned()), ..tool("", 2) };
    let catalog = Catalog::new(vec![tool("echo", 1), deep(60), refused.clone(), refused]);
    assert_eq!(catalog.find("deep").unwrap().unusable, None);
    assert_eq!(Catalog::parse(Some(&catalog.to_text())), Ok(catalog));
    let catalog = Catalog::new(vec![deep(500)]);
    assert_eq!(catalog.find("deep").unwrap().unusable.as_deref(), Some("its input schema is nested too deeply"));
    assert_eq!(Catalog::parse(Some(&catalog.to_text())), Ok(catalog));
    assert_eq!(Catalog::parse(None), Ok(Catalog::new(Vec::new())));
    let twice = Catalog::new(vec![tool("a", 1), tool("a", 2)]).to_text();
    let no_digest = Catalog::new(vec![CatalogTool { definition: "1".to_owned(), ..tool("a", 1) }]).to_text();
    let newer = r#"{"version":2,"tools":{}}"#;
    let errors = [&twice, &no_digest, newer].map(|text| Catalog::parse(Some(text)).unwrap_err().why().to_owned());
    let why = "a stored catalog of tools is not valid: ";
    assert_eq!(
        errors,
        [
            format!("{why}tools.1 has a name that is none, or stands twice"),
            format!("{why}tools.0 has a definition that is none"),
            format!("{why}it has the version 2, and 1 is the one that is known here"),
        ]
    );
}

#[test]
fn a_grant_for_a_tool_that_went_away_holds_when_it_comes_back_as_it_was() {
    let (mut record, connection) = (Connections::default(), stdio("c1", "Echo"));
    let [with, without] = [Catalog::new(vec![tool("echo", 1)]), Catalog::default()];
    record.put(connection.clone()).unwrap();
    record.grant("triage", &connection, "echo", &with).unwrap();
    assert_eq!(record.compare("c1", &without), 0);
    let standing =
        |record: &Connections, catalog: &Catalog| Standing::of("triage", &connection, "echo", (record, catalog));
    assert_eq!(standing(&record, &without), Standing::ToolNotFound);
    assert_eq!(standing(&record, &with), Standing::Granted);
    assert_eq!(record.compare("c1", &Catalog::new(vec![tool("echo", 2)])), 1);
    assert_eq!(record.grants()[0].suspended, Some(Suspended::Definition));
    assert_eq!(standing(&record, &with), Standing::ToolChanged);
}

/// What an operator or a server does.
#[derive(Debug, Clone)]
enum Step {
    Grant(u8, u8),
    Revoke(u8, u8),
    /// The server's tool gets this definition, and somebody looks.
    Offer(u8, u8),
    /// The connection gets this command.
    Put(u8),
    Enable(bool),
    /// Somebody met a definition that was not the granted one.
    Suspend(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_u8, 0..2_u8).prop_map(|(agent, tool)| Step::Grant(agent, tool)),
        1 => (0..2_u8, 0..2_u8).prop_map(|(agent, tool)| Step::Revoke(agent, tool)),
        2 => (0..2_u8, 0..3_u8).prop_map(|(tool, number)| Step::Offer(tool, number)),
        1 => (0..2_u8).prop_map(Step::Put),
        1 => any::<bool>().prop_map(Step::Enable),
        1 => (0..2_u8, 0..2_u8).prop_map(|(agent, tool)| Step::Suspend(agent, tool)),
    ]
}

fn agent(number: u8) -> String {
    format!("agent{number}")
}

fn at(number: u8) -> Connection {
    Connection { reach: Reach::Stdio { command: format!("server{number}"), args: Vec::new() }, ..stdio("c1", "Echo") }
}

proptest! {
    /// A call is allowed exactly while everything has stayed, since the grant was given, as it was then.
    #[test]
    fn a_grant_holds_until_anything_under_it_changes(steps in prop::collection::vec(step(), 1..40)) {
        let (mut record, mut command, mut is_enabled) = (Connections::default(), 0, true);
        let mut offered = [0_u8, 0];
        let catalog = |offered: [u8; 2]| Catalog::new(vec![tool("tool0", offered[0]), tool("tool1", offered[1])]);
        // Who has a grant, and whether it still holds.
        let mut model: HashMap<(u8, u8), bool> = HashMap::new();
        record.put(at(0)).unwrap();
        for step in steps {
            let now = record.select("c1").unwrap().clone();
            match step {
                Step::Grant(who, what) => {
                    record.grant(&agent(who), &now, &format!("tool{what}"), &catalog(offered)).unwrap();
                    model.insert((who, what), true);
                }
                Step::Revoke(who, what) => {
                    let revoked = record.revoke(&agent(who), "c1", &format!("tool{what}"));
                    prop_assert_eq!(revoked.is_ok(), model.remove(&(who, what)).is_some());
                }
                Step::Offer(what, number) => {
                    let is_other = offered[usize::from(what)] != number;
                    offered[usize::from(what)] = number;
                    let held = model.iter_mut().filter(|((_, tool), holds)| *tool == what && is_other && **holds);
                    let suspended = held.map(|(_, holds)| *holds = false).count();
                    prop_assert_eq!(record.compare("c1", &catalog(offered)), suspended);
                }
                Step::Put(number) => {
                    record.put(Connection { enabled: is_enabled, ..at(number) }).unwrap();
                    if number != command {
                        model.values_mut().for_each(|holds| *holds = false);
                    }
                    command = number;
                }
                Step::Enable(on) => {
                    record.enable("echo", on).unwrap();
                    is_enabled = on;
                }
                Step::Suspend(who, what) => {
                    let pinned = record.grant_of(&agent(who), "c1", &format!("tool{what}")).map(|one| one.pinned.clone());
                    let held = model.get_mut(&(who, what)).is_some_and(|holds| std::mem::replace(holds, false));
                    prop_assert_eq!(pinned.is_some_and(|pinned| record.suspend(&pinned)), held);
                }
            }
            prop_assert_eq!(Connections::parse(Some(&record.to_text())), Ok(record.clone()));
            let now = record.select("c1").unwrap();
            for (who, what) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let expected = match model.get(&(who, what)) {
                    _ if !is_enabled => Standing::ProviderNotAvailable,
                    None => Standing::ToolNotGranted,
                    Some(true) => Standing::Granted,
                    Some(false) => Standing::ToolChanged,
                };
                let standing = Standing::of(&agent(who), now, &format!("tool{what}"), (&record, &catalog(offered)));
                prop_assert_eq!(standing, expected, "{} {}", who, what);
            }
        }
    }

    /// Whatever is read is stored the same, and nothing makes the reader fall over.
    #[test]
    fn what_is_read_is_what_was_stored(at in any::<prop::sample::Index>(), byte in any::<u8>(), any in ".{0,40}") {
        let (mut record, connection) = (Connections::default(), stdio("c1", "Echo"));
        let catalog = Catalog::new(vec![tool("echo", 1), tool("other", 2)]);
        record.put(connection.clone()).unwrap();
        record.grant("triage", &connection, "echo", &catalog).unwrap();
        for text in [record.to_text(), catalog.to_text()] {
            let mut bytes = text.into_bytes();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            for text in [String::from_utf8_lossy(&bytes).into_owned(), any.clone()] {
                if let Ok(read) = Connections::parse(Some(&text)) {
                    prop_assert_eq!(Connections::parse(Some(&read.to_text())), Ok(read));
                }
                if let Ok(read) = Catalog::parse(Some(&text)) {
                    prop_assert_eq!(Catalog::parse(Some(&read.to_text())), Ok(read));
                }
            }
        }
    }

    /// Settings are the way to a server and what it is given, and nothing else.
    #[test]
    fn settings_are_what_a_server_is_reached_by(one in 0..3_u8, other in 0..3_u8, given in "[a-z]{0,2}", also in "[a-z]{0,2}") {
        let with = |number, value: &str| {
            let mut connection = at(number);
            connection.secrets.insert("env.KEY".to_owned(), value.to_owned());
            connection
        };
        let (first, second) = (with(one, &given), with(other, &also));
        prop_assert_eq!(first.settings() == second.settings(), (one, &given) == (other, &also));
        let renamed = Connection {
            name: "Other".to_owned(), enabled: false, lifecycle: Lifecycle::KeepAlive, ..first.clone()
        };
        prop_assert_eq!(renamed.settings(), first.settings());
    }
}
