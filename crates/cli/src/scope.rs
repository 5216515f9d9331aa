//! What a capsule may reach on this host, and how far that is held: `mur run --explain-scope`, and
//! `effective_grants` in the trace.
//!
//! It says what holds, not what is declared, and names what does not hold in sentences: an operator decides by it
//! whether to run the capsule here.

use std::path::{Path, PathBuf};

use manifest::{Loaded, Manifest};
use policy::{Base, Document};
use sandbox::{Class, Network};
use serde::Serialize;
use serde_json::{Map, Value, json};
use store::{EXECUTION_BOUNDARIES, Store, StoreConfig};

use crate::boundary::{Boundary, Held};
use crate::failure::Failure;
use crate::settings;

/// The report. Its keys are documented in docs/containment.md.
#[derive(Debug, Serialize)]
pub(crate) struct Scope {
    declared_containment: &'static str,
    achieved_containment: Option<&'static str>,
    floor_met: bool,
    shortfall_reason: Option<String>,
    enforcement_tier: &'static str,
    filesystem_scope: String,
    filesystem_read: Vec<String>,
    workdir_exec: bool,
    read_only_paths: Vec<String>,
    network_allow: Vec<String>,
    shell_allow: Vec<String>,
    env_allow: Vec<String>,
    tools: Vec<&'static str>,
    spawn: Option<Value>,
    preopens: Map<String, Value>,
    hard_blocks: Vec<Value>,
    runtime_writes: Vec<String>,
    filesystem_boundary: FilesystemBoundary,
}

#[derive(Debug, Serialize)]
struct FilesystemBoundary {
    restriction: &'static str,
    not_protected: Vec<&'static str>,
}

impl Scope {
    /// For a session in this workdir whose records lie in this home.
    pub(crate) async fn new(
        loaded: &Loaded,
        boundary: &Boundary,
        (workdir, home): (&Path, &Path),
        store: &StoreConfig,
    ) -> Self {
        let rules = Rules::read(store, &settings::base(workdir)).await;
        let (manifest, capabilities) = (&loaded.manifest, &loaded.manifest.capabilities);
        let held = boundary.held.as_ref();
        let root = capabilities
            .filesystem
            .scope
            .as_ref()
            .map_or_else(|| workdir.to_owned(), |scope| workdir.join(scope.as_str()));
        let read_only = capabilities.filesystem.read_only.iter().map(|path| workdir.join(path.as_str()));
        let read_only = read_only.chain(manifest.made_of().map(Path::to_owned)).chain([loaded.path.clone()]);
        let baseline = capabilities.shell.baseline_env.iter();
        Self {
            declared_containment: boundary.floor.name(),
            achieved_containment: held.map(|held| held.class.name()),
            floor_met: boundary.is_met(),
            shortfall_reason: held.and_then(|held| held.shortfall.clone()),
            enforcement_tier: tier(held),
            filesystem_scope: root.display().to_string(),
            filesystem_read: shown(capabilities.filesystem.read.iter().map(|path| path.absolute.clone())),
            workdir_exec: held.is_some_and(|held| held.class < Class::Sealed) || capabilities.filesystem.workdir_exec,
            read_only_paths: shown(read_only),
            network_allow: hosts(manifest),
            shell_allow: capabilities.shell.allow.iter().map(|name| name.as_str().to_owned()).collect(),
            env_allow: baseline.chain(&capabilities.env.allow).map(|name| name.as_str().to_owned()).collect(),
            tools: capabilities.tools.iter().map(|tool| tool.as_str()).collect(),
            spawn: capabilities
                .spawn
                .as_ref()
                .map(|spawn| json!({"max_depth": spawn.max_depth, "max_children": spawn.max_children})),
            preopens: Map::new(),
            hard_blocks: rules.shown(held),
            runtime_writes: shown([home.to_owned(), workdir.join("logs"), std::env::temp_dir()]),
            filesystem_boundary: FilesystemBoundary {
                restriction: match held.map(|held| held.class) {
                    None => "absent",
                    Some(Class::Advisory) => "advisory",
                    Some(Class::Scoped | Class::Sealed) => "enforced",
                },
                not_protected: held.map(|held| not_protected(held, manifest)).unwrap_or_default(),
            },
        }
    }

    /// The same where these paths are read-only: a subagent's are its parent's.
    pub(crate) fn with_read_only(mut self, paths: &[PathBuf]) -> Self {
        self.read_only_paths = shown(paths.iter().cloned());
        self
    }

    /// The report as one JSON object.
    pub(crate) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

fn shown(paths: impl IntoIterator<Item = PathBuf>) -> Vec<String> {
    paths.into_iter().map(|path| path.display().to_string()).collect()
}

fn hosts(manifest: &Manifest) -> Vec<String> {
    let network = manifest.capabilities.network.as_ref();
    network.into_iter().flat_map(|network| &network.allow).map(ToString::to_string).collect()
}

/// What of the kernel holds processes.
fn tier(held: Option<&Held>) -> &'static str {
    match held {
        None => "none",
        Some(held) if held.class == Class::Advisory => "none",
        Some(held) if held.has_own_files() => "namespaces",
        Some(_) => "landlock",
    }
}

