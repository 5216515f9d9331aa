//! What `mur mcp diagnose` found: how far the server can be used, and what one agent may do with it.
//!
//! The server is asked; the agent's rights are what the store and its manifest say, judged as a call is judged.

use manifest::{BuiltinTool, Loaded};
use mcp::{Check, Diagnosis};
use policy::{Catalog, Connection, Connections, Standing};
use serde_json::{Value, json};

use super::MOD;
use super::shown::{few, name};
use crate::client::DIM;
use crate::terminal::count;

/// What was found out about one connection.
pub(super) struct Report {
    pub(super) connection: Connection,
    pub(super) diagnosis: Diagnosis,
    pub(super) agent: Option<Agent>,
    pub(super) stderr: String,
}

/// What one agent may call.
pub(super) struct Agent {
    name: String,
    /// Whether its manifest offers it the tools to call with.
    has_mcp: bool,
    tools: Vec<(String, Standing)>,
}

impl Agent {
    /// Of each tool that is stored, and of each that was granted.
    pub(super) fn of(loaded: &Loaded, connection: &Connection, (record, catalog): (&Connections, &Catalog)) -> Self {
        let manifest = &loaded.manifest;
        let name = manifest.name.as_str();
        let offered = catalog.tools.iter().filter(|tool| tool.unusable.is_none()).map(|tool| tool.name.as_str());
        let is_its_own = |pinned: &policy::Pinned| pinned.agent == name && pinned.connection == connection.id;
        let granted = record.grants().iter().filter(|grant| is_its_own(&grant.pinned));
        let gone = granted.map(|grant| grant.pinned.tool.as_str()).filter(|tool| catalog.find(tool).is_none());
        let standing = |tool: &str| Standing::of(name, connection, tool, (record, catalog));
        let tools = offered.chain(gone).map(|tool| (tool.to_owned(), standing(tool))).collect();
        Self { name: name.to_owned(), has_mcp: manifest.grants(BuiltinTool::Mcp), tools }
    }

    fn can_call(&self) -> bool {
        self.has_mcp && self.tools.iter().any(|(_, standing)| *standing == Standing::Granted)
    }

    fn to_json(&self) -> Value {
        let tools = self.tools.iter().map(|(tool, standing)| {
            let reason = standing.code().map(|_| standing.reason());
            json!({"name": tool, "callable": self.has_mcp && reason.is_none(), "code": standing.code(), "reason": reason})
        });
        json!({"name": self.name, "has_mcp": self.has_mcp, "tools": tools.collect::<Vec<_>>()})
    }

    fn add_to(&self, text: &mut String, connection: &str) {
        let agent = name(&self.name);
        if !self.has_mcp {
            text.push_str(&format!("fail  {:<10} {agent} has no tool `mcp`\n", "agent"));
            text.push_str(&format!("      {DIM}hint: list `mcp` under `capabilities.tools` of its manifest{DIM:#}\n"));
        }
        let all = [
            Standing::Granted,
            Standing::ProviderNotAvailable,
            Standing::ToolNotFound,
            Standing::ToolNotGranted,
            Standing::ToolChanged,
        ];
        for standing in all {
            let tools: Vec<&str> =
                self.tools.iter().filter(|(_, of)| *of == standing).map(|(tool, _)| tool.as_str()).collect();
            if tools.is_empty() {
                continue;
            }
            match standing.code() {
                None => text.push_str(&format!("ok    {:<10} {agent} may call {}\n", "grants", few(&tools))),
                Some(code) => {
                    text.push_str(&format!("      {agent} may not call {} [{code}]\n", few(&tools)));
                    text.push_str(&format!("      {DIM}{}{DIM:#}\n", standing.reason()));
                }
            }
        }
        if self.tools.is_empty() {
            let hint = format!("`mur mcp discover {connection}` stores what it offers, then `mur mcp grant`");
            text.push_str(&format!("      nothing is known of its tools\n      {DIM}hint: {hint}{DIM:#}\n"));
        } else if self.has_mcp && !self.can_call() {
            text.push_str(&format!("fail  {:<10} {agent} may call none of its tools\n", "grants"));
        }
    }
}

