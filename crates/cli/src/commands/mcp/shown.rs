//! Connections, catalogs and diagnoses, for people and for programs. No secret value is known here.

use mcp::{Check, Diagnosis};
use policy::{Catalog, Connection, Connections, Grant, Reach, Standing, Suspended};
use serde_json::{Value, json};
use store::Place;

use crate::client::DIM;
use crate::terminal::{count, printable};

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

/// Whether a grant holds, by what is stored.
fn standing(grant: &Grant, connection: &Connection, catalog: &Catalog, record: &Connections) -> Option<&'static str> {
    let enabled = Connection { enabled: true, ..connection.clone() };
    match Standing::of(&grant.pinned.agent, &enabled, &grant.pinned.tool, (record, catalog)) {
        Standing::Granted => None,
        _ => Some(match grant.suspended {
            Some(Suspended::Settings) => "suspended: the connection changed",
            Some(Suspended::Definition) => "suspended: the tool changed",
            None => "suspended: the tool is not offered as it was granted",
        }),
    }
}

pub(super) fn list_json(record: &Connections, catalogs: &[Catalog]) -> Value {
    let one = |(connection, catalog): (&Connection, &Catalog)| {
        let of = record.grants().iter().filter(|grant| grant.pinned.connection == connection.id);
        let grants = of.map(|grant| {
            json!({
                "agent": grant.pinned.agent,
                "tool": grant.pinned.tool,
                "suspended": standing(grant, connection, catalog, record),
            })
        });
        json!({
            "id": connection.id,
            "name": connection.name,
            "transport": connection.reach.as_str(),
            "target": target(&connection.reach),
            "enabled": connection.enabled,
            "lifecycle": connection.lifecycle.as_str(),
            "secrets": connection.secrets.keys().collect::<Vec<_>>(),
            "tools": catalog.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            "granted_to": grants.collect::<Vec<_>>(),
        })
    };
    let mut list: Vec<Value> = record.all().iter().zip(catalogs).map(one).collect();
    let known = |id: &str| record.all().iter().any(|connection| connection.id == id);
    // Grants for mods, which belong to capsules and are no connections of the store.
    for grant in record.grants().iter().filter(|grant| !known(&grant.pinned.connection)) {
        list.push(json!({
            "id": grant.pinned.connection,
            "transport": "mod",
            "granted_to": [{"agent": grant.pinned.agent, "tool": grant.pinned.tool, "suspended": grant.suspended}],
        }));
    }
    Value::Array(list)
}

pub(super) fn list(record: &Connections, catalogs: &[Catalog], place: &Place) -> String {
    if record.all().is_empty() && record.grants().is_empty() {
        return format!("no connections in {place}\n");
    }
    let mut text = String::new();
    for (connection, catalog) in record.all().iter().zip(catalogs) {
        let off = if connection.enabled { "" } else { " (disabled)" };
        let tools = match catalog.tools.len() {
            0 => "nothing known of its tools: `mur mcp discover`".to_owned(),
            tools => count(tools as u64, "tool"),
        };
        text.push_str(&format!(
            "{}  {}{off}\n  {} {}\n  {DIM}{tools}{DIM:#}\n",
            connection.id,
            name(&connection.name),
            connection.reach.as_str(),
            name(&target(&connection.reach)),
        ));
        for grant in record.grants().iter().filter(|grant| grant.pinned.connection == connection.id) {
            text.push_str(&granted_line(grant, standing(grant, connection, catalog, record)));
        }
    }
    let known = |id: &str| record.all().iter().any(|connection| connection.id == id);
    for grant in record.grants().iter().filter(|grant| !known(&grant.pinned.connection)) {
        text.push_str(&format!("{}  (a mod)\n", name(&grant.pinned.connection)));
        text.push_str(&granted_line(grant, grant.suspended.map(|_| "suspended")));
    }
    text
}

