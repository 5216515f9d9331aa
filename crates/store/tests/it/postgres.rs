//! What can happen to a server and on the way to it: each fault beside the server that answers.

use std::sync::Arc;
use std::time::Duration;

use ::store::{Change, Expected, Reach, Store, StoreConfig, StoreError, Version};
use tokio::net::TcpListener;

use testkit::postgres::{Database, connect};

use crate::proxy::{Proxy, Way};
use crate::stage::{CHANGE, KEY, Noon};

/// The database, or the end of a test that was left out.
macro_rules! database {
    () => {
        match Database::make().await {
            Some(database) => database,
            None => return,
        }
    };
}

async fn open(url: &str) -> Result<Store, StoreError> {
    Store::open(&StoreConfig::from_url(url).unwrap(), Arc::new(Noon)).await
}

async fn save(store: &Store, text: &str) -> Result<Version, StoreError> {
    store.save_document(KEY, text, &CHANGE, Expected::Any).await
}

async fn text(store: &Store) -> Result<Option<String>, StoreError> {
    Ok(store.document(KEY).await?.map(|document| document.text))
}

fn one() -> Option<String> {
    Some("one".to_owned())
}

fn reason(error: StoreError) -> Reach {
    assert_eq!(error.code(), "E-STO-008");
    let StoreError::Unreachable { reason, .. } = error else { panic!("it was reached: {error}") };
    reason
}

#[tokio::test]
async fn a_connection_that_is_lost_is_made_again_at_the_next_action() {
    let database = database!();
    let proxy = Proxy::to(&database).await;
    let store = open(&database.url_at(&proxy.address.to_string(), "")).await.unwrap();
    let seen = save(&store, "one").await.unwrap();
    // Ended by the server, as when it is restarted in between.
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
    for _ in 0..3 {
        database.admin.execute(others, &[&database.name]).await.unwrap();
        assert_eq!(store.document_if_changed(KEY, Some(seen)).await.unwrap(), None);
    }
    proxy.set(Way::Cut);
    for _ in 0..2 {
        assert_eq!(store.document_if_changed(KEY, Some(seen)).await.unwrap_err().code(), "E-STO-008");
        assert_eq!(save(&store, "two").await.unwrap_err().code(), "E-STO-008");
    }
    proxy.set(Way::Open);
    assert_eq!(text(&store).await.unwrap(), one());
    assert_eq!(store.version().await.unwrap(), seen);
    database.remove().await;
}

#[tokio::test]
async fn who_waits_for_a_change_is_woken_over_a_lost_connection() {
    let database = database!();
    let (session, operator) = (Arc::new(open(&database.url).await.unwrap()), open(&database.url).await.unwrap());
    let seen = save(&operator, "one").await.unwrap();
    let waiting = {
        let session = Arc::clone(&session);
        tokio::spawn(async move { session.changed(seen).await })
    };
    session.version().await.unwrap();
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
    database.admin.execute(others, &[&database.name]).await.unwrap();
    let saved = save(&operator, "two").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), saved);
    database.remove().await;
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let database = database!();
    let proxy = Proxy::to(&database).await;
    let url = database.url_at(&proxy.address.to_string(), "");
    let store = open(&url).await.unwrap();
    save(&store, "one").await.unwrap();
    proxy.set(Way::Stopped);
    // From here nothing moves but the clock.
    tokio::time::pause();
    let slow = store.document(KEY).await.unwrap_err();
    assert!(matches!(slow, StoreError::Slow { limit, .. } if limit == Duration::from_secs(2)), "{slow}");
    for error in
        [store.document(KEY).await.unwrap_err(), save(&store, "two").await.unwrap_err(), open(&url).await.unwrap_err()]
    {
        let reason = reason(error);
        assert!(matches!(reason, Reach::Timeout(limit) if limit == Duration::from_secs(5)), "{reason}");
    }
    tokio::time::resume();
    proxy.set(Way::Cut);
    proxy.set(Way::Open);
    assert_eq!(text(&store).await.unwrap(), one());
    database.remove().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = open(&format!("postgres://mur:pa55word@{address}/settings")).await.unwrap_err();
    let said = error.to_string();
    assert_eq!(said, format!("the settings store `{address}/settings` cannot be reached: connection refused"));
    assert!(!format!("{error:?}").contains("pa55word"));
    let nowhere = open("postgres://mur:pa55word@%2Fnowhere/settings").await.unwrap_err();
    assert!(matches!(reason(nowhere), Reach::Io(std::io::ErrorKind::NotFound)));
}

