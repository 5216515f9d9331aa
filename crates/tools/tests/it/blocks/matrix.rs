//! Operations × ways of matching × spellings × tools: each denial beside a neighbour that is spelled alike.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use policy::Tool;
use serde_json::{Value, json};

use super::{BLOCKED, Got, OPEN, Ward, command_rule, path_rule};
use crate::processes::git::git;
use crate::processes::native::tool_of;

/// The rules, one for each way of matching, that cover `secret/key` and leave `open/key` alone.
const MATCHES: [(&str, &str); 5] = [
    ("exact", "secret/key"),
    ("prefix", "secret"),
    ("glob", "secret/**"),
    ("regex", r"/secret(/|$)"),
    ("contains", "/secret/"),
];

/// A way to write the path of `key` in a directory.
struct Spelling {
    name: &'static str,
    path: fn(root: &Path, area: &str) -> String,
    /// What the path is for a file tool.
    files: Reach,
    /// What the path is for the kernel, so for a process.
    kernel: Reach,
}

/// What the root is called in the directory that holds it.
fn name(root: &Path) -> std::path::Display<'_> {
    Path::new(root.file_name().unwrap()).display()
}

/// What a spelling leads to.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    /// The file.
    File,
    /// The file through a link in its last place, which a patch does not follow.
    Link,
    /// A place where nothing is yet.
    Nothing,
    /// Another file of its own inode.
    Hard,
    /// Out of what file tools may reach, whatever the rules; or a file that is none.
    Never,
}

use Reach::{File, Hard, Link, Never, Nothing};

const SPELLINGS: &[Spelling] = &[
    Spelling { name: "relative", path: |_, area| format!("{area}/key"), files: File, kernel: File },
    Spelling {
        name: "absolute",
        path: |root, area| format!("{}/{area}/key", root.display()),
        files: File,
        kernel: File,
    },
    Spelling { name: "..", path: |_, area| format!("{area}/deep/../key"), files: File, kernel: File },
    Spelling { name: ".. from elsewhere", path: |_, area| format!("other/../{area}/key"), files: File, kernel: File },
    Spelling {
        name: ".. above the root",
        path: |root, area| format!("../{}/{area}/key", name(root)),
        files: File,
        kernel: File,
    },
    Spelling { name: "//", path: |root, area| format!("/{}//{area}///key", root.display()), files: File, kernel: File },
    Spelling { name: "./", path: |_, area| format!("./{area}/././key"), files: File, kernel: File },
    Spelling { name: "final link", path: |_, area| format!("final-{area}"), files: Link, kernel: File },
    Spelling { name: "absolute link", path: |_, area| format!("absolute-{area}"), files: Link, kernel: File },
    Spelling { name: "middle link", path: |_, area| format!("middle-{area}/key"), files: File, kernel: File },
    Spelling {
        name: "middle link and ..",
        path: |_, area| format!("middle-{area}/deep/../key"),
        files: File,
        kernel: File,
    },
    Spelling { name: "dangling link", path: |_, area| format!("dangling-{area}"), files: Nothing, kernel: Nothing },
    Spelling { name: "chained links", path: |_, area| format!("chain-{area}"), files: Link, kernel: File },
    Spelling {
        name: "link to a link in a directory",
        path: |_, area| format!("other/up-{area}/key"),
        files: File,
        kernel: File,
    },
    Spelling { name: "hard link", path: |_, area| format!("hard-{area}"), files: Hard, kernel: Hard },
    Spelling {
        name: "/proc/self/cwd",
        path: |_, area| format!("/proc/self/cwd/{area}/key"),
        files: Never,
        kernel: File,
    },
    Spelling {
        name: "/proc/thread-self/cwd",
        path: |_, area| format!("/proc/thread-self/cwd/{area}/key"),
        files: Never,
        kernel: File,
    },
    Spelling {
        name: "/proc/self/root",
        path: |root, area| format!("/proc/self/root{}/{area}/key", root.display()),
        files: Never,
        kernel: File,
    },
    Spelling {
        name: "/proc/self/cwd and ..",
        path: |root, area| format!("/proc/self/cwd/../{}/{area}/key", name(root)),
        files: Never,
        kernel: File,
    },
    Spelling {
        name: "/proc through ..",
        path: |_, area| format!("/proc/self/fd/../cwd/{area}/key"),
        files: Never,
        kernel: File,
    },
    Spelling {
        name: "/proc through //",
        path: |_, area| format!("//proc//self//cwd//{area}/key"),
        files: Never,
        kernel: File,
    },
    Spelling {
        name: "/proc/self/task",
        path: |_, area| format!("/proc/self/task/../cwd/{area}/key"),
        files: Never,
        kernel: File,
    },
    Spelling { name: "/dev/fd", path: |_, area| format!("/dev/fd/../cwd/{area}/key"), files: Never, kernel: File },
    Spelling { name: "trailing slash", path: |_, area| format!("{area}/key/"), files: File, kernel: Never },
];

