//! `git_status` and `git_diff` on real repositories, friendly and hostile.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use policy::Tool;
use serde_json::json;

use super::Host;

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.com",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(super) fn write(path: impl AsRef<Path>, text: &str) {
    std::fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A repository at the root with one commit: `a.txt`, `b.txt` and `sub/c.txt`.
pub(super) fn repository(host: &Host) {
    git(&host.work(""), &["init", "-q"]);
    for name in ["a.txt", "b.txt", "sub/c.txt"] {
        write(host.work(name), "one\ntwo\n");
    }
    git(&host.work(""), &["add", "."]);
    git(&host.work(""), &["commit", "-qm", "first"]);
}

fn status(host: &Host) -> Arc<dyn Tool> {
    tools::git_status(&host.environment, &host.processes)
}

fn diff(host: &Host) -> Arc<dyn Tool> {
    tools::git_diff(&host.environment, &host.processes)
}

#[tokio::test]
async fn a_status_tells_branch_staged_changed_and_untracked() {
    let host = Host::new();
    repository(&host);
    let head: String = git(&host.work(""), &["rev-parse", "HEAD"]).chars().take(12).collect();
    let clean = host.call(&status(&host), json!({})).await;
    assert_eq!(clean.text, format!("on branch main, at commit {head}\nnothing is changed and nothing is untracked\n"));
    git(&host.work(""), &["mv", "b.txt", "ü b.txt"]);
    write(host.work("a.txt"), "one\n");
    write(host.work("new/d.txt"), "");
    let seen = host.call(&status(&host), json!({})).await;
    assert_eq!(
        seen.text,
        format!(
            "on branch main, at commit {head}\nstaged (1):\n  renamed: b.txt -> ü b.txt\nchanged, not staged (1):\n  modified: a.txt\n\
             untracked (1):\n  new/\n"
        )
    );
    assert!(seen.fenced && !seen.is_error);
    let part = host.call(&status(&host), json!({"path": "new"})).await;
    assert_eq!(part.text, format!("on branch main, at commit {head}\nuntracked (1):\n  new/\n"));
}

#[tokio::test]
async fn a_diff_is_one_that_applies_at_the_root() {
    let host = Host::new();
    let inner = host.work("inner");
    std::fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    write(inner.join("a.txt"), "one\ntwo\n");
    write(inner.join("b.txt"), "b\n");
    git(&inner, &["add", "."]);
    let staged = host.call(&diff(&host), json!({"path": "inner/a.txt", "staged": true})).await;
    let expected = "changes that are staged, 141 bytes\ndiff:\ndiff --git a/inner/a.txt b/inner/a.txt\nnew file mode 100644\n\
                    index 0000000..814f4a4\n--- /dev/null\n+++ b/inner/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n";
    assert_eq!(staged.text, expected);
    write(inner.join("a.txt"), "one\n2\n");
    let unstaged = host.call(&diff(&host), json!({"path": "inner"})).await;
    assert!(
        unstaged.text.contains("--- a/inner/a.txt\n+++ b/inner/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"),
        "{}",
        unstaged.text
    );
    let none = host.call(&diff(&host), json!({"path": "inner/b.txt"})).await;
    assert_eq!(none.text, "no changes that are not staged\n");
    let gone = {
        std::fs::remove_file(inner.join("b.txt")).unwrap();
        host.call(&diff(&host), json!({"path": "inner/b.txt"})).await
    };
    assert!(gone.text.contains("deleted file mode"), "{}", gone.text);
    for tool in [diff(&host), status(&host)] {
        let seen = host.call(&tool, json!({"path": "inner/typo.txt"})).await;
        assert_eq!(seen.text, "there is nothing at this path, and git knows of no change to it\n");
    }
}

