//! `files_patch`: against git itself, and whole or not at all.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::{Desk, Ended};

/// A tree's files: content, and whether they are executable.
type Tree = BTreeMap<PathBuf, (Vec<u8>, bool)>;

fn tree(of: &[(&[u8], &[u8])]) -> Tree {
    of.iter().map(|(name, content)| (PathBuf::from(OsStr::from_bytes(name)), (content.to_vec(), false))).collect()
}

fn write(root: &Path, tree: &Tree) {
    for (path, (content, executable)) in tree {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        let mode = if *executable { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                if entry.file_name() != ".git" {
                    pending.push(entry.path());
                }
                continue;
            }
            if entry.file_type().unwrap().is_symlink() {
                continue;
            }
            let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
            let name = entry.path().strip_prefix(root).unwrap().to_owned();
            tree.insert(name, (std::fs::read(entry.path()).unwrap(), executable));
        }
    }
    tree
}

fn git(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let config =
        ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "core.autocrlf=false", "-c", "core.fsync=none"];
    let output = Command::new("git")
        .args(config)
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// git's diffs between two trees, one for each set of flags.
fn diffs(before: &Tree, after: &Tree, flags: &[&[&str]]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q", "--template="]);
    write(dir.path(), before);
    git(dir.path(), &["add", "-A"]);
    git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "before"]);
    for path in before.keys() {
        std::fs::remove_file(dir.path().join(path)).unwrap();
    }
    write(dir.path(), after);
    git(dir.path(), &["add", "-A"]);
    let diff = |flags: &&[&str]| {
        let arguments: Vec<&str> = ["diff", "--cached", "--no-color"].iter().chain(*flags).copied().collect();
        String::from_utf8(git(dir.path(), &arguments)).unwrap()
    };
    flags.iter().map(diff).collect()
}

/// What `git apply` makes of it.
fn applied_by_git(before: &Tree, patch: &str, flags: &[&str]) -> Tree {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), before);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), patch).unwrap();
    let arguments: Vec<&str> = ["apply"].iter().chain(flags).copied().chain([file.path().to_str().unwrap()]).collect();
    git(dir.path(), &arguments);
    read(dir.path())
}

fn numbers(range: std::ops::Range<u32>, changed: &[u32]) -> Vec<u8> {
    range
        .map(
            |number| if changed.contains(&number) { format!("changed {number}\n") } else { format!("line {number}\n") },
        )
        .collect::<String>()
        .into_bytes()
}

