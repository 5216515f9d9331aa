//! A diff as changes to files: names, kinds and hunks.
//!
//! `diffy` reads each section: quoted names, the extended headers, the hunks. Around it stands what it
//! leaves to its caller: the `a/` and `b/` before names, headers that name two different files, the
//! modes in `index` lines, and line endings.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use diffy::Line as DiffLine;
use diffy::patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchKind, PatchSet};

use super::layout::{Section, sections};
use super::{Hunk, Line, PatchError};
use crate::files::{LineEndings, to_lf};
use crate::show;

/// What a section does to its file, beside the hunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// A new file.
    Create(PathBuf),
    /// The same file with other content or mode.
    Modify(PathBuf),
    /// No file any more.
    Delete(PathBuf),
    /// Another name.
    Rename {
        /// The old one.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
    /// A second file like it.
    Copy {
        /// The file that stays.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
}

impl FileChange {
    /// The file whose content is taken.
    #[must_use]
    pub fn source(&self) -> Option<&Path> {
        match self {
            Self::Create(_) => None,
            Self::Modify(path) | Self::Delete(path) => Some(path),
            Self::Rename { from, .. } | Self::Copy { from, .. } => Some(from),
        }
    }

    /// Whether the source is gone afterwards.
    pub(super) fn removes(&self) -> bool {
        matches!(self, Self::Delete(_) | Self::Rename { .. })
    }

    /// The file that is written.
    #[must_use]
    pub fn target(&self) -> Option<&Path> {
        match self {
            Self::Delete(_) => None,
            Self::Create(path) | Self::Modify(path) => Some(path),
            Self::Rename { to, .. } | Self::Copy { to, .. } => Some(to),
        }
    }
}

/// One file's part of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    pub(super) change: FileChange,
    pub(super) hunks: Vec<Hunk>,
    pub(super) executable: Option<bool>,
}

/// A diff that was read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedPatch {
    files: Vec<FileDiff>,
}

impl ParsedPatch {
    /// Reads a unified diff: git's with its extended headers, or plain `---`/`+++` sections.
    ///
    /// # Errors
    /// [`PatchError`], with the line; nothing of the text is skipped but what comes before the first
    /// section and a mail signature at the end.
    pub fn parse(text: &str) -> Result<Self, PatchError> {
        let mut text = Cow::Borrowed(text);
        if !text.is_empty() && !text.ends_with('\n') {
            text.to_mut().push('\n');
        }
        // A diff of a file with CRLF has LF in its headers; one with CRLF everywhere was converted whole.
        if LineEndings::of(text.as_bytes()).all_crlf() {
            text = Cow::Owned(String::from_utf8_lossy(&to_lf(text.as_bytes())).into_owned());
        }
        let files = sections(&text)?.iter().map(file).collect::<Result<_, _>>()?;
        Ok(Self { files })
    }

    /// The changes, in the order of the text.
    #[must_use]
    pub fn files(&self) -> &[FileDiff] {
        &self.files
    }

    pub(super) fn into_files(self) -> Vec<FileDiff> {
        self.files
    }
}

fn file(section: &Section<'_>) -> Result<FileDiff, PatchError> {
    let line = section.line;
    let options = if section.git.is_some() { ParseOptions::gitdiff() } else { ParseOptions::unidiff() };
    let mut parsed = PatchSet::parse_bytes(section.text.as_bytes(), options);
    let patch = match parsed.next() {
        Some(Ok(patch)) => patch,
        Some(Err(error)) => return Err(PatchError::Section { line, reason: reason(&error.to_string()) }),
        None => return Err(PatchError::Empty),
    };
    if parsed.next().is_some() {
        return Err(PatchError::Section { line, reason: "it holds more than one file".to_owned() });
    }
    let PatchKind::Text(text) = patch.patch() else { return Err(PatchError::Binary { line }) };
    let executable = executable(section, &patch)?;
    let change = names(section, &patch, (text.original(), text.modified()))?;
    if section.git.is_some() {
        agrees(section, &change)?;
    }
    let hunks: Vec<Hunk> = text.hunks().iter().map(hunk).collect();
    let moves = !matches!(change, FileChange::Modify(_));
    if hunks.is_empty() && !moves && executable.is_none() {
        return Err(PatchError::NoHunk { line });
    }
    Ok(FileDiff { change, hunks, executable })
}

/// That git's headers by themselves say the same as with the `---` and `+++` lines, which the parser
/// believes without a look at the others.
fn agrees(section: &Section<'_>, change: &FileChange) -> Result<(), PatchError> {
    let line = section.line;
    let header: usize =
        section.text.split_inclusive('\n').take_while(|line| !line.starts_with("--- ")).map(str::len).sum();
    let header = section.text.as_bytes().get(..header).unwrap_or_default();
    let section_error = |reason: &str| PatchError::Section { line, reason: reason.to_owned() };
    let alone = match PatchSet::parse_bytes(header, ParseOptions::gitdiff()).next() {
        Some(Ok(patch)) => names(section, &patch, (None, None))?,
        _ => return Err(section_error("its `diff --git` line does not name one file twice")),
    };
    if alone == *change {
        return Ok(());
    }
    Err(section_error("its headers disagree about the file or what becomes of it"))
}

/// The parser's reason without its place, which is relative to the section.
fn reason(message: &str) -> String {
    let mut reason = message;
    while let Some(rest) = reason.strip_prefix("error parsing patch") {
        reason = rest.split_once(": ").map_or(rest, |(_, rest)| rest);
    }
    reason.to_owned()
}

