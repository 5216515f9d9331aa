//! What holds for all values, texts and ways to cut them.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use secrets::{Redactor, Secret, StreamRedactor};

const MARK: &str = "[redacted]";

/// Small alphabets make values overlap, repeat and touch the mark; the last one is anything.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab]{1,9}",
        "[a\\[\\]rd \"\\\\/%+]{1,9}",
        "[a-f0-9]{6,20}",
        "(x|\\[redacted\\]|e|d\\]|\\[r){1,4}",
        "[a-zA-Z0-9_-]{20,60}",
        "\\PC{1,12}",
    ]
}

fn forms(value: &str) -> Vec<String> {
    let json = serde_json::to_string(value).unwrap();
    let json = json.get(1..json.len() - 1).unwrap().to_owned();
    let mut forms = vec![
        value.to_owned(),
        json.replace('/', "\\/"),
        json,
        value.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
        utf8_percent_encode(value, NON_ALPHANUMERIC)
            .to_string()
            .replace("%2D", "-")
            .replace("%5F", "_")
            .replace("%2E", ".")
            .replace("%7E", "~"),
        value.bytes().map(|b| format!("{b:02x}")).collect(),
        value.bytes().map(|b| format!("{b:02X}")).collect(),
    ];
    for lead in 0..3_usize {
        // What does not depend on the bytes around: the same for two different surroundings.
        let around = |fill: u8| [vec![fill; lead], value.as_bytes().to_vec(), vec![fill; 3]].concat();
        for (a, b) in [
            (STANDARD.encode(around(0)), STANDARD.encode(around(255))),
            (URL_SAFE_NO_PAD.encode(around(0)), URL_SAFE_NO_PAD.encode(around(255))),
        ] {
            let from = (lead * 8).div_ceil(6);
            let to = (lead + value.len()) * 8 / 6;
            assert_eq!(a.get(from..to), b.get(from..to));
            forms.push(a.get(from..to).unwrap().to_owned());
        }
    }
    forms
}

/// Values, and a text made of their forms, pieces of them, and other things.
fn scene() -> impl Strategy<Value = (Vec<String>, String)> {
    prop::collection::vec(value(), 1..5).prop_flat_map(|values| {
        let trimmed: Vec<String> = values.iter().map(|v| v.trim().to_owned()).collect();
        let all: Vec<String> = trimmed.iter().filter(|v| !v.is_empty()).flat_map(|v| forms(v)).collect();
        let halves: Vec<String> = all
            .iter()
            .map(|form| form.chars().take(form.chars().count() / 2).collect())
            .chain(all.iter().map(|form| form.chars().skip(form.chars().count() / 2).collect()))
            .collect();
        let plain = prop_oneof!["[ab .x]{0,3}", Just(MARK.to_owned()), "[\\[\\]red\\\\%]{1,3}", "\\PC{0,5}",];
        let piece = if all.is_empty() {
            plain.boxed()
        } else {
            prop_oneof![
                3 => prop::sample::select(all),
                1 => prop::sample::select(halves),
                3 => plain,
            ]
            .boxed()
        };
        let text = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
        (Just(values), text)
    })
}

fn knows(values: &[String]) -> Redactor {
    let redactor = Redactor::new();
    values.iter().for_each(|value| redactor.learn(&Secret::new(value.clone())));
    redactor
}

/// The forms that must not stand in an output: all of long values but pieces of the mark.
fn forbidden(values: &[String]) -> Vec<String> {
    values
        .iter()
        .map(|value| value.trim())
        .filter(|value| value.len() >= 6)
        .flat_map(forms)
        .filter(|form| !MARK.contains(form.as_str()))
        .collect()
}

