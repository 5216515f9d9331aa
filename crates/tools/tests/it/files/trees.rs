//! `files_list`, `files_find` and `files_search`.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{Desk, Ended};

fn shown(text: &str) -> Ended {
    Ended::Ok(text.to_owned(), false)
}

fn cut(text: &str) -> Ended {
    Ended::Ok(text.to_owned(), true)
}

fn small() -> Desk {
    let desk = Desk::new();
    desk.put("src/lib.rs", "pub mod a;\n");
    desk.put("src/a/mod.rs", "fn a() {}\n// TODO: a\n");
    desk.put("run.sh", "#!/bin/sh\n");
    desk.put(".git/config", "[core] TODO\n");
    desk.put("README.md", "todo\r\nTODO list\r\n");
    std::fs::set_permissions(desk.root().join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    desk.link("src/lib.rs", "link");
    desk
}

#[test]
fn a_list_shows_kinds_sizes_and_links() {
    let desk = small();
    let all = "`.`: 8 entries.\n\
        .git/\n\
        README.md  (17 bytes)\n\
        link -> src/lib.rs  (link)\n\
        run.sh  (10 bytes, executable)\n\
        src/\n\
        src/a/\n\
        src/a/mod.rs  (21 bytes)\n\
        src/lib.rs  (11 bytes)\n\
        1 `.git` directory was not entered\n";
    assert_eq!(desk.call("files_list", json!({})), shown(all));
    let top = "`src`: 2 entries.\na/\nlib.rs  (11 bytes)\n1 directory at depth 1 not entered\n";
    assert_eq!(desk.call("files_list", json!({"path": "src", "depth": 1})), cut(top));
    // What is asked for by name is shown.
    assert_eq!(desk.call("files_list", json!({"path": ".git"})), shown("`.git`: 1 entry.\nconfig  (12 bytes)\n"));
    assert_eq!(
        desk.call("files_list", json!({"path": "run.sh"})),
        Ended::Failed("`run.sh` is not a directory".to_owned())
    );
    std::fs::create_dir(desk.root().join("empty")).unwrap();
    assert_eq!(desk.call("files_list", json!({"path": "empty"})), shown("`empty`: 0 entries.\n"));
}

#[test]
fn a_list_stops_at_500_entries_with_the_upper_levels_whole() {
    let desk = Desk::new();
    for number in 0..400 {
        desk.put(&format!("a/deep/{number:03}"), "");
    }
    for number in 0..150 {
        desk.put(&format!("b{number:03}"), "");
    }
    let Ended::Ok(text, true) = desk.call("files_list", json!({})) else { panic!("not cut") };
    assert!(text.starts_with(
        "`.`: 500 entries shown, and there are more: list a directory below, or fewer levels.\na/\na/deep/\n"
    ));
    assert!(
        text.contains("\nb149  (0 bytes)\n")
            && text.contains("\na/deep/347  (0 bytes)\n")
            && !text.contains("deep/348")
    );
    assert_eq!(text.lines().count(), 501);
}

#[test]
fn a_list_goes_four_levels_deep_and_find_eight() {
    let desk = Desk::new();
    desk.put("1/2/3/4/5/6/7/8/9", "");
    let listed = "`.`: 4 entries.\n1/\n1/2/\n1/2/3/\n1/2/3/4/\n1 directory at depth 4 not entered\n";
    assert_eq!(desk.call("files_list", json!({})), cut(listed));
    let found = "8 paths for `[0-9]` in `.`.\n1/\n1/2/\n1/2/3/\n1/2/3/4/\n1/2/3/4/5/\n1/2/3/4/5/6/\n1/2/3/4/5/6/7/\n1/2/3/4/5/6/7/8/\n1 directory at depth 8 not entered\n";
    assert_eq!(desk.call("files_find", json!({"pattern": "[0-9]"})), cut(found));
    assert!(desk.ok("files_search", json!({"query": "x"})).contains("searched 1 file (0 bytes)"));
}

#[test]
fn find_matches_names_or_paths() {
    let desk = small();
    let git = "1 `.git` directory was not entered\n";
    let cases = [
        (json!({"pattern": "*.rs"}), format!("2 paths for `*.rs` in `.`.\nsrc/lib.rs\nsrc/a/mod.rs\n{git}")),
        (json!({"pattern": "src/*"}), format!("2 paths for `src/*` in `.`.\nsrc/a/\nsrc/lib.rs\n{git}")),
        (json!({"pattern": "**/mod.rs", "path": "src"}), "1 path for `**/mod.rs` in `src`.\na/mod.rs\n".to_owned()),
        (json!({"pattern": "config"}), format!("0 paths for `config` in `.`.\n{git}")),
        (json!({"pattern": "LINK"}), format!("0 paths for `LINK` in `.`.\n{git}")),
    ];
    for (input, expected) in cases {
        assert_eq!(desk.call("files_find", input), shown(&expected));
    }
    for number in 0..1001 {
        desk.put(&format!("many/{number:04}.x"), "");
    }
    let Ended::Ok(text, true) = desk.call("files_find", json!({"pattern": "*.x"})) else { panic!("not cut") };
    assert!(text.starts_with(
        "1000 paths for `*.x` in `.` shown, and there are more: narrow the pattern or the path.\nmany/0000.x\n"
    ));
    assert!(text.contains("\nmany/0999.x\n") && !text.contains("many/1000.x"));
}

#[test]
fn search_finds_lines_literally_and_case_sensitively_unless_told_otherwise() {
    let desk = small();
    desk.put("bin", b"\x00TODO\n");
    let rest = "1 binary file was not searched\n1 `.git` directory was not entered\n";
    let head = |lines: u64, files: u64| {
        let (l, f) = (if lines == 1 { "line" } else { "lines" }, if files == 1 { "file" } else { "files" });
        format!("{lines} matching {l} in {files} {f}; searched 4 files (65 bytes) in `.`.\n")
    };
    let cases = [
        (json!({"query": "TODO"}), format!("{}README.md:2: TODO list\nsrc/a/mod.rs:2: // TODO: a\n{rest}", head(2, 2))),
        (
            json!({"query": "todo", "ignoreCase": true}),
            format!("{}README.md:1: todo\nREADME.md:2: TODO list\nsrc/a/mod.rs:2: // TODO: a\n{rest}", head(3, 2)),
        ),
        (json!({"query": "fn a()"}), format!("{}src/a/mod.rs:1: fn a() {{}}\n{rest}", head(1, 1))),
        (json!({"query": r"^fn \w+\(", "regex": true}), format!("{}src/a/mod.rs:1: fn a() {{}}\n{rest}", head(1, 1))),
        (json!({"query": "nothing"}), format!("{}{rest}", head(0, 0))),
    ];
    for (input, expected) in cases {
        assert_eq!(desk.call("files_search", input.clone()), shown(&expected), "{input}");
    }
    let one = "1 matching line in 1 file; searched 1 file (21 bytes) in `src/a/mod.rs`.\nsrc/a/mod.rs:2: // TODO: a\n";
    assert_eq!(desk.call("files_search", json!({"query": "TODO", "path": "src/a/mod.rs"})), shown(one));
}

#[test]
fn search_says_what_it_cut() {
    let desk = Desk::new();
    desk.put("many", "hit\n".repeat(300));
    let Ended::Ok(text, true) = desk.call("files_search", json!({"query": "hit"})) else { panic!("not cut") };
    assert!(
        text.starts_with("200 matching lines in 1 file;")
            && text.contains("\nmany:200: hit\n")
            && !text.contains("many:201")
    );
    assert!(
        text.ends_with("Truncated: there are more matches. Narrow the query or the path, or raise `maxResults`.\n")
    );
    assert!(matches!(desk.call("files_search", json!({"query": "hit", "maxResults": 300})), Ended::Ok(_, false)));
    desk.put("long", format!("{}needle{}\n", "a".repeat(1000), "b".repeat(1000)));
    let expected = format!(
        "1 matching line in 1 file; searched 1 file (2007 bytes) in `long`.\nlong:1: [900 bytes cut] {}needle{} [706 bytes cut]\n1 long line is cut\n",
        "a".repeat(100),
        "b".repeat(294)
    );
    assert_eq!(desk.call("files_search", json!({"query": "needle", "path": "long"})), cut(&expected));
    // A sparse file: large, and read no further than the limit.
    let file = std::fs::File::create(desk.root().join("huge")).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, "needle\n".repeat(2000).as_bytes(), 0).unwrap();
    file.set_len(40 << 20).unwrap();
    let Ended::Ok(text, true) = desk.call("files_search", json!({"query": "absent", "path": "huge"})) else {
        panic!("not cut")
    };
    assert!(
        text.contains("(16777216 bytes)") && text.contains("1 file was searched only in part: it is too large\n"),
        "{text}"
    );
}

