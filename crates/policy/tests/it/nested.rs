//! Ways to run a text, in each other: however deep and however quoted, a blocked command is not let pass.

use policy::{Compiled, Verdict};
use proptest::prelude::*;

use crate::{base, compiled};

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A way to run a text: what stands before it, whether it is quoted, and what stands behind it.
const WAYS: &[(&str, bool, &str)] = &[
    ("sh -c ", true, ""),
    ("eval ", true, ""),
    ("env A=b bash -c ", true, ""),
    ("echo 1 | xargs sh -c ", true, ""),
    ("find x -prune -exec sh -c ", true, " \\;"),
    ("ssh-agent sh -c ", true, ""),
    ("perl -e 'system @ARGV' sh -c ", true, ""),
    ("python3 -c 'import os, sys; os.system(sys.argv[1])' ", true, ""),
    ("unheard-of --run=", true, ""),
    ("trap ", true, " EXIT"),
    ("split --filter=", true, " y"),
    ("bash <<< ", true, ""),
    ("perl -ne 'system $_' <<< ", true, ""),
    ("echo ", true, " | bash"),
    ("echo ", true, " | cat - | perl -ne 'system $_'"),
    ("echo ", true, " > y; sh ./y"),
    ("tee y <<< ", true, "; . ./y"),
    ("y=", true, "; eval \"$y\""),
    ("export Y=", true, "; perl -e 'system $ENV{Y}'"),
    ("for y in ", true, "; do perl -e \"system q{$y}\"; done"),
    ("set -- ", true, "; perl -e \"system q{$1}\""),
    ("f() { ", false, "\n}; f"),
    ("echo \"$(", false, "\n)\""),
    ("cat <(", false, "\n)"),
    ("( ", false, "\n)"),
    ("if ", false, "\nthen :; fi"),
    ("case a in (a) ", false, "\n;; esac"),
    ("for i in 1; do ", false, "\ndone"),
    ("coproc N { ", false, "\n}"),
    ("true && ", false, ""),
    ("! ", false, ""),
    ("time ", false, ""),
];

fn nested(command: &str, ways: &[usize]) -> String {
    ways.iter().fold(command.to_owned(), |text, way| {
        let (before, is_quoted, behind) = WAYS[*way];
        let inner = if is_quoted { quoted(&text) } else { text };
        format!("{before}{inner}{behind}")
    })
}

fn rule() -> Compiled {
    compiled(r#"{"id": "r", "type": "command", "match": "prefix", "pattern": "rm -rf", "operations": ["execute"]}"#)
}

#[test]
fn each_way_alone_lets_another_command_pass() {
    let rules = rule();
    for way in 0..WAYS.len() {
        let (blocked, neighbour) = (nested("rm -rf x", &[way]), nested("ls -rf x", &[way]));
        assert_ne!(rules.test_command(&blocked, &base()), Verdict::Allowed, "{blocked}");
        // Of what `eval` is given by a variable nothing is known.
        if !neighbour.contains("\"$y\"") {
            assert_eq!(rules.test_command(&neighbour, &base()), Verdict::Allowed, "{neighbour}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_nesting_hides_a_blocked_command(
        command in prop::sample::select(vec!["rm -rf x", "r\\m -rf x", "r''m -\"rf\" x", "/bin/rm -r'f' x", "$'rm' -rf x"]),
        ways in prop::collection::vec(0..WAYS.len(), 1..4),
    ) {
        let text = nested(command, &ways);
        prop_assert_ne!(rule().test_command(&text, &base()), Verdict::Allowed, "{}", text);
    }
}

#[test]
fn what_takes_too_much_work_is_not_analyzable() {
    let rules = rule();
    let word = "w".repeat(40_000);
    for (text, few) in [
        (format!("find {}ls", "-exec find ".repeat(150)), "find . -exec find . -exec ls {} + {} +".to_owned()),
        (format!("{}ls", "time ".repeat(4000)), "time time ls".to_owned()),
        (format!("{}ls", "eval ".repeat(3000)), "eval eval ls".to_owned()),
        (format!("{}ls {word}", "strace -~ ".repeat(15)), format!("strace -~ ls {word}")),
        (format!("{}ls {word}", "setarch ".repeat(30)), format!("setarch ls {word}")),
    ] {
        assert!(matches!(rules.test_command(&text, &base()), Verdict::Unclear(_)), "{}", &text[..40]);
        assert_eq!(rules.test_command(&few, &base()), Verdict::Allowed, "{}", &few[..10]);
    }
    // One pass is enough for this.
    assert_eq!(rules.test_command(&format!("echo {}", "a[".repeat(32_000)), &base()), Verdict::Allowed);
}
