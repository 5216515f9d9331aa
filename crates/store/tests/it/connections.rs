//! Connections, grants and catalogs as a session sees them and as an operator changes them, on both engines.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ::store::{
    Change, Edit, Expected, LogEntry, MAX_DOCUMENT, MCP_CONNECTIONS, Seal, Store, StoreError, StoredConnectors, Version,
};
use policy::{
    Catalog, CatalogTool, Connection, Connections, ConnectionsError, Connectors as _, Lifecycle, Reach, Standing,
    Suspended,
};
use secrets::Secret;
use tempfile::TempDir;

use crate::crash::config;
use crate::stage::{CHANGE, KEY, NOON_TEXT, Noon, Stage, on_both};

const ADD: Change<'static> = Change { who: "ann@laptop", action: "mcp.add", detail: Some("c1") };
const SESSION: &str = "session s1@laptop";
/// Names the store that a helper below works on.
const PLACE: &str = "MUR_TEST_STORE_CONNECTIONS";
/// How often a helper does its work.
const MANY: usize = 40;

/// What an edit may fail with.
#[derive(Debug)]
enum Refused {
    Store(StoreError),
    Record(ConnectionsError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ConnectionsError> for Refused {
    fn from(error: ConnectionsError) -> Self {
        Self::Record(error)
    }
}

fn at(id: &str, url: &str) -> Connection {
    Connection {
        id: id.to_owned(),
        name: "Tickets".to_owned(),
        enabled: true,
        reach: Reach::Http { url: url.to_owned() },
        lifecycle: Lifecycle::Ephemeral,
        variables: BTreeMap::new(),
        secrets: BTreeMap::new(),
        adapter: None,
        secret_rules: Vec::new(),
        resolver: None,
    }
}

fn connection(id: &str) -> Connection {
    at(id, "https://tickets.example/mcp")
}

fn catalog(tools: &[(&str, u8)]) -> Catalog {
    let tool = |(name, number): &(&str, u8)| CatalogTool {
        name: (*name).to_owned(),
        description: String::new(),
        input_schema: serde_json::json!({"type": "object"}),
        definition: format!("{number:02x}").repeat(32),
        unusable: None,
        mod_authorized: false,
    };
    Catalog::new(tools.iter().map(tool).collect())
}

async fn put(store: &Store, connection: Connection) {
    store.update_connections(&ADD, |record| Ok::<_, Refused>(record.put(connection)?)).await.unwrap();
}

async fn grant(store: &Store, id: &str, agent: &str, tool: &str) -> Result<(), Refused> {
    store.grant(ADD.who, (agent, id), &[tool.to_owned()]).await.map(drop)
}

async fn discover(store: &Store, id: &str, tools: &[(&str, u8)]) -> Result<usize, StoreError> {
    let looked_at = store.connections().await?.select(id).cloned().unwrap_or_else(|| connection(id));
    store.save_catalog(&Change { action: "mcp.discover", ..ADD }, &looked_at, &catalog(tools)).await
}

/// A store with the connection `c1`, which offers `search`, granted to `triage`.
async fn granted(stage: &Stage) -> Arc<Store> {
    let store = stage.store().await;
    put(&store, connection("c1")).await;
    assert_eq!(discover(&store, "c1", &[("search", 1)]).await.unwrap(), 0);
    grant(&store, "c1", "triage", "search").await.unwrap();
    store
}

/// How `triage` stands to `search` of `c1`, as a session sees it; `None` when there is no such connection.
async fn standing(session: &StoredConnectors) -> Option<Standing> {
    let (record, offered) = (session.current().await.unwrap(), session.catalog("c1").await.unwrap());
    record.select("c1").map(|one| Standing::of("triage", one, "search", (&record, &offered)))
}

/// What an operator does.
enum Step {
    Put(Connection),
    Discover(&'static [(&'static str, u8)]),
    Grant,
    Revoke,
    Enable(bool),
    Remove,
}

async fn take(store: &Store, step: Step) {
    let edit = match step {
        Step::Grant => return grant(store, "c1", "triage", "search").await.unwrap(),
        Step::Discover(tools) => {
            discover(store, "c1", tools).await.unwrap();
            return;
        }
        Step::Put(connection) => return put(store, connection).await,
        Step::Revoke => |record: &mut Connections| record.revoke("triage", "c1", "search"),
        Step::Enable(true) => |record: &mut Connections| record.enable("tickets", true),
        Step::Enable(false) => |record: &mut Connections| record.enable("c1", false),
        Step::Remove => |record: &mut Connections| record.remove("c1").map(drop),
    };
    store.update_connections(&ADD, |record| Ok::<_, Refused>(edit(record)?)).await.unwrap();
}