fn step(check: Check) -> &'static str {
    match check {
        Check::Settings => "settings",
        Check::Reach => "reach",
        Check::Handshake => "handshake",
        Check::Tools => "tools",
    }
}

impl Report {
    /// Whether the server can be used, is let be used, and the agent, if one was named, may call something of it.
    pub(super) fn is_well(&self) -> bool {
        self.diagnosis.is_well() && self.connection.enabled && self.agent.as_ref().is_none_or(Agent::can_call)
    }

    /// Where a session keeps what the server writes to stderr; nothing for one that is no process.
    fn log(&self) -> Option<String> {
        (self.connection.reach.as_str() != "http").then(|| format!("logs/mcp-{}.stderr.log", self.connection.id))
    }

    fn hint(&self, error: &mcp::Error) -> String {
        if self.connection.id.starts_with(MOD) {
            return "`command` in the `murmur.yaml` of the mod's package says what is started".to_owned();
        }
        error.hint()
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { connection, diagnosis, .. } = self;
        let passed = diagnosis.passed.iter().map(
            |(check, took)| json!({"step": step(*check), "ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX)}),
        );
        let failed = diagnosis.failed.as_ref().map(|(check, error)| {
            json!({"step": step(*check), "code": error.code(), "message": error.to_string(), "hint": self.hint(error)})
        });
        let server = diagnosis
            .info
            .as_ref()
            .map(|info| json!({"name": info.name, "version": info.version, "protocol": info.protocol}));
        let unusable = diagnosis.unusable.iter().map(|(tool, why)| json!({"name": tool, "reason": why}));
        json!({
            "id": connection.id,
            "enabled": connection.enabled,
            "passed": passed.collect::<Vec<_>>(),
            "failed": failed,
            "server": server,
            "usable_tools": diagnosis.usable,
            "unusable_tools": unusable.collect::<Vec<_>>(),
            "agent": self.agent.as_ref().map(Agent::to_json),
            "log": self.log(),
            "stderr": self.stderr,
        })
    }

    pub(super) fn to_text(&self) -> String {
        let Self { connection, diagnosis, .. } = self;
        let mut text = format!("{} {}\n", connection.id, name(&connection.name));
        if !connection.enabled {
            text.push_str(&format!("fail  {:<10} the connection is disabled, so no agent can call it\n", "enabled"));
            text.push_str(&format!("      {DIM}hint: `mur mcp enable {}`{DIM:#}\n", connection.id));
        }
        for (check, took) in &diagnosis.passed {
            text.push_str(&format!("ok    {:<10} {} ms\n", step(*check), took.as_millis()));
        }
        if let Some(info) = &diagnosis.info {
            let [called, version, protocol] = [&info.name, &info.version, &info.protocol].map(|word| name(word));
            text.push_str(&format!("      {called} {version} speaks {protocol}\n"));
        }
        match &diagnosis.failed {
            Some((check, error)) => {
                text.push_str(&format!("fail  {:<10} {} [{}]\n", step(*check), name(&error.to_string()), error.code()));
                text.push_str(&format!("      {DIM}hint: {}{DIM:#}\n", self.hint(error)));
            }
            None => text.push_str(&format!("      {} can be called\n", count(diagnosis.usable as u64, "tool"))),
        }
        for (tool, why) in &diagnosis.unusable {
            text.push_str(&format!("      {} cannot: {}\n", name(tool), name(why)));
        }
        if let Some(agent) = &self.agent {
            agent.add_to(&mut text, &connection.id);
        }
        if !self.stderr.trim().is_empty() {
            text.push_str(&format!("      {DIM}it wrote: {}{DIM:#}\n", name(self.stderr.trim())));
        }
        if let Some(log) = self.log() {
            text.push_str(&format!("      {DIM}in a session it writes to `{log}` in the workdir{DIM:#}\n"));
        }
        text
    }
}
