//! A store of each kind, empty and the test's own.
//!
//! PostgreSQL is the server that `MURMUR_TEST_POSTGRES` names, with a database made for each test. Without the
//! variable those tests say that they were left out; `cargo xtask test` sets it.

use std::sync::Arc;

use ::store::{Change, Store, StoreConfig, StoreError};
use tempfile::TempDir;
use testkit::postgres::{Database, connect};
use vocab::Clock;

pub(crate) const KEY: &str = ::store::EXECUTION_BOUNDARIES;
pub(crate) const CHANGE: Change<'static> = Change { who: "ann@laptop", action: "policy.set", detail: None };
/// What [`NOON`] is in the log.
pub(crate) const NOON_TEXT: &str = "2026-11-30T12:00:00.000Z";

/// A clock that stands still.
pub(crate) struct Noon;

impl Clock for Noon {
    fn now_ms(&self) -> u64 {
        1_796_040_000_000
    }
}

/// Where a test's store is.
pub(crate) enum Stage {
    Sqlite(TempDir),
    Postgres(Database),
}

impl Stage {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(TempDir::new().unwrap())
    }

    /// `None`, and a word about it, when there is no server to test with.
    pub(crate) async fn postgres() -> Option<Self> {
        Database::make().await.map(Self::Postgres)
    }

    /// What tells another process which store it is.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Sqlite(home) => home.path().to_str().unwrap().to_owned(),
            Self::Postgres(database) => database.url.clone(),
        }
    }

    pub(crate) fn config(&self) -> StoreConfig {
        match self {
            Self::Sqlite(home) => StoreConfig::in_home(home.path()),
            Self::Postgres(database) => StoreConfig::from_url(&database.url).unwrap(),
        }
    }

    /// Another process, or another host: nothing is shared with other stores but the place.
    pub(crate) async fn open(&self) -> Result<Store, StoreError> {
        Store::open(&self.config(), Arc::new(Noon)).await
    }

    pub(crate) async fn store(&self) -> Arc<Store> {
        Arc::new(self.open().await.unwrap())
    }

    /// Runs statements on the store's tables past the store.
    pub(crate) async fn meddle(&self, sql: &str) {
        match self {
            Self::Sqlite(home) => {
                let connection = rusqlite::Connection::open(home.path().join("settings.db")).unwrap();
                connection.execute_batch(sql).unwrap();
            }
            Self::Postgres(database) => {
                let client = connect(&database.url).await;
                client.batch_execute(&format!("SET search_path = murmur; {sql}")).await.unwrap();
            }
        }
    }

    pub(crate) async fn end(self) {
        if let Self::Postgres(database) = self {
            database.remove().await;
        }
    }
}

/// The same test on each engine.
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($stage:ident) $body:block)*) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn body($stage: &$crate::stage::Stage) $body

            #[tokio::test]
            async fn sqlite() {
                body(&$crate::stage::Stage::sqlite()).await;
            }

            #[tokio::test]
            async fn postgres() {
                if let Some(stage) = $crate::stage::Stage::postgres().await {
                    body(&stage).await;
                    stage.end().await;
                }
            }
        }
    )*};
}
pub(crate) use on_both;