/// The tree: the same on both sides.
fn plant(ward: &Ward) {
    ward.clear();
    std::fs::create_dir(ward.root().join("other")).unwrap();
    for (area, bytes) in [("secret", BLOCKED), ("open", OPEN)] {
        ward.put(&format!("{area}/key"), &format!("{bytes}\n"));
        std::fs::create_dir(ward.root().join(area).join("deep")).unwrap();
        ward.link(format!("{area}/key"), &format!("final-{area}"));
        ward.link(ward.root().join(area).join("key"), &format!("absolute-{area}"));
        ward.link(area, &format!("middle-{area}"));
        ward.link(format!("{area}/new"), &format!("dangling-{area}"));
        ward.link(format!("final-{area}"), &format!("chain-{area}"));
        ward.link(format!("../middle-{area}"), &format!("other/up-{area}"));
    }
}

/// Another name for the file: only where it is asked for, because a file of two names is looked at twice.
fn hard(ward: &Ward) {
    for area in ["secret", "open"] {
        std::fs::hard_link(ward.root().join(area).join("key"), ward.root().join(format!("hard-{area}"))).unwrap();
    }
}

/// How one can tell that the allowed neighbour did what it should.
#[derive(Clone, Copy, PartialEq)]
enum Proof {
    /// The result shows its content.
    Shows,
    /// The file has other content.
    Writes,
    /// The name is gone.
    Removes,
    /// It was not refused.
    Passes,
}

use Proof::{Passes, Removes, Shows, Writes};

/// What one tool does to a path.
type Deed = (&'static str, &'static str, Proof, fn(&str) -> Value);

fn quoted(path: &str) -> String {
    format!("'{path}'")
}

fn diff(path: &str, body: &str) -> Value {
    json!({"patch": format!("--- {path}\n+++ {path}\n{body}")})
}

const FILE_DEEDS: &[Deed] = &[
    ("read", "files_read", Shows, |path| json!({"filePath": path})),
    ("read", "files_inspect", Passes, |path| json!({"filePath": path})),
    ("read", "files_list", Passes, |path| json!({"path": path})),
    ("read", "files_find", Passes, |path| json!({"path": path, "pattern": "*"})),
    ("read", "files_search", Shows, |path| json!({"path": path, "query": "bytes"})),
    ("read", "files_edit", Writes, |path| json!({"filePath": path, "oldText": "bytes", "newText": "changed"})),
    ("read", "files_patch", Writes, |path| diff(path, "@@ -1 +1 @@\n-open-bytes\n+changed\n")),
    ("write", "files_write", Writes, |path| json!({"filePath": path, "content": "changed"})),
    ("write", "files_edit", Writes, |path| json!({"filePath": path, "oldText": "bytes", "newText": "changed"})),
    ("write", "files_patch", Writes, |path| diff(path, "@@ -1 +1 @@\n-open-bytes\n+changed\n")),
    (
        "delete",
        "files_patch",
        Removes,
        |path| json!({"patch": format!("--- {path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-open-bytes\n")}),
    ),
];