on_both! {
    async fn every_change_shows_at_the_next_call(stage) {
        let (session, operator) = (StoredConnectors::new(stage.store().await, SESSION), stage.store().await);
        assert_eq!(standing(&session).await, None);
        for (number, (step, expected)) in [
            (Step::Put(connection("c1")), Some(Standing::ToolNotFound)),
            (Step::Discover(&[("search", 1)]), Some(Standing::ToolNotGranted)),
            (Step::Grant, Some(Standing::Granted)),
            (Step::Enable(false), Some(Standing::ProviderNotAvailable)),
            (Step::Enable(true), Some(Standing::Granted)),
            (Step::Revoke, Some(Standing::ToolNotGranted)),
            (Step::Grant, Some(Standing::Granted)),
            (Step::Discover(&[("other", 1)]), Some(Standing::ToolNotFound)),
            (Step::Discover(&[("search", 1), ("other", 1)]), Some(Standing::Granted)),
            (Step::Discover(&[("search", 2)]), Some(Standing::ToolChanged)),
            (Step::Discover(&[("search", 1)]), Some(Standing::ToolChanged)),
            (Step::Grant, Some(Standing::Granted)),
            (Step::Put(at("c1", "https://elsewhere.example")), Some(Standing::ToolChanged)),
            (Step::Put(connection("c1")), Some(Standing::ToolChanged)),
            (Step::Discover(&[("search", 1)]), Some(Standing::ToolChanged)),
            (Step::Grant, Some(Standing::Granted)),
            (Step::Remove, None),
            (Step::Put(connection("c1")), Some(Standing::ToolNotFound)),
        ].into_iter().enumerate() {
            take(&operator, step).await;
            assert_eq!(standing(&session).await, expected, "step {number}");
        }
    }

    async fn a_catalog_goes_with_the_connection_that_it_was_of(stage) {
        let store = granted(stage).await;
        put(&store, connection("c2")).await;
        discover(&store, "c2", &[("search", 1)]).await.unwrap();
        // A name or a switch is not what it is reached by.
        put(&store, Connection { name: "Issues".to_owned(), enabled: false, ..connection("c1") }).await;
        assert_eq!(store.catalog("c1").await.unwrap(), catalog(&[("search", 1)]));
        put(&store, at("c1", "https://elsewhere.example")).await;
        assert_eq!(store.catalog("c1").await.unwrap(), Catalog::default());
        let removed = store.update_connections(&ADD, |record| Ok::<_, Refused>(record.remove("c2")?)).await.unwrap();
        assert_eq!((removed, store.catalog("c2").await.unwrap()), (connection("c2"), Catalog::default()));
        assert_eq!(store.document("mcp_catalog.c2").await.unwrap(), None);
    }

    async fn what_a_session_finds_changed_is_noted_once(stage) {
        let operator = granted(stage).await;
        let sessions = [SESSION, "session s2@server"];
        let mut all = Vec::new();
        for who in sessions {
            all.push(StoredConnectors::new(stage.store().await, who));
        }
        let pinned = all[0].current().await.unwrap().grants()[0].pinned.clone();
        let before = operator.version().await.unwrap();
        let other = policy::Pinned { definition: "02".repeat(32), ..pinned.clone() };
        all[0].suspend(&other).await.unwrap();
        assert_eq!(operator.version().await.unwrap(), before, "a grant that was given anew is not the one of before");
        let (first, second) = tokio::join!(all[0].suspend(&pinned), all[1].suspend(&pinned));
        first.unwrap();
        second.unwrap();
        all[0].suspend(&pinned).await.unwrap();
        assert_eq!(operator.connections().await.unwrap().grants()[0].suspended, Some(Suspended::Definition));
        for session in &all {
            assert_eq!(standing(session).await, Some(Standing::ToolChanged));
        }
        let log = operator.log(MCP_CONNECTIONS, None, 10).await.unwrap();
        assert_eq!(log.len(), 3);
        assert!(sessions.contains(&&*log[0].who));
        assert_eq!((&*log[0].action, log[0].detail.as_deref()), ("mcp.suspend", Some("triage c1 search")));
    }

    async fn looking_and_noting_make_no_store(stage) {
        let store = stage.store().await;
        let session = StoredConnectors::new(Arc::clone(&store), SESSION);
        let digest = "01".repeat(32);
        let pinned = policy::Pinned {
            agent: "triage".to_owned(),
            connection: "c1".to_owned(),
            tool: "search".to_owned(),
            definition: digest.clone(),
            settings: digest,
        };
        session.suspend(&pinned).await.unwrap();
        assert_eq!((standing(&session).await, store.connections().await.unwrap()), (None, Connections::default()));
        assert_eq!((store.catalog("c1").await.unwrap(), store.mcp_log(None, 10).await.unwrap()), (Catalog::default(), vec![]));
        assert_eq!(store.version().await.unwrap(), Version::default());
        if let Stage::Sqlite(home) = stage {
            assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
        }
    }

    async fn edits_at_once_lose_none(stage) {
        granted(stage).await;
        let stores = [stage.store().await, stage.store().await];
        let edits: Vec<_> = (0..40)
            .map(|number| {
                let store = Arc::clone(&stores[number % 2]);
                tokio::spawn(async move {
                    match number % 4 {
                        3 => discover(&store, "c1", &[("search", 1), (&format!("tool{number}"), 1)]).await.map(drop).unwrap(),
                        _ => grant(&store, "c1", &format!("agent{number}"), "search").await.unwrap(),
                    }
                })
            })
            .collect();
        for edit in edits {
            edit.await.unwrap();
        }
        let record = stores[0].connections().await.unwrap();
        let agents: BTreeSet<_> = record.grants().iter().map(|grant| grant.pinned.agent.clone()).collect();
        let expected = (0..40).filter(|number| number % 4 != 3).map(|number| format!("agent{number}"));
        assert_eq!(agents, expected.chain(["triage".to_owned()]).collect());
        let log = stores[1].mcp_log(None, 100).await.unwrap();
        // Each grant of its own, the connection, its first catalog, and ten others.
        assert_eq!(log.len(), 31 + 1 + 1 + 10);
    }

    async fn a_grant_pins_what_is_stored_at_its_moment_and_says_so_in_the_log(stage) {
        let store = granted(stage).await;
        let mut definitions = BTreeMap::new();
        for number in [2, 1] {
            discover(&store, "c1", &[("search", number)]).await.unwrap();
            let digest = store.document("mcp_catalog.c1").await.unwrap().unwrap().digest;
            definitions.insert(digest, store.catalog("c1").await.unwrap().tools[0].definition.clone());
        }
        let helpers: Vec<_> = ["looks", "grants"].iter().map(|what| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &format!("connections::{what}"), "--ignored"])
                .env(PLACE, stage.place())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        }).collect();
        for mut helper in helpers {
            assert!(helper.wait().unwrap().success());
        }
        let (mut now, mut grants) = (None, 0);
        for row in store.mcp_log(None, 1000).await.unwrap().into_iter().rev() {
            if row.subject == "mcp_catalog.c1" {
                now = row.after.and_then(|digest| definitions.get(&digest).cloned());
            } else if row.action == "mcp.grant" {
                let (detail, now) = (row.detail.unwrap(), now.as_ref().unwrap());
                assert!(detail.ends_with(&format!(" c1 search={now}")), "{detail}: {now}");
                grants += 1;
            }
        }
        assert_eq!(grants, 1 + MANY);
    }

    async fn several_tools_are_granted_together_or_none_is(stage) {
        let store = stage.store().await;
        put(&store, connection("c1")).await;
        let tools = |names: [&str; 2]| names.map(str::to_owned);
        let give = async |provider, tools: &[String]| store.grant::<Refused>("ann@laptop", ("triage", provider), tools).await;
        let Err(Refused::Record(error)) = give("c1", &tools(["search", "open"])).await else { panic!("nobody has looked") };
        assert_eq!(error.to_string(), "the connection `Tickets` offers no tool `search`");
        discover(&store, "c1", &[("search", 1), ("open", 2)]).await.unwrap();
        let version = store.version().await.unwrap();
        for (provider, names) in [("c1", ["search", "Open"]), ("c2", ["search", "open"])] {
            assert!(matches!(give(provider, &tools(names)).await, Err(Refused::Record(_))), "{provider} {names:?}");
        }
        assert_eq!(store.version().await.unwrap(), version);
        let pinned = give("tickets", &tools(["search", "open"])).await.unwrap();
        let stored: Vec<_> = store.connections().await.unwrap().grants().iter().map(|grant| grant.pinned.clone()).collect();
        assert_eq!(pinned, stored);
        let detail = format!("triage c1 search={} open={}", "01".repeat(32), "02".repeat(32));
        assert_eq!(store.mcp_log(None, 1).await.unwrap()[0].detail, Some(detail));
        // A mod's grants stand beside those of connections, and change none of them.
        let a_mod = Connection { reach: Reach::Mod { package: "x".to_owned() }, ..connection("mod.notes") };
        let offered = catalog(&[("search", 3)]);
        let give_mod = async |names: &[String]| store.grant_mod::<Refused>("ann@laptop", ("triage", &a_mod), names, &offered).await;
        assert!(give_mod(&tools(["search", "open"])).await.is_err());
        let pinned = give_mod(&tools(["search", "search"])[..1]).await.unwrap();
        let record = store.connections().await.unwrap();
        assert_eq!(record.grants().iter().map(|grant| grant.pinned.clone()).collect::<Vec<_>>(), [stored, pinned].concat());
        assert_eq!(record.all(), [connection("c1")]);
    }

    async fn a_record_that_cannot_be_read_blocks_and_stays(stage) {
        let (store, session) = (granted(stage).await, StoredConnectors::new(stage.store().await, SESSION));
        let whole = store.document(MCP_CONNECTIONS).await.unwrap().unwrap().text;
        assert_eq!(standing(&session).await, Some(Standing::Granted));
        let pinned = session.current().await.unwrap().grants()[0].pinned.clone();
        let newer = r#"{"version":2,"servers":{}}"#;
        for text in ["", "{", "null", newer, &whole.replace("\"c1\"", "\"c 1\""), &whole.replace("enabled", "on")] {
            store.save_document(MCP_CONNECTIONS, text, &CHANGE, Expected::Any).await.unwrap();
            let version = store.version().await.unwrap();
            assert!(session.current().await.unwrap_err().why().starts_with("the stored connections are not valid: "));
            assert!(session.suspend(&pinned).await.is_err());
            let put = store.update_connections(&ADD, |record| Ok::<_, Refused>(record.put(connection("c2"))?)).await;
            let Err(Refused::Store(error)) = put else { panic!("{text}: {put:?}") };
            let saved = store.save_catalog(&ADD, &connection("c1"), &catalog(&[])).await.unwrap_err();
            for error in [error, saved, store.connections().await.unwrap_err()] {
                assert!(matches!(error, StoreError::Record { .. }), "{error}");
                assert_eq!(error.code(), "E-STO-014");
            }
            assert_eq!(store.version().await.unwrap(), version);
            assert_eq!(store.document(MCP_CONNECTIONS).await.unwrap().unwrap().text, text);
        }
        store.save_document(MCP_CONNECTIONS, newer, &CHANGE, Expected::Any).await.unwrap();
        let error = store.connections().await.unwrap_err().to_string();
        assert!(error.ends_with("it has the version 2, and 1 is the one that is known here"), "{error}");
        store.save_document(MCP_CONNECTIONS, &whole, &CHANGE, Expected::Any).await.unwrap();
        assert_eq!(standing(&session).await, Some(Standing::Granted));
        // Past the store.
        stage.meddle(&format!("UPDATE documents SET text = '' WHERE key = '{MCP_CONNECTIONS}'")).await;
        store.save_document("other", "", &CHANGE, Expected::Any).await.unwrap();
        assert!(session.current().await.unwrap_err().why().ends_with("(E-STO-004)"));
        assert!(grant(&store, "c1", "other", "search").await.is_err());
    }

    async fn a_catalog_that_cannot_be_read_blocks_until_somebody_looks_again(stage) {
        let (store, session) = (granted(stage).await, StoredConnectors::new(stage.store().await, SESSION));
        for text in ["", "[]", r#"{"version":2,"tools":[]}"#] {
            store.save_document("mcp_catalog.c1", text, &CHANGE, Expected::Any).await.unwrap();
            assert!(session.catalog("c1").await.unwrap_err().why().starts_with("a stored catalog of tools is not valid: "));
            assert_eq!(store.catalog("c1").await.unwrap_err().code(), "E-STO-014");
            assert_eq!(discover(&store, "c1", &[("search", 1)]).await.unwrap(), 0);
            assert_eq!(standing(&session).await, Some(Standing::Granted));
        }
    }

    async fn a_catalog_and_its_suspensions_are_saved_together_or_not_at_all(stage) {
        let store = granted(stage).await;
        let (record, version) = (store.connections().await.unwrap(), store.version().await.unwrap());
        let mut large = catalog(&[("search", 2)]);
        large.tools[0].description = "x".repeat(MAX_DOCUMENT);
        let saved = store.save_catalog(&ADD, &connection("c1"), &large).await;
        // Told of the second of the two documents: the first one was written by then.
        assert!(matches!(saved, Err(StoreError::TooLarge { key, .. }) if key == "mcp_catalog.c1"));
        let stored = (store.connections().await.unwrap(), store.version().await.unwrap());
        assert_eq!(stored, (record, version));
        assert_eq!(store.catalog("c1").await.unwrap(), catalog(&[("search", 1)]));
        assert_eq!(discover(&store, "c1", &[("search", 2)]).await.unwrap(), 1);
        let log = store.mcp_log(None, 2).await.unwrap();
        assert_eq!([&*log[1].subject, &*log[0].subject], [MCP_CONNECTIONS, "mcp_catalog.c1"]);
        assert_eq!([log[0].version, log[1].version], [version.number() + 2, version.number() + 1]);
    }

    async fn a_catalog_of_what_is_not_there_any_more_is_not_saved(stage) {
        let store = granted(stage).await;
        let version = store.version().await.unwrap();
        for gone in [connection("c2"), at("c1", "https://elsewhere.example")] {
            let saved = store.save_catalog(&ADD, &gone, &catalog(&[("search", 2)])).await;
            assert!(matches!(saved, Err(StoreError::Conflict { key }) if key == MCP_CONNECTIONS));
        }
        // Disabled and renamed, it is the same server.
        let renamed = Connection { name: "Issues".to_owned(), enabled: false, ..connection("c1") };
        assert_eq!(store.save_catalog(&ADD, &renamed, &catalog(&[("search", 1)])).await.unwrap(), 0);
        assert_eq!(store.version().await.unwrap(), version, "what is as it was leaves no row");
    }

    async fn nothing_is_saved_that_could_not_be_read_again(stage) {
        let store = granted(stage).await;
        let (record, version) = (store.connections().await.unwrap(), store.version().await.unwrap());
        let a_mod = Connection { reach: Reach::Mod { package: "x".to_owned() }, ..connection("mod.a") };
        let join = |record: &mut Connections| {
            *record = record.with_mods([a_mod]);
            Ok::<_, StoreError>(())
        };
        let twice = catalog(&[("search", 1), ("search", 2)]);
        for error in [
            store.update_connections(&ADD, join).await.unwrap_err(),
            store.save_catalog(&ADD, &connection("c1"), &twice).await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
            assert_eq!(error.code(), "E-STO-013");
        }
        let refused = store
            .update_connections(&ADD, |record| {
                record.put(connection("c2"))?;
                Err::<(), _>(Refused::from(record.enable("c3", false).unwrap_err()))
            })
            .await;
        assert!(matches!(refused, Err(Refused::Record(ConnectionsError::Selected(id))) if id == "c3"));
        store.update_connections(&ADD, |record| Ok::<_, Refused>(record.enable("c1", true)?)).await.unwrap();
        assert_eq!((store.connections().await.unwrap(), store.version().await.unwrap()), (record, version));
    }

    async fn more_catalogs_than_are_kept_are_each_their_own(stage) {
        let (store, session) = (stage.store().await, StoredConnectors::new(stage.store().await, SESSION));
        let ids: Vec<String> = (0..70).map(|number| format!("c{number}")).chain(["C1".to_owned()]).collect();
        let change = |record: &mut Connections| ids.iter().try_for_each(|id| Ok::<_, Refused>(record.put(connection(id))?));
        store.update_connections(&ADD, change).await.unwrap();
        for id in &ids {
            discover(&store, id, &[(id, 1)]).await.unwrap();
        }
        for round in 1..3 {
            for id in &ids {
                assert_eq!(*session.catalog(id).await.unwrap(), catalog(&[(id, round)]), "{id}");
            }
            for id in &ids {
                discover(&store, id, &[(id, round + 1)]).await.unwrap();
            }
        }
        assert_eq!(*session.catalog("c1").await.unwrap(), catalog(&[("c1", 3)]));
        assert_eq!(*session.catalog("unknown").await.unwrap(), Catalog::default());
    }

    async fn the_log_has_every_change_of_connections_and_no_other(stage) {
        let store = granted(stage).await;
        store.save_document(KEY, "rules", &CHANGE, Expected::Any).await.unwrap();
        let remove = Change { action: "mcp.remove", ..ADD };
        store.update_connections(&remove, |record| Ok::<_, Refused>(record.remove("c1")?)).await.unwrap();
        let log = store.mcp_log(None, 10).await.unwrap();
        let told = |entry: &LogEntry| (entry.version, entry.action.clone(), entry.subject.clone());
        let row = |number, action: &str, subject: &str| (number, action.to_owned(), subject.to_owned());
        assert_eq!(
            log.iter().map(told).collect::<Vec<_>>(),
            [
                row(6, "mcp.remove", "mcp_catalog.c1"),
                row(5, "mcp.remove", MCP_CONNECTIONS),
                row(3, "mcp.grant", MCP_CONNECTIONS),
                row(2, "mcp.discover", "mcp_catalog.c1"),
                row(1, "mcp.add", MCP_CONNECTIONS),
            ]
        );
        assert_eq!((&*log[4].at, &*log[4].who, log[4].detail.as_deref()), (NOON_TEXT, "ann@laptop", Some("c1")));
        assert_eq!(store.mcp_log(Some(5), 1).await.unwrap(), log[2..3]);
        // Not what only looks like one of its documents.
        store.update_document("mcp_catalogue", &CHANGE, |_| Ok::<_, StoreError>(Edit::Save(String::new()))).await.unwrap();
        assert_eq!(store.mcp_log(None, 10).await.unwrap(), log);
    }

    async fn a_secret_is_nowhere_in_the_store_in_clear(stage) {
        let keys = TempDir::new().unwrap();
        let (store, seal, value) = (stage.store().await, Seal::in_home(keys.path()), "hunter2-hunter2-hunter2");
        let sealed = seal.seal("c1", "bearer", &Secret::new(value.to_owned())).unwrap();
        let secrets = BTreeMap::from([("bearer".to_owned(), sealed)]);
        put(&store, Connection { secrets, ..connection("c1") }).await;
        discover(&store, "c1", &[("search", 1)]).await.unwrap();
        grant(&store, "c1", "triage", "search").await.unwrap();
        let session = StoredConnectors::new(Arc::clone(&store), SESSION);
        let record = session.current().await.unwrap();
        let opened = seal.open("c1", "bearer", &record.select("c1").unwrap().secrets["bearer"]).unwrap();
        assert_eq!(opened.expose(), value);
        let everything = everything(stage).await;
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        // The first is there, so that what is looked through is where the others would be.
        for (text, is_there) in [("tickets.example", true), (value, false), (&hex, false), ("aHVudGVyMi1odW50ZXIy", false)] {
            assert_eq!(everything.windows(text.len()).any(|part| part == text.as_bytes()), is_there, "{text}");
        }
    }
}