fn granted_line(grant: &Grant, suspended: Option<&str>) -> String {
    let suspended = suspended.map(|why| format!(" ({why})")).unwrap_or_default();
    format!("  {} may call {}{suspended}\n", name(&grant.pinned.agent), name(&grant.pinned.tool))
}

pub(super) fn updated(id: &str, suspended: usize) -> String {
    format!("{id}: updated; {} suspended\n", count(suspended as u64, "grant"))
}

pub(super) fn granted(agent: &str, id: &str, tools: &[String], verb: &str) -> String {
    let tools: Vec<String> = tools.iter().map(|tool| name(tool)).collect();
    format!("{} {verb} {} of {}\n", name(agent), tools.join(", "), name(id))
}

pub(super) fn catalog_json(connection: &Connection, catalog: &Catalog, suspended: usize) -> Value {
    json!({"id": connection.id, "tools": catalog.tools, "suspended_grants": suspended})
}

pub(super) fn catalog(connection: &Connection, catalog: &Catalog, suspended: usize) -> String {
    let mut text = format!("{} offers {}\n", name(&connection.name), count(catalog.tools.len() as u64, "tool"));
    for tool in &catalog.tools {
        match &tool.unusable {
            Some(why) => text.push_str(&format!("\n{} (cannot be used: {})\n", name(&tool.name), name(why))),
            None => text.push_str(&format!("\n{}\n  {DIM}{}{DIM:#}\n", name(&tool.name), name(&tool.description))),
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

fn step(check: Check) -> &'static str {
    match check {
        Check::Settings => "settings",
        Check::Reach => "reach",
        Check::Handshake => "handshake",
        Check::Tools => "tools",
    }
}

pub(super) fn diagnosis_json(connection: &Connection, diagnosis: &Diagnosis, stderr: &str) -> Value {
    let passed = diagnosis
        .passed
        .iter()
        .map(|(check, took)| json!({"step": step(*check), "ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX)}));
    let failed = diagnosis.failed.as_ref().map(|(check, error)| {
        json!({"step": step(*check), "code": error.code(), "message": error.to_string(), "hint": error.hint()})
    });
    let server = diagnosis
        .info
        .as_ref()
        .map(|info| json!({"name": info.name, "version": info.version, "protocol": info.protocol}));
    let unusable = diagnosis.unusable.iter().map(|(tool, why)| json!({"name": tool, "reason": why}));
    json!({
        "id": connection.id,
        "passed": passed.collect::<Vec<_>>(),
        "failed": failed,
        "server": server,
        "usable_tools": diagnosis.usable,
        "unusable_tools": unusable.collect::<Vec<_>>(),
        "stderr": stderr,
    })
}

pub(super) fn diagnosis(connection: &Connection, diagnosis: &Diagnosis, stderr: &str) -> String {
    let mut text = format!("{} {}\n", connection.id, name(&connection.name));
    for (check, took) in &diagnosis.passed {
        text.push_str(&format!("ok    {:<10} {} ms\n", step(*check), took.as_millis()));
    }
    if let Some(info) = &diagnosis.info {
        text.push_str(&format!("      {} {} speaks {}\n", name(&info.name), name(&info.version), name(&info.protocol)));
    }
    match &diagnosis.failed {
        Some((check, error)) => {
            text.push_str(&format!("fail  {:<10} {} [{}]\n", step(*check), name(&error.to_string()), error.code()));
            text.push_str(&format!("      {DIM}hint: {}{DIM:#}\n", error.hint()));
        }
        None => text.push_str(&format!("      {} can be called\n", count(diagnosis.usable as u64, "tool"))),
    }
    for (tool, why) in &diagnosis.unusable {
        text.push_str(&format!("      {} cannot: {}\n", name(tool), name(why)));
    }
    if !stderr.trim().is_empty() {
        text.push_str(&format!("      {DIM}it wrote: {}{DIM:#}\n", name(stderr.trim())));
    }
    text
}
