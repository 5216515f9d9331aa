//! What can happen to a file: each fault beside the store that is whole.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ::store::{Damage, Expected, FileFault, Store, StoreConfig, StoreError, Version};
use tempfile::TempDir;

use crate::stage::{CHANGE, KEY, Noon};

/// Names the home of the helper below.
const PLACE: &str = "MUR_TEST_STORE_HOME";

async fn open(home: &Path) -> Result<Store, StoreError> {
    Store::open(&StoreConfig::in_home(home), Arc::new(Noon)).await
}

async fn save(store: &Store, text: &str) -> Result<Version, StoreError> {
    store.save_document(KEY, text, &CHANGE, Expected::Any).await
}

/// A home whose store holds `one`, closed; and the store's file.
async fn made() -> (TempDir, PathBuf) {
    let home = TempDir::new().unwrap();
    save(&open(home.path()).await.unwrap(), "one").await.unwrap();
    let file = home.path().join("settings.db");
    (home, file)
}

async fn text(store: &Store) -> Result<Option<String>, StoreError> {
    Ok(store.document(KEY).await?.map(|document| document.text))
}

fn one() -> Option<String> {
    Some("one".to_owned())
}

fn what(error: StoreError) -> Damage {
    let StoreError::Damaged { what, .. } = error else { panic!("not damage: {error}") };
    what
}

fn unsafe_file(error: StoreError) -> FileFault {
    let StoreError::UnsafeFile { fault, .. } = error else { panic!("not about the file: {error}") };
    fault
}

fn names(home: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn the_file_and_what_lies_beside_it_are_the_users_alone() {
    let (home, file) = made().await;
    assert_eq!(names(home.path()), ["settings.db"], "a store that nobody has open is one file");
    let store = open(home.path()).await.unwrap();
    assert_eq!(text(&store).await.unwrap(), one());
    assert_eq!(names(home.path()), ["settings.db", "settings.db-shm", "settings.db-wal"]);
    for name in names(home.path()) {
        assert_eq!(fs::metadata(home.path().join(&name)).unwrap().permissions().mode() & 0o7777, 0o600, "{name}");
    }
    for mode in [0o640, 0o604, 0o620, 0o602, 0o601] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        assert_eq!(unsafe_file(text(&store).await.unwrap_err()), FileFault::Exposed(mode));
        assert_eq!(unsafe_file(open(home.path()).await.unwrap_err()), FileFault::Exposed(mode));
        assert_eq!(unsafe_file(save(&store, "two").await.unwrap_err()), FileFault::Exposed(mode));
    }
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(text(&store).await.unwrap(), one());
}

#[tokio::test]
async fn what_is_no_file_of_ours_is_refused_and_left_alone() {
    let (home, file) = made().await;
    let elsewhere = home.path().join("elsewhere.db");
    fs::rename(&file, &elsewhere).unwrap();
    for target in ["elsewhere.db", "nowhere"] {
        symlink(target, &file).unwrap();
        let error = open(home.path()).await.unwrap_err();
        assert_eq!(error.code(), "E-STO-002");
        assert_eq!(unsafe_file(error), FileFault::Link);
        fs::remove_file(&file).unwrap();
    }
    assert!(!home.path().join("nowhere").exists());
    fs::create_dir(&file).unwrap();
    assert_eq!(unsafe_file(open(home.path()).await.unwrap_err()), FileFault::NotAFile);
    fs::remove_dir(&file).unwrap();
    let fifo = Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(fifo.success());
    assert_eq!(unsafe_file(open(home.path()).await.unwrap_err()), FileFault::NotAFile);
    fs::remove_file(&file).unwrap();
    fs::rename(&elsewhere, &file).unwrap();
    assert_eq!(text(&open(home.path()).await.unwrap()).await.unwrap(), one());
}

#[tokio::test]
async fn a_home_that_is_reached_by_a_link_holds_a_store() {
    let (home, _) = made().await;
    let link = home.path().join("link");
    symlink(home.path(), &link).unwrap();
    assert_eq!(text(&open(&link).await.unwrap()).await.unwrap(), one());
}