/// Not a test: a process that looks at the server again and again, which says each time something else.
#[tokio::test]
#[ignore = "a helper of the tests in this module"]
async fn looks() {
    let store = Store::open(&config(&std::env::var(PLACE).unwrap()), Arc::new(Noon)).await.unwrap();
    for number in 0..MANY {
        discover(&store, "c1", &[("search", if number % 2 == 0 { 2 } else { 1 })]).await.unwrap();
    }
}

/// Not a test: a process that grants the tool to one agent after the other.
#[tokio::test]
#[ignore = "a helper of the tests in this module"]
async fn grants() {
    let store = Store::open(&config(&std::env::var(PLACE).unwrap()), Arc::new(Noon)).await.unwrap();
    for number in 0..MANY {
        grant(&store, "c1", &format!("agent{number}"), "search").await.unwrap();
    }
}

/// Every byte that a stage's store holds.
async fn everything(stage: &Stage) -> Vec<u8> {
    match stage {
        Stage::Sqlite(home) => {
            let files = std::fs::read_dir(home.path()).unwrap();
            files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
        }
        Stage::Postgres(database) => {
            let client = testkit::postgres::connect(&database.url).await;
            let mut all = Vec::new();
            for table in ["store", "documents", "audit"] {
                let rows = client.query(&format!("SELECT t::text FROM murmur.{table} t"), &[]).await.unwrap();
                all.extend(rows.iter().flat_map(|row| row.get::<_, String>(0).into_bytes()));
            }
            all
        }
    }
}
