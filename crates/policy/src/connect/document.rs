//! The stored record of connections and grants: its shape, its checks, and the changes that an operator makes.
//!
//! A record that breaks a rule of its shape is no record: it is refused whole, and what it could govern is blocked.
//! Secret values stand here sealed; the settings' digest covers them as they are sealed, so that a new value is a
//! change like any other.

use std::collections::{BTreeMap, HashSet};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::Catalog;
use super::name::{is_id, is_mod, is_name, is_tool};
use crate::Unreadable;

const VERSION: u32 = 1;
/// The most connections and the most grants of a record.
const MOST: usize = 10_000;

/// All connections and grants of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    version: u32,
    connections: Vec<Connection>,
    grants: Vec<Grant>,
}

impl Default for Connections {
    fn default() -> Self {
        Self { version: VERSION, connections: Vec::new(), grants: Vec::new() }
    }
}

/// One configured server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// `[A-Za-z0-9_-]{1,64}`, unique; `mod.<id>` for a mod.
    pub id: String,
    /// What people call it. Several may have the same.
    pub name: String,
    /// Whether it may be used.
    pub enabled: bool,
    /// How it is reached.
    pub reach: Reach,
    /// How long it lives.
    #[serde(default)]
    pub lifecycle: Lifecycle,
    /// Sealed values: `env.<NAME>` for a variable of a process, `bearer` for the token of an HTTP server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// What kind of credentials provider it is, if it is one that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    /// What is secret in the results of its tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_rules: Vec<SecretRule>,
    /// The tool that gives the value of a managed reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<String>,
}

/// The way to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reach {
    /// A process that is spoken to on its stdin and stdout.
    Stdio {
        /// The program: a path or a name in `PATH`.
        command: String,
        /// Its arguments.
        #[serde(default)]
        args: Vec<String>,
    },
    /// Streamable HTTP.
    Http {
        /// Its address.
        url: String,
    },
    /// A mod of a session: never stored.
    Mod {
        /// What its package consists of, in a digest.
        package: String,
    },
}

impl Reach {
    /// The transport's name.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
            Self::Mod { .. } => "mod",
        }
    }
}

/// How long a connection lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// As long as one call.
    #[default]
    Ephemeral,
    /// From the first call on, until it was idle for a while.
    KeepAlive,
}

impl Lifecycle {
    /// As it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ephemeral => "ephemeral",
            Self::KeepAlive => "keep_alive",
        }
    }
}

/// A provider of credentials whose answers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// Bitwarden's server: passwords and items.
    Bitwarden,
    /// HashiCorp Vault, KV version 2.
    Vault,
    /// 1Password items.
    OnePassword,
}

/// What is secret in the results of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretRule {
    /// The tool's exact name.
    pub tool: String,
    /// JSON pointers (RFC 6901) into its result.
    pub pointers: Vec<String>,
}

/// The right of one agent to call one tool of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Whose it is, and for what.
    pub pinned: Pinned,
    /// Why it does not hold until it is given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspended>,
}

/// A grant with what the operator saw when it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pinned {
    /// The agent: a capsule's name.
    pub agent: String,
    /// The connection's id.
    pub connection: String,
    /// The tool's exact name.
    pub tool: String,
    /// The digest of the tool's definition.
    pub definition: String,
    /// The digest of the connection's settings.
    pub settings: String,
}

/// What changed under a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspended {
    /// The tool's description or input schema.
    Definition,
    /// The connection's command, address or environment.
    Settings,
}

/// Why a change of the record is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionsError {
    /// Not a usable name.
    #[error("`{0}` cannot name a connection")]
    Name(String),
    /// No such connection, or several of that name.
    #[error("`{0}` is neither the id of a connection nor the name of exactly one")]
    Selected(String),
    /// No such tool in its catalog.
    #[error("the connection `{connection}` offers no tool `{tool}`")]
    Tool {
        /// The connection's name.
        connection: String,
        /// The tool.
        tool: String,
    },
    /// The tool cannot be called.
    #[error("the tool `{tool}` cannot be used: {why}")]
    Unusable {
        /// The tool.
        tool: String,
        /// Why.
        why: String,
    },
    /// No such grant.
    #[error("`{agent}` has no grant for `{tool}` of `{connection}`")]
    NotGranted {
        /// The agent.
        agent: String,
        /// The connection's name.
        connection: String,
        /// The tool.
        tool: String,
    },
    /// An agent's name that none can have.
    #[error("`{0}` cannot be the name of a capsule")]
    Agent(String),
    /// The record is full.
    #[error("there are {MOST} already, and no more are taken")]
    Full,
}