/// Sparse files, as large together as all that one search reads.
#[test]
fn binary_files_do_not_use_up_what_a_search_may_read() {
    let desk = Desk::new();
    for number in 0..16 {
        std::fs::File::create(desk.root().join(format!("a{number:02}"))).unwrap().set_len(16 << 20).unwrap();
    }
    desk.put("z", "needle\n");
    let expected = "1 matching line in 1 file; searched 1 file (131079 bytes) in `.`.\nz:1: needle\n16 binary files were not searched\n";
    assert_eq!(desk.call("files_search", json!({"query": "needle"})), shown(expected));
}

#[test]
fn no_walk_follows_a_directory_link_but_one_that_is_named_is_entered() {
    let desk = Desk::new();
    desk.put("real/needle.txt", "needle\n");
    desk.link("real", "alias");
    desk.link("..", "real/up");
    let listed = "`.`: 4 entries.\nalias -> real  (link)\nreal/\nreal/needle.txt  (7 bytes)\nreal/up -> .  (link)\n";
    assert_eq!(desk.call("files_list", json!({})), shown(listed));
    assert_eq!(
        desk.call("files_find", json!({"pattern": "needle*"})),
        shown("1 path for `needle*` in `.`.\nreal/needle.txt\n")
    );
    let found = "1 matching line in 1 file; searched 1 file (7 bytes) in `.`.\nreal/needle.txt:1: needle\n";
    assert_eq!(desk.call("files_search", json!({"query": "needle"})), shown(found));
    let named = "`alias`: 2 entries.\nneedle.txt  (7 bytes)\nup -> .  (link)\n";
    assert_eq!(desk.call("files_list", json!({"path": "alias"})), shown(named));
}

