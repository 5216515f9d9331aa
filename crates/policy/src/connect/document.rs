//! The stored record of connections and grants: its shape, its checks, and the changes that an operator makes.
//!
//! A record that breaks a rule of its shape is no record: it is refused whole, and what it could govern is blocked.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::name::is_agent;
use super::{Catalog, Connection, ConnectionsError, Grant, Pinned, Suspended, check_version};
use crate::Unreadable;

const VERSION: u32 = 1;
/// The most connections and the most grants of a record.
pub(super) const MOST: usize = 10_000;

/// All connections and grants of a store.
///
/// ```
/// use policy::{Catalog, CatalogTool, Connection, Connections, Lifecycle, Reach, Standing};
/// # use std::collections::BTreeMap;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut record = Connections::default();
/// record.put(Connection {
///     id: "c1".to_owned(),
///     name: "Tickets".to_owned(),
///     enabled: true,
///     reach: Reach::Http { url: "https://tickets.example/mcp".to_owned() },
///     lifecycle: Lifecycle::Ephemeral,
///     variables: BTreeMap::new(),
///     secrets: BTreeMap::new(),
///     adapter: None,
///     secret_rules: Vec::new(),
///     resolver: None,
/// })?;
/// let tool = CatalogTool {
///     name: "search".to_owned(),
///     description: String::new(),
///     input_schema: serde_json::json!({"type": "object"}),
///     definition: "a5".repeat(32),
///     unusable: None,
///     mod_authorized: false,
/// };
/// let catalog = Catalog::new(vec![tool.clone()]);
///
/// let tickets = record.select("tickets").ok_or("one has this name")?.clone();
/// let standing = |record: &Connections, catalog: &Catalog| {
///     Standing::of("triage", &tickets, "search", (record, catalog))
/// };
/// assert_eq!(standing(&record, &catalog), Standing::ToolNotGranted);
/// record.grant("triage", &tickets, "search", &catalog)?;
/// assert_eq!(standing(&record, &catalog), Standing::Granted);
/// let other = Catalog::new(vec![CatalogTool { definition: "b6".repeat(32), ..tool }]);
/// assert_eq!(standing(&record, &other), Standing::ToolChanged);
/// # Ok(()) }
/// ```
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

impl Connections {
    /// Reads a stored record; none is an empty one.
    ///
    /// # Errors
    /// When it is not one, is of another version, or breaks a rule of its shape.
    pub fn parse(text: Option<&str>) -> Result<Self, Unreadable> {
        let Some(text) = text else { return Ok(Self::default()) };
        let bad = |what: String| Unreadable::new(format!("the stored connections are not valid: {what}"));
        check_version(text, VERSION).map_err(bad)?;
        let record: Self = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        for (what, count) in [("connections", record.connections.len()), ("grants", record.grants.len())] {
            if count > MOST {
                return Err(bad(format!("there are {count} {what}")));
            }
        }
        let mut ids = HashSet::new();
        for (index, connection) in record.connections.iter().enumerate() {
            if let Some(fault) = connection.unfit() {
                return Err(bad(format!("connections.{index} {fault}")));
            }
            if !ids.insert(&connection.id) {
                return Err(bad(format!("connections.{index} has an id that stands twice")));
            }
        }
        let mut given = HashSet::new();
        for (index, Grant { pinned, .. }) in record.grants.iter().enumerate() {
            if !pinned.is_whole() {
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
        self.grants.iter().find(|grant| grant.pinned.is_for(agent, connection, tool))
    }

    /// The same with the mods of a session, which are never stored. What is no mod, by its id and by how it is
    /// reached, or has the id of another one, is left out: it could stand for a connection of the operator's.
    #[must_use]
    pub fn with_mods(&self, mods: impl IntoIterator<Item = Connection>) -> Self {
        let mut joined = self.clone();
        for one in mods {
            if one.is_mod() && joined.connections.iter().all(|other| other.id != one.id) {
                joined.connections.push(one);
            }
        }
        joined
    }

    /// Adds a connection, or replaces the one of its id; grants for settings that are no more are suspended.
    ///
    /// # Errors
    /// When it cannot be used as it is described, or there are too many.
    pub fn put(&mut self, connection: Connection) -> Result<(), ConnectionsError> {
        if let Some(fault) = connection.unfit() {
            return Err(ConnectionsError::Unfit { name: connection.name, fault });
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
        let removed = self.selected(provider)?.clone();
        self.grants.retain(|grant| grant.pinned.connection != removed.id);
        self.connections.retain(|connection| connection.id != removed.id);
        Ok(removed)
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
        self.give(pin(agent, connection, tool, catalog)?)
    }

    /// Grants several tools, and gives what the grants rest on. When one of them cannot be granted none is.
    ///
    /// # Errors
    /// As [`grant`](Self::grant).
    pub fn grant_all(
        &mut self,
        agent: &str,
        connection: &Connection,
        tools: &[String],
        catalog: &Catalog,
    ) -> Result<Vec<Pinned>, ConnectionsError> {
        let pinned = tools.iter().map(|tool| pin(agent, connection, tool, catalog)).collect::<Result<Vec<_>, _>>()?;
        let mut granted = self.clone();
        pinned.iter().try_for_each(|one| granted.give(one.clone()))?;
        *self = granted;
        Ok(pinned)
    }

    fn give(&mut self, pinned: Pinned) -> Result<(), ConnectionsError> {
        self.grants.retain(|grant| !grant.pinned.is_for(&pinned.agent, &pinned.connection, &pinned.tool));
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
        self.grants.retain(|grant| !grant.pinned.is_for(agent, connection, tool));
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

    /// Suspends every grant for a connection that a catalog does not bear out; how many held before. A tool that it
    /// does not list is not another one: its grant holds again when the tool comes back as it was.
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

/// What a grant of this tool rests on, as it and the connection are now.
fn pin(agent: &str, connection: &Connection, tool: &str, catalog: &Catalog) -> Result<Pinned, ConnectionsError> {
    if !is_agent(agent) {
        return Err(ConnectionsError::Agent(agent.to_owned()));
    }
    let missing = || ConnectionsError::Tool { connection: connection.name.clone(), tool: tool.to_owned() };
    let offered = catalog.find(tool).ok_or_else(missing)?;
    if let Some(why) = &offered.unusable {
        return Err(ConnectionsError::Unusable { tool: tool.to_owned(), why: why.clone() });
    }
    Ok(Pinned {
        agent: agent.to_owned(),
        connection: connection.id.clone(),
        tool: tool.to_owned(),
        definition: offered.definition.clone(),
        settings: connection.settings(),
    })
}
