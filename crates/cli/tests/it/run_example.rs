//! The example that the README shows, run as a reader would, in a fresh copy.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::binary::{Mur, Ran};
use crate::support::{children, copy_tree, of_type, trace};

const REPLY: &str = r#"Fixed, and all seven tests pass.

The test "one inside another" showed it: 12:00-13:00 lies inside 9:00-17:00, and the sum was 240 minutes
instead of 480. `intervals_merge` in intervals.c took over the end of the interval that it merged even when
that end came first, so the long interval was cut off at 13:00. It now keeps the later of the two ends.
"#;

fn example() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bug-hunt"))
}

fn staged() -> Mur {
    let mur = Mur::new();
    copy_tree(example(), &mur.home.root().join("bug-hunt"));
    mur
}

fn hunt(mur: &Mur, manifest: &str) -> Ran {
    let root = mur.home.root();
    let at = |relative: &str| root.join(relative).into_os_string().into_string().expect("a plain name");
    let mut command =
        mur.command(&["run", &at(manifest), "--task", &at("bug-hunt/task.md"), "--workdir", &at("bug-hunt/repo")]);
    Ran::of(command.env("TMPDIR", root))
}

#[test]
fn the_example_finds_and_fixes_the_bug() {
    let mur = staged();
    let before = fs::read(example().join("repo/test.c")).unwrap();
    let ran = hunt(&mur, "bug-hunt");
    assert_eq!((ran.status, ran.stdout()), (Some(0), REPLY), "{ran:?}");
    assert_eq!(
        ran.stderr.lines().next(),
        Some("scripted: the answers come from a script, no model is asked"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("FAIL  one inside another: 240 minutes, expected 480"), "{}", ran.stderr);
    assert!(ran.stderr.contains("ok    one inside another"), "{}", ran.stderr);

    let repo = mur.home.root().join("bug-hunt/repo");
    assert!(fs::read_to_string(repo.join("intervals.c")).unwrap().contains("> list[last].to ?"));
    assert_eq!(fs::read(repo.join("test.c")).unwrap(), before, "the test is as it was");
    let left: Vec<_> = children(mur.home.root()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(left, ["bug-hunt", "home", "work"], "the processes' own directory is gone");

    let lines = trace(&mur);
    assert_eq!(lines[0]["scripted"], true);
    assert_eq!(lines.last().unwrap()["status"], "ok");
    assert_eq!(of_type(&lines, "call_denied").len(), 0);
}

#[test]
fn its_trace_verifies_and_one_changed_byte_is_found() {
    let mur = staged();
    assert_eq!(hunt(&mur, "bug-hunt").status, Some(0));
    let verified = mur.run(&["trace", "verify", "@1"]);
    assert_eq!(verified.status, Some(0), "{verified:?}");

    let file = children(&mur.home.home().join("sessions")).remove(0).join("trace.jsonl");
    let whole = fs::read(&file).unwrap();
    // A letter in the middle: JSON as good as before.
    let place = whole.windows(9).position(|window| window == b"intervals").unwrap();
    let mut changed = whole.clone();
    changed[place] = b'I';
    fs::write(&file, changed).unwrap();
    let broken = mur.run(&["trace", "verify", "@1"]);
    assert_eq!(broken.status, Some(1), "{broken:?}");

    fs::write(&file, whole).unwrap();
    assert_eq!(mur.run(&["trace", "verify", "@1"]).status, Some(0));
}

#[test]
fn what_is_read_only_is_not_patched_and_what_is_not_is() {
    let mur = staged();
    let turns = r#"turns:
  - tool_calls:
      - name: files_patch
        arguments:
          patch: |
            --- a/test.c
            +++ b/test.c
            @@ -1 +1 @@
            -FIRST
            +/* nothing is tested */
      - { name: files_write, arguments: { filePath: build/../test.sh, content: "exit 0" } }
      - { name: files_edit, arguments: { filePath: test.c, oldText: 'FIRST', newText: "" } }
      - { name: files_write, arguments: { filePath: notes.txt, content: "kept" } }
  - text: done
"#;
    let test = fs::read_to_string(example().join("repo/test.c")).unwrap();
    let first = test.lines().next().unwrap();
    mur.home.write("bug-hunt/script.yaml", turns.replace("FIRST", first));
    let manifest = mur.home.read("bug-hunt/murmur.yaml");
    let manifest = manifest.replace("files_patch, shell_exec, git_diff", "files_patch, files_write, files_edit");
    mur.home.write("bug-hunt/murmur.yaml", manifest);
    let ran = hunt(&mur, "bug-hunt");
    assert_eq!((ran.status, ran.stdout()), (Some(0), "done\n"), "{ran:?}");

    let repo = mur.home.root().join("bug-hunt/repo");
    for name in ["test.c", "test.sh"] {
        assert_eq!(fs::read(repo.join(name)).unwrap(), fs::read(example().join("repo").join(name)).unwrap());
    }
    assert_eq!(fs::read_to_string(repo.join("notes.txt")).unwrap(), "kept");
    let lines = trace(&mur);
    let denied: Vec<_> = of_type(&lines, "call_denied").iter().map(|line| line["blockers"].clone()).collect();
    assert_eq!(denied, vec![json!(["read_only_path"]); 3]);
}

#[test]
fn a_run_that_leaves_its_script_fails_in_one_sentence() {
    let mur = staged();
    mur.home.write("bug-hunt/repo/intervals.c", "no C at all\n");
    let ran = hunt(&mur, "bug-hunt");
    assert_eq!((ran.status, ran.stdout()), (Some(1), ""), "{ran:?}");
    let failed: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("failed: ")).collect();
    assert!(failed[0].contains("the run has left its script"), "{}", ran.stderr);
    assert_eq!(mur.run(&["trace", "verify"]).status, Some(0));
}
