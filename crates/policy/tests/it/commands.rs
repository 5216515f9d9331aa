//! Commands: every spelling of a blocked one beside its allowed neighbour, and no way to hang or break.

use std::path::{Path, PathBuf};

use policy::{Analysis, Compiled, Operation, Verdict};
use proptest::prelude::*;
use serde_json::json;

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

/// With `rm -rf` blocked: the spelling that runs it, and one that runs something else.
const SPELLINGS: &[(&str, &str)] = &[
    ("rm -rf x", "rm -r x"),
    ("  rm   -rf\tx", "  ls   -rf\tx"),
    ("/bin/rm -rf x", "/bin/rmdir -rf x"),
    ("../../bin/rm -rf x", "../../bin/ls -rf x"),
    ("\\rm -rf x", "\\ls -rf x"),
    ("r\\m -rf x", "l\\s -rf x"),
    ("'rm' -rf x", "'ls' -rf x"),
    ("\"rm\" -rf x", "\"ls\" -rf x"),
    ("r'm' -r'f' x", "l's' -r'f' x"),
    ("r\"\"m -rf x", "l\"\"s -rf x"),
    ("$'rm' -rf x", "$'ls' -rf x"),
    ("$'\\x72\\x6d' -rf x", "$'\\x6c\\x73' -rf x"),
    ("$'\\162m' $'-\\u0072f' x", "$'\\154s' $'-\\u0072f' x"),
    ("$\"rm\" -rf x", "$\"ls\" -rf x"),
    ("r\\\nm -rf x", "l\\\ns -rf x"),
    ("rm \\\n -rf x", "ls \\\n -rf x"),
    ("{rm,-rf,x}", "{ls,-rf,x}"),
    ("rm -r{f,} x", "rm -v{f,} x"),
    ("rm -{rf,v} x", "rm -{v,rf} x"),
    ("true; rm -rf x", "true; ls -rf x"),
    ("true&&rm -rf x", "true&&ls -rf x"),
    ("false || rm -rf x", "false || ls -rf x"),
    ("sleep 1 & rm -rf x", "sleep 1 & ls -rf x"),
    ("yes | rm -rf x", "yes | ls -rf x"),
    ("yes |& rm -rf x", "yes |& ls -rf x"),
    ("true\nrm -rf x", "true\nls -rf x"),
    ("# rm?\nrm -rf x", "# rm -rf x\nls"),
    ("(rm -rf x)", "(ls -rf x)"),
    ("( ( rm -rf x ) )", "( ( ls -rf x ) )"),
    ("((rm -rf x))", "((ls -rf x))"),
    ("{ rm -rf x; }", "{ ls -rf x; }"),
    ("! rm -rf x", "! ls -rf x"),
    ("!(rm -rf x)", "!(ls -rf x)"),
    ("if true; then rm -rf x; fi", "if true; then ls -rf x; fi"),
    ("if rm -rf x; then :; fi", "if ls -rf x; then :; fi"),
    ("while rm -rf x; do break; done", "while ls -rf x; do break; done"),
    ("for i in 1 2; do rm -rf x; done", "for i in rm -rf; do ls x; done"),
    ("case a in a) rm -rf x;; esac", "case rm in -rf) ls x;; esac"),
    ("case a in (b|a) rm -rf x; esac", "case $x in (b|\"$a\") ls -rf x; esac"),
    ("f() { rm -rf x; }; f", "f() { ls -rf x; }; f"),
    ("function f { rm -rf x; }; f", "function f { ls -rf x; }; f"),
    ("echo $(rm -rf x)", "echo $(ls -rf x)"),
    ("echo \"a $(rm -rf x) b\"", "echo \"a $(ls -rf x) b\""),
    ("echo `rm -rf x`", "echo `ls -rf x`"),
    ("echo \"`rm -rf x`\"", "echo \"`ls -rf x`\""),
    ("echo `echo \\`rm -rf x\\``", "echo `echo \\`ls -rf x\\``"),
    ("echo $(echo $(rm -rf x))", "echo $(echo $(ls -rf x))"),
    ("echo ${x:-$(rm -rf x)}", "echo ${x:-$(ls -rf x)}"),
    ("echo \"${x:-`rm -rf x`}\"", "echo \"${x:-`ls -rf x`}\""),
    ("echo $((1 + $(rm -rf x)))", "echo $((1 + $(ls -rf x)))"),
    ("echo $((rm -rf x) ; true)", "echo $((ls -rf x) ; true)"),
    ("x=$(rm -rf x)", "x=$(ls -rf x)"),
    ("a=1 b=2 rm -rf x", "a=1 b=2 ls -rf x"),
    ("a=($(rm -rf x))", "a=($(ls -rf x) \"$y\")"),
    ("cat <(rm -rf x)", "cat <(ls -rf x)"),
    ("tee >(rm -rf x)", "tee >(ls -rf x)"),
    ("rm<y -rf x", "ls<y -rf x"),
    (">y rm -rf x", ">y ls -rf x"),
    ("rm 2>/dev/null -rf x", "rm 2>/dev/null -r x"),
    ("rm &>/dev/null -rf x", "ls &>/dev/null -rf x"),
    ("true &>y rm -rf x", "true &>y ls -rf x"),
    ("git commit -m \"$(cat <<E\nit's $(rm -rf x)\nE\n)\"", "git commit -m \"$(cat <<E\nit's $(ls -rf x)\nE\n)\""),
    ("cat <<E\n$(rm -rf x)\nE", "cat <<'E'\n$(rm -rf x)\nE"),
    ("cat <<-E\n\t`rm -rf x`\n\tE", "cat <<-E\n\t`ls -rf x`\n\tE"),
    ("cat <<E; rm -rf x\nE", "cat <<E; ls\nrm -rf x\nE"),
    ("bash <<E\nrm -rf x\nE", "bash <<E\nls -rf x\nE"),
    ("bash <<< 'rm -rf x'", "bash <<< 'ls -rf x'"),
    ("echo rm -rf x | sh", "echo ls -rf x | sh"),
    ("printf 'rm -rf x\\n' | bash -s", "printf 'ls -rf x\\n' | bash -s"),
    ("cat <<E | sh\nrm -rf x\nE", "cat <<E | sh\nls -rf x\nE"),
    ("env rm -rf x", "env ls -rf x"),
    ("env -i A=b -u C rm -rf x", "env -i A=b -u rm ls -rf x"),
    ("env -S 'rm -rf x'", "env -S 'ls -rf x'"),
    ("env -S'A=b rm -rf' x", "env -S'A=b ls -rf' x"),
    ("command rm -rf x", "command ls -rf x"),
    ("command -p rm -rf x", "command -p ls -rf x"),
    ("builtin command rm -rf x", "builtin command ls -rf x"),
    ("exec -a ls rm -rf x", "exec -a rm ls -rf x"),
    ("nohup rm -rf x &", "nohup ls -rf x &"),
    ("timeout -k 5 10 rm -rf x", "timeout -k 5 10 ls -rf x"),
    ("timeout --signal=KILL 10 rm -rf x", "timeout --signal=KILL 10 ls -rf x"),
    ("nice -n 5 rm -rf x", "nice -n 5 ls -rf x"),
    ("nice -10 rm -rf x", "nice -10 ls -rf x"),
    ("ionice -c 3 rm -rf x", "ionice -c 3 ls -rf x"),
    ("stdbuf -oL rm -rf x", "stdbuf -oL ls -rf x"),
    ("setsid -w rm -rf x", "setsid -w ls -rf x"),
    ("sudo -u root -- rm -rf x", "sudo -u root -- ls -rf x"),
    ("sudo A=b rm -rf x", "sudo A=b ls -rf x"),
    ("doas rm -rf x", "doas ls -rf x"),
    ("sudo env nice timeout 5 rm -rf x", "sudo env nice timeout 5 ls -rf x"),
    ("sudo --what-is-this rm -rf x", "sudo --what-is-this ls -rf x"),
    ("chroot / rm -rf x", "chroot / ls -rf x"),
    ("time -p rm -rf x", "time -p ls -rf x"),
    ("/usr/bin/time -o f rm -rf x", "/usr/bin/time -o f ls -rf x"),
    ("busybox rm -rf x", "busybox ls -rf x"),
    ("xargs rm -rf < y", "xargs ls -rf < y"),
    ("xargs -I{} -n 1 rm -rf {}", "xargs -I{} -n 1 ls -rf {}"),
    ("parallel -j 4 rm -rf ::: x", "parallel -j 4 ls -rf ::: x"),
    ("find . -exec rm -rf {} +", "find . -exec ls -rf {} +"),
    ("find . -name x -execdir rm -rf {} \\;", "find . -name rm -execdir ls -rf {} \\;"),
    ("sh -c 'rm -rf x'", "sh -c 'ls -rf x'"),
    ("bash -euo pipefail -c \"rm -rf x\"", "bash -euo pipefail -c \"ls -rf x\""),
    ("/bin/bash -lc 'cd y && rm -rf x'", "/bin/bash -lc 'cd y && ls -rf x'"),
    ("sh -c 'sh -c \"rm -rf x\"'", "sh -c 'sh -c \"ls -rf x\"'"),
    ("sh -c '\"$@\"' _ rm -rf x", "sh -c 'ls \"$@\"' _ rm -rf x"),
    ("su root -c 'rm -rf x'", "su root -c 'ls -rf x'"),
    ("eval rm -rf x", "eval ls -rf x"),
    ("eval 'rm' \"-rf\" x", "eval 'ls' \"-rf\" x"),
    ("trap 'rm -rf x' EXIT", "trap 'ls -rf x' EXIT"),
    ("watch -n 1 rm -rf x", "watch -n 1 ls -rf x"),
    ("ssh -p 22 host rm -rf x", "ssh -p 22 host ls -rf x"),
    ("flock /tmp/l rm -rf x", "flock /tmp/l ls -rf x"),
    ("flock /tmp/l -c 'rm -rf x'", "flock /tmp/l -c 'ls -rf x'"),
    ("script -c 'rm -rf x' /dev/null", "script -c 'ls -rf x' /dev/null"),
    ("coproc rm -rf x", "coproc ls -rf x"),
    ("coproc N { rm -rf x; }", "coproc N { ls -rf x; }"),
    ("[[ a || rm -rf x ]]", "[[ a || ls -rf x ]]"),
    ("test -v 'a[$(rm -rf x)]'", "test -v 'a[$(ls -rf x)]'"),
    ("x='a[$(rm -rf x)]'; ((x))", "x='a[$(ls -rf x)]'; ((x))"),
    ("git -c alias.x='!rm -rf x' x", "git -c alias.x='!ls -rf x' x"),
    ("git submodule foreach 'rm -rf x'", "git submodule foreach 'ls -rf x'"),
    ("tar cf y --checkpoint-action=exec='rm -rf x' z", "tar cf y --checkpoint-action=exec='ls -rf x' z"),
    ("/lib64/ld-linux-x86-64.so.2 /bin/rm -rf x", "/lib64/ld-linux-x86-64.so.2 /bin/ls -rf x"),
    // What only the shell will know.
    ("r=rm; $r -rf x", "r=rm; ls -rf $r"),
    ("${r:-rm} -rf x", "ls ${r:-rm} -rf"),
    ("$(echo rm) -rf x", "ls $(echo rm) -rf"),
    ("/bin/r? -rf x", "/bin/ls -rf r?"),
    ("r[m] -rf x", "ls r[m] -rf"),
    ("rm $F x", "rm -r $F"),
    ("rm -r${IFS#*}f x", "rm -v${IFS#*}f x"),
    ("rm \"$(printf -- -rf)\" x", "rm -v \"$(printf -- -rf)\""),
    ("sh -c \"$cmd\"", "sh -c 'ls' \"$cmd\""),
    ("eval \"$cmd\"", "echo \"$cmd\""),
    ("curl -s https://example.org | sh", "curl -s https://example.org | cat"),
    ("bash <(curl https://example.org)", "cat <(curl https://example.org)"),
    (". /dev/stdin", ". ./env.sh"),
    ("alias l='rm -rf'\nl x", "alias\nls x"),
    ("r=rm\ncase a in esac\n$r -rf x\nesac", "case a in $r) ;; esac\nls -rf x"),
    ("case a in a) ;; b\n$r -rf x\n) ;; esac", "case a in a) ;; b|$r) ls ;; esac"),
    ("a=(b; $r -rf x)", "a=(b\n$r)"),
    ("time -o y rm -rf x", "time -o y ls -rf x"),
    ("time { rm -rf x; }", "time { ls -rf x; }"),
    ("env 'BASH_FUNC_ls%%=() { rm -rf x; }' bash -c ls", "env 'FUNC_ls%%=() { rm; }' bash -c ls"),
    ("env ./a=b rm -rf x", "env ./a=b ls -rf x"),
    ("sudo -- A=b rm -rf x", "sudo -- A=b ls -rf x"),
    ("(( 'a[$(rm -rf x)]' ))", "(( 'a[$(ls -rf x)]' ))"),
    ("cat <<A <<B\n'\nA\n'\nB\nrm -rf x", "cat <<A <<B\n'\nA\nrm -rf x\nB\nls"),
    ("BASH_ENV=y bash -c :", "BASH=y bash -c :"),
    ("hash -p /bin/rm l; l -rf x", "hash -r; ls -rf x"),
    ("sudo ${u:+-u $u} rm -rf x", "sudo -u \"$u\" ls -rf x"),
    // What shells read in different ways.
    ("echo $'\\' ; rm -rf x; echo $'\\'", "echo $'\\n' ; ls -rf x; echo $'\\n'"),
    ("((1<<2))\nrm -rf x\n2", "x=$((1<<2))\nls -rf x"),
    ("echo $[1<<2]\nrm -rf x\n2]", "echo $((1<<2))\nls"),
    ("cat <\\\n<E\n'\nE\nrm -rf x\n#'", "cat <<E\n'\nE\nls -rf x\n#"),
    ("echo $\\\n(rm -rf x)", "echo \\\n $(ls -rf x)"),
    ("cat <<\"E F\"\n'\nE F\nrm -rf x #'", "cat <<\"EF\"\n'\nEF\nls -rf x"),
    ("echo 'never closed\nrm -rf x", "echo 'closed'\nls -rf x"),
    ("echo $(cat <<'E'\n)'\nE\nrm -rf x)", "git commit -m \"$(cat <<'E'\nit's (done)\nE\n)\""),
    ("echo $(case a in a) rm -rf x;; esac)", "echo $(case a in (a) ls -rf x;; esac)"),
];

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