#[test]
fn what_the_rules_hide_is_counted_and_not_named() {
    let desk = Desk::with(|rules| {
        let root = rules.root().to_owned();
        rules.hidden(root.join("vault")).hidden(root.join("src/key.pem"))
    });
    desk.put("vault/needle", "needle\n");
    desk.put("src/key.pem", "needle\n");
    desk.put("src/open", "needle\n");
    desk.link("vault/needle", "alias");
    let listed =
        "`.`: 3 entries.\nalias  (link)\nsrc/\nsrc/open  (7 bytes)\n2 entries are withheld by the capsule's rules\n";
    assert_eq!(desk.call("files_list", json!({})), shown(listed));
    let withheld = "2 entries are withheld by the capsule's rules\n";
    assert_eq!(
        desk.call("files_find", json!({"pattern": "{needle,*.pem}"})),
        shown(&format!("0 paths for `{{needle,*.pem}}` in `.`.\n{withheld}"))
    );
    let found = format!("1 matching line in 1 file; searched 1 file (7 bytes) in `.`.\nsrc/open:1: needle\n{withheld}");
    assert_eq!(desk.call("files_search", json!({"query": "needle"})), shown(&found));
    for path in ["vault/needle", "alias", "src/key.pem"] {
        assert_eq!(desk.call("files_read", json!({"filePath": path})), Ended::Denied("outside_scope"), "{path}");
        assert_eq!(desk.call("files_inspect", json!({"filePath": path})), Ended::Denied("outside_scope"), "{path}");
    }
    assert!(desk.ok("files_inspect", json!({"filePath": "src"})).ends_with("\nentries: 1\n"));
    assert_eq!(desk.call("files_list", json!({"path": "vault"})), Ended::Denied("outside_scope"));
}

#[test]
fn strange_names_stand_on_one_line_each() {
    let desk = Desk::new();
    for name in [&b"new\nline"[..], b"esc\x1b[31m", b"not-utf8-\xff"] {
        std::fs::write(desk.root().join(std::ffi::OsStr::from_bytes(name)), "x\n").unwrap();
    }
    let listed = "`.`: 3 entries.\nesc\\u{1b}[31m  (2 bytes)\nnew\\nline  (2 bytes)\nnot-utf8-\u{fffd}  (2 bytes)\n";
    assert_eq!(desk.call("files_list", json!({})), shown(listed));
    assert!(desk.ok("files_search", json!({"query": "x"})).contains("\nnew\\nline:1: x\n"));
}

#[test]
fn a_directory_that_cannot_be_opened_is_counted() {
    let desk = Desk::new();
    desk.put("locked/inside", "x");
    desk.put("open", "x");
    let locked = desk.root().join("locked");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    let text = desk.ok("files_list", json!({}));
    // To the superuser nothing is locked.
    let expected = match std::fs::read_dir(&locked) {
        Ok(_) => "`.`: 3 entries.\nlocked/\nlocked/inside  (1 byte)\nopen  (1 byte)\n",
        Err(_) => "`.`: 2 entries.\nlocked/\nopen  (1 byte)\n1 entry could not be opened\n",
    };
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(text, expected);
}
