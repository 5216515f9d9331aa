//! `files_edit`: one passage of a file replaced by another.
//!
//! The passage must occur exactly once, so it proves that the agent knows what it changes. Bytes that
//! are not in it stay as they are: encoding, byte order mark, line endings, the missing newline at the
//! end. In a file with CRLF line endings the agent may write LF; both texts are then taken as CRLF.

use std::fmt;

use fence::RuntimeWords;
use memchr::memmem;
use policy::{ActionKind, BadInput, Operation, Permit, Proposal, RawResult};
use serde::Deserialize;
use serde_json::json;
use vocab::StateEffect;

use super::change::put;
use super::content::{LineEndings, read_whole, text, to_crlf, to_lf};
use super::place::{Place, Reach};
use super::{Draft, FileTool};
use crate::definition::About;
use crate::execution::Stop;
use crate::{ToolError, show};

/// The tool's arguments.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edit {
    file_path: String,
    old_text: String,
    new_text: String,
}

impl FileTool for Edit {
    fn about() -> About<'static> {
        About {
            name: "files_edit",
            kind: ActionKind::FilesEdit,
            state_effect: StateEffect::Mutate,
            description: "Replaces one passage of a file. `oldText` must occur exactly once: copy it exactly, with its white \
                space, and take in enough lines around it. Everything else of the file stays as it is, line endings too.",
            properties: json!({
                "filePath": {"type": "string", "minLength": 1, "description": "The file, relative to the working directory."},
                "oldText": {"type": "string", "minLength": 1, "description": "The passage to replace."},
                "newText": {"type": "string", "description": "What stands there afterwards; empty to delete the passage."},
            }),
            required: &["filePath", "oldText", "newText"],
        }
    }

    fn propose(self, mut draft: Draft) -> Result<Proposal, BadInput> {
        // Read as well, because what is told about a passage that is not there shows lines of the file.
        let file = draft.path("filePath", &self.file_path, &[Operation::Write, Operation::Read])?;
        if self.old_text == self.new_text {
            return Err(BadInput(RuntimeWords::new(
                "`oldText` and `newText` are the same: there is nothing to change",
            )));
        }
        Ok(draft.runs(move |site| {
            let place = site.place(&file, Operation::Write, Reach { make: false, follow: true })?;
            edit(&place, self.old_text.as_bytes(), self.new_text.as_bytes(), site.permit)
        }))
    }
}

fn edit(place: &Place, old: &[u8], new: &[u8], permit: &Permit) -> Result<RawResult, Stop> {
    let cleared = place.clear(permit, Operation::Write)?;
    let node = place.file()?;
    let mut file = node.open(&node.clear(permit)?)?;
    let before = read_whole(&mut file, node.size(), place.written())?;
    let edited = replace(&before, old, new).map_err(|fault| fault.error(show::path(place.written())))?;
    put(place, &edited.content, &cleared, permit)?;
    let crlf = if edited.as_crlf { " The file's CRLF line endings were kept." } else { "" };
    Ok(RawResult::ok(format!(
        "Edited `{}` on line {}: {} replaced by {}; the file has {} (before: {}).{crlf}",
        show::path(place.written()),
        edited.line,
        show::bytes(edited.removed as u64),
        show::bytes(edited.added as u64),
        show::bytes(edited.content.len() as u64),
        before.len(),
    )))
}

#[derive(Debug, PartialEq, Eq)]
struct Edited {
    content: Vec<u8>,
    line: usize,
    removed: usize,
    added: usize,
    as_crlf: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Missing(Nearest),
    Repeated { count: usize, lines: Vec<usize> },
}

impl Fault {
    fn error(self, path: String) -> ToolError {
        match self {
            Self::Missing(nearest) => ToolError::OldTextMissing { path, nearest },
            Self::Repeated { count, lines } => {
                let mut list = lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                if count > lines.len() {
                    list.push_str(", …");
                }
                let count = if count < MAX_OCCURRENCES { count.to_string() } else { format!("{count} or more") };
                ToolError::OldTextRepeated { path, count, lines: list }
            }
        }
    }
}

