//! Foreign names and bytes in a form that can stand in a line of text.
//!
//! Names are bytes: what is not UTF-8 becomes U+FFFD, and control characters are escaped, so that a
//! file name can neither break a listing nor drive a terminal.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path for reading.
pub(crate) fn path(path: &Path) -> String {
    name(path.as_os_str())
}

/// A file name for reading.
pub(crate) fn name(name: &OsStr) -> String {
    let lossy = String::from_utf8_lossy(name.as_bytes());
    let mut shown = String::with_capacity(lossy.len());
    for character in lossy.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            control if control.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(control));
            }
            plain => shown.push(plain),
        }
    }
    shown
}

/// `1 byte`, `2 bytes`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// Adds a line with a count, if there is anything to count.
pub(crate) fn counted(text: &mut String, number: u64, one: &str, many: &str) {
    if number > 0 {
        text.push_str(&count(number, one, many));
        text.push('\n');
    }
}

/// A size in bytes.
pub(crate) fn bytes(number: u64) -> String {
    count(number, "byte", "bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_printable_line() {
        assert_eq!(name(OsStr::from_bytes(b"a\nb\x1b[31m\xff\t\xc2\x85")), "a\\nb\\u{1b}[31m\u{fffd}\\t\\u{85}");
        assert_eq!(path(Path::new("src/näher.rs")), "src/näher.rs");
    }

    #[test]
    fn counts_agree_with_their_noun() {
        assert_eq!((bytes(0), bytes(1), bytes(2)), ("0 bytes".into(), "1 byte".into(), "2 bytes".into()));
    }
}
