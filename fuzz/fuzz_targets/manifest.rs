//! Loading a manifest ends without a panic on any bytes, every finding renders to printable lines that
//! stay inside the file, and the verdict is the same twice.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let path = Path::new("/nonexistent/murmur.yaml");
    let first = manifest::parse(input, path);
    match &first {
        Ok(loaded) => {
            let _ = manifest::unsupported(loaded);
        }
        Err(rejected) => {
            let lines = input.iter().filter(|&&b| matches!(b, b'\n' | b'\r')).count() + 1;
            assert!(!rejected.diagnostics().is_empty());
            for diagnostic in rejected.diagnostics() {
                assert!(diagnostic.render().chars().all(|c| c == '\n' || !c.is_control()));
                assert!(diagnostic.line.is_none_or(|line| line >= 1 && line as usize <= lines));
            }
        }
    }
    let again = manifest::parse(input, path);
    assert_eq!(first.map(|loaded| loaded.manifest), again.map(|loaded| loaded.manifest));
});
