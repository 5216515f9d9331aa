//! One file on its way in: read under a bound, checked to be text, kept for the lines errors show.
//!
//! Only regular files are read, so that a manifest that is a pipe cannot hang a launch. Credentials
//! that stand literally in a file are covered before a line is ever shown.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::diagnostic::{Code, Diagnostic, Rejected};
use crate::yaml::Location;

/// Bytes that a manifest, a skill or a context document may have.
pub(crate) const MAX_BYTES: u64 = 1024 * 1024;
/// Characters of a source line that an error shows.
const MAX_SHOWN: usize = 160;

/// The text of a file and the name under which errors speak of it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    text: String,
    /// Where each line begins; found when the first line is asked for.
    lines: OnceLock<Vec<usize>>,
    /// The text with its credentials covered, and where each of its lines begins; made with the first
    /// line that is shown.
    covered: OnceLock<(String, Vec<usize>)>,
}

impl Source {
    pub(crate) fn new(path: PathBuf, text: String) -> Self {
        Self { inner: Arc::new(Inner { path, text, lines: OnceLock::new(), covered: OnceLock::new() }) }
    }

    /// The name to show, as the user or the manifest spelled it.
    pub(crate) fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.inner.text
    }

    /// Reads `file` and checks what holds for every file that this crate reads as text.
    pub(crate) fn read(file: &Path, shown_as: &Path) -> Result<Self, Rejected> {
        let bytes = read_bytes(file).map_err(|fault| {
            Rejected::from(Diagnostic::of_path(Code::Unreadable, shown_as, fault.message()).maybe_hint(fault.hint()))
        })?;
        Self::from_bytes(shown_as.to_path_buf(), bytes)
    }

    /// Checks that `bytes` are text without a byte-order mark or a NUL byte.
    pub(crate) fn from_bytes(path: PathBuf, bytes: Vec<u8>) -> Result<Self, Rejected> {
        let refuse =
            |message: &str, hint: &str| Err(Diagnostic::of_path(Code::Syntax, &path, message).with_hint(hint).into());
        if bytes.len() as u64 > MAX_BYTES {
            return refuse("the file is larger than 1 MiB", "a manifest names files, it does not hold them");
        }
        match bytes.as_slice() {
            [0xEF, 0xBB, 0xBF, ..] => {
                return refuse("the file begins with a byte-order mark", "save it as UTF-8 without a BOM");
            }
            [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] => {
                return refuse("the file is UTF-16", "save it as UTF-8 without a BOM");
            }
            _ => {}
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let bytes = error.into_bytes();
                let before = bytes.get(..valid).unwrap_or_default();
                let text = String::from_utf8_lossy(before).into_owned();
                let at = location_at(&text, text.len());
                let source = Self::new(path, text);
                return Err(Diagnostic::at(Code::Syntax, &source, at, "a byte that is not UTF-8")
                    .with_hint("save the file as UTF-8")
                    .into());
            }
        };
        if let Some(offset) = text.find('\0') {
            let at = location_at(&text, offset);
            let source = Self::new(path, text);
            return Err(Diagnostic::at(Code::Syntax, &source, at, "a NUL character")
                .with_hint("the file is damaged or not a text file")
                .into());
        }
        Ok(Self::new(path, text))
    }

    /// A line by its number, without its end.
    pub(crate) fn line(&self, number: u32) -> Option<&str> {
        let starts = self.inner.lines.get_or_init(|| line_starts(self.text()));
        line_of(self.text(), starts, number)
    }

    /// The line that holds `at`, ready to be shown: no control characters, no credential.
    pub(crate) fn excerpt(&self, at: Location) -> Option<String> {
        let (covered, starts) = self.inner.covered.get_or_init(|| {
            let covered = crate::private::cover(self.text());
            let starts = line_starts(&covered);
            (covered, starts)
        });
        let line = line_of(covered, starts, at.line)?;
        let mut shown: String = line
            .chars()
            .take(MAX_SHOWN)
            .map(|c| match c {
                '\t' => ' ',
                c if c.is_control() => '\u{FFFD}',
                c => c,
            })
            .collect();
        if line.chars().nth(MAX_SHOWN).is_some() {
            shown.push('…');
        }
        Some(shown)
    }
}

fn line_of<'t>(text: &'t str, starts: &[usize], number: u32) -> Option<&'t str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    text.get(*starts.get(index)?..)?.split(['\n', '\r']).next()
}

/// Where each line begins. As in YAML, a carriage return alone ends a line too.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends = |offset: usize, byte: u8| byte == b'\n' || (byte == b'\r' && bytes.get(offset + 1) != Some(&b'\n'));
    let breaks = bytes.iter().enumerate().filter(|&(offset, &byte)| ends(offset, byte));
    std::iter::once(0).chain(breaks.map(|(offset, _)| offset + 1)).collect()
}

/// Line and column of a byte offset of `text`.
fn location_at(text: &str, offset: usize) -> Location {
    let starts = line_starts(text.get(..offset).unwrap_or(text));
    let begin = starts.last().copied().unwrap_or_default();
    let column = text.get(begin..offset).unwrap_or_default().chars().count() + 1;
    Location {
        line: u32::try_from(starts.len()).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
        length: 1,
    }
}

/// Why a file could not be read.
#[derive(Debug)]
pub(crate) enum ReadFault {
    Missing,
    Directory,
    Special,
    TooLarge,
    Io(std::io::Error),
}

impl ReadFault {
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Missing => "no such file".to_owned(),
            Self::Directory => "is a directory, not a file".to_owned(),
            Self::Special => "is not a regular file".to_owned(),
            Self::TooLarge => "the file is larger than 1 MiB".to_owned(),
            Self::Io(error) if error.kind() == ErrorKind::PermissionDenied => {
                "the file may not be read by this user".to_owned()
            }
            Self::Io(error) => format!("the file could not be read: {error}"),
        }
    }

    pub(crate) const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Special => Some("pipes, sockets and devices are not read"),
            Self::Missing | Self::Directory | Self::TooLarge | Self::Io(_) => None,
        }
    }
}

/// The bytes of a regular file of at most [`MAX_BYTES`].
pub(crate) fn read_bytes(file: &Path) -> Result<Vec<u8>, ReadFault> {
    let of = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadFault::Missing,
        _ => ReadFault::Io(error),
    };
    let kind = std::fs::metadata(file).map_err(of)?;
    if kind.is_dir() {
        return Err(ReadFault::Directory);
    }
    if !kind.is_file() {
        return Err(ReadFault::Special);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(kind.len().min(MAX_BYTES)).unwrap_or(0) + 1);
    File::open(file).and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(of)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ReadFault::TooLarge);
    }
    Ok(bytes)
}
