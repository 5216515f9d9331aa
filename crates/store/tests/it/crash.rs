//! A process that is killed in the middle of saving leaves the old or the new, never a part.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use ::store::{Edit, Store, StoreConfig, StoreError};

use crate::stage::{CHANGE, KEY, Noon, on_both};

/// Names the store that the helper below saves to.
const PLACE: &str = "MUR_TEST_STORE_CRASH";

pub(crate) fn config(place: &str) -> StoreConfig {
    if place.starts_with("postgres") {
        StoreConfig::from_url(place).unwrap()
    } else {
        StoreConfig::in_home(place.as_ref())
    }
}

/// Not a test: the process that is killed. It saves one long text after the other and says so.
#[tokio::test]
#[ignore = "a helper of the tests in this module"]
async fn saver() {
    let place = std::env::var(PLACE).unwrap();
    let store = Store::open(&config(&place), Arc::new(Noon)).await.unwrap();
    loop {
        let next = |old: Option<&::store::Document>| {
            let old = old.map_or(0, |old| old.text.as_bytes()[0] - b'a');
            Ok::<_, StoreError>(Edit::Save(char::from(b'a' + (old + 1) % 26).to_string().repeat(300_000)))
        };
        let version = store.update_document(KEY, &CHANGE, next).await.unwrap();
        println!("saved {}", version.number());
    }
}

on_both! {
    async fn a_saver_that_is_killed_leaves_a_whole_store(stage) {
        let place = stage.place();
        let mut last = 0;
        // Killed at once, so also while the store is made, and after some saves.
        for saves in [0, 0, 1, 2, 3, 5, 7] {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "crash::saver", "--ignored", "--nocapture"])
                .env(PLACE, &place)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            let said = lines
                .filter_map(|line| line.split("saved ").nth(1)?.parse::<i64>().ok())
                .take(saves)
                .last();
            child.kill().unwrap();
            child.wait().unwrap();
            let store = stage.store().await;
            let document = store.document(KEY).await.unwrap();
            let log = store.log(KEY, None, u32::MAX).await.unwrap();
            let number = store.version().await.unwrap().number();
            assert!(number >= said.unwrap_or(last), "what was confirmed is there");
            assert_eq!(log.len(), usize::try_from(number).unwrap());
            assert_eq!(log.first().and_then(|entry| entry.after.clone()), document.map(|document| document.digest));
            last = number;
        }
        assert!(last >= 18, "{last}");
    }
}
