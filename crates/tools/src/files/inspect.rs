//! `files_inspect`: what something is, without showing it.
//!
//! A link is told as a link, with its target if that is inside; then comes what it leads to. A FIFO,
//! socket or device is told by its kind and never opened.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use policy::{ActionKind, BadInput, Operation, Proposal, RawResult};
use rustix::fs::{FileType, OFlags};
use serde::Deserialize;
use serde_json::json;
use vocab::{StateEffect, rfc3339_seconds};

use super::content::{LineEndings, MAX_WHOLE, is_binary, kind_of, whole_characters};
use super::list::target;
use super::node::{Node, kind_words};
use super::{Draft, FileTool, Given, Site};
use crate::definition::About;
use crate::execution::Stop;
use crate::{ToolError, show};

/// The tool's arguments.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inspect {
    file_path: String,
}

impl FileTool for Inspect {
    fn about() -> About<'static> {
        About {
            name: "files_inspect",
            kind: ActionKind::FilesInspect,
            state_effect: StateEffect::Read,
            description: "Describes a file, directory or link without showing its content: kind, size, times, mode, hard \
                links, encoding, line endings and number of lines.",
            properties: json!({
                "filePath": {"type": "string", "minLength": 1, "description": "What to describe, relative to the working directory."},
            }),
            required: &["filePath"],
        }
    }

    fn propose(self, mut draft: Draft) -> Result<Proposal, BadInput> {
        let given = draft.path("filePath", &self.file_path, &[Operation::Read])?;
        Ok(draft.runs(move |site| inspect(site, &given)))
    }
}

fn inspect(site: Site<'_>, given: &Given) -> Result<RawResult, Stop> {
    let mut text = format!("`{}`\n", given.shown());
    if let Some(link) = link(site, given) {
        let _ = writeln!(text, "link: {link}");
    }
    let node = site.find(given)?;
    let cleared = node.clear(site.permit)?;
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
                site.permit.confirm_path(Operation::Read, &node.real().join(OsStr::from_bytes(name))).is_ok()
            });
            let _ = writeln!(text, "entries: {}", visible.count());
        }
        _ => {}
    }
    Ok(RawResult::ok(text))
}

/// Where the path's last component leads, if it is a link.
fn link(site: Site<'_>, given: &Given) -> Option<String> {
    let below = site.root.below(given.absolute())?;
    let held = site.root.beneath(&below, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
    let stat = rustix::fs::fstat(&held).ok()?;
    let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    is_link.then(|| {
        target(site, &below).map_or_else(|| "symbolic link".to_owned(), |end| format!("symbolic link to {end}"))
    })
}

fn describe(text: &mut String, node: &Node) {
    let stat = node.stat();
    if node.kind() == FileType::RegularFile {
        let _ = writeln!(text, "size: {}", show::bytes(node.size()));
    }
    let _ = writeln!(text, "mode: {:04o}", stat.st_mode & 0o7777);
    let _ = writeln!(text, "modified: {}", rfc3339_seconds(stat.st_mtime));
    let _ = writeln!(text, "changed: {}", rfc3339_seconds(stat.st_ctime));
    let _ = writeln!(text, "accessed: {}", rfc3339_seconds(stat.st_atime));
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
    let bytes = if whole { bytes } else { bytes.get(..whole_characters(bytes)).unwrap_or(bytes) };
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
