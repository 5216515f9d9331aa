//! Process output as text that a reader can trust to be what it looks like.
//!
//! A terminal obeys escape sequences and a model may be misled by what they hide; so they are shown,
//! not obeyed. Tab, newline and carriage return stay. Bytes that are no UTF-8 become U+FFFD.

/// The bytes as text, with control characters spelled out.
pub(crate) fn visible(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push_visible(&mut text, chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

fn push_visible(text: &mut String, valid: &str) {
    for piece in valid.split_inclusive(hidden) {
        let mut chars = piece.chars();
        match chars.next_back() {
            Some(last) if hidden(last) => {
                text.push_str(chars.as_str());
                text.push_str(&spelled(last));
            }
            _ => text.push_str(piece),
        }
    }
}

fn hidden(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
}

fn spelled(c: char) -> String {
    let code = u32::from(c);
    if code < 0x80 { format!("\\x{code:02x}") } else { format!("\\u{{{code:x}}}") }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn controls_are_spelled_and_layout_stays() {
        let shown = visible("a\tb\r\nc \u{1b}[31mred\u{7f}\0 \u{9b}2J ü".as_bytes());
        assert_eq!(shown, "a\tb\r\nc \\x1b[31mred\\x7f\\x00 \\u{9b}2J ü");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(visible(b"a\xff\xfeb\xe2\x82"), "a\u{fffd}\u{fffd}b\u{fffd}");
    }
}