fn cut(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len() + 1)).collect();
    at.sort_unstable();
    at.push(chars.len());
    let mut from = 0;
    at.into_iter().map(|to| chars[std::mem::replace(&mut from, to)..to].iter().collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_form_of_a_value_is_left((values, text) in scene()) {
        let out = knows(&values).redact(&text).into_string();
        for form in forbidden(&values) {
            prop_assert!(!out.contains(&form), "{form:?} in {out:?}");
        }
    }

    #[test]
    fn a_second_pass_changes_nothing((values, text) in scene()) {
        let redactor = knows(&values);
        let once = redactor.redact(&text).into_string();
        prop_assert!(redactor.is_clean(&once), "{once:?}");
        let twice = redactor.redact(&once);
        prop_assert_eq!(twice.as_str(), &once);
    }

    #[test]
    fn a_stream_makes_what_a_whole_text_makes(
        (values, text) in scene(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let redactor = knows(&values);
        let whole = redactor.redact(&text);
        let mut stream = StreamRedactor::new(&redactor);
        let mut out = String::new();
        let mut count = 0;
        for chunk in cut(&text, &cuts) {
            let piece = stream.push(&chunk);
            count += piece.count();
            out += piece.as_str();
        }
        let rest = stream.finish();
        out += rest.as_str();
        prop_assert_eq!(&out, whole.as_str());
        prop_assert_eq!(count + rest.count(), whole.count());
    }

    #[test]
    fn a_stream_makes_the_same_of_bytes(
        (values, text) in scene(),
        size in 1_usize..9,
    ) {
        let redactor = knows(&values);
        let mut stream = StreamRedactor::new(&redactor);
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            out.extend_from_slice(&stream.push_bytes(chunk));
        }
        out.extend(stream.finish_bytes());
        prop_assert_eq!(&*out, &*redactor.redact_bytes(text.as_bytes()));
    }

    #[test]
    fn text_without_a_value_stays_as_it_is(
        values in prop::collection::vec("[A-Z]{6,12}", 1..6),
        text in "[a-z \\\\%]{0,300}",
    ) {
        let redactor = knows(&values);
        let out = redactor.redact(&text);
        prop_assert_eq!(out.as_str().as_ptr(), text.as_ptr());
        prop_assert_eq!(out.as_str(), &text);
    }

    #[test]
    fn what_stands_around_a_value_stays(
        value in "[A-Z]{6,40}",
        before in "[a-z ]{0,80}",
        after in "[a-z ]{0,80}",
    ) {
        let out = knows(std::slice::from_ref(&value)).redact(&format!("{before}{value}{after}")).into_string();
        prop_assert_eq!(out, format!("{before}{MARK}{after}"));
    }

    #[test]
    fn an_encoded_text_in_lines_shows_no_value_and_its_chunks_break_where_it_does(
        value in "[a-zA-Z0-9!?]{6,90}",
        before in "[a-z ]{0,90}",
        after in "[a-z ]{0,90}",
        width in 40_usize..77,
        line_end in prop::sample::select(vec!["\n", "\r\n", "\\n", "\\r\\n", "\\\\n", "\n    "]),
        kind in 0..3,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let plain = format!("{before}{value}{after}");
        let encoded = match kind {
            0 => STANDARD.encode(&plain),
            1 => URL_SAFE_NO_PAD.encode(&plain),
            _ => plain.bytes().map(|b| format!("{b:02x}")).collect(),
        };
        let lines: Vec<&str> = encoded.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let text = format!("a key:{line_end}{}{line_end}end", lines.join(line_end));
        let redactor = knows(std::slice::from_ref(&value));
        let whole = redactor.redact(&text).into_string();
        let together = whole.replace(line_end, "");
        for form in forms(&value) {
            prop_assert!(!together.contains(&form), "{form:?} in {whole:?}");
        }
        prop_assert!(whole.contains(MARK) && redactor.is_clean(&whole));
        let mut stream = StreamRedactor::new(&redactor);
        let mut out: String = cut(&text, &cuts).iter().map(|chunk| stream.push(chunk).into_string()).collect();
        out += stream.finish().as_str();
        prop_assert_eq!(out, whole);
    }
}
