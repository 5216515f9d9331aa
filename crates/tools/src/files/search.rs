//! `files_search`: the lines of files that hold a text or match a regular expression.
//!
//! Line by line, so that no pattern can match across lines and every match has one line number; the
//! regex engine runs in linear time. Binary files are counted, not searched. The whole search has a
//! budget, and what it did not cover is said.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use fence::RuntimeWords;
use policy::{Action, ActionKind, BadInput, Cancel, Effect, Facts, Operation, Permit, Proposal, RawResult, Tool};
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use super::content::{MAX_WHOLE, is_binary, text};
use super::node::Node;
use super::walk::{Entry, Left, Order, Walk};
use super::{Given, Root};
use crate::definition::Definition;
use crate::execution::{Stop, blocking};
use crate::show;

const DEFAULT_RESULTS: u64 = 200;
const MAX_RESULTS: u64 = 5000;
const DEPTH: u32 = 64;
/// Bytes that one search reads in all.
const BUDGET: u64 = 256 * 1024 * 1024;
/// Bytes of one line that are shown.
const MAX_LINE: usize = 400;
/// Bytes of matching lines that are shown in all.
const MAX_TEXT: usize = 512 * 1024;

/// The tool.
#[derive(Debug)]
pub(crate) struct Search {
    definition: Definition,
    root: Arc<Root>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    query: String,
    path: Option<String>,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    ignore_case: bool,
    max_results: Option<u64>,
}

impl Search {
    pub(crate) fn new(root: Arc<Root>) -> Self {
        let description = "Searches files line by line for a text, or for a regular expression with `regex`. Results are \
            `path:line: text`. Binary files, links and the inside of `.git` directories are left out; long lines are cut. \
            At most 256 MiB are searched, and of one file the first 16 MiB.";
        let properties = json!({
            "query": {"type": "string", "minLength": 1, "maxLength": 10000,
                "description": "The text to find, taken literally unless `regex` is true."},
            "path": {"type": "string", "minLength": 1,
                "description": "A file or directory, relative to the working directory. Default: the working directory."},
            "regex": {"type": "boolean", "description": "Take the query as a regular expression. Default false."},
            "ignoreCase": {"type": "boolean", "description": "Let upper and lower case match each other. Default false."},
            "maxResults": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS,
                "description": "How many matching lines to show at most. Default 200."},
        });
        Self {
            definition: Definition::new("files_search", StateEffect::Read, description, properties, &["query"]),
            root,
        }
    }
}

impl Tool for Search {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let input: Input = self.definition.read(input)?;
        let pattern = pattern(&input)?;
        let given = Given::new(&self.root, "path", input.path.as_deref().unwrap_or("."))?;
        let action = Action::new(call_id, "files_search", ActionKind::FilesSearch)
            .with(Effect::path(Operation::Read, given.absolute()));
        let root = Arc::clone(&self.root);
        let max = input.max_results.unwrap_or(DEFAULT_RESULTS);
        let work = move |permit: &Permit, cancel: &Cancel| {
            let found = Found { max, budget: BUDGET, ..Found::default() };
            Hunt { root: &root, permit, cancel, pattern: &pattern, found }.run(&given)
        };
        Ok(Proposal { action, execution: blocking(work) })
    }
}

fn pattern(input: &Input) -> Result<Regex, BadInput> {
    if input.query.contains(['\n', '\r']) && !input.regex {
        return Err(BadInput(RuntimeWords::new("`query` must be one line: files are searched line by line")));
    }
    let source = if input.regex { input.query.clone() } else { regex::escape(&input.query) };
    RegexBuilder::new(&source).case_insensitive(input.ignore_case).size_limit(4 << 20).build().map_err(|error| {
        let reason = match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            // The last line says what is wrong; those before it draw where.
            other => other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
        };
        BadInput(RuntimeWords::new("`query` is not a valid regular expression: ").echo(&reason))
    })
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
    root: &'a Root,
    permit: &'a Permit,
    cancel: &'a Cancel,
    pattern: &'a Regex,
    found: Found,
}

