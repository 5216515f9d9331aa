//! `files_patch` in memory on any bytes: a diff is read and applied, or refused, and never skipped in part.
//!
//! Up to the first NUL byte the input is the diff, after it the file that it is applied to.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tools::ParsedPatch;

fuzz_target!(|input: &[u8]| {
    let middle = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (diff, file) = input.split_at(middle);
    let file = file.get(1..).unwrap_or_default();
    let Ok(diff) = std::str::from_utf8(diff) else {
        return;
    };
    let Ok(patch) = ParsedPatch::parse(diff) else {
        return;
    };
    assert!(!patch.files().is_empty());
    for change in patch.files() {
        let _ = change.apply(file);
        let _ = change.apply(b"");
    }
    // Reading is a matter of the text alone, and an ending newline that was lost makes no difference.
    assert_eq!(ParsedPatch::parse(diff).as_ref(), Ok(&patch));
    if let Some(unended) = diff.strip_suffix('\n').filter(|unended| !unended.ends_with(['\n', '\r'])) {
        assert_eq!(ParsedPatch::parse(unended).as_ref(), Ok(&patch));
    }
    // What belongs to nothing is never passed over.
    let end = if diff.ends_with('\n') { "" } else { "\n" };
    assert!(ParsedPatch::parse(&format!("{diff}{end}garbage\n")).is_err());
});
