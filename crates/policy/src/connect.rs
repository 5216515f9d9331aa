//! What an agent may call at a server of the operator's: connections, what they offer, and who may call which tool.
//!
//! Saving a connection or looking at what it offers grants nothing. A grant is one triple of agent, connection and
//! tool, and it pins what the operator saw: the tool's definition and the connection's settings. When either is
//! another now, the grant is suspended until it is given again. All of this is read anew at both reviews, for
//! every transport. How a server is reached is no business of this module.

mod catalog;
mod connection;
mod document;
mod error;
mod facts;
mod grant;
mod judge;
mod name;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use vocab::BoxFuture;

use crate::Unreadable;

pub use catalog::{Catalog, CatalogTool};
pub use connection::{Adapter, Connection, Lifecycle, Reach, SecretRule, Unfit};
pub use document::Connections;
pub use error::ConnectionsError;
pub use facts::McpFacts;
pub use grant::{Grant, Pinned, Suspended};
pub(crate) use judge::judge;
pub use judge::{ClearedCall, Standing};

/// A source of connections, grants and catalogs: the settings store, or a value held in memory.
pub trait Connectors: fmt::Debug + Send + Sync {
    /// The connections and grants that hold now. An implementation answers within its own time limit.
    fn current(&self) -> BoxFuture<'_, Result<Arc<Connections>, Unreadable>>;

    /// What the connection of this id was last seen to offer; nothing before anybody looked.
    fn catalog<'a>(&'a self, connection: &'a str) -> BoxFuture<'a, Result<Arc<Catalog>, Unreadable>>;

    /// Takes note that a tool is not any more what was granted. The grant stays suspended even if the tool becomes
    /// again what it was.
    fn suspend<'a>(&'a self, pinned: &'a Pinned) -> BoxFuture<'a, Result<(), Unreadable>>;
}

/// Connections held in memory: for a session without a store, and for tests.
#[derive(Debug, Default)]
pub struct FixedConnections {
    now: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    connections: Arc<Connections>,
    catalogs: Vec<(String, Arc<Catalog>)>,
}

impl FixedConnections {
    /// No connections.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Replaces what holds, from the next action on.
    pub fn set(&self, connections: Connections) {
        self.held().connections = Arc::new(connections);
    }

    /// Replaces what a connection offers.
    pub fn offer(&self, connection: &str, catalog: Catalog) {
        let mut held = self.held();
        held.catalogs.retain(|(id, _)| id != connection);
        held.catalogs.push((connection.to_owned(), Arc::new(catalog)));
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connectors for FixedConnections {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Connections>, Unreadable>> {
        let now = Arc::clone(&self.held().connections);
        Box::pin(std::future::ready(Ok(now)))
    }

    fn catalog<'a>(&'a self, connection: &'a str) -> BoxFuture<'a, Result<Arc<Catalog>, Unreadable>> {
        let held = self.held();
        let found = held.catalogs.iter().find(|(id, _)| id == connection).map(|(_, catalog)| Arc::clone(catalog));
        Box::pin(std::future::ready(Ok(found.unwrap_or_default())))
    }

    fn suspend<'a>(&'a self, pinned: &'a Pinned) -> BoxFuture<'a, Result<(), Unreadable>> {
        Arc::make_mut(&mut self.held().connections).suspend(pinned);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Whether a stored text is of this version; the words for what it is otherwise. Asked before anything else of it is
/// read, because a newer one may have a shape that is not known here.
fn check_version(text: &str, known: u32) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if version == known {
        Ok(())
    } else {
        Err(format!("it has the version {version}, and {known} is the one that is known here"))
    }
}