/// Pairs of trees, by what lies between them.
fn kinds() -> Vec<(&'static str, Tree, Tree)> {
    let long = numbers(0..60, &[]);
    let far = numbers(0..60, &[1, 30, 58]);
    let near = numbers(0..60, &[30]);
    let mut executable = tree(&[(b"run.sh", b"#!/bin/sh\necho a\n")]);
    let plain = executable.clone();
    executable.get_mut(Path::new("run.sh")).unwrap().1 = true;
    let mut changed = executable.clone();
    changed.get_mut(Path::new("run.sh")).unwrap().0 = b"#!/bin/sh\necho b\n".to_vec();
    vec![
        ("one hunk", tree(&[(b"f", &long)]), tree(&[(b"f", &near)])),
        ("several hunks", tree(&[(b"f", &long)]), tree(&[(b"f", &far)])),
        ("first and last line", tree(&[(b"f", b"a\nb\nc\n")]), tree(&[(b"f", b"x\nb\ny\n")])),
        ("several files", tree(&[(b"a", b"1\n"), (b"b", b"2\n")]), tree(&[(b"a", b"3\n"), (b"b", b"4\n")])),
        ("a new file", tree(&[(b"f", b"x\n")]), tree(&[(b"f", b"x\n"), (b"deep/er/new", b"1\n2\n")])),
        ("a new empty file", tree(&[(b"f", b"x\n")]), tree(&[(b"f", b"x\n"), (b"empty", b"")])),
        ("a deleted file", tree(&[(b"f", b"x\n"), (b"g", b"1\n2")]), tree(&[(b"f", b"x\n")])),
        ("a deleted empty file", tree(&[(b"f", b"x\n"), (b"g", b"")]), tree(&[(b"f", b"x\n")])),
        ("emptied and filled", tree(&[(b"f", b"x\n"), (b"g", b"")]), tree(&[(b"f", b""), (b"g", b"x\n")])),
        ("a rename", tree(&[(b"old", &long)]), tree(&[(b"new/name", &long)])),
        ("a rename with a change", tree(&[(b"old", &long)]), tree(&[(b"new", &near)])),
        ("a copy", tree(&[(b"old", &long)]), tree(&[(b"old", &long), (b"new", &long)])),
        ("a copy of what changes", tree(&[(b"old", &long)]), tree(&[(b"old", &near), (b"new", &far)])),
        (
            "two names swapped",
            tree(&[(b"a", &long), (b"b", b"1\n2\n3\n4\n")]),
            tree(&[(b"a", b"1\n2\n3\n4\n"), (b"b", &long)]),
        ),
        ("a mode", plain.clone(), executable.clone()),
        ("a mode back", executable.clone(), plain.clone()),
        ("a mode and content", plain.clone(), changed.clone()),
        ("content of an executable", executable.clone(), changed),
        ("a new executable", Tree::new(), executable),
        ("no newline kept", tree(&[(b"f", b"a\nb")]), tree(&[(b"f", b"x\nb")])),
        ("no newline added", tree(&[(b"f", b"a\nb")]), tree(&[(b"f", b"a\nb\n")])),
        ("no newline removed", tree(&[(b"f", b"a\nb\n")]), tree(&[(b"f", b"a\nc")])),
        ("no newline appended to", tree(&[(b"f", b"a")]), tree(&[(b"f", b"a\nb")])),
        ("CRLF", tree(&[(b"f", b"a\r\nb\r\nc\r\n")]), tree(&[(b"f", b"a\r\nx\r\nc\r\n")])),
        ("CRLF to LF", tree(&[(b"f", b"a\r\nb\r\n")]), tree(&[(b"f", b"a\nb\n")])),
        ("mixed endings", tree(&[(b"f", b"a\r\nb\nc\r\n")]), tree(&[(b"f", b"a\r\nb\nd\r\ne\n")])),
        ("a new file with CRLF", Tree::new(), tree(&[(b"f", b"a\r\nb\r\n")])),
        (
            "lines like headers",
            tree(&[(b"f", b"-- a/x\n++ b/x\n@@ -1 +1 @@\n")]),
            tree(&[(b"f", b"-- a/y\ndiff --git a/x b/x\n\\ No\n")]),
        ),
        (
            "bytes that are no text",
            tree(&[(b"f", b"\xff\n1\n2\n3\n4\n5\n")]),
            tree(&[(b"f", b"\xff\n1\n2\n3\n4\n6\n")]),
        ),
        (
            "names",
            tree(&[
                (b"a b/c d", b"1\n"),
                ("näme".as_bytes(), b"1\n"),
                (b"tab\tquote\"", b"1\n"),
                (b"\xff", b"1\n"),
                (b"-dash", b"1\n"),
            ]),
            tree(&[
                (b"a b/c d", b"2\n"),
                ("näme".as_bytes(), b"2\n"),
                (b"tab\tquote\"", b"2\n"),
                (b"\xff", b"2\n"),
                (b"-dash", b"2\n"),
            ]),
        ),
        (
            "names that move",
            tree(&[(b"a b c", &long), (b"new\nline", &near), (b"gone \"x\"", b"1\n")]),
            tree(&[(b"c b a", &long), (b"new\\slash", &near), (b"empty file", b"")]),
        ),
        (
            "a directory called a",
            tree(&[(b"a/a", b"1\n"), (b"b/a", b"1\n")]),
            tree(&[(b"a/a", b"2\n"), (b"b/a", b"3\n")]),
        ),
    ]
}

#[test]
fn what_git_diffs_is_applied_as_git_applies_it() {
    let flags: [&[&str]; 6] = [
        &["-M", "-C", "--find-copies-harder"],
        &["--no-renames"],
        &["-M", "-U0"],
        &["-M", "-U1", "--full-index"],
        &["-M", "--no-prefix"],
        &["-M", "-B", "--src-prefix=i/", "--dst-prefix=w/"],
    ];
    for (kind, before, after) in kinds() {
        let patches = diffs(&before, &after, &flags);
        for (flags, patch) in [(&["--unidiff-zero"][..], &patches[2]), (&[], &patches[0])] {
            assert_eq!(applied_by_git(&before, patch, flags), after, "git, {kind}");
        }
        for (patch, flags) in patches.iter().zip(flags) {
            let desk = Desk::new();
            write(&desk.root(), &before);
            let ended = desk.call("files_patch", json!({"patch": patch}));
            assert!(matches!(ended, Ended::Ok(_, false)), "{kind} {flags:?}: {ended:?}\n{patch}");
            assert_eq!(read(&desk.root()), after, "{kind} {flags:?}\n{patch}");
        }
    }
}

