//! Path rules: operations, ways of matching and spellings, each denial beside an allowed neighbour.

use std::os::unix::fs::symlink;
use std::path::Path;

use policy::{Base, Compiled, Document, Form, Operation, Verdict};
use proptest::prelude::*;
use serde_json::json;

use crate::{base, compiled};

/// The id of the rule that blocks.
fn blocked(rules: &Compiled, operation: Operation, path: &str, base: &Base) -> Option<String> {
    match rules.test_path(operation, path, base) {
        Verdict::Allowed => None,
        Verdict::Blocked(matched) => Some(matched.id.to_string()),
        Verdict::Unclear(why) => Some(format!("unclear: {why}")),
    }
}

fn one(matching: &str, pattern: &str, operation: &str) -> Compiled {
    compiled(
        &json!({"id": "r", "type": "path", "match": matching, "pattern": pattern, "operations": [operation]})
            .to_string(),
    )
}

#[test]
fn each_way_of_matching_blocks_what_it_says_and_not_its_neighbour() {
    for (matching, pattern, blocks, allows) in [
        (
            "exact",
            "/a/b",
            &["/a/b", "/a/./b", "//a//b/", "/a/c/../b", "/../a/b"][..],
            &["/a/b/c", "/a/bc", "/a", "/A/b"][..],
        ),
        ("exact", "keys", &["/srv/agent/keys", "keys", "./keys", "x/../keys"], &["/keys", "key"]),
        ("exact", "~/.ssh", &["/home/operator/.ssh"], &["/home/operator/.sshd", "/srv/agent/.ssh"]),
        ("prefix", "/a/b", &["/a/b", "/a/b/c/d", "/a/b/../b/c"], &["/a/bc", "/a", "/a/B/c"]),
        ("prefix", "/", &["/", "/etc", "x"], &[]),
        ("prefix", "~", &["/home/operator", "/home/operator/x"], &["/home/operators"]),
        ("glob", "/a/*.pem", &["/a/x.pem", "/a/.pem"], &["/a/x/y.pem", "/a/x.PEM", "/a/x.pem2"]),
        ("glob", "/a/**/k?y", &["/a/key", "/a/b/c/kay"], &["/a/ky", "/a/k/y"]),
        ("glob", "/a/{b,c}/[0-9]", &["/a/b/1", "/a/c/9"], &["/a/d/1", "/a/b/x"]),
        ("glob", "/a/b/**", &["/a/b", "/a/b/c", "/a/b/c/d"], &["/a/bc", "/a"]),
        ("glob", "/a/b/", &["/a/b", "/a/b/c"], &["/a/bc", "/a"]),
        ("glob", "/a/*/k/**", &["/a/x/k", "/a/x/k/y"], &["/a/k", "/a/x/kk"]),
        ("glob", "*.env", &["/srv/agent/x.env", ".env"], &["/srv/agent/a/x.env", "/x.env"]),
        ("glob", "**/.env", &["/srv/agent/.env", "a/b/.env"], &["/.env", "a/.env.sample"]),
        ("glob", "~/k*", &["/home/operator/keys"], &["/home/operator/a/keys"]),
        ("glob", "./a/../b/*", &["b/x", "/srv/agent/b/y"], &["a/x"]),
        ("regex", r"\.key$", &["/a/b.key", "x.key"], &["/a/b.keys", "/a/b.KEY"]),
        (
            "regex",
            "^/a/.*/sec$",
            &["/a/x/sec", "/a/x\ny/sec", "/a/x\r\n/sec"],
            &["/a/sec", "/a/x\ny/secs", "/b\n/a/x/sec"],
        ),
        ("regex", "(?-s)^/a/.*/sec$", &["/a/x/sec"], &["/a/x\ny/sec"]),
        ("contains", "secret", &["/a/my-secrets/x"], &["/a/SECRET"]),
        ("exact", "/ü", &["/ü"], &["/u\u{308}", "/Ü"]),
    ] {
        let rules = one(matching, pattern, "write");
        for path in blocks {
            assert_eq!(
                blocked(&rules, Operation::Write, path, &base()).as_deref(),
                Some("r"),
                "{matching} {pattern}: {path}"
            );
            assert_eq!(blocked(&rules, Operation::Read, path, &base()), None, "{matching} {pattern}: {path}, read");
        }
        for path in allows {
            assert_eq!(blocked(&rules, Operation::Write, path, &base()), None, "{matching} {pattern}: {path}");
        }
    }
}

