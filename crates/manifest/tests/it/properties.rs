//! Laws that hold for any bytes.

use std::path::Path;

use proptest::prelude::*;

/// Loading, rendering and asking for what is unsupported end without a panic, and the verdict is stable.
fn survives(text: &[u8]) {
    let path = Path::new("/nonexistent/murmur.yaml");
    let first = manifest::parse(text, path);
    match &first {
        Ok(loaded) => drop(manifest::unsupported(loaded)),
        Err(rejected) => {
            assert!(!rejected.diagnostics().is_empty());
            for diagnostic in rejected.diagnostics() {
                let rendered = diagnostic.render();
                assert!(rendered.ends_with('\n'));
                assert!(rendered.chars().all(|c| c == '\n' || !c.is_control()), "{rendered:?}");
            }
        }
    }
    let again = manifest::parse(text, path);
    assert_eq!(first.map(|loaded| loaded.manifest), again.map(|loaded| loaded.manifest));
}

proptest! {
    #[test]
    fn any_bytes(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        survives(&text);
    }

    #[test]
    fn any_punctuation(text in "[-\\[\\]{}:,#&*!|>'\"%@`~ \\n\\ta-c0-9.$<]{0,200}") {
        survives(text.as_bytes());
    }

    #[test]
    fn a_damaged_manifest(at in 0usize..3000, with in "[-\\[\\]{}:,#&*!|>'\" \\na-z0-9\\PC]{0,6}", cut in 0usize..12) {
        let base: Vec<char> = include_str!("base/murmur.yaml").chars().collect();
        let (before, after) = base.split_at(at.min(base.len()));
        let text: String = before.iter().copied().chain(with.chars()).chain(after.iter().copied().skip(cut)).collect();
        survives(text.as_bytes());
    }

    #[test]
    fn a_description_is_one_short_printable_line(text in "\\PC*|[\\x00-\\x20a-z]{0,3000}") {
        let folded = manifest::fold_description(&text);
        prop_assert!(folded.chars().count() <= manifest::MAX_DESCRIPTION);
        prop_assert!(!folded.chars().any(char::is_control));
        prop_assert_eq!(manifest::fold_description(&folded), folded.clone());
    }
}

#[test]
fn large_and_deep_files_are_refused_in_time() {
    let mib = 1024 * 1024;
    for (text, says) in [
        ("[".repeat(mib), "nest deeper"),
        ("{a: ".repeat(mib / 4), "nest deeper"),
        ("- ".repeat(mib / 2), "nest deeper"),
        ("a".repeat(mib + 1), "larger than 1 MiB"),
        (format!("a: [{}]", "1,".repeat(mib / 2 - 10)), "more than 10000 values"),
        (format!("a: \"{}\"", "\\".repeat(mib - 10)), "has no key `a`"),
        ("? ".repeat(mib / 2), "a key must be a text"),
        ("&a ".repeat(mib / 3), "anchors and aliases"),
        ("\"".repeat(mib), "not valid YAML"),
        ("a:\n".repeat(mib / 3), "stands twice"),
        ((0..mib / 8).map(|key| format!("{key:x}k:\n")).collect(), "more than 10000 values"),
        ((0..4000).map(|key| format!("k{key}:\n")).collect(), "3902 more are not shown"),
        (format!("a: {}", "${ ".repeat(mib / 4)), "has no key `a`"),
        (format!("api_key: {}", "${ ".repeat(mib / 4)), "has no key `api_key`"),
        (format!("a: [\n{}{}", " ".repeat(mib / 2), "a- ".repeat(mib / 8)), "not valid YAML"),
    ] {
        let rejected = manifest::parse(text.as_bytes(), Path::new("murmur.yaml")).unwrap_err();
        let rendered = rejected.render();
        assert!(rendered.contains(says), "{says}: {rejected}");
        assert!(rendered.lines().all(|line| line.chars().count() < 400));
    }
}
