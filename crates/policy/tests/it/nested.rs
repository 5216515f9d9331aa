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
        assert!(matches!(rules.test_command(&text, &base()), Verdict::Unclear(_)), "{text:.40}");
        assert_eq!(rules.test_command(&few, &base()), Verdict::Allowed, "{few:.20}");
    }
    let row = format!("unheard-of {}push", "git-".repeat(15_000));
    assert_eq!(rules.test_command(&row, &base()), Verdict::Allowed);
    // One pass is enough for this.
    assert_eq!(rules.test_command(&format!("echo {}", "a[".repeat(32_000)), &base()), Verdict::Allowed);
}

/// What a rule on the words `zap` or `git push` forbids, and what stands next to it.
const FOUND: &[(&str, &str)] = &[
    ("if [[ x ]] then zap; fi", "if [[ x ]] then ls zap; fi"),
    ("while [[ ! -e q ]] do zap; done", "while [[ ! -e q ]] do ls zap; done"),
    ("if [[ -e q || x ]] then :; else zap; fi", "if [[ -e q || x ]] then :; else ls zap; fi"),
    ("if [[ ! -e q ]] then zap; fi | [[ x ]]", "if [[ ! -e q ]] then ls; fi | [[ zap ]]"),
    ("if case a in esac then zap; fi", "if case a in esac then ls zap; fi"),
    ("history -s zap", "history 20"),
    ("builtin history -s zap", "builtin history"),
    ("fc -l -s zap", "fc -l -20"),
    ("command fc -ls z", "command fc -ln"),
    ("jobs -l -x zap", "jobs -l"),
    ("builtin jobs -x zap", "builtin jobs -p"),
    ("sh ./zap", "sh ./zip zap1"),
    ("bash /path/zap -v", "bash /path/zap1 -v"),
    ("sh < zap", "cat < zap"),
    (". ./zap", ". ./zap.sh"),
    ("xargs sh ./zap", "xargs sh ./zip"),
    ("find . -exec sh ./zap {} +", "find . -exec sh ./zip {} +"),
    ("sed 's/.*/zap/e' z", "sed 's/.*/zap/' z"),
    ("sed ':a e zap' z", "sed ':a;s/zap/b/;ta' z"),
    ("sed 'w x\\\ne zap' z", "sed 'a x\\\ne zap' z"),
    ("sed 'i\\' -e 'e zap' z", "sed -e 'i\\' -e 'e zap' z"),
    ("sed '' -ne 'e zap' z", "sed '' z zap -n"),
    ("make -f - <<<'a:; -zap'", "make -f - <<<'a:; -zip'"),
    ("make -f - <<<'a:; +zap'", "make -f - <<<'a:; +zip'"),
    ("make -f - <<<'a:; @-zap'", "make -f - <<<'a:; @-zip'"),
    ("unheard-of '${x:-zap}'", "unheard-of '${x:-zip}'"),
    ("perl -e 'exec zap.\"\"'", "perl -e 'exec zip.\"\"'"),
    ("perl -e 'exec qw+zap+'", "perl -e 'exec qw+zip+'"),
    ("perl -e 'exec \"\\x20zap\"'", "perl -e 'exec \"\\x20zip\"'"),
    ("perl -e 'exec \"\\040zap\"'", "perl -e 'exec \"\\040zip\"'"),
    ("python3 -c 'import os; os.system(\"\\u0020zap\")'", "python3 -c 'import os; os.system(\"\\u0020zip\")'"),
    ("unheard-of -a -zap", "unheard-of --zap"),
    ("bash --norc -i <<<'!z'", "bash --norc <<<ls"),
    ("bash -H <<<'!z'", "bash -e <<<ls"),
    ("bash -o history -o histexpand <<<'!z'", "bash -o pipefail <<<ls"),
    ("bash +O interactive_comments -ic '# ls'", "bash +O nullglob -c '# ls'"),
    ("RANDOM='a[$'; y=1", "RANDOM=42; y=1"),
    ("OPTIND=\"$y\"", "OPTIND=1"),
    ("read SECONDS <<<z", "read SECOND <<<z"),
    ("x=$(cat y); echo ${@:x}", "x=$(cat y); echo ${@:2}"),
    ("x=$(cat y); echo ${*:x:1}", "x=$(cat y); echo ${*:-x}"),
    ("x=$(cat y); echo ${?:x}", "x=$(cat y); echo $? ${#x}"),
    ("x=$(cat y); echo ${#a[x]}", "x=$(cat y); echo ${#a[@]}"),
    ("x=$(cat y); a=([x]=1)", "x=$(cat y); a=([1]=\"$x\")"),
    ("declare -a a=\"$x\"", "declare a=\"$x\""),
    ("/bin/z{a..c}p", "/bin/z{d..f}p"),
    ("sh ./zap{01..02}", "sh ./zap{1..2}"),
    ("git-push origin", "git-pull origin"),
    ("/usr/lib/git-core/git-push", "/usr/lib/git-core/git-log push"),
    ("nice git-push", "nice git-log"),
    ("perl -e 'system \"git-push\"'", "perl -e 'system \"got-push\"'"),
    ("unheard-of --run=git-push", "unheard-of --run=git-log"),
    ("tar cf y *; touch ./-Izap", "tar cf y ./*; touch ./-Izap"),
    ("wget \"$(echo --use-askpass=zap)\" h", "wget -O \"$(echo zap)\" h"),
    ("scp \"$(echo -oProxyCommand=zap)\" a h:", "scp -i \"$(echo zap)\" a h:"),
    ("sdiff \"$(echo --diff-program=zap)\" a b", "sdiff -- \"$(echo zap)\" b"),
    ("install \"$(echo --strip-program=zap)\" -s a b", "install -m \"$(echo zap)\" a b"),
    ("npm install \"$(echo --script-shell=zap)\"", "npm install \"$(echo zip)\""),
    ("git archive \"$(echo --exec=zap)\" --remote=. HEAD", "git add \"$(echo zap)\""),
    ("gh repo clone o/r -- \"$(echo --upload-pack=zap)\"", "gh pr create --body \"$(echo zap)\""),
    ("sort -t -k \"$(echo --compress-program=zap)\" z", "sort -k \"$(echo zap)\" z"),
    ("tar czf \"$(echo zip)\" \"$(echo -Izap)\"", "tar czf \"$(echo zap)\" src"),
    ("split -l $(echo '9 --filter=zap') z", "split -l \"$(echo 9 zap)\" z"),
    ("foo \"${x#zap}\"", "foo \"${#zap}\""),
    ("foo \"${x:-$(true)zap}\"", "foo \"${x:-$(true)zip}\""),
    ("gawk --source='BEGIN{system(\"zap\")}'", "gawk --source='BEGIN{print(\"zap\")}'"),
    ("gawk --sou='BEGIN{system(\"zap\")}'", "gawk --posix 'BEGIN{print(\"zap\")}'"),
    (
        "awk -v n=$(echo '1 -f p') '{print}'; echo 'BEGIN{system(\"zap\")}' > p",
        "awk -v n=\"$(echo 1)\" '/zap/ {print}'",
    ),
    ("node --foo='zap(1)' x.js", "node --foo=1 x.js"),
    ("\"$HOME\"/bin/zap", "\"$HOME\"/bin/tool"),
    ("\"$HOME/bin/tool\" zap", "\"$HOME/bin/tool\" zip"),
    ("\"$x\"zap", "\"$x\"/zip"),
    ("CC=${CC:-zap} make", "CC=${CC:-gcc} make"),
    ("CC=${CC:-$(cat n)} make", "CC=${CC-gcc} make"),
    ("CC=${CD:-gcc} make", "CD=${CC:-gcc} make"),
    ("total=$(cat n); echo $((total+1))", "total=$(wc -l < n); echo $((total+1))"),
    ("echo zap > notes; foo notes", "echo zap > notes; cat notes"),
    ("echo zap > h/.wgetrc; HOME=h wget h", "echo zap > i/.wgetrc; HOME=h wget h"),
    ("sed -f <(echo '1e zap') z", "sed -n p <(echo '1e zap')"),
    ("sed --file <(echo '1e zap') z", "sed -f p <(echo zip)"),
    ("tar cf y <(true) -Izap z", "tar cf y <(true) zip"),
    ("sort <(true) --compress-program=zap", "sort <(echo zap) -u"),
    ("date +-Izap | xargs tar cf y z", "date +-Izap | xargs cat"),
    ("getopts a: q -a --filter=zap; split \"$OPTARG\" z", "getopts a: q; split \"$OPTARG\" z"),
    ("touch ./-Izap; ls -d -- -* | xargs -I{} tar cf y {}", "touch ./-Izap; ls -d -- -* | cat"),
];

