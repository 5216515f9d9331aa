//! The store as a schema `murmur` in a PostgreSQL database.
//!
//! One connection is kept for reads and listens for changes; each change has a connection of its own, so that no
//! read can fall into a transaction that is open. A read whose connection turns out to be dead is tried once more
//! on a new one; a change never is, because it might be made twice. A pooler that hands a connection on between
//! statements (PgBouncer in transaction mode) is not supported: it would lose the search path.

mod link;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, watch};

use crate::config::PostgresConfig;
use crate::error::{Damage, Place, StoreError};
use crate::sql::{FORM, GET_FORM, MIGRATIONS, Row, SET_FORM, Value};
use crate::{LOCK_LIMIT, STATEMENT_LIMIT};

use link::{Fault, Link, Purpose};

/// The key of the lock that every change holds: `murmur` in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(120321057715570)";
const NOTIFY: &str = "NOTIFY murmur_changed";
/// How many tables there are, how many of them are the one that says the form, and whether they are hidden: names
/// in a schema that this user may not use are not found, as if they were not there.
const TABLES: &str = "SELECT count(*), count(*) FILTER (WHERE relname = 'store'),
        (SELECT count(*) FROM pg_catalog.pg_namespace
            WHERE nspname = 'murmur' AND NOT has_schema_privilege(oid, 'USAGE'))
    FROM pg_catalog.pg_class WHERE relkind = 'r' AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'murmur')";
const SCHEMAS: &str = "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = 'murmur'";

/// A PostgreSQL database.
#[derive(Debug)]
pub(crate) struct Postgres {
    config: PostgresConfig,
    reader: Mutex<Option<Arc<Link>>>,
    /// Whether the tables were ever there: from then on their absence is a fault.
    seen: Arc<AtomicBool>,
    changes: watch::Sender<u64>,
}

impl Postgres {
    pub(crate) fn new(config: PostgresConfig) -> Self {
        Self { config, reader: Mutex::default(), seen: Arc::default(), changes: watch::Sender::new(0) }
    }

    pub(crate) fn place(&self) -> Place {
        self.config.place.clone()
    }

    /// Fires after changes by anyone, and when the connection that listens is lost.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The rows of a query, and none when there is no store yet.
    pub(crate) async fn read(&self, sql: &'static str, values: Vec<Value>) -> Result<Option<Vec<Row>>, StoreError> {
        let (link, is_new) = self.link().await?;
        match self.read_on(&link, sql, &values).await {
            Err(Fault::Lost(_)) if !is_new => {
                self.forget(&link).await;
                let (link, _) = self.link().await?;
                self.done(&link, self.read_on(&link, sql, &values).await).await
            }
            answer => self.done(&link, answer).await,
        }
    }

    async fn done<T>(&self, link: &Arc<Link>, answer: Result<T, Fault>) -> Result<T, StoreError> {
        match answer {
            Ok(rows) => Ok(rows),
            Err(fault) => {
                if fault.is_final() {
                    self.forget(link).await;
                }
                Err(fault.tell(self.place()))
            }
        }
    }

