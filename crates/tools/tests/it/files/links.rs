//! Links, and races over them: nothing outside is ever read, written, or told about.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use super::{Desk, Ended, SECRET};

const SWAPS: usize = 20_000;

/// What lies outside: a secret, and nothing else.
fn untouched(desk: &Desk) {
    let names: Vec<_> = std::fs::read_dir(desk.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["secret.txt"]);
    assert_eq!(std::fs::read_to_string(desk.outside().join("secret.txt")).unwrap(), SECRET);
}

/// Every tool on a path, with an input that would do something there.
fn every_tool(path: &str) -> Vec<(&'static str, Value)> {
    let diff = |body: &str| format!("--- a/{path}\n+++ b/{path}\n{body}");
    vec![
        ("files_read", json!({"filePath": path})),
        ("files_inspect", json!({"filePath": path})),
        ("files_list", json!({"path": path})),
        ("files_find", json!({"path": path, "pattern": "*"})),
        ("files_search", json!({"path": path, "query": "outside"})),
        ("files_write", json!({"filePath": path, "content": "overwritten"})),
        ("files_edit", json!({"filePath": path, "oldText": "outside", "newText": "inside"})),
        (
            "files_patch",
            json!({"patch": diff(&format!("@@ -1 +1 @@\n-{SECRET}\n\\ No newline at end of file\n+overwritten\n"))}),
        ),
        ("files_patch", json!({"patch": format!("diff --git a/{path} b/{path}\ndeleted file mode 100644\n")})),
        (
            "files_patch",
            json!({"patch": format!("diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new\n")}),
        ),
    ]
}

#[test]
fn no_path_leads_out() {
    let desk = Desk::new();
    let outside = desk.outside();
    desk.put("dir/file", "inside");
    desk.link(outside.join("secret.txt"), "final-absolute");
    desk.link("../outside/secret.txt", "final-relative");
    desk.link(&outside, "middle-absolute");
    desk.link("../outside", "middle-relative");
    desk.link("final-relative", "chain-1");
    desk.link("chain-1", "chain-2");
    desk.link("dir/../../outside", "through-dir");
    desk.link("../../outside", "dir/from-below");
    desk.link(outside.join("missing"), "dangling-absolute");
    desk.link("../outside/missing", "dangling-relative");
    desk.link("/proc/self/root", "magic");
    desk.link("/", "slash");
    desk.link(desk.root().join("../outside/secret.txt"), "absolute-through-root");
    let secret = outside.join("secret.txt");
    let root = desk.root();
    let paths = [
        "../outside/secret.txt",
        "dir/../../outside/secret.txt",
        secret.to_str().unwrap(),
        &format!("{}/../outside/secret.txt", root.display()),
        "final-absolute",
        "final-relative",
        "middle-absolute/secret.txt",
        "middle-relative/secret.txt",
        "middle-absolute/missing",
        "middle-relative/missing",
        "middle-relative",
        "chain-2",
        "through-dir/secret.txt",
        "dir/from-below/secret.txt",
        "dangling-absolute",
        "dangling-relative",
        "magic/etc/passwd",
        "slash/etc/passwd",
        "absolute-through-root",
        "middle-relative/new/deep/file",
    ];
    let before = desk.tree();
    for path in paths {
        for (tool, input) in every_tool(path) {
            // A patch does not follow a link at the end of a path at all.
            let links =
                path.contains("final") || path.contains("chain") || path.contains("dangling") || !path.contains('/');
            let links = tool == "files_patch" && (links || path.starts_with("absolute"));
            match desk.call(tool, input.clone()) {
                Ended::Denied(code) => assert_eq!(code, "outside_scope", "{tool} {path}"),
                Ended::Failed(told) if links => {
                    assert!(told.contains("is a symbolic link, not a regular file"), "{tool} {path}: {told}");
                }
                Ended::Failed(told) if tool == "files_patch" => panic!("{tool} {path}: {told}"),
                other => panic!("{tool} {path}: {other:?}"),
            }
        }
    }
    untouched(&desk);
    assert_eq!(desk.tree(), before);
    // Existence outside makes no difference.
    for (there, missing) in
        [("middle-relative/secret.txt", "middle-relative/missing"), ("final-relative", "dangling-relative")]
    {
        let read = |path: &str| desk.call("files_read", json!({"filePath": path}));
        assert_eq!(read(there), read(missing));
    }
    let listed = desk.ok("files_list", json!({}));
    assert!(
        listed.contains("final-absolute  (link)\n") && !listed.contains("outside") && !listed.contains("->"),
        "{listed}"
    );
}

