//! Marks in every place and spelling that a server or a file can give them, and what only looks like one.

use fence::Source;
use policy::{ProtectedStream, RawPart, RawResult};
use secrets::Secret;
use serde_json::json;
use vocab::Part;

use crate::protected::{MALFORMED, WITHHELD, content, envelope, fenced, open, plain, seen, streamed};
use crate::text;

const VALUE: &str = "s3cret-value";

fn withheld() -> String {
    format!("{WITHHELD}{MALFORMED}")
}

/// The text with this letter of its name as an escape, in so many strings.
fn spelled(letter: char, level: u32) -> String {
    let slashes = "\\".repeat(1 << level);
    let name = "$burrowSensitive".replacen(letter, &format!("{slashes}u{:04x}", u32::from(letter)), 1);
    let quote = format!("{}\"", "\\".repeat((1 << level) - 1));
    format!(
        "{{{quote}{name}{quote}:{{{quote}type{quote}:{quote}token{quote},{quote}value{quote}:{quote}{VALUE}{quote}}}}}"
    )
}

#[test]
fn a_name_that_is_spelled_with_escapes_is_malformed_wherever_a_chunk_ends() {
    for letter in "$burowSensitiv".chars() {
        for level in 0..3 {
            let text = spelled(letter, level);
            assert_eq!(seen(&text), withheld(), "{text}");
            assert_eq!(seen(&text.to_uppercase()), text.to_uppercase(), "another name");
            for cut in 0..=text.len() {
                let (before, after) = text.as_bytes().split_at(cut);
                let mut stream = ProtectedStream::new(&open().0);
                let mut out = stream.push(before).into_owned();
                out.extend_from_slice(&stream.push(after));
                let (rest, taken) = stream.finish();
                out.extend(rest);
                assert!(
                    taken.is_faulty() && !out.windows(VALUE.len()).any(|piece| piece == VALUE.as_bytes()),
                    "{text} at {cut}"
                );
            }
        }
    }
    for other in [r#"{"\u0024burrow":1}"#, r#"{"a":"\u0062\u0075"}"#, r"C:\x62\burrow $\u0062urrowSensitive is a name"]
    {
        assert_eq!(seen(other), other);
        let (values, _) = open();
        assert_eq!(streamed(other.as_bytes(), 3, &values), (other.as_bytes().to_vec(), false));
    }
}

#[test]
fn a_mark_that_two_parts_make_together_withholds_both() {
    let whole = envelope("token", &json!(VALUE)).to_string();
    let parts = |texts: &[&str]| {
        let store = open();
        let parts = texts.iter().map(|text| RawPart::Text((*text).to_owned())).collect();
        let shown = fenced(RawResult::of_parts(parts, false), &store);
        (plain(&content(&shown)), store.0.len())
    };
    for cut in 1..whole.len() {
        let (before, after) = whole.split_at(cut);
        assert_eq!(parts(&[before, after]), (withheld(), 0), "at {cut}");
        assert_eq!(parts(&["first", &whole, before, after]), (withheld(), 0), "at {cut}");
    }
    assert_eq!(parts(&["{\"$bur", "row", "Sensitive\":{\"type\":\"token\",\"value\":1}}"]), (withheld(), 0));
    let mark = "\"[protected token: protected://]\"";
    assert_eq!(parts(&[&whole, &whole]), (format!("{mark}\n{mark}"), 2));
    assert_eq!(parts(&["the key $burrow", "Sensitive is a name"]).0, "the key $burrow\nSensitive is a name");
}

#[test]
fn a_mark_is_taken_out_of_keys_errors_and_strings_in_strings() {
    let token = envelope("token", &json!(VALUE)).to_string();
    let mark = "\"[protected token: protected://]\"";
    let twice = json!({"a": json!({"b": token}).to_string()}).to_string();
    let thrice = json!([twice]).to_string();
    for text in [json!({&token: 1}).to_string(), format!("error: no such user {token}\n  at main.rs:3"), twice, thrice]
    {
        let store = open();
        let shown = fenced(RawResult::error(text.clone()), &store);
        let read = content(&shown);
        assert!(shown.is_error && read.contains("[protected token: protected://") && !read.contains(VALUE), "{read}");
        assert_eq!((store.0.len(), shown.facts.protected), (1, 1), "{text}");
    }
    assert_eq!(seen(&format!("{{{token}:1}}")), format!("{{{mark}:1}}"));
    let cut = json!({"a": token.get(..token.len() - 2).unwrap()}).to_string();
    assert_eq!(plain(&content(&fenced(RawResult::error(cut), &open()))), withheld().replace("its result", "its error"));
}

const PNG: &str = "image/png";

fn image(bytes: &[u8]) -> RawPart {
    use base64::Engine as _;
    RawPart::Image { media_type: PNG.into(), data: base64::engine::general_purpose::STANDARD.encode(bytes) }
}

#[test]
fn an_image_with_a_known_value_in_its_bytes_is_not_shown() {
    let noted = "[an image that holds a known secret: withheld]";
    for (bytes, expected) in [
        (b"\x89PNG tEXt s3cret-valu".to_vec(), None),
        (b"\x89PNG tEXt s3cret-value\0".to_vec(), Some(noted)),
        (b"\x89PNG tEXt czNjcmV0LXZhbHVl".to_vec(), Some(noted)),
        (b"\x89PNG tEXt 7333637265742d76616c7565".to_vec(), Some(noted)),
    ] {
        let (values, redactor) = open();
        redactor.learn(&Secret::new(VALUE.to_owned()));
        let raw = RawResult::of_parts(vec![RawPart::Text("see".into()), image(&bytes)], false);
        let shown = raw.protect(&values).redact(&redactor).fence(&Source::tool("t"));
        let images = shown.parts.iter().filter(|part| matches!(part, Part::Image { .. })).count();
        let words: String = shown.parts.iter().filter(|part| matches!(part, Part::Text(_))).map(text).collect();
        let read = fence::parse(&words).block.unwrap().content.to_owned();
        let expected_words = expected.map_or("see".to_owned(), |words| format!("see\n{words}"));
        assert_eq!((read, images), (expected_words, usize::from(expected.is_none())));
    }
    let broken = RawPart::Image { media_type: PNG.into(), data: "no base64".into() };
    let shown = fenced(RawResult::of_parts(vec![broken], false), &open());
    assert_eq!(content(&shown), "[an image that is no base64: withheld]");
}

#[test]
fn an_image_with_a_mark_in_its_bytes_withholds_the_result() {
    let token = envelope("token", &json!(VALUE)).to_string();
    let store = open();
    let parts = vec![RawPart::Text(token.clone()), image(format!("\u{89}PNG {token}").as_bytes())];
    let shown = fenced(RawResult::of_parts(parts, false), &store);
    assert_eq!((content(&shown), shown.parts.len(), store.0.len()), (withheld(), 1, 0));
    let parts = vec![RawPart::Text(token), image(b"PNG $burrowSensitive")];
    assert_eq!(fenced(RawResult::of_parts(parts, false), &open()).parts.len(), 3);
}
