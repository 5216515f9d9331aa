//! Why a diff cannot be read or applied, in words that let the agent write a better one.

use std::fmt;

/// A diff that cannot be read or applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// No file section in it.
    #[error("the patch holds no file section")]
    Empty,
    /// A line that belongs to nothing: not skipped, because what is skipped is not reviewed.
    #[error("line {line} of the patch belongs to no file section: `{text}`")]
    Stray {
        /// Its number, from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// A section that changes nothing.
    #[error("the section on line {line} of the patch has no hunk and changes nothing else")]
    NoHunk {
        /// The section's first line, from 1.
        line: usize,
    },
    /// A hunk header that cannot be read.
    #[error("line {line} of the patch is not a hunk header of the form `@@ -1,3 +1,4 @@`: `{text}`")]
    HunkHeader {
        /// Its number, from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// A hunk whose header counts other lines than it has.
    #[error(
        "the hunk on line {line} of the patch says {} old and {} new lines but has {} and {}",
        says.0, says.1, has.0, has.1
    )]
    HunkCounts {
        /// The header's number, from 1.
        line: usize,
        /// Old and new lines by the header.
        says: (usize, usize),
        /// Old and new lines that follow.
        has: (usize, usize),
    },
    /// A line of a hunk that is neither context nor a change.
    #[error("line {line} of the patch, inside a hunk, begins with none of ` `, `-`, `+`: `{text}`")]
    HunkLine {
        /// Its number, from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// A section that the parser refuses for a reason of its own.
    #[error("the section on line {line} of the patch cannot be read: {reason}")]
    Section {
        /// The section's first line, from 1.
        line: usize,
        /// The parser's words.
        reason: String,
    },
    /// A binary change.
    #[error("the section on line {line} of the patch changes a binary file")]
    Binary {
        /// The section's first line, from 1.
        line: usize,
    },
    /// A symbolic link or a submodule.
    #[error("the section on line {line} of the patch is for a {kind}, not for a regular file")]
    SpecialFile {
        /// The section's first line, from 1.
        line: usize,
        /// `symbolic link` or `submodule`.
        kind: &'static str,
    },
    /// A name that no file can have.
    #[error("the section on line {line} of the patch names no usable path")]
    Name {
        /// The section's first line, from 1.
        line: usize,
    },
    /// Headers that name different files without saying rename or copy.
    #[error("the section on line {line} of the patch names two files, `{old}` and `{new}`")]
    TwoNames {
        /// The section's first line, from 1.
        line: usize,
        /// The one.
        old: String,
        /// The other.
        new: String,
    },
    /// Two sections that want different things of one file.
    #[error("two sections of the patch change `{path}`")]
    Twice {
        /// The file.
        path: String,
    },
    /// One section wants a file where another needs a directory.
    #[error("the patch wants a file at `{file}` and another below it, at `{below}`")]
    FileAndDirectory {
        /// The one.
        file: String,
        /// The other.
        below: String,
    },
    /// A new file whose name is taken.
    #[error("the patch creates `{path}`, which exists already")]
    Exists {
        /// The file.
        path: String,
    },
    /// A deletion that would lose lines which the patch does not show.
    #[error("the patch deletes `{path}` but does not show all its lines")]
    DeletionLeavesLines {
        /// The file.
        path: String,
    },
    /// A hunk that does not fit.
    #[error("hunk {hunk} of `{path}` does not apply: {misfit}")]
    Misfit {
        /// The file.
        path: String,
        /// Which hunk of the file, from 1.
        hunk: usize,
        /// Why.
        misfit: Misfit,
    },
    /// All files together are too large to hold in memory.
    #[error("the files that the patch changes have more than {limit} bytes together")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
}

/// Why a hunk does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// A line differs.
    Differs {
        /// The file's line, from 1.
        line: usize,
        /// What the hunk has.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// The lines differ in white space alone.
    WhiteSpace {
        /// The file's line, from 1.
        line: usize,
        /// The hunk's line, white space made visible.
        expected: String,
        /// The file's line, the same way.
        found: String,
    },
    /// The same line with and without a newline at the end of the file.
    Newline {
        /// The file's line, from 1.
        line: usize,
    },
    /// The file ends before the hunk does.
    Ends {
        /// How many lines the file has.
        lines: usize,
        /// What the hunk has where the file has ended.
        expected: String,
    },
    /// It fits at several places, none of them where its header says.
    Ambiguous {
        /// Two of the lines, from 1.
        lines: (usize, usize),
    },
    /// What it would do is there already.
    Applied {
        /// The file's line, from 1.
        line: usize,
    },
    /// The file is too repetitive to look for its place.
    Costly,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { line, expected, found } => {
                write!(f, "line {line} of the file is `{found}` where the hunk has `{expected}`")
            }
            Self::WhiteSpace { line, expected, found } => {
                write!(f, "line {line} of the file differs in white space: it is `{found}`, the hunk has `{expected}`")
            }
            Self::Newline { line } => write!(
                f,
                "line {line}, the last, has no newline in one of file and hunk: `\\ No newline at end of file` must follow \
                 that line in the hunk exactly when the file has none"
            ),
            Self::Ends { lines, expected } => {
                write!(f, "the file has only {lines} lines; the hunk goes on with `{expected}`")
            }
            Self::Ambiguous { lines: (one, other) } => write!(
                f,
                "not on the line that its header says, but both from line {one} and from line {other}; give the right line or more context"
            ),
            Self::Applied { line } => write!(f, "what it makes is there already, from line {line} on"),
            Self::Costly => {
                f.write_str("not on the line that its header says, and the file is too repetitive to look elsewhere")
            }
        }
    }
}

impl PatchError {
    /// What to do about it, where that can be said.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty => {
                Some("a section begins with `diff --git a/path b/path`, or with `--- a/path` and `+++ b/path`")
            }
            Self::Stray { .. } => {
                Some("leave out what is not part of the diff, and check the counts in the `@@` line before it")
            }
            Self::HunkHeader { .. } | Self::HunkCounts { .. } => {
                Some("the two numbers after the commas count the lines with ` ` or `-`, and those with ` ` or `+`")
            }
            Self::HunkLine { .. } => Some("an unchanged line begins with one blank"),
            Self::Binary { .. } => Some("binary patches are not applied"),
            Self::SpecialFile { .. } => Some("patches change regular files only"),
            Self::TwoNames { .. } => {
                Some("name the same file twice, or use `rename from` and `rename to` under a `diff --git` line")
            }
            Self::Twice { .. } => Some("put all hunks of one file into one section"),
            Self::FileAndDirectory { .. } => Some("do it in two patches, the deletion first"),
            Self::Exists { .. } => Some("change it with hunks that match its lines"),
            Self::DeletionLeavesLines { .. } => Some("read the file again and list every line of it with `-`"),
            Self::Misfit { misfit: Misfit::Applied { .. }, .. } => Some("nothing was changed; leave this hunk out"),
            Self::Misfit { .. } => Some("nothing was changed; read the file again and make the hunk from what it has"),
            Self::NoHunk { .. } | Self::Section { .. } | Self::Name { .. } | Self::TooLarge { .. } => None,
        }
    }
}
