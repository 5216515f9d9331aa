//! One connection to the server, with a limit on everything that it waits for.
//!
//! The limits are kept here as well as told to the server, because a server that is stopped keeps none. An answer
//! that came too late ends the connection: what would come next on it is not known.

use std::future::{Future, poll_fn};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls};

use crate::config::PostgresConfig;
use crate::error::{Damage, Place, Reach, StoreError};
use crate::sql::{FORM, Row, Value};
use crate::tls::Tls;
use crate::{CONNECT_LIMIT, LOCK_LIMIT, STATEMENT_LIMIT};

/// What a connection is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Reads, and the news of changes.
    Read,
    /// One change.
    Change,
}

/// A connection and the task that drives it, which ends with it.
#[derive(Debug)]
pub(crate) struct Link {
    client: Client,
    driver: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Link {
    pub(crate) async fn connect(
        config: &PostgresConfig,
        purpose: Purpose,
        changes: &watch::Sender<u64>,
    ) -> Result<Self, Fault> {
        let connecting = async {
            let news = (purpose == Purpose::Read).then(|| changes.clone());
            let link = match &config.tls {
                None => {
                    let (client, connection) = config.client.connect(NoTls).await?;
                    Self { client, driver: tokio::spawn(drive(connection, news)) }
                }
                Some(roots) => {
                    let (client, connection) = config.client.connect(Tls::new(roots).map_err(Fault::Reach)?).await?;
                    Self { client, driver: tokio::spawn(drive(connection, news)) }
                }
            };
            link.client.batch_execute(&greeting(purpose)).await?;
            Ok(link)
        };
        timeout(CONNECT_LIMIT, connecting).await.unwrap_or(Err(Fault::Reach(Reach::Timeout(CONNECT_LIMIT))))
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    /// The rows of a statement, in one exchange of messages.
    pub(crate) async fn query(&self, sql: &str, values: &[Value], limit: Duration) -> Result<Vec<Row>, Fault> {
        let typed: Vec<(&(dyn ToSql + Sync), Type)> = values.iter().map(parameter).collect();
        let rows = within(limit, self.client.query_typed(sql, &typed)).await?;
        rows.iter().map(read).collect()
    }

    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        within(STATEMENT_LIMIT, self.client.batch_execute(sql)).await
    }
}

/// The settings of a connection. `pg_temp` last: nobody's temporary table stands in for one of ours.
fn greeting(purpose: Purpose) -> String {
    let (limit, listen) = match purpose {
        Purpose::Read => (STATEMENT_LIMIT, "LISTEN murmur_changed;"),
        Purpose::Change => (LOCK_LIMIT, ""),
    };
    format!(
        "SET search_path = murmur, pg_catalog, pg_temp; SET statement_timeout = {}; \
         SET idle_in_transaction_session_timeout = 30000; SET synchronous_commit = on; {listen}",
        limit.as_millis(),
    )
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Fault> {
    match timeout(limit, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Fault::Slow(limit)),
    }
}

/// Moves the connection's bytes until it ends, and passes the news on.
async fn drive<S, T>(mut connection: Connection<S, T>, news: Option<watch::Sender<u64>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let tell = || {
        if let Some(news) = &news {
            news.send_modify(|count| *count = count.wrapping_add(1));
        }
    };
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(_))) => tell(),
            Some(Ok(_)) => {}
            // The statement that waits, or the next one, says why.
            Some(Err(_)) | None => break,
        }
    }
    drop(connection);
    tell();
}

fn parameter(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Null => (&None::<&str>, Type::TEXT),
        Value::Int(number) => (number, Type::INT8),
        Value::Text(text) => (text, Type::TEXT),
    }
}

fn read(row: &tokio_postgres::Row) -> Result<Row, Fault> {
    let columns = row.columns().iter().enumerate().map(|(at, column)| {
        let value = match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at).map(|number| number.map(Value::Int)),
            // What a function gives that gives nothing.
            Type::VOID => Ok(None),
            _ => row.try_get::<_, Option<String>>(at).map(|text| text.map(Value::Text)),
        };
        value.map(|value| value.unwrap_or(Value::Null)).map_err(|_| Fault::Damaged(Damage::Row))
    });
    Ok(Row::new(columns.collect::<Result<_, _>>()?))
}

/// What went wrong on a connection, before it is told with the store's name.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The connection is gone, or never came.
    Lost(tokio_postgres::Error),
    Reach(Reach),
    Slow(Duration),
    /// The server's own answer.
    Answer(tokio_postgres::Error),
    Damaged(Damage),
    Missing,
    Forbidden,
    Newer(i64),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            // The server ends the connection with these: it was told to, it stops, or its database goes.
            Some(code) if code.code().starts_with("57P") => Self::Lost(error),
            Some(_) => Self::Answer(error),
            None => Self::Lost(error),
        }
    }
}

impl From<Damage> for Fault {
    fn from(what: Damage) -> Self {
        Self::Damaged(what)
    }
}

impl Fault {
    /// Whether the connection is of no use any more.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Reach(_) | Self::Slow(_))
    }

    pub(crate) fn is_no_table(&self) -> bool {
        let Self::Answer(error) = self else { return false };
        matches!(error.code(), Some(&SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME))
    }

    pub(crate) fn tell(self, place: Place) -> StoreError {
        match self {
            Self::Lost(error) => StoreError::Unreachable { place, reason: reach(error) },
            Self::Reach(reason) => StoreError::Unreachable { place, reason },
            Self::Slow(limit) => StoreError::Slow { place, limit },
            Self::Damaged(what) => StoreError::Damaged { place, what },
            Self::Missing => StoreError::Missing { place },
            Self::Forbidden => StoreError::Forbidden { place },
            Self::Newer(found) => StoreError::Newer { place, found, known: FORM },
            Self::Answer(error) => answer(place, &error),
        }
    }
}

fn answer(place: Place, error: &tokio_postgres::Error) -> StoreError {
    let state = error.code().cloned().unwrap_or(SqlState::INTERNAL_ERROR);
    match state {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => StoreError::Login { place },
        SqlState::INVALID_CATALOG_NAME => StoreError::NoDatabase { place },
        SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Forbidden { place },
        SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { place },
        SqlState::DISK_FULL => StoreError::Full { place },
        // The only statement that is let run so long is the one that waits for the lock.
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => StoreError::Busy { place },
        SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN | SqlState::DATATYPE_MISMATCH => {
            StoreError::Damaged { place, what: Damage::Tables }
        }
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => StoreError::Damaged { place, what: Damage::Row },
        SqlState::TOO_MANY_CONNECTIONS => {
            StoreError::Unreachable { place, reason: Reach::NotNow(state.code().to_owned()) }
        }
        _ => {
            let message = error.as_db_error().map_or_else(String::new, |error| first_line(error.message()));
            StoreError::Refused { place, sqlstate: state.code().to_owned(), message }
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect()
}

fn reach(error: tokio_postgres::Error) -> Reach {
    if let Some(code) = error.code() {
        return Reach::NotNow(code.code().to_owned());
    }
    if error.is_closed() {
        return Reach::Closed;
    }
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
            return Reach::Tls(tls.clone());
        }
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            // An I/O error's `source` leaves out the error that it wraps itself.
            return match io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(tls) => Reach::Tls(tls.clone()),
                None => Reach::Io(io.kind()),
            };
        }
        cause = inner.source();
    }
    Reach::Protocol(error)
}
