//! A diff cut into file sections, with every line accounted for.
//!
//! The diff parser skips lines that it does not know, between files above all; a hunk that is lost that
//! way was neither reviewed nor applied, and nobody is told. So each line is assigned here first: to a
//! preamble before the first section (a commit message), to a header, to a hunk by the hunk's own counts,
//! or to a mail signature at the end. Anything else is an error that names the line.

use super::PatchError;
use crate::files::excerpt;

/// One file's part of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section<'a> {
    /// Its text, for the parser.
    pub(super) text: &'a str,
    /// Its first line, from 1.
    pub(super) line: usize,
    /// What follows `diff --git `, if it begins so.
    pub(super) git: Option<&'a str>,
}

/// Extended header lines of git; the ones that name a binary change are refused before.
const HEADERS: &[&str] = &[
    "old mode ",
    "new mode ",
    "deleted file mode ",
    "new file mode ",
    "copy from ",
    "copy to ",
    "rename from ",
    "rename to ",
    "similarity index ",
    "dissimilarity index ",
    "index ",
];

/// Bytes of both names in a `diff --git` line: as long as paths get. The parser tries every blank in it.
const MAX_NAMES: usize = 2 * 4096 + 16;

/// Cuts a diff. Its last line must end in a newline.
pub(super) fn sections(text: &str) -> Result<Vec<Section<'_>>, PatchError> {
    let mut scan = Scan { text, at: 0, line: 1 };
    scan.preamble()?;
    let mut sections = Vec::new();
    loop {
        while scan.peek() == Some("") {
            scan.next();
        }
        if scan.peek().is_none() || scan.signature() {
            break;
        }
        sections.push(scan.section()?);
    }
    if sections.is_empty() { Err(PatchError::Empty) } else { Ok(sections) }
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next line without its newline.
    fn peek(&self) -> Option<&'a str> {
        let rest = self.rest();
        if rest.is_empty() { None } else { Some(rest.split_once('\n').map_or(rest, |(line, _)| line)) }
    }

    fn next(&mut self) {
        let rest = self.rest();
        self.at += memchr::memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end + 1);
        self.line += 1;
    }

    /// Whether a section begins here.
    fn begins(&self) -> bool {
        let Some(line) = self.peek() else { return false };
        line.starts_with("diff --git ") || self.names()
    }

    /// Whether a pair of `---` and `+++` lines stands here.
    fn names(&self) -> bool {
        let mut lines = self.rest().split('\n');
        lines.next().is_some_and(|line| line.starts_with("--- "))
            && lines.next().is_some_and(|line| line.starts_with("+++ "))
    }

    fn stray(&self, line: &str) -> PatchError {
        PatchError::Stray { line: self.line, text: excerpt(line.as_bytes()) }
    }

    fn preamble(&mut self) -> Result<(), PatchError> {
        while let Some(line) = self.peek() {
            if self.begins() {
                break;
            }
            // A hunk or a half header here belongs to a section whose beginning is missing.
            if line.starts_with("@@ ") || line.starts_with("+++ ") || line.starts_with("--- ") {
                return Err(self.stray(line));
            }
            self.next();
        }
        Ok(())
    }

    /// A mail signature, `-- ` and a version, which must be the end.
    fn signature(&self) -> bool {
        let mut lines = self.rest().split('\n');
        lines.next() == Some("-- ")
            && lines.next().is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
            && lines.all(str::is_empty)
    }

    fn section(&mut self) -> Result<Section<'a>, PatchError> {
        let (start, line) = (self.at, self.line);
        let git = self.peek().and_then(|line| line.strip_prefix("diff --git "));
        if let Some(names) = git {
            if names.len() > MAX_NAMES {
                return Err(PatchError::Name { line });
            }
            self.next();
            while let Some(header) = self.peek() {
                if header.starts_with("Binary files ") || header.starts_with("GIT binary patch") {
                    return Err(PatchError::Binary { line });
                }
                if !HEADERS.iter().any(|known| header.starts_with(known)) {
                    break;
                }
                self.next();
            }
        } else if !self.names() {
            return Err(self.stray(self.peek().unwrap_or_default()));
        }
        if self.names() {
            self.next();
            self.next();
            if !self.peek().is_some_and(|line| line.starts_with("@@")) {
                return Err(PatchError::NoHunk { line });
            }
        }
        while self.peek().is_some_and(|line| line.starts_with("@@")) {
            self.hunk()?;
        }
        Ok(Section { text: self.text.get(start..self.at).unwrap_or_default(), line, git })
    }

    fn hunk(&mut self) -> Result<(), PatchError> {
        let header = self.peek().unwrap_or_default();
        let line = self.line;
        let Some(says) = counts(header) else {
            return Err(PatchError::HunkHeader { line, text: excerpt(header.as_bytes()) });
        };
        self.next();
        let mut has = (0, 0);
        while has.0 < says.0 || has.1 < says.1 {
            match self.peek().filter(|_| !self.ends_hunk()) {
                Some(body) => self.body(body, &mut has)?,
                None => return Err(PatchError::HunkCounts { line, says, has }),
            }
            if has.0 > says.0 || has.1 > says.1 {
                return Err(self.miscount(line, says, has));
            }
        }
        if self.peek().is_some_and(|line| line.starts_with('\\')) {
            self.next();
        }
        // More of the hunk than its header says?
        let more =
            self.peek().is_some_and(|line| line.starts_with([' ', '+', '-'])) && !self.begins() && !self.signature();
        if more { Err(self.miscount(line, says, has)) } else { Ok(()) }
    }

    /// Whether the next line cannot belong to a hunk any more.
    fn ends_hunk(&self) -> bool {
        self.peek().is_none_or(|line| line.starts_with("@@ ") || line.starts_with("diff --git "))
    }

    fn body(&mut self, line: &str, has: &mut (usize, usize)) -> Result<(), PatchError> {
        match line.as_bytes().first() {
            Some(b' ') | None => *has = (has.0 + 1, has.1 + 1),
            Some(b'-') => has.0 += 1,
            Some(b'+') => has.1 += 1,
            Some(b'\\') => {}
            Some(_) => return Err(PatchError::HunkLine { line: self.line, text: excerpt(line.as_bytes()) }),
        }
        self.next();
        Ok(())
    }

    /// The error of a hunk that goes on: counts what is left of it.
    fn miscount(&mut self, line: usize, says: (usize, usize), mut has: (usize, usize)) -> PatchError {
        while let Some(body) = self.peek() {
            if self.ends_hunk() || self.begins() || self.signature() || !body.starts_with([' ', '+', '-', '\\']) {
                break;
            }
            if self.body(body, &mut has).is_err() {
                break;
            }
        }
        PatchError::HunkCounts { line, says, has }
    }
}

