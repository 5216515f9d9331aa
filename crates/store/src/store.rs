//! The settings store: documents, each change with an audit row, and the number of the last change.
//!
//! How a change is made stands in `edit`. Each leaves a random stamp beside the count: a store that was restored
//! from a backup and changed again has counts that were there before, but never a stamp. What a document means is
//! its reader's business.

use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::Mutex;
use tokio::time::timeout;
use vocab::Clock;

use crate::config::StoreConfig;
use crate::error::{Damage, Place, StoreError};
use crate::postgres::Postgres;
use crate::sql::{self, FORM, Row, Value};
use crate::sqlite::Sqlite;

/// The longest document, in bytes of UTF-8.
pub const MAX_DOCUMENT: usize = 4 << 20;
/// How long a change by another process goes unseen by [`Store::changed`] on SQLite, which sends no word of it.
const LOOK: Duration = Duration::from_millis(250);
/// How long [`Store::changed`] trusts PostgreSQL's word before it looks itself.
const LOOK_ANYWAY: Duration = Duration::from_secs(30);

/// The settings store of a home, or of all hosts that share a database.
///
/// Cheap to ask and meant to be shared behind an [`Arc`]. It keeps no setting: what it tells is read.
pub struct Store {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<dyn Clock>,
    /// One change at a time in this process: the others would wait for the lock anyway, with a connection each.
    pub(crate) changing: Mutex<()>,
}

pub(crate) enum Engine {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

/// The last change of a store. Two are equal when nothing has changed between them; the default is the version of
/// a store that has not been made yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Version {
    number: i64,
    stamp: u128,
}

/// A version that no store has: what is read since then is everything.
pub(crate) const NEVER: Version = Version { number: -1, stamp: u128::MAX };

impl Version {
    /// How many changes the store has seen.
    #[must_use]
    pub fn number(&self) -> i64 {
        self.number
    }

    /// The one after this, with a stamp of its own.
    pub(crate) fn next(self) -> Result<Self, StoreError> {
        let mut stamp = [0; 16];
        SystemRandom::new().fill(&mut stamp).map_err(|_| StoreError::NoRandom)?;
        Ok(Self { number: self.number.saturating_add(1), stamp: u128::from_ne_bytes(stamp) })
    }

    pub(crate) fn stored(number: i64, stamp: &str) -> Option<Self> {
        u128::from_str_radix(stamp, 16).ok().map(|stamp| Self { number, stamp })
    }

    pub(crate) fn stamp(&self) -> String {
        format!("{:032x}", self.stamp)
    }
}

/// A document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The text, as it was given.
    pub text: String,
    /// The SHA-256 of the text, in hex.
    pub digest: String,
    /// The number of the change that saved it.
    pub version: i64,
    /// When that was: RFC 3339 in UTC.
    pub saved_at: String,
    /// Who saved it.
    pub saved_by: String,
}

/// A document, or its absence, and the store's version at that instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The store's last change.
    pub version: Version,
    /// The document; `None` when there is none of that key.
    pub document: Option<Document>,
}

/// Who changes something, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'a> {
    /// The operator, as `user@host`.
    pub who: &'a str,
    /// A word for the log: `policy.add`, `policy.set`, …
    pub action: &'a str,
    /// What exactly, for the log: a rule's id, or whatever tells the change from others. Never a secret.
    pub detail: Option<&'a str>,
}

/// What an edit makes of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Nothing: the store stays as it is, without a row in the log.
    Keep,
    /// A new text.
    Save(String),
    /// No document.
    Remove,
}

/// What a save expects to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Whatever is there.
    Any,
    /// No document of that key.
    Absent,
    /// The document of this [`Document::version`].
    Version(i64),
}

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The number of the change.
    pub version: i64,
    /// When: RFC 3339 in UTC.
    pub at: String,
    /// Who.
    pub who: String,
    /// What it is called.
    pub action: String,
    /// The document's key.
    pub subject: String,
    /// What exactly.
    pub detail: Option<String>,
    /// The SHA-256 of the text before, in hex; `None` when there was no document.
    pub before: Option<String>,
    /// The SHA-256 of the text after, in hex; `None` when it was removed.
    pub after: Option<String>,
}

