//! The store as an SQLite file.
//!
//! Two decisions matter. The file appears under its name whole or not at all: a new one is made beside it and
//! linked, so an empty or half-made file is always damage and never a beginning. And one look at the file's
//! identity goes with each look at SQLite's change counter, because SQLite goes on reading a file that was
//! replaced, cut or unlinked under it; when the look differs, the file is opened and checked anew.
//!
//! Nothing here opens the file itself: closing any descriptor of it would drop the locks that SQLite holds.

mod file;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::task::spawn_blocking;

use crate::error::{Damage, Place, StoreError};
use crate::file::Temporary;
use crate::sql::{FORM, GET_FORM, MIGRATIONS, READ, Row, SET_FORM, Value};
use crate::{LOCK_LIMIT, Version};

use file::{Identity, look};

/// A value that SQLite is asked for is not longer than this, in bytes; documents are at most half of it.
const LONGEST: i32 = 8 << 20;

/// An SQLite file, opened when it is there.
#[derive(Debug, Clone)]
pub(crate) struct Sqlite {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    reader: Mutex<Reader>,
}

/// What is kept between reads. `connection` is gone before the file is first seen, and after a fault.
#[derive(Debug, Default)]
struct Reader {
    connection: Option<Connection>,
    identity: Option<Identity>,
    /// SQLite's own counter, as it was before `version` was read.
    counter: Option<i64>,
    version: Version,
    /// Whether the file was ever there: from then on its absence is a fault.
    seen: bool,
}

impl Sqlite {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { shared: Arc::new(Shared { path, reader: Mutex::default() }) }
    }

    pub(crate) fn place(&self) -> Place {
        self.shared.place()
    }

    /// Whether the last change is for certain still `seen`. A few microseconds and never a wait: whatever is in
    /// doubt is `false`, and told apart by a read.
    pub(crate) fn is_still(&self, seen: Version) -> bool {
        let Ok(reader) = self.shared.reader.try_lock() else { return false };
        if reader.version != seen {
            return false;
        }
        match (&reader.connection, look(&self.shared.path)) {
            (Some(connection), Ok(Some(identity))) if reader.identity == Some(identity) => {
                reader.counter.is_some() && counter(connection).ok() == reader.counter
            }
            (None, Ok(None)) => !reader.seen && reader.identity.is_none() && seen == Version::default(),
            _ => false,
        }
    }

    /// The rows of a query, and none when there is no store yet.
    pub(crate) async fn read(&self, sql: &'static str, values: Vec<Value>) -> Result<Option<Vec<Row>>, StoreError> {
        let shared = Arc::clone(&self.shared);
        self.work(move || shared.read(sql, &values)).await
    }

    /// Begins a change: makes the file when it is missing, brings it to the newest form, and holds its lock.
    pub(crate) async fn begin(&self) -> Result<Transaction, StoreError> {
        let shared = Arc::clone(&self.shared);
        let connection = self.work(move || shared.begin(MIGRATIONS)).await?;
        Ok(Transaction { connection: Some(connection), of: self.clone() })
    }

    /// Brings a store that is there to the newest form.
    pub(crate) async fn migrate(&self) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        self.work(move || shared.migrate()).await
    }

    /// SQLite may wait for a disk or a lock, so it works on a thread that may be waited for.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match spawn_blocking(work).await {
            Ok(done) => done,
            Err(_) => Err(StoreError::Stopped { place: self.place() }),
        }
    }
}

impl Shared {
    fn place(&self) -> Place {
        Place::File(self.path.clone())
    }

    fn fault(&self, source: rusqlite::Error) -> StoreError {
        fault(self.place(), source)
    }

    fn damaged(&self, what: Damage) -> StoreError {
        StoreError::Damaged { place: self.place(), what }
    }

