//! The connections, grants and catalogs that the store holds: as `policy` asks for them at each review, and as an
//! operator changes them.
//!
//! The record of connections and grants is one document and each catalog another. What belongs together changes in
//! one transaction: a catalog is saved with the suspensions that it causes, and goes with its connection, so that no
//! crash leaves a grant standing beside a catalog that speaks against it. A record that cannot be read blocks every
//! call, is told apart from none, and is not written over; nothing is saved that could not be read again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use policy::{Catalog, Connection, Connections, ConnectionsError, Connectors, Pinned, Unreadable};
use vocab::BoxFuture;

use crate::{Change, Document, Edit, Live, MCP_CONNECTIONS, Store, StoreError};

/// How many catalogs are kept compiled. More are read and parsed again.
const KEPT: usize = 64;

type Parse<T> = fn(Option<&str>) -> Result<T, Unreadable>;
type LiveCatalog = Live<Catalog, Parse<Catalog>>;

/// The connections, grants and catalogs of a store, each compiled once per change.
#[derive(Debug)]
pub struct StoredConnectors {
    store: Arc<Store>,
    who: String,
    record: Live<Connections, Parse<Connections>>,
    /// By the connection's id, the one that was asked for last at the end.
    catalogs: Mutex<VecDeque<(String, Arc<LiveCatalog>)>>,
}

impl StoredConnectors {
    /// Of this store. What is noted of changed tools stands in the log as done by `who`: `session <id>@<host>`.
    #[must_use]
    pub fn new(store: Arc<Store>, who: impl Into<String>) -> Self {
        let record = Live::new(Arc::clone(&store), MCP_CONNECTIONS, Connections::parse as Parse<Connections>);
        Self { store, who: who.into(), record, catalogs: Mutex::default() }
    }

    fn live(&self, connection: &str) -> Arc<LiveCatalog> {
        let mut kept = self.catalogs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|(id, _)| id == connection).and_then(|at| kept.remove(at));
        let (id, live) = known.unwrap_or_else(|| {
            let make = Catalog::parse as Parse<Catalog>;
            (connection.to_owned(), Arc::new(Live::new(Arc::clone(&self.store), &catalog_key(connection), make)))
        });
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((id, Arc::clone(&live)));
        live
    }

    async fn note(&self, pinned: &Pinned) -> Result<(), Unreadable> {
        let holds = |record: &Connections| {
            record.grants().iter().any(|grant| grant.suspended.is_none() && grant.pinned == *pinned)
        };
        // Without the lock: most that is noted twice is noted already.
        if !holds(&*self.record.current().await?) {
            return Ok(());
        }
        let detail = format!("{} {} {}", pinned.agent, pinned.connection, pinned.tool);
        let change = Change { who: &self.who, action: "mcp.suspend", detail: Some(&detail) };
        let suspended = self.store.update_connections(&change, |record| Ok::<_, StoreError>(record.suspend(pinned)));
        suspended.await.map(drop).map_err(Unreadable::from)
    }
}

impl Connectors for StoredConnectors {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Connections>, Unreadable>> {
        Box::pin(self.record.current())
    }

    fn catalog<'a>(&'a self, connection: &'a str) -> BoxFuture<'a, Result<Arc<Catalog>, Unreadable>> {
        let live = self.live(connection);
        Box::pin(async move { live.current().await })
    }

    fn suspend<'a>(&'a self, pinned: &'a Pinned) -> BoxFuture<'a, Result<(), Unreadable>> {
        Box::pin(self.note(pinned))
    }
}

impl Store {
    /// The connections and grants of now.
    ///
    /// # Errors
    /// When the store cannot be read, and [`StoreError::Record`] when what it holds cannot.
    pub async fn connections(&self) -> Result<Connections, StoreError> {
        self.record(self.document(MCP_CONNECTIONS).await?.as_ref(), Connections::parse)
    }

    /// What the connection of this id was last seen to offer; nothing before anybody looked.
    ///
    /// # Errors
    /// As [`connections`](Self::connections).
    pub async fn catalog(&self, connection: &str) -> Result<Catalog, StoreError> {
        self.record(self.document(&catalog_key(connection)).await?.as_ref(), Catalog::parse)
    }

    /// Changes connections and grants as `edit` says, which sees them while nobody else can change them. The catalog
    /// of a connection that is gone, or is reached in another way, goes as well. An error of `edit` leaves everything
    /// as it is, and an edit that changes nothing leaves no row in the log.
    ///
    /// ```
    /// # use policy::ConnectionsError;
    /// # use store::{Change, Store, StoreError};
    /// #[derive(Debug)]
    /// enum Error {
    ///     Store(StoreError),
    ///     Record(ConnectionsError),
    /// }
    /// # impl From<StoreError> for Error { fn from(error: StoreError) -> Self { Self::Store(error) } }
    ///
    /// async fn disable(store: &Store, provider: &str) -> Result<(), Error> {
    ///     let change = Change { who: "ann@laptop", action: "mcp.disable", detail: Some(provider) };
    ///     store.update_connections(&change, |record| record.enable(provider, false).map_err(Error::Record)).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of `edit`, those of [`connections`](Self::connections), and whatever keeps the store from being written.
    pub async fn update_connections<T, E: From<StoreError>>(
        &self,
        change: &Change<'_>,
        edit: impl FnOnce(&mut Connections) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut editing = self.edit().await?;
        let old = editing.document(MCP_CONNECTIONS).await?;
        let before = self.record(old.as_ref(), Connections::parse)?;
        let mut after = before.clone();
        let done = edit(&mut after)?;
        if after != before {
            let text = sound(MCP_CONNECTIONS, after.to_text(), Connections::parse)?;
            editing.write(MCP_CONNECTIONS, old.as_ref(), Edit::Save(text), change).await?;
            for gone in before.all().iter().filter(|one| !is_still(&after, one)) {
                let key = catalog_key(&gone.id);
                let catalog = editing.document(&key).await?;
                editing.write(&key, catalog.as_ref(), Edit::Remove, change).await?;
            }
        }
        editing.commit().await?;
        Ok(done)
    }

