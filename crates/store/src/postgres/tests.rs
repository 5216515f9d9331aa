//! Migrations on a PostgreSQL server.

use testkit::postgres::Database;

use super::link::{Fault, Link, Purpose};
use super::{Postgres, form};
use crate::STATEMENT_LIMIT;
use crate::config::StoreConfig;
use crate::sql::MIGRATIONS;

/// A server with nothing in it but what the test makes, or `None` and a word about it.
async fn database() -> Option<(Postgres, Database)> {
    let database = Database::make().await?;
    let StoreConfig::Postgres(config) = StoreConfig::from_url(&database.url).unwrap() else {
        panic!("a URL is a server")
    };
    Some((Postgres::new(config), database))
}

#[tokio::test]
async fn a_later_migration_is_made_once_and_a_failed_one_not_at_all() {
    let Some((postgres, database)) = database().await else { return };
    let connect = async || -> Link { postgres.connect(Purpose::Change).await.unwrap() };
    let (first, later) = (MIGRATIONS[0], ["CREATE TABLE later (number BIGINT)", "INSERT INTO later VALUES (7)"]);
    let link = connect().await;
    postgres.prepare(&link, &[first]).await.unwrap();
    link.batch("COMMIT").await.unwrap();

    let link = connect().await;
    let half = ["CREATE TABLE half (number BIGINT)", "INSERT INTO nothing VALUES (1)"];
    assert!(postgres.prepare(&link, &[first, &half]).await.is_err());
    drop(link);
    let link = connect().await;
    postgres.prepare(&link, &[first, &later]).await.unwrap();
    assert_eq!(form(&link).await.unwrap(), 2);
    assert!(link.query("SELECT 1::bigint FROM later", &[], STATEMENT_LIMIT).await.is_ok());
    link.batch("COMMIT").await.unwrap();
    let link = connect().await;
    assert!(link.query("SELECT 1::bigint FROM half", &[], STATEMENT_LIMIT).await.is_err());
    // To the program that knows the first form alone, this store is a newer one's.
    assert!(matches!(postgres.prepare(&link, &[first]).await, Err(Fault::Newer(2))));
    drop(link);
    database.remove().await;
}