impl ConnectionsError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Name(_) => {
                "1 to 64 letters, digits, spaces and `_-.:@+()`, without a space at either end, and not beginning with `mod.`"
            }
            Self::Selected(_) => "`mur mcp list` shows ids and names",
            Self::Tool { .. } => "names are exact; `mur mcp discover` shows what it offers",
            Self::Unusable { .. } => "only its server can change that",
            Self::NotGranted { .. } => "`mur mcp list` shows who has what",
            Self::Agent(_) => "it is the `name` of the capsule's manifest",
            Self::Full => "remove what is not used",
        }
    }
}

impl Connection {
    /// The digest of what a grant rests on beside the tool: transport, command or address, arguments and sealed
    /// values. Whether it is enabled, what it is called and how long it lives are not part of it.
    #[must_use]
    pub fn settings(&self) -> String {
        let text = serde_json::json!([self.reach, self.secrets]).to_string();
        digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn fault(&self) -> Option<&'static str> {
        let well_reached = match &self.reach {
            Reach::Stdio { command, .. } => !command.is_empty(),
            Reach::Http { url } => url.starts_with("http://") || url.starts_with("https://"),
            Reach::Mod { .. } => false,
        };
        match () {
            () if !is_id(&self.id) => Some("has an id that is none"),
            () if !is_name(&self.name) => Some("has a name that is none"),
            () if !well_reached => Some("says no way to reach it"),
            () => None,
        }
    }
}

impl Connections {
    /// Reads a stored record; none is an empty one.
    ///
    /// # Errors
    /// When it is not one, is of another version, or breaks a rule of its shape.
    pub fn parse(text: Option<&str>) -> Result<Self, Unreadable> {
        let Some(text) = text else { return Ok(Self::default()) };
        let bad = |what: String| Unreadable::new(format!("the stored connections are not valid: {what}"));
        let record: Self = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        if record.version != VERSION {
            return Err(bad(format!("their version is {}", record.version)));
        }
        let mut ids = HashSet::new();
        for (index, connection) in record.connections.iter().enumerate() {
            if let Some(fault) = connection.fault() {
                return Err(bad(format!("connections.{index} {fault}")));
            }
            if !ids.insert(&connection.id) {
                return Err(bad(format!("connections.{index} has an id that stands twice")));
            }
        }
        let mut given = HashSet::new();
        for (index, Grant { pinned, .. }) in record.grants.iter().enumerate() {
            let known = is_id(&pinned.connection) || is_mod(&pinned.connection);
            if !known || pinned.agent.is_empty() || !is_tool(&pinned.tool) {
                return Err(bad(format!("grants.{index} names nothing")));
            }
            if !given.insert((&pinned.agent, &pinned.connection, &pinned.tool)) {
                return Err(bad(format!("grants.{index} stands twice")));
            }
        }
        Ok(record)
    }

