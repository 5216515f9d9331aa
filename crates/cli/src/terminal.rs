//! Words for people on a terminal: of foreign text control characters are shown, never obeyed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;

/// The text with every control character escaped but tab, newline and carriage return; also what changes
/// the direction of writing, takes no room or breaks a line, which can make a text read as another.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if is_harmful(char) {
            // Writing into a string cannot fail.
            let _ = write!(shown, "{}", char.escape_unicode());
        } else {
            shown.push(char);
        }
    }
    Cow::Owned(shown)
}

/// Writes lines to stderr in one piece, so that those of two commands on one terminal do not mix.
///
/// # Errors
/// What the system says. A closed stderr is seldom worth more than being passed over.
pub(crate) fn tell(lines: &str) -> std::io::Result<()> {
    let mut err = std::io::stderr().lock();
    if anstream::AutoStream::choice(&err) == anstream::ColorChoice::Never {
        err.write_all(anstream::adapter::strip_str(lines).to_string().as_bytes())
    } else {
        err.write_all(lines.as_bytes())
    }
}

/// The first line of a text that is not blank, printable, cut at so many characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    cut(text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim(), most)
}

/// A line, printable, its indentation kept, cut at so many characters.
pub(crate) fn cut(line: &str, most: usize) -> String {
    let shown = printable(line.trim_end()).replace(['\t', '\r'], " ");
    match shown.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", shown.get(..cut).unwrap_or_default()),
        None => shown,
    }
}

/// A number of things: `1 turn`, `2 turns`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn is_harmful(char: char) -> bool {
    let directs =
        matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // What takes no room can hide a word; joiners stay, since scripts and emoji are written with them.
    let hides = matches!(char, '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    let breaks = matches!(char, '\u{2028}' | '\u{2029}');
    directs || hides || breaks || char.is_control() && !matches!(char, '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::{one_line, printable};

    #[test]
    fn control_and_direction_characters_are_shown() {
        assert_eq!(
            printable("a\x1b[2Jb\u{9b}c\u{202e}d\u{200b}\u{2028}\r\n\t"),
            "a\\u{1b}[2Jb\\u{9b}c\\u{202e}d\\u{200b}\\u{2028}\r\n\t"
        );
        assert!(matches!(printable("plain ü 👩‍🔬\n"), std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_is_one_line_and_short() {
        assert_eq!(one_line("\n\n  ab\tcd \nx", 10), "ab cd");
        assert_eq!(one_line("äbcdef", 3), "äbc…");
    }
}
