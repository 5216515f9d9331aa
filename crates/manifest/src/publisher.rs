//! Text that the publisher of an artifact wrote and the model will read: made one harmless line.
//!
//! A description stands among the runtime's own words, so it may not bring lines, control characters
//! or changes of direction of its own, and not be long.

use crate::diagnostic::is_bidi;

/// Characters that a description may have.
pub const MAX_DESCRIPTION: usize = 1024;

/// `text` on one line: white space folded to single spaces, control and direction characters dropped,
/// at most [`MAX_DESCRIPTION`] characters, the last of them `…` when something was cut.
#[must_use]
pub fn fold_description(text: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    let mut space = false;
    for c in text.chars() {
        if c.is_whitespace() {
            space = length > 0;
            continue;
        }
        if c.is_control() || is_bidi(c) {
            continue;
        }
        if length + usize::from(space) >= MAX_DESCRIPTION {
            out.pop();
            out.push('…');
            return out;
        }
        if space {
            out.push(' ');
            length += 1;
            space = false;
        }
        out.push(c);
        length += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{MAX_DESCRIPTION, fold_description};

    #[test]
    fn a_description_becomes_one_harmless_line() {
        assert_eq!(fold_description("  Reads\r\n\ta\u{1b}[31m page \u{202e}.\n\n"), "Reads a[31m page .");
        assert_eq!(fold_description(""), "");
        assert_eq!(fold_description("\n\u{0}\u{7f}"), "");
        let exact = "x".repeat(MAX_DESCRIPTION);
        assert_eq!(fold_description(&exact), exact);
        let long = fold_description(&"é".repeat(MAX_DESCRIPTION + 1));
        assert_eq!(long.chars().count(), MAX_DESCRIPTION);
        assert!(long.ends_with("é…"));
    }
}
