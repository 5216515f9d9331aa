//! `files_read`: a file's bytes as text.
//!
//! The first line says what is shown of how much; the content follows it byte for byte. A binary file
//! is described instead, unless the agent asks for a range of it: then the bytes stand in hexadecimal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use policy::{ActionKind, BadInput, Hidden, Operation, Proposal, ProtectedValues, RawResult};
use serde::Deserialize;
use serde_json::json;
use vocab::StateEffect;

use super::content::{is_binary, kind_of, text, whole_characters};
use super::node::Identity;
use super::{Draft, FileTool, Given, Site};
use crate::definition::About;
use crate::execution::{Stop, partial};
use crate::{ToolError, show};

const DEFAULT_BYTES: u64 = 512_000;
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Of a binary file, as much as is shown in hexadecimal at once.
const MAX_HEX: u64 = 16 * 1024;

/// The tool's arguments.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Read {
    file_path: String,
    offset_bytes: Option<u64>,
    max_bytes: Option<u64>,
}

impl FileTool for Read {
    fn about() -> About<'static> {
        About {
            name: "files_read",
            kind: ActionKind::FilesRead,
            state_effect: StateEffect::Read,
            description: "Reads a file as UTF-8 text. The first line of the result states the size, how many bytes are shown \
                and, when there is more, the offset to read on from. A binary file is described, not shown; with an explicit \
                range its bytes are shown in hexadecimal.",
            properties: json!({
                "filePath": {"type": "string", "minLength": 1, "description": "The file, relative to the working directory."},
                "offsetBytes": {"type": "integer", "minimum": 0, "description": "The first byte to show. Default 0."},
                "maxBytes": {"type": "integer", "minimum": 1, "maximum": MAX_BYTES,
                    "description": "How many bytes to show at most. Default 512000."},
            }),
            required: &["filePath"],
        }
    }

    fn propose(self, mut draft: Draft) -> Result<Proposal, BadInput> {
        let file = draft.path("filePath", &self.file_path, &[Operation::Read])?;
        let range = Range {
            explicit: self.offset_bytes.is_some() || self.max_bytes.is_some(),
            offset: self.offset_bytes.unwrap_or(0),
            max: self.max_bytes.unwrap_or(DEFAULT_BYTES),
        };
        Ok(draft.runs(move |site| read(site, &file, range)))
    }
}

#[derive(Debug, Clone, Copy)]
struct Range {
    explicit: bool,
    offset: u64,
    max: u64,
}

fn read(site: Site<'_>, given: &Given, range: Range) -> Result<RawResult, Stop> {
    let node = site.find(given)?;
    let cleared = node.clear(site.permit)?;
    let file = node.open(&cleared)?;
    let failed = |error| ToolError::io("read", given.written(), error);
    let bytes = read_range(&file, range.offset, range.max).map_err(failed)?;
    let around = Around::read(site.permit.values(), &file, range.offset, &bytes).map_err(failed)?;
    let after = rustix::fs::fstat(&file).map_err(|errno| ToolError::os("read", given.written(), errno))?;
    let changed = Identity::of(&after) != node.identity();
    let size = u64::try_from(after.st_size).unwrap_or(0);
    let shown = if bytes.is_empty() { size == 0 } else { range.explicit || !is_binary(&bytes) };
    if shown && !changed {
        site.permit.saw(&cleared, node.identity().stamp());
    }
    Ok(tell(&Seen { given, range, size, changed, around }, &bytes))
}

/// What was read together with what stands around it in the file, which says what its ends go through.
struct Around {
    window: Vec<u8>,
    /// Where in it that begins which was read.
    start: usize,
    hidden: Hidden,
}

impl Around {
    fn read(values: &ProtectedValues, file: &File, offset: u64, bytes: &[u8]) -> std::io::Result<Self> {
        let reach = values.reach() as u64;
        let first = offset.saturating_sub(reach);
        let mut window = read_range(file, first, offset - first)?;
        let start = window.len();
        window.extend_from_slice(bytes);
        window.extend(read_range(file, offset.saturating_add(bytes.len() as u64), reach)?);
        let hidden = values.hidden(&window);
        Ok(Self { window, start, hidden })
    }

    /// The first `length` bytes of what was read, as far as they can be shown.
    fn text(&self, length: usize) -> Cow<'_, [u8]> {
        self.hidden.piece(&self.window, self.start..self.start + length)
    }

    /// The same byte by byte; nothing where one must not be shown.
    fn bytes(&self, length: usize) -> Vec<Option<u8>> {
        let place = |at| self.window.get(at).copied().filter(|_| !self.hidden.covers(at));
        (self.start..self.start + length).map(place).collect()
    }
}

