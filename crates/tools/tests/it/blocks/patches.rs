//! Every kind of header that a diff may have, with a covered path in each place of it.

use serde_json::{Value, json};

use super::{BLOCKED, Got, OPEN, Ward, path_rule};

/// A header: which operation on `@` it is judged by, how the call ends next door, and the diff. In the diff `@`
/// stands for the directory that is covered, or its neighbour.
struct Header {
    name: &'static str,
    operation: &'static str,
    /// What is at the path next door afterwards: other content, nothing, or as before because it is refused.
    after: After,
    diff: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum After {
    /// `@/key` has this.
    Key(&'static str),
    /// `@/key` is gone.
    Gone,
    /// `@/new` has this.
    New(&'static str),
    /// Refused for what it is, whatever the rules.
    Unfit,
}

use After::{Gone, Key, New, Unfit};

const CHANGED: &str = "changed\n";
const SAME: &str = "open-bytes\n";

const fn header(name: &'static str, operation: &'static str, after: After, diff: &'static str) -> Header {
    Header { name, operation, after, diff }
}

const HEADERS: &[Header] = &[
    header("plain", "write", Key(CHANGED), "--- @/key\n+++ @/key\n!1 +1 @@\n-open-bytes\n+changed\n"),
    header("plain, read", "read", Key(CHANGED), "--- @/key\n+++ @/key\n!1 +1 @@\n-open-bytes\n+changed\n"),
    header("plain with a/ b/", "write", Key(CHANGED), "--- a/@/key\n+++ b/@/key\n!1 +1 @@\n-open-bytes\n+changed\n"),
    header(
        "times behind names",
        "write",
        Key(CHANGED),
        "--- a/@/key\t2026-01-01 00:00:00\n+++ b/@/key\t2026-01-01 00:00:00\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "git, modify",
        "write",
        Key(CHANGED),
        "diff --git a/@/key b/@/key\nindex 1111111..2222222 100644\n--- a/@/key\n+++ b/@/key\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "git without prefixes",
        "write",
        Key(CHANGED),
        "diff --git @/key @/key\nindex 1111111..2222222 100644\n--- @/key\n+++ @/key\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "quoted",
        "write",
        Key(CHANGED),
        "diff --git \"a/@/k\\145y\" \"b/@/k\\145y\"\n--- \"a/@/k\\145y\"\n+++ \"b/@/k\\145y\"\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "one side quoted",
        "write",
        Key(CHANGED),
        "diff --git a/@/key \"b/@/\\153ey\"\n--- a/@/key\n+++ \"b/@/\\153ey\"\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "..",
        "write",
        Key(CHANGED),
        "--- a/other/../@/key\n+++ b/other/../@/key\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header("//", "write", Key(CHANGED), "--- a/@//key\n+++ b/@//key\n!1 +1 @@\n-open-bytes\n+changed\n"),
    header(
        "a link in the middle",
        "write",
        Key(CHANGED),
        "--- a/into-@/key\n+++ b/into-@/key\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "new file",
        "write",
        New("new\n"),
        "diff --git a/@/new b/@/new\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/@/new\n!0,0 +1 @@\n+new\n",
    ),
    header("new file, plain", "write", New("new\n"), "--- /dev/null\n+++ b/@/new\n!0,0 +1 @@\n+new\n"),
    header(
        "new executable",
        "write",
        New("new\n"),
        "diff --git a/@/new b/@/new\nnew file mode 100755\n--- /dev/null\n+++ b/@/new\n!0,0 +1 @@\n+new\n",
    ),
    header(
        "new empty file",
        "write",
        New(""),
        "diff --git a/@/new b/@/new\nnew file mode 100644\nindex 0000000..e69de29\n",
    ),
    header("new file through a link", "write", New("new\n"), "--- /dev/null\n+++ b/into-@/new\n!0,0 +1 @@\n+new\n"),
    header(
        "deleted file",
        "delete",
        Gone,
        "diff --git a/@/key b/@/key\ndeleted file mode 100644\nindex 1111111..0000000\n--- a/@/key\n+++ /dev/null\n!1 +0,0 @@\n-open-bytes\n",
    ),
    header("deleted file, plain", "delete", Gone, "--- a/@/key\n+++ /dev/null\n!1 +0,0 @@\n-open-bytes\n"),
    header("deleted file, read", "read", Gone, "--- a/@/key\n+++ /dev/null\n!1 +0,0 @@\n-open-bytes\n"),
    header(
        "deleted empty file",
        "delete",
        Gone,
        "diff --git a/@/empty b/@/empty\ndeleted file mode 100644\nindex e69de29..0000000\n",
    ),
    header(
        "rename from, delete",
        "delete",
        Gone,
        "diff --git a/@/key b/other/new\nsimilarity index 100%\nrename from @/key\nrename to other/new\n",
    ),
    header(
        "rename from, read",
        "read",
        Gone,
        "diff --git a/@/key b/other/new\nsimilarity index 100%\nrename from @/key\nrename to other/new\n",
    ),
    header(
        "rename to",
        "write",
        New("other\n"),
        "diff --git a/other/file b/@/new\nsimilarity index 100%\nrename from other/file\nrename to @/new\n",
    ),
    header(
        "rename with a change",
        "write",
        New("changed\n"),
        "diff --git a/other/file b/@/new\nsimilarity index 50%\nrename from other/file\nrename to @/new\n--- a/other/file\n+++ b/@/new\n!1 +1 @@\n-other\n+changed\n",
    ),
    header(
        "rename to, quoted",
        "write",
        New("other\n"),
        "diff --git a/other/file \"b/@/n\\145w\"\nsimilarity index 100%\nrename from other/file\nrename to \"@/n\\145w\"\n",
    ),
    header(
        "copy from",
        "read",
        Key(SAME),
        "diff --git a/@/key b/other/new\nsimilarity index 100%\ncopy from @/key\ncopy to other/new\n",
    ),
    header(
        "copy to",
        "write",
        New("other\n"),
        "diff --git a/other/file b/@/new\nsimilarity index 100%\ncopy from other/file\ncopy to @/new\n",
    ),
    header("mode change", "write", Key(SAME), "diff --git a/@/key b/@/key\nold mode 100644\nnew mode 100755\n"),
    header(
        "mode and content",
        "write",
        Key(CHANGED),
        "diff --git a/@/key b/@/key\nold mode 100644\nnew mode 100755\nindex 1111111..2222222\n--- a/@/key\n+++ b/@/key\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "second of two sections",
        "write",
        Key(CHANGED),
        "--- a/other/file\n+++ b/other/file\n!1 +1 @@\n-other\n+more\n--- a/@/key\n+++ b/@/key\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "a mail around it",
        "write",
        Key(CHANGED),
        "From: a\nSubject: b\n\ntext\n---\n @/key | 2 +-\n\ndiff --git a/@/key b/@/key\n--- a/@/key\n+++ b/@/key\n!1 +1 @@\n-open-bytes\n+changed\n-- \n2.40.0\n",
    ),
    header("--- and +++ differ, target", "write", Unfit, "--- a/other/file\n+++ b/@/key\n!1 +1 @@\n-other\n+changed\n"),
    header(
        "--- and +++ differ, source",
        "read",
        Unfit,
        "--- a/@/key\n+++ b/other/file\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "git line and --- differ",
        "write",
        Unfit,
        "diff --git a/other/file b/other/file\n--- a/@/key\n+++ b/@/key\n!1 +1 @@\n-open-bytes\n+changed\n",
    ),
    header(
        "rename lines and +++ differ",
        "write",
        Unfit,
        "diff --git a/other/file b/other/new\nsimilarity index 50%\nrename from other/file\nrename to other/new\n--- a/other/file\n+++ b/@/new\n!1 +1 @@\n-other\n+changed\n",
    ),
    header(
        "binary",
        "write",
        Unfit,
        "diff --git a/@/key b/@/key\nindex 1111111..2222222 100644\nBinary files a/@/key and b/@/key differ\n",
    ),
    header(
        "binary patch",
        "write",
        Unfit,
        "diff --git a/@/key b/@/key\nindex 1111111..2222222 100644\nGIT binary patch\nliteral 3\nKcmZQzfB+!?0ssI2\n\nliteral 0\nHcmV?d00001\n\n",
    ),
    header(
        "symlink",
        "write",
        Unfit,
        "diff --git a/@/new b/@/new\nnew file mode 120000\n--- /dev/null\n+++ b/@/new\n!0,0 +1 @@\n+key\n\\ No newline at end of file\n",
    ),
    header(
        "submodule",
        "write",
        Unfit,
        "diff --git a/@/new b/@/new\nnew file mode 160000\n--- /dev/null\n+++ b/@/new\n!0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n",
    ),
    header(
        "symlink as target of a rename",
        "write",
        Unfit,
        "diff --git a/into-open b/@/new\nsimilarity index 100%\nrename from into-open\nrename to @/new\n",
    ),
];

fn plant(ward: &Ward) {
    ward.clear();
    for (area, text) in [("secret", BLOCKED), ("open", OPEN)] {
        ward.put(&format!("{area}/key"), &format!("{text}\n"));
        ward.put(&format!("{area}/empty"), "");
        ward.link(area, &format!("into-{area}"));
    }
    ward.put("other/file", "other\n");
}

fn diff(header: &Header, area: &str) -> Value {
    // `!` is what every hunk begins with.
    json!({"patch": header.diff.replace("\n!", "\n@@ -").replace("@/", &format!("{area}/"))})
}

#[test]
fn a_covered_path_is_found_in_every_place_of_every_header() {
    let ward = Ward::new();
    let mut wrong = Vec::new();
    for (matching, pattern) in
        [("prefix", "secret"), ("glob", "secret/**"), ("regex", "/secret/"), ("contains", "/secret/")]
    {
        for header in HEADERS {
            plant(&ward);
            let before = ward.tree();
            let case = format!("{} ({matching} {})", header.name, header.operation);
            let policy = ward.policy(&[path_rule(matching, pattern, &[header.operation])]);
            let got = ward.call(&policy, "files_patch", &diff(header, "secret"));
            let refused = got.is_blocked() || (header.after == Unfit && !matches!(got, Got::Ok(_)));
            if !refused || got.text().contains(BLOCKED) || ward.tree() != before {
                wrong.push(format!("passes: {case}: {got:?}"));
                plant(&ward);
            }
            let got = ward.call(&policy, "files_patch", &diff(header, "open"));
            let gone = if header.diff.contains("empty") { "open/empty" } else { "open/key" };
            let done = match header.after {
                Key(text) => matches!(got, Got::Ok(_)) && ward.text("open/key").as_deref() == Some(text),
                New(text) => matches!(got, Got::Ok(_)) && ward.text("open/new").as_deref() == Some(text),
                Gone => matches!(got, Got::Ok(_)) && ward.text(gone).is_none(),
                Unfit => !got.is_denied() && !matches!(got, Got::Ok(_)) && ward.tree() == before,
            };
            if !done {
                wrong.push(format!("blocks: {case}: {got:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