#[test]
fn links_that_stay_inside_are_followed() {
    let desk = Desk::new();
    desk.put("dir/file", "inside");
    desk.link("dir/file", "relative");
    desk.link(desk.root().join("dir/file"), "absolute");
    desk.link("relative", "chain");
    desk.link(desk.root().join("dir"), "directory");
    desk.link("../dir", "dir/self");
    desk.link("dir/new", "dangling");
    for path in ["relative", "absolute", "chain", "directory/file", "dir/self/self/file"] {
        let told = format!("`{path}`: 6 bytes, all shown.\ninside");
        assert_eq!(desk.call("files_read", json!({"filePath": path})), Ended::Ok(told, false), "{path}");
        desk.ok("files_edit", json!({"filePath": path, "oldText": "inside", "newText": path}));
        assert_eq!(desk.text("dir/file"), path);
        desk.ok("files_write", json!({"filePath": path, "content": "inside"}));
    }
    // Writing through a dangling link creates what it names, and the link stays.
    assert_eq!(
        desk.ok("files_write", json!({"filePath": "dangling", "content": "made"})),
        "Created `dangling`: 4 bytes."
    );
    assert_eq!(desk.text("dir/new"), "made");
    assert!(desk.root().join("dangling").is_symlink() && desk.root().join("relative").is_symlink());
    let missing = desk.failed("files_read", json!({"filePath": "directory/no"}));
    assert!(missing.starts_with("`directory/no` does not exist"), "{missing}");
}

#[test]
fn circles_of_links_end() {
    let desk = Desk::new();
    desk.link("b", "a");
    desk.link("a", "b");
    desk.link(desk.root().join("self"), "self");
    for path in ["a", "b/c", "self"] {
        for tool in ["files_read", "files_write"] {
            let mut input = json!({"filePath": path});
            if tool == "files_write" {
                input["content"] = json!("x");
            }
            let told = desk.failed(tool, input);
            assert_eq!(told, format!("`{path}` goes through too many symbolic links"), "{tool}");
        }
    }
}

/// Exchanges two names, again and again, while `work` runs; `work` ends when the swapper does.
fn swapping(one: &Path, other: &Path, mut work: impl FnMut()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..SWAPS {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            work();
        }
        work();
    });
}

/// A file and a directory, and beside them what they are swapped for: links that lead out.
fn with_spares() -> (Desk, PathBuf) {
    let desk = Desk::new();
    desk.put("name", "inside");
    desk.put("dir/secret.txt", "inside");
    desk.link("../outside/secret.txt", "spare");
    desk.link("../outside", "spare-dir");
    let root = desk.root();
    (desk, root)
}

#[test]
fn a_link_that_is_swapped_while_it_is_read_shows_nothing_from_outside() {
    let (desk, root) = with_spares();
    let look = |path: &str| {
        for (tool, input) in [
            ("files_read", json!({"filePath": path})),
            ("files_search", json!({"query": "outside"})),
            ("files_search", json!({"query": "outside", "path": path})),
        ] {
            if let Ended::Ok(text, _) = desk.call(tool, input) {
                assert!(!text.contains(SECRET), "{tool} {path}: {text}");
            }
        }
    };
    swapping(&root.join("name"), &root.join("spare"), || look("name"));
    swapping(&root.join("dir"), &root.join("spare-dir"), || look("dir/secret.txt"));
    untouched(&desk);
}

#[test]
fn a_link_that_is_swapped_while_it_is_written_changes_nothing_outside() {
    let (desk, root) = with_spares();
    let write = |path: &str| {
        desk.call("files_write", json!({"filePath": path, "content": "inside"}));
        desk.call("files_edit", json!({"filePath": path, "oldText": "outside-secret", "newText": "stolen"}));
        desk.call("files_write", json!({"filePath": format!("{path}-new/deep"), "content": "inside"}));
    };
    swapping(&root.join("name"), &root.join("spare"), || write("name"));
    swapping(&root.join("dir"), &root.join("spare-dir"), || write("dir/secret.txt"));
    untouched(&desk);
    // A temporary name may be left: what it holds then was swapped in by somebody else, and is not deleted.
    for left in desk.tree().iter().filter(|path| path.contains(".murmur-")) {
        let content = std::fs::read_to_string(root.join(left)).unwrap_or_default();
        assert!(!content.contains("stolen"), "{left}: {content}");
    }
}
