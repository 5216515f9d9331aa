//! Links, files and directories swapped as fast as a thread can, between review and effect.
//!
//! `secret` may not be read and `locked` not be changed. What the names below lead to changes all the time: to an
//! allowed file, and to one of those by a link at the end, a link in the middle, or another name of the same file.
//! 100,000 calls go through in all; whatever they come to, no blocked byte is shown and nothing blocked is
//! changed. Not raced here: a directory that is itself moved into a covered one while something is written into
//! it, which no check from outside the kernel can see.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use policy::Policy;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use super::{BLOCKED, Got, Ward};

/// A place with its decoys.
struct Arena {
    ward: Ward,
    policy: Policy,
    /// The allowed directory, whatever its name is now.
    open: File,
    before: Vec<(PathBuf, u64, String)>,
}

/// What the calls came to.
#[derive(Debug, Default)]
struct Tally {
    ok: usize,
    failed: usize,
    blocked: usize,
}

impl Arena {
    fn new() -> Self {
        let ward = Ward::new();
        for (directory, text) in [("secret", BLOCKED), ("locked", "plain bytes"), ("dir", "plain bytes")] {
            ward.put(&format!("{directory}/key"), &format!("{text}\n"));
            ward.put(&format!("{directory}/victim"), &format!("{text}\n"));
        }
        for area in ["secret", "locked"] {
            ward.link(format!("{area}/key"), &format!("to-{area}"));
            ward.link(area, &format!("into-{area}"));
            std::fs::hard_link(ward.root().join(area).join("key"), ward.root().join(format!("same-{area}"))).unwrap();
        }
        ward.put("name", "plain bytes\n");
        let rule = |id: &str, pattern: &str, operations: Value| json!({"id": id, "type": "path", "pattern": pattern, "operations": operations});
        let policy = ward.policy(&[
            rule("hidden", "secret/**", json!(["read", "write", "delete"])),
            rule("fixed", "locked/**", json!(["write", "delete"])),
        ]);
        let open = File::open(ward.root().join("dir")).unwrap();
        let mut arena = Self { ward, policy, open, before: Vec::new() };
        arena.before = arena.covered();
        arena
    }

    /// What lies under the rules: names, files and contents.
    fn covered(&self) -> Vec<(PathBuf, u64, String)> {
        let mut found = Vec::new();
        for area in ["secret", "locked"] {
            for entry in std::fs::read_dir(self.ward.root().join(area)).unwrap() {
                let path = entry.unwrap().path();
                let inode = path.metadata().unwrap().ino();
                let content = std::fs::read_to_string(&path).unwrap();
                found.push((path, inode, content));
            }
        }
        found.sort();
        found
    }

    /// A path in the allowed directory, past whatever bears its name.
    fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.open.as_raw_fd()))
    }

    fn call(&self, tally: &mut Tally, tool: &str, input: &Value) -> Got {
        let got = self.ward.call(&self.policy, tool, input);
        assert!(!got.text().contains(BLOCKED), "{tool} {input}: {got:?}");
        match &got {
            Got::Ok(_) => tally.ok += 1,
            Got::Failed(_) => tally.failed += 1,
            Got::Denied { .. } => tally.blocked += 1,
            Got::BadInput(_) => panic!("{tool} {input}: {got:?}"),
        }
        got
    }

    /// Does this many calls while `name` and `spare` change places. Each is given the number of the try.
    fn swap(&self, name: &str, spare: &str, tries: usize, mut work: impl FnMut(&Self, &mut Tally, usize)) {
        let (name, spare) = (self.ward.root().join(name), self.ward.root().join(spare));
        let done = AtomicBool::new(false);
        let mut tally = Tally::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut turn = 0;
                // An even number of swaps: everything stands where it stood.
                while !done.load(Ordering::Acquire) || turn % 2 == 1 {
                    exchange(&name, &spare);
                    turn += 1;
                }
            });
            // Ends the swapping also when a try panics.
            let _end = End(&done);
            (0..tries).for_each(|number| work(self, &mut tally, number));
        });
        assert_eq!(self.covered(), self.before, "{} and {}", name.display(), spare.display());
        assert!(tally.ok > 0, "nothing was ever allowed: {tally:?}");
        assert!(tally.blocked + tally.failed > 0, "nothing was ever in the way: {tally:?}");
    }
}

