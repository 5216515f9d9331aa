//! A PostgreSQL database of a test's own.
//!
//! It is made on the server that `MURMUR_TEST_POSTGRES` names, whatever else stands there, and nothing but it is
//! touched. `cargo xtask test` sets the variable; without it a test says that it was left out.

use std::str::FromStr as _;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::{Client, Config, NoTls};

const SERVER: &str = "MURMUR_TEST_POSTGRES";

/// An empty database.
pub struct Database {
    /// A connection to the server, to another database.
    pub admin: Client,
    /// The database's name.
    pub name: String,
    /// Its URL.
    pub url: String,
}

impl Database {
    /// Makes one; `None`, and a word about it on stderr, when no server is named.
    #[expect(clippy::print_stderr, reason = "a test that is left out says so")]
    pub async fn make() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Ok(server) = std::env::var(SERVER) else {
            eprintln!("LEFT OUT: {SERVER} names no PostgreSQL server");
            return None;
        };
        let name = format!("mur_test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let admin = connect(&server).await;
        let (base, _) = server.rsplit_once('/').expect("the server's URL names a database");
        let database = Self { url: format!("{base}/{name}"), admin, name };
        // A process of this id may have been killed before it cleared up.
        database.drop_it().await;
        database.admin.batch_execute(&format!("CREATE DATABASE {}", database.name)).await.expect("it can be made");
        Some(database)
    }

    /// Removes it, whoever is connected.
    pub async fn remove(self) {
        self.drop_it().await;
    }

    async fn drop_it(&self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        self.admin.batch_execute(&sql).await.expect("it can be removed");
    }

    /// Where the server is.
    #[must_use]
    pub fn host(&self) -> Config {
        Config::from_str(&self.url).expect("the URL is one")
    }

    /// The same database by way of another address.
    #[must_use]
    pub fn url_at(&self, host: &str, options: &str) -> String {
        let (head, rest) = self.url.split_once('@').expect("the URL names a user");
        let (_, database) = rest.split_once('/').expect("the URL names a database");
        format!("{head}@{host}/{database}{options}")
    }
}

/// A connection, driven on the current runtime.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server lets the test in");
    tokio::spawn(connection);
    client
}