#[test]
fn the_result_names_each_file_and_what_became_of_it() {
    let desk = Desk::new();
    desk.put("src/a.rs", "zero\none\ntwo\nthree\n");
    desk.put("old.txt", "x\n");
    desk.put("gone", "x\n");
    desk.put("dos.txt", "a\r\nb\r\n");
    let patch = "From 0123 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] All at once\n\n---\n 5 files changed\n\n\
        diff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +1,3 @@ fn x()\n one\n-two\n+2\n+2.5\n\
        diff --git a/old.txt b/new/name.txt\nsimilarity index 100%\nrename from old.txt\nrename to new/name.txt\n\
        diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+#!/bin/sh\n\
        --- a/gone\t2026-01-01\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
        --- a/dos.txt\n+++ b/dos.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n-- \n2.47.3\n\n";
    let told = "Applied to 5 files:\n\
        changed `src/a.rs`: +2 -1; hunk 1 stood 1 line below where its header says\n\
        renamed `old.txt` to `new/name.txt`: +0 -0\n\
        created `run`: 1 line, executable\n\
        deleted `gone`\n\
        changed `dos.txt`: +1 -1; the file's CRLF line endings were kept\n";
    assert_eq!(desk.ok("files_patch", json!({"patch": patch})), told);
    assert_eq!(desk.tree(), ["dos.txt", "new/", "new/name.txt", "run", "src/", "src/a.rs"]);
    assert_eq!(
        (desk.text("src/a.rs").as_str(), desk.text("dos.txt").as_str()),
        ("zero\none\n2\n2.5\nthree\n", "a\r\nc\r\n")
    );
}

#[test]
fn one_failing_file_leaves_all_as_they_were() {
    let good = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n\
        diff --git a/new/dir/file b/new/dir/file\nnew file mode 100644\n--- /dev/null\n+++ b/new/dir/file\n@@ -0,0 +1 @@\n+x\n";
    let hint = "nothing was changed; read the file again and make the hunk from what it has";
    let cases = [
        (
            "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-2\n+3\n",
            format!("hunk 1 of `b` does not apply: line 1 of the file is `1` where the hunk has `2`\n{hint}"),
        ),
        ("--- a/no\n+++ b/no\n@@ -1 +1 @@\n-2\n+3\n", "`no` does not exist\n`files_list` and `files_find` show what exists".to_owned()),
        (
            "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n",
            "the patch creates `b`, which exists already\nchange it with hunks that match its lines".to_owned(),
        ),
        (
            "diff --git a/a b/b\nsimilarity index 100%\ncopy from a\ncopy to b\n",
            "the patch creates `b`, which exists already\nchange it with hunks that match its lines".to_owned(),
        ),
        (
            "diff --git a/b b/b\ndeleted file mode 100644\n",
            "the patch deletes `b` but does not show all its lines\nread the file again and list every line of it with `-`".to_owned(),
        ),
        ("--- /dev/null\n+++ b/b/below\n@@ -0,0 +1 @@\n+x\n", "`b/below` is not a directory".to_owned()),
        ("--- /dev/null\n+++ b/dir\n@@ -0,0 +1 @@\n+x\n", "`dir` is a directory, not a file\n`files_list` shows what is in a directory".to_owned()),
        (
            "--- /dev/null\n+++ b/new/dir\n@@ -0,0 +1 @@\n+x\n",
            "the patch wants a file at `new/dir` and another below it, at `new/dir/file`\ndo it in two patches, the deletion first".to_owned(),
        ),
        ("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+3\n", "two sections of the patch change `a`\nput all hunks of one file into one section".to_owned()),
        (
            "--- a/alias/a\n+++ b/alias/a\n@@ -1 +1 @@\n-1\n+3\n",
            "two sections of the patch change `alias/a`\nput all hunks of one file into one section".to_owned(),
        ),
        (
            "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n",
            "two sections of the patch change `a`\nput all hunks of one file into one section".to_owned(),
        ),
    ];
    for (bad, expected) in cases {
        for patch in [format!("{good}{bad}"), format!("{bad}{good}")] {
            let desk = Desk::new();
            desk.put("a", "1\n");
            desk.put("b", "1\n");
            desk.put("dir/x", "");
            desk.link(".", "alias");
            let before = read(&desk.root().join("dir"));
            let told = desk.failed("files_patch", json!({"patch": patch}));
            // Which of two names is told depends on their order.
            let told =
                if expected.contains("`alias/a`") { told.replace("change `a`", "change `alias/a`") } else { told };
            assert_eq!(told, expected);
            assert_eq!(desk.tree(), ["a", "alias", "b", "dir/", "dir/x"]);
            assert_eq!((desk.text("a").as_str(), desk.text("b").as_str()), ("1\n", "1\n"));
            assert_eq!(read(&desk.root().join("dir")), before);
        }
    }
}

