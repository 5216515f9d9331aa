//! `files_inspect`: what something is, without showing it.
//!
//! A link is told as a link, with its target if that is inside; then comes what it leads to. A FIFO,
//! socket or device is told by its kind and never opened.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use policy::{Action, ActionKind, BadInput, Effect, Operation, Permit, Proposal, RawResult, Tool};
use rustix::fs::{FileType, OFlags};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use super::content::{LineEndings, MAX_WHOLE, is_binary, kind_of};
use super::list::target;
use super::node::{Node, kind_words};
use super::time::utc;
use super::{Given, Root};
use crate::definition::Definition;
use crate::execution::{Stop, blocking};
use crate::{ToolError, show};

/// The tool.
#[derive(Debug)]
pub(crate) struct Inspect {
    definition: Definition,
    root: Arc<Root>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    file_path: String,
}

impl Inspect {
    pub(crate) fn new(root: Arc<Root>) -> Self {
        let description = "Describes a file, directory or link without showing its content: kind, size, times, mode, hard \
            links, encoding, line endings and number of lines.";
        let properties = json!({
            "filePath": {"type": "string", "minLength": 1, "description": "What to describe, relative to the working directory."},
        });
        let definition = Definition::new("files_inspect", StateEffect::Read, description, properties, &["filePath"]);
        Self { definition, root }
    }
}

impl Tool for Inspect {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let input: Input = self.definition.read(input)?;
        let given = Given::new(&self.root, "filePath", &input.file_path)?;
        let action = Action::new(call_id, "files_inspect", ActionKind::FilesInspect)
            .with(Effect::path(Operation::Read, given.absolute()));
        let root = Arc::clone(&self.root);
        Ok(Proposal { action, execution: blocking(move |permit, _| run(&root, &given, permit)) })
    }
}

fn run(root: &Root, given: &Given, permit: &Permit) -> Result<RawResult, Stop> {
    let mut text = format!("`{}`\n", given.shown());
    if let Some(link) = link(root, given, permit) {
        let _ = writeln!(text, "link: {link}");
    }
    let node = root.find(given, permit, Operation::Read)?;
    let cleared = node.clear(permit, Operation::Read)?;
    let kind = kind_words(node.kind());
    let _ = writeln!(text, "kind: {}", kind.trim_start_matches("a "));
    describe(&mut text, &node);
    match node.kind() {
        FileType::RegularFile => {
            let mut file = node.open(&cleared)?;
            content(&mut text, &mut file, node.size())
                .map_err(|error| ToolError::io("read", given.written(), error))?;
        }
        FileType::Directory => {
            let entries =
                node.entries(&cleared)?.filter_map(Result::ok).map(|entry| entry.file_name().to_bytes().to_vec());
            let visible = entries.filter(|name| name != b"." && name != b"..").filter(|name| {
                permit.confirm_path(Operation::Read, &node.real().join(OsStr::from_bytes(name))).is_ok()
            });
            let _ = writeln!(text, "entries: {}", visible.count());
        }
        _ => {}
    }
    Ok(RawResult::ok(text))
}

/// Where the path's last component leads, if it is a link.
fn link(root: &Root, given: &Given, permit: &Permit) -> Option<String> {
    let below = root.below(given.absolute())?;
    let held = root.beneath(&below, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
    let stat = rustix::fs::fstat(&held).ok()?;
    let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    is_link.then(|| {
        target(root, &below, permit).map_or_else(|| "symbolic link".to_owned(), |end| format!("symbolic link to {end}"))
    })
}

fn describe(text: &mut String, node: &Node) {
    let stat = node.stat();
    if node.kind() == FileType::RegularFile {
        let _ = writeln!(text, "size: {}", show::bytes(node.size()));
    }
    let _ = writeln!(text, "mode: {:04o}", stat.st_mode & 0o7777);
    let _ = writeln!(text, "modified: {}", utc(stat.st_mtime));
    let _ = writeln!(text, "changed: {}", utc(stat.st_ctime));
    let _ = writeln!(text, "accessed: {}", utc(stat.st_atime));
    let _ = writeln!(text, "hard links: {}", stat.st_nlink);
}

fn content(text: &mut String, file: &mut std::fs::File, size: u64) -> std::io::Result<()> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    file.take(MAX_WHOLE).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        text.push_str("content: empty\n");
        return Ok(());
    }
    if is_binary(&bytes) {
        let _ = writeln!(text, "content: binary ({})", kind_of(&bytes));
        return Ok(());
    }
    let whole = size <= bytes.len() as u64;
    let part = if whole { "" } else { " (of the first 16777216 bytes)" };
    let _ = writeln!(text, "encoding: {}{part}", encoding(&bytes, whole));
    let endings = LineEndings::of(&bytes);
    let unended = bytes.last() != Some(&b'\n');
    let lines = endings.lf + endings.crlf + u64::from(unended);
    let last = if unended && whole { ", the last without a newline" } else { "" };
    let _ = writeln!(text, "lines: {lines}{last}{part}");
    let _ = writeln!(text, "line endings: {}{part}", endings.words());
    Ok(())
}

fn encoding(bytes: &[u8], whole: bool) -> &'static str {
    let bytes = if whole { bytes } else { bytes.get(..super::content::whole_characters(bytes)).unwrap_or(bytes) };
    if bytes.is_ascii() {
        "ASCII"
    } else if std::str::from_utf8(bytes).is_err() {
        "not UTF-8"
    } else if bytes.starts_with(b"\xef\xbb\xbf") {
        "UTF-8 with byte order mark"
    } else {
        "UTF-8"
    }
}
