//! Migrations and transactions on a file.

use std::sync::{Arc, Mutex};

use super::{Reader, Shared, Sqlite};
use crate::error::StoreError;
use crate::sql::{GET_FORM, MIGRATIONS};

fn shared(home: &tempfile::TempDir) -> Shared {
    Shared { path: home.path().join("settings.db"), reader: Mutex::new(Reader::default()) }
}

#[test]
fn a_later_migration_is_made_once_and_a_failed_one_not_at_all() {
    let home = tempfile::TempDir::new().unwrap();
    let (first, later) = (MIGRATIONS[0], ["CREATE TABLE later (number BIGINT)", "INSERT INTO later VALUES (7)"]);
    shared(&home).begin(&[first]).unwrap().execute_batch("COMMIT").unwrap();

    let broken =
        shared(&home).begin(&[first, &["CREATE TABLE half (number BIGINT)", "INSERT INTO nothing VALUES (1)"]]);
    assert!(matches!(broken, Err(StoreError::Damaged { .. })));
    let connection = shared(&home).begin(&[first, &later]).unwrap();
    let tables = "SELECT group_concat(name, ' ') FROM sqlite_schema WHERE type = 'table' AND name IN ('half', 'later')";
    assert_eq!(connection.query_row::<String, _, _>(tables, [], |row| row.get(0)).unwrap(), "later");
    assert_eq!(connection.query_row::<i64, _, _>(GET_FORM, [], |row| row.get(0)).unwrap(), 2);
    connection.execute_batch("COMMIT").unwrap();
    // To the program that knows the first form alone, this store is a newer one's.
    assert!(matches!(shared(&home).begin(&[first]), Err(StoreError::Newer { found: 2, known: 1, .. })));
}

#[tokio::test]
async fn a_transaction_that_is_dropped_never_happened() {
    let home = tempfile::TempDir::new().unwrap();
    let sqlite = Sqlite { shared: Arc::new(shared(&home)) };
    let mut transaction = sqlite.begin().await.unwrap();
    transaction.query("DELETE FROM store", Vec::new()).await.unwrap();
    drop(transaction);
    let rows = sqlite.read(GET_FORM, Vec::new()).await.unwrap().unwrap();
    assert_eq!(rows.into_iter().map(|mut row| row.int().unwrap()).collect::<Vec<_>>(), [1]);
    sqlite.begin().await.unwrap().commit().await.unwrap();
}
