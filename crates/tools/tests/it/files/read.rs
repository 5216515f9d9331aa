//! `files_read` and `files_inspect`.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{Desk, Ended};

fn ok(text: &str, truncated: bool) -> Ended {
    Ended::Ok(text.to_owned(), truncated)
}

#[test]
fn a_file_is_shown_byte_for_byte_under_a_line_that_says_how_much() {
    let desk = Desk::new();
    desk.put("a.txt", "one\r\ntwo\n\nno end");
    desk.put("empty", "");
    desk.put("one", "x");
    desk.put("sub/näme.txt", "héllo\n");
    let cases = [
        (json!({"filePath": "a.txt"}), ok("`a.txt`: 16 bytes, all shown.\none\r\ntwo\n\nno end", false)),
        (
            json!({"filePath": "./sub/../a.txt", "maxBytes": 16}),
            ok("`./sub/../a.txt`: 16 bytes, all shown.\none\r\ntwo\n\nno end", false),
        ),
        (json!({"filePath": "empty"}), ok("`empty`: empty, 0 bytes.\n", false)),
        (json!({"filePath": "one"}), ok("`one`: 1 byte, all shown.\nx", false)),
        (json!({"filePath": "sub/näme.txt"}), ok("`sub/näme.txt`: 7 bytes, all shown.\nhéllo\n", false)),
        (
            json!({"filePath": "a.txt", "maxBytes": 5}),
            ok(
                "`a.txt`: 16 bytes in all; 5 bytes shown, from offset 0. Truncated: read on with `offsetBytes` 5.\none\r\n",
                true,
            ),
        ),
        (
            json!({"filePath": "a.txt", "offsetBytes": 5, "maxBytes": 4.0}),
            ok(
                "`a.txt`: 16 bytes in all; 4 bytes shown, from offset 5. Truncated: read on with `offsetBytes` 9.\ntwo\n",
                true,
            ),
        ),
        (
            json!({"filePath": "a.txt", "offsetBytes": 10}),
            ok("`a.txt`: 16 bytes in all; 6 bytes shown, from offset 10 to the end.\nno end", true),
        ),
        (
            json!({"filePath": "a.txt", "offsetBytes": 16}),
            ok("`a.txt`: 16 bytes in all; nothing is left to show from offset 16.\n", true),
        ),
        (
            json!({"filePath": "a.txt", "offsetBytes": u64::MAX}),
            ok("`a.txt`: 16 bytes in all; nothing is left to show from offset 18446744073709551615.\n", true),
        ),
    ];
    for (input, expected) in cases {
        assert_eq!(desk.call("files_read", input.clone()), expected, "{input}");
    }
    let absolute = desk.root().join("one");
    assert_eq!(
        desk.ok("files_read", json!({"filePath": absolute})),
        format!("`{}`: 1 byte, all shown.\nx", absolute.display())
    );
}

#[test]
fn a_cut_never_falls_into_a_character_and_reading_on_gives_the_whole() {
    let desk = Desk::new();
    let content = "aé€😀".repeat(50);
    desk.put("f", &content);
    for max in 1..=9 {
        let (mut offset, mut whole, mut rounds) = (0, String::new(), 0);
        while offset < content.len() {
            let text = desk.ok("files_read", json!({"filePath": "f", "offsetBytes": offset, "maxBytes": max.max(4)}));
            let (head, body) = text.split_once('\n').unwrap();
            assert!(!head.contains("U+FFFD"), "{head}");
            whole.push_str(body);
            offset += body.len();
            rounds += 1;
            assert!(rounds <= content.len());
        }
        assert_eq!(whole, content);
    }
}

#[test]
fn the_default_is_512000_bytes() {
    let desk = Desk::new();
    desk.put("big", "x".repeat(512_001));
    let Ended::Ok(text, true) = desk.call("files_read", json!({"filePath": "big"})) else { panic!("not cut") };
    let head =
        "`big`: 512001 bytes in all; 512000 bytes shown, from offset 0. Truncated: read on with `offsetBytes` 512000.";
    assert_eq!(text.split_once('\n').unwrap(), (head, "x".repeat(512_000).as_str()));
}

#[test]
fn what_is_no_text_is_told_or_replaced() {
    let desk = Desk::new();
    desk.put("latin", b"caf\xe9 \xff\xfe!\n");
    desk.put("logo.png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR");
    let replaced = "`latin`: 9 bytes, all shown. 3 byte sequences that are not UTF-8 are shown as U+FFFD.\ncaf\u{fffd} \u{fffd}\u{fffd}!\n";
    assert_eq!(desk.call("files_read", json!({"filePath": "latin"})), ok(replaced, false));
    let described = "`logo.png` is binary (PNG image), 16 bytes; its content is not shown. \
                     Give `offsetBytes` or `maxBytes` to see bytes of it in hexadecimal.";
    assert_eq!(desk.call("files_read", json!({"filePath": "logo.png"})), ok(described, true));
    let dump = "`logo.png`: 16 bytes, all shown. The file is binary: hexadecimal.\n\
                00000000  89 50 4e 47 0d 0a 1a 0a 00 00 00 0d 49 48 44 52  .PNG........IHDR\n";
    assert_eq!(desk.call("files_read", json!({"filePath": "logo.png", "offsetBytes": 0})), ok(dump, false));
}

