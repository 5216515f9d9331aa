//! What an operator sees of connections: lists, diagnoses, the rows of `mur doctor`; and variables that are no secrets.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use policy::{Connections, ConnectionsError};
use serde_json::{Value, json};
use store::{Change, Expected, MCP_CONNECTIONS, Store, StoreConfig, StoreError};

use super::{add, call, mcp, server, stage, with_mod};
use crate::binary::Ran;
use crate::support::Stage;

/// Why the store refuses something.
#[derive(Debug)]
#[expect(dead_code, reason = "it is shown when a test fails")]
pub(super) enum Refused {
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

/// Works on the stage's store past the commands.
pub(super) fn in_store(stage: &Stage, work: impl AsyncFnOnce(Store)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = StoreConfig::in_home(&stage.mur.home.home());
        work(Store::open(&config, Arc::new(vocab::SystemClock)).await.unwrap()).await;
    });
}

/// Makes of the record what no command makes of it.
pub(super) fn change_record(stage: &Stage, edit: impl FnOnce(&mut Connections)) {
    let change = Change { who: "a test", action: "test", detail: None };
    in_store(stage, async |store| {
        let edit = |record: &mut Connections| {
            edit(record);
            Ok::<_, StoreError>(())
        };
        store.update_connections(&change, edit).await.unwrap();
    });
}

fn save(stage: &Stage, key: &str, text: &str) {
    let change = Change { who: "a test", action: "test", detail: None };
    in_store(stage, async |store| {
        store.save_document(key, text, &change, Expected::Any).await.unwrap();
    });
}

/// The status and the finding of a row of `mur doctor`, with places named, and whether it all went well.
fn row(stage: &Stage, name: &str) -> (String, String, bool) {
    let ran = stage.mur.run(&["doctor", "--json"]);
    let row = ran.json().as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap();
    let [status, finding] = ["status", "finding"].map(|key| row[key].as_str().unwrap().to_owned());
    (status, stage.mur.named(&finding), ran.status == Some(0))
}

fn told(status: &str, finding: &str, is_well: bool) -> (String, String, bool) {
    (status.to_owned(), finding.to_owned(), is_well)
}

#[test]
fn the_doctor_counts_connections_and_grants_and_says_what_does_not_hold() {
    let stage = stage(Vec::new());
    let connections = || row(&stage, "connections");
    assert_eq!(connections(), told("ok", "none in `[home]/settings.db`", true));
    let id = add(&stage, "files", "usual");
    let tools = mcp(&stage, &["discover", "files", "--json"]).json()["tools"].as_array().unwrap().len();
    mcp(&stage, &["grant", "agent", "files", "echo", "fail"]);
    let finding = format!("1 connection, {tools} tools, 2 grants in `[home]/settings.db`");
    assert_eq!(connections(), told("ok", &finding, true));
    mcp(&stage, &["disable", "files"]);
    mcp(&stage, &["update", "files", "--stdio", "/bin/cat"]);
    let finding = "1 connection (1 disabled), 0 tools, 2 grants (2 suspended) in `[home]/settings.db`";
    assert_eq!(connections(), told("warn", finding, true));
    save(&stage, &format!("mcp_catalog.{id}"), "[]");
    let (status, finding, is_well) = connections();
    assert!(
        status == "fail" && !is_well && finding.starts_with(&format!("what `{id}` offers cannot be read")),
        "{finding}"
    );
    save(&stage, MCP_CONNECTIONS, "{");
    let (status, finding, is_well) = connections();
    let says = "cannot be read, which blocks every call: in the settings store";
    assert!(status == "fail" && !is_well && finding.starts_with(says), "{finding}");
    assert_eq!(row(&stage, "rules").0, "ok", "the rules are another record");
    let listed = stage.mur.run(&["mcp", "list"]);
    assert!(listed.status == Some(1) && listed.stderr.contains("E-STO-014"), "{listed:?}");
}

