//! Documents, the log and the version, on both engines.

use std::collections::BTreeSet;

use ::store::{Change, Damage, Document, Edit, Expected, LogEntry, MAX_DOCUMENT, StoreError, Version};

use crate::stage::{CHANGE, KEY, NOON_TEXT, on_both};

const ONE_HASH: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
const TWO_HASH: &str = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";

fn document(text: &str, digest: &str, version: i64) -> Document {
    Document {
        text: text.to_owned(),
        digest: digest.to_owned(),
        version,
        saved_at: NOON_TEXT.to_owned(),
        saved_by: "ann@laptop".to_owned(),
    }
}

on_both! {
    async fn a_store_that_was_never_made_is_empty_and_is_not_made_by_looking(stage) {
        for _ in 0..2 {
            let store = stage.open().await.unwrap();
            assert_eq!(store.version().await.unwrap(), Version::default());
            assert_eq!(store.document(KEY).await.unwrap(), None);
            assert_eq!(store.log(KEY, None, 10).await.unwrap(), []);
            let snapshot = store.document_if_changed(KEY, None).await.unwrap().unwrap();
            assert_eq!((snapshot.version, snapshot.document), (Version::default(), None));
            assert_eq!(store.document_if_changed(KEY, Some(Version::default())).await.unwrap(), None);
        }
        if let crate::stage::Stage::Sqlite(home) = stage {
            assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
        }
    }

    async fn what_is_saved_is_read_and_logged_and_counted(stage) {
        let store = stage.store().await;
        let first = store.save_document(KEY, "one", &CHANGE, Expected::Absent).await.unwrap();
        let bob = Change { who: "bob@server", action: "policy.add", detail: Some("no-secrets") };
        let second = store.save_document(KEY, "two", &bob, Expected::Version(1)).await.unwrap();
        let other = store.save_document("other", "", &CHANGE, Expected::Any).await.unwrap();
        assert_eq!([first, second, other].map(|version| version.number()), [1, 2, 3]);
        assert_eq!(store.version().await.unwrap(), other);

        let expected = Document { saved_by: "bob@server".to_owned(), ..document("two", TWO_HASH, 2) };
        assert_eq!(stage.store().await.document(KEY).await.unwrap(), Some(expected));
        let entry = |version, who: &str, action: &str| LogEntry {
            version,
            at: NOON_TEXT.to_owned(),
            who: who.to_owned(),
            action: action.to_owned(),
            subject: KEY.to_owned(),
            detail: None,
            before: None,
            after: None,
        };
        let (one, two) = (Some(ONE_HASH.to_owned()), Some(TWO_HASH.to_owned()));
        let log = [
            LogEntry {
                detail: Some("no-secrets".to_owned()),
                before: one.clone(),
                after: two,
                ..entry(2, "bob@server", "policy.add")
            },
            LogEntry { after: one, ..entry(1, "ann@laptop", "policy.set") },
        ];
        assert_eq!(store.log(KEY, None, 10).await.unwrap(), log);
        assert_eq!(store.log(KEY, None, 1).await.unwrap(), log[..1]);
        assert_eq!(store.log(KEY, Some(2), 10).await.unwrap(), log[1..]);
    }

    async fn a_removed_document_is_gone_and_its_log_is_not(stage) {
        let store = stage.store().await;
        let remove = async || store.update_document(KEY, &CHANGE, |_| Ok::<_, StoreError>(Edit::Remove)).await.unwrap();
        assert_eq!(remove().await, Version::default());
        store.save_document(KEY, "one", &CHANGE, Expected::Any).await.unwrap();
        assert_eq!(remove().await.number(), 2);
        assert_eq!(store.document(KEY).await.unwrap(), None);
        assert_eq!(remove().await.number(), 2, "there is nothing to remove, so nothing changes");
        let log = store.log(KEY, None, 10).await.unwrap();
        assert_eq!((log.len(), log[0].before.as_deref(), &log[0].after), (2, Some(ONE_HASH), &None));
    }

    async fn a_save_that_expects_something_else_changes_nothing(stage) {
        let store = stage.store().await;
        let save = async |expected| store.save_document(KEY, "new", &CHANGE, expected).await;
        assert!(matches!(save(Expected::Version(1)).await, Err(StoreError::Conflict { key }) if key == KEY));
        let version = store.save_document(KEY, "one", &CHANGE, Expected::Absent).await.unwrap();
        for expected in [Expected::Absent, Expected::Version(0), Expected::Version(2)] {
            assert!(matches!(save(expected).await, Err(StoreError::Conflict { .. })));
        }
        assert_eq!(store.document(KEY).await.unwrap(), Some(document("one", ONE_HASH, 1)));
        assert_eq!(store.version().await.unwrap(), version);
        assert_eq!(save(Expected::Version(1)).await.unwrap().number(), 2);
    }

    async fn an_edit_that_refuses_or_keeps_changes_nothing(stage) {
        #[derive(Debug)]
        struct Refused;
        impl From<StoreError> for Refused {
            fn from(error: StoreError) -> Self {
                panic!("not the store's: {error}")
            }
        }
        let store = stage.store().await;
        let version = store.save_document(KEY, "one", &CHANGE, Expected::Any).await.unwrap();
        store.update_document(KEY, &CHANGE, |_| Err(Refused)).await.unwrap_err();
        let kept = store.update_document(KEY, &CHANGE, |old| {
            assert_eq!(old.unwrap().text, "one");
            Ok::<_, Refused>(Edit::Keep)
        });
        assert_eq!(kept.await.unwrap(), version);
        assert_eq!(store.version().await.unwrap(), version);
        assert_eq!(store.log(KEY, None, 10).await.unwrap().len(), 1);
    }

    async fn texts_come_back_as_they_went_or_are_refused(stage) {
        let store = stage.store().await;
        for text in ["", " ", "\u{feff}\r\n\t'\";--$1?1\\", "ünïcödé 🦀 e\u{301}", &"x".repeat(MAX_DOCUMENT)] {
            store.save_document(KEY, text, &CHANGE, Expected::Any).await.unwrap();
            assert_eq!(store.document(KEY).await.unwrap().unwrap().text, text);
        }
        let version = store.version().await.unwrap();
        let long = "x".repeat(MAX_DOCUMENT + 1);
        let refused = store.save_document(KEY, &long, &CHANGE, Expected::Any).await;
        assert!(matches!(refused, Err(StoreError::TooLarge { bytes, .. }) if bytes == MAX_DOCUMENT + 1));
        let refused = store.save_document(KEY, "a\0b", &CHANGE, Expected::Any).await;
        assert!(matches!(refused, Err(StoreError::Nul { .. })));
        let nul = Change { who: "a\0b", ..CHANGE };
        assert!(matches!(store.save_document(KEY, "", &nul, Expected::Any).await, Err(StoreError::Nul { .. })));
        assert_eq!(store.version().await.unwrap(), version);
    }

    async fn keys_are_exact_and_checked(stage) {
        let store = stage.store().await;
        for key in ["", "a b", "a/b", "ä", "a'", "a\0", &"k".repeat(121)] {
            assert!(matches!(store.document(key).await, Err(StoreError::Key)), "{key:?}");
            let saved = store.save_document(key, "", &CHANGE, Expected::Any).await;
            assert!(matches!(saved, Err(StoreError::Key)), "{key:?}");
        }
        let keys = ["a", "A", "a.b", "a-b", "a_b", "a:b", "0", &"k".repeat(120)];
        for key in keys {
            store.save_document(key, key, &CHANGE, Expected::Absent).await.unwrap();
        }
        for key in keys {
            assert_eq!(store.document(key).await.unwrap().unwrap().text, key);
        }
    }

    async fn fifty_updates_at_once_lose_none(stage) {
        let stores = [stage.store().await, stage.store().await];
        let updates: Vec<_> = (0..50)
            .map(|number| {
                let store = std::sync::Arc::clone(&stores[number % 2]);
                tokio::spawn(async move {
                    let add = |old: Option<&Document>| {
                        let old = old.map_or("", |old| old.text.as_str());
                        Ok::<_, StoreError>(Edit::Save(format!("{old} {number}")))
                    };
                    store.update_document(KEY, &CHANGE, add).await
                })
            })
            .collect();
        let mut numbers = BTreeSet::new();
        for update in updates {
            numbers.insert(update.await.unwrap().unwrap().number());
        }
        assert_eq!(numbers, (1..=50).collect());
        let text = stores[0].document(KEY).await.unwrap().unwrap().text;
        let found: BTreeSet<usize> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(found, (0..50).collect());
        // Each change began with what the one before it left.
        let log = stores[1].log(KEY, None, 100).await.unwrap();
        assert_eq!(log.len(), 50);
        assert!(log.windows(2).all(|pair| pair[0].before == pair[1].after));
    }

    async fn eight_that_make_the_store_at_once_make_one(stage) {
        let mut saves = Vec::new();
        for number in 0..8 {
            let store = stage.store().await;
            saves.push(tokio::spawn(async move {
                store.save_document(&format!("key{number}"), "text", &CHANGE, Expected::Absent).await
            }));
        }
        for save in saves {
            save.await.unwrap().unwrap();
        }
        let store = stage.store().await;
        assert_eq!(store.version().await.unwrap().number(), 8);
        for number in 0..8 {
            assert!(store.document(&format!("key{number}")).await.unwrap().is_some());
        }
    }

    async fn a_store_of_a_newer_mur_is_refused_also_while_it_is_open(stage) {
        let store = stage.store().await;
        let version = store.save_document(KEY, "one", &CHANGE, Expected::Any).await.unwrap();
        store.version().await.unwrap();
        stage.meddle("UPDATE store SET form = 2").await;
        let newer = |error: &StoreError| matches!(error, StoreError::Newer { found: 2, known: 1, .. });
        assert!(newer(&store.document_if_changed(KEY, Some(version)).await.unwrap_err()));
        assert!(newer(&store.document(KEY).await.unwrap_err()));
        assert!(newer(&store.save_document(KEY, "two", &CHANGE, Expected::Any).await.unwrap_err()));
        let error = stage.open().await.unwrap_err();
        assert!(newer(&error) && error.to_string().contains("was made by a newer mur"), "{error}");
        assert_eq!((error.code(), error.hint()), ("E-STO-005", "update mur on this host"));
        stage.meddle("UPDATE store SET form = 1").await;
        assert_eq!(store.document(KEY).await.unwrap(), Some(document("one", ONE_HASH, 1)));
    }

    async fn what_was_taken_away_past_the_store_is_missed(stage) {
        let (store, damaged) = (stage.store().await, |error: StoreError| match error {
            StoreError::Damaged { what, .. } => what,
            other => panic!("{other}"),
        });
        let seen = store.save_document(KEY, "one", &CHANGE, Expected::Any).await.unwrap();
        store.save_document("other", "two", &CHANGE, Expected::Any).await.unwrap();
        let gone = || Damage::Document { key: KEY.to_owned() };
        stage.meddle(&format!("DELETE FROM documents WHERE key = '{KEY}'")).await;
        assert_eq!(damaged(store.document(KEY).await.unwrap_err()), gone());
        assert_eq!(damaged(store.document_if_changed(KEY, Some(seen)).await.unwrap_err()), gone());
        assert_eq!(damaged(store.save_document(KEY, "new", &CHANGE, Expected::Any).await.unwrap_err()), gone());
        // Another document is whole, and one that was removed by the store is rightly not there.
        assert_eq!(store.document("other").await.unwrap(), Some(document("two", TWO_HASH, 2)));
        store.update_document("other", &CHANGE, |_| Ok::<_, StoreError>(Edit::Remove)).await.unwrap();
        assert_eq!(store.document("other").await.unwrap(), None);
        // An older text with its own digest is not the last one.
        let older = format!("INSERT INTO documents VALUES ('{KEY}', 'two', '{TWO_HASH}', 1, 'a', 'b')");
        stage.meddle(&older).await;
        assert_eq!(damaged(store.document(KEY).await.unwrap_err()), gone());
        stage.meddle("DELETE FROM documents; DELETE FROM audit").await;
        assert_eq!(damaged(store.document(KEY).await.unwrap_err()), Damage::Row);
        assert_eq!(damaged(stage.open().await.unwrap_err()), Damage::Row);
    }

    async fn what_was_changed_past_the_store_is_damage_and_not_an_answer(stage) {
        let store = stage.store().await;
        store.save_document(KEY, "one", &CHANGE, Expected::Any).await.unwrap();
        store.save_document("other", "two", &CHANGE, Expected::Any).await.unwrap();
        stage.meddle("UPDATE documents SET text = 'uno' WHERE version = 1").await;
        let key = || KEY.to_owned();
        let damaged = |error: &StoreError, expected: Damage| matches!(error, StoreError::Damaged { what, .. } if *what == expected);
        assert!(damaged(&store.document(KEY).await.unwrap_err(), Damage::Document { key: key() }));
        let over = store.save_document(KEY, "new", &CHANGE, Expected::Any).await.unwrap_err();
        assert!(damaged(&over, Damage::Document { key: key() }), "it is not written over either");
        assert_eq!(store.document("other").await.unwrap(), Some(document("two", TWO_HASH, 2)));

        stage.meddle("DELETE FROM store").await;
        assert!(damaged(&store.document("other").await.unwrap_err(), Damage::Row));
        assert!(damaged(&stage.open().await.unwrap_err(), Damage::Row));
        stage.meddle("DROP TABLE documents").await;
        assert!(damaged(&store.document("other").await.unwrap_err(), Damage::Tables));
        stage.meddle("DROP TABLE store").await;
        assert!(damaged(&store.document("other").await.unwrap_err(), Damage::Tables));
        assert!(damaged(&stage.open().await.unwrap_err(), Damage::Tables));
        let error = store.save_document(KEY, "new", &CHANGE, Expected::Any).await.unwrap_err();
        assert!(damaged(&error, Damage::Tables), "nothing is made again: {error}");
    }
}