const PROCESS_DEEDS: &[Deed] = &[
    ("read", "shell_exec", Shows, |path| json!({"command": format!("cat {}", quoted(path))})),
    ("read", "shell_exec", Shows, |path| json!({"command": format!("cat < {}", quoted(path))})),
    ("read", "shell_exec", Shows, |path| json!({"command": format!("true; head -n 1 -- {}", quoted(path))})),
    (
        "read",
        "shell_exec",
        Shows,
        |path| json!({"command": format!("cat {}", quoted(path).replace("'/proc/self/", "/proc/$$/'"))}),
    ),
    ("read", "cat", Shows, |path| json!({"args": [path]})),
    ("write", "shell_exec", Writes, |path| json!({"command": format!("echo changed > {}", quoted(path))})),
    ("write", "shell_exec", Writes, |path| json!({"command": format!("cp other.txt {}", quoted(path))})),
    ("write", "tee", Writes, |path| json!({"args": [path], "stdin": "changed"})),
    ("delete", "shell_exec", Removes, |path| json!({"command": format!("rm -f {}", quoted(path))})),
    ("delete", "shell_exec", Removes, |path| json!({"command": format!("mv {} other/taken", quoted(path))})),
    ("delete", "rm", Removes, |path| json!({"args": [path]})),
];

/// That the neighbour's call did what it should have.
fn proved(ward: &Ward, got: &Got, proof: Proof, spelling: &Spelling, reach: Reach) -> bool {
    if got.is_denied() {
        return false;
    }
    let link =
        spelling.name.contains("link") && !spelling.name.contains("middle") && !spelling.name.contains("directory");
    let path = (spelling.path)(ward.root(), "open");
    // The name that is removed, or replaced where a name is replaced.
    let name = if link { path.as_str() } else { "open/key" };
    match (proof, reach) {
        (Shows, File | Link | Hard) => got.text().contains(OPEN),
        (Writes, File | Link | Hard) => ward.text(name).is_some_and(|text| text.contains("changed")),
        (Writes, Nothing) => ward.text("open/new").is_none_or(|text| text.contains("changed")),
        (Removes, File | Link | Hard) => ward.root().join(name).symlink_metadata().is_err(),
        _ => true,
    }
}

/// Every deed with every spelling under one rule. What went wrong, if anything.
fn sweep(deeds: &[Deed], matching: &str, pattern: &str, is_process: bool) -> Vec<String> {
    let ward = Ward::new();
    let mut wrong = Vec::new();
    for (operation, tool, proof, input) in deeds {
        let others: Vec<&str> =
            ["read", "write", "delete", "execute", "delegate"].into_iter().filter(|one| one != operation).collect();
        for spelling in SPELLINGS {
            let reach = if is_process { spelling.kernel } else { spelling.files };
            let case = format!("{operation} {tool} {matching} {}", spelling.name);
            let fresh = || {
                plant(&ward);
                ward.put("other.txt", "changed");
                if reach == Hard {
                    hard(&ward);
                }
            };
            fresh();
            // An exact rule is about the very place that a dangling link would make.
            let pattern = if reach == Nothing && matching == "exact" { "secret/new" } else { pattern };
            let policy = ward.policy(&[path_rule(matching, pattern, &[operation])]);
            let before = ward.tree();
            let path = (spelling.path)(ward.root(), "secret");
            let got = ward.call(&policy, tool, &input(&path));
            let outside = !is_process && reach == Never;
            // A diff names no file with a slash behind it.
            let unfit = *tool == "files_patch" && path.ends_with('/') && matches!(got, Got::BadInput(_));
            if !(got.is_blocked() || unfit || (outside && got.is_denied())) || got.text().contains(BLOCKED) {
                wrong.push(format!("passes: {case}: {got:?}"));
            }
            if ward.tree() != before {
                wrong.push(format!("changed: {case}"));
                fresh();
            }
            if outside || unfit {
                continue;
            }
            // The same deed next door.
            let path = (spelling.path)(ward.root(), "open");
            if *tool == "files_write" {
                ward.call(&policy, "files_read", &json!({"filePath": path}));
            }
            let got = ward.call(&policy, tool, &input(&path));
            let links = *tool == "files_patch" && matches!(reach, Link);
            let reach = if links { Never } else { reach };
            if !proved(&ward, &got, *proof, spelling, reach) {
                wrong.push(format!("blocks: {case}: {got:?}"));
            }
            // The same deed under a rule about everything but this.
            if !deed_needs_more(tool, operation) && matching == "exact" {
                fresh();
                let policy = ward.policy(&[path_rule(matching, pattern, &others)]);
                let path = (spelling.path)(ward.root(), "secret");
                if ward.call(&policy, tool, &input(&path)).is_blocked() {
                    wrong.push(format!("blocks for another operation: {case}"));
                }
            }
        }
    }
    wrong
}