#[test]
fn the_doctor_looks_at_the_key_and_at_what_it_opens() {
    let stage = stage(Vec::new());
    let key = || row(&stage, "store key");
    assert_eq!(key(), told("ok", "not there yet; made when the first secret of a connection is stored", true));
    add(&stage, "files", "usual");
    let (path, well) =
        (stage.path("home/store.key"), told("ok", "`[home]/store.key` is its owner's alone and opens 1 secret", true));
    assert_eq!(key(), well);
    for mode in [0o640, 0o604] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let (status, finding, is_well) = key();
        assert!(status == "fail" && !is_well && finding.contains(&format!("{mode:04o}")), "{finding}");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    assert_eq!(key(), well);
    let own = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let (status, finding, is_well) = key();
    assert!(
        status == "fail" && !is_well && finding.starts_with("the key file `[home]/store.key` cannot be used"),
        "{finding}"
    );
    // Another home's key.
    let other = super::stage(Vec::new());
    add(&other, "files", "usual");
    fs::copy(other.path("home/store.key"), &path).unwrap();
    let (status, finding, is_well) = key();
    assert!(status == "fail" && !is_well && finding.starts_with("1 of 1 secret cannot be opened"), "{finding}");
    fs::write(&path, own).unwrap();
    assert_eq!(key(), well);
    // One that was named and is not there.
    let missing = stage.path("no.key");
    let ran = Ran::of(stage.mur.command(&["doctor"]).env("MURMUR_STORE_KEY_FILE", &missing));
    assert!(
        ran.status == Some(1) && ran.stdout().contains(&format!("the key file `{missing}` cannot be used")),
        "{ran:?}"
    );
}

/// What `mur mcp diagnose` says of the agent's rights: exit status, and each tool that has one of these codes.
fn rights(stage: &Stage) -> (Option<i32>, Value, Value) {
    let ran = stage.mur.run(&["mcp", "diagnose", "files", "--capsule", &stage.path("agent"), "--json"]);
    let found = ran.json();
    let echo = found["agent"]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "echo").unwrap();
    (ran.status, echo["callable"].clone(), echo["code"].clone())
}

#[test]
fn a_diagnosis_says_what_an_agent_may_call_and_why_not() {
    let stage = stage(Vec::new());
    let id = add(&stage, "files", "usual");
    let capsule = stage.path("agent");
    let diagnose = |status| {
        let ran = stage.mur.run(&["mcp", "diagnose", "files", "--capsule", &capsule]);
        assert_eq!(ran.status, Some(status), "{ran:?}");
        ran.stdout().to_owned()
    };
    let said = diagnose(1);
    assert!(
        said.contains("nothing is known of its tools") && said.contains(&format!("`mur mcp discover {id}`")),
        "{said}"
    );
    assert!(said.contains(&format!("`logs/mcp-{id}.stderr.log` in the workdir")), "{said}");
    mcp(&stage, &["discover", "files"]);
    assert_eq!(rights(&stage), (Some(1), json!(false), json!("mcp_tool_not_granted")));
    mcp(&stage, &["grant", "agent", "files", "echo"]);
    assert_eq!(rights(&stage), (Some(0), json!(true), json!(null)));
    let said = diagnose(0);
    assert!(said.contains("agent may call echo\n") && said.contains("may not call hang,"), "{said}");
    mcp(&stage, &["disable", "files"]);
    assert_eq!(rights(&stage), (Some(1), json!(false), json!("mcp_provider_not_available")));
    let ran = stage.mur.run(&["mcp", "diagnose", "files"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stdout().contains("the connection is disabled") && ran.stdout().contains("`mur mcp enable"), "{ran:?}");
    mcp(&stage, &["enable", "files"]);
    stage.declare("capabilities: { tools: [files_read] }\n");
    assert_eq!(rights(&stage), (Some(1), json!(false), json!(null)));
    assert!(diagnose(1).contains("agent has no tool `mcp`"));
    let server = server(&stage, "usual");
    let words: Vec<&str> =
        ["update", "files", "--stdio"].into_iter().chain(server.iter().map(String::as_str)).collect();
    mcp(&stage, &words);
    assert_eq!(rights(&stage).2, "mcp_tool_changed");
    // Nothing is known of what it offers any more; it was granted once.
    assert_eq!(mcp(&stage, &["list", "--json"]).json()[0]["granted_to"][0]["suspended"], "connection_changed");
}

#[test]
fn a_mod_is_looked_at_and_diagnosed_with_its_capsule() {
    let stage = with_mod(&[("echo", json!({"text": "a"}))]);
    let capsule = stage.path("agent");
    let look = |what: &str| stage.mur.run(&["mcp", what, "mod.notes", "--capsule", &capsule, "--json"]);
    let found = look("discover").json();
    assert_eq!((&found["id"], &found["tools"][0]["name"]), (&json!("mod.notes"), &json!("echo")));
    let tools = |found: &Value| -> Vec<(String, bool)> {
        let all = found["agent"]["tools"].as_array().unwrap().iter();
        all.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["callable"] == true)).take(2).collect()
    };
    let diagnosed = look("diagnose");
    assert_eq!(diagnosed.status, Some(0), "{diagnosed:?}");
    assert_eq!(tools(&diagnosed.json()), [("echo".to_owned(), false), ("hang".to_owned(), true)]);
    mcp(&stage, &["grant", "agent", "mod.notes", "echo", "--capsule", &capsule]);
    assert_eq!(tools(&look("diagnose").json())[0], ("echo".to_owned(), true));
    let listed = mcp(&stage, &["list", "--json"]).json();
    assert_eq!(
        (&listed[0]["id"], &listed[0]["transport"], &listed[0]["granted_to"][0]["tool"]),
        (&json!("mod.notes"), &json!("mod"), &json!("echo"))
    );
    // A program that is none: what to do is in the package, not in the store.
    fs::write(stage.path("agent/notes/run"), "#!/nonexistent/sh\n").unwrap();
    let ran = stage.mur.run(&["mcp", "discover", "mod.notes", "--capsule", &capsule]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("`murmur.yaml` of the mod's package") && !ran.stderr.contains("mcp add"), "{ran:?}");
    let unknown = stage.mur.run(&["mcp", "discover", "mod.other", "--capsule", &capsule]);
    assert!(unknown.stderr.contains("declares no mod `mod.other`"), "{unknown:?}");
}

