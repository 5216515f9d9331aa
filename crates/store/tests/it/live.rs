//! That a change counts at the next action, on both engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::store::{Expected, Live, Store, StoreError};

use crate::stage::{CHANGE, KEY, on_both};

async fn save(store: &Store, key: &str, text: &str) -> ::store::Version {
    store.save_document(key, text, &CHANGE, Expected::Any).await.unwrap()
}

on_both! {
    async fn another_stores_change_shows_at_the_next_look(stage) {
        let (session, operator) = (stage.store().await, stage.store().await);
        let mut seen = session.version().await.unwrap();
        for number in 0..20 {
            let text = format!("text {number}");
            save(&operator, KEY, &text).await;
            let snapshot = session.document_if_changed(KEY, Some(seen)).await.unwrap().unwrap();
            assert_eq!(snapshot.document.unwrap().text, text);
            seen = snapshot.version;
            assert_eq!(session.document_if_changed(KEY, Some(seen)).await.unwrap(), None);
        }
        save(&operator, "other", "x").await;
        let snapshot = session.document_if_changed(KEY, Some(seen)).await.unwrap().unwrap();
        assert_eq!(snapshot.document.unwrap().version, 20, "another document's change is one of the store");
    }

    async fn its_own_change_shows_at_the_next_look(stage) {
        let store = stage.store().await;
        let first = save(&store, KEY, "one").await;
        assert_eq!(store.document_if_changed(KEY, Some(first)).await.unwrap(), None);
        save(&store, KEY, "two").await;
        let snapshot = store.document_if_changed(KEY, Some(first)).await.unwrap().unwrap();
        assert_eq!(snapshot.document.unwrap().text, "two");
    }

    async fn a_live_value_is_made_once_per_text_and_never_kept_over_a_fault(stage) {
        let (operator, made) = (stage.store().await, Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&made);
        let live = Live::new(stage.store().await, KEY, move |text: Option<&str>| {
            count.fetch_add(1, Ordering::Relaxed);
            text.map_or(Ok(0), |text| text.parse::<u32>()).map_err(|_| StoreError::Key)
        });
        assert_eq!(*live.current().await.unwrap(), 0);
        save(&operator, KEY, "1").await;
        assert_eq!((*live.current().await.unwrap(), *live.current().await.unwrap()), (1, 1));
        save(&operator, "other", "x").await;
        assert_eq!(*live.current().await.unwrap(), 1);
        assert_eq!(made.load(Ordering::Relaxed), 2);
        save(&operator, KEY, "x").await;
        for _ in 0..2 {
            assert!(matches!(live.current().await, Err(StoreError::Key)));
        }
        save(&operator, KEY, "2").await;
        assert_eq!(*live.current().await.unwrap(), 2);
        assert_eq!(made.load(Ordering::Relaxed), 5);
    }

    async fn who_waits_for_a_change_is_woken_by_it(stage) {
        let (session, operator) = (stage.store().await, stage.store().await);
        // Also by one that makes the store, and by one that came before the wait.
        let mut seen = session.version().await.unwrap();
        for number in 0..3 {
            let waiting = { let session = Arc::clone(&session); tokio::spawn(async move { session.changed(seen).await }) };
            tokio::task::yield_now().await;
            let saved = save(&operator, KEY, &format!("{number}")).await;
            assert_eq!(waiting.await.unwrap().unwrap(), saved);
            assert_eq!(session.changed(seen).await.unwrap(), saved);
            seen = saved;
        }
    }

    async fn a_restored_backup_is_a_change_though_its_count_was_there_before(stage) {
        let (session, operator) = (stage.store().await, stage.store().await);
        save(&operator, KEY, "one").await;
        let seen = save(&operator, KEY, "two").await;
        assert_eq!(session.document_if_changed(KEY, Some(seen)).await.unwrap(), None);
        // As a backup of the first change would have it, after one more change.
        let one = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
        let document = format!("UPDATE documents SET text = 'one', digest = '{one}', version = 1");
        let log = "DELETE FROM audit WHERE version = 2; UPDATE store SET number = 1, stamp = '01'";
        stage.meddle(&format!("{document}; {log}")).await;
        let again = save(&operator, KEY, "three").await;
        assert_eq!((again.number(), again == seen), (seen.number(), false));
        let snapshot = session.document_if_changed(KEY, Some(seen)).await.unwrap().unwrap();
        assert_eq!(snapshot.document.unwrap().text, "three");
    }
}