/// Whether a deed does more to its path than the one operation.
fn deed_needs_more(tool: &str, operation: &str) -> bool {
    matches!(tool, "files_edit" | "files_patch") || (tool, operation) == ("shell_exec", "delete")
}

fn all(deeds: &[Deed], is_process: bool, matching: &str) {
    let (_, pattern) = MATCHES.into_iter().find(|(name, _)| *name == matching).unwrap();
    let wrong = sweep(deeds, matching, pattern, is_process);
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

macro_rules! each_match {
    ($($matching:ident)*) => {$(
        mod $matching {
            #[test]
            fn files() {
                super::all(super::FILE_DEEDS, false, stringify!($matching));
            }

            #[test]
            fn processes() {
                super::all(super::PROCESS_DEEDS, true, stringify!($matching));
            }
        }
    )*};
}

each_match! { exact prefix glob regex contains }

/// A tool that starts a program, and its input.
type Start = (&'static str, fn(&str) -> Value);

/// What is executed: the directory, and the program by its path. `secret` and `open` hold the same script.
fn plant_programs(ward: &Ward) {
    plant(ward);
    for area in ["secret", "open"] {
        let path = ward.root().join(area).join("key");
        std::fs::write(&path, "#!/bin/sh\n: > \"${0%/*}/ran\"; : > \"$PWD/ran\"\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn has_run(ward: &Ward) -> bool {
    ["ran", "secret/ran", "open/ran"].iter().any(|path| ward.root().join(path).exists())
}

#[test]
fn programs_are_executed_only_where_no_rule_covers_their_path() {
    let ward = Ward::new();
    let mut wrong = Vec::new();
    let deeds: [Start; 3] = [
        ("shell_exec", |path| json!({"command": quoted(path)})),
        ("shell_exec", |path| json!({"command": format!("true && exec {}", quoted(path))})),
        ("sh", |path| json!({"args": ["-c", format!("env {}", quoted(path))]})),
    ];
    for (matching, pattern) in MATCHES {
        let policy = ward.policy(&[path_rule(matching, pattern, &["execute"])]);
        for spelling in SPELLINGS.iter().filter(|one| matches!(one.kernel, File)) {
            // A name without a slash is looked for elsewhere.
            let path = |area: &str| match (spelling.path)(ward.root(), area) {
                path if path.contains('/') => path,
                path => format!("./{path}"),
            };
            for (tool, input) in deeds {
                plant_programs(&ward);
                let got = ward.call(&policy, tool, &input(&path("secret")));
                if !got.is_blocked() || has_run(&ward) {
                    wrong.push(format!("runs: {matching} {tool} {}: {got:?}", spelling.name));
                }
                let got = ward.call(&policy, tool, &input(&path("open")));
                if !has_run(&ward) {
                    wrong.push(format!("blocks: {matching} {tool} {}: {got:?}", spelling.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn nothing_is_executed_in_a_covered_directory() {
    let ward = Ward::new();
    let mut wrong = Vec::new();
    for (matching, pattern) in MATCHES {
        let pattern = if matching == "exact" { "secret" } else { pattern };
        // `/secret/` is in no path of the directory itself.
        let pattern = if matching == "contains" { "/secret" } else { pattern };
        let policy = ward.policy(&[path_rule(matching, pattern, &["execute"])]);
        plant(&ward);
        for spelled in ["@", "@/", "./@/.", "@/deep/..", "other/../@", "//@", "middle-@", "other/up-@", "ABSOLUTE/@"] {
            for (tool, mut input) in [
                ("shell_exec", json!({"command": "pwd -P"})),
                ("true", json!({"args": []})),
                ("cat", json!({"args": ["key"]})),
            ] {
                let mut call = |area: &str| {
                    let root = ward.root().to_str().unwrap();
                    let spelled = spelled.replace("//@", &format!("/{root}//@")).replace("ABSOLUTE", root);
                    input["cwd"] = json!(spelled.replace('@', area));
                    ward.call(&policy, tool, &input)
                };
                let (got, open) = (call("secret"), call("open"));
                if !got.is_blocked() {
                    wrong.push(format!("runs: {matching} {tool} {spelled}: {got:?}"));
                }
                if !matches!(open, Got::Ok(_)) {
                    wrong.push(format!("blocks: {matching} {tool} {spelled}: {open:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A native tool whose program is `run.sh` in a package beside the root; `argv` as its manifest says it.
fn native(ward: &Ward, argv: &str) -> Arc<dyn Tool> {
    let capsule = ward.beside("capsule");
    std::fs::create_dir_all(capsule.join("probe")).unwrap();
    let manifest = "name: test\nversion: 0.1.0\nartifacts:\n  - { name: scripted, runtime: driver, models: { m: { context_window: 1000, max_output_tokens: 100 } } }\n  - { name: probe, source: ./probe }\n\
                    inference:\n  model: m\n  max_tokens: 100\n  driver: { artifact: scripted, config: { script: script.yaml } }\n";
    let package = format!(
        "name: probe\nversion: 1.0.0\nruntime: tool\nimplementation: native\ndescription: looks\ncommand: {argv}\nstate_effect: read\ninput_schema: {{ type: object }}\n"
    );
    std::fs::write(capsule.join("murmur.yaml"), manifest).unwrap();
    std::fs::write(capsule.join("script.yaml"), "[]\n").unwrap();
    std::fs::write(capsule.join("probe/murmur.yaml"), package).unwrap();
    for name in ["run.sh", "other.sh"] {
        std::fs::write(capsule.join("probe").join(name), "#!/bin/sh\necho ran\n").unwrap();
        std::fs::set_permissions(capsule.join("probe").join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let link = capsule.join("probe/link.sh");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink("run.sh", link).unwrap();
    tool_of(&capsule, &ward.environment, &ward.processes)
}

#[test]
fn a_native_tool_is_judged_by_its_program_its_words_and_its_directory() {
    let ward = Ward::new();
    plant(&ward);
    let program = ward.beside("capsule/probe/run.sh");
    let program = program.to_str().unwrap();
    let root = ward.root().to_str().unwrap().to_owned();
    for (argv, rule, blocked) in [
        ("[./run.sh]", path_rule("exact", program, &["execute"]), true),
        ("[./link.sh]", path_rule("exact", program, &["execute"]), true),
        ("[./other.sh]", path_rule("exact", program, &["execute"]), false),
        ("[./run.sh]", path_rule("exact", program, &["read", "write", "delete", "delegate"]), false),
        ("[./run.sh]", path_rule("glob", "**/run.*", &["execute"]), false),
        ("[./run.sh]", path_rule("regex", r"/probe/run\.sh$", &["execute"]), true),
        ("[./run.sh]", path_rule("contains", "/capsule/", &["execute"]), true),
        ("[./run.sh]", path_rule("prefix", &root, &["execute"]), true),
        ("[./run.sh]", path_rule("prefix", &format!("{root}/sub"), &["execute"]), false),
        ("[./run.sh, --force]", command_rule("glob", "*run.sh --force*"), true),
        ("[./run.sh, --gentle]", command_rule("glob", "*run.sh --force*"), false),
        ("[./run.sh, --force]", command_rule("prefix", "run.sh"), true),
        ("[./other.sh, --force]", command_rule("prefix", "run.sh"), false),
        ("[cat, secret/key]", path_rule("glob", "secret/**", &["read"]), true),
        ("[cat, open/key]", path_rule("glob", "secret/**", &["read"]), false),
    ] {
        let tool = native(&ward, argv);
        let got = ward.call_tool(&ward.policy(std::slice::from_ref(&rule)), &tool, &json!({}));
        assert_eq!(got.is_blocked(), blocked, "{argv} {rule}: {got:?}");
        assert_eq!(matches!(got, Got::Ok(_)), !blocked, "{argv} {rule}: {got:?}");
    }
}

#[test]
fn letters_are_compared_as_they_are() {
    let ward = Ward::new();
    ward.put("secret/key", BLOCKED);
    // Two ways to write one letter are two names to the kernel, so to the rules.
    ward.put("\u{fc}/key", BLOCKED);
    for path in ["Secret/key", "secret/Key", "SECRET/KEY", "u\u{308}/key"] {
        ward.put(path, OPEN);
    }
    for (matching, pattern) in MATCHES {
        for (pattern, blocks, allows) in [
            (pattern.to_owned(), "secret/key", &["Secret/key", "secret/Key", "SECRET/KEY"][..]),
            (pattern.replace("secret", "\u{fc}"), "\u{fc}/key", &["u\u{308}/key"][..]),
        ] {
            let policy = ward.policy(&[path_rule(matching, &pattern, &["read", "write"])]);
            for (tool, input) in
                [("files_read", "filePath"), ("files_inspect", "filePath"), ("files_list", "path"), ("cat", "args")]
            {
                let call = |path: &str| {
                    let value = if tool == "cat" { json!([path]) } else { json!(path) };
                    ward.call(&policy, tool, &json!({input: value}))
                };
                assert!(call(blocks).is_blocked(), "{matching} {pattern} {tool} {blocks}");
                for path in allows.iter().filter(|path| matching == "exact" || !path.starts_with("secret")) {
                    assert!(!call(path).is_denied(), "{matching} {pattern} {tool} {path}");
                }
            }
        }
    }
}

#[test]
fn git_looks_at_no_covered_path() {
    let ward = Ward::new();
    plant(&ward);
    git(ward.root(), &["init", "-q"]);
    git(ward.root(), &["add", "."]);
    git(ward.root(), &["commit", "-qm", "first"]);
    for area in ["secret", "open"] {
        ward.put(&format!("{area}/key"), "changed\n");
    }
    let mut wrong = Vec::new();
    for (matching, pattern) in MATCHES {
        let policy = ward.policy(&[path_rule(matching, pattern, &["read"])]);
        let other = ward.policy(&[path_rule(matching, pattern, &["write", "delete", "execute", "delegate"])]);
        let places = SPELLINGS.iter().filter(|one| matches!(one.files, File | Link | Never));
        for (spelling, tool) in places.flat_map(|one| [(one, "git_status"), (one, "git_diff")]) {
            let call = |policy, area| {
                let path = (spelling.path)(ward.root(), area);
                ward.call(policy, tool, &json!({"path": path}))
            };
            let case = format!("{tool} {matching} {}", spelling.name);
            let got = call(&policy, "secret");
            let outside = spelling.files == Never;
            if !(got.is_blocked() || (outside && got.is_denied())) {
                wrong.push(format!("shows: {case}: {got:?}"));
            }
            for got in [call(&policy, "open"), call(&other, "secret")] {
                if !outside && !matches!(got, Got::Ok(_)) {
                    wrong.push(format!("blocks: {case}: {got:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
