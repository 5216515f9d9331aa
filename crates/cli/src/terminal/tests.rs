//! That nothing foreign steers a terminal, whatever it is.

use std::borrow::Cow;
use std::io::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Escaping, cut, is_harmful, one_line, printable, styled, word};

/// Text with much of what terminals obey, and plain text around it.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zé漢 ]{0,6}",
        prop::sample::select(vec![
            "\r",
            "\n",
            "\r\n",
            "\t",
            "\u{1b}[2J",
            "\u{1b}[1;31m",
            "\u{1b}]0;x\u{7}",
            "\u{1b}",
            "\u{9b}2J",
            "\u{85}",
            "\u{202e}",
            "\u{2066}",
            "\u{200b}",
            "\u{8}",
            "\u{7f}",
            "\0",
            "\u{e0041}",
            "\u{1b}[m",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Whether every terminal shows it and none obeys it. Said anew here, so that a hole in the code is none in the test.
fn is_safe(text: &str) -> bool {
    text.chars().all(|char| match char {
        '\n' | '\t' => true,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => false,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}' => false,
        _ => true,
    })
}

#[test]
fn control_and_direction_characters_are_shown() {
    assert_eq!(
        printable("a\x1b[2Jb\u{9b}c\u{202e}d\u{200b}\u{2028}\r\n\te\rf\r"),
        "a\\u{1b}[2Jb\\u{9b}c\\u{202e}d\\u{200b}\\u{2028}\n\te\\u{d}f\\u{d}"
    );
    assert!(matches!(printable("plain ü 👩‍🔬\n"), Cow::Borrowed(_)));
}

#[test]
fn one_line_is_one_line_and_short() {
    assert_eq!(one_line("\n\n  ab\tcd \nx", 10), "ab cd");
    assert_eq!(one_line("äbcdef", 3), "äbc…");
    assert_eq!(one_line("all is well\rnot", 40), "all is well\\u{d}not");
}

#[test]
fn a_word_of_a_command_is_one_word() {
    for (text, expected) in [
        ("task_0190a1b2", "task_0190a1b2"),
        ("http://[::1]:7/", "http://[::1]:7/"),
        ("t; rm -rf ~", "'t; rm -rf ~'"),
        ("it's", r"'it'\''s'"),
        ("$(a)\n`b`", "'$(a) `b`'"),
        ("a\u{1b}[2J", r"'a\u{1b}[2J'"),
        ("", "''"),
    ] {
        assert_eq!(word(text), expected);
    }
}

#[test]
fn styles_go_through_and_nothing_else() {
    assert_eq!(styled("\u{1b}[1;31merror\u{1b}[0m: \u{1b}[m"), "\u{1b}[1;31merror\u{1b}[0m: \u{1b}[m");
    let shown = styled("\u{1b}[2J\u{1b}]8;;x\u{7}\u{1b}[31\u{1b}[1;1H\u{1b}");
    assert_eq!(shown, r"\u{1b}[2J\u{1b}]8;;x\u{7}\u{1b}[31\u{1b}[1;1H\u{1b}");
}

/// What comes of JSON that is written in pieces of these lengths.
fn escaped(bytes: &[u8], lengths: &[usize]) -> Vec<u8> {
    let mut out = Escaping::new(Vec::new());
    let mut rest = bytes;
    for length in lengths.iter().cycle().take(bytes.len()) {
        let (piece, more) = rest.split_at((*length).min(rest.len()));
        out.write_all(piece).unwrap();
        rest = more;
    }
    out.write_all(rest).unwrap();
    out.inner
}

#[test]
fn json_is_escaped_in_its_own_way() {
    let text = json!({"a": "é\u{9b}\u{7f}\u{e0041}"}).to_string();
    assert_eq!(escaped(text.as_bytes(), &[1]), r#"{"a":"é\u009b\u007f\udb40\udc41"}"#.as_bytes());
    assert_eq!(escaped(b"\x9b2J\xc3", &[1]), "\u{fffd}2J".as_bytes(), "what is no text is none of a terminal's either");
}

proptest! {
    #[test]
    fn nothing_printable_steers(text in hostile()) {
        let shown = printable(&text);
        prop_assert!(is_safe(&shown), "{shown:?}");
        prop_assert!(!shown.chars().any(is_harmful));
        prop_assert_eq!(printable(&shown), Cow::Borrowed(&*shown));
        prop_assert_eq!(text.chars().any(is_harmful), shown != text);
        for line in [one_line(&text, 9), cut(&text, 9), word(&text).into_owned()] {
            prop_assert!(is_safe(&line) && !line.contains(['\n', '\t']), "{line:?}");
        }
        prop_assert!(cut(&text, 9).chars().count() <= 10);
    }

    #[test]
    fn of_lines_only_styles_are_obeyed(text in hostile()) {
        let shown = styled(&text);
        let bare = shown.split('\u{1b}').enumerate().map(|(index, piece)| {
            if index == 0 { return piece }
            let (parameters, rest) = piece.split_once('m').unwrap();
            assert!(parameters.strip_prefix('[').unwrap().chars().all(|char| char.is_ascii_digit() || char == ';'));
            rest
        });
        prop_assert!(bare.collect::<Vec<_>>().iter().all(|piece| is_safe(piece)));
        prop_assert_eq!(&styled(&shown), &shown);
    }

    #[test]
    fn a_word_is_read_back_by_a_shells_rules(text in "[ -~]{0,12}") {
        let word = word(&text);
        let read = match word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            Some(quoted) => quoted.replace(r"'\''", "'"),
            None => word.clone().into_owned(),
        };
        prop_assert_eq!(read, text);
    }

    #[test]
    fn json_on_a_terminal_is_the_same_document(
        key in hostile(), text in hostile(), lengths in prop::collection::vec(1_usize..9, 1..5),
    ) {
        let value = json!({ key: [text, 1.5, null, { "a": "\r" }] });
        for bytes in [serde_json::to_vec(&value).unwrap(), serde_json::to_vec_pretty(&value).unwrap()] {
            let shown = String::from_utf8(escaped(&bytes, &lengths)).unwrap();
            prop_assert!(is_safe(&shown), "{shown:?}");
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value.clone());
        }
    }
}