impl Hunt<'_> {
    fn run(mut self, given: &Given) -> Result<RawResult, Stop> {
        let start = self.root.find(given, self.permit, Operation::Read)?;
        let left = if start.kind() == FileType::Directory {
            let walk =
                Walk { root: self.root, permit: self.permit, cancel: self.cancel, depth: DEPTH, order: Order::Depth };
            let left = walk.run(&start, |entry, left| self.visit(&entry, left))?;
            if self.cancel.is_canceled() {
                return Err(crate::ToolError::Canceled.into());
            }
            left
        } else {
            let cleared = start.clear(self.permit, Operation::Read)?;
            let mut file = start.open(&cleared)?;
            self.file(&mut file, given.written())
                .map_err(|error| crate::ToolError::io("read", given.written(), error))?;
            Left::default()
        };
        Ok(self.found.tell(given, &left))
    }

    fn visit(&mut self, entry: &Entry, left: &mut Left) -> ControlFlow<()> {
        if entry.kind != FileType::RegularFile {
            return ControlFlow::Continue(());
        }
        if self.cancel.is_canceled() {
            return ControlFlow::Break(());
        }
        match self.root.node(&entry.below) {
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
        let cleared = node.clear(self.permit, Operation::Read)?;
        let mut file = node.open(&cleared)?;
        self.file(&mut file, path).map_err(|error| crate::ToolError::io("read", path, error).into())
    }

    fn file(&mut self, file: &mut std::fs::File, path: &Path) -> std::io::Result<()> {
        use std::io::Read as _;
        let found = &mut self.found;
        let limit = MAX_WHOLE.min(found.budget);
        let mut bytes = Vec::new();
        // One byte more shows whether there is more.
        file.take(limit + 1).read_to_end(&mut bytes)?;
        let whole = bytes.len() as u64 <= limit;
        bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        found.budget -= bytes.len() as u64;
        found.bytes += bytes.len() as u64;
        found.files += 1;
        if is_binary(&bytes) {
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
        for line in Lines(&bytes) {
            number += 1;
            if let Some(at) = self.pattern.find(line) {
                if found.matches == found.max || found.lines.len() >= MAX_TEXT {
                    found.full = true;
                    break;
                }
                found.matches += 1;
                let (shown, cut) = around(line, at.start());
                found.cut_lines += u64::from(cut);
                // Writing to a string cannot fail.
                let _ = writeln!(found.lines, "{name}:{number}: {shown}");
            }
        }
        found.matched_files += u64::from(found.matches > before);
        Ok(())
    }
}

/// Lines without their endings.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', self.0).unwrap_or(self.0.len());
        let (line, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// As much of a line as is shown, with the match in it, and whether that is less than all.
fn around(line: &[u8], at: usize) -> (String, bool) {
    if line.len() <= MAX_LINE {
        return (text(line).0, false);
    }
    let start = at.saturating_sub(MAX_LINE / 4);
    // Not within a character.
    let start = (start..at).find(|&index| line.get(index).is_none_or(|byte| byte & 0xC0 != 0x80)).unwrap_or(at);
    let end = start.saturating_add(MAX_LINE).min(line.len());
    let piece = line.get(start..end).unwrap_or_default();
    let piece = piece.get(..super::content::whole_characters(piece)).unwrap_or(piece);
    let mut shown = String::new();
    if start > 0 {
        let _ = write!(shown, "[{} cut] ", show::bytes(start as u64));
    }
    shown.push_str(&text(piece).0);
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
        let mut line = |number: u64, one: &str, many: &str| {
            if number > 0 {
                text.push_str(&show::count(number, one, many));
                text.push('\n');
            }
        };
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
        RawResult::ok(text).with_facts(Facts { truncated, ..Facts::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(query: &str, regex: bool, ignore_case: bool) -> Result<Regex, BadInput> {
        pattern(&Input { query: query.into(), path: None, regex, ignore_case, max_results: None })
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
        let (shown, cut) = around(line.as_bytes(), at);
        assert!(cut && shown.contains("näh") && !shown.contains('\u{fffd}'), "{shown}");
        assert!(shown.starts_with("[900 bytes cut] é") && shown.ends_with("x [704 bytes cut]"), "{shown}");
        assert_eq!(around(b"short", 0), ("short".to_owned(), false));
    }

    #[test]
    fn lines_lose_their_endings_and_nothing_else() {
        let lines: Vec<&[u8]> = Lines(b"a\r\n\nb\rc\nd").collect();
        assert_eq!(lines, [&b"a"[..], b"", b"b\rc", b"d"]);
    }
}