    fn read(&self, sql: &str, values: &[Value]) -> Result<Option<Vec<Row>>, StoreError> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.read_with(&mut reader, sql, values);
        if done.is_err() {
            // What was kept may be what is wrong.
            *reader = Reader { seen: reader.seen, ..Reader::default() };
        }
        done
    }

    fn read_with(&self, reader: &mut Reader, sql: &str, values: &[Value]) -> Result<Option<Vec<Row>>, StoreError> {
        let Some(identity) = look(&self.path)? else {
            if reader.seen {
                return Err(StoreError::Missing { place: self.place() });
            }
            if file::has_journal(&self.path) {
                return Err(self.damaged(Damage::Journal));
            }
            return Ok(None);
        };
        if reader.identity != Some(identity) {
            // The old connection is closed last: its closing must not take the new one's locks or journal along.
            let new = self.open(identity)?;
            new.pragma_update(None, "query_only", true).map_err(|error| self.fault(error))?;
            let old = reader.connection.replace(new);
            (reader.identity, reader.counter, reader.version, reader.seen) =
                (Some(identity), None, Version::default(), true);
            drop(old);
        }
        let Some(connection) = &reader.connection else {
            return Err(StoreError::Missing { place: self.place() });
        };
        // Before the rows: a change between the two is then seen as one at the next look.
        let counted = counter(connection).map_err(|error| self.fault(error))?;
        let rows = query(connection, sql, values).map_err(|error| self.fault(error))?;
        if sql == READ {
            let shown = rows.first().and_then(Row::version);
            (reader.counter, reader.version) = (shown.map(|_| counted), shown.unwrap_or_default());
        }
        Ok(Some(rows))
    }

    /// Opens the file that was looked at, and checks that it is a store of a form that is known.
    fn open(&self, expected: Identity) -> Result<Connection, StoreError> {
        if let Some(what) = expected.too_short() {
            return Err(self.damaged(what));
        }
        let connection = connect(&self.path).map_err(|error| self.fault(error))?;
        if look(&self.path)?.is_none_or(|now| !now.is_same_file(&expected)) {
            return Err(StoreError::Busy { place: self.place() });
        }
        let form = self.form(&connection)?;
        if form > FORM {
            return Err(StoreError::Newer { place: self.place(), found: form, known: FORM });
        }
        Ok(connection)
    }

    fn form(&self, connection: &Connection) -> Result<i64, StoreError> {
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'store'", [], |row| {
                row.get(0)
            })
            .map_err(|error| self.fault(error))?;
        if tables != 1 {
            return Err(self.damaged(Damage::Tables));
        }
        let rows = query(connection, GET_FORM, &[]).map_err(|error| self.fault(error))?;
        let form = rows.into_iter().next().ok_or(Damage::Row).and_then(|mut row| row.int());
        form.map_err(|what| self.damaged(what))
    }

    fn begin(&self, migrations: &[&[&str]]) -> Result<Connection, StoreError> {
        let identity = match look(&self.path)? {
            Some(identity) => identity,
            None => {
                if self.reader.lock().unwrap_or_else(PoisonError::into_inner).seen {
                    return Err(StoreError::Missing { place: self.place() });
                }
                if file::has_journal(&self.path) {
                    return Err(self.damaged(Damage::Journal));
                }
                self.create(migrations)?;
                look(&self.path)?.ok_or_else(|| StoreError::Missing { place: self.place() })?
            }
        };
        let connection = self.open(identity)?;
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).seen = true;
        // What is confirmed is on the disk.
        connection.pragma_update(None, "synchronous", "FULL").map_err(|error| self.fault(error))?;
        connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| self.fault(error))?;
        // Asked again under the lock: another process may have been faster.
        let form = self.form(&connection)?;
        apply(&connection, form, migrations).map_err(|error| self.fault(error))?;
        Ok(connection)
    }

    fn migrate(&self) -> Result<(), StoreError> {
        let Some(identity) = look(&self.path)? else { return Ok(()) };
        let connection = self.open(identity)?;
        if self.form(&connection)? == FORM {
            return Ok(());
        }
        drop(connection);
        let connection = self.begin(MIGRATIONS)?;
        connection.execute_batch("COMMIT").map_err(|error| self.fault(error))
    }

    /// Makes a whole store beside the name, and gives it the name unless another process was faster.
    fn create(&self, migrations: &[&[&str]]) -> Result<(), StoreError> {
        let temp = Temporary::new(&self.path)?;
        let made = || -> rusqlite::Result<()> {
            let connection = connect(temp.path())?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch("BEGIN IMMEDIATE")?;
            apply(&connection, 0, migrations)?;
            connection.execute_batch("COMMIT")?;
            connection.close().map_err(|(_, error)| error)
        };
        made().map_err(|error| self.fault(error))?;
        temp.publish(&self.path)
    }
}

/// A change that has begun and holds the file's lock; dropped, it never happened.
#[derive(Debug)]
pub(crate) struct Transaction {
    connection: Option<Connection>,
    of: Sqlite,
}

impl Transaction {
    pub(crate) fn place(&self) -> Place {
        self.of.place()
    }

    pub(crate) async fn query(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let stopped = || StoreError::Stopped { place: self.of.place() };
        let connection = self.connection.take().ok_or_else(stopped)?;
        let place = self.place();
        let (connection, rows) = self
            .of
            .work(move || {
                let rows = query(&connection, sql, &values).map_err(|error| fault(place, error))?;
                Ok((connection, rows))
            })
            .await?;
        self.connection = Some(connection);
        Ok(rows)
    }

    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        let Some(connection) = self.connection.take() else {
            return Err(StoreError::Stopped { place: self.of.place() });
        };
        let place = self.place();
        self.of.work(move || connection.execute_batch("COMMIT").map_err(|error| fault(place, error))).await
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // NOFOLLOW refuses a link anywhere in the path, and the home may be reached by one.
    let path = match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(LOCK_LIMIT)?;
    // The file may be anybody's work: nothing in it is run, and nothing beside it is opened.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// The migrations after `form`, in the transaction that is open.
fn apply(connection: &Connection, form: i64, migrations: &[&[&str]]) -> rusqlite::Result<()> {
    for (number, statements) in (1..).zip(migrations).filter(|(number, _)| *number > form) {
        statements.iter().try_for_each(|sql| connection.execute_batch(sql))?;
        connection.execute(SET_FORM, [number])?;
    }
    Ok(())
}

fn counter(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

fn query(connection: &Connection, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(sql)?;
    let width = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let columns = (0..width).map(|at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Integer(number) => Value::Int(number),
                ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::Null,
            })
        });
        found.push(Row::new(columns.collect::<rusqlite::Result<_>>()?));
    }
    Ok(found)
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

fn fault(place: Place, source: rusqlite::Error) -> StoreError {
    // Every statement is right for the tables of a form that is known, so a plain error is one of the tables. A
    // statement that was kept finds it out when it runs, a new one when it is read.
    let wrong_tables = match &source {
        rusqlite::Error::SqlInputError { .. } => true,
        rusqlite::Error::SqliteFailure(error, _) => error.extended_code == rusqlite::ffi::SQLITE_ERROR,
        _ => false,
    };
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Damaged { place, what: Damage::Database }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            StoreError::Busy { place }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { place },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { place },
        Some(ErrorCode::TooBig) => StoreError::Damaged { place, what: Damage::Row },
        _ if wrong_tables => StoreError::Damaged { place, what: Damage::Tables },
        _ => StoreError::Sqlite { place, source },
    }
}

#[cfg(test)]
mod tests;