#[tokio::test]
async fn the_login_and_the_database_are_told_apart() {
    let database = database!();
    let name = &database.name;
    let role = format!("CREATE ROLE {name} LOGIN PASSWORD 'right'");
    database.admin.batch_execute(&role).await.unwrap();
    let with = |user: &str, database_name: &str| {
        let (_, rest) = database.url.split_once('@').unwrap();
        format!("postgres://{user}@{}", rest.replace(name, database_name))
    };
    let login = open(&with(&format!("{name}:wr0ng"), name)).await.unwrap_err();
    assert!(matches!(login, StoreError::Login { .. }), "{login}");
    assert!(!format!("{login} {login:?}").contains("wr0ng"));
    assert!(open(&with(name, name)).await.is_err(), "without a password");
    let missing = open(&with(&format!("{name}:right"), "mur_test_nowhere")).await.unwrap_err();
    assert!(matches!(missing, StoreError::NoDatabase { .. }), "{missing}");

    // This user may log in and look, and make nothing.
    let guest = open(&with(&format!("{name}:right"), name)).await.unwrap();
    assert_eq!(text(&guest).await.unwrap(), None);
    assert!(matches!(save(&guest, "one").await, Err(StoreError::Forbidden { .. })));
    let owner = open(&database.url).await.unwrap();
    save(&owner, "one").await.unwrap();
    assert!(matches!(text(&guest).await, Err(StoreError::Forbidden { .. })), "not the same as no document");
    // Given a schema of its own, it needs no right on the database.
    let client = connect(&database.url).await;
    client
        .batch_execute(&format!("DROP SCHEMA murmur CASCADE; CREATE SCHEMA murmur AUTHORIZATION {name}"))
        .await
        .unwrap();
    let guest = open(&with(&format!("{name}:right"), name)).await.unwrap();
    save(&guest, "one").await.unwrap();
    assert_eq!(text(&guest).await.unwrap(), one());
    client.batch_execute(&format!("DROP OWNED BY {name}")).await.unwrap();
    database.admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE); DROP ROLE {name}")).await.unwrap_err();
    database.admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
    database.admin.batch_execute(&format!("DROP ROLE {name}")).await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_dropped_under_us_is_missing_and_not_made_again() {
    let database = database!();
    let store = open(&database.url).await.unwrap();
    let seen = save(&store, "one").await.unwrap();
    let client = connect(&database.url).await;
    client.batch_execute("DROP SCHEMA murmur CASCADE").await.unwrap();
    for error in [
        store.document_if_changed(KEY, Some(seen)).await.unwrap_err(),
        store.document(KEY).await.unwrap_err(),
        store.log(KEY, None, 1).await.unwrap_err(),
        save(&store, "two").await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    }
    drop(client);
    database.admin.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", database.name)).await.unwrap();
    for error in [store.document_if_changed(KEY, Some(seen)).await.unwrap_err(), save(&store, "two").await.unwrap_err()]
    {
        assert!(matches!(error, StoreError::NoDatabase { .. }), "{error}");
    }
    database.admin.batch_execute(&format!("CREATE DATABASE {}", database.name)).await.unwrap();
    assert!(matches!(store.document(KEY).await, Err(StoreError::Missing { .. })));
    assert_eq!(text(&open(&database.url).await.unwrap()).await.unwrap(), None, "who starts then begins with nothing");
    database.remove().await;
}