/// The lengths in `@@ -1,2 +3,4 @@ anything`.
fn counts(header: &str) -> Option<(usize, usize)> {
    let ranges = header.strip_prefix("@@ -")?;
    let (ranges, _) = ranges.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let length = |range: &str| match range.split_once(',') {
        Some((start, length)) => start.parse::<usize>().ok().and(length.parse().ok()),
        None => range.parse::<usize>().ok().map(|_| 1),
    };
    Some((length(old)?, length(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<Vec<(usize, usize)>, PatchError> {
        let sections = sections(text)?;
        Ok(sections.iter().map(|section| (section.line, section.text.lines().count())).collect())
    }

    const PLAIN: &str = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";

    #[test]
    fn sections_are_cut_where_the_counts_say() {
        assert_eq!(lines(PLAIN), Ok(vec![(1, 6)]));
        assert_eq!(lines(&format!("A message.\n\n{PLAIN}{PLAIN}")), Ok(vec![(3, 6), (9, 6)]));
        assert_eq!(
            lines(&format!("{PLAIN}\n\ndiff --git a/y b/y\nold mode 100644\nnew mode 100755\n\n")),
            Ok(vec![(1, 6), (9, 3)])
        );
        assert_eq!(lines(&format!("{PLAIN}-- \n2.47.3\n\n")), Ok(vec![(1, 6)]));
        // Removed and added lines that look like headers belong to the hunk.
        let tricky = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-@@ -1 +1 @@\n+++ b/y\n+diff --git\n";
        assert_eq!(lines(tricky), Ok(vec![(1, 7)]));
        let unended =
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n";
        assert_eq!(lines(unended), Ok(vec![(1, 7)]));
        // An empty context line whose blank was lost on the way.
        assert_eq!(lines("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n"), Ok(vec![(1, 7)]));
    }

    #[test]
    fn lines_that_belong_nowhere_are_errors() {
        let stray = |line, text: &str| Err(PatchError::Stray { line, text: text.to_owned() });
        assert_eq!(lines(&format!("{PLAIN}garbage\n{PLAIN}")), stray(7, "garbage"));
        assert_eq!(lines(&format!("{PLAIN}\n*** End Patch\n")), stray(8, "*** End Patch"));
        assert_eq!(lines("@@ -1 +1 @@\n-a\n+b\n"), stray(1, "@@ -1 +1 @@"));
        assert_eq!(lines("--- a/x\n@@ -1 +1 @@\n-a\n+b\n"), stray(1, "--- a/x"));
        assert_eq!(lines("just words\n"), Err(PatchError::Empty));
        assert_eq!(lines(""), Err(PatchError::Empty));
        assert_eq!(lines("--- a/x\n+++ b/x\n"), Err(PatchError::NoHunk { line: 1 }));
    }

    #[test]
    fn names_longer_than_paths_get_are_no_names() {
        let header = |names: usize| format!("diff --git {}\nold mode 100644\nnew mode 100755\n", " ".repeat(names));
        assert_eq!(lines(&header(MAX_NAMES)), Ok(vec![(1, 3)]));
        assert_eq!(lines(&header(MAX_NAMES + 1)), Err(PatchError::Name { line: 1 }));
    }

    #[test]
    fn wrong_counts_are_told_with_the_right_ones() {
        let head = "--- a/x\n+++ b/x\n";
        let counts = |says, has| Err(PatchError::HunkCounts { line: 3, says, has });
        assert_eq!(lines(&format!("{head}@@ -1,9 +1,9 @@\n a\n-b\n+c\n")), counts((9, 9), (2, 2)));
        assert_eq!(lines(&format!("{head}@@ -1,1 +1,1 @@\n-a\n+b\n c\n d\n")), counts((1, 1), (3, 3)));
        assert_eq!(lines(&format!("{head}@@ -1,2 +1,2 @@\n a\n-b\n+c\n+d\n{PLAIN}")), counts((2, 2), (2, 3)));
        assert_eq!(lines(&format!("{head}@@ -1,3 +1,3 @@\n a\n{PLAIN}")), counts((3, 3), (2, 2)));
        let line = PatchError::HunkLine { line: 5, text: "b".to_owned() };
        assert_eq!(lines(&format!("{head}@@ -1,3 +1,3 @@\n a\nb\n c\n")), Err(line));
        for header in ["@@ @@", "@@ -1 +1", "@@ -a +b @@", "@@ -1,2 3,4 @@", "@@@ -1 -1 +1 @@@"] {
            let error = PatchError::HunkHeader { line: 3, text: header.to_owned() };
            assert_eq!(lines(&format!("{head}{header}\n a\n")), Err(error), "{header}");
        }
    }
}