#[test]
fn what_cannot_be_read_is_a_clear_error() {
    let desk = Desk::new();
    desk.put("file", "x");
    desk.put("dir/file", "x");
    let long = "n".repeat(300);
    let missing = "`no` does not exist\n`files_list` and `files_find` show what exists";
    let directory = "`dir` is a directory, not a file\n`files_list` shows what is in a directory";
    let cases = [
        ("no", missing.to_owned()),
        ("dir", directory.to_owned()),
        (".", directory.replace("`dir`", "`.`")),
        ("file/x", "`file/x` is not a directory".to_owned()),
        (&long, format!("`{long}` is too long for this file system")),
        ("a\nb", missing.replace("`no`", "`a\\nb`")),
    ];
    for (path, expected) in cases {
        assert_eq!(desk.failed("files_read", json!({"filePath": path})), expected, "{path}");
    }
    let bad = [
        (json!({}), "the input of `files_read` does not fit: `filePath` is required"),
        (
            json!({"filePath": ""}),
            "the input of `files_read` does not fit: `filePath` must be a string that is not empty",
        ),
        (json!({"filePath": "a\u{0}b"}), "`filePath` must not contain a NUL character: no file name can"),
        (
            json!({"filePath": "file", "maxBytes": 0}),
            "the input of `files_read` does not fit: `maxBytes` must be an integer from 1 to 8388608",
        ),
        (
            json!({"path": "file"}),
            "the input of `files_read` does not fit: `path` is not a field; the fields are `filePath`, `offsetBytes`, `maxBytes`; `filePath` is required",
        ),
    ];
    for (input, expected) in bad {
        assert_eq!(desk.call("files_read", input), Ended::BadInput(expected.to_owned()));
    }
}

#[test]
fn what_is_no_regular_file_is_told_and_never_opened() {
    let desk = Desk::new();
    // Opening a FIFO without a writer would hang.
    rustix::fs::mkfifoat(rustix::fs::CWD, desk.root().join("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(desk.root().join("sock")).unwrap();
    for (name, kind) in [("pipe", "FIFO"), ("sock", "socket")] {
        let told = format!("`{name}` is a {kind}, not a regular file");
        assert_eq!(desk.failed("files_read", json!({"filePath": name})), told);
        assert_eq!(desk.failed("files_edit", json!({"filePath": name, "oldText": "a", "newText": "b"})), told);
        assert_eq!(desk.failed("files_write", json!({"filePath": name, "content": "b"})), told);
        assert_eq!(desk.failed("files_search", json!({"path": name, "query": "b"})), told);
        let inspected = desk.ok("files_inspect", json!({"filePath": name}));
        assert!(inspected.contains(&format!("\nkind: {kind}\n")), "{inspected}");
    }
    assert!(desk.ok("files_list", json!({})).ends_with("pipe  (a FIFO)\nsock  (a socket)\n"));
    assert_eq!(desk.tree(), ["pipe", "sock"]);
}

#[test]
fn the_rules_of_the_operating_system_are_told() {
    let desk = Desk::new();
    let path = desk.put("locked", "x");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let ended = desk.call("files_read", json!({"filePath": "locked"}));
    // To the superuser nothing is locked.
    let expected = match std::fs::read(&path) {
        Ok(_) => ok("`locked`: 1 byte, all shown.\nx", false),
        Err(_) => Ended::Failed("the operating system denies access to `locked`".to_owned()),
    };
    assert_eq!(ended, expected);
}

#[test]
fn inspect_describes_without_showing() {
    let desk = Desk::new();
    let cases: [(&str, &[u8], &str); 7] = [
        ("ascii", b"a\nb\n", "encoding: ASCII\nlines: 2\nline endings: LF\n"),
        ("utf8", "é\r\nb".as_bytes(), "encoding: UTF-8\nlines: 2, the last without a newline\nline endings: CRLF\n"),
        ("bom", b"\xef\xbb\xbfa\n", "encoding: UTF-8 with byte order mark\nlines: 1\nline endings: LF\n"),
        ("mixed", b"a\r\nb\n", "encoding: ASCII\nlines: 2\nline endings: mixed LF and CRLF\n"),
        ("latin", b"\xe9\n", "encoding: not UTF-8\nlines: 1\nline endings: LF\n"),
        ("empty", b"", "content: empty\n"),
        ("elf", b"\x7fELF\x02\x00", "content: binary (ELF program or library)\n"),
    ];
    for (name, bytes, end) in cases {
        let path = desk.put(name, bytes);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let text = desk.ok("files_inspect", json!({"filePath": name}));
        let size = if bytes.len() == 1 { "1 byte".to_owned() } else { format!("{} bytes", bytes.len()) };
        assert!(
            text.starts_with(&format!("`{name}`\nkind: regular file\nsize: {size}\nmode: 0640\nmodified: 2")),
            "{text}"
        );
        assert!(text.contains("\nhard links: 1\n") && text.ends_with(end), "{text}");
    }
    desk.link("ascii", "link");
    assert!(
        desk.ok("files_inspect", json!({"filePath": "link"}))
            .starts_with("`link`\nlink: symbolic link to ascii\nkind: regular file\n")
    );
    desk.put("dir/one", "");
    std::fs::write(desk.root().join("dir").join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    let directory = desk.ok("files_inspect", json!({"filePath": "dir"}));
    assert!(
        directory.starts_with("`dir`\nkind: directory\nmode: ") && directory.ends_with("\nentries: 2\n"),
        "{directory}"
    );
}