fn hunk(hunk: &diffy::Hunk<'_, [u8]>) -> Hunk {
    let lines = hunk.lines().iter().map(|line| match line {
        DiffLine::Context(text) => Line::Context(text.to_vec()),
        DiffLine::Delete(text) => Line::Delete(text.to_vec()),
        DiffLine::Insert(text) => Line::Insert(text.to_vec()),
    });
    Hunk { start: hunk.old_range().start(), lines: lines.collect() }
}

/// The change of the executable bit, if there is one; links and submodules are refused.
fn executable(section: &Section<'_>, patch: &FilePatch<'_, [u8]>) -> Result<Option<bool>, PatchError> {
    let line = section.line;
    let index = section.text.lines().take_while(|line| !line.starts_with("--- ") && !line.starts_with("@@"));
    let index =
        index.filter(|line| line.starts_with("index ")).filter_map(|line| line.rsplit_once(' ')).map(|(_, mode)| mode);
    for mode in index {
        match mode {
            "120000" => return Err(PatchError::SpecialFile { line, kind: "symbolic link" }),
            "160000" => return Err(PatchError::SpecialFile { line, kind: "submodule" }),
            _ => {}
        }
    }
    for mode in [patch.old_mode(), patch.new_mode()].into_iter().flatten() {
        match mode {
            FileMode::Symlink => return Err(PatchError::SpecialFile { line, kind: "symbolic link" }),
            FileMode::Gitlink => return Err(PatchError::SpecialFile { line, kind: "submodule" }),
            FileMode::Regular | FileMode::Executable => {}
        }
    }
    Ok(patch.new_mode().map(|mode| *mode == FileMode::Executable))
}

type Names<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

fn names(section: &Section<'_>, patch: &FilePatch<'_, [u8]>, headers: Names<'_>) -> Result<FileChange, PatchError> {
    let line = section.line;
    let two = |old: &[u8], new: &[u8]| PatchError::TwoNames { line, old: shown(old), new: shown(new) };
    // `diff --git x x` means that names stand without `a/` and `b/`.
    let bare = section.git.is_some_and(halves_agree);
    let one = |name: &[u8], prefix: &[u8]| {
        let stripped = match (section.git.is_some(), bare) {
            (_, true) => None,
            (true, false) => strip_letter(name).map(|(_, rest)| rest),
            (false, false) => name.strip_prefix(prefix),
        };
        path(line, stripped.unwrap_or(name))
    };
    match patch.operation() {
        FileOperation::Create(name) => Ok(FileChange::Create(one(name, b"b/")?)),
        FileOperation::Delete(name) => Ok(FileChange::Delete(one(name, b"a/")?)),
        FileOperation::Modify { original, modified } => match agree(original, modified) {
            Some(name) => Ok(FileChange::Modify(path(line, name)?)),
            None => Err(two(original, modified)),
        },
        FileOperation::Rename { from, to } => {
            fits(headers, from, to).map_err(|(old, new)| two(old, new))?;
            Ok(FileChange::Rename { from: path(line, from)?, to: path(line, to)? })
        }
        FileOperation::Copy { from, to } => {
            fits(headers, from, to).map_err(|(old, new)| two(old, new))?;
            Ok(FileChange::Copy { from: path(line, from)?, to: path(line, to)? })
        }
    }
}

/// The name that two headers agree on, without the letter that marks old and new.
fn agree<'a>(old: &'a [u8], new: &'a [u8]) -> Option<&'a [u8]> {
    if old == new {
        return Some(old);
    }
    let ((one, old), (other, new)) = (strip_letter(old)?, strip_letter(new)?);
    (one != other && old == new).then_some(old)
}

/// Whether `---` and `+++` name what `rename` or `copy` names; else the pair that differs.
fn fits<'a>(headers: Names<'a>, from: &'a [u8], to: &'a [u8]) -> Result<(), (&'a [u8], &'a [u8])> {
    let same =
        |header: &[u8], name: &[u8]| header == name || strip_letter(header).is_some_and(|(_, rest)| rest == name);
    for (header, name) in [(headers.0, from), (headers.1, to)] {
        if let Some(header) = header.filter(|header| !same(header, name)) {
            return Err((header, name));
        }
    }
    Ok(())
}

/// `a/rest`, `b/rest`, and the other letters that git puts there.
fn strip_letter(name: &[u8]) -> Option<(u8, &[u8])> {
    match name {
        [letter, b'/', rest @ ..] if letter.is_ascii_alphanumeric() && !rest.is_empty() => Some((*letter, rest)),
        _ => None,
    }
}

/// Whether a text is the same twice with a blank between.
fn halves_agree(text: &str) -> bool {
    let text = text.as_bytes();
    let middle = text.len() / 2;
    text.len() % 2 == 1 && text.get(middle) == Some(&b' ') && text.get(..middle) == text.get(middle + 1..)
}

fn path(line: usize, name: &[u8]) -> Result<PathBuf, PatchError> {
    let usable = !name.is_empty() && !name.contains(&0) && !name.ends_with(b"/");
    if usable { Ok(PathBuf::from(OsStr::from_bytes(name))) } else { Err(PatchError::Name { line }) }
}

fn shown(name: &[u8]) -> String {
    show::name(OsStr::from_bytes(name))
}
