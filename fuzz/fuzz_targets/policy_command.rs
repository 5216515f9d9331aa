//! The look into a command on any text: it ends, breaks nothing, says the same twice, and whatever follows a
//! plain command hides it from no rule.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use policy::{Analysis, Simple};

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let look = |text: &str| Analysis::of_text(text, Path::new("/w"), Path::new("/h"));
    let analysis = look(text);
    assert_eq!(analysis.raw(), text);
    assert_eq!(look(text), analysis);
    let before = look(&format!("rm -rf x\n{text}"));
    let seen = |analysis: &Analysis| analysis.commands().iter().map(Simple::text).any(|text| text == "rm -rf x");
    assert!(seen(&before) || before.unclear().is_some());
});