impl Store {
    /// Opens the store and checks it. One that was never made is empty, and is made at the first change; one of an
    /// older form is brought to the newest.
    ///
    /// Must be called, and used, within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// Any that says why the store cannot be read. Nothing is mended.
    pub async fn open(config: &StoreConfig, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let engine = match config {
            StoreConfig::Sqlite { path } => Engine::Sqlite(Sqlite::new(path.clone())),
            StoreConfig::Postgres(config) => Engine::Postgres(Box::new(Postgres::new(config.clone()))),
        };
        match &engine {
            Engine::Sqlite(sqlite) => sqlite.migrate().await?,
            Engine::Postgres(postgres) => postgres.migrate().await?,
        }
        let store = Self { engine, clock, changing: Mutex::default() };
        store.version().await?;
        Ok(store)
    }

    /// Which store this is, for messages.
    #[must_use]
    pub fn place(&self) -> Place {
        match &self.engine {
            Engine::Sqlite(sqlite) => sqlite.place(),
            Engine::Postgres(postgres) => postgres.place(),
        }
    }

    /// The last change. What has been confirmed to anyone, on any host, before the call shows.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn version(&self) -> Result<Version, StoreError> {
        Ok(self.read("", Version::default()).await?.version)
    }

    /// The document of a key; `None` when there is none.
    ///
    /// # Errors
    /// When the store cannot be read, or the document is not what was saved.
    pub async fn document(&self, key: &str) -> Result<Option<Document>, StoreError> {
        check_key(key)?;
        Ok(self.read(key, NEVER).await?.document)
    }

    /// The document of a key unless the store's last change is still `seen`, which is asked anew in any case: a few
    /// microseconds on SQLite, one exchange with a PostgreSQL server.
    ///
    /// # Errors
    /// As [`document`](Self::document).
    pub async fn document_if_changed(&self, key: &str, seen: Option<Version>) -> Result<Option<Snapshot>, StoreError> {
        check_key(key)?;
        if let (Some(seen), Engine::Sqlite(sqlite)) = (seen, &self.engine)
            && sqlite.is_still(seen)
        {
            return Ok(None);
        }
        let snapshot = self.read(key, seen.unwrap_or(NEVER)).await?;
        Ok((seen != Some(snapshot.version)).then_some(snapshot))
    }

    /// Saves a text under a key, with a row in the log. Gives the version that the store has then.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when not what is expected is stored, and whatever keeps the store from being
    /// written. Except after [`StoreError::Unconfirmed`] nothing has changed.
    pub async fn save_document(
        &self,
        key: &str,
        text: &str,
        change: &Change<'_>,
        expected: Expected,
    ) -> Result<Version, StoreError> {
        self.update_document(key, change, |old| match (expected, old) {
            (Expected::Any, _) | (Expected::Absent, None) => Ok(Edit::Save(text.to_owned())),
            (Expected::Version(number), Some(old)) if old.version == number => Ok(Edit::Save(text.to_owned())),
            _ => Err(StoreError::Conflict { key: key.to_owned() }),
        })
        .await
    }

    /// Changes a document as `edit` says, which sees what is stored while nobody else can change it: two updates at
    /// once are one after the other. An error of `edit` leaves the store as it is. `edit` should be quick.
    ///
    /// # Errors
    /// Those of `edit`, and those of [`save_document`](Self::save_document).
    pub async fn update_document<E: From<StoreError>>(
        &self,
        key: &str,
        change: &Change<'_>,
        edit: impl FnOnce(Option<&Document>) -> Result<Edit, E>,
    ) -> Result<Version, E> {
        check_key(key)?;
        let mut editing = self.edit().await?;
        let old = editing.document(key).await?;
        let edit = edit(old.as_ref())?;
        editing.write(key, old.as_ref(), edit, change).await?;
        Ok(editing.commit().await?)
    }

    /// The changes of a document before the change of number `before` (or up to the last), the newest first, at
    /// most `limit` of them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn log(&self, key: &str, before: Option<i64>, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        check_key(key)?;
        let values = vec![key.into(), before.unwrap_or(i64::MAX).into(), i64::from(limit).into()];
        self.entries(sql::LOG, values).await
    }

    /// The changes of connections, grants and catalogs, as [`log`](Self::log) gives those of one document.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn mcp_log(&self, before: Option<i64>, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        self.entries(sql::MCP_LOG, vec![before.unwrap_or(i64::MAX).into(), i64::from(limit).into()]).await
    }

    /// Waits until the last change is not `seen` any more, and gives the one that it is. A wake-up and no more: who
    /// acts on a setting asks for it at each action.
    ///
    /// # Errors
    /// When the store cannot be read; who calls again should wait a little.
    pub async fn changed(&self, seen: Version) -> Result<Version, StoreError> {
        let mut news = match &self.engine {
            Engine::Sqlite(_) => None,
            Engine::Postgres(postgres) => Some(postgres.changes()),
        };
        loop {
            if let Some(news) = &mut news {
                news.mark_unchanged();
            }
            let unchanged = matches!(&self.engine, Engine::Sqlite(sqlite) if sqlite.is_still(seen));
            if !unchanged {
                let version = self.version().await?;
                if version != seen {
                    return Ok(version);
                }
            }
            match &mut news {
                // Its sender lives as long as the store.
                Some(news) => drop(timeout(LOOK_ANYWAY, news.changed()).await),
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// The store's state, with the document of `key` unless the last change is `seen`.
    async fn read(&self, key: &str, seen: Version) -> Result<Snapshot, StoreError> {
        match self.rows(sql::READ, vec![key.into(), seen.stamp().into()]).await? {
            Some(rows) => self.snapshot(key, rows.into_iter().next()),
            None => Ok(Snapshot { version: Version::default(), document: None }),
        }
    }

    async fn entries(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<LogEntry>, StoreError> {
        let rows = self.rows(sql, values).await?.unwrap_or_default();
        rows.into_iter().map(entry).collect::<Result<_, _>>().map_err(|what| self.damaged(what))
    }

    async fn rows(&self, sql: &'static str, values: Vec<Value>) -> Result<Option<Vec<Row>>, StoreError> {
        match &self.engine {
            Engine::Sqlite(sqlite) => sqlite.read(sql, values).await,
            Engine::Postgres(postgres) => postgres.read(sql, values).await,
        }
    }

    pub(crate) fn snapshot(&self, key: &str, row: Option<Row>) -> Result<Snapshot, StoreError> {
        let mut row = row.ok_or_else(|| self.damaged(Damage::Row))?;
        let shown = row.version();
        let found = row.int().map_err(|what| self.damaged(what))?;
        // Before anything else: what the rest means, a newer form says.
        if found > FORM {
            return Err(StoreError::Newer { place: self.place(), found, known: FORM });
        }
        let mut parts = || -> Result<Snapshot, Damage> {
            let version = shown.ok_or(Damage::Row)?;
            // Those of the version.
            let (_, _) = (row.int()?, row.text()?);
            // Each change has its row in the log; without it something was taken away.
            let newest = row.maybe_int()?;
            if newest.is_some_and(|newest| newest != version.number) {
                return Err(Damage::Row);
            }
            let logged = row.maybe_text()?;
            let (text, digest) = (row.maybe_text()?, row.maybe_text()?);
            let document = match (text, digest) {
                (None, None) if logged.is_none() => None,
                (Some(text), Some(digest)) if digest == sha256(&text) && logged.as_ref() == Some(&digest) => {
                    Some(Document { text, digest, version: row.int()?, saved_at: row.text()?, saved_by: row.text()? })
                }
                _ => return Err(Damage::Document { key: key.to_owned() }),
            };
            Ok(Snapshot { version, document })
        };
        parts().map_err(|what| self.damaged(what))
    }

    fn damaged(&self, what: Damage) -> StoreError {
        StoreError::Damaged { place: self.place(), what }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("place", &self.place()).finish_non_exhaustive()
    }
}

fn entry(mut row: Row) -> Result<LogEntry, Damage> {
    Ok(LogEntry {
        version: row.int()?,
        at: row.text()?,
        who: row.text()?,
        action: row.text()?,
        subject: row.text()?,
        detail: row.maybe_text()?,
        before: row.maybe_text()?,
        after: row.maybe_text()?,
    })
}

pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    if (1..=120).contains(&key.len()) && key.bytes().all(fits) { Ok(()) } else { Err(StoreError::Key) }
}

pub(crate) fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().fold(String::with_capacity(64), |mut hex, byte| {
        hex.extend([byte >> 4, byte & 15].map(|nibble| char::from_digit(nibble.into(), 16).unwrap_or_default()));
        hex
    })
}
