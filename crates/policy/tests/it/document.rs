//! The document: every code, defaults, the canonical form.

use policy::{Document, Fault, Wrong};
use proptest::prelude::*;
use serde_json::json;

use crate::base;

/// The codes of a whole document.
fn codes(text: &str) -> Vec<String> {
    Document::parse(text, &base()).err().unwrap_or_default().iter().map(Fault::code).collect()
}

/// The codes of a document with these rules.
fn rules(rules: serde_json::Value) -> Vec<String> {
    codes(&json!({"version": 1, "hardBlocks": rules}).to_string())
}

/// A sound rule with some fields replaced; null takes one away.
fn rule(changes: serde_json::Value) -> serde_json::Value {
    let mut rule = json!({"id": "a", "type": "path", "pattern": "/x", "match": "exact", "operations": ["read"]});
    for (key, value) in changes.as_object().unwrap() {
        if value.is_null() {
            rule.as_object_mut().unwrap().remove(key);
        } else {
            rule[key] = value.clone();
        }
    }
    rule
}

#[test]
fn the_whole_has_its_codes() {
    for (text, code) in [
        ("{", "json_invalid"),
        ("[]", "document_must_be_object"),
        ("{\"hardBlocks\": []}", "version_unsupported"),
        ("{\"version\": 2, \"hardBlocks\": []}", "version_unsupported"),
        ("{\"version\": \"1\", \"hardBlocks\": []}", "version_unsupported"),
        ("{\"version\": 1}", "hardBlocks_must_be_array"),
        ("{\"version\": 1, \"hardBlocks\": {}}", "hardBlocks_must_be_array"),
        ("{\"version\": 1, \"hardBlocks\": [], \"extra\": 0}", "unknown_key:extra"),
        ("{\"version\": 1, \"hardBlocks\": [7]}", "hardBlocks.0.must_be_object"),
        ("{\"version\": 1, \"hardBlocks\": []} {}", "json_invalid"),
        ("{\"version\": 2, \"version\": 1, \"hardBlocks\": []}", "json_duplicate_key:version"),
        ("{\"version\": 1, \"hardBlocks\": [{}], \"h\\u0061rdBlocks\": []}", "json_duplicate_key:hardBlocks"),
        (
            "{\"version\": 1, \"hardBlocks\": [{\"enabled\": true, \"id\": 1, \"enabled\": false}]}",
            "json_duplicate_key:enabled",
        ),
    ] {
        assert_eq!(codes(text), [code], "{text}");
    }
    assert_eq!(codes("{\"version\": 1, \"hardBlocks\": []}"), Vec::<String>::new());
    let large = format!("{{\"version\": 1, \"hardBlocks\": []}}{}", " ".repeat(policy::MAX_DOCUMENT));
    assert_eq!(codes(&large), ["document_too_large"]);
    assert_eq!(rules(json!(vec![0; policy::MAX_RULES + 1])), ["hardBlocks_too_many"]);
}

#[test]
fn each_field_has_its_codes_beside_what_is_taken() {
    let long = "x".repeat(121);
    for (changes, code) in [
        (json!({"id": null}), Some("id_required")),
        (json!({"id": ""}), Some("id_required")),
        (json!({"id": 7}), Some("id_required")),
        (json!({"id": "a b"}), Some("id_invalid")),
        (json!({"id": long}), Some("id_invalid")),
        (json!({"id": long.get(1..)}), None),
        (json!({"id": "A-z_0.9:x"}), None),
        (json!({"type": null}), Some("type_invalid")),
        (json!({"type": "file"}), Some("type_invalid")),
        (json!({"match": "fuzzy"}), Some("match_invalid")),
        (json!({"match": 1}), Some("match_invalid")),
        (json!({"match": null}), None),
        (json!({"pattern": null}), Some("pattern_required")),
        (json!({"pattern": ""}), Some("pattern_required")),
        (json!({"pattern": "x".repeat(4097)}), Some("pattern_too_long")),
        (json!({"pattern": "x".repeat(4096)}), None),
        (json!({"operations": null}), Some("operations_required")),
        (json!({"operations": []}), Some("operations_required")),
        (json!({"operations": "read"}), Some("operations_required")),
        (json!({"operations": ["read", "chmod"]}), Some("operations_invalid:chmod")),
        (json!({"operations": [1]}), Some("operations_invalid:1")),
        (json!({"operations": ["read", "write", "delete", "execute", "delegate"]}), None),
        (json!({"enabled": "yes"}), Some("enabled_must_be_boolean")),
        (json!({"enabled": false}), None),
        (json!({"reason": 1}), Some("reason_must_be_string")),
        (json!({"reason": "why"}), None),
        (json!({"note": 1}), Some("unknown_key:note")),
        (json!({"examples": []}), Some("examples_invalid")),
        (json!({"examples": {"blocks": "x"}}), Some("examples_invalid")),
        (json!({"examples": {"denies": []}}), Some("examples_invalid")),
        (json!({"examples": {"blocks": ["/x", "//x/."], "allows": ["/x/y", "/X"]}}), None),
        (json!({"examples": {"blocks": ["/y"]}}), Some("example_failed:/y")),
        (json!({"examples": {"allows": ["/x"]}, "enabled": false}), Some("example_failed:/x")),
    ] {
        let expected: Vec<String> = code.map(|code| format!("hardBlocks.0.{code}")).into_iter().collect();
        assert_eq!(rules(json!([rule(changes.clone())])), expected, "{changes}");
    }
}