#[test]
fn what_stands_in_an_unlikely_place_is_found() {
    let rules = compiled(
        r#"{"id": "z", "type": "command", "match": "prefix", "pattern": "zap", "operations": ["execute"]},
           {"id": "n", "type": "command", "match": "prefix", "pattern": "zap02", "operations": ["execute"]},
           {"id": "g", "type": "command", "match": "prefix", "pattern": "git push", "operations": ["execute"]}"#,
    );
    let wrong: Vec<String> = FOUND
        .iter()
        .flat_map(|(blocked, allowed)| {
            let passed = rules.test_command(blocked, &base()) == Verdict::Allowed;
            let verdict = rules.test_command(allowed, &base());
            let refused = (verdict != Verdict::Allowed).then(|| format!("refused {allowed:?}: {verdict:?}"));
            passed.then(|| format!("passed {blocked:?}")).into_iter().chain(refused)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_rule_on_a_command_that_runs_another_does_not_mean_that_one() {
    let rules = compiled(
        r#"{"id": "s", "type": "command", "match": "prefix", "pattern": "sudo rm", "operations": ["execute"]},
           {"id": "b", "type": "command", "match": "exact", "pattern": "sh ./zap", "operations": ["execute"]}"#,
    );
    for (text, allowed) in [("sudo rm x", false), ("rm x", true), ("sh ./zap", false), ("./zap", true)] {
        assert_eq!(rules.test_command(text, &base()) == Verdict::Allowed, allowed, "{text}");
    }
}
