//! Words for people on a terminal: of foreign text control characters are shown, never obeyed.
//!
//! One predicate says what could steer a terminal or make a text read as another. Text is shown with it escaped,
//! lines of ours keep their styles and nothing else, and JSON stays the same document: there the escapes are its
//! own.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The text with every control character escaped but tab and newline; also what changes the direction of writing,
/// takes no room or breaks a line, which can make a text read as another. A carriage return before a newline is
/// left out, and escaped anywhere else: there it would let what follows cover what stands on the line.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\r' && chars.peek() == Some(&'\n') {
            continue;
        }
        if is_harmful(char) {
            // Writing into a string cannot fail.
            let _ = write!(shown, "{}", char.escape_unicode());
        } else {
            shown.push(char);
        }
    }
    Cow::Owned(shown)
}

/// Writes lines to stderr in one piece, so that those of two commands on one terminal do not mix. Styles go
/// through; anything else that steers a terminal is escaped, wherever in the lines it came from.
///
/// # Errors
/// What the system says. A closed stderr is seldom worth more than being passed over.
pub(crate) fn tell(lines: &str) -> io::Result<()> {
    let lines = styled(lines);
    let mut err = io::stderr().lock();
    if anstream::AutoStream::choice(&err) == anstream::ColorChoice::Never {
        err.write_all(anstream::adapter::strip_str(&lines).to_string().as_bytes())
    } else {
        err.write_all(lines.as_bytes())
    }
}

/// Lines, printable but for the styles in them.
fn styled(lines: &str) -> String {
    let mut pieces = lines.split('\u{1b}');
    let mut shown = printable(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let parameters = piece.strip_prefix('[').unwrap_or_default();
        let length = parameters.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        let is_style = parameters.as_bytes().get(length) == Some(&b'm');
        shown.push_str(if is_style { "\u{1b}" } else { "\\u{1b}" });
        shown.push_str(&printable(piece));
    }
    shown
}

/// The first line of a text that is not blank, printable, cut at so many characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    cut(text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim(), most)
}

/// A line, printable, its indentation kept, cut at so many characters.
pub(crate) fn cut(line: &str, most: usize) -> String {
    let shown = printable(line.trim_end()).replace(['\t', '\n'], " ");
    match shown.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", shown.get(..cut).unwrap_or_default()),
        None => shown,
    }
}

/// A word of a command line that a person may copy into a shell: a foreign one must not become a second command.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-[]".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let shown = printable(text).replace(['\t', '\n'], " ");
    Cow::Owned(format!("'{}'", shown.replace('\'', r"'\''")))
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
    directs || hides || breaks || char.is_control() && !matches!(char, '\t' | '\n')
}

/// JSON on its way to a terminal: what could steer it is escaped as JSON escapes it, so the document stays the
/// same. Such a character stands in strings alone.
pub(crate) struct Escaping<W> {
    inner: W,
    /// The beginning of a character whose end has not come.
    begun: Vec<u8>,
}

impl<W: Write> Escaping<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, begun: Vec::new() }
    }

    /// Text without its escapes is handed on in as few pieces as there are.
    fn text(&mut self, text: &str) -> io::Result<()> {
        let mut plain = 0;
        for (at, char) in text.char_indices().filter(|(_, char)| is_harmful(*char)) {
            self.inner.write_all(text.get(plain..at).unwrap_or_default().as_bytes())?;
            for unit in char.encode_utf16(&mut [0; 2]) {
                write!(self.inner, "\\u{unit:04x}")?;
            }
            plain = at + char.len_utf8();
        }
        self.inner.write_all(text.get(plain..).unwrap_or_default().as_bytes())
    }
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut whole = std::mem::take(&mut self.begun);
        whole.extend_from_slice(bytes);
        let mut chunks = whole.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text(chunk.valid())?;
            let bad = chunk.invalid();
            let begins = std::str::from_utf8(bad).is_err_and(|error| error.error_len().is_none());
            if begins && chunks.peek().is_none() {
                self.begun = bad.to_vec();
            } else if !bad.is_empty() {
                self.text("\u{fffd}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests;
