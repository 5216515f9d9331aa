//! The record and the catalogs: what may stand in them, what is read, and what a change does.

use serde_json::{Value, json};

use super::{http, modification, stdio, tool};
use crate::{
    Catalog, CatalogTool, Connection, Connections, ConnectionsError, Reach, SecretRule, Standing, Suspended, Unfit,
};

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
    let variable = |name: &'static str, value: &'static str| {
        move |one: &mut Connection| drop(one.variables.insert(name.to_owned(), value.to_owned()))
    };
    let run_with = |name, value| Connection { reach: stdio("c1", "a").reach, ..with(&variable(name, value)) };
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
        (run_with("LOG_LEVEL", "debug"), None),
        (run_with("LOG_LEVEL", ""), None),
        (with(&variable("LOG_LEVEL", "debug")), Some(Unfit::Variable)),
        (run_with("A=B", "c"), Some(Unfit::Variable)),
        (run_with("A", "b\0c"), Some(Unfit::Variable)),
        (Connection { secrets: with(&secret("env.A")).secrets, ..run_with("B", "c") }, None),
        (Connection { secrets: with(&secret("env.A")).secrets, ..run_with("A", "c") }, Some(Unfit::Variable)),
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
