//! `git status --porcelain=v2 -z`, read and told in words.
//!
//! Names are bytes between NULs there, so no quoting has to be undone and no name can forge a line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a status says of one path.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    group: Group,
    what: &'static str,
    path: PathBuf,
    /// Where it was renamed or copied from.
    from: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Conflict,
    Staged,
    Unstaged,
    Untracked,
}

/// A status.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    branch: Option<String>,
    commit: Option<String>,
    entries: Vec<Entry>,
}

impl Status {
    /// Reads git's output. A record that is not understood, such as one that was cut, is left out.
    pub(super) fn parse(output: &[u8]) -> Self {
        let mut status = Self::default();
        let mut records = output.split(|byte| *byte == 0);
        while let Some(record) = records.next() {
            let Some((kind, rest)) = cut(record) else { continue };
            match kind {
                b"#" => status.header(rest),
                b"1" => status.changed(rest, 6, None),
                b"2" => {
                    let from = records.next().map(to_path);
                    status.changed(rest, 7, from);
                }
                b"u" => status.conflict(rest),
                b"?" => {
                    status.entries.push(Entry { group: Group::Untracked, what: "", path: to_path(rest), from: None })
                }
                _ => {}
            }
        }
        status
    }

    fn header(&mut self, rest: &[u8]) {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        match cut(rest) {
            Some((b"branch.oid", b"(initial)")) => self.commit = None,
            Some((b"branch.oid", oid)) => self.commit = Some(text(oid).chars().take(12).collect()),
            Some((b"branch.head", b"(detached)")) => self.branch = None,
            Some((b"branch.head", name)) => self.branch = Some(text(name)),
            _ => {}
        }
    }

    /// `XY`, then `skip` fields, then the path.
    fn changed(&mut self, rest: &[u8], skip: usize, from: Option<PathBuf>) {
        let Some((&[x, y], rest)) = cut(rest) else { return };
        let Some(path) = nth(rest, skip) else { return };
        let sides = [(Group::Staged, x, from), (Group::Unstaged, y, None)];
        for (group, letter, from) in sides.into_iter().filter(|(_, letter, _)| *letter != b'.') {
            self.entries.push(Entry { group, what: change(letter), path: to_path(path), from });
        }
    }

    fn conflict(&mut self, rest: &[u8]) {
        let Some((sides, rest)) = cut(rest) else { return };
        let what = match sides {
            b"DD" => "both deleted",
            b"AU" => "added by us",
            b"UD" => "deleted by them",
            b"UA" => "added by them",
            b"DU" => "deleted by us",
            b"AA" => "both added",
            _ => "both modified",
        };
        if let Some(path) = nth(rest, 8) {
            self.entries.push(Entry { group: Group::Conflict, what, path: to_path(path), from: None });
        }
    }

    /// Drops what `may_show` refuses; says how many paths that were.
    pub(super) fn withhold(&mut self, mut may_show: impl FnMut(&Path) -> bool) -> usize {
        let mut withheld = std::collections::BTreeSet::new();
        self.entries.retain(|entry| {
            let shown = std::iter::once(&entry.path).chain(&entry.from).all(|path| may_show(path));
            if !shown {
                withheld.insert(entry.path.clone());
            }
            shown
        });
        withheld.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The status in words; paths under `prefix`, the work tree's place below the root.
    pub(super) fn text(&self, prefix: &Path) -> String {
        let mut text = match (&self.branch, &self.commit) {
            (Some(branch), Some(commit)) => format!("on branch {}, at commit {commit}\n", shown(Path::new(branch))),
            (Some(branch), None) => format!("on branch {}, without commits yet\n", shown(Path::new(branch))),
            (None, Some(commit)) => format!("on no branch (detached), at commit {commit}\n"),
            (None, None) => String::new(),
        };
        let groups = [
            (Group::Conflict, "in conflict"),
            (Group::Staged, "staged"),
            (Group::Unstaged, "changed, not staged"),
            (Group::Untracked, "untracked"),
        ];
        for (group, title) in groups {
            let entries: Vec<&Entry> = self.entries.iter().filter(|entry| entry.group == group).collect();
            if entries.is_empty() {
                continue;
            }
            text.push_str(&format!("{title} ({}):\n", entries.len()));
            for entry in entries {
                let path = shown(&prefix.join(&entry.path));
                let from =
                    entry.from.as_ref().map(|from| format!("{} -> ", shown(&prefix.join(from)))).unwrap_or_default();
                let what = if entry.what.is_empty() { String::new() } else { format!("{}: ", entry.what) };
                text.push_str(&format!("  {what}{from}{path}\n"));
            }
        }
        if self.entries.is_empty() {
            text.push_str("nothing is changed and nothing is untracked\n");
        }
        text
    }
}

fn shown(path: &Path) -> String {
    crate::show::path(path)
}

fn change(letter: u8) -> &'static str {
    match letter {
        b'A' => "added",
        b'D' => "deleted",
        b'R' => "renamed",
        b'C' => "copied",
        b'T' => "type changed",
        _ => "modified",
    }
}

fn to_path(bytes: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(bytes)).to_owned()
}

/// What stands before the first space, and after it.
fn cut(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = record.split_at_checked(memchr::memchr(b' ', record)?)?;
    Some((first, rest.strip_prefix(b" ")?))
}

/// What stands after so many fields.
fn nth(record: &[u8], skip: usize) -> Option<&[u8]> {
    (0..skip).try_fold(record, |rest, _| Some(cut(rest)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Status {
        let records: [&[u8]; 9] = [
            b"# branch.oid 0123456789abcdef0123456789abcdef01234567",
            b"# branch.head main",
            b"1 M. N... 100644 100644 100644 aaaa bbbb a file.txt",
            b"1 AM N... 000000 100644 100644 aaaa bbbb b.txt",
            b"2 R. N... 100644 100644 100644 aaaa bbbb R100 new name",
            b"old\nname",
            b"u UU N... 100644 100644 100644 100644 aaaa bbbb cccc both.txt",
            b"? notes/",
            b"1 cut",
        ];
        Status::parse(&records.join(&0))
    }

    #[test]
    fn every_kind_of_record_is_told_under_its_group() {
        let expected = "on branch main, at commit 0123456789ab\nin conflict (1):\n  both modified: sub/both.txt\nstaged (3):\n  modified: \
                        sub/a file.txt\n  added: sub/b.txt\n  renamed: sub/old\\nname -> sub/new name\nchanged, not staged (1):\n  \
                        modified: sub/b.txt\nuntracked (1):\n  sub/notes/\n";
        assert_eq!(sample().text(Path::new("sub")), expected);
    }

    #[test]
    fn a_path_that_may_not_be_shown_takes_its_rename_along() {
        let mut status = sample();
        let withheld = status.withhold(|path| path != Path::new("old\nname") && path != Path::new("b.txt"));
        assert_eq!(withheld, 2);
        let text = status.text(Path::new(""));
        assert!(!text.contains("new name") && !text.contains("b.txt") && text.contains("a file.txt"), "{text}");
    }

    #[test]
    fn a_clean_tree_and_no_output_say_so() {
        assert_eq!(Status::parse(b"").text(Path::new("")), "nothing is changed and nothing is untracked\n");
        let initial = Status::parse(b"# branch.oid (initial)\0# branch.head main\0");
        assert_eq!(
            initial.text(Path::new("")),
            "on branch main, without commits yet\nnothing is changed and nothing is untracked\n"
        );
    }
}
