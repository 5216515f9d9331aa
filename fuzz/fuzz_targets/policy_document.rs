//! The document of rules on any text: it is read or refused with codes; what is read is written down as what
//! reads the same, and can be compiled and asked.

#![no_main]

use libfuzzer_sys::fuzz_target;
use policy::{Base, Compiled, Document, Operation};

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    // Nothing is there, so the file system has no say.
    let base = Base::new("/nonexistent/work", "/nonexistent/home");
    match Document::parse(text, &base) {
        Err(faults) => {
            assert!(!faults.is_empty());
            assert!(faults.iter().all(|fault| !fault.code().is_empty() && !fault.wrong.hint().is_empty()));
        }
        Ok(document) => {
            assert_eq!(Document::parse(&document.to_json().to_string(), &base).as_ref(), Ok(&document));
            let compiled = Compiled::new(&document, &base).unwrap();
            for rule in document.rules() {
                for operation in [Operation::Read, Operation::Delete] {
                    let _ = compiled.test_path(operation, &rule.pattern, &base);
                }
            }
        }
    }
});