    async fn read_on(&self, link: &Link, sql: &'static str, values: &[Value]) -> Result<Option<Vec<Row>>, Fault> {
        match link.query(sql, values, STATEMENT_LIMIT).await {
            Ok(rows) => {
                self.seen.store(true, Ordering::Relaxed);
                Ok(Some(rows))
            }
            Err(fault) if fault.is_no_table() => {
                if self.is_there(link).await? {
                    // Made between the two looks.
                    return link.query(sql, values, STATEMENT_LIMIT).await.map(Some);
                }
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Whether the store's tables are there; a part of them, or none where there were some, is a fault.
    async fn is_there(&self, link: &Link) -> Result<bool, Fault> {
        let rows = link.query(TABLES, &[], STATEMENT_LIMIT).await?;
        let mut row = rows.into_iter().next().ok_or(Fault::Damaged(Damage::Row))?;
        match (row.int()?, row.int()?, row.int()?) {
            (_, _, 1..) => Err(Fault::Forbidden),
            (_, 1, _) => {
                self.seen.store(true, Ordering::Relaxed);
                Ok(true)
            }
            (0, ..) if self.seen.load(Ordering::Relaxed) => Err(Fault::Missing),
            (0, ..) => Ok(false),
            _ => Err(Fault::Damaged(Damage::Tables)),
        }
    }

    /// The connection for reads, and whether it was made just now.
    async fn link(&self) -> Result<(Arc<Link>, bool), StoreError> {
        let mut reader = self.reader.lock().await;
        if let Some(link) = reader.as_ref().filter(|link| link.is_open()) {
            return Ok((Arc::clone(link), false));
        }
        *reader = None;
        let link = Arc::new(self.connect(Purpose::Read).await?);
        *reader = Some(Arc::clone(&link));
        Ok((link, true))
    }

    async fn forget(&self, link: &Arc<Link>) {
        let mut reader = self.reader.lock().await;
        if reader.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, link)) {
            *reader = None;
        }
    }

    async fn connect(&self, purpose: Purpose) -> Result<Link, StoreError> {
        Link::connect(&self.config, purpose, &self.changes).await.map_err(|fault| fault.tell(self.place()))
    }

    /// Begins a change: makes the tables when they are missing, brings them to the newest form, and holds their
    /// lock.
    pub(crate) async fn begin(&self) -> Result<Transaction, StoreError> {
        let link = self.connect(Purpose::Change).await?;
        self.prepare(&link, MIGRATIONS).await.map_err(|fault| fault.tell(self.place()))?;
        Ok(Transaction { link, place: self.place(), seen: Arc::clone(&self.seen) })
    }

    async fn prepare(&self, link: &Link, migrations: &[&[&str]]) -> Result<(), Fault> {
        link.batch("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
        link.query(LOCK, &[], LOCK_LIMIT).await?;
        let form = if self.is_there(link).await? { form(link).await? } else { 0 };
        if form > FORM {
            return Err(Fault::Newer(form));
        }
        if form == 0 {
            // Asked first: IF NOT EXISTS wants the right to make one also when there is one.
            let rows = link.query(SCHEMAS, &[], STATEMENT_LIMIT).await?;
            if rows.into_iter().next().is_none_or(|mut row| row.int() != Ok(1)) {
                link.batch("CREATE SCHEMA murmur").await?;
            }
        }
        for (number, statements) in (1..).zip(migrations).filter(|(number, _)| *number > form) {
            for sql in *statements {
                link.batch(sql).await?;
            }
            link.query(SET_FORM, &[Value::Int(number)], STATEMENT_LIMIT).await?;
        }
        Ok(())
    }

    /// Brings a store that is there to the newest form.
    pub(crate) async fn migrate(&self) -> Result<(), StoreError> {
        let Some(rows) = self.read(GET_FORM, Vec::new()).await? else { return Ok(()) };
        let found = rows.into_iter().next().ok_or(Damage::Row).and_then(|mut row| row.int());
        let found = found.map_err(|what| StoreError::Damaged { place: self.place(), what })?;
        if found > FORM {
            return Err(StoreError::Newer { place: self.place(), found, known: FORM });
        }
        if found < FORM {
            self.begin().await?.commit().await?;
        }
        Ok(())
    }
}

async fn form(link: &Link) -> Result<i64, Fault> {
    let rows = link.query(GET_FORM, &[], STATEMENT_LIMIT).await?;
    Ok(rows.into_iter().next().ok_or(Damage::Row)?.int()?)
}

/// A change that has begun and holds the lock; dropped, its connection goes and it never happened.
#[derive(Debug)]
pub(crate) struct Transaction {
    link: Link,
    place: Place,
    seen: Arc<AtomicBool>,
}

impl Transaction {
    pub(crate) fn place(&self) -> Place {
        self.place.clone()
    }

    pub(crate) async fn query(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let rows = self.link.query(sql, &values, STATEMENT_LIMIT).await;
        rows.map_err(|fault| fault.tell(self.place()))
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.link.batch(NOTIFY).await.map_err(|fault| fault.tell(self.place()))?;
        match self.link.batch("COMMIT").await {
            Ok(()) => {
                self.seen.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(fault) if fault.is_final() => Err(StoreError::Unconfirmed { place: self.place }),
            Err(fault) => Err(fault.tell(self.place)),
        }
    }
}

#[cfg(test)]
mod tests;
