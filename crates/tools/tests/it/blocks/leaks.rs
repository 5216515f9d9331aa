//! What a list, a refusal or an error could tell of something that is not to be seen.
//!
//! A refusal is the same whether the covered thing exists or not. Lists say how many entries they withhold, and
//! nothing of them. Whoever may write a path can find out whether something is there: a rule that hides a file
//! names `write` beside `read`.

use serde_json::{Value, json};

use super::{BLOCKED, Got, Ward, path_rule};
use crate::processes::git::git;

/// A tool and its input for a path.
type Deed = (&'static str, fn(&str) -> Value);

/// The name of what is covered: it stands in no answer to a question that does not name it.
const NAME: &str = "hidden-name";

/// A tree in which `secret` holds something covered, or nothing at all.
fn plant(ward: &Ward, exists: bool) {
    ward.clear();
    ward.put("open/key", "open-bytes\n");
    std::fs::create_dir(ward.root().join("secret")).unwrap();
    ward.link(format!("secret/{NAME}"), "link");
    ward.link("secret", "into");
    if exists {
        ward.put(&format!("secret/{NAME}"), BLOCKED);
    }
}

#[test]
fn a_refusal_does_not_tell_whether_something_is_there() {
    let ward = Ward::new();
    let path = format!("secret/{NAME}");
    let spelled = [
        path.clone(),
        format!("{path}/"),
        format!("{path}/below"),
        format!("{path}/below/deep"),
        format!("into/{NAME}"),
        format!("into/{NAME}/below"),
        "link".to_owned(),
        "link/below".to_owned(),
    ];
    let deeds: [Deed; 12] = [
        ("files_read", |path| json!({"filePath": path})),
        ("files_inspect", |path| json!({"filePath": path})),
        ("files_list", |path| json!({"path": path})),
        ("files_find", |path| json!({"path": path, "pattern": "*"})),
        ("files_search", |path| json!({"path": path, "query": "bytes"})),
        ("files_write", |path| json!({"filePath": path, "content": "new"})),
        ("files_write", |path| json!({"filePath": path, "content": "new", "createParents": false})),
        ("files_edit", |path| json!({"filePath": path, "oldText": "bytes", "newText": "new"})),
        ("files_patch", |path| json!({"patch": format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-blocked\n+new\n")})),
        ("files_patch", |path| json!({"patch": format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new\n")})),
        (
            "files_patch",
            |path| json!({"patch": format!("diff --git a/open/key b/{path}\nsimilarity index 100%\nrename from open/key\nrename to {path}\n")}),
        ),
        ("git_status", |path| json!({"path": path})),
    ];
    let mut wrong = Vec::new();
    for (matching, pattern) in [
        ("exact", path.as_str()),
        ("prefix", &path),
        ("glob", &path),
        ("glob", "secret/hidden*"),
        ("regex", "hidden-name$"),
        ("contains", "hidden"),
    ] {
        let policy = ward.policy(&[path_rule(matching, pattern, &["read", "write"])]);
        for (tool, input) in deeds {
            for path in &spelled {
                let [there, missing] = [true, false].map(|exists| {
                    plant(&ward, exists);
                    ward.call(&policy, tool, &input(path))
                });
                // There is no work tree here, which is told of any path.
                let told = matches!(there, Got::BadInput(_)) || tool == "git_status";
                if there != missing || !(there.is_denied() || told) {
                    wrong.push(format!("{tool} {matching} {pattern} {path}: {there:?} {missing:?}"));
                }
            }
        }
    }
    // The same where no rule is: it does make a difference there.
    let free = ward.policy(&[]);
    plant(&ward, true);
    let (there, missing) = (
        ward.call(&free, "files_read", &json!({"filePath": path})),
        ward.call(&free, "files_read", &json!({"filePath": "secret/no"})),
    );
    assert!(matches!((there, missing), (Got::Ok(_), Got::Failed(_))));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn lists_name_nothing_that_is_covered_and_say_how_much_they_withhold() {
    let ward = Ward::new();
    plant(&ward, true);
    ward.put(&format!("{NAME}-two/inner"), BLOCKED);
    std::fs::hard_link(ward.root().join("secret").join(NAME), ward.root().join("twin")).unwrap();
    for (matching, pattern) in
        [("glob", "{secret/hidden*,hidden*,hidden*/**}"), ("regex", "hidden"), ("contains", "hidden-name")]
    {
        let policy = ward.policy(&[path_rule(matching, pattern, &["read"])]);
        for (tool, input, shows, withheld) in [
            ("files_list", json!({}), "open/key", 2),
            ("files_list", json!({"path": "secret"}), "0 entries", 1),
            ("files_list", json!({"path": "into"}), "0 entries", 1),
            ("files_find", json!({"pattern": "*"}), "open/key", 2),
            ("files_find", json!({"pattern": "hidden*"}), "0 paths", 2),
            ("files_find", json!({"pattern": "**/inner"}), "0 paths", 2),
            // The other name of a covered file may be seen, what is in it may not.
            ("files_search", json!({"query": "bytes"}), "open/key:1: open-bytes", 3),
            ("files_search", json!({"query": "bytes", "path": "secret"}), "0 matching lines", 1),
            ("files_inspect", json!({"filePath": "secret"}), "entries: 0", 0),
            ("files_inspect", json!({"filePath": "."}), "entries: 5", 0),
        ] {
            let got = ward.call(&policy, tool, &input);
            let Got::Ok(text) = &got else { panic!("{tool} {input}: {got:?}") };
            let answer = text.replace("`hidden*`", "");
            assert!(!answer.contains("hidden") && !answer.contains(BLOCKED), "{tool} {input} {matching}: {text}");
            assert!(text.contains(shows), "{tool} {input} {matching}: {text}");
            let counted = match withheld {
                0 => !text.contains("withheld"),
                1 => text.contains("1 entry is withheld"),
                many => text.contains(&format!("{many} entries are withheld")),
            };
            assert!(counted, "{tool} {input} {matching}: {text}");
        }
    }
    // Without the rule each of them is there.
    let text = ward.call(&ward.policy(&[]), "files_search", &json!({"query": BLOCKED}));
    assert!(text.text().contains("3 matching lines in 3 files"), "{text:?}");
}

#[test]
fn what_comes_nearest_is_told_only_of_a_file_that_may_be_read() {
    let ward = Ward::new();
    plant(&ward, true);
    ward.put("open/text", "fn main() {\n    start();\n}\n");
    ward.put("secret/text", "fn main() {\n    start();\n}\n");
    let policy = ward.policy(&[path_rule("glob", "secret/**", &["read"])]);
    let edit = |path: &str| {
        ward.call(
            &policy,
            "files_edit",
            &json!({"filePath": path, "oldText": "fn main() {\n  begin();", "newText": "x"}),
        )
    };
    let patch = |path: &str| {
        let patch = format!("--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n fn main() {{\n-    begin();\n+    go();\n");
        ward.call(&policy, "files_patch", &json!({"patch": patch}))
    };
    for (open, secret) in [(edit("open/text"), edit("secret/text")), (patch("open/text"), patch("secret/text"))] {
        assert!(matches!(&open, Got::Failed(text) if text.contains("start();")), "{open:?}");
        assert!(secret.is_blocked() && !secret.text().contains("start"), "{secret:?}");
    }
}

#[test]
fn git_shows_neither_names_nor_lines_of_what_is_covered() {
    let ward = Ward::new();
    plant(&ward, true);
    for path in ["secret/moved", "secret/gone", "open/moved"] {
        ward.put(path, &format!("{path}\n{}", "line\n".repeat(20)));
    }
    git(ward.root(), &["init", "-q"]);
    git(ward.root(), &["add", "."]);
    git(ward.root(), &["commit", "-qm", "first"]);
    git(ward.root(), &["mv", "secret/moved", "open/from-secret"]);
    git(ward.root(), &["mv", "open/moved", "secret/from-open"]);
    git(ward.root(), &["rm", "-q", "secret/gone"]);
    ward.put(&format!("secret/{NAME}"), &format!("{BLOCKED}\nmore\n"));
    ward.put("secret/untracked", BLOCKED);
    ward.put("open/key", "open-bytes\nmore\n");
    let policy = |rules: &[(&str, &str)]| {
        let rules: Vec<Value> =
            rules.iter().map(|(matching, pattern)| path_rule(matching, pattern, &["read"])).collect();
        ward.policy(&rules)
    };
    for (matching, pattern) in
        [("glob", "secret/**"), ("regex", "/secret/"), ("contains", "/secret/"), ("glob", "secret/*")]
    {
        let policy = policy(&[(matching, pattern)]);
        for (tool, input, shows) in [
            ("git_status", json!({}), "modified: open/key"),
            ("git_diff", json!({}), "+more"),
            ("git_diff", json!({"staged": true}), "withheld"),
        ] {
            let got = ward.call(&policy, tool, &input);
            let Got::Ok(text) = &got else { panic!("{tool} {input} {matching}: {got:?}") };
            assert!(
                !text.contains("secret/") && !text.contains(BLOCKED),
                "{tool} {input} {matching} {pattern}: {text}"
            );
            assert!(
                text.contains(shows) && text.contains("withheld by the policy"),
                "{tool} {input} {matching}: {text}"
            );
        }
    }
    let free = ward.policy(&[]);
    for (tool, input, shows) in [
        ("git_status", json!({}), "renamed: secret/moved -> open/from-secret"),
        ("git_diff", json!({}), BLOCKED),
        ("git_diff", json!({"staged": true}), "rename from secret/moved"),
    ] {
        let got = ward.call(&free, tool, &input);
        assert!(got.text().contains(shows), "{tool} {input}: {got:?}");
    }
}

#[test]
fn git_shows_no_lines_of_a_covered_file_by_another_name() {
    let ward = Ward::new();
    plant(&ward, true);
    ward.put("twin", "before\n");
    ward.put("other", "before\n");
    git(ward.root(), &["init", "-q"]);
    git(ward.root(), &["add", "twin", "other"]);
    git(ward.root(), &["commit", "-qm", "first"]);
    std::fs::remove_file(ward.root().join("twin")).unwrap();
    std::fs::hard_link(ward.root().join("secret").join(NAME), ward.root().join("twin")).unwrap();
    ward.put("other", "after\n");
    let call = |rules: &[Value], input: Value| ward.call(&ward.policy(rules), "git_diff", &input);
    let rule = [path_rule("glob", "secret/**", &["read"])];
    for input in [json!({}), json!({"path": "."})] {
        let got = call(&rule, input.clone());
        assert!(
            matches!(&got, Got::Ok(text) if text.contains("+after") && text.contains("1 path is withheld") && !text.contains(BLOCKED)),
            "{got:?}"
        );
        assert!(call(&[], input).text().contains(BLOCKED));
    }
    // All that has changed is withheld: then nothing is shown, not everything.
    ward.put("other", "before\n");
    let got = call(&rule, json!({}));
    assert!(matches!(&got, Got::Ok(text) if text.contains("1 path is withheld") && !text.contains(BLOCKED)), "{got:?}");
}
