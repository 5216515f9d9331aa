//! The mutation gate: what exists is replaced whole only by a task that has seen it as it is.

use serde_json::json;

use super::{Desk, Ended};

const UNSEEN: Ended = Ended::Denied("mutation_gate:not_seen");
const CHANGED: Ended = Ended::Denied("mutation_gate:changed_since_seen");

fn write(desk: &Desk, path: &str, content: &str) -> Ended {
    desk.call("files_write", json!({"filePath": path, "content": content}))
}

fn wrote(ended: Ended) -> bool {
    matches!(ended, Ended::Ok(..))
}

#[test]
fn a_file_is_replaced_after_it_was_read_and_not_before() {
    let desk = Desk::new();
    desk.put("a", "one");
    desk.put("b", "one");
    assert_eq!(write(&desk, "a", "two"), UNSEEN);
    desk.ok("files_read", json!({"filePath": "b"}));
    assert_eq!((write(&desk, "a", "two"), desk.text("a").as_str()), (UNSEEN, "one"));
    desk.ok("files_read", json!({"filePath": "a"}));
    assert!(wrote(write(&desk, "a", "two")));
    // What the task wrote it knows.
    assert!(wrote(write(&desk, "a", "three")));
    assert!(wrote(write(&desk, "new", "1")) && wrote(write(&desk, "new", "2")));
    assert_eq!(desk.text("a"), "three");
}

#[test]
fn a_file_that_changed_meanwhile_is_read_again_first() {
    let desk = Desk::new();
    desk.put("a", "one");
    desk.ok("files_read", json!({"filePath": "a"}));
    desk.put("a", "theirs");
    assert_eq!((write(&desk, "a", "two"), desk.text("a").as_str()), (CHANGED, "theirs"));
    desk.ok("files_read", json!({"filePath": "a"}));
    assert!(wrote(write(&desk, "a", "two")));
    // Another file under the same name, as large and of the same time.
    let old = std::fs::metadata(desk.root().join("a")).unwrap().modified().unwrap();
    desk.put("other", "TWO");
    std::fs::File::open(desk.root().join("other")).unwrap().set_modified(old).unwrap();
    std::fs::rename(desk.root().join("other"), desk.root().join("a")).unwrap();
    assert_eq!((write(&desk, "a", "three"), desk.text("a").as_str()), (CHANGED, "TWO"));
}

#[test]
fn only_what_was_shown_counts_as_read() {
    let desk = Desk::new();
    desk.put("binary", b"\0\x01\x02");
    desk.put("text", "some text");
    desk.put("empty", "");
    for (path, range) in [("binary", json!({})), ("text", json!({"offsetBytes": 100}))] {
        let mut input = range;
        input["filePath"] = json!(path);
        desk.call("files_read", input);
        assert_eq!(write(&desk, path, "x"), UNSEEN, "{path}");
    }
    for tool in ["files_list", "files_find", "files_search"] {
        let input = match tool {
            "files_find" => json!({"pattern": "*"}),
            "files_search" => json!({"query": "text"}),
            _ => json!({}),
        };
        desk.ok(tool, input);
    }
    desk.ok("files_inspect", json!({"filePath": "text"}));
    assert_eq!(write(&desk, "text", "x"), UNSEEN);
    desk.ok("files_read", json!({"filePath": "binary", "maxBytes": 2}));
    desk.ok("files_read", json!({"filePath": "text", "maxBytes": 2}));
    desk.ok("files_read", json!({"filePath": "empty"}));
    assert!(
        wrote(write(&desk, "binary", "x")) && wrote(write(&desk, "text", "x")) && wrote(write(&desk, "empty", "x"))
    );
}

#[test]
fn a_file_is_known_by_where_its_links_lead() {
    let desk = Desk::new();
    desk.put("real", "one");
    desk.link("real", "alias");
    assert_eq!(write(&desk, "alias", "two"), UNSEEN);
    desk.ok("files_read", json!({"filePath": "alias"}));
    assert!(wrote(write(&desk, "real", "two")));
    assert_eq!(desk.text("alias"), "two");
}

#[test]
fn what_edits_and_patches_leave_is_known() {
    let desk = Desk::new();
    desk.put("edited", "one\n");
    desk.put("patched", "one\n");
    desk.put("gone", "one\n");
    desk.ok("files_edit", json!({"filePath": "edited", "oldText": "one", "newText": "two"}));
    let patch = "--- a/patched\n+++ b/patched\n@@ -1 +1 @@\n-one\n+two\n--- /dev/null\n+++ b/made\n@@ -0,0 +1 @@\n+x\n\
                 --- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n";
    desk.ok("files_patch", json!({"patch": patch}));
    for path in ["edited", "patched", "made"] {
        assert!(wrote(write(&desk, path, "whole")), "{path}");
    }
    // Its name is free, so nothing unseen can be lost; what somebody else puts there is unseen.
    desk.put("gone", "theirs");
    assert_eq!(write(&desk, "gone", "mine"), UNSEEN);
}
