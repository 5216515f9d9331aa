//! Streams: what is kept back, what is not, and what happens between chunks.

use secrets::{Secret, StreamRedactor};

use crate::redaction::knows;

fn steps(values: &[&str], chunks: &[&str]) -> Vec<String> {
    let mut stream = StreamRedactor::new(&knows(values));
    let mut out: Vec<String> = chunks.iter().map(|chunk| stream.push(chunk).into_string()).collect();
    out.push(stream.finish().into_string());
    out
}

#[test]
fn only_a_possible_beginning_is_kept_back() {
    assert_eq!(
        steps(&["hunter2-hunter2"], &["so hun", "ger, and hunter2", "-", "hunter2", "!"]),
        ["so ", "hunger, and ", "", "[redacted]", "!", ""]
    );
    assert_eq!(steps(&["hunter2-hunter2"], &["the key hunter2-hunter"]), ["the key ", "hunter2-hunter"]);
    assert_eq!(steps(&["hunter2-hunter2"], &["plain, ", "plain!"]), ["plain, ", "plain!", ""]);
}

#[test]
fn a_match_that_may_grow_is_marked_once() {
    assert_eq!(steps(&["abcdef", "efghij"], &["-abcdef", "ghij-"]), ["-[redacted]", "-", ""]);
    assert_eq!(steps(&["abcdef", "efghij"], &["-abcdef", "gh-"]), ["-[redacted]", "gh-", ""]);
    assert_eq!(steps(&["aaaaaa"], &["aaaaaaa", "aaaa", "aa", "b"]), ["[redacted]", "", "", "b", ""]);
    assert_eq!(steps(&["abcdef", "abcdefgh"], &["abcdef", "gh"]), ["", "[redacted]", ""]);
}

#[test]
fn a_short_value_waits_for_what_follows() {
    assert_eq!(steps(&["4711"], &["pin 4711", "."]), ["pin ", "[redacted].", ""]);
    assert_eq!(steps(&["4711"], &["pin 4711", "2"]), ["pin ", "47112", ""]);
    assert_eq!(steps(&["4711"], &["x", "4711", " "]), ["x", "", "4711 ", ""]);
    assert_eq!(steps(&["4711"], &["pin 4711"]), ["pin ", "[redacted]"]);
    assert_eq!(steps(&["4711", "hunter2"], &["hunter", "24711"]), ["", "[redacted]", "[redacted]"]);
}

#[test]
fn clean_chunks_are_not_copied() {
    let mut stream = StreamRedactor::new(&knows(&["hunter2-hunter2"]));
    let chunk = "nothing to see here.";
    let out = stream.push(chunk);
    assert_eq!(out.as_str().as_ptr(), chunk.as_ptr());
    assert_eq!(out.as_str(), chunk);
}

#[test]
fn a_value_learned_in_the_middle_counts_from_there() {
    let redactor = knows(&[]);
    let mut stream = StreamRedactor::new(&redactor);
    assert_eq!(stream.push("first-value x").as_str(), "first-value x");
    redactor.learn(&Secret::new("first-value".to_owned()));
    redactor.learn(&Secret::new("4711".to_owned()));
    assert_eq!(stream.push("4711 first-value").as_str(), "4711 [redacted]");
    assert_eq!(stream.finish().as_str(), "");
}

#[test]
fn a_finished_stream_begins_anew() {
    let mut stream = StreamRedactor::new(&knows(&["4711", "hunter2"]));
    assert_eq!(stream.push("x").as_str(), "x");
    assert_eq!(stream.finish().as_str(), "");
    assert_eq!(stream.push("4711 hunt").as_str(), "[redacted] ");
    assert_eq!(stream.finish().as_str(), "hunt");
    assert_eq!(stream.finish().as_str(), "");
}

#[test]
fn bytes_may_be_cut_within_a_character() {
    let mut stream = StreamRedactor::new(&knows(&["wörd-wörd"]));
    let text = "a wörd-wörd é".as_bytes();
    let mut out = Vec::new();
    for byte in text {
        out.extend_from_slice(&stream.push_bytes(std::slice::from_ref(byte)));
    }
    out.extend(stream.finish_bytes());
    assert_eq!(String::from_utf8(out).unwrap(), "a [redacted] é");
}