    /// As it is stored.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::json!({"version": VERSION, "connections": self.connections, "grants": self.grants}).to_string()
    }

    /// The connections, as they were added.
    #[must_use]
    pub fn all(&self) -> &[Connection] {
        &self.connections
    }

    /// The grants, as they were given.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The connection of this exact id, or the one connection of this name whatever its case. An ambiguous name is
    /// none.
    #[must_use]
    pub fn select(&self, provider: &str) -> Option<&Connection> {
        if let Some(exact) = self.connections.iter().find(|connection| connection.id == provider) {
            return Some(exact);
        }
        let wanted = provider.to_lowercase();
        let mut named = self.connections.iter().filter(|connection| connection.name.to_lowercase() == wanted);
        named.next().filter(|_| named.next().is_none())
    }

    /// The grant of this agent for this tool of the connection with this id, suspended or not.
    #[must_use]
    pub fn grant_of(&self, agent: &str, connection: &str, tool: &str) -> Option<&Grant> {
        let is_it = |pinned: &Pinned| (&*pinned.agent, &*pinned.connection, &*pinned.tool) == (agent, connection, tool);
        self.grants.iter().find(|grant| is_it(&grant.pinned))
    }

    /// The same with the mods of a session, which are never stored.
    #[must_use]
    pub fn with_mods(&self, mods: impl IntoIterator<Item = Connection>) -> Self {
        let mut joined = self.clone();
        joined.connections.extend(mods);
        joined
    }

    /// Adds a connection, or replaces the one of its id; grants for settings that are no more are suspended.
    ///
    /// # Errors
    /// When its name is none, or there are too many.
    pub fn put(&mut self, connection: Connection) -> Result<(), ConnectionsError> {
        if connection.fault().is_some() {
            return Err(ConnectionsError::Name(connection.name));
        }
        let (id, settings) = (connection.id.clone(), connection.settings());
        let is_full = self.connections.len() >= MOST;
        match self.connections.iter_mut().find(|other| other.id == id) {
            Some(other) => *other = connection,
            None if is_full => return Err(ConnectionsError::Full),
            None => self.connections.push(connection),
        }
        for grant in self.grants.iter_mut().filter(|grant| grant.pinned.connection == id) {
            if grant.pinned.settings != settings {
                grant.suspended.get_or_insert(Suspended::Settings);
            }
        }
        Ok(())
    }

    /// Removes a connection and every grant for it.
    ///
    /// # Errors
    /// When there is no such one.
    pub fn remove(&mut self, provider: &str) -> Result<Connection, ConnectionsError> {
        let id = self.selected(provider)?.id.clone();
        self.grants.retain(|grant| grant.pinned.connection != id);
        let at = self.connections.iter().position(|connection| connection.id == id);
        at.map(|at| self.connections.remove(at)).ok_or_else(|| ConnectionsError::Selected(provider.to_owned()))
    }

    /// Lets a connection be used, or not.
    ///
    /// # Errors
    /// When there is no such one.
    pub fn enable(&mut self, provider: &str, enabled: bool) -> Result<(), ConnectionsError> {
        let id = self.selected(provider)?.id.clone();
        self.connections.iter_mut().filter(|connection| connection.id == id).for_each(|one| one.enabled = enabled);
        Ok(())
    }

    /// Grants a tool, as it and the connection are now.
    ///
    /// # Errors
    /// When the catalog holds no such tool, or one that cannot be used.
    pub fn grant(
        &mut self,
        agent: &str,
        connection: &Connection,
        tool: &str,
        catalog: &Catalog,
    ) -> Result<(), ConnectionsError> {
        if agent.is_empty() || agent.contains(char::is_control) {
            return Err(ConnectionsError::Agent(agent.to_owned()));
        }
        let missing = || ConnectionsError::Tool { connection: connection.name.clone(), tool: tool.to_owned() };
        let offered = catalog.find(tool).ok_or_else(missing)?;
        if let Some(why) = &offered.unusable {
            return Err(ConnectionsError::Unusable { tool: tool.to_owned(), why: why.clone() });
        }
        let pinned = Pinned {
            agent: agent.to_owned(),
            connection: connection.id.clone(),
            tool: tool.to_owned(),
            definition: offered.definition.clone(),
            settings: connection.settings(),
        };
        self.grants.retain(|grant| !grant.pinned.is_for(&pinned));
        if self.grants.len() >= MOST {
            return Err(ConnectionsError::Full);
        }
        self.grants.push(Grant { pinned, suspended: None });
        Ok(())
    }

    /// Takes a grant back.
    ///
    /// # Errors
    /// When there is none.
    pub fn revoke(&mut self, agent: &str, connection: &str, tool: &str) -> Result<(), ConnectionsError> {
        let before = self.grants.len();
        let is_it = |pinned: &Pinned| (&*pinned.agent, &*pinned.connection, &*pinned.tool) == (agent, connection, tool);
        self.grants.retain(|grant| !is_it(&grant.pinned));
        if self.grants.len() == before {
            let [agent, connection, tool] = [agent, connection, tool].map(str::to_owned);
            return Err(ConnectionsError::NotGranted { agent, connection, tool });
        }
        Ok(())
    }

    /// Suspends a grant whose tool is not any more what was granted; whether it was there and held.
    pub fn suspend(&mut self, pinned: &Pinned) -> bool {
        let held = self.grants.iter_mut().find(|grant| grant.pinned == *pinned && grant.suspended.is_none());
        held.map(|grant| grant.suspended = Some(Suspended::Definition)).is_some()
    }

    /// Suspends every grant for a connection that a catalog does not bear out; how many held before.
    pub fn compare(&mut self, connection: &str, catalog: &Catalog) -> usize {
        let of = self.grants.iter_mut().filter(|grant| grant.pinned.connection == connection);
        let changed = of.filter(|grant| {
            grant.suspended.is_none()
                && catalog.find(&grant.pinned.tool).is_some_and(|tool| tool.definition != grant.pinned.definition)
        });
        changed.map(|grant| grant.suspended = Some(Suspended::Definition)).count()
    }

    fn selected(&self, provider: &str) -> Result<&Connection, ConnectionsError> {
        self.select(provider).ok_or_else(|| ConnectionsError::Selected(provider.to_owned()))
    }
}

impl Pinned {
    fn is_for(&self, other: &Self) -> bool {
        (&self.agent, &self.connection, &self.tool) == (&other.agent, &other.connection, &other.tool)
    }
}