/// As many bytes from an offset as there are, up to `max`.
fn read_range(file: &File, offset: u64, max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let mut left = max;
    let mut at = offset;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        let Some(buffer) = piece.get_mut(..wanted) else { break };
        let count = match file.read_at(buffer, at) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            // An offset that no file can have is past every end.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => break,
            Err(error) => return Err(error),
        };
        bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
        left -= count as u64;
        at += count as u64;
    }
    Ok(bytes)
}

struct Seen<'a> {
    given: &'a Given,
    range: Range,
    size: u64,
    changed: bool,
    around: Around,
}

fn tell(seen: &Seen<'_>, bytes: &[u8]) -> RawResult {
    let Range { explicit, offset, .. } = seen.range;
    let name = seen.given.shown();
    let binary = is_binary(bytes);
    if binary && !explicit {
        let (kind, size) = (kind_of(bytes), show::bytes(seen.size));
        let text = format!(
            "`{name}` is binary ({kind}), {size}; its content is not shown. \
             Give `offsetBytes` or `maxBytes` to see bytes of it in hexadecimal."
        );
        return partial(text, true);
    }
    let reaches_end = |length: usize| offset.saturating_add(length as u64) >= seen.size;
    let shown = if binary {
        bytes.get(..usize::try_from(MAX_HEX).unwrap_or(usize::MAX)).unwrap_or(bytes)
    } else if reaches_end(bytes.len()) {
        bytes
    } else {
        // Never cut within a character, unless that would show nothing.
        match whole_characters(bytes) {
            0 => bytes,
            whole => bytes.get(..whole).unwrap_or(bytes),
        }
    };
    let more = !shown.is_empty() && !reaches_end(shown.len());
    let mut head = header(&name, seen.size, offset, shown.len() as u64, more);
    let (body, replaced) = if binary {
        (hexadecimal(offset, &seen.around.bytes(shown.len())), 0)
    } else {
        text(&seen.around.text(shown.len()))
    };
    if binary {
        head.push_str(" The file is binary: hexadecimal.");
    }
    if replaced > 0 {
        let sequences =
            show::count(replaced, "byte sequence that is not UTF-8 is", "byte sequences that are not UTF-8 are");
        let _ = write!(head, " {sequences} shown as U+FFFD.");
    }
    if seen.changed {
        head.push_str(" The file changed while it was read.");
    }
    partial(format!("{head}\n{body}"), more || offset > 0)
}

fn header(name: &str, size: u64, offset: u64, shown: u64, more: bool) -> String {
    let total = show::bytes(size);
    if size == 0 && shown == 0 {
        return format!("`{name}`: empty, 0 bytes.");
    }
    if shown == 0 {
        return format!("`{name}`: {total} in all; nothing is left to show from offset {offset}.");
    }
    let end = offset.saturating_add(shown);
    match (offset, more) {
        (0, false) => format!("`{name}`: {total}, all shown."),
        (_, false) => {
            format!("`{name}`: {total} in all; {} shown, from offset {offset} to the end.", show::bytes(shown))
        }
        (_, true) => format!(
            "`{name}`: {total} in all; {} shown, from offset {offset}. Truncated: read on with `offsetBytes` {end}.",
            show::bytes(shown)
        ),
    }
}

/// Sixteen bytes a line: offset, hexadecimal, and the printable ones as text. What must not be shown is `--`.
fn hexadecimal(offset: u64, bytes: &[Option<u8>]) -> String {
    let mut dump = String::with_capacity(bytes.len() * 5);
    for (row, chunk) in bytes.chunks(16).enumerate() {
        let _ = write!(dump, "{:08x} ", offset.saturating_add(row as u64 * 16));
        for byte in chunk {
            let _ = match byte {
                Some(byte) => write!(dump, " {byte:02x}"),
                None => write!(dump, " --"),
            };
        }
        dump.extend(std::iter::repeat_n("   ", 16 - chunk.len()));
        dump.push_str("  ");
        let printable = |byte: &Option<u8>| byte.filter(|byte| (b' '..=b'~').contains(byte)).map_or('.', char::from);
        dump.extend(chunk.iter().map(printable));
        dump.push('\n');
    }
    dump
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_lines_up() {
        let dump = hexadecimal(16, &[Some(0), Some(b'A'), None, Some(b'~'), Some(0xff)]);
        assert_eq!(dump, format!("00000010  00 41 -- 7e ff{}  .A.~.\n", " ".repeat(33)));
    }
}