#[tokio::test]
async fn a_lock_that_another_client_keeps_is_told_and_readers_go_on() {
    let database = database!();
    let store = open(&database.url).await.unwrap();
    save(&store, "one").await.unwrap();
    let holder = connect(&database.url).await;
    holder.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(120321057715570)").await.unwrap();
    assert!(matches!(save(&store, "two").await, Err(StoreError::Busy { .. } | StoreError::Slow { .. })));
    assert_eq!(text(&store).await.unwrap(), one());
    holder.batch_execute("ROLLBACK").await.unwrap();
    save(&store, "two").await.unwrap();
    database.remove().await;
}

#[tokio::test]
async fn a_database_that_reads_only_by_default_is_changed_all_the_same() {
    let database = database!();
    let store = open(&database.url).await.unwrap();
    save(&store, "one").await.unwrap();
    let read_only = format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name);
    database.admin.batch_execute(&read_only).await.unwrap();
    let store = open(&database.url).await.unwrap();
    assert_eq!(text(&store).await.unwrap(), one());
    // A change says itself that it writes.
    save(&store, "two").await.unwrap();
    database.remove().await;
}

#[tokio::test]
async fn a_table_of_somebody_else_stands_in_for_none_of_ours() {
    let database = database!();
    let client = connect(&database.url).await;
    let theirs = "CREATE TABLE public.store (one bigint, form bigint, number bigint, stamp text);
        CREATE TABLE public.documents (key text, text text);
        CREATE FUNCTION public.octet_length(text) RETURNS integer LANGUAGE sql AS 'SELECT 1 / 0'";
    client.batch_execute(theirs).await.unwrap();
    let store = open(&database.url).await.unwrap();
    assert_eq!(text(&store).await.unwrap(), None);
    save(&store, "one").await.unwrap();
    assert_eq!(text(&store).await.unwrap(), one());
    database.remove().await;
}

#[tokio::test]
async fn texts_that_look_like_sql_are_texts() {
    let database = database!();
    let store = open(&database.url).await.unwrap();
    let change = Change { who: "'; DROP SCHEMA murmur CASCADE; --", action: "$1", detail: Some("\\'") };
    store.save_document(KEY, "'); --", &change, Expected::Any).await.unwrap();
    let entry = store.log(KEY, None, 1).await.unwrap().remove(0);
    assert_eq!((entry.who.as_str(), entry.action.as_str(), entry.detail.as_deref()), (change.who, "$1", Some("\\'")));
    database.remove().await;
}

#[tokio::test]
async fn tls_is_spoken_to_the_server_of_that_name_and_to_no_other() {
    let database = database!();
    let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/ca.pem");
    let url = |proxy: &Proxy, options: &str| database.url_at(&format!("localhost:{}", proxy.address.port()), options);
    let trusted = format!("?sslmode=verify-full&sslrootcert={authority}");

    let right = Proxy::with_tls(&database, "localhost").await;
    for options in
        [trusted.clone(), format!("?sslmode=require&sslrootcert={authority}"), format!("?sslrootcert={authority}")]
    {
        let store = open(&url(&right, &options)).await.unwrap();
        save(&store, "one").await.unwrap();
        assert_eq!(text(&store).await.unwrap(), one());
    }
    let unknown = reason(open(&url(&right, "?sslmode=require")).await.unwrap_err());
    assert!(
        matches!(&unknown, Reach::Tls(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer))),
        "{unknown}"
    );
    let other = Proxy::with_tls(&database, "elsewhere").await;
    let other = reason(open(&url(&other, &trusted)).await.unwrap_err());
    assert!(matches!(&other, Reach::Tls(rustls::Error::InvalidCertificate(_))), "{other}");
    for file in ["/nowhere.pem", "/dev/null", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
        let roots = reason(open(&url(&right, &format!("?sslrootcert={file}"))).await.unwrap_err());
        assert!(matches!(roots, Reach::Roots), "{roots}");
    }
    // A server without TLS is not spoken to in clear.
    let clear = Proxy::to(&database).await;
    let refused = reason(open(&url(&clear, &trusted)).await.unwrap_err());
    assert!(matches!(&refused, Reach::Protocol(error) if error.to_string().contains("TLS")), "{refused}");
    database.remove().await;
}
