//! What bytes are: text or not, which kind of file, which line endings.
//!
//! Text is what has no NUL byte near its start; that is git's and grep's rule too, and it needs no
//! guessing. Kinds of binary files are told by their first bytes, for words alone: nothing depends on it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::{ToolError, show};

/// How far the look for a NUL byte goes.
pub(super) const TEXT_PROBE: u64 = 8192;

/// Files larger than this are not taken whole.
pub(crate) const MAX_WHOLE: u64 = 16 * 1024 * 1024;

/// Whether bytes from the start of something are binary.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let probe = usize::try_from(TEXT_PROBE).unwrap_or(usize::MAX);
    memchr::memchr(0, bytes.get(..probe).unwrap_or(bytes)).is_some()
}

/// First bytes and what they mean.
const KINDS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"\x7fELF", "ELF program or library"),
    (b"\x1f\x8b", "gzip archive"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (b"\xfd7zXZ\x00", "XZ archive"),
    (b"BZh", "bzip2 archive"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x00asm", "WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"MZ", "Windows program"),
    (b"\xff\xfe", "UTF-16 text, little-endian"),
    (b"\xfe\xff", "UTF-16 text, big-endian"),
    (b"OggS", "Ogg media"),
    (b"RIFF", "RIFF media"),
    (b"\x00\x00\x01\x00", "icon"),
];

/// The kind of a binary file, by its first bytes.
pub(crate) fn kind_of(bytes: &[u8]) -> &'static str {
    KINDS.iter().find(|(start, _)| bytes.starts_with(start)).map_or("unknown kind", |(_, kind)| kind)
}

/// Reads an opened regular file whole.
///
/// # Errors
/// When it is larger than [`MAX_WHOLE`], also if it grows while it is read.
pub(crate) fn read_whole(file: &mut File, size: u64, written: &Path) -> Result<Vec<u8>, ToolError> {
    let too_large = |size| ToolError::TooLarge { path: show::path(written), size, limit: MAX_WHOLE };
    if size > MAX_WHOLE {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    file.take(MAX_WHOLE + 1).read_to_end(&mut bytes).map_err(|error| ToolError::io("read", written, error))?;
    match u64::try_from(bytes.len()) {
        Ok(size) if size <= MAX_WHOLE => Ok(bytes),
        _ => Err(too_large(MAX_WHOLE + 1)),
    }
}

/// How many lines end in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LineEndings {
    /// `\n` alone.
    pub(crate) lf: u64,
    /// `\r\n`.
    pub(crate) crlf: u64,
}

impl LineEndings {
    /// Counts them.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut endings = Self::default();
        for at in memchr::memchr_iter(b'\n', bytes) {
            if at.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'\r') {
                endings.crlf += 1;
            } else {
                endings.lf += 1;
            }
        }
        endings
    }

    /// In words.
    pub(crate) fn words(self) -> &'static str {
        match (self.lf, self.crlf) {
            (0, 0) => "none",
            (_, 0) => "LF",
            (0, _) => "CRLF",
            _ => "mixed LF and CRLF",
        }
    }

    /// Whether every line that ends, ends in `\r\n`.
    pub(crate) fn all_crlf(self) -> bool {
        self.crlf > 0 && self.lf == 0
    }
}

/// Text with every `\n` that has no `\r` before it turned into `\r\n`.
pub(crate) fn to_crlf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut before = 0;
    for &byte in text {
        if byte == b'\n' && before != b'\r' {
            out.push(b'\r');
        }
        out.push(byte);
        before = byte;
    }
    out
}

/// Text with every `\r\n` turned into `\n`.
pub(crate) fn to_lf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\r' || rest.peek() != Some(&b'\n') {
            out.push(byte);
        }
    }
    out
}

/// Bytes as text, and how many ill-formed sequences became U+FFFD.
pub(crate) fn text(bytes: &[u8]) -> (String, u64) {
    let mut text = String::with_capacity(bytes.len());
    let mut replaced = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push('\u{fffd}');
            replaced += 1;
        }
    }
    (text, replaced)
}

/// The length of what is left of bytes when a character that is cut at their end is dropped.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let cut = bytes.utf8_chunks().last().map_or(0, |last| match std::str::from_utf8(last.invalid()) {
        // No error length: more bytes could make it a character.
        Err(error) if error.error_len().is_none() => last.invalid().len(),
        _ => 0,
    });
    bytes.len() - cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn line_endings_are_told_apart() {
        let cases: [(&[u8], &str); 5] = [
            (b"", "none"),
            (b"a\nb", "LF"),
            (b"a\r\nb\r\n", "CRLF"),
            (b"\na\r\n", "mixed LF and CRLF"),
            (b"a\r", "none"),
        ];
        for (bytes, words) in cases {
            assert_eq!(LineEndings::of(bytes).words(), words, "{bytes:?}");
        }
    }

    #[test]
    fn a_character_cut_at_the_end_is_dropped_and_a_broken_one_kept() {
        assert_eq!(whole_characters("aé".as_bytes()), 3);
        assert_eq!(whole_characters(&"a€".as_bytes()[..3]), 1);
        assert_eq!(whole_characters(b"a\xff"), 2);
        assert_eq!(whole_characters(b""), 0);
    }

    #[test]
    fn ill_formed_sequences_are_counted() {
        assert_eq!(text(b"a\xffb\xe2\x82c"), ("a\u{fffd}b\u{fffd}c".to_owned(), 2));
    }

    proptest! {
        #[test]
        fn conversions_of_line_endings_undo_each_other(text in "[ab\n]{0,40}") {
            let crlf = to_crlf(text.as_bytes());
            prop_assert_eq!(to_lf(&crlf), text.as_bytes());
            prop_assert_eq!(to_crlf(&crlf), crlf);
        }

        #[test]
        fn cutting_anywhere_never_makes_a_replacement(text_in in "\\PC{0,20}", cut in 0usize..40) {
            let bytes = text_in.as_bytes();
            let head = &bytes[..cut.min(bytes.len())];
            let (_, replaced) = text(&head[..whole_characters(head)]);
            prop_assert_eq!(replaced, 0);
        }
    }
}
