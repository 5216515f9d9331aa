//! A change in the making: what is read and written while nobody else can change the store.
//!
//! A change reads, decides and writes while it holds the store's one lock, so that two changes at once are one
//! after the other and none is lost. It may be of several documents: each gets a number and a row in the log of its
//! own, and all of them happen or none, whatever ends the process.

use tokio::sync::MutexGuard;
use vocab::rfc3339;

use crate::error::StoreError;
use crate::sql::{self, Row, Value};
use crate::store::{Engine, NEVER, check_key, sha256};
use crate::{Change, Document, Edit, MAX_DOCUMENT, Store, Version, postgres, sqlite};

/// The store's lock, and what is changed under it. Dropped, nothing has happened.
pub(crate) struct Editing<'a> {
    store: &'a Store,
    transaction: Transaction,
    /// The last change, once something was read.
    version: Version,
    has_changed: bool,
    _turn: MutexGuard<'a, ()>,
}

enum Transaction {
    Sqlite(sqlite::Transaction),
    Postgres(postgres::Transaction),
}

impl Store {
    /// Takes the lock; makes a store that is not there yet.
    pub(crate) async fn edit(&self) -> Result<Editing<'_>, StoreError> {
        let turn = self.changing.lock().await;
        let transaction = match &self.engine {
            Engine::Sqlite(sqlite) => Transaction::Sqlite(sqlite.begin().await?),
            Engine::Postgres(postgres) => Transaction::Postgres(postgres.begin().await?),
        };
        Ok(Editing { store: self, transaction, version: Version::default(), has_changed: false, _turn: turn })
    }
}

impl Editing<'_> {
    /// The document as it is, with what was written here before.
    pub(crate) async fn document(&mut self, key: &str) -> Result<Option<Document>, StoreError> {
        check_key(key)?;
        let rows = self.transaction.query(sql::READ, vec![key.into(), NEVER.stamp().into()]).await?;
        let snapshot = self.store.snapshot(key, rows.into_iter().next())?;
        self.version = snapshot.version;
        Ok(snapshot.document)
    }

    /// Makes of a document that was read here as `old` what `edit` says.
    pub(crate) async fn write(
        &mut self,
        key: &str,
        old: Option<&Document>,
        edit: Edit,
        change: &Change<'_>,
    ) -> Result<(), StoreError> {
        let next = match edit {
            Edit::Keep => return Ok(()),
            Edit::Remove if old.is_none() => return Ok(()),
            Edit::Remove => None,
            Edit::Save(text) => Some(text),
        };
        for text in [next.as_deref(), Some(change.who), Some(change.action), change.detail].into_iter().flatten() {
            check_text(key, text)?;
        }
        let version = self.version.next()?;
        let at = rfc3339(self.store.clock.now_ms());
        for (sql, values) in statements(key, change, &at, (old, next.as_deref()), version) {
            self.transaction.query(sql, values).await?;
        }
        (self.version, self.has_changed) = (version, true);
        Ok(())
    }

    /// Makes it so, and gives the version that the store has then.
    pub(crate) async fn commit(self) -> Result<Version, StoreError> {
        if self.has_changed {
            match self.transaction {
                Transaction::Sqlite(transaction) => transaction.commit().await?,
                Transaction::Postgres(transaction) => transaction.commit().await?,
            }
        }
        Ok(self.version)
    }
}

impl Transaction {
    async fn query(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        match self {
            Self::Sqlite(transaction) => transaction.query(sql, values).await,
            Self::Postgres(transaction) => transaction.query(sql, values).await,
        }
    }
}

/// The document, the row in the log, and the version.
fn statements(
    key: &str,
    change: &Change<'_>,
    at: &str,
    (old, next): (Option<&Document>, Option<&str>),
    version: Version,
) -> [(&'static str, Vec<Value>); 3] {
    let before = old.map(|document| document.digest.as_str());
    let after = next.map(sha256);
    let number = version.number();
    let document = match (next, &after) {
        (Some(text), Some(digest)) => {
            let columns =
                vec![key.into(), text.into(), digest.as_str().into(), number.into(), at.into(), change.who.into()];
            (sql::SAVE, columns)
        }
        _ => (sql::REMOVE, vec![key.into()]),
    };
    let audit = vec![
        number.into(),
        at.into(),
        change.who.into(),
        change.action.into(),
        key.into(),
        change.detail.into(),
        before.into(),
        after.as_deref().into(),
    ];
    [document, (sql::AUDIT, audit), (sql::BUMP, vec![version.stamp().into()])]
}

fn check_text(key: &str, text: &str) -> Result<(), StoreError> {
    if text.len() > MAX_DOCUMENT {
        return Err(StoreError::TooLarge { key: key.to_owned(), bytes: text.len() });
    }
    // PostgreSQL holds no NUL; what one engine takes, the other takes.
    if text.contains('\0') {
        return Err(StoreError::Nul { key: key.to_owned() });
    }
    Ok(())
}
