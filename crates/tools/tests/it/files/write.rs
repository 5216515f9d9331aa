//! `files_write` and `files_edit`.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::json;

use super::{Desk, Ended};

fn ok(text: &str) -> Ended {
    Ended::Ok(text.to_owned(), false)
}

fn mode(desk: &Desk, path: &str) -> u32 {
    desk.root().join(path).metadata().unwrap().mode() & 0o7777
}

#[test]
fn a_file_is_created_with_its_directories_or_replaced_whole() {
    let desk = Desk::new();
    let write = |path: &str, content: &str| desk.call("files_write", json!({"filePath": path, "content": content}));
    assert_eq!(write("a/b/c.txt", "hello\r\n"), ok("Created `a/b/c.txt`: 7 bytes."));
    assert_eq!(write("a/b/c.txt", ""), ok("Overwrote `a/b/c.txt`: 0 bytes (before: 7 bytes)."));
    assert_eq!(write("a/b/../d", "1"), ok("Created `a/b/../d`: 1 byte."));
    assert_eq!(desk.tree(), ["a/", "a/b/", "a/b/c.txt", "a/d"]);
    assert_eq!((desk.text("a/b/c.txt"), desk.text("a/d")), (String::new(), "1".to_owned()));
    let missing = desk.failed("files_write", json!({"filePath": "x/y/z", "content": "", "createParents": false}));
    assert_eq!(missing, "`x/y/z` does not exist\n`files_list` and `files_find` show what exists");
    assert_eq!(
        desk.call("files_write", json!({"filePath": "a/e", "content": "", "createParents": false})),
        ok("Created `a/e`: 0 bytes.")
    );
    assert!(!desk.root().join("x").exists());
}

#[test]
fn the_mode_of_a_file_is_kept_and_a_new_one_has_the_usual() {
    let desk = Desk::new();
    let usual = desk.put("usual", "").metadata().unwrap().mode();
    for bits in [0o600, 0o755, 0o444] {
        let path = desk.put("file", "old");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
        desk.ok("files_read", json!({"filePath": "file"}));
        desk.ok("files_write", json!({"filePath": "file", "content": "new"}));
        assert_eq!((mode(&desk, "file"), desk.text("file").as_str()), (bits, "new"));
        desk.ok("files_edit", json!({"filePath": "file", "oldText": "new", "newText": "newer"}));
        assert_eq!((mode(&desk, "file"), desk.text("file").as_str()), (bits, "newer"));
        std::fs::remove_file(path).unwrap();
    }
    desk.ok("files_write", json!({"filePath": "fresh", "content": ""}));
    assert_eq!(mode(&desk, "fresh"), usual & 0o7777);
}