#[tokio::test]
async fn looking_changes_nothing() {
    let host = Host::new();
    repository(&host);
    // A touched file with the same content is what makes git want to write its index.
    write(host.work("a.txt"), "one\ntwo\n");
    let before = std::fs::read(host.work(".git/index")).unwrap();
    host.call(&status(&host), json!({})).await;
    let seen = host.call(&diff(&host), json!({})).await;
    assert_eq!(seen.text, "no changes that are not staged\n");
    assert_eq!(std::fs::read(host.work(".git/index")).unwrap(), before);
    assert_eq!(std::fs::read_dir(host.beside("tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn no_repository_and_one_above_the_root_are_told_plainly() {
    let host = Host::new();
    let none = "`.` is not in a git work tree: neither it nor a directory above it, within what the agent may use, holds a usable `.git`. Nothing ran.";
    assert_eq!(host.call(&status(&host), json!({})).await.text, none);
    git(&host.beside(""), &["init", "-q"]);
    let seen = host.call(&diff(&host), json!({})).await;
    assert_eq!((seen.text.as_str(), seen.is_error), (none, true));
    assert_eq!(host.refused(&status(&host), json!({"path": ".."})).await, ["outside_scope"]);
}

#[tokio::test]
async fn a_repository_whose_parts_lie_outside_is_refused_and_a_linked_work_tree_inside_is_not() {
    let host = Host::new();
    let main = host.work("main");
    std::fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q"]);
    write(main.join("a.txt"), "a\n");
    git(&main, &["add", "."]);
    git(&main, &["commit", "-qm", "first"]);
    git(&main, &["worktree", "add", "-q", "-b", "side", "../linked"]);
    write(host.work("linked/a.txt"), "b\n");
    let inside = host.call(&status(&host), json!({"path": "linked"})).await;
    assert!(
        inside.text.starts_with("on branch side, at commit ") && inside.text.ends_with(":\n  modified: linked/a.txt\n"),
        "{}",
        inside.text
    );

    git(&main, &["worktree", "add", "-q", "-b", "far", "../../home/far"]);
    std::fs::rename(host.work("main"), host.beside("home").join("main")).unwrap();
    write(
        host.work("linked/.git"),
        &format!("gitdir: {}\n", host.beside("home").join("main/.git/worktrees/linked").display()),
    );
    let outside = host.call(&status(&host), json!({"path": "linked"})).await;
    assert!(
        outside.is_error
            && outside.text.starts_with("the repository of this work tree is outside the working directory"),
        "{}",
        outside.text
    );

    repository(&host);
    std::fs::create_dir(host.beside("home").join("store")).unwrap();
    write(host.work(".git/objects/info/alternates"), &format!("{}\n", host.beside("home").join("store").display()));
    let borrowed = host.call(&diff(&host), json!({})).await;
    assert!(
        borrowed.is_error && borrowed.text.starts_with("the repository of this work tree is outside"),
        "{}",
        borrowed.text
    );
}

const MARKER: &str = "marker-of-the-private-repository";

/// A repository at the root, and one beside it whose content must not be told.
fn with_private() -> (Host, std::path::PathBuf) {
    let host = Host::new();
    repository(&host);
    let private = host.beside("home").join("private");
    std::fs::create_dir(&private).unwrap();
    git(&private, &["init", "-q"]);
    write(private.join("a.txt"), MARKER);
    git(&private, &["add", "."]);
    git(&private, &["commit", "-qm", MARKER]);
    (host, private.join(".git"))
}

/// Every object of the private repository in one pack, and an index over packs.
fn packed(private: &Path) {
    let top = private.parent().unwrap();
    git(top, &["repack", "-adq"]);
    git(top, &["pack-refs", "--all"]);
    git(top, &["multi-pack-index", "write"]);
}

/// Puts a link to `to` where the repository has `name`.
fn linked(host: &Host, name: &str, to: &Path) {
    let place = host.work(".git").join(name);
    let _ = std::fs::remove_dir_all(&place);
    let _ = std::fs::remove_file(&place);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(to, place).unwrap();
}

async fn not_read(host: &Host, case: &str, start: &str) {
    for (tool, input) in [(diff(host), json!({"staged": true})), (diff(host), json!({})), (status(host), json!({}))] {
        let seen = host.call(&tool, input).await;
        assert!(seen.is_error && seen.text.starts_with(start), "{case}: {}", seen.text);
        let outside = host.beside("").display().to_string();
        assert!(!seen.text.contains(MARKER) && !seen.text.contains(&outside), "{case}: {}", seen.text);
    }
}

const LINKS: &str = "the repository of this work tree holds links or special files";
const BORROWS: &str = "the repository of this work tree borrows objects by a list that cannot be checked";

#[tokio::test]
async fn links_within_the_git_directory_show_no_other_repository() {
    // What was found: packs and loose objects linked in, and the branch.
    let (host, private) = with_private();
    for entry in std::fs::read_dir(private.join("objects")).unwrap() {
        let name = Path::new("objects").join(entry.unwrap().file_name());
        linked(&host, name.to_str().unwrap(), &private.join(&name));
    }
    linked(&host, "refs/heads/main", &private.join("refs/heads/main"));
    let plain = git(&host.work(""), &["diff", "--cached"]);
    assert!(plain.contains(MARKER), "the trap is not live: {plain}");
    not_read(&host, "all", LINKS).await;

    let names = [
        "HEAD",
        "index",
        "packed-refs",
        "shallow",
        "refs",
        "refs/heads",
        "refs/heads/main",
        "refs/tags/new",
        "objects",
        "objects/pack",
        "objects/pack/new.pack",
        "objects/info",
        "objects/info/alternates",
        "objects/ab",
        "objects/ab/cd",
        "info",
        "info/exclude",
        "info/attributes",
        "reftable/0x0-0x0.ref",
        "sharedindex.0",
    ];
    let (host, private) = with_private();
    packed(&private);
    let spare = host.beside("home").join("spare");
    std::fs::rename(host.work(".git"), &spare).unwrap();
    for name in names {
        for to in [name, "missing"] {
            let _ = std::fs::remove_dir_all(host.work(".git"));
            let copied = Command::new("cp").arg("-a").arg(&spare).arg(host.work(".git")).status().unwrap();
            assert!(copied.success());
            linked(&host, name, &private.join(to));
            not_read(&host, name, LINKS).await;
        }
    }
}

#[tokio::test]
async fn what_is_packed_and_borrowed_inside_is_read() {
    let host = Host::new();
    repository(&host);
    let expected = host.call(&status(&host), json!({})).await.text;
    packed(&host.work(".git"));
    assert_eq!(host.call(&status(&host), json!({})).await.text, expected);
    // The objects lie in another store below the root, which may be named in each way that is taken.
    let store = host.work(".git/store");
    std::fs::create_dir(&store).unwrap();
    for name in ["pack", "info"] {
        std::fs::rename(host.work(".git/objects").join(name), store.join(name)).unwrap();
    }
    let list = host.work(".git/objects/info/alternates");
    for entry in ["# ours\n../store\n../gone\n".to_owned(), store.display().to_string()] {
        write(&list, &entry);
        assert_eq!(host.call(&status(&host), json!({})).await.text, expected, "{entry}");
    }
}

#[tokio::test]
async fn a_list_of_stores_that_git_reads_otherwise_is_refused() {
    let (host, private) = with_private();
    let store = private.join("objects");
    std::os::unix::fs::symlink(&store, host.work("evil ")).unwrap();
    std::fs::create_dir(host.work("evil")).unwrap();
    std::fs::create_dir_all(host.work("deep/er")).unwrap();
    std::os::unix::fs::symlink(host.work("deep/er"), host.work("jump")).unwrap();
    for n in 0..20 {
        std::fs::create_dir_all(host.work(format!("stores/{n}"))).unwrap();
    }
    let many: String = (0..20).map(|n| format!("../../stores/{n}\n")).collect();
    let outside = "the repository of this work tree is outside the working directory";
    let cases = [
        (format!("\"{}\"\n", store.display()), BORROWS),
        ("../../evil \n".to_owned(), BORROWS),
        ("../../evil\r\n".to_owned(), BORROWS),
        (format!("{}\0x\n", store.display()), BORROWS),
        (many, BORROWS),
        (format!("{}{}\n", "#\n".repeat(8 * 1024), store.display()), BORROWS),
        (format!("{}\n", store.display()), outside),
        (format!("{}\n", store.join("missing").display()), outside),
        ("../../jump/../../../home/private/.git/objects\n".to_owned(), outside),
    ];
    for (list, start) in cases {
        write(host.work(".git/objects/info/alternates"), &list);
        not_read(&host, &list, start).await;
    }
    write(host.work(".git/objects/info/alternates"), "../../evil\n");
    assert!(!host.call(&status(&host), json!({})).await.is_error);
}

#[tokio::test]
async fn paths_that_the_policy_hides_are_withheld_and_counted() {
    let mut host = Host::new();
    repository(&host);
    for name in ["a.txt", "sub/c.txt"] {
        write(host.work(name), "changed\n");
    }
    host.rules = host.rules.clone().hidden(host.work("sub"));
    let seen = host.call(&diff(&host), json!({})).await;
    assert!(seen.text.contains("+++ b/a.txt") && !seen.text.contains("c.txt"), "{}", seen.text);
    assert!(seen.text.ends_with("1 path is withheld by the policy\n"));
    let seen = host.call(&status(&host), json!({})).await;
    assert!(
        seen.text.ends_with("changed, not staged (1):\n  modified: a.txt\n1 path is withheld by the policy\n"),
        "{}",
        seen.text
    );
}

/// Lays every trap that a configuration has for somebody who looks, each touching a file of its own.
fn lay_traps(host: &Host) {
    let script = |name: &str| {
        let path = host.beside("home").join(name);
        write(&path, &format!("#!/bin/sh\n: > {}\ncat\n", host.beside("tmp").join(format!("ran-{name}")).display()));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let set = |key: &str, value: &str| git(&host.work(""), &["config", key, value]);
    set("filter.evil.clean", &script("clean"));
    set("core.fsmonitor", &script("fsmonitor"));
    set("diff.evil.textconv", &script("textconv"));
    set("diff.external", &script("external"));
    set("core.pager", &script("pager"));
    set("alias.status", &format!("!{}", script("alias")));
    write(host.beside("home").join("hooks/post-index-change"), "");
    let hook = script("hooks/post-index-change");
    set("core.hooksPath", Path::new(&hook).parent().unwrap().to_str().unwrap());
    let included = host.work(".git/included");
    write(&included, &format!("[filter \"included\"]\n\tprocess = {}\n", script("process")));
    set("include.path", "included");
    write(host.work(".gitattributes"), "a.txt filter=evil\nb.txt diff=evil\nsub/c.txt filter=included\n");
    for name in ["a.txt", "b.txt", "sub/c.txt"] {
        write(host.work(name), "changed\n");
    }
}

fn sprung(host: &Host) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(host.beside("tmp"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("ran-"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn nothing_that_a_repository_brings_along_is_run() {
    let host = Host::new();
    repository(&host);
    std::fs::create_dir(host.beside("tmp").join("ran-hooks")).unwrap();
    std::fs::create_dir(host.beside("home").join("hooks")).unwrap();
    lay_traps(&host);
    std::fs::remove_dir(host.beside("tmp").join("ran-hooks")).unwrap();
    for input in [json!({}), json!({"path": "a.txt"})] {
        let seen = host.call(&status(&host), input).await;
        assert!(seen.text.contains("modified: a.txt"), "{}", seen.text);
    }
    for input in [json!({}), json!({"staged": true}), json!({"path": "b.txt"})] {
        host.call(&diff(&host), input).await;
    }
    let seen = host.call(&diff(&host), json!({})).await;
    assert!(seen.text.contains("+++ b/sub/c.txt") && seen.text.contains("+++ b/b.txt"), "{}", seen.text);
    assert_eq!(sprung(&host), Vec::<String>::new());

    // The traps are live: git as it comes springs them.
    let plain = |args: &[&str]| Command::new("git").args(args).current_dir(host.work("")).output().unwrap();
    plain(&["status"]);
    plain(&["diff", "--ext-diff"]);
    plain(&["-c", "diff.external=", "diff", "--textconv", "--no-ext-diff"]);
    for name in ["ran-clean", "ran-external", "ran-fsmonitor", "ran-process", "ran-textconv"] {
        assert!(sprung(&host).contains(&name.to_owned()), "{name} is no trap: {:?}", sprung(&host));
    }
}

#[tokio::test]
async fn a_missing_object_is_an_error_and_no_fetch() {
    let host = Host::new();
    repository(&host);
    let marker = host.beside("tmp").join("fetched");
    for (key, value) in [
        ("core.repositoryformatversion", "1".to_owned()),
        ("extensions.partialClone", "origin".to_owned()),
        ("remote.origin.promisor", "true".to_owned()),
        ("remote.origin.url", format!("ext::sh -c :>{}", marker.display())),
        ("protocol.ext.allow", "always".to_owned()),
    ] {
        git(&host.work(""), &["config", key, &value]);
    }
    let blob = git(&host.work(""), &["rev-parse", "HEAD:a.txt"]);
    let (dir, file) = blob.trim().split_at(2);
    std::fs::remove_file(host.work(".git/objects").join(dir).join(file)).unwrap();
    write(host.work("a.txt"), "changed\n");
    let seen = host.call(&diff(&host), json!({})).await;
    assert!(seen.is_error && seen.text.starts_with("git failed (exit code 128): "), "{}", seen.text);
    assert!(!marker.exists());
    let plain = Command::new("git").args(["diff"]).current_dir(host.work("")).output().unwrap();
    assert!(!plain.status.success() && marker.exists(), "the trap is not live");
}

#[tokio::test]
async fn special_files_where_git_keeps_its_own_cannot_hold_the_call() {
    let host = Host::new();
    repository(&host);
    std::fs::remove_file(host.work(".git/HEAD")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, host.work(".git/HEAD"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let seen = host.call(&status(&host), json!({})).await;
    assert!(seen.is_error && seen.text.starts_with("`.` is not in a git work tree"), "{}", seen.text);
}
