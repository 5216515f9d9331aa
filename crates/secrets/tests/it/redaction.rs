//! Whole texts: the forms that are found, what is left alone, and the awkward values.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrets::{Redactor, Secret};

pub(crate) fn knows(values: &[&str]) -> Redactor {
    let redactor = Redactor::new();
    for value in values {
        redactor.learn(&Secret::new((*value).to_owned()));
    }
    redactor
}

fn redacted(values: &[&str], text: &str) -> String {
    let redactor = knows(values);
    let out = redactor.redact(text);
    assert_eq!(redactor.is_clean(text), out.count() == 0, "{text}");
    assert_eq!(redactor.redact_bytes(text.as_bytes()), out.as_str().as_bytes());
    assert_eq!(redactor.redact_owned(text.to_owned()), out);
    out.into_string()
}

#[test]
fn every_form_of_a_value_is_replaced() {
    let value = "p4ss/\"wörd\"\\<&>+= ~😀'";
    let json = serde_json::to_string(value).unwrap();
    let json = json.trim_matches('"').to_owned();
    let nested = serde_json::to_string(&json).unwrap();
    let nested = nested.trim_matches('"').to_owned();
    let forms = [
        value.to_owned(),
        json.clone(),
        nested,
        json.replace('/', "\\/"),
        // Python, PHP, Go, .NET
        r#"p4ss/\"w\u00f6rd\"\\<&>+= ~\ud83d\ude00'"#.to_owned(),
        r#"p4ss/\"w\u00F6rd\"\\<&>+= ~\uD83D\uDE00'"#.to_owned(),
        r#"p4ss\/\"w\u00f6rd\"\\<&>+= ~\ud83d\ude00'"#.to_owned(),
        r#"p4ss/\"wörd\"\\\u003c\u0026\u003e+= ~😀'"#.to_owned(),
        r"p4ss/\u0022w\u00F6rd\u0022\\\u003C\u0026\u003E\u002B= ~\uD83D\uDE00\u0027".to_owned(),
        value.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
        value.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect(),
        // strict, encodeURIComponent, encodeURI, Python quote, HTML form
        "p4ss%2F%22w%C3%B6rd%22%5C%3C%26%3E%2B%3D%20~%F0%9F%98%80%27".to_owned(),
        "p4ss%2f%22w%c3%b6rd%22%5c%3c%26%3e%2b%3d%20~%f0%9f%98%80%27".to_owned(),
        "p4ss%2F%22w%C3%B6rd%22%5C%3C%26%3E%2B%3D%20~%F0%9F%98%80'".to_owned(),
        "p4ss/%22w%C3%B6rd%22%5C%3C&%3E+=%20~%F0%9F%98%80'".to_owned(),
        "p4ss/%22w%C3%B6rd%22%5C%3C%26%3E%2B%3D%20~%F0%9F%98%80%27".to_owned(),
        "p4ss%2F%22w%C3%B6rd%22%5C%3C%26%3E%2B%3D+%7E%F0%9F%98%80%27".to_owned(),
        utf8_percent_encode(value, NON_ALPHANUMERIC).to_string().replace("%7E", "~"),
        value.bytes().map(|b| format!("%{b:02X}")).collect(),
        value.bytes().map(|b| format!("{b:02x}")).collect(),
        value.bytes().map(|b| format!("{b:02X}")).collect(),
    ];
    for form in forms {
        assert_eq!(redacted(&[value], &format!("a{form}b")), "a[redacted]b", "{form}");
    }
}

#[test]
fn base64_is_found_at_each_alignment_and_keeps_its_borders() {
    let value = "sk-live-0123456789";
    for lead in 0..6 {
        for tail in 0..6 {
            let text = format!("{}{value}{}", "u".repeat(lead), "!".repeat(tail));
            for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                let out = redacted(&[value], &encoded);
                let (before, after) = out.split_once("[redacted]").unwrap();
                // All that is left says at most 4 bits of the value at either end.
                assert_eq!(before.len(), (lead * 8).div_ceil(6), "{encoded} {out}");
                let left = encoded.trim_end_matches('=').len() - (lead + value.len()) * 8 / 6;
                assert_eq!(after.trim_end_matches('=').len(), left, "{encoded} {out}");
            }
        }
    }
}

