use proptest::prelude::*;

use super::*;

fn content(before: &str, old: &str, new: &str) -> String {
    String::from_utf8(replace(before.as_bytes(), old.as_bytes(), new.as_bytes()).unwrap().content).unwrap()
}

fn fault(before: &str, old: &str) -> String {
    let fault = replace(before.as_bytes(), old.as_bytes(), b"new").unwrap_err();
    fault.error("f".to_owned()).to_string()
}

#[test]
fn one_occurrence_is_replaced_and_the_rest_kept() {
    let cases = [
        ("a\nb\nc\n", "b\n", "x\ny\n", "a\nx\ny\nc\n"),
        ("a\nb", "b", "", "a\n"),
        ("\u{feff}a\nb\n", "a", "z", "\u{feff}z\nb\n"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "c", "c\r\n"),
        ("a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n"),
        ("a\nb\n", "a\r\nb", "c\r\nd", "c\nd\n"),
        ("a\r\nb\nc", "b\nc", "d\ne", "a\r\nd\ne"),
        ("no newline", "no", "a", "a newline"),
    ];
    for (before, old, new, after) in cases {
        assert_eq!(content(before, old, new), after, "{before:?} {old:?}");
    }
}

#[test]
fn bytes_that_are_no_text_stay() {
    let edited = replace(b"\xff\xfea\x00key=1\n", b"key=1", b"key=2").unwrap();
    assert_eq!((edited.content.as_slice(), edited.line), (&b"\xff\xfea\x00key=2\n"[..], 1));
}

#[test]
fn several_occurrences_are_counted_with_their_lines() {
    assert_eq!(fault("x\ny\nx\n", "x"), "`oldText` occurs 2 times in `f`, on lines 1, 3");
    assert_eq!(fault("aaa", "aa"), "`oldText` occurs 2 times in `f`, on lines 1, 1");
    assert!(fault(&"x\n".repeat(500), "x").starts_with("`oldText` occurs 100 or more times in `f`"));
    assert!(fault(&"x\n".repeat(12), "x").ends_with("on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"));
}

#[test]
fn a_missing_passage_is_told_with_what_comes_nearest() {
    let cases = [
        (
            "fn a() {\n\tb();\n}\n",
            "fn a() {\n    b();\n}",
            "; from line 1 on it would, but for white space (indentation, tabs, blanks at line ends)",
        ),
        (
            "x\n\na  \nb\n",
            "a\nb",
            "; from line 3 on it would, but for white space (indentation, tabs, blanks at line ends)",
        ),
        ("a\nb\nc\n", "a\nb\nd\n", "; it begins like the file does, but line 3 is `c` where it has `d`"),
        ("a\nb\n", "zzz", ""),
        ("", "zzz", ""),
    ];
    for (before, old, nearest) in cases {
        assert_eq!(fault(before, old), format!("`oldText` does not occur in `f`{nearest}"), "{before:?}");
    }
}

#[test]
fn a_repetitive_file_ends_the_look_for_what_comes_nearest() {
    // Without a limit, a thousand million lines would be compared.
    let told = fault(&"a\n".repeat(40_000), &format!("{}b", "a\n".repeat(30_000)));
    assert!(told.contains("line 30001 is `a` where it has `b`"), "{told}");
}

proptest! {
    #[test]
    fn an_edit_and_its_reverse_give_the_file_back(head in "[a-m\n]{0,30}", tail in "[a-m\n]{0,30}", new in "[n-z]{1,10}") {
        let before = format!("{head}OLD{tail}");
        let edited = content(&before, "OLD", &format!("N{new}"));
        prop_assert_eq!(&edited, &format!("{head}N{new}{tail}"));
        prop_assert_eq!(content(&edited, &format!("N{new}"), "OLD"), before);
    }
}