fn replace(before: &[u8], old: &[u8], new: &[u8]) -> Result<Edited, Fault> {
    // What the agent wrote, then the same with the file's own line endings.
    let endings = LineEndings::of(before);
    let as_crlf = (to_crlf(old), to_crlf(new));
    let as_lf = (to_lf(old), to_lf(new));
    let (old, new, converted) = if endings.all_crlf() {
        let converted = as_crlf.0 != old || as_crlf.1 != new;
        (as_crlf.0.as_slice(), as_crlf.1.as_slice(), converted)
    } else if endings.crlf == 0 && endings.lf > 0 {
        (as_lf.0.as_slice(), as_lf.1.as_slice(), false)
    } else {
        (old, new, false)
    };
    let places = occurrences(before, old);
    let Some(&at) = places.first() else { return Err(Fault::Missing(nearest(before, old))) };
    if places.len() > 1 {
        let lines = places.iter().take(10).map(|&at| line_of(before, at)).collect();
        return Err(Fault::Repeated { count: places.len(), lines });
    }
    let (head, rest) = before.split_at(at);
    let tail = rest.get(old.len()..).unwrap_or_default();
    let content = [head, new, tail].concat();
    Ok(Edited { content, line: line_of(before, at), removed: old.len(), added: new.len(), as_crlf: converted })
}

/// Occurrences that are counted: each costs a comparison of the whole passage.
const MAX_OCCURRENCES: usize = 100;
/// Lines that are compared in the look for what comes nearest.
const MAX_COMPARISONS: usize = 2_000_000;

/// Where a passage occurs, overlapping occurrences included.
fn occurrences(content: &[u8], passage: &[u8]) -> Vec<usize> {
    let finder = memmem::Finder::new(passage);
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = content.get(from..).and_then(|rest| finder.find(rest)) {
        places.push(from + at);
        from += at + 1;
        if places.len() == MAX_OCCURRENCES {
            break;
        }
    }
    places
}

fn line_of(content: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', content.get(..at).unwrap_or(content)).count() + 1
}

/// What in a file comes nearest to a passage that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nearest {
    /// Nothing does.
    Nothing,
    /// These lines are the same but for white space.
    WhiteSpace {
        /// The first of them, from 1.
        line: usize,
    },
    /// The passage begins like this, but a later line of it differs.
    Begins {
        /// The line of the file that differs, from 1.
        line: usize,
        /// What it is in the file.
        found: String,
        /// What it is in the passage.
        wanted: String,
    },
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::WhiteSpace { line } => {
                write!(
                    f,
                    "; from line {line} on it would, but for white space (indentation, tabs, blanks at line ends)"
                )
            }
            Self::Begins { line, found, wanted } => {
                write!(f, "; it begins like the file does, but line {line} is `{found}` where it has `{wanted}`")
            }
        }
    }
}

fn nearest(content: &[u8], passage: &[u8]) -> Nearest {
    let file: Vec<&[u8]> = content.split(|&byte| byte == b'\n').collect();
    let wanted: Vec<&[u8]> = passage.split(|&byte| byte == b'\n').collect();
    // An ending newline is no line of its own.
    let wanted = match wanted.split_last() {
        Some((last, rest)) if last.is_empty() && !rest.is_empty() => rest,
        _ => wanted.as_slice(),
    };
    let Some(first) = wanted.iter().position(|line| !squeeze(line).is_empty()) else { return Nearest::Nothing };
    let squeezed: Vec<Vec<u8>> = wanted.iter().map(|line| squeeze(line)).collect();
    let mut begins = None;
    let mut comparisons = 0;
    for start in 0..file.len() {
        let same =
            file.iter().skip(start).zip(&squeezed).take_while(|(line, wanted)| squeeze(line) == **wanted).count();
        comparisons += same + 1;
        if comparisons > MAX_COMPARISONS {
            break;
        }
        if same == wanted.len() {
            return Nearest::WhiteSpace { line: start + 1 };
        }
        if same > first && begins.is_none_or(|(_, most)| same > most) {
            begins = Some((start, same));
        }
    }
    match begins {
        Some((start, same)) => {
            let line = |lines: &[&[u8]], at: usize| lines.get(at).map_or_else(String::new, |line| excerpt(line));
            Nearest::Begins { line: start + same + 1, found: line(&file, start + same), wanted: line(wanted, same) }
        }
        None => Nearest::Nothing,
    }
}

/// A line without any white space.
fn squeeze(line: &[u8]) -> Vec<u8> {
    line.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
}

/// As much of a line as stands in a message.
pub(crate) fn excerpt(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (shown, _) = text(line.get(..200).unwrap_or(line));
    if line.len() > 200 { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests;
