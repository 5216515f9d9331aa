//! The stored hard blocks as `policy` sees them, on both engines.

use ::store::{Edit, Expected, StoreError, StoredBoundaries};
use policy::{Base, Boundaries as _, Operation, Unreadable, Verdict};

use crate::stage::{CHANGE, KEY, Stage, on_both};

fn document(pattern: &str) -> String {
    let block = format!(r#"{{"id":"a","type":"path","match":"prefix","pattern":"{pattern}","operations":["write"]}}"#);
    format!(r#"{{"version":1,"hardBlocks":[{block}]}}"#)
}

fn base() -> Base {
    Base::new("/srv/agent", "/home/ann")
}

async fn boundaries(stage: &Stage) -> StoredBoundaries {
    StoredBoundaries::new(stage.store().await, base())
}

/// Whether writing below `/srv/agent/keys` and below `/srv/agent/docs` is blocked.
async fn blocked(boundaries: &StoredBoundaries) -> Result<[bool; 2], Unreadable> {
    let compiled = boundaries.current().await?;
    let blocks = |path: &str| matches!(compiled.test_path(Operation::Write, path, &base()), Verdict::Blocked(_));
    Ok([blocks("keys/a"), blocks("docs/a")])
}

on_both! {
    async fn a_change_of_the_blocks_holds_at_the_next_review(stage) {
        let (session, operator) = (boundaries(stage).await, stage.store().await);
        assert_eq!(blocked(&session).await.unwrap(), [false, false]);
        operator.save_document(KEY, &document("keys"), &CHANGE, Expected::Any).await.unwrap();
        assert_eq!(blocked(&session).await.unwrap(), [true, false]);
        operator.save_document(KEY, &document("docs"), &CHANGE, Expected::Any).await.unwrap();
        assert_eq!(blocked(&session).await.unwrap(), [false, true]);
        operator.update_document(KEY, &CHANGE, |_| Ok::<_, StoreError>(Edit::Remove)).await.unwrap();
        assert_eq!(blocked(&session).await.unwrap(), [false, false]);
    }

    async fn what_cannot_be_read_is_no_empty_list(stage) {
        let (session, operator) = (boundaries(stage).await, stage.store().await);
        operator.save_document(KEY, &document("keys"), &CHANGE, Expected::Any).await.unwrap();
        assert_eq!(blocked(&session).await.unwrap(), [true, false]);
        for text in ["", "{", "null", r#"{"version":2,"hardBlocks":[]}"#, r#"{"version":1,"hardBlocks":{}}"#] {
            operator.save_document(KEY, text, &CHANGE, Expected::Any).await.unwrap();
            assert!(blocked(&session).await.unwrap_err().why().contains("not valid"), "{text}");
        }
        operator.save_document(KEY, &document("keys"), &CHANGE, Expected::Any).await.unwrap();
        assert_eq!(blocked(&session).await.unwrap(), [true, false]);
        stage.meddle("UPDATE documents SET text = ''").await;
        // A change past the store moves no version, and only that is asked for.
        operator.save_document("other", "", &CHANGE, Expected::Any).await.unwrap();
        assert!(blocked(&session).await.unwrap_err().why().ends_with("(E-STO-004)"));
        stage.meddle("UPDATE store SET form = 2").await;
        assert!(blocked(&session).await.unwrap_err().why().ends_with("(E-STO-005)"));
    }
}