fn not_protected(held: &Held, manifest: &Manifest) -> Vec<&'static str> {
    let capabilities = &manifest.capabilities;
    let has_hosts = !hosts(manifest).is_empty();
    let mut sentences = Vec::new();
    let mut say = |applies: bool, sentence: &'static str| {
        if applies {
            sentences.push(sentence);
        }
    };
    let advisory = held.class == Class::Advisory;
    say(
        advisory,
        "A process can read, change and send whatever your account can, the control token and the records included.",
    );
    say(
        advisory,
        "Rules about paths and commands are enforced by the reviews of calls alone: what a started program does, nobody judges.",
    );
    say(advisory && capabilities.network.is_some(), "Which hosts processes reach is not enforced.");
    let no_masks = !advisory && !held.has_own_files();
    say(
        no_masks,
        "A process can change the mode, owner, times and attributes of any file of your account, and look at them; contents are held.",
    );
    say(
        !advisory && no_masks && !capabilities.filesystem.read_only.is_empty(),
        "`read_only` is enforced by the reviews of calls alone: a process can change what it names.",
    );
    say(
        manifest.grants(manifest::BuiltinTool::ShellExec),
        "A command of `shell_exec` can start any program that it can read, not only those of `shell.allow`.",
    );
    let reads = !advisory && !capabilities.filesystem.read.is_empty();
    say(reads, "A socket in a directory of `filesystem.read` can be connected to.");
    say(
        !advisory,
        "A link whose own name a rule covers is covered by the reviews of calls alone; what it leads to has rules of its own.",
    );
    say(
        no_masks,
        "Rules about paths are enforced by the reviews of calls alone: this host has no namespaces to mask files in.",
    );
    say(!advisory, "Files that do not exist when a process starts are covered by the reviews of calls alone.");
    say(
        !advisory,
        "When something outside the session renames another file over one that a rule masks, processes that run then see the new one.",
    );
    let executes = held.class == Class::Scoped || capabilities.filesystem.workdir_exec;
    say(!advisory && executes, "Programs that the agent wrote can be started in its directory, held like any other.");
    say(!advisory, "An interpreter of the system runs what the agent wrote.");
    say(
        true,
        "What the agent leaves in its directory (hooks, build files, scripts) is held by nothing when you use it yourself.",
    );
    say(
        !advisory && has_hosts,
        "What is sent to an allowed host is not looked at; whoever answers at its name decides what comes back.",
    );
    say(held.network == Network::None, "A process has no network at all, not even a loopback of its own.");
    sentences
}

/// The operator's rules, as far as they can be read.
struct Rules(Result<Document, String>);

impl Rules {
    /// Reads them as they are now.
    async fn read(config: &StoreConfig, base: &Base) -> Self {
        let text = async {
            let store = Store::open(config, std::sync::Arc::new(vocab::SystemClock)).await?;
            store.document(EXECUTION_BOUNDARIES).await
        };
        Self(match text.await {
            Ok(None) => Ok(Document::default()),
            Ok(Some(stored)) => Document::parse(&stored.text, base).map_err(|faults| settings::codes(&faults)),
            Err(error) => Err(error.to_string()),
        })
    }

    fn shown(&self, held: Option<&Held>) -> Vec<Value> {
        let rules = match &self.0 {
            Ok(document) => document.rules(),
            Err(why) => {
                return vec![
                    json!({"unreadable": why, "enforced_by": "every action that rules could govern is blocked"}),
                ];
            }
        };
        let masks = held.is_some_and(Held::has_own_files);
        let enabled = rules.iter().filter(|rule| rule.enabled);
        enabled
            .map(|rule| {
                let mut shown = rule.to_json();
                if let Some(shown) = shown.as_object_mut() {
                    shown.retain(|key, _| !matches!(key.as_str(), "examples" | "enabled"));
                    let by = if masks && rule.is_about_files() { "both" } else { "review" };
                    shown.insert("enforced_by".to_owned(), by.into());
                }
                shown
            })
            .collect()
    }
}

/// For people or, as one object, for programs.
pub(crate) fn print(scope: &Scope, as_json: bool) -> Result<(), Failure> {
    let mut out = if as_json { crate::output::Output::plain() } else { crate::output::Output::styled() };
    let report = scope.to_json();
    if as_json {
        out.json(&report)?;
    } else {
        std::io::Write::write_all(&mut out, text(&report).as_bytes())?;
    }
    out.finish()?;
    Ok(())
}

/// One line for each key, and for each item of a list below it.
fn text(report: &Value) -> String {
    let mut text = String::new();
    if report.get("achieved_containment").is_some_and(Value::is_null) {
        text.push_str("no tool of this capsule starts a process, so there is nothing to contain\n");
    }
    for (key, value) in report.as_object().into_iter().flatten() {
        line(&mut text, key, value, 0);
    }
    text
}

fn line(text: &mut String, key: &str, value: &Value, depth: usize) {
    use std::fmt::Write as _;
    let indent = "  ".repeat(depth);
    let title = key.replace('_', " ");
    // Writing into a string cannot fail.
    let _ = match value {
        Value::Array(items) if items.is_empty() => writeln!(text, "{indent}{title}: none"),
        Value::Array(items) => {
            let _ = writeln!(text, "{indent}{title}:");
            for item in items {
                let _ = writeln!(text, "{indent}  {}", item_text(item));
            }
            Ok(())
        }
        Value::Object(entries) if entries.is_empty() => writeln!(text, "{indent}{title}: none"),
        Value::Object(entries) => {
            let _ = writeln!(text, "{indent}{title}:");
            entries.iter().for_each(|(key, value)| line(text, key, value, depth + 1));
            Ok(())
        }
        Value::Null => writeln!(text, "{indent}{title}: none"),
        Value::Bool(flag) => writeln!(text, "{indent}{title}: {}", if *flag { "yes" } else { "no" }),
        other => writeln!(text, "{indent}{title}: {}", item_text(other)),
    };
}

fn item_text(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        // A rule.
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| format!("{key} {}", item_text(value))).collect::<Vec<_>>().join(", ")
        }
        Value::Array(items) => items.iter().map(item_text).collect::<Vec<_>>().join("+"),
        other => other.to_string(),
    };
    crate::terminal::printable(&text).into_owned()
}
