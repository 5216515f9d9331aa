//! Commands: every spelling of a blocked one beside its allowed neighbour, and no way to hang or break.

use std::path::{Path, PathBuf};

use policy::{Analysis, Compiled, Operation, Verdict};
use proptest::prelude::*;
use serde_json::json;

use crate::spellings::SPELLINGS;
use crate::{base, compiled};

fn rule(matching: &str, pattern: &str) -> Compiled {
    compiled(
        &json!({"id": "r", "type": "command", "match": matching, "pattern": pattern, "operations": ["execute"]})
            .to_string(),
    )
}

fn verdict(rules: &Compiled, text: &str) -> String {
    match rules.test_command(text, &base()) {
        Verdict::Allowed => "allowed".to_owned(),
        Verdict::Blocked(matched) => matched.id.to_string(),
        Verdict::Unclear(why) => format!("unclear: {why}"),
    }
}

#[test]
fn every_spelling_of_a_blocked_command_is_seen_and_its_neighbour_runs() {
    let rules = rule("prefix", "rm -rf");
    let wrong: Vec<String> = SPELLINGS
        .iter()
        .flat_map(|(spelling, neighbour)| {
            let passes = (verdict(&rules, spelling) == "allowed").then(|| format!("passes: {spelling:?}"));
            let told = verdict(&rules, neighbour);
            let blocks = (told != "allowed").then(|| format!("blocks: {neighbour:?} ({told})"));
            [passes, blocks].into_iter().flatten()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(SPELLINGS.len() >= 60);
}

#[test]
fn each_way_of_matching_blocks_what_it_says_and_not_its_neighbour() {
    for (matching, pattern, blocks, allows) in [
        (
            "exact",
            "git push",
            &["git push", "  git   push ", "true; git 'push'", "/usr/bin/git push"][..],
            &["git push -f", "git pushes", "git"][..],
        ),
        ("exact", "echo 'a  b'", &["echo \"a  b\""], &["echo a b"]),
        (
            "prefix",
            "git push",
            &["git push", "git push origin", "sudo git push"],
            &["git pushes", "git -c x push", "Git push"],
        ),
        (
            "glob",
            "git push*--force*",
            &["git push --force", "git push a/b --force-with-lease"],
            &["git push", "a git push --force"],
        ),
        (
            "regex",
            r"\bdrop\s+table\b",
            &["psql -c 'DROP   TABLE x'", "psql -c \"drop table x\""],
            &["psql -c 'droptable'"],
        ),
        ("contains", "--force", &["git push --force", "x '--for'ce"], &["git push --FORCE", "git push --for ce"]),
    ] {
        let rules = rule(matching, pattern);
        for text in blocks {
            assert_eq!(verdict(&rules, text), "r", "{matching} {pattern}: {text}");
        }
        for text in allows {
            assert_eq!(verdict(&rules, text), "allowed", "{matching} {pattern}: {text}");
        }
    }
}

#[test]
fn what_is_not_understood_passes_only_without_command_rules() {
    let base = base();
    let none = compiled(r#"{"id": "p", "type": "path", "pattern": "/x", "operations": ["read"]}"#);
    for text in ["$x y", "echo 'open", &"a ".repeat(40_000), "$(((((", "a\0b"] {
        assert!(matches!(rule("prefix", "rm").test_command(text, &base), Verdict::Unclear(_)), "{text:.20}");
        assert_eq!(none.test_command(text, &base), Verdict::Allowed, "{text:.20}");
    }
}

#[test]
fn more_paths_than_are_looked_at_are_no_pass() {
    let rules = compiled(r#"{"id": "p", "type": "path", "pattern": "/vault/**", "operations": ["read"]}"#);
    let many = |count: usize| (0..count).fold("cat".to_owned(), |text, n| format!("{text} {n}"));
    assert_eq!(rules.test_command(&many(4000), &base()), Verdict::Allowed);
    assert!(matches!(rules.test_command(&many(5000), &base()), Verdict::Unclear(_)));
    let patterns = |count: usize| (0..count).fold("cat".to_owned(), |text, n| format!("{text} {n}*"));
    assert_eq!(rules.test_command(&patterns(60), &base()), Verdict::Allowed);
    assert!(matches!(rules.test_command(&patterns(70), &base()), Verdict::Unclear(_)));
}

fn effects(text: &str) -> Vec<(Operation, PathBuf)> {
    let analysis = Analysis::of_text(text, Path::new("/w"), Path::new("/home/o"));
    analysis.paths().iter().map(|effect| (effect.operation, policy::lexical(&effect.path))).collect()
}

#[test]
fn redirections_and_well_known_commands_name_their_paths() {
    use Operation::{Delete, Execute, Read, Write};
    for (text, expected) in [
        ("x < a", vec![(Read, "/w/a")]),
        ("x > a 2>> /b 2>&1", vec![(Write, "/w/a"), (Write, "/b")]),
        ("x &> a", vec![(Write, "/w/a")]),
        ("x <> a", vec![(Read, "/w/a"), (Write, "/w/a")]),
        ("{ x; } > a", vec![(Write, "/w/a")]),
        ("cat -n a 'b c'", vec![(Read, "/w/a"), (Read, "/w/b c")]),
        ("cat ~/.ssh/id", vec![(Read, "/home/o/.ssh/id")]),
        ("cat '~/x'", vec![(Read, "/w/~/x")]),
        ("rm -rf -- -a", vec![(Delete, "/w/-a")]),
        ("cp a b", vec![(Read, "/w/a"), (Write, "/w/b"), (Write, "/w/b/a")]),
        ("cp -t d a", vec![(Read, "/w/d"), (Read, "/w/a"), (Write, "/w/d"), (Write, "/w/d/d"), (Write, "/w/d/a")]),
        ("mv a b", vec![(Read, "/w/a"), (Delete, "/w/a"), (Write, "/w/b"), (Write, "/w/b/a")]),
        ("tee -a x", vec![(Write, "/w/x")]),
        ("dd if=a of=../b", vec![(Read, "/w/a"), (Write, "/b")]),
        ("sed -i s/a/b/ f", vec![(Read, "/w/s/a/b"), (Write, "/w/s/a/b"), (Read, "/w/f"), (Write, "/w/f")]),
        ("sort a -o b", vec![(Read, "/w/a"), (Read, "/w/b"), (Write, "/w/b")]),
        ("sudo -u x sh -c 'cat a'", vec![(Read, "/w/a")]),
        ("cd d && cat a", vec![(Read, "/w/d/a")]),
        ("cd d; cat a", vec![(Read, "/w/a"), (Read, "/w/d/a")]),
        ("cd /d && cd e && cat a", vec![(Read, "/d/e/a")]),
        ("./x", vec![(Execute, "/w/x")]),
        ("cat /proc/self/cwd/a /proc/self/root/b", vec![(Read, "/w/a"), (Read, "/b")]),
        (
            "cat /proc/$$/cwd/a \"/proc/$BASHPID/cwd/b\" '/proc/$$/cwd/c'",
            vec![(Read, "/w/a"), (Read, "/w/b"), (Read, "/proc/$$/cwd/c")],
        ),
        ("cat $x", vec![]),
        ("echo a", vec![]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|(operation, path)| (operation, PathBuf::from(path))).collect();
        assert_eq!(effects(text), expected, "{text}");
    }
}

#[test]
fn nested_and_long_texts_come_to_an_end() {
    let rules = rule("prefix", "rm -rf");
    let nest = |open: &str, close: &str, times: usize| format!("{}rm -rf x{}", open.repeat(times), close.repeat(times));
    for text in [
        nest("$(", ")", 30),
        nest("$(", ")", 20_000),
        nest("( ", " )", 60),
        nest("(", ")", 30_000),
        nest("{ ", "; }", 5_000),
        nest("if ", "; then :; fi", 3_000),
        nest("case a in a) ", " ;; esac", 2_000),
        nest("echo \"$(", ")\"", 100),
        nest("${x:-", "}", 10_000),
        nest("eval ", "", 3_000),
        nest("sudo --x ", "", 200),
        nest("env ", "", 5_000),
        "`".repeat(60_001),
        "{a,b}".repeat(2_000),
        format!("{}x", "rm -rf ".repeat(300_000)),
    ] {
        assert_ne!(verdict(&rules, &text), "allowed", "{text:.40}");
    }
}

#[test]
fn argument_lists_are_judged_like_texts() {
    let analysis = Analysis::of_argv(&["sudo", "sh", "-c", "rm -rf $x"], Path::new("/"), Path::new("/"));
    let texts: Vec<&str> = analysis.commands().iter().map(policy::Simple::text).collect();
    assert!(texts.contains(&"rm -rf $x") && texts.contains(&"sh -c rm -rf $x"), "{texts:?}");
    let quoted = Analysis::of_argv(&["echo", "$(rm -rf x)", "*"], Path::new("/"), Path::new("/"));
    assert_eq!((quoted.commands().len(), quoted.unclear()), (1, None), "an argument is no text for a shell");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever the text, the analysis ends and does not break.
    #[test]
    fn no_text_breaks_the_analysis(text in "(rm|-rf|sudo|sh -c|eval|case|esac|in|if|fi|\\$\\(|\\$\\{|\\$'|[\\[\\](){}<>|&;\"'`\\\\\n\t #=!*~$,a-c.-]|<<E\n|E\n|é){0,40}") {
        let analysis = Analysis::of_text(&text, Path::new("/w"), Path::new("/h"));
        prop_assert_eq!(analysis.raw(), &text);
    }

    /// A plain blocked command is seen behind whatever else stands on lines of its own.
    #[test]
    fn what_stands_before_hides_nothing(
        before in prop::collection::vec(prop::sample::select(vec![
            "true", "echo \"a b\"", "x=1", "( ls )", "{ ls; }", "cat <<E\n'\nE", "# it's", "f() { ls; }", "echo $(ls)", "ls > y",
            "if a; then b; fi", "case a in a) b;; esac", "echo 'a\nb'", "[[ a == b ]]", "((x))", "for i in a; do b; done",
        ]), 0..6),
        glue in prop::sample::select(vec!["\n", "\n\n"]),
    ) {
        let text = format!("{}{glue}rm -rf x", before.join(glue));
        prop_assert_eq!(verdict(&rule("prefix", "rm -rf"), &text), "r");
        let text = format!("{}{glue}ls -rf x", before.join(glue));
        prop_assert_eq!(verdict(&rule("prefix", "rm -rf"), &text), "allowed");
    }
}