#[test]
fn patterns_are_compiled_and_must_be_able_to_match() {
    let unmatchable = Some("pattern_unmatchable");
    for (kind, matching, pattern, code) in [
        ("path", "regex", "(", Some("pattern_regex_invalid")),
        ("path", "regex", "a(?=b)", Some("pattern_regex_invalid")),
        ("path", "regex", r"\w{1000}{1000}", Some("pattern_regex_invalid")),
        ("path", "regex", r"[^\s\S]", unmatchable),
        ("path", "regex", "a^b", unmatchable),
        ("path", "regex", "(x$)y|[a&&b]", unmatchable),
        ("path", "regex", "(x$)y|ok", None),
        ("path", "regex", "(a*)^b", None),
        ("path", "regex", "^/srv$", None),
        ("path", "glob", "/a/[b", Some("pattern_glob_invalid")),
        ("path", "glob", "/a/{b", Some("pattern_glob_invalid")),
        ("path", "glob", "/a/[z-a]", Some("pattern_glob_invalid")),
        ("path", "glob", "/a/*/../b", unmatchable),
        ("path", "glob", "/a/c/../b", None),
        ("path", "glob", "**/*.pem", None),
        ("path", "contains", "/../", unmatchable),
        ("path", "contains", "a//b", unmatchable),
        ("path", "contains", "..", None),
        ("path", "exact", "/a\0", unmatchable),
        ("command", "exact", "  ", unmatchable),
        ("command", "contains", " ", None),
        ("command", "glob", "rm [", Some("pattern_glob_invalid")),
        ("command", "regex", "rm$x", unmatchable),
        ("command", "regex", r"\brm\b", None),
    ] {
        let made = json!([{"id": "a", "type": kind, "match": matching, "pattern": pattern, "operations": ["execute"]}]);
        let expected: Vec<String> = code.map(|code| format!("hardBlocks.0.{code}")).into_iter().collect();
        assert_eq!(rules(made), expected, "{kind} {matching} {pattern}");
    }
    // Nothing but executing is done to a command.
    let never = json!([{"id": "a", "type": "command", "pattern": "rm", "operations": ["read"]}]);
    assert_eq!(rules(never), ["hardBlocks.0.pattern_unmatchable"]);
}

#[test]
fn all_faults_are_told_at_once_each_with_its_rule() {
    let made = json!([
        rule(json!({})),
        rule(json!({"operations": [], "enabled": 1})),
        rule(json!({"id": "b", "type": "x", "pattern": null})),
    ]);
    assert_eq!(
        rules(made),
        [
            "hardBlocks.1.id_duplicate",
            "hardBlocks.1.enabled_must_be_boolean",
            "hardBlocks.1.operations_required",
            "hardBlocks.2.type_invalid",
            "hardBlocks.2.pattern_required",
        ]
    );
}

#[test]
fn the_canonical_form_writes_the_defaults_and_is_stable() {
    let text = r#"{"hardBlocks": [
        {"operations": ["delete", "read", "read"], "pattern": "k/**", "id": "p", "type": "path"},
        {"id": "c", "type": "command", "pattern": "rm", "operations": ["execute"], "enabled": false, "reason": "no",
         "examples": {"allows": ["ls"]}}], "version": 1}"#;
    let document = Document::parse(text, &base()).unwrap();
    let canonical = document.to_json();
    let expected = concat!(
        r#"{"version":1,"hardBlocks":[{"id":"p","enabled":true,"type":"path","pattern":"k/**","match":"glob","#,
        r#""operations":["read","delete"]},{"id":"c","enabled":false,"type":"command","pattern":"rm","match":"regex","#,
        r#""operations":["execute"],"reason":"no","examples":{"blocks":[],"allows":["ls"]}}]}"#
    );
    assert_eq!(canonical.to_string(), expected);
    assert_eq!(Document::parse(&canonical.to_string(), &base()).unwrap(), document);
}

#[test]
fn every_fault_says_what_to_do() {
    for wrong in [Wrong::Json, Wrong::Unmatchable, Wrong::IdInvalid, Wrong::Operation("x".into())] {
        assert!(!wrong.hint().is_empty() && !wrong.hint().ends_with('.'), "{wrong}");
    }
}

proptest! {
    /// Whatever is written, checking ends, and what is taken reads back as itself.
    #[test]
    fn a_document_that_is_taken_reads_back(
        pattern in "[a-z/*?{},\\[\\]~.$^\\\\ ]{0,24}",
        matching in prop::sample::select(vec!["exact", "prefix", "glob", "regex", "contains"]),
        kind in prop::sample::select(vec!["path", "command"]),
    ) {
        let rule = json!({"id": "a", "type": kind, "match": matching, "pattern": pattern, "operations": ["execute"]});
        let text = json!({"version": 1, "hardBlocks": [rule]}).to_string();
        if let Ok(document) = Document::parse(&text, &base()) {
            prop_assert!(policy::Compiled::new(&document, &base()).is_ok(), "{text}");
            prop_assert_eq!(Document::parse(&document.to_json().to_string(), &base()).unwrap(), document);
        }
    }
}
