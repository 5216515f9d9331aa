//! Connections, catalogs and grants, for people and for programs. No secret value is known here.
//!
//! People get a few lines of each connection however much it offers; programs get all of it.

use std::collections::BTreeMap;

use policy::{Catalog, Connection, Connections, Grant, Pinned, Reach, Standing, Suspended};
use serde_json::{Value, json};
use store::Place;

use crate::client::DIM;
use crate::terminal::{count, cut, printable, word};

/// How many names stand in one line.
const FEW: usize = 8;
/// The longest command or address that is shown to people, in characters.
const WIDTH: usize = 120;

/// What somebody else wrote, so that it cannot steer a terminal.
pub(super) fn name(text: &str) -> String {
    printable(text).into_owned()
}

fn target(reach: &Reach) -> String {
    match reach {
        Reach::Stdio { command, args } => {
            let words = std::iter::once(command).chain(args).map(String::as_str);
            words.collect::<Vec<_>>().join(" ")
        }
        Reach::Http { url } => url.clone(),
        Reach::Mod { .. } => "a mod".to_owned(),
    }
}

/// Why a grant does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    ConnectionChanged,
    ToolChanged,
    NotOffered,
}

impl Why {
    /// By what is stored; `connection` is unknown for a mod, which only its session sees.
    fn of(grant: &Grant, connection: Option<(&Connection, &Catalog)>, record: &Connections) -> Option<Self> {
        let noted = grant.suspended.map(|suspended| match suspended {
            Suspended::Settings => Self::ConnectionChanged,
            Suspended::Definition => Self::ToolChanged,
        });
        let Some((connection, catalog)) = connection.filter(|_| noted.is_none()) else { return noted };
        let enabled = Connection { enabled: true, ..connection.clone() };
        match Standing::of(&grant.pinned.agent, &enabled, &grant.pinned.tool, (record, catalog)) {
            Standing::Granted => None,
            Standing::ToolChanged => Some(Self::ToolChanged),
            _ => Some(Self::NotOffered),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::ConnectionChanged => "connection_changed",
            Self::ToolChanged => "tool_changed",
            Self::NotOffered => "not_offered",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::ConnectionChanged => "suspended, because the connection changed",
            Self::ToolChanged => "suspended, because the tool changed",
            Self::NotOffered => "of no use, because the tool is not offered now",
        }
    }
}

/// Grants, each with why it does not hold.
type Granted<'r> = Vec<(&'r Grant, Option<Why>)>;

/// The grants by connection, so that a long record is gone through once.
fn by_connection<'r>(record: &'r Connections, catalogs: &[Catalog]) -> BTreeMap<&'r str, Granted<'r>> {
    let known: BTreeMap<&str, (&Connection, &Catalog)> =
        record.all().iter().zip(catalogs).map(|(one, catalog)| (one.id.as_str(), (one, catalog))).collect();
    let mut all: BTreeMap<&str, Granted<'r>> = BTreeMap::new();
    for grant in record.grants() {
        let id = grant.pinned.connection.as_str();
        all.entry(id).or_default().push((grant, Why::of(grant, known.get(id).copied(), record)));
    }
    all
}

fn granted_json(granted: &Granted<'_>) -> Value {
    let one = |(grant, why): &(&Grant, Option<Why>)| {
        json!({
            "agent": grant.pinned.agent,
            "tool": grant.pinned.tool,
            "definition": grant.pinned.definition,
            "suspended": why.map(Why::as_str),
        })
    };
    Value::Array(granted.iter().map(one).collect())
}

pub(super) fn list_json(record: &Connections, catalogs: &[Catalog]) -> Value {
    let mut grants = by_connection(record, catalogs);
    let one = |(connection, catalog): (&Connection, &Catalog)| {
        json!({
            "id": connection.id,
            "name": connection.name,
            "transport": connection.reach.as_str(),
            "target": target(&connection.reach),
            "enabled": connection.enabled,
            "lifecycle": connection.lifecycle.as_str(),
            "variables": connection.variables,
            "secrets": connection.secrets.keys().collect::<Vec<_>>(),
            "tools": catalog.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            "granted_to": granted_json(&grants.remove(connection.id.as_str()).unwrap_or_default()),
        })
    };
    let mut list: Vec<Value> = record.all().iter().zip(catalogs).map(one).collect();
    // Grants for mods, which belong to capsules and are no connections of the store.
    let of_mod = |(id, granted): (&str, Granted<'_>)| {
        json!({
            "id": id,
            "name": id,
            "transport": "mod",
            "target": null,
            "enabled": true,
            "lifecycle": "keep_alive",
            "variables": {},
            "secrets": [],
            "tools": null,
            "granted_to": granted_json(&granted),
        })
    };
    list.extend(grants.into_iter().map(of_mod));
    Value::Array(list)
}