#[test]
fn every_file_of_a_patch_is_reviewed() {
    let modify = |path: &str| format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-1\n+2\n");
    let rename = |from: &str, to: &str| {
        format!("diff --git a/{from} b/{to}\nsimilarity index 100%\nrename from {from}\nrename to {to}\n")
    };
    let copy = |from: &str, to: &str| rename(from, to).replace("rename", "copy");
    let delete = |path: &str| format!("--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n");
    let create = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+1\n");
    let denied = ["keep/a", "alias/a"].map(|path| {
        [
            modify(path),
            delete(path),
            rename(path, "free"),
            rename("f", &format!("{path}2")),
            create(&format!("{path}2")),
        ]
    });
    for patch in denied.iter().flatten() {
        let desk = Desk::with(|rules| rules.read_only("keep"));
        desk.put("keep/a", "1\n");
        desk.put("f", "1\n");
        desk.link("keep", "alias");
        let before = read(&desk.root());
        assert_eq!(desk.call("files_patch", json!({"patch": patch})), Ended::Denied("read_only_path"), "{patch}");
        assert_eq!(read(&desk.root()), before);
    }
    let desk = Desk::with(|rules| rules.read_only("keep"));
    desk.put("keep/a", "1\n");
    desk.put("f", "1\n");
    // A copy takes nothing away from what is read-only.
    for patch in [copy("keep/a", "copy"), modify("f"), create("keeper"), rename("f", "g"), delete("keeper")] {
        desk.ok("files_patch", json!({"patch": patch}));
    }
    assert_eq!(desk.tree(), ["copy", "g", "keep/", "keep/a"]);
}

#[test]
fn a_patch_that_cannot_be_read_is_refused_before_anything_runs() {
    let desk = Desk::new();
    desk.put("f", "1\n");
    let body = "@@ -1 +1 @@\n-1\n+2\n";
    let cases = [
        ("no diff at all".to_owned(), "the patch holds no file section; a section begins with"),
        (format!("--- a/f\n+++ b/f\n{body}Done.\n"), "line 6 of the patch belongs to no file section: "),
        (
            format!("--- a/f\n+++ b/f\n{}", body.replace("+1 @@", "+1,2 @@")),
            "the hunk on line 3 of the patch says 1 old and 2 new lines but has 1 and 1",
        ),
        (format!("--- a/f\n+++ b/g\n{body}"), "the section on line 1 of the patch names two files"),
        (
            format!("diff --git a/f b/f\nrename from f\nrename to g\n--- a/f\n+++ b/h\n{body}"),
            "the section on line 1 of the patch names two files",
        ),
        (
            "diff --git a/f b/f\nindex 1..2 120000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+2\n".to_owned(),
            "the section on line 1 of the patch is for a symbolic link",
        ),
        (
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+../x\n".to_owned(),
            "the section on line 1 of the patch is for a symbolic link",
        ),
        (
            "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit 1\n"
                .to_owned(),
            "the section on line 1 of the patch is for a submodule",
        ),
        (
            "diff --git a/p b/p\nindex 1..2 100644\nBinary files a/p and b/p differ\n".to_owned(),
            "the section on line 1 of the patch changes a binary file",
        ),
        (
            "diff --git a/p b/p\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZQz00062\n".to_owned(),
            "the section on line 1 of the patch changes a binary file",
        ),
        ("diff --git a/f b/f\nindex 1..2 100644\n".to_owned(), "the section on line 1 of the patch has no hunk"),
        (
            format!("--- \"a/f\\000\"\n+++ \"b/f\\000\"\n{body}"),
            "the section on line 1 of the patch names no usable path",
        ),
        (
            format!("diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ b/f\n{body}"),
            "the section on line 1 of the patch cannot be read: its headers disagree",
        ),
        (
            format!("diff --git a/g b/g\n--- a/f\n+++ b/f\n{body}"),
            "the section on line 1 of the patch cannot be read: its headers disagree",
        ),
        (
            format!("diff --git a/f b/f\nnew file mode 100644\n--- a/f\n+++ b/f\n{body}"),
            "the section on line 1 of the patch cannot be read: its headers disagree",
        ),
        (format!("--- /dev/null\n+++ /dev/null\n{body}"), "the section on line 1 of the patch cannot be read: "),
        (
            "--- a/f\n+++ b/f\n@@ -5 +5 @@\n-1\n+2\n@@ -1 +1 @@\n-1\n+2\n".to_owned(),
            "the section on line 1 of the patch cannot be read: hunks not in order or overlap",
        ),
    ];
    for (patch, expected) in cases {
        let Ended::BadInput(told) = desk.call("files_patch", json!({"patch": patch})) else { panic!("read: {patch}") };
        assert!(told.replace('\\', "").starts_with(&format!("`patch` cannot be read: {expected}")), "{told}");
    }
    assert_eq!(desk.text("f"), "1\n");
}