#[test]
fn deleting_covers_what_is_below_and_what_it_would_take_along() {
    for (matching, pattern) in [("exact", "/a/b"), ("prefix", "/a/b"), ("glob", "/a/b/**")] {
        let rules = one(matching, pattern, "delete");
        for (path, expected) in [
            ("/a/b", true),
            ("/a/b/c", true),
            ("/a", true),
            ("/", true),
            ("/a/bc", false),
            ("/a/c", false),
            ("/ab", false),
        ] {
            assert_eq!(blocked(&rules, Operation::Delete, path, &base()).is_some(), expected, "{matching} {path}");
        }
    }
}

#[test]
fn the_first_rule_of_the_document_is_named_and_one_that_rests_is_not() {
    let rules = compiled(
        r#"{"id": "off", "enabled": false, "type": "path", "pattern": "/a", "operations": ["read"]},
           {"id": "regex", "type": "path", "match": "regex", "pattern": "a", "operations": ["read"]},
           {"id": "exact", "type": "path", "match": "exact", "pattern": "/a", "operations": ["read", "delegate"]}"#,
    );
    assert_eq!(blocked(&rules, Operation::Read, "/a", &base()).as_deref(), Some("regex"));
    assert_eq!(blocked(&rules, Operation::Delegate, "/a", &base()).as_deref(), Some("exact"));
    assert_eq!(blocked(&rules, Operation::Execute, "/a", &base()), None);
}

#[test]
fn links_are_followed_wherever_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("secret/deep")).unwrap();
    std::fs::create_dir_all(root.join("open")).unwrap();
    std::fs::write(root.join("secret/key"), "k").unwrap();
    symlink("secret", root.join("middle")).unwrap();
    symlink("secret/key", root.join("final")).unwrap();
    symlink("secret/new", root.join("dangling")).unwrap();
    symlink("final", root.join("chained")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("open/x", root.join("harmless")).unwrap();
    let base = Base::new(&root, "/home/operator");
    let text = r#"{"version": 1, "hardBlocks": [
        {"id": "r", "type": "path", "pattern": "secret/**", "operations": ["read", "write"]}]}"#;
    let rules = Compiled::new(&Document::parse(text, &base).unwrap(), &base).unwrap();
    for path in ["secret/key", "middle/key", "middle/deep/not-yet", "final", "dangling", "chained", "open/../middle"] {
        assert_eq!(blocked(&rules, Operation::Write, path, &base).as_deref(), Some("r"), "{path}");
    }
    for path in ["open/x", "harmless", "secret2", "final2"] {
        assert_eq!(blocked(&rules, Operation::Write, path, &base), None, "{path}");
    }
    assert!(blocked(&rules, Operation::Read, "loop/x", &base).unwrap().starts_with("unclear"), "a loop is no pass");
    assert_eq!(blocked(&rules, Operation::Delete, "loop/x", &base), None, "no rule is about deleting");
    let Verdict::Blocked(matched) = rules.test_path(Operation::Read, "final", &base) else { panic!("it is blocked") };
    assert_eq!(matched.form, Form::Real(root.join("secret/key")));
}

#[test]
fn a_rule_may_name_its_place_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("real/sub")).unwrap();
    symlink("real", root.join("alias")).unwrap();
    let base = Base::new(&root, "/home/operator");
    for (matching, pattern) in
        [("exact", "alias/x"), ("prefix", "alias/x"), ("glob", "alias/x/**"), ("glob", "alias/[x]*")]
    {
        let rule = json!({"id": "r", "type": "path", "match": matching, "pattern": pattern, "operations": ["read"]});
        let text = json!({"version": 1, "hardBlocks": [rule]}).to_string();
        let rules = Compiled::new(&Document::parse(&text, &base).unwrap(), &base).unwrap();
        for path in ["real/x", "alias/x"] {
            assert_eq!(
                blocked(&rules, Operation::Read, path, &base).as_deref(),
                Some("r"),
                "{matching} {pattern} {path}"
            );
        }
        assert_eq!(blocked(&rules, Operation::Read, "real/y", &base), None, "{matching} {pattern}");
    }
}

