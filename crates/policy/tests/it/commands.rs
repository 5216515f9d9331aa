//! Commands: every spelling of a blocked one beside its allowed neighbour, and no way to hang or break.

use std::path::{Path, PathBuf};

use policy::{Analysis, Compiled, Operation, Verdict};
use proptest::prelude::*;
use serde_json::json;

use crate::indirect::INDIRECT;
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
        .chain(INDIRECT)
        .flat_map(|(spelling, neighbour)| {
            let passes = (verdict(&rules, spelling) == "allowed").then(|| format!("passes: {spelling:?}"));
            let told = verdict(&rules, neighbour);
            let blocks = (told != "allowed").then(|| format!("blocks: {neighbour:?} ({told})"));
            [passes, blocks].into_iter().flatten()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(SPELLINGS.len() >= 60 && INDIRECT.len() >= 100);
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
            &["git pushes", "git -c x pull", "Git push"],
        ),
        (
            "prefix",
            "zap -x",
            &["bash -s -- -x < ./zap", "sh zap -x"],
            &["bash -s -- -y < ./zap", "bash -s -- -x < ./zip"],
        ),
        (
            "glob",
            "git push*--force*",
            &["git push --force", "git push a/b --force-with-lease"],
            &["git push", "echo git push --force"],
        ),
        (
            "regex",
            r"\bdrop\s+table\b",
            &["psql -c 'DROP   TABLE x'", "psql -c \"drop table x\""],
            &["psql -c 'droptable'"],
        ),
        ("regex", "^psql .*drop", &["psql -c 'x;\n drop y'", "psql x\\\n drop"], &["echo drop"]),
        ("regex", "(?-s)^psql .*drop", &["psql -c 'x; drop y'"], &["psql -c 'x;\n drop y'"]),
        ("contains", "--force", &["git push --force", "x '--for'ce"], &["git push --FORCE", "git push --for ce"]),
        // What a program of which nothing is known is given is no command of its own, wherever it ends.
        (
            "regex",
            "^zap --mode=(all|any)$",
            &[
                "zap \"--mode=all\"",
                "chronic zap --mode='any'",
                "perl -e 'exec \"zap\", \"--mode=all\"; 1'",
                "uv run --json='[\"zap\", \"--mode=any\", 1]'",
            ],
            &["chronic zap --mode=one", "chronic zip --mode=all", "perl -e 'exec \"zip\", \"--mode=all\"; 1'"],
        ),
        (
            "glob",
            "zap -x all",
            &["vim -c '!zap -x all' -c q y"],
            &["vim -c '!zip -x all' -c q y", "chronic zap -x allot"],
        ),
        ("glob", "zap http:*", &["chronic zap http://x"], &["chronic zap https://x", "chronic zip http://x"]),
        ("contains", "zap {a:1}", &["chronic zap '{a:1}'"], &["chronic zap '{a:2}'"]),
        (
            "regex",
            r"\bzap\s+-x",
            &["make -f - <<< $'all:\\n\\tzap -x'", "printf 'all:\\n\\tzap -x' | make -f -"],
            &["make -f - <<< $'all:\\n\\tbzap -x'"],
        ),
        // In code the name of the program that a pattern begins with is enough, as for a prefix.
        (
            "regex",
            "^zap -x",
            &["perl -e '$a = \"-x\"; exec \"zap\", $a'", "chronic /usr/bin/zap -x"],
            &["perl -e 'exec \"zip\", \"-x\"'", "chronic zap -y", "chronic zip -x"],
        ),
        ("glob", "zap -x*", &["awk 'BEGIN { c = \"zap\"; system(c \" -x\") }'"], &["awk '{ print \"zap\" }'"]),
        ("regex", r"\bdrop\s+table\b", &["psql -c 'drop table a'"], &["psql -c 'drop index a'"]),
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
fn a_pattern_about_a_program_holds_for_words_that_only_the_shell_will_know() {
    for (matching, pattern, unclear, allowed) in [
        (
            "regex",
            "^git push .*--force",
            &[
                "git push origin $F",
                "git push \"$@\"",
                "git push origin --for$()ce",
                "/usr/bin/git push $F",
                "git push -v $(cat y) main",
                "git \"$verb\" x --force-with-lease",
                "printf a | xargs git push",
            ][..],
            &["git pull $F", "echo \"$F\"", "git push origin main", "git log $F", "gitk $F", "git add -- \"$f\""][..],
        ),
        ("regex", "(git|hg) push\\b.*-f\\b", &["hg push $x", "sudo git push \"$x\""], &["hg pull $x", "got push $x"]),
        ("regex", ".*git push.*--force.*", &["git push $x"], &["git pull $x", "ls $x"]),
        ("regex", "^(rm|shred) .*secret", &["rm \"$f\"", "RM $f", "shred *"], &["cp \"$f\" g", "git rm \"$f\""]),
        ("regex", ".*--force", &["git push --for$x'ce'"], &["git push $x", "ls \"$x\""]),
        ("regex", "\\bdrop\\s+table\\b", &["drop \"$x\""], &["psql -c \"$q\"", "echo $x"]),
        ("regex", "^git push$", &["git push $x", "git push\"$x\""], &["git push \"$x\"", "git push $x y"]),
        ("regex", "^zap -x", &["chronic zap $x", "npx zap \"$x\""], &["chronic zip $x", "chronic \"$x\" zap"]),
        ("contains", "sudo ", &["sudo $x", "sud$x"], &["ls *.md", "ls $x", "cat $x"]),
        ("regex", "^a{2,3}b+[^c]*(?:d|e)$", &["aab \"$x\"", "aaab$x"], &["ab \"$x\"", "aabc \"$x\" c"]),
        (
            "glob",
            "zap --force*",
            &["zap \"$(echo --force)\"", "zap ${x:---force}", "zap --fo*"],
            &["zap -v \"$x\"", "zip $x"],
        ),
        ("glob", "*--force*", &["git push --for$()ce"], &["git push $x"]),
        ("contains", "git push --force", &["git push $x"], &["git pull $x"]),
        ("contains", "--force", &["git push --for$()ce"], &["git push $x", "ls --f$x", "ls a-$b"]),
    ] {
        let rules = rule(matching, pattern);
        for text in unclear {
            assert_ne!(verdict(&rules, text), "allowed", "{matching} {pattern}: {text}");
        }
        for text in allowed {
            assert_eq!(verdict(&rules, text), "allowed", "{matching} {pattern}: {text}");
        }
    }
}

#[test]
fn a_pattern_that_takes_too_many_steps_counts() {
    let long = format!("zap {} \"$x\"", "a".repeat(8_000));
    for pattern in ["^zap (a*)*(a*)*(a*)*c", "^zip .*.*.*b", "^zap (a|aa|aaa)*c"] {
        assert_eq!(verdict(&rule("regex", pattern), &long), "allowed", "{pattern}");
    }
    // None of these can match either, but to know that takes too long.
    for pattern in ["^zap (a+b?){200}c", "^zap ((a+){30}){30}c"] {
        assert_ne!(verdict(&rule("regex", pattern), &long), "allowed", "{pattern}");
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

/// What a table of rules, spellings and neighbours gets wrong.
fn mistaken(table: &[(&str, &str, &str)]) -> Vec<String> {
    let judged = table.iter().flat_map(|(pattern, spelling, neighbour)| {
        let rules = rule("prefix", pattern);
        let (told, other) = (verdict(&rules, spelling), verdict(&rules, neighbour));
        let passes = (told != "r").then(|| format!("passes: {spelling:?} ({told})"));
        let blocks = (other != "allowed").then(|| format!("blocks: {neighbour:?} ({other})"));
        [passes, blocks]
    });
    judged.flatten().collect()
}

#[test]
fn options_before_a_subcommand_do_not_hide_it() {
    let wrong = mistaken(&[
        ("git push", "git -C . push", "git -C . pull"),
        ("git push", "git -C push push", "git -C push pull"),
        ("git push", "git -c a=b push", "git -c a=push pull"),
        ("git push", "git --no-pager push", "git --no-pager log push"),
        ("git push", "git --git-dir=x push", "git --git-dir=push pull"),
        ("git push", "git --git-dir x --work-tree . push -f", "git --git-dir push --work-tree . pull -f"),
        ("git push", "git -p -C \"$d\" push", "git -p -C \"$d\" pull"),
        ("git push", "git --git-dir=\"$d\" push", "git --git-dir=\"$d\" pull"),
        ("git push", "git --unheard-of x push", "git --unheard-of x pull"),
        ("git push", "/usr/bin/git -C . push", "/usr/bin/git -C . pull"),
        ("git push", "sudo -u x env git -C . push", "sudo -u x env git -C . pull"),
        ("docker push", "docker -H tcp://h --context c push x", "docker -H tcp://h --context push pull x"),
        ("docker compose down", "docker -D compose -f x down", "docker -D compose -f down up"),
        ("podman rm", "podman --log-level debug rm x", "podman --log-level rm ps x"),
        ("kubectl delete", "kubectl -n prod delete pod x", "kubectl -n delete get pod x"),
        ("kubectl delete", "kubectl --context=p -v=5 delete pod x", "kubectl --context=delete -v=5 get pod x"),
        ("helm uninstall", "helm --kube-context p -n x uninstall y", "helm --kube-context p -n uninstall list"),
        ("npm publish", "npm --prefix x publish", "npm --prefix publish test"),
        ("npm publish", "npm --unheard-of publish", "npm --unheard-of test"),
        ("pnpm publish", "pnpm -C x -r publish", "pnpm -C publish -r test"),
        ("yarn publish", "yarn --cwd x publish", "yarn --cwd publish test"),
        ("cargo publish", "cargo +nightly publish", "cargo +nightly build publish"),
        ("cargo publish", "cargo -Zx --config a=b -q publish", "cargo -Z publish --config publish -q build"),
        ("pip install", "pip --proxy x install y", "pip --proxy install list"),
        ("pip3.12 install", "pip3.12 -q install y", "pip3.12 -q list"),
        ("systemctl stop", "systemctl --user -M x stop y", "systemctl --user -M stop status y"),
        ("aws s3 rm", "aws --profile p --region=r s3 rm x", "aws --profile s3 --region=rm s3 ls x"),
        ("gcloud projects delete", "gcloud --project p -q projects delete x", "gcloud --project p -q projects list"),
        ("gh pr merge", "gh -R o/r pr merge 1", "gh -R o/r pr view 1"),
        ("gh pr merge", "gh pr --repo o/r merge 1", "gh pr --repo merge view 1"),
        ("terraform apply", "terraform -chdir=x apply", "terraform -chdir=apply plan"),
        ("make deploy", "make -C x A=b deploy", "make -C deploy A=deploy test"),
        ("apt-get install", "apt-get -yq -o A=b install x", "apt-get -yq -o install update"),
    ]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_could_bring_another_subcommand_is_unclear() {
    let rules = rule("prefix", "git push");
    for (text, neighbour) in [
        ("git -C $d pull", "git -C \"$d\" pull"),
        ("git -C \"$@\" pull", "git -C \"$1\" pull"),
        ("git --git-dir=$d pull", "git --git-dir=\"$d\" pull"),
        ("git -C $(a) pull", "git -C \"$(a)\" pull"),
        ("git $o pull", "git pull $o"),
        ("git -c alias.x=push x", "git -c aliases.x=push x"),
        ("git -c ALIAS.x=push x", "git -c color.ui=push x"),
        ("git -c \"$a\" x", "git -c \"user.name=$a\" x"),
        ("git -c alias.x='!git' x push", "git -c alias.x='!git pull' x"),
        ("git -c include.path=f x", "git -c i.path=f x"),
        ("git --config-env=alias.x=V x", "git --config-env=user.name=V x"),
        ("git config alias.x push; git x", "git config alias.x; git x"),
        ("GIT_CONFIG_KEY_0=alias.x git x", "GIT_CONFIG_NOSYSTEM=1 git x"),
    ] {
        assert_ne!(verdict(&rules, text), "allowed", "{text}");
        assert_eq!(verdict(&rules, neighbour), "allowed", "{neighbour}");
        let none = compiled(r#"{"id": "p", "type": "path", "pattern": "/x", "operations": ["read"]}"#);
        assert_eq!(none.test_command(text, &base()), Verdict::Allowed, "{text}");
    }
}

#[test]
fn a_script_is_executed_by_what_runs_it() {
    use Operation::Execute;
    let executed = |text: &str| -> Vec<PathBuf> {
        effects(text).into_iter().filter(|(operation, _)| *operation == Execute).map(|(_, path)| path).collect()
    };
    for (text, expected) in [
        ("sh d.sh a", &["/w/d.sh"][..]),
        ("bash ./d.sh", &["/w/d.sh"]),
        ("bash -eu -o pipefail d.sh", &["/w/d.sh"]),
        ("bash --rcfile r -i", &["/w/r"]),
        (". ./d.sh", &["/w/d.sh"]),
        ("source d.sh a", &["/w/d.sh"]),
        ("env A=b sh d.sh", &["/w/d.sh"]),
        ("sudo -u x timeout 5 sh d.sh", &["/w/d.sh"]),
        ("cd e && sh d.sh", &["/w/e/d.sh"]),
        ("sh < d.sh", &["/w/d.sh"]),
        ("bash -s a < d.sh", &["/w/d.sh"]),
        ("sh 0< d.sh", &["/w/d.sh"]),
        ("sh -c 'cat d.sh'", &[]),
        ("cat d.sh", &[]),
        ("python3 x.py a", &["/w/x.py"]),
        ("python3.12 -u -W ignore -X dev x.py", &["/w/x.py"]),
        ("python3 < x.py", &["/w/x.py"]),
        ("python3 - a < x.py", &["/w/x.py"]),
        ("python3 -c 'x' a", &[]),
        ("python3 -m x a", &[]),
        ("python3 --unheard-of y x.py", &["/w/y", "/w/x.py"]),
        ("perl -w x.pl a", &["/w/x.pl"]),
        ("perl -pe 1 a", &[]),
        ("ruby -I lib x.rb a", &["/w/x.rb"]),
        ("ruby -e x a", &[]),
        ("node x.js a", &["/w/x.js"]),
        ("node --require r.js x.js", &["/w/r.js", "/w/x.js"]),
        ("node --import=r.js -e x", &["/w/r.js"]),
        ("php -d a=b x.php", &["/w/x.php"]),
        ("php -f x.php", &["/w/x.php"]),
        ("lua x.lua", &["/w/x.lua"]),
        ("awk -f x.awk a", &["/w/x.awk"]),
        ("awk x a", &[]),
        ("make -fm a", &["/w/m"]),
        ("echo python3 x.py", &[]),
    ] {
        let mut found = executed(text);
        found.dedup();
        assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{text}");
        let all = effects(text);
        for path in expected {
            assert!(all.contains(&(Operation::Read, PathBuf::from(path))), "{text}: {path} is read");
        }
    }
}

#[test]
fn what_another_descriptor_reads_is_no_input() {
    let rules = rule("prefix", "rm -rf");
    for (text, neighbour) in [
        ("x | sh 3< y", "x | sh < y"),
        ("echo ls | sh <&3", "echo ls | sh 3<&0"),
        ("echo ls | sh <> y", "echo ls | sh 3<> y"),
    ] {
        assert!(verdict(&rules, text).starts_with("unclear"), "{text}");
        assert_eq!(verdict(&rules, neighbour), "allowed", "{neighbour}");
    }
}

#[test]
fn a_file_that_a_program_is_handed_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("app")).unwrap();
    for name in ["app/.env", "app/.envs", "-x"] {
        std::fs::write(root.join(name), "").unwrap();
    }
    std::os::unix::fs::symlink("app/.env", root.join("link")).unwrap();
    let own = policy::Base::new(&root, "/home/operator");
    let document = |pattern: &str| {
        let rules = json!([{"id": "r", "type": "path", "match": "exact", "pattern": pattern, "operations": ["read"]}]);
        policy::Document::parse(&json!({"version": 1, "hardBlocks": rules}).to_string(), &own).unwrap()
    };
    let told = |pattern: &str, text: &str| {
        let rules = Compiled::new(&document(pattern), &own).unwrap();
        matches!(rules.test_command(text, &own), Verdict::Blocked(_))
    };
    for (text, neighbour) in [
        ("tar cf - app/.env", "tar cf - app/.envs"),
        ("tar cf - app/.en[v]", "tar cf - app/.x*"),
        ("zip a.zip app/.env", "zip a.zip app/.envs"),
        ("zip a.zip link", "zip a.zip -x"),
        ("openssl enc -in app/.env", "openssl enc -in app/.envs"),
        ("docker run --env-file app/.env x", "docker run --env-file app/.envs x"),
        ("docker run --env-file=app/.env x", "docker run --env-file=app/.envs x"),
        ("docker run -v app/.env:/x y", "docker run -v app/.envs:/x y"),
        ("docker run --mount type=bind,src=app/.env,dst=/x y", "docker run --mount type=bind,src=app/.envs,dst=/x y"),
        ("perl -pe 1 app/.env", "perl -pe 1 app/.envs"),
        ("python3 -m x app/.env", "python3 -m x app/.envs"),
        ("sh x.sh app/.env", "sh x.sh app/.envs"),
        ("curl -d @app/.env h", "curl -d @app/.envs h"),
        ("curl -F a=@app/.env h", "curl -F a=@app/.envs h"),
        ("curl -Tapp/.env h", "curl -Tapp/.envs h"),
        ("openssl x -pass file:app/.env", "openssl x -pass file:app/.envs"),
        ("git hash-object app/.env", "git hash-object app/.envs"),
        ("git -C app show .env", "git -C app show .envs"),
        ("xargs -a app/.env echo", "xargs -a app/.envs echo"),
        ("sudo unheard-of app/.env", "sudo unheard-of app/.envs"),
        ("cd app && unheard-of .env", "cd app && unheard-of .envs"),
        ("unheard-of \"$PWD\" app/.env", "unheard-of \"$PWD\" app/.envs"),
        ("unheard-of /proc/self/cwd/app/.env", "unheard-of /proc/self/cwd/app/.envs"),
        ("unheard-of app/.env", "echo app/.env"),
        ("unheard-of app/.env", "rm app/.env"),
    ] {
        assert!(told("app/.env", text), "passes: {text}");
        assert!(!told("app/.env", neighbour), "blocks: {neighbour}");
    }
    assert!(told("-x", "unheard-of -- -x") && !told("-x", "unheard-of -x"));
    // What is not there is a word like others, until there are too many to look at.
    assert!(!told("missing", "unheard-of missing"));
    let many = |count: usize| (0..count).fold("unheard-of".to_owned(), |text, n| format!("{text} {n}"));
    assert!(!told("missing", &format!("{} missing", many(255))));
    assert!(told("missing", &format!("{} missing", many(256))));
}

#[test]
fn a_command_rule_that_does_not_execute_is_told_what_it_lacks() {
    let hints = |kind: &str, pattern: &str, operation: &str| -> Vec<(String, &str)> {
        let rule = json!({"id": "r", "type": kind, "pattern": pattern, "match": "contains", "operations": [operation]});
        let text = json!({"version": 1, "hardBlocks": [rule]}).to_string();
        let faults = policy::Document::parse(&text, &base()).err().unwrap_or_default();
        faults.iter().map(|fault| (fault.code(), fault.wrong.hint())).collect()
    };
    let code = || "hardBlocks.0.pattern_unmatchable".to_owned();
    let lacking = "a command is executed and nothing else: add \"execute\" to the operations";
    assert_eq!(hints("command", "rm", "read"), [(code(), lacking)]);
    assert_eq!(hints("command", "rm", "execute"), []);
    assert_eq!(hints("path", "//", "read"), [(code(), "nothing can ever match this rule; correct the pattern")]);
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
        nest("unheard-of ", "", 3_000),
        nest("./x > x; ", "", 3_000),
        nest("python3 -c 'a ", "'", 1_000),
        nest("echo a | foo; ", "", 2_000),
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

#[test]
fn a_rule_on_what_is_executed_covers_a_program_that_is_found_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["first", "second"] {
        std::fs::create_dir(root.join(name)).unwrap();
        program(&root.join(name).join("tool"));
    }
    program(&root.join("second/other"));
    // No program: a shell goes on.
    std::fs::write(root.join("first/other"), "").unwrap();
    let rule = |pattern: &str| {
        let rule = json!({"id": "r", "type": "path", "match": "exact", "pattern": root.join(pattern), "operations": ["execute"]});
        compiled(&rule.to_string())
    };
    let base = base().search(["first", "second"].map(|name| root.join(name)));
    let blocked = |pattern: &str, text: &str| rule(pattern).test_command(text, &base) != Verdict::Allowed;
    for text in ["tool", "a && 'to'ol x", "env A=1 nice tool", "sh -c 'tool; true'", "echo $(tool)", "xargs tool"] {
        assert!(blocked("first/tool", text), "{text}");
        // It is not what a shell would find.
        assert!(!blocked("second/tool", text), "{text}");
    }
    assert!(blocked("second/other", "other") && !blocked("second/other", "tool other"));
    // The text may change where it is looked for.
    std::fs::create_dir(root.join("near")).unwrap();
    program(&root.join("near/third"));
    std::fs::create_dir(root.join("far")).unwrap();
    program(&root.join("far/third"));
    let far = root.join("far").display().to_string();
    for text in [
        format!("PATH={far} third"),
        format!("export PATH=\"$PATH\":{far}; nice third"),
        format!("env PATH=/x:{far} third"),
        format!("cd {far} && PATH= third"),
        format!("f() {{ local PATH=.; third; }}; cd {far} && f"),
        format!("cd {far}/.. && PATH+=:far && third"),
        format!("cd {far} && PATH=$PWD:$PATH third"),
        format!("{far}/th?rd"),
        format!("env -C {far} ./third"),
        format!("sudo --chdir={far} ./third"),
        format!("env -iC{far} ./third"),
    ] {
        assert!(blocked("far/third", &text), "{text}");
        assert!(!blocked("near/third", &text), "{text}");
    }
    assert!(!blocked("far/third", "third") && !blocked("far/third", &format!("PATH={far} echo third")));
}

fn program(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, "").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
