use proptest::prelude::*;

use super::super::ParsedPatch;
use super::*;

fn diff(hunks: &str) -> FileDiff {
    ParsedPatch::parse(&format!("--- a/f\n+++ b/f\n{hunks}")).unwrap().files()[0].clone()
}

fn applied(before: &str, hunks: &str) -> Result<String, String> {
    let after = diff(hunks).apply(before.as_bytes());
    after.map(|after| String::from_utf8(after).unwrap()).map_err(|error| error.to_string())
}

fn told(before: &str, hunks: &str) -> String {
    applied(before, hunks).unwrap_err()
}

#[test]
fn hunks_go_where_their_header_says() {
    let cases = [
        ("a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n", "a\nx\nc\n"),
        ("a\na\na\n", "@@ -2 +2 @@\n-a\n+x\n", "a\nx\na\n"),
        ("a\nb\n", "@@ -2,0 +3 @@\n+c\n", "a\nb\nc\n"),
        ("a\nb\n", "@@ -0,0 +1 @@\n+c\n", "c\na\nb\n"),
        ("", "@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n"),
        ("a\nb\n", "@@ -1,2 +0,0 @@\n-a\n-b\n", ""),
        ("a", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", "a\n"),
        ("a\n", "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "b"),
        ("a\nb", "@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n", "x\nb"),
        ("1\n2\n3\n4\n5\n6\n", "@@ -1,2 +1,3 @@\n 1\n+x\n 2\n@@ -5,2 +6,1 @@\n-5\n 6\n", "1\nx\n2\n3\n4\n6\n"),
    ];
    for (before, hunks, after) in cases {
        assert_eq!(applied(before, hunks).as_deref(), Ok(after), "{before:?} {hunks:?}");
    }
}

#[test]
fn a_hunk_moves_only_to_the_one_place_where_it_stands() {
    let hunks = "@@ -1,2 +1,2 @@\n b\n-c\n+x\n@@ -3 +3 @@\n-d\n+y\n";
    let moved = diff(hunks).applied(b"0\na\nb\nc\nd\n").unwrap();
    assert_eq!((moved.content.as_slice(), moved.moved), (&b"0\na\nb\nx\ny\n"[..], vec![(1, 2)]));
    assert_eq!(
        told("0\nb\nc\nb\nc\n", "@@ -1,2 +1,2 @@\n b\n-c\n+x\n"),
        "hunk 1 of `f` does not apply: not on the line that its header says, but both from line 2 and from line 4; give the right line or more context"
    );
    // An insertion without context has nothing to find its place by.
    assert_eq!(
        told("a\n", "@@ -5,0 +6 @@\n+x\n"),
        "hunk 1 of `f` does not apply: the file has only 1 lines; the hunk goes on with ``"
    );
}

#[test]
fn a_misfit_says_which_line_differs_and_how() {
    let cases = [
        ("a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-B\n+x\n c\n", "line 2 of the file is `b` where the hunk has `B`"),
        (
            "a\n\tb\n",
            "@@ -1,2 +1,2 @@\n a\n-  b\n+x\n",
            "line 2 of the file differs in white space: it is `\\tb`, the hunk has `··b`",
        ),
        ("a\n", "@@ -1,2 +1,2 @@\n a\n-b\n+x\n", "the file has only 1 lines; the hunk goes on with `b`"),
        ("a\nx\n", "@@ -1,2 +1,2 @@\n a\n-b\n+x\n", "what it makes is there already, from line 1 on"),
        (
            "a\nb",
            "@@ -1,2 +1,2 @@\n a\n-b\n+x\n",
            "line 2, the last, has no newline in one of file and hunk: `\\ No newline at end of file` must follow that line in the hunk exactly when the file has none",
        ),
        ("q\nw\na\nz\n", "@@ -1,2 +1,2 @@\n a\n-b\n+x\n", "line 4 of the file is `z` where the hunk has `b`"),
    ];
    for (before, hunks, misfit) in cases {
        assert_eq!(told(before, hunks), format!("hunk 1 of `f` does not apply: {misfit}"), "{before:?}");
    }
}

#[test]
fn nothing_is_joined_to_a_line_without_a_newline() {
    // Both would glue two lines together.
    assert!(told("a", "@@ -1,0 +2 @@\n+b\n").contains("has no newline"));
    assert!(told("a\nb\n", "@@ -1 +1 @@\n-a\n+x\n\\ No newline at end of file\n").contains("has no newline"));
}

#[test]
fn a_patch_without_cr_fits_a_file_with_crlf_alone() {
    let hunks = "@@ -1,2 +1,3 @@\n a\n-b\n+x\n+y\n";
    assert_eq!(applied("a\r\nb\r\n", hunks).as_deref(), Ok("a\r\nx\r\ny\r\n"));
    assert!(applied("a\r\nb\n", hunks).is_err());
    let exact = "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+x\n";
    assert_eq!(applied("a\r\nb\r\n", exact).as_deref(), Ok("a\r\nx\n"));
    // A patch that was converted whole is taken as if it were not.
    let converted = "--- a/f\r\n+++ b/f\r\n@@ -1 +1 @@\r\n-a\r\n+x\r\n";
    assert_eq!(ParsedPatch::parse(converted).unwrap().files()[0].apply(b"a\n").unwrap(), b"x\n");
}

#[test]
fn a_repetitive_file_ends_the_search() {
    let before = "a\n".repeat(40_000);
    let old = " a\n".repeat(5000);
    let hunks = format!("@@ -1,5001 +1,5001 @@\n{old}-b\n+c\n");
    assert!(told(&before, &hunks).contains("too repetitive"));
}

fn lines() -> impl Strategy<Value = String> {
    ("[abc\n]{0,60}", any::<bool>())
        .prop_map(|(text, end)| if end && !text.is_empty() { format!("{text}\n") } else { text })
}

proptest! {
    /// Whatever a correct diff says, applying it gives the new file.
    #[test]
    fn applying_a_diff_gives_the_new_file(before in lines(), after in lines()) {
        let patch = diffy::create_patch(&before, &after).to_string();
        if before != after {
            let parsed = ParsedPatch::parse(&patch.replace("--- original", "--- a/f").replace("+++ modified", "+++ b/f")).unwrap();
            prop_assert_eq!(parsed.files()[0].apply(before.as_bytes()).unwrap(), after.as_bytes());
        }
    }

    /// Nothing that is not a patch makes the parser or the applier stumble.
    #[test]
    fn no_text_makes_the_parser_stumble(text in "[-+@ abdfgilnort/,0-9\\\\\n\r]{0,200}", before in lines()) {
        if let Ok(patch) = ParsedPatch::parse(&text) {
            for file in patch.files() {
                let _ = file.apply(before.as_bytes());
            }
        }
    }
}
