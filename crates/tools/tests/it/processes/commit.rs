//! `git_commit` on real repositories, friendly and hostile, and the gate in front of it.

use std::sync::Arc;

use policy::{Gates, Policy, StructuralAction, Tool};
use serde_json::{Value, json};

use super::git::{git, repository, write};
use super::{Host, Seen};

const VERIFY: &str = "test -f a.txt";

/// A host whose task may commit as soon as it has verified, with a user's configuration.
fn host() -> Host {
    let mut host = Host::new();
    start(&mut host, StructuralAction::Factory, &[VERIFY]);
    write(host.beside("gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n");
    host
}

fn start(host: &mut Host, action: StructuralAction, verify: &[&str]) {
    let gates = Gates::new(action, verify.iter().map(|text| (*text).to_owned()).collect());
    host.task = Some(Policy::new(host.rules.clone()).for_task(gates));
}

fn tool(host: &Host) -> Arc<dyn Tool> {
    tools::git_commit(&host.environment, &host.processes, &[host.beside("missing"), host.beside("gitconfig")])
}

async fn verify(host: &Host) {
    let seen = host.call(&host.shell(), json!({"command": VERIFY})).await;
    assert!(!seen.is_error, "{}", seen.text);
}

async fn commit(host: &Host, input: Value) -> Seen {
    verify(host).await;
    host.call(&tool(host), input).await
}

/// The commit's text without its id, which is checked.
async fn committed(host: &Host, input: Value) -> String {
    let seen = commit(host, input).await;
    assert!(!seen.is_error, "{}", seen.text);
    let top = if host.work("inner").is_dir() { host.work("inner") } else { host.work("") };
    let head = git(&top, &["rev-parse", "HEAD"]);
    assert!(seen.text.starts_with(&format!("committed {} on branch ", head.trim())), "{}", seen.text);
    seen.text.replace(head.trim(), "ID")
}

async fn failed(host: &Host, input: Value) -> String {
    let before = state(host);
    let seen = commit(host, input).await;
    assert!(seen.is_error, "{}", seen.text);
    assert_eq!(state(host), before);
    seen.text
}

/// The branch, the index and what lies in the repository's own directory.
fn state(host: &Host) -> (String, Vec<u8>, Vec<String>) {
    let dir = host.work(".git");
    let mut names: Vec<String> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    (git(&host.work(""), &["for-each-ref"]), std::fs::read(dir.join("index")).unwrap_or_default(), names)
}

fn log(host: &Host) -> String {
    git(&host.work(""), &["log", "-1", "--format=%an <%ae> %cn <%ce>%n%B", "--name-status"])
}

#[tokio::test]
async fn everything_that_a_status_shows_is_committed() {
    let host = host();
    repository(&host);
    write(host.work(".gitignore"), "*.log\n");
    write(host.work("noise.log"), "x");
    write(host.work("a.txt"), "changed\n");
    std::fs::remove_file(host.work("b.txt")).unwrap();
    write(host.work("new dir/ü.txt"), "new\n");
    std::os::unix::fs::symlink("/etc/passwd", host.work("link")).unwrap();
    let text = committed(&host, json!({"message": "  Second\n\nWith a body.\n"})).await;
    let expected = "committed ID on branch main: Second\n5 files:\n  added: .gitignore\n  modified: a.txt\n  deleted: b.txt\n  \
                    added: link\n  added: new dir/ü.txt\n";
    assert_eq!(text, expected);
    let expected = "Ada <ada@example.com> Ada <ada@example.com>\nSecond\n\nWith a body.\n\n\nA\t.gitignore\nM\ta.txt\nD\tb.txt\nA\tlink\n\
                    A\t\"new dir/\\303\\274.txt\"\n";
    assert_eq!(log(&host), expected);
    assert_eq!(git(&host.work(""), &["show", "HEAD:link"]), "/etc/passwd");
    assert_eq!(git(&host.work(""), &["status", "--porcelain"]), "");
    assert!(git(&host.work(""), &["reflog", "-1"]).ends_with("HEAD@{0}: commit: Second\n"));
    git(&host.work(""), &["fsck", "--strict"]);
    assert_eq!(std::fs::read_dir(host.beside("tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn only_the_named_paths_are_taken_and_the_rest_stays_staged() {
    let host = host();
    repository(&host);
    for path in ["a.txt", "b.txt", "sub/c.txt", "sub/d.txt"] {
        write(host.work(path), "changed\n");
    }
    git(&host.work(""), &["add", "b.txt"]);
    let text = committed(&host, json!({"message": "Part", "paths": ["sub", "./a.txt"]})).await;
    let files = "3 files:\n  modified: a.txt\n  modified: sub/c.txt\n  added: sub/d.txt\n";
    assert_eq!(text, format!("committed ID on branch main: Part\n{files}"));
    assert_eq!(git(&host.work(""), &["status", "--porcelain"]), "M  b.txt\n");
    let same = failed(&host, json!({"message": "Again", "paths": ["a.txt"]})).await;
    let expected =
        "`a.txt` has no change that could be committed. Nothing was committed.\n`git_status` shows what is changed";
    assert_eq!(same, expected);
    assert!(!commit(&host, json!({"message": "Rest"})).await.is_error);
    let nothing = failed(&host, json!({"message": "More"})).await;
    assert!(nothing.starts_with("nothing is changed that could be committed. Nothing was committed."), "{nothing}");
}

#[tokio::test]
async fn a_first_commit_and_one_in_a_repository_below_the_root() {
    let host = host();
    write(host.work("a.txt"), "a\n");
    std::fs::create_dir(host.work("inner")).unwrap();
    git(&host.work("inner"), &["init", "-q"]);
    write(host.work("inner/x"), "x\n");
    let text = committed(&host, json!({"message": "First", "paths": ["inner"]})).await;
    assert_eq!(text, "committed ID on branch main: First\n1 file:\n  added: inner/x\n");
    assert_eq!(git(&host.work("inner"), &["status", "--porcelain"]), "");
    git(&host.work(""), &["init", "-q"]);
    let seen = commit(&host, json!({"message": "Outer"})).await;
    assert!(seen.text.ends_with("added: a.txt\ninner/ is a repository of its own and was left out\n"), "{}", seen.text);
    let two = commit(&host, json!({"message": "Both", "paths": ["a.txt", "inner/x"]})).await;
    assert!(two.text.starts_with("`inner/x` belongs to another repository than the paths before it"), "{}", two.text);
}

#[tokio::test]
async fn a_linked_work_tree_commits_to_its_own_branch() {
    let host = host();
    let main = host.work("main");
    std::fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q"]);
    write(main.join("a.txt"), "a\n");
    write(host.work("a.txt"), "for the verification");
    git(&main, &["add", "."]);
    git(&main, &["commit", "-qm", "first"]);
    git(&main, &["worktree", "add", "-q", "-b", "side", "../linked"]);
    write(host.work("linked/a.txt"), "b\n");
    let seen = commit(&host, json!({"message": "Aside", "paths": ["linked"]})).await;
    assert!(seen.text.contains(" on branch side: Aside\n"), "{}", seen.text);
    assert_eq!(git(&host.work("linked"), &["status", "--porcelain"]), "");
    assert_eq!(git(&main, &["log", "--format=%s", "side"]), "Aside\nfirst\n");
}

#[tokio::test]
async fn the_gate_stands_before_all_else() {
    let mut host = host();
    repository(&host);
    write(host.work("a.txt"), "changed\n");
    let before = state(&host);
    let refused = async |host: &Host| host.refused(&tool(host), json!({"message": "m"})).await;
    assert_eq!(refused(&host).await, ["commit_gate:not_verified"]);
    // None of these is the verification.
    for input in [
        json!({"command": "test -f a.txt || exit 1"}),
        json!({"command": VERIFY, "cwd": "sub"}),
        json!({"command": "true"}),
    ] {
        host.call(&host.shell(), input.clone()).await;
        assert_eq!(refused(&host).await, ["commit_gate:not_verified"], "{input}");
    }
    verify(&host).await;
    let write = tools::builtin_tools(["files_write"], &host.environment).unwrap().remove(0);
    host.call(&write, json!({"filePath": "fresh", "content": "x"})).await;
    assert_eq!(refused(&host).await, ["commit_gate:not_verified"]);
    start(&mut host, StructuralAction::Factory, &[]);
    assert_eq!(refused(&host).await, ["commit_gate:no_verification"]);
    start(&mut host, StructuralAction::Other, &[VERIFY]);
    verify(&host).await;
    assert_eq!(refused(&host).await, ["commit_gate:action"]);
    assert_eq!(state(&host), before);
    // A program with arguments is the same command when a shell would take it so.
    start(&mut host, StructuralAction::Commit, &[VERIFY]);
    let test = tools::shell_binary("test", &host.environment, &host.processes);
    host.call(&test, json!({"args": ["-f", "a.txt"], "stdin": "x"})).await;
    assert_eq!(refused(&host).await, ["commit_gate:not_verified"]);
    host.call(&test, json!({"args": ["-f", "a.txt"]})).await;
    assert!(!host.call(&tool(&host), json!({"message": "m"})).await.is_error);
}

#[tokio::test]
async fn blocked_paths_are_never_committed() {
    let mut host = host();
    repository(&host);
    host.rules = host.rules.clone().read_only("sub").hidden(host.work("hidden"));
    start(&mut host, StructuralAction::Factory, &[VERIFY]);
    for path in ["a.txt", "sub/c.txt", "hidden/key"] {
        write(host.work(path), "changed\n");
    }
    git(&host.work(""), &["add", "hidden/key", "sub/c.txt"]);
    verify(&host).await;
    for (path, code) in [("sub/c.txt", "read_only_path"), ("sub", "read_only_path"), ("..", "outside_scope")] {
        let codes = host.refused(&tool(&host), json!({"message": "m", "paths": ["a.txt", path]})).await;
        assert!(codes.contains(&code), "{path}: {codes:?}");
    }
    assert!(!host.refused(&tool(&host), json!({"message": "m", "paths": ["hidden/key"]})).await.is_empty());
    let text = committed(&host, json!({"message": "m"})).await;
    let files = "1 file:\n  modified: a.txt\n2 paths are withheld by the policy\n";
    assert_eq!(text, format!("committed ID on branch main: m\n{files}"));
    assert_eq!(git(&host.work(""), &["status", "--porcelain"]), "A  hidden/key\nM  sub/c.txt\n");
    let none = failed(&host, json!({"message": "m"})).await;
    assert!(none.ends_with("what is changed is withheld by the policy"), "{none}");
}

#[tokio::test]
async fn nothing_that_a_repository_brings_along_runs() {
    let host = host();
    repository(&host);
    let marker = host.beside("ran");
    let run = format!("touch {}; false", marker.display());
    let script = host.work("evil.sh");
    write(&script, &format!("#!/bin/sh\n{run}\n"));
    git(&host.work(""), &["add", "evil.sh"]);
    git(&host.work(""), &["commit", "-qm", "evil"]);
    let hooks =
        ["pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "reference-transaction", "post-index-change"];
    for path in std::iter::once(script.clone()).chain(hooks.iter().map(|hook| host.work(".git/hooks").join(hook))) {
        write(&path, &format!("#!/bin/sh\n{run}\n"));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let script = script.display();
    let config = format!(
        "[user]\n\tname = Eve\n\temail = eve@example.com\n\tsigningkey = x\n[core]\n\tfsmonitor = {script}\n\thooksPath = {}\n\teditor = {script}\n\
         \tpager = {script}\n\tsplitIndex = true\n[commit]\n\tgpgsign = true\n\ttemplate = {script}\n[gpg]\n\tprogram = {script}\n[alias]\n\tcommit-tree = !{script}\n\
         [filter \"evil\"]\n\tclean = {script}\n\tprocess = {script}\n\trequired = true\n[diff]\n\texternal = {script}\n[includeIf \"gitdir:**\"]\n\tpath = {}\n\
         [trailer \"x\"]\n\tcommand = {script}\n",
        host.work(".git/hooks").display(),
        host.beside("included").display(),
    );
    write(host.beside("included"), &format!("[user]\n\tname = Mallory\n[core]\n\tfsmonitor = {script}\n"));
    // As a user's own file brings along what it likes: only the identity is taken.
    write(host.beside("gitconfig"), &config);
    let own = std::fs::read_to_string(host.work(".git/config")).unwrap();
    write(host.work(".git/config"), &format!("{own}{config}"));
    write(host.work("a.txt"), "changed\n");
    write(host.work("f.bin"), "raw\n");
    write(host.work(".gitattributes"), "*.bin filter=evil\n*.txt -filter diff=evil merge=evil\n");
    let seen = commit(&host, json!({"message": "m"})).await;
    let expected = "`f.bin` is stored through the filter `evil` (by a `.gitattributes`), and this tool runs no filters. Nothing was committed.\n\
                    leave the file out with `paths`";
    assert_eq!((seen.text.as_str(), seen.is_error), (expected, true));
    let text = committed(&host, json!({"message": "m", "paths": ["a.txt", "evil.sh", ".gitattributes"]})).await;
    let files = "3 files:\n  added: .gitattributes\n  modified: a.txt\n  modified: evil.sh\n";
    assert_eq!(text, format!("committed ID on branch main: m\n{files}"));
    assert!(!marker.exists());
    let raw = std::process::Command::new("git")
        .args(["cat-file", "commit", "HEAD"])
        .current_dir(host.work(""))
        .output()
        .unwrap();
    let raw = String::from_utf8(raw.stdout).unwrap();
    assert!(raw.contains("author Eve <eve@example.com>") && !raw.contains("gpgsig"), "{raw}");
    // The proof that these do run where nobody prevents it.
    let bare = std::process::Command::new("git")
        .args(["commit", "-qm", "x", "--allow-empty"])
        .current_dir(host.work(""))
        .status();
    assert!(!bare.unwrap().success() && marker.exists());
}

#[tokio::test]
async fn a_store_that_is_borrowed_from_outside_is_refused() {
    let host = host();
    repository(&host);
    write(host.work("a.txt"), "changed\n");
    write(host.work(".git/objects/info/alternates"), &format!("{}\n", host.beside("").display()));
    let text = failed(&host, json!({"message": "m"})).await;
    assert!(text.starts_with("the repository of this work tree is outside the working directory"), "{text}");
}

#[tokio::test]
async fn what_is_under_way_locked_or_on_no_branch_is_left_alone() {
    let host = host();
    repository(&host);
    write(host.work("a.txt"), "changed\n");
    for (mark, what) in [
        ("MERGE_HEAD", "a merge"),
        ("rebase-merge", "a rebase"),
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("REVERT_HEAD", "a revert"),
    ] {
        write(host.work(".git").join(mark), "x");
        let text = failed(&host, json!({"message": "m"})).await;
        let hint = "it is to be finished or given up first";
        assert_eq!(text, format!("{what} is under way in this repository. Nothing was committed.\n{hint}"));
        std::fs::remove_file(host.work(".git").join(mark)).unwrap();
    }
    write(host.work(".git/index.lock"), "");
    let text = failed(&host, json!({"message": "m"})).await;
    assert!(text.starts_with("`.git/index.lock` exists: another git command is at work"), "{text}");
    std::fs::remove_file(host.work(".git/index.lock")).unwrap();
    write(host.work(".git/refs/heads/main.lock"), "");
    let text = failed(&host, json!({"message": "m"})).await;
    assert!(text.starts_with("git failed (exit code 128)") && text.contains("main.lock"), "{text}");
    std::fs::remove_file(host.work(".git/refs/heads/main.lock")).unwrap();
    git(&host.work(""), &["checkout", "-q", "--detach"]);
    let text = failed(&host, json!({"message": "m"})).await;
    assert!(text.starts_with("the work tree is on no branch (detached)"), "{text}");
    git(&host.work(""), &["checkout", "-q", "main"]);
    assert!(committed(&host, json!({"message": "m"})).await.ends_with("1 file:\n  modified: a.txt\n"));
}

#[tokio::test]
async fn without_an_identity_nothing_is_committed() {
    let host = host();
    repository(&host);
    write(host.work("a.txt"), "changed\n");
    write(host.beside("gitconfig"), "[user]\n\tname = Ada\n");
    let text = failed(&host, json!({"message": "m"})).await;
    let expected = "nobody to commit as: `user.email` is set neither in the repository's nor in the user's git configuration. Nothing was \
                    committed.\nthe operator can set it with `git config user.name` and `git config user.email`";
    assert_eq!(text, expected);
    git(&host.work(""), &["config", "user.email", "repo@example.com"]);
    committed(&host, json!({"message": "m"})).await;
    assert!(log(&host).starts_with("Ada <repo@example.com> Ada <repo@example.com>\n"), "{}", log(&host));
}

#[tokio::test]
async fn submodules_and_directories_in_place_of_files() {
    let host = host();
    repository(&host);
    git(&host.work(""), &["clone", "-q", ".", "../other"]);
    git(&host.work(""), &["submodule", "add", "-q", "../other", "module"]);
    std::fs::remove_file(host.work("b.txt")).unwrap();
    write(host.work("b.txt/inner"), "x\n");
    let beside = failed(&host, json!({"message": "m", "paths": ["b.txt/inner"]})).await;
    let expected = "committing these paths would change `b.txt` as well, which was not named. Nothing was committed.\nname that path too";
    assert_eq!(beside, expected);
    let text = committed(&host, json!({"message": "m"})).await;
    let files = "3 files:\n  added: .gitmodules\n  deleted: b.txt\n  added: b.txt/inner\n";
    assert!(text.starts_with(&format!("committed ID on branch main: m\n{files}")), "{text}");
    assert_eq!(git(&host.work(""), &["ls-tree", "--name-only", "HEAD"]), ".gitmodules\na.txt\nb.txt\nsub\n");
    assert_eq!(git(&host.work(""), &["status", "--porcelain"]), "A  module\n");
}

#[test]
fn inputs_that_no_commit_can_carry() {
    let host = host();
    let bad = |input| host.bad_input(&tool(&host), input);
    assert_eq!(bad(json!({"message": " \n"})), "`message` must not be blank");
    assert_eq!(bad(json!({"message": "a\u{0}b"})), "`message` holds a NUL character, which no commit can carry");
    assert_eq!(bad(json!({"message": "m", "paths": ["a\u{0}b"]})), "`paths` holds a NUL character: no file name can");
    assert!(bad(json!({"message": "m", "paths": []})).contains("paths"));
    assert!(bad(json!({"paths": ["a"]})).contains("message"));
}