#[test]
fn base64_with_slashes_is_found_escaped_too() {
    let value = "???>>>~~~???>>>";
    let encoded = STANDARD.encode(value);
    assert!(encoded.contains('/') && encoded.contains('+'), "{encoded}");
    for form in [
        encoded.replace('/', "\\/"),
        encoded.replace('/', "%2F").replace('+', "%2B"),
        encoded.replace('/', "%2f").replace('+', "%2b"),
        encoded.replace('+', "\\u002B"),
        encoded.replace(['+', '/'], "_").replace('_', "-"),
        URL_SAFE_NO_PAD.encode(value),
    ] {
        let expected = if form.contains('_') || !form.contains('-') { "[redacted]" } else { &form };
        assert_eq!(redacted(&[value], &form), expected);
    }
}

#[test]
fn text_without_a_value_is_borrowed() {
    let redactor = knows(&["hunter2-hunter2", "4711"]);
    for text in ["", "h", "hunter2-hunter", "unter2-hunter2 14711 47112 x4711 4711_", "[redacted]"] {
        let out = redactor.redact(text);
        assert_eq!(out.as_str(), text);
        assert_eq!(out.count(), 0);
        assert_eq!(out.as_str().as_ptr(), text.as_ptr());
    }
}

#[test]
fn nothing_known_leaves_everything() {
    let redactor = knows(&["", "  \n"]);
    let text = "anything at all";
    assert_eq!(redactor.redact(text).as_str().as_ptr(), text.as_ptr());
    assert!(redactor.is_clean(text));
}

#[test]
fn clones_share_values_learned_later() {
    let redactor = Redactor::new();
    let clone = redactor.clone();
    assert_eq!(clone.redact("first-value second-value").count(), 0);
    redactor.learn(&Secret::new("first-value".to_owned()));
    assert_eq!(clone.redact("first-value second-value").as_str(), "[redacted] second-value");
    clone.learn(&Secret::new("second-value".to_owned()));
    assert_eq!(redactor.redact("first-value second-value").as_str(), "[redacted] [redacted]");
}

#[test]
fn short_values_are_replaced_only_where_they_stand_alone() {
    for (text, expected) in [
        ("4711", "[redacted]"),
        ("pin: 4711", "pin: [redacted]"),
        ("{\"pin\":\"4711\",\"n\":4711}", "{\"pin\":\"[redacted]\",\"n\":[redacted]}"),
        ("The pin is 4711. “4711”, 号码是4711。", "The pin is [redacted]. “[redacted]”, 号码是[redacted]。"),
        ("4711 4711", "[redacted] [redacted]"),
        ("14711 47110 a4711 4711a 4711_ _4711", "14711 47110 a4711 4711a 4711_ _4711"),
        ("long-value4711", "[redacted][redacted]"),
        ("4711long-value4711long-value", "[redacted][redacted][redacted][redacted]"),
    ] {
        assert_eq!(redacted(&["4711", "long-value"], text), expected);
    }
    // Also where it is a piece of the mark, which it does not stand alone in.
    for short in ["x", "e", "d", "red", "acted"] {
        assert_eq!(
            redacted(&[short], &format!("{short} \"{short}\" {short}{short}")),
            format!("[redacted] \"[redacted]\" {short}{short}")
        );
    }
    assert_eq!(redacted(&["12345"], "123456 12345"), "123456 [redacted]");
    assert_eq!(redacted(&["123456"], "x1234567"), "x[redacted]7");
    assert_eq!(redacted(&["a b"], "a b-a ba b"), "[redacted]-a ba b");
    assert_eq!(redacted(&["4!4"], "4!4!4!4 x"), "[redacted] x");
}

#[test]
fn overlapping_values_leave_no_piece() {
    assert_eq!(redacted(&["abcdefgh", "efghijkl"], "-abcdefghijkl-"), "-[redacted]-");
    assert_eq!(redacted(&["abcdefgh", "abcdefghijkl"], "-abcdefghijkl-"), "-[redacted]-");
    assert_eq!(redacted(&["cdefgh", "abcdefghijkl"], "-abcdefghijkl-"), "-[redacted]-");
    assert_eq!(redacted(&["aaaaaa"], &"a".repeat(100)), "[redacted]");
    assert_eq!(redacted(&["abcdef"], "abcdefabcdef"), "[redacted][redacted]");
}

