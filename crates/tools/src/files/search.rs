//! `files_search`: the lines of files that hold a text or match a regular expression.
//!
//! Line by line, so that no pattern can match across lines and every match has one line number; the
//! regex engine runs in linear time. Binary files are counted, not searched. The whole search has a
//! budget, and what it did not cover is said.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use fence::RuntimeWords;
use policy::{ActionKind, BadInput, Hidden, Operation, Proposal, RawResult};
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::json;
use vocab::StateEffect;

use super::content::{MAX_WHOLE, TEXT_PROBE, is_binary, text, whole_characters};
use super::node::Node;
use super::walk::{Entry, Left, Order, Walk};
use super::{Draft, FileTool, Given, Site};
use crate::definition::About;
use crate::execution::{Stop, partial};
use crate::{ToolError, show};

const DEFAULT_RESULTS: u64 = 200;
const MAX_RESULTS: u64 = 5000;
const DEPTH: u32 = 64;
/// Bytes that one search reads in all.
const BUDGET: u64 = 256 * 1024 * 1024;
/// Bytes of one line that are shown.
const MAX_LINE: usize = 400;
/// Bytes of matching lines that are shown in all.
const MAX_TEXT: usize = 512 * 1024;

/// The tool's arguments.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Search {
    query: String,
    path: Option<String>,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    ignore_case: bool,
    max_results: Option<u64>,
}

impl FileTool for Search {
    fn about() -> About<'static> {
        About {
            name: "files_search",
            kind: ActionKind::FilesSearch,
            state_effect: StateEffect::Read,
            description: "Searches files line by line for a text, or for a regular expression with `regex`. Results are \
                `path:line: text`. Binary files, links and the inside of `.git` directories are left out; long lines are cut. \
                At most 256 MiB are searched, and of one file the first 16 MiB.",
            properties: json!({
                "query": {"type": "string", "minLength": 1, "maxLength": 10000,
                    "description": "The text to find, taken literally unless `regex` is true."},
                "path": {"type": "string", "minLength": 1,
                    "description": "A file or directory, relative to the working directory. Default: the working directory."},
                "regex": {"type": "boolean", "description": "Take the query as a regular expression. Default false."},
                "ignoreCase": {"type": "boolean", "description": "Let upper and lower case match each other. Default false."},
                "maxResults": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS,
                    "description": "How many matching lines to show at most. Default 200."},
            }),
            required: &["query"],
        }
    }

    fn propose(self, mut draft: Draft) -> Result<Proposal, BadInput> {
        let pattern = self.pattern()?;
        let given = draft.path("path", self.path.as_deref().unwrap_or("."), &[Operation::Read])?;
        let max = self.max_results.unwrap_or(DEFAULT_RESULTS);
        Ok(draft.runs(move |site| {
            let found = Found { max, budget: BUDGET, ..Found::default() };
            Hunt { site, pattern: &pattern, found }.run(&given)
        }))
    }
}

impl Search {
    fn pattern(&self) -> Result<Regex, BadInput> {
        if self.query.contains(['\n', '\r']) && !self.regex {
            return Err(BadInput(RuntimeWords::new("`query` must be one line: files are searched line by line")));
        }
        let source = if self.regex { self.query.clone() } else { regex::escape(&self.query) };
        RegexBuilder::new(&source).case_insensitive(self.ignore_case).size_limit(4 << 20).build().map_err(|error| {
            let reason = match error {
                regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
                // The last line says what is wrong; those before it draw where.
                other => other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
            };
            BadInput(RuntimeWords::new("`query` is not a valid regular expression: ").echo(&reason))
        })
    }
}

#[derive(Debug, Default)]
struct Found {
    max: u64,
    budget: u64,
    lines: String,
    matches: u64,
    matched_files: u64,
    files: u64,
    bytes: u64,
    binary: u64,
    cut_files: u64,
    cut_lines: u64,
    full: bool,
    spent: bool,
}

struct Hunt<'a> {
    site: Site<'a>,
    pattern: &'a Regex,
    found: Found,
}

