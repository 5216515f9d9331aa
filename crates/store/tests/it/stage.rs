//! A store of each kind, empty and the test's own.
//!
//! PostgreSQL is the server that `MURMUR_TEST_POSTGRES` names, with a database made for each test. Without the
//! variable those tests say that they were left out; `cargo xtask test` sets it.

use std::str::FromStr as _;
use std::sync::Arc;

use ::store::{Change, Store, StoreConfig, StoreError};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};
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

/// A database of the test's own.
pub(crate) struct Database {
    pub(crate) admin: Client,
    pub(crate) name: String,
    pub(crate) url: String,
}

impl Stage {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(TempDir::new().unwrap())
    }

    /// `None`, and a word about it, when there is no server to test with.
    pub(crate) async fn postgres() -> Option<Self> {
        let Ok(server) = std::env::var("MURMUR_TEST_POSTGRES") else {
            eprintln!("LEFT OUT: MURMUR_TEST_POSTGRES names no PostgreSQL server");
            return None;
        };
        let admin = connect(&server).await;
        let name = format!("mur_test_{}", vocab::SessionId::new().to_string().replace('-', "_"));
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        let url = format!("{base}/{name}");
        Some(Self::Postgres(Database { admin, name, url }))
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
            let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", database.name);
            database.admin.batch_execute(&sql).await.unwrap();
        }
    }
}

impl Database {
    pub(crate) fn host(&self) -> tokio_postgres::Config {
        tokio_postgres::Config::from_str(&self.url).unwrap()
    }

    /// The same database by way of another address.
    pub(crate) fn url_at(&self, host: &str, options: &str) -> String {
        let (head, rest) = self.url.split_once('@').unwrap();
        let (_, database) = rest.split_once('/').unwrap();
        format!("{head}@{host}/{database}{options}")
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
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