#[test]
fn a_mark_never_spells_a_value_with_its_neighbours() {
    for (values, text, expected) in [
        (&["hunter2", "]secret"] as &[&str], "hunter2secret", " [redacted] secret"),
        (&["hunter2", "secret["], "secrethunter2", "secret [redacted] "),
        (&["hunter2", "x[redacted]y"], "xhunter2y", "x [redacted] y"),
        (&["hunter2", "][redacted"], "hunter2hunter2", " [redacted]  [redacted] "),
        (&["hunter2", "secret [", "a|b|c|d"], "secret hunter2", "secret \u{a0}[redacted]\u{a0}"),
        (&["hunter2", "ab["], "abhunter2", "ab [redacted] "),
        // What is found in the mark cannot be hidden by it.
        (&["hunter2", "redacted", "["], "hunter2 [ redacted", "[redacted] [ redacted"),
        (&["hunter2", "redacted", "ed]"], "hunter2 redacted ed]", " [redacted]  redacted  [redacted] "),
    ] {
        assert_eq!(redacted(values, text), expected, "{values:?}");
        assert_eq!(redacted(values, expected), expected, "{values:?}");
    }
    assert_eq!(redacted(&["x[redacted]y"], "x[redacted]y!"), " [redacted] !");
}

#[test]
fn space_around_a_value_does_not_count() {
    let key = "-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n";
    assert_eq!(redacted(&[key], &format!("<{}>", key.trim())), "<[redacted]>");
    assert_eq!(redacted(&[key], &format!("<{key}>")), "<[redacted]\n>");
    let json = serde_json::to_string(key).unwrap();
    assert_eq!(redacted(&[key], &json), "\"[redacted]\\n\"");
}

#[test]
fn bytes_that_are_not_text_are_searched_as_they_are() {
    let redactor = knows(&["hunter2-hunter2"]);
    assert_eq!(*redactor.redact_bytes(b"\xff\xfehunter2-hunter2\xff"), *b"\xff\xfe[redacted]\xff");
    assert_eq!(*redactor.redact_bytes(b"\xff\xfehunter2\xff-hunter2"), *b"\xff\xfehunter2\xff-hunter2");
}

#[test]
fn a_value_is_found_at_every_offset_of_a_large_text() {
    let redactor = knows(&["needle-in-the-hay", "pinned", "0123456789abcdef0123456789abcdef0123456789"]);
    for value in ["needle-in-the-hay", "pinned"] {
        for at in (0..64).chain(16_350..16_400) {
            let text = format!("{}{value}{}", "y".repeat(at), "z".repeat(20_000 - at));
            let out = redactor.redact(&text);
            assert_eq!(out.count(), 1, "{value} at {at}");
            assert_eq!(out.as_str().find("[redacted]"), Some(at));
        }
    }
}

#[test]
fn base64_in_lines_is_found_and_words_in_lines_are_not_joined() {
    let value = "sk-live-0123456789-0123456789-0123456789-0123456789";
    let encoded = STANDARD.encode(format!("{}{value} end of the file, and so on", "x".repeat(30)));
    for line_end in ["\n", "\r\n", "\\n", "\\r\\n", "\n\t  "] {
        for width in [60, 64, 76] {
            let lines: Vec<&str> = encoded.as_bytes().chunks(width).map(|l| std::str::from_utf8(l).unwrap()).collect();
            let out = redacted(&[value], &lines.join(line_end)).replace(line_end, "");
            // It begins and ends at a whole character of base64.
            assert_eq!(out, format!("{}[redacted]{}", encoded.get(..40).unwrap(), encoded.get(108..).unwrap()));
        }
    }
    // A line too short for an encoding's, and one with something else in it.
    for text in [
        "hunter2\nhunter2",
        &format!("{}: hunter2\nhunter2", "x".repeat(50)),
        &format!("{}\n\n: hunter2\n", "x".repeat(50)),
    ] {
        assert_eq!(redacted(&["hunter2hunter2"], text), *text);
    }
    let text = format!("{}hunter2\nhunter2", "x".repeat(40));
    assert_eq!(redacted(&["hunter2hunter2"], &text), format!("{}[redacted]", "x".repeat(40)));
}