pub(super) fn list(record: &Connections, catalogs: &[Catalog], place: &Place) -> String {
    if record.all().is_empty() && record.grants().is_empty() {
        return format!("no connections in {place}\n");
    }
    let mut grants = by_connection(record, catalogs);
    let mut text = String::new();
    for (connection, catalog) in record.all().iter().zip(catalogs) {
        let off = if connection.enabled { "" } else { " (disabled)" };
        let tools = match catalog.tools.len() {
            0 => format!("nothing known of its tools: `mur mcp discover {}`", connection.id),
            tools => count(tools as u64, "tool"),
        };
        text.push_str(&format!(
            "{}  {}{off}\n  {} {}\n  {DIM}{tools}{}{DIM:#}\n",
            connection.id,
            name(&connection.name),
            connection.reach.as_str(),
            cut(&target(&connection.reach), WIDTH),
            given(connection),
        ));
        add_granted(&mut text, &grants.remove(connection.id.as_str()).unwrap_or_default());
    }
    for (id, granted) in grants {
        text.push_str(&format!("{}  (a mod of a capsule)\n", name(id)));
        add_granted(&mut text, &granted);
    }
    text
}

/// What its process or its address is given, without the values that are secret.
fn given(connection: &Connection) -> String {
    let clear = connection.variables.iter().map(|(key, value)| format!("{key}={}", cut(value, 40)));
    let secret = connection.secrets.keys().map(|key| format!("{} (secret)", key.strip_prefix("env.").unwrap_or(key)));
    let all: Vec<String> = clear.chain(secret).collect();
    if all.is_empty() { String::new() } else { format!(", given {}", all.join(", ")) }
}

/// A line for each agent, and another for what does not hold.
fn add_granted(text: &mut String, granted: &Granted<'_>) {
    let mut lines: BTreeMap<(&str, Option<Why>), Vec<&str>> = BTreeMap::new();
    for (Grant { pinned, .. }, why) in granted {
        lines.entry((&pinned.agent, *why)).or_default().push(&pinned.tool);
    }
    for ((agent, why), tools) in lines {
        let why = why.map(|why| format!(" ({})", why.words())).unwrap_or_default();
        text.push_str(&format!("  {} may call {}{why}\n", name(agent), few(&tools)));
    }
}

/// The first of many names, and how many more there are.
pub(super) fn few(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(FEW).map(|one| name(one)).collect();
    let more = names.len().saturating_sub(FEW);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

pub(super) fn updated(id: &str, called: &str, suspended: usize) -> String {
    let mut text = format!("{id}: updated; {} suspended\n", count(suspended as u64, "grant"));
    if suspended > 0 {
        let called = word(called);
        text.push_str(&format!(
            "look at it with `mur mcp discover {called}`, then grant what should stand: `mur mcp grant AGENT {called} TOOL`\n"
        ));
    } else {
        text.push_str(&format!("look at it with `mur mcp discover {}`\n", word(called)));
    }
    text
}

pub(super) fn granted(agent: &str, id: &str, pinned: &[Pinned]) -> String {
    let tool = |one: &Pinned| format!("{} (as of {})", name(&one.tool), short(&one.definition));
    let tools: Vec<String> = pinned.iter().map(tool).collect();
    format!("{} may call {} of {}\n", name(agent), tools.join(", "), name(id))
}

pub(super) fn revoked(agent: &str, id: &str, tools: &[String]) -> String {
    let tools: Vec<String> = tools.iter().map(|tool| name(tool)).collect();
    format!("{} may no longer call {} of {}\n", name(agent), tools.join(", "), name(id))
}

/// The beginning of a definition's digest, to compare with by eye.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

pub(super) fn catalog_json(connection: &Connection, catalog: &Catalog, suspended: usize) -> Value {
    json!({"id": connection.id, "tools": catalog.tools, "suspended_grants": suspended})
}

pub(super) fn catalog(connection: &Connection, catalog: &Catalog, suspended: usize) -> String {
    let mut text = format!("{} offers {}\n", name(&connection.name), count(catalog.tools.len() as u64, "tool"));
    for tool in &catalog.tools {
        match &tool.unusable {
            Some(why) => text.push_str(&format!("\n{} (cannot be used: {})\n", name(&tool.name), name(why))),
            None => text.push_str(&format!(
                "\n{} {DIM}{}{DIM:#}\n  {DIM}{}{DIM:#}\n",
                name(&tool.name),
                short(&tool.definition),
                name(&tool.description)
            )),
        }
    }
    if suspended > 0 {
        text.push_str(&format!(
            "\n{} suspended, because the tool is another one now: grant it again if it still should be\n",
            count(suspended as u64, "grant")
        ));
    }
    text
}
