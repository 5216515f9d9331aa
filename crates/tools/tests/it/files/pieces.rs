//! What is shown of a file in part shows no part of a known value or of a marked one.

use serde_json::json;

use super::{Desk, Ended};

const VALUE: &str = "hunter2-hunter2";

/// What is shown below the first line.
fn body(text: &str) -> String {
    text.split_once('\n').unwrap().1.to_owned()
}

fn read(desk: &Desk, path: &str, offset: usize, max: usize) -> String {
    body(&desk.ok("files_read", json!({"filePath": path, "offsetBytes": offset, "maxBytes": max})))
}

#[test]
fn a_range_that_begins_or_ends_in_a_value_shows_none_of_it() {
    let desk = Desk::new();
    desk.learn(VALUE);
    let text = format!("key: {VALUE}; end");
    desk.put("key.txt", &text);
    let (start, end) = (5, 5 + VALUE.len());
    for cut in 1..text.len() {
        let (before, behind) = (read(&desk, "key.txt", 0, cut), read(&desk, "key.txt", cut, 100));
        let (first, rest) = text.split_at(cut);
        let expected = match cut {
            _ if cut <= start => (first.to_owned(), rest.replace(VALUE, "[redacted]")),
            _ if cut >= end => (first.replace(VALUE, "[redacted]"), rest.to_owned()),
            _ => ("key: [redacted]".to_owned(), "[redacted]; end".to_owned()),
        };
        assert_eq!((before, behind), expected, "at {cut}");
    }
    assert_eq!(read(&desk, "key.txt", 8, 4), "[redacted]");
    desk.put("other.txt", "key: hunter2-hunter3; end");
    assert_eq!(read(&desk, "other.txt", 8, 4), "ter2");
}

#[test]
fn a_range_of_a_file_shows_no_part_of_a_mark() {
    let desk = Desk::new();
    let mark = r#"{"$burrowSensitive":{"type":"token","value":"abcdefgh"}}"#;
    desk.put("marked.json", format!("[1,{mark},2]"));
    let length = mark.len() + 6;
    for cut in 4..3 + mark.len() {
        assert_eq!(read(&desk, "marked.json", cut, 1000), "[redacted],2]", "from {cut}");
        assert_eq!(read(&desk, "marked.json", 0, cut), "[1,[redacted]", "to {cut}");
    }
    assert!(read(&desk, "marked.json", 1, length - 2).starts_with("1,\"[protected token: protected://"));
    assert_eq!(read(&desk, "marked.json", length - 2, 10), "2]");
}

#[test]
fn hexadecimal_shows_no_byte_of_a_value() {
    let desk = Desk::new();
    desk.learn(VALUE);
    desk.put("data.bin", format!("\0ab{VALUE}cd"));
    let shown = read(&desk, "data.bin", 0, 100);
    let hex = format!(
        "00000000  00 61 62{}  .ab.............\n00000010  -- -- 63 64{}  ..cd\n",
        " --".repeat(13),
        "   ".repeat(12)
    );
    assert_eq!(shown, hex);
    let cut = read(&desk, "data.bin", 0, 5);
    assert_eq!(cut, format!("00000000  00 61 62 -- --{}  .ab..\n", "   ".repeat(11)));
    assert_eq!(read(&desk, "data.bin", 1, 4), "ab[redacted]", "no byte of this range is binary");
}

#[test]
fn a_line_that_is_cut_or_a_part_of_a_longer_value_shows_none_of_it() {
    let desk = Desk::new();
    desk.learn(VALUE);
    desk.learn("first-line-of\nsecond-line-of\nthird-line-of");
    let found = |query: &str| {
        let Ended::Ok(text, _) = desk.call("files_search", json!({"query": query})) else { panic!("it runs") };
        body(&text)
    };
    // 400 bytes are shown, a hundred of them before the match: the value lies across either end.
    desk.put(
        "long.txt",
        format!("{}{VALUE}{}needle{}{VALUE}{}", "a".repeat(200), "b".repeat(95), "c".repeat(285), "d".repeat(200)),
    );
    let text = format!(
        "long.txt:1: [210 bytes cut] [redacted]{}needle{}[redacted] [206 bytes cut]\n1 long line is cut\n",
        "b".repeat(95),
        "c".repeat(285)
    );
    assert_eq!(found("needle"), text);
    desk.put("key.pem", "x\nfirst-line-of\nsecond-line-of\nthird-line-of\nsecond-line-off\n");
    assert_eq!(found("second-line"), "key.pem:3: [redacted]\nkey.pem:5: second-line-off\n");
}