#[test]
fn a_variable_that_is_no_secret_is_listed_and_not_hidden_in_results() {
    let stage = stage(vec![call("environment", json!({})), call("echo", json!({"text": "1 in production"}))]);
    let server = server(&stage, "usual");
    let given =
        ["add", "files", "--plain-env", "MODE=1", "--plain-env", "STAGE=production", "--env", "LEVEL=info", "--stdio"];
    let words: Vec<&str> = given.into_iter().chain(server.iter().map(String::as_str)).collect();
    let ran = mcp(&stage, &words);
    let warned = "the value of `LEVEL` is short or a plain word, and hidden in all that is shown";
    assert!(ran.stderr.contains(warned) && ran.stderr.contains("--plain-env"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("warning").count(), 1, "{}", ran.stderr);
    let listed = mcp(&stage, &["list", "--json"]).json();
    assert_eq!(listed[0]["variables"], json!({"MODE": "1", "STAGE": "production"}));
    assert_eq!(listed[0]["secrets"], json!(["env.LEVEL"]));
    let shown = mcp(&stage, &["list"]);
    assert!(shown.stdout().contains("given MODE=1, STAGE=production, LEVEL (secret)"), "{}", shown.stdout());
    mcp(&stage, &["discover", "files"]);
    mcp(&stage, &["grant", "agent", "files", "environment", "echo"]);
    stage.succeed();
    let results = stage.results();
    assert!(results[0].contains("MODE=1\n") && results[0].contains("STAGE=production"), "{}", results[0]);
    assert!(results[0].contains("LEVEL=[redacted]"), "{}", results[0]);
    assert!(results[1].contains("you said 1 in production"), "{}", results[1]);
    // It counts as a setting of the connection.
    let words: Vec<&str> = ["update", "files", "--plain-env", "MODE=2", "--stdio"]
        .into_iter()
        .chain(server.iter().map(String::as_str))
        .collect();
    assert!(mcp(&stage, &words).stdout().contains("2 grants suspended"));
}