#[test]
fn another_name_of_a_covered_file_is_covered() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("secret")).unwrap();
    for name in ["secret/key", "secret/id.pem", "plain"] {
        std::fs::write(root.join(name), name).unwrap();
    }
    std::fs::hard_link(root.join("secret/key"), root.join("other")).unwrap();
    std::fs::hard_link(root.join("secret/id.pem"), root.join("cert")).unwrap();
    std::fs::hard_link(root.join("plain"), root.join("plain2")).unwrap();
    let base = Base::new(&root, "/home/operator");
    for (matching, pattern, path) in [
        ("exact", "secret/key", "other"),
        ("prefix", "secret", "other"),
        ("glob", "**/*.pem", "cert"),
        ("regex", "key$", "other"),
        ("contains", "id.pem", "cert"),
    ] {
        let rule = json!({"id": "r", "type": "path", "match": matching, "pattern": pattern, "operations": ["read"]});
        let text = json!({"version": 1, "hardBlocks": [rule]}).to_string();
        let rules = Compiled::new(&Document::parse(&text, &base).unwrap(), &base).unwrap();
        let Verdict::Blocked(matched) = rules.test_path(Operation::Read, path, &base) else {
            panic!("{matching} {path}")
        };
        assert_eq!(matched.form, Form::HardLink(root.join(path)), "{matching}");
        assert_eq!(blocked(&rules, Operation::Read, "plain2", &base), None, "{matching}");
    }
}

#[test]
fn a_thousand_rules_find_the_one() {
    let rules: Vec<String> = (0..1000)
        .map(|n| {
            let matching = ["exact", "prefix", "glob", "regex", "contains"][n % 5];
            let pattern = if matching == "glob" { format!("/d{n}/*.x") } else { format!("/d{n}/f") };
            json!({"id": format!("r{n}"), "type": "path", "match": matching, "pattern": pattern, "operations": ["read"]}).to_string()
        })
        .collect();
    let rules = compiled(&rules.join(","));
    for n in [0, 501, 702, 903, 999] {
        let path = if n % 5 == 2 { format!("/d{n}/a.x") } else { format!("/d{n}/f") };
        assert_eq!(blocked(&rules, Operation::Read, &path, &base()), Some(format!("r{n}")), "{path}");
    }
    assert_eq!(blocked(&rules, Operation::Read, "/d1000/f", &base()), None);
}

#[test]
fn the_paths_of_a_command_are_judged_as_the_kernel_will_take_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("secret/deep")).unwrap();
    std::fs::create_dir_all(root.join("open")).unwrap();
    for name in ["secret/key", "key", "open/key", ".env"] {
        std::fs::write(root.join(name), name).unwrap();
    }
    symlink("secret/deep", root.join("link")).unwrap();
    std::fs::hard_link(root.join("secret/key"), root.join("open/other")).unwrap();
    let base = Base::new(&root, "/home/operator");
    let text = r#"{"version": 1, "hardBlocks": [
        {"id": "r", "type": "path", "pattern": "{secret,secret/**,.env}", "operations": ["read"]}]}"#;
    let rules = Compiled::new(&Document::parse(text, &base).unwrap(), &base).unwrap();
    for (blocks, allows) in [
        ("cat secret/key", "cat key"),
        ("cat < secret/key", "cat > secret/new"),
        ("cat link/../key", "cat open/../key"),
        ("cat .en*", "cat .x*"),
        ("cat s*/k[e]y", "cat o*/k[e]y"),
        ("cd secret && cat key", "cd open && cat key"),
        ("cat /proc/self/cwd/secret/key", "cat /proc/self/cwd/key"),
        ("cat open/other", "cat open/key"),
        ("sh -c 'head -c 1 link/../key'", "sh -c 'head -c 1 open/key'"),
    ] {
        let verdict = |text: &str| rules.test_command(text, &base);
        assert!(matches!(verdict(blocks), Verdict::Blocked(_)), "{blocks}");
        assert_eq!(verdict(allows), Verdict::Allowed, "{allows}");
    }
}