    /// Grants an agent tools of a stored connection, all of them or none, and gives what the grants rest on. The
    /// catalog is read while nobody can change it, so that a look at the server falls before or after: what is pinned
    /// is what is stored at that moment, and the row in the log says which definitions those are.
    ///
    /// # Errors
    /// [`ConnectionsError`] when there is no such connection or tool, those of [`connections`](Self::connections), and
    /// whatever keeps the store from being written.
    pub async fn grant<E: From<StoreError> + From<ConnectionsError>>(
        &self,
        who: &str,
        (agent, provider): (&str, &str),
        tools: &[String],
    ) -> Result<Vec<Pinned>, E> {
        let mut editing = self.edit().await?;
        let old = editing.document(MCP_CONNECTIONS).await?;
        let before = self.record(old.as_ref(), Connections::parse)?;
        let connection = before.select(provider).ok_or_else(|| ConnectionsError::Selected(provider.to_owned()))?;
        let offered = editing.document(&catalog_key(&connection.id)).await?;
        let catalog = self.record(offered.as_ref(), Catalog::parse)?;
        let mut after = before.clone();
        let pinned = after.grant_all(agent, connection, tools, &catalog)?;
        if after != before {
            let detail = granted(&pinned);
            let change = Change { who, action: "mcp.grant", detail: Some(&detail) };
            let text = sound(MCP_CONNECTIONS, after.to_text(), Connections::parse)?;
            editing.write(MCP_CONNECTIONS, old.as_ref(), Edit::Save(text), &change).await?;
        }
        editing.commit().await?;
        Ok(pinned)
    }

    /// Grants an agent tools of a connection that is not stored: a mod of its capsule, as it was looked at.
    ///
    /// # Errors
    /// As [`grant`](Self::grant).
    pub async fn grant_mod<E: From<StoreError> + From<ConnectionsError>>(
        &self,
        who: &str,
        (agent, connection): (&str, &Connection),
        tools: &[String],
        catalog: &Catalog,
    ) -> Result<Vec<Pinned>, E> {
        let pinned = Connections::default().grant_all(agent, connection, tools, catalog)?;
        let detail = granted(&pinned);
        let change = Change { who, action: "mcp.grant", detail: Some(&detail) };
        let edit = |record: &mut Connections| Ok(record.grant_all(agent, connection, tools, catalog)?);
        self.update_connections(&change, edit).await
    }

    /// Saves what a connection was seen to offer, and suspends every grant that it does not bear out; how many those
    /// were. Both happen or neither. What is as it was leaves no row in the log.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the connection is gone or is reached in another way since it was looked at,
    /// those of [`connections`](Self::connections), and whatever keeps the store from being written.
    pub async fn save_catalog(
        &self,
        change: &Change<'_>,
        connection: &Connection,
        catalog: &Catalog,
    ) -> Result<usize, StoreError> {
        let key = catalog_key(&connection.id);
        let text = sound(&key, catalog.to_text(), Catalog::parse)?;
        let mut editing = self.edit().await?;
        let old = editing.document(MCP_CONNECTIONS).await?;
        let mut record = self.record(old.as_ref(), Connections::parse)?;
        if !is_still(&record, connection) {
            return Err(StoreError::Conflict { key: MCP_CONNECTIONS.to_owned() });
        }
        let suspended = record.compare(&connection.id, catalog);
        if suspended > 0 {
            let text = sound(MCP_CONNECTIONS, record.to_text(), Connections::parse)?;
            editing.write(MCP_CONNECTIONS, old.as_ref(), Edit::Save(text), change).await?;
        }
        let old = editing.document(&key).await?;
        let is_same = old.as_ref().is_some_and(|old| old.text == text);
        editing.write(&key, old.as_ref(), if is_same { Edit::Keep } else { Edit::Save(text) }, change).await?;
        editing.commit().await?;
        Ok(suspended)
    }

    fn record<T>(&self, document: Option<&Document>, parse: Parse<T>) -> Result<T, StoreError> {
        let told = |error: Unreadable| StoreError::Record { place: self.place(), why: error.why().to_owned() };
        parse(document.map(|document| document.text.as_str())).map_err(told)
    }
}

/// What was granted, for the log: `AGENT CONNECTION TOOL=DEFINITION …`.
fn granted(pinned: &[Pinned]) -> String {
    let whose = pinned.first().map(|one| format!("{} {}", one.agent, one.connection)).unwrap_or_default();
    pinned.iter().fold(whose, |text, one| format!("{text} {}={}", one.tool, one.definition))
}

fn catalog_key(connection: &str) -> String {
    format!("mcp_catalog.{connection}")
}

/// Whether the record holds this connection, reached in the same way.
fn is_still(record: &Connections, connection: &Connection) -> bool {
    let same = record.all().iter().find(|other| other.id == connection.id);
    same.is_some_and(|same| same.settings() == connection.settings())
}

/// The text, if it can be read again.
fn sound<T>(key: &str, text: String, parse: Parse<T>) -> Result<String, StoreError> {
    match parse(Some(&text)) {
        Ok(_) => Ok(text),
        Err(error) => Err(StoreError::Invalid { key: key.to_owned(), why: error.why().to_owned() }),
    }
}