#[tokio::test]
async fn a_damaged_file_is_told_and_never_begun_anew() {
    let noise: Vec<u8> = (0..40_960_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (home, file) = made().await;
    let whole = fs::read(&file).unwrap();
    let mut holed = whole.clone();
    holed[4096..].fill(0xa5);
    let mut headless = whole.clone();
    headless[..16].fill(0);
    for (bytes, expected) in [
        (&noise[..], Damage::Database),
        (b"x", Damage::Database),
        (&whole[..1000], Damage::Database),
        (&whole[..whole.len() - 4096], Damage::Database),
        (&holed, Damage::Database),
        (&headless, Damage::Database),
        (b"", Damage::Empty),
    ] {
        fs::write(&file, bytes).unwrap();
        let error = open(home.path()).await.unwrap_err();
        assert_eq!(error.code(), "E-STO-004");
        assert_eq!(what(error), expected, "{} bytes", bytes.len());
        assert_eq!(fs::read(&file).unwrap(), bytes, "it is left as it was found");
    }
    fs::write(&file, &whole).unwrap();
    assert_eq!(text(&open(home.path()).await.unwrap()).await.unwrap(), one());
}

#[tokio::test]
async fn another_programs_database_is_refused() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("settings.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(what(open(home.path()).await.unwrap_err()), Damage::Tables);
}

#[tokio::test]
async fn an_empty_or_missing_file_with_its_journal_is_damage() {
    let (home, file) = made().await;
    let journal = home.path().join("settings.db-wal");
    let store = open(home.path()).await.unwrap();
    save(&store, "two").await.unwrap();
    assert!(fs::metadata(&journal).unwrap().len() > 0);
    let (bytes, log) = (fs::read(&file).unwrap(), fs::read(&journal).unwrap());
    drop(store);

    for (found, expected) in [(Some(&b""[..]), Damage::Empty), (None, Damage::Journal)] {
        match found {
            Some(bytes) => fs::write(&file, bytes).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        fs::write(&journal, &log).unwrap();
        assert_eq!(what(open(home.path()).await.unwrap_err()), expected);
        assert_eq!(fs::read(&journal).unwrap(), log);
    }
    // The two that belong together, as after kill -9, are a store with both changes.
    fs::write(&file, bytes).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let _ = fs::remove_file(home.path().join("settings.db-shm"));
    assert_eq!(text(&open(home.path()).await.unwrap()).await.unwrap(), Some("two".to_owned()));
}

#[tokio::test]
async fn a_file_that_this_store_made_is_missed_when_it_is_gone() {
    let home = TempDir::new().unwrap();
    let store = open(home.path()).await.unwrap();
    save(&store, "one").await.unwrap();
    fs::remove_file(home.path().join("settings.db")).unwrap();
    assert!(matches!(store.version().await, Err(StoreError::Missing { .. })));
}

#[tokio::test]
async fn a_file_that_is_changed_under_an_open_store_counts_at_the_next_look() {
    let (home, file) = made().await;
    let (other_home, other) = made().await;
    save(&open(other_home.path()).await.unwrap(), "other").await.unwrap();

    let store = open(home.path()).await.unwrap();
    let seen = store.version().await.unwrap();
    assert_eq!(store.document_if_changed(KEY, Some(seen)).await.unwrap(), None);
    let kept = home.path().join("kept");
    fs::rename(&file, &kept).unwrap();
    let gone = store.document_if_changed(KEY, Some(seen)).await.unwrap_err();
    assert_eq!((gone.code(), matches!(gone, StoreError::Missing { .. })), ("E-STO-003", true));
    assert!(matches!(save(&store, "two").await, Err(StoreError::Missing { .. })), "it is not made anew");
    // What lies beside belongs to the one that is gone.
    for journal in ["settings.db-wal", "settings.db-shm"] {
        let _ = fs::remove_file(home.path().join(journal));
    }
    fs::copy(&other, &file).unwrap();
    let snapshot = store.document_if_changed(KEY, Some(seen)).await.unwrap().unwrap();
    assert_eq!(snapshot.document.unwrap().text, "other");
    File::create(&file).unwrap();
    assert_eq!(what(store.document_if_changed(KEY, Some(snapshot.version)).await.unwrap_err()), Damage::Empty);
    fs::rename(&kept, &file).unwrap();
    assert_eq!(text(&store).await.unwrap(), one());
    OpenOptions::new().write(true).open(&file).unwrap().write_all(b"garbage").unwrap();
    assert_eq!(what(text(&store).await.unwrap_err()), Damage::Database);
}

#[tokio::test]
async fn a_lock_that_another_process_keeps_is_told_and_readers_go_on() {
    let (home, file) = made().await;
    let store = open(home.path()).await.unwrap();
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(save(&store, "two").await, Err(StoreError::Busy { .. })));
    assert_eq!(text(&store).await.unwrap(), one());
    holder.execute_batch("ROLLBACK").unwrap();
    save(&store, "two").await.unwrap();
}

/// Not a test: a process that saves a text of two megabytes, and says what came of it.
#[tokio::test]
#[ignore = "a helper of the tests in this module"]
async fn saver() {
    let home = std::env::var(PLACE).unwrap();
    let store = open(home.as_ref()).await.unwrap();
    let saved = save(&store, &"x".repeat(2_000_000)).await;
    println!("came of it: {}", saved.map_or_else(|error| error.code(), |_| "saved"));
}

/// Runs the helper behind a prefix of words, and tells what it said.
fn saver_behind(prefix: &[&str], home: &Path) -> String {
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "sqlite::saver", "--ignored", "--nocapture"]).env(PLACE, home).stderr(Stdio::inherit());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.split("came of it: ").nth(1).unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_save_that_finds_no_room_keeps_what_was_there() {
    let (home, _) = made().await;
    let limited = |blocks: &str| format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    assert_eq!(saver_behind(&["sh", "-c", &limited("1000"), "sh"], home.path()), "E-STO-010");
    assert_eq!(text(&open(home.path()).await.unwrap()).await.unwrap(), one());
    assert_eq!(saver_behind(&["sh", "-c", &limited("unlimited"), "sh"], home.path()), "saved");
    assert_eq!(text(&open(home.path()).await.unwrap()).await.unwrap().unwrap().len(), 2_000_000);
}