impl Hunt<'_> {
    fn run(mut self, given: &Given) -> Result<RawResult, Stop> {
        let start = self.site.find(given)?;
        let mut left = Left::default();
        if start.kind() == FileType::Directory {
            let walk = Walk { site: self.site, depth: DEPTH, order: Order::Depth };
            left = walk.run(&start, |entry, left| self.visit(&entry, left))?;
            if self.site.cancel.is_canceled() {
                return Err(ToolError::Canceled.into());
            }
        } else {
            self.node(&start, given.written())?;
        }
        Ok(self.found.tell(given, &left))
    }

    fn visit(&mut self, entry: &Entry, left: &mut Left) -> ControlFlow<()> {
        if entry.kind != FileType::RegularFile {
            return ControlFlow::Continue(());
        }
        if self.site.cancel.is_canceled() {
            return ControlFlow::Break(());
        }
        match self.site.root.node(&entry.below) {
            Ok(node) if node.kind() == FileType::RegularFile => match self.node(&node, &entry.path) {
                Ok(()) => {}
                Err(Stop::Denied(_)) => left.withheld += 1,
                Err(Stop::Failed(_)) => left.unreadable += 1,
            },
            // Gone or swapped since its directory was listed.
            Ok(_) | Err(_) => {}
        }
        if self.found.full || self.found.spent { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn node(&mut self, node: &Node, path: &Path) -> Result<(), Stop> {
        let mut file = node.open(&node.clear(self.site.permit)?)?;
        Ok(self.file(&mut file, path).map_err(|error| ToolError::io("read", path, error))?)
    }

    fn file(&mut self, file: &mut std::fs::File, path: &Path) -> std::io::Result<()> {
        use std::io::Read as _;
        let found = &mut self.found;
        let limit = MAX_WHOLE.min(found.budget);
        let mut bytes = Vec::new();
        // Of a binary file no more is read than shows that it is one: the budget is for text.
        file.take(limit.min(TEXT_PROBE)).read_to_end(&mut bytes)?;
        let binary = is_binary(&bytes);
        if !binary {
            // One byte more shows whether there is more.
            file.take((limit + 1).saturating_sub(bytes.len() as u64)).read_to_end(&mut bytes)?;
        }
        let whole = bytes.len() as u64 <= limit;
        let values = self.site.permit.values();
        if !whole {
            // What follows says what the last line is a part of.
            file.take(values.reach() as u64).read_to_end(&mut bytes)?;
        }
        let searched = bytes.get(..usize::try_from(limit).unwrap_or(usize::MAX)).unwrap_or(&bytes);
        found.budget -= searched.len() as u64;
        found.bytes += searched.len() as u64;
        found.files += 1;
        if binary {
            found.binary += 1;
            return Ok(());
        }
        if !whole {
            found.cut_files += 1;
        }
        found.spent = found.budget == 0;
        let before = found.matches;
        let name = show::path(path);
        let mut number: u64 = 0;
        let hidden = OnceCell::new();
        for line in Lines::of(searched) {
            number += 1;
            if let Some(at) = searched.get(line.clone()).and_then(|line| self.pattern.find(line)) {
                if found.matches == found.max || found.lines.len() >= MAX_TEXT {
                    found.full = true;
                    break;
                }
                found.matches += 1;
                let hidden = hidden.get_or_init(|| values.hidden(&bytes));
                let (shown, cut) = around((&bytes, hidden), line, at.start());
                found.cut_lines += u64::from(cut);
                // Writing to a string cannot fail.
                let _ = writeln!(found.lines, "{name}:{number}: {shown}");
            }
        }
        found.matched_files += u64::from(found.matches > before);
        Ok(())
    }
}

/// Where lines stand, without their endings.
struct Lines<'a> {
    text: &'a [u8],
    done: usize,
}

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self { text, done: 0 }
    }
}

impl Iterator for Lines<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = self.text.get(self.done..).filter(|rest| !rest.is_empty())?;
        let (start, length) = (self.done, memchr::memchr(b'\n', rest).unwrap_or(rest.len()));
        self.done += length + 1;
        let line = rest.get(..length).unwrap_or(rest);
        Some(start..start + line.strip_suffix(b"\r").unwrap_or(line).len())
    }
}