/// The names may be gone for a moment, while a tool replaces one of them.
fn exchange(one: &Path, other: &Path) {
    let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn read(path: &'static str) -> impl FnMut(&Arena, &mut Tally, usize) {
    move |arena, tally, _| {
        arena.call(tally, "files_read", &json!({"filePath": path}));
    }
}

#[test]
fn reading_through_a_link_at_the_end() {
    Arena::new().swap("name", "to-secret", 25_000, read("name"));
}

#[test]
fn reading_through_a_link_in_the_middle() {
    Arena::new().swap("dir", "into-secret", 25_000, read("dir/key"));
}

#[test]
fn reading_another_name_of_the_file() {
    Arena::new().swap("name", "same-secret", 20_000, read("name"));
}

#[test]
fn searching_and_listing() {
    let arena = Arena::new();
    arena.swap("dir", "into-secret", 10_000, |arena, tally, number| {
        let (tool, input) = match number % 4 {
            0 => ("files_search", json!({"query": "bytes"})),
            1 => ("files_search", json!({"query": "bytes", "path": "dir"})),
            2 => ("files_list", json!({"path": "dir"})),
            _ => ("files_inspect", json!({"filePath": "dir/key"})),
        };
        arena.call(tally, tool, &input);
    });
}

/// Writes, edits and patches, each as the file is at that moment.
fn change(path: &'static str) -> impl FnMut(&Arena, &mut Tally, usize) {
    let texts = ("plain bytes", "other bytes");
    let mut flipped = false;
    move |arena, tally, number| {
        let [old, new] = if flipped { [texts.1, texts.0] } else { [texts.0, texts.1] };
        let got = match number % 4 {
            0 => {
                // What is replaced whole was seen before.
                arena.ward.call(&arena.policy, "files_read", &json!({"filePath": path}));
                arena.call(tally, "files_write", &json!({"filePath": path, "content": format!("{new}\n")}))
            }
            1 => arena.call(tally, "files_edit", &json!({"filePath": path, "oldText": old, "newText": new})),
            _ => {
                let patch = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n");
                arena.call(tally, "files_patch", &json!({"patch": patch}))
            }
        };
        if matches!(got, Got::Ok(_)) {
            flipped = !flipped;
        }
    }
}

#[test]
fn changing_through_a_link_at_the_end() {
    Arena::new().swap("name", "to-locked", 5_000, change("name"));
}

#[test]
fn changing_through_a_link_in_the_middle() {
    Arena::new().swap("dir", "into-locked", 5_000, change("dir/key"));
}

#[test]
fn creating_through_a_link_in_the_middle() {
    let arena = Arena::new();
    arena.swap("dir", "into-locked", 5_000, |arena, tally, number| {
        let (path, top) = if number % 2 == 0 { ("dir/new", "new") } else { ("dir/made/deep/new", "made") };
        if number % 3 == 0 {
            let patch = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new\n");
            arena.call(tally, "files_patch", &json!({"patch": patch}));
        } else {
            arena.call(tally, "files_write", &json!({"filePath": path, "content": "new\n"}));
        }
        let _ = std::fs::remove_file(arena.inside(top));
        let _ = std::fs::remove_dir_all(arena.inside(top));
    });
}

#[test]
fn deleting_and_renaming_through_a_link_in_the_middle() {
    let arena = Arena::new();
    arena.swap("dir", "into-locked", 5_000, |arena, tally, number| {
        let victim = arena.inside("victim");
        if !victim.exists() {
            std::fs::write(&victim, "plain bytes\n").unwrap();
        }
        let patch = if number % 2 == 0 {
            "--- a/dir/victim\n+++ /dev/null\n@@ -1 +0,0 @@\n-plain bytes\n"
        } else {
            "diff --git a/dir/victim b/taken\nsimilarity index 100%\nrename from dir/victim\nrename to taken\n"
        };
        arena.call(tally, "files_patch", &json!({"patch": patch}));
        let _ = std::fs::remove_file(arena.ward.root().join("taken"));
    });
}