proptest! {
    /// Prefix and `/**` cover exactly what begins with the same components.
    #[test]
    fn a_prefix_is_a_prefix_of_components(rule in "(/[ab]{1,2}){1,3}", path in "(/[ab.]{1,2}){0,5}") {
        let expected = policy::lexical(Path::new(&format!("/{path}"))).starts_with(&rule);
        for (matching, pattern) in [("prefix", rule.clone()), ("glob", format!("{rule}/**")), ("glob", format!("{rule}/"))] {
            let rules = one(matching, &pattern, "read");
            let found = blocked(&rules, Operation::Read, &format!("/{path}"), &base()).is_some();
            prop_assert_eq!(found, expected, "{} {} {}", matching, pattern, path);
        }
    }
}

#[test]
fn a_path_in_a_revision_and_behind_a_tilde_is_a_path() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::create_dir(root.join(".git")).unwrap();
    std::fs::write(root.join("deploy.sh"), "").unwrap();
    let own = Base::new(&root, "/home/operator");
    let document = |operation: &str, pattern: &str| {
        let rules =
            json!([{"id": "r", "type": "path", "match": "glob", "pattern": pattern, "operations": [operation]}]);
        Document::parse(&json!({"version": 1, "hardBlocks": rules}).to_string(), &own).unwrap()
    };
    let told = |operation: &str, pattern: &str, text: &str| {
        let rules = Compiled::new(&document(operation, pattern), &own).unwrap();
        !matches!(rules.test_command(text, &own), Verdict::Allowed)
    };
    for (text, neighbour) in [
        ("git show HEAD:.env", "git show HEAD:.envs"),
        ("git show :.env", "git show :sub/.env"),
        ("git show :0:.env", "git show :4:.env"),
        ("git -C sub show main~2:.env", "git -C sub show main~2:./.envs"),
        ("cd sub && git show HEAD:.env", "cd sub && git show HEAD:sub/.env"),
        ("git cat-file -p HEAD:.env", "git cat-file -p HEAD"),
        ("git cat-file blob HEAD:./.env", "git cat-file blob HEAD:./.envs"),
        ("git diff a:.env b:.env", "git diff a:.envs b:.envs"),
        ("git archive HEAD:.env", "git archive HEAD:.envs"),
        ("git checkout-index :.env", "git push origin HEAD:.env"),
        ("cat ~+/.env", "cat ~+/.envs"),
        ("cat < ~+/.env", "cat < '~+/.env'"),
        ("cd sub && cat ~-/.env", "cd sub && cat ~+/.env"),
        ("cd sub && cd ~- && cat .env", "cd sub && cd ~+ && cat .env"),
        ("cd sub && cd - && cat .env", "cd sub && cd . && cat .env"),
        ("cd sub && cat \"$PWD\"/../.env", "cd sub && cat \"$PWD\"/.env"),
    ] {
        assert!(told("read", ".env", text), "passes: {text}");
        assert!(!told("read", ".env", neighbour), "blocks: {neighbour}");
    }
    for (text, neighbour) in [
        ("make --fil=deploy.sh", "make --quie deploy.sh"),
        ("sed --fil=deploy.sh x", "sed --quie=deploy.sh x"),
        ("gawk --fil=deploy.sh x", "gawk --csv x"),
        ("gawk --inc deploy.sh x", "gawk --assign deploy.sh x"),
        ("run-parts .", "run-parts sub"),
        ("GIT_CONFIG_GLOBAL=deploy.sh git log", "GIT_CONFIG_GLOBALS=deploy.sh git log"),
    ] {
        assert!(told("execute", "deploy.sh", text), "passes: {text}");
        assert!(!told("execute", "deploy.sh", neighbour), "blocks: {neighbour}");
    }
}