#[test]
fn new_content_never_takes_over_the_right_to_run_as_somebody_else() {
    let desk = Desk::new();
    let path = desk.root().join("file");
    let patch =
        "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file\n";
    let changes = [
        ("files_write", json!({"filePath": "file", "content": "new"})),
        ("files_edit", json!({"filePath": "file", "oldText": "old", "newText": "new"})),
        ("files_patch", json!({"patch": patch})),
    ];
    for (tool, input) in changes {
        for bits in [0o4755, 0o2755, 0o6711] {
            desk.put("file", "old");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
            assert_eq!(mode(&desk, "file"), bits);
            desk.ok("files_read", json!({"filePath": "file"}));
            desk.ok(tool, input.clone());
            assert_eq!((mode(&desk, "file"), desk.text("file").as_str()), (bits & 0o777, "new"), "{tool}");
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn what_is_no_place_for_a_file_is_told_and_nothing_is_left_behind() {
    let desk = Desk::new();
    desk.put("file", "x");
    desk.put("dir/file", "x");
    let before = desk.tree();
    let long = format!("new/{}", "n".repeat(300));
    let cases = [
        ("dir", "`dir` is a directory, not a file".to_owned()),
        (".", "`.` is a directory, not a file".to_owned()),
        ("file/below", "`file/below` is not a directory".to_owned()),
        (&long, format!("`{long}` is too long for this file system")),
    ];
    for (path, expected) in cases {
        let told = desk.failed("files_write", json!({"filePath": path, "content": "y"}));
        assert_eq!(told.lines().next(), Some(expected.as_str()), "{path}");
        assert_eq!(desk.tree(), before, "{path}");
    }
}

#[test]
fn another_name_of_a_file_keeps_the_old_content() {
    let desk = Desk::new();
    let path = desk.put("one", "old");
    std::fs::hard_link(path, desk.root().join("two")).unwrap();
    desk.ok("files_read", json!({"filePath": "one"}));
    let text = desk.call("files_write", json!({"filePath": "one", "content": "new"}));
    assert_eq!(
        text,
        ok("Overwrote `one`: 3 bytes (before: 3 bytes). The old content keeps its 1 further name (hard links).")
    );
    assert_eq!((desk.text("one").as_str(), desk.text("two").as_str()), ("new", "old"));
}

#[test]
fn read_only_paths_are_read_and_not_written() {
    let desk = Desk::with(|rules| rules.read_only("tests"));
    desk.put("tests/t", "x");
    desk.link("tests", "alias");
    assert!(matches!(desk.call("files_read", json!({"filePath": "tests/t"})), Ended::Ok(..)));
    for path in ["tests/t", "tests/new", "alias/t", "alias/new"] {
        let ended = desk.call("files_write", json!({"filePath": path, "content": "y"}));
        assert_eq!(ended, Ended::Denied("read_only_path"), "{path}");
        let ended = desk.call("files_edit", json!({"filePath": path, "oldText": "x", "newText": "y"}));
        assert_eq!(ended, Ended::Denied("read_only_path"), "{path}");
    }
    assert_eq!(
        desk.call("files_write", json!({"filePath": "alias/sub/new", "content": "y"})),
        Ended::Denied("read_only_path")
    );
    assert_eq!(
        desk.call("files_write", json!({"filePath": "testsuite", "content": "y"})),
        ok("Created `testsuite`: 1 byte.")
    );
    assert_eq!(
        (desk.text("tests/t").as_str(), desk.tree()),
        ("x", vec!["alias".to_owned(), "tests/".into(), "tests/t".into(), "testsuite".into()])
    );
}

#[test]
fn an_edit_replaces_what_occurs_once() {
    let desk = Desk::new();
    desk.put("f.rs", "fn a() {\n    one();\n}\n");
    let edit =
        |old: &str, new: &str| desk.call("files_edit", json!({"filePath": "f.rs", "oldText": old, "newText": new}));
    let told = "Edited `f.rs` on line 2: 6 bytes replaced by 12 bytes; the file has 28 bytes (before: 22).";
    assert_eq!(edit("one();", "two();\nsix()"), ok(told));
    assert_eq!(desk.text("f.rs"), "fn a() {\n    two();\nsix()\n}\n");
    let same = "`oldText` and `newText` are the same: there is nothing to change";
    assert_eq!(edit("two", "two"), Ended::BadInput(same.to_owned()));
    let missing = "`oldText` does not occur in `f.rs`; from line 1 on it would, but for white space (indentation, tabs, blanks at line ends)\n\
                   read the file again and copy the passage exactly, without line numbers";
    assert_eq!(edit("fn a() {\n  two();", ""), Ended::Failed(missing.to_owned()));
    let twice = "`oldText` occurs 3 times in `f.rs`, on lines 1, 2, 3\ntake in more of the lines around it, so that it occurs once";
    assert_eq!(edit("()", ""), Ended::Failed(twice.to_owned()));
    assert_eq!(desk.tree(), ["f.rs"]);
}

#[test]
fn an_edit_keeps_line_endings_byte_order_mark_and_a_missing_newline() {
    let desk = Desk::new();
    desk.put("f", "\u{feff}one\r\ntwo\r\nthree");
    let text = desk.ok("files_edit", json!({"filePath": "f", "oldText": "one\ntwo", "newText": "1\n2\n2.5"}));
    assert!(text.ends_with(" The file's CRLF line endings were kept."), "{text}");
    assert_eq!(desk.text("f"), "\u{feff}1\r\n2\r\n2.5\r\nthree");
}

#[test]
fn a_file_too_large_to_take_whole_is_refused() {
    let desk = Desk::new();
    std::fs::File::create(desk.root().join("huge")).unwrap().set_len((16 << 20) + 1).unwrap();
    let told = desk.failed("files_edit", json!({"filePath": "huge", "oldText": "a", "newText": "b"}));
    assert_eq!(told, "`huge` has 16777217 bytes, more than the 16777216 that this tool takes\nwork on a part of it");
}

#[test]
fn without_space_the_old_file_stays_and_nothing_else() {
    const CHILD: &str = "TOOLS_TEST_NO_SPACE";
    if std::env::var_os(CHILD).is_none() {
        // A limit on file sizes stands in for a full disk. It holds for a whole process, so this test
        // runs itself in one of its own.
        let script = "ulimit -f 16 && trap '' XFSZ && exec \"$0\" --exact files::write::without_space_the_old_file_stays_and_nothing_else";
        let mut child = std::process::Command::new("sh");
        let output = child.args(["-c", script]).arg(std::env::current_exe().unwrap()).env(CHILD, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let desk = Desk::new();
    desk.put("old", "old");
    desk.ok("files_read", json!({"filePath": "old"}));
    let large = "x".repeat(64 * 1024);
    for path in ["old", "new/deep/file"] {
        let told = desk.failed("files_write", json!({"filePath": path, "content": large}));
        assert_eq!(told, format!("no space is left to write `{path}`; what stood there is unchanged"));
    }
    desk.failed("files_edit", json!({"filePath": "old", "oldText": "old", "newText": large}));
    let patch = format!(
        "--- /dev/null\n+++ b/new/small\n@@ -0,0 +1 @@\n+x\n--- a/old\n+++ b/old\n@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+{large}\n"
    );
    desk.failed("files_patch", json!({"patch": patch}));
    assert_eq!((desk.tree(), desk.text("old").as_str()), (vec!["old".to_owned()], "old"));
    // What fits is written.
    desk.ok("files_write", json!({"filePath": "old", "content": "small"}));
}