/// As much of a line of a file as is shown, with what is `at` a place of it in it, and whether that is less than all.
fn around((file, hidden): (&[u8], &Hidden), place: Range<usize>, at: usize) -> (String, bool) {
    let line = file.get(place.clone()).unwrap_or_default();
    if line.len() <= MAX_LINE {
        return (text(&hidden.piece(file, place)).0, false);
    }
    let start = at.saturating_sub(MAX_LINE / 4);
    // Not within a character.
    let start = (start..at).find(|&index| line.get(index).is_none_or(|byte| byte & 0xC0 != 0x80)).unwrap_or(at);
    let end = start.saturating_add(MAX_LINE).min(line.len());
    let piece = line.get(start..end).unwrap_or_default();
    let piece = piece.get(..whole_characters(piece)).unwrap_or(piece);
    let mut shown = String::new();
    if start > 0 {
        let _ = write!(shown, "[{} cut] ", show::bytes(start as u64));
    }
    let from = place.start + start;
    shown.push_str(&text(&hidden.piece(file, from..from + piece.len())).0);
    let behind = line.len() - start - piece.len();
    if behind > 0 {
        let _ = write!(shown, " [{} cut]", show::bytes(behind as u64));
    }
    (shown, true)
}

impl Found {
    fn tell(self, given: &Given, left: &Left) -> RawResult {
        let mut text = format!(
            "{} in {}; searched {} ({}) in `{}`.\n",
            show::count(self.matches, "matching line", "matching lines"),
            show::count(self.matched_files, "file", "files"),
            show::count(self.files - self.binary, "file", "files"),
            show::bytes(self.bytes),
            given.shown(),
        );
        text.push_str(&self.lines);
        let mut line = |number: u64, one: &str, many: &str| show::counted(&mut text, number, one, many);
        line(self.cut_lines, "long line is cut", "long lines are cut");
        line(self.binary, "binary file was not searched", "binary files were not searched");
        line(
            self.cut_files,
            "file was searched only in part: it is too large",
            "files were searched only in part: they are too large",
        );
        if self.full {
            text.push_str("Truncated: there are more matches. Narrow the query or the path, or raise `maxResults`.\n");
        }
        if self.spent {
            text.push_str("Truncated: the budget of bytes to search is used up. Narrow the path.\n");
        }
        text.push_str(&left.lines(DEPTH));
        let truncated = self.full || self.spent || self.cut_files > 0 || self.cut_lines > 0 || left.is_partial();
        partial(text, truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(query: &str, regex: bool, ignore_case: bool) -> Result<Regex, BadInput> {
        Search { query: query.into(), path: None, regex, ignore_case, max_results: None }.pattern()
    }

    #[test]
    fn a_query_is_literal_and_case_sensitive_unless_it_says_otherwise() {
        let cases = [
            ("a.c", false, false, "a.c", true),
            ("a.c", false, false, "abc", false),
            ("a.c", true, false, "abc", true),
            ("ABC", false, false, "abc", false),
            ("ABC", false, true, "abc", true),
            ("É", false, true, "é", true),
            (r"^\s+x$", true, false, "  x", true),
        ];
        for (text, regex, ignore_case, line, expected) in cases {
            assert_eq!(
                query(text, regex, ignore_case).unwrap().is_match(line.as_bytes()),
                expected,
                "{text} on {line}"
            );
        }
    }

    #[test]
    fn a_bad_expression_says_what_is_wrong() {
        let told = query("a(b", true, false).unwrap_err().0.into_string();
        assert_eq!(told, "`query` is not a valid regular expression: unclosed group");
        let told = query("a{1000}{1000}", true, false).unwrap_err().0.into_string();
        assert_eq!(told, "`query` is not a valid regular expression: it is too large");
        let told = query("a\nb", false, false).unwrap_err().0.into_string();
        assert_eq!(told, "`query` must be one line: files are searched line by line");
    }

    #[test]
    fn a_long_line_is_cut_around_its_match() {
        let line = format!("{}näh{}", "é".repeat(500), "x".repeat(1000));
        let at = line.find("näh").unwrap();
        let whole = |line: &str, at| around((line.as_bytes(), &Hidden::default()), 0..line.len(), at);
        let (shown, cut) = whole(&line, at);
        assert!(cut && shown.contains("näh") && !shown.contains('\u{fffd}'), "{shown}");
        assert!(shown.starts_with("[900 bytes cut] é") && shown.ends_with("x [704 bytes cut]"), "{shown}");
        assert_eq!(whole("short", 0), ("short".to_owned(), false));
    }

    #[test]
    fn lines_lose_their_endings_and_nothing_else() {
        let text = b"a\r\n\nb\rc\nd";
        let lines: Vec<&[u8]> = Lines::of(text).map(|line| &text[line]).collect();
        assert_eq!(lines, [&b"a"[..], b"", b"b\rc", b"d"]);
    }
}
