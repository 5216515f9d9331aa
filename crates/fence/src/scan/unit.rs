//! Cuts text into units: one character, raw or encoded, with what it may mean in a marker.
//!
//! No unit is longer than 64 bytes, so what a chunk leaves undecided is bounded; an entity padded
//! beyond that is not decoded. A unit never swallows a raw `<`, which keeps every forged marker in
//! sight whatever stands before it.

use super::fold::{ENTITY, ESCAPE, Meaning, PERCENT, ascii, fold};

/// The longest unit, in bytes.
pub(super) const LONGEST_UNIT: usize = 64;

/// One character of the text, raw or encoded.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) meaning: Meaning,
    /// Bytes of the text.
    pub(super) len: usize,
}

impl Unit {
    const fn raw(meaning: Meaning, len: usize) -> Self {
        Self { meaning, len }
    }
}

/// Whether a marker may begin at the start of `rest`, as far as three bytes tell. Where there are
/// fewer, it is left to `decode`.
fn may_open(rest: &[u8]) -> bool {
    match *rest {
        [_] | [_, _] => true,
        [b'<', b'/', next, ..] | [b'<', next, ..] => may_follow_bracket(next),
        [b'&', next, ..] => matches!(next, b'#' | b'a' | b'l' | b'L'),
        [b'\\', next, ..] => matches!(next, b'0'..=b'3' | b'u' | b'U' | b'x'),
        [b'%', next, ..] => matches!(next, b'2' | b'3' | b'c'..=b'f' | b'C'..=b'F'),
        // The brackets that look like `<`, and the tag characters.
        [0xc2, 0xab, ..] | [0xcb, 0x82, ..] => true,
        [0xe1, 0x90, 0xb8, ..] | [0xe2, 0x80, 0xb9, ..] => true,
        [0xe2, 0x89, third, ..] => matches!(third, 0xaa | 0xae | 0xba),
        [0xe2, 0x8b, third, ..] => matches!(third, 0x96 | 0x98),
        [0xe2, 0x8c, 0xa9, ..] => true,
        [0xe2, 0x9d, third, ..] => matches!(third, 0xac | 0xae | 0xb0),
        [0xe2, 0x9f, third, ..] => matches!(third, 0xa8 | 0xaa),
        [0xe2, 0xa6, 0x91, ..] | [0xe2, 0xa7, 0xbc, ..] | [0xe2, 0xa9, 0xb9, ..] => true,
        [0xe3, 0x80, third, ..] => matches!(third, 0x88 | 0x8a),
        [0xef, 0xb8, third, ..] => matches!(third, 0xbd | 0xbf),
        [0xef, 0xb9, 0xa4, ..] | [0xef, 0xbc, 0x9c, ..] => true,
        [0xf0, 0x9d, 0x88, ..] | [0xf3, 0xa0, 0x80, ..] => true,
        _ => false,
    }
}

/// Whether a byte may begin what comes after a bracket: a slash, the word's first letter, anything
/// that is skipped, encoded or not ASCII.
fn may_follow_bracket(byte: u8) -> bool {
    matches!(byte, 0..=b' ' | b'/' | b'u' | b'U' | b'&' | b'\\' | b'%' | 0x7f..)
}

/// Whether a byte is the first of anything that `may_open` knows, and of some other things.
const fn is_special(byte: u8) -> bool {
    (byte == b'<') | (byte == b'&') | (byte == b'\\') | (byte == b'%') | (byte >= 0xc2)
}

/// The offset of the next place at or after `from` where a marker may begin, else the text's length.
pub(super) fn next_opening(text: &[u8], from: usize) -> usize {
    // Blocks first, in a form that compiles to vector code: many hold no special byte.
    const BLOCK: usize = 64;
    let mut at = from;
    let mut rest = text.get(from..).unwrap_or_default();
    while !rest.is_empty() {
        let (block, tail) = rest.split_at(BLOCK.min(rest.len()));
        if block.iter().fold(false, |any, &byte| any | is_special(byte)) {
            for (offset, _) in block.iter().enumerate().filter(|&(_, &byte)| is_special(byte)) {
                if rest.get(offset..).is_some_and(may_open) {
                    return at + offset;
                }
            }
        }
        at += block.len();
        rest = tail;
    }
    at
}

/// The unit at the start of `rest`; `None` when more text is needed to decide, or at the end of the
/// text. `last` says that no more text comes.
pub(super) fn decode(rest: &[u8], last: bool) -> Option<Unit> {
    let &first = rest.first()?;
    let alone = Unit::raw(ascii(first), 1);
    if first < 0x80 && !matches!(first, b'&' | b'\\' | b'%') {
        return Some(alone);
    }
    let mut cursor = Cursor { bytes: rest.get(..LONGEST_UNIT).unwrap_or(rest), at: 1, starved: false };
    let unit = match first {
        b'&' => cursor.entity(),
        b'\\' => cursor.escape(),
        b'%' => cursor.percent(),
        _ => return cursor.utf8(last),
    };
    if !cursor.starved {
        Some(unit.unwrap_or(alone))
    } else if rest.len() >= LONGEST_UNIT {
        Some(alone)
    } else {
        last.then(|| unit.unwrap_or(alone))
    }
}

/// Named references that matter here. Those without a semicolon in this list are, in HTML, also
/// references when none follows.
const NAMES: &[(&str, char)] = &[
    ("lt", '<'),
    ("LT", '<'),
    ("nbsp", '\u{a0}'),
    ("shy", '\u{ad}'),
    ("laquo", '\u{ab}'),
    ("sol;", '/'),
    ("bsol;", '\\'),
    ("lowbar;", '_'),
    ("UnderBar;", '_'),
    ("hyphen;", '-'),
    ("dash;", '-'),
    ("ndash;", '-'),
    ("mdash;", '-'),
    ("horbar;", '-'),
    ("minus;", '-'),
    ("Tab;", '\t'),
    ("NewLine;", '\n'),
    ("ensp;", ' '),
    ("emsp;", ' '),
    ("emsp13;", ' '),
    ("emsp14;", ' '),
    ("numsp;", ' '),
    ("puncsp;", ' '),
    ("thinsp;", ' '),
    ("ThinSpace;", ' '),
    ("hairsp;", ' '),
    ("VeryThinSpace;", ' '),
    ("MediumSpace;", ' '),
    ("NonBreakingSpace;", ' '),
    ("zwj;", '\u{200d}'),
    ("zwnj;", '\u{200c}'),
    ("lrm;", '\u{200e}'),
    ("rlm;", '\u{200f}'),
    ("ZeroWidthSpace;", '\u{200b}'),
    ("NegativeThinSpace;", '\u{200b}'),
    ("NegativeMediumSpace;", '\u{200b}'),
    ("NegativeThickSpace;", '\u{200b}'),
    ("NegativeVeryThinSpace;", '\u{200b}'),
    ("NoBreak;", '\u{2060}'),
    ("InvisibleTimes;", '\u{2062}'),
    ("it;", '\u{2062}'),
    ("InvisibleComma;", '\u{2063}'),
    ("ic;", '\u{2063}'),
    ("ApplyFunction;", '\u{2061}'),
    ("af;", '\u{2061}'),
    ("lang;", '\u{27e8}'),
    ("langle;", '\u{27e8}'),
    ("LeftAngleBracket;", '\u{27e8}'),
    ("Lang;", '\u{27ea}'),
    ("lsaquo;", '\u{2039}'),
];

/// Reads one unit whose first byte is already taken.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether the end was reached in search of more.
    starved: bool,
}

impl Cursor<'_> {
    fn peek(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.starved |= byte.is_none();
        byte
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let start = self.at;
        for byte in wanted.bytes() {
            if self.peek() != Some(byte) {
                self.at = start;
                return false;
            }
            self.at += 1;
        }
        true
    }

    /// `digits` digits of `radix`, all of them.
    fn number(&mut self, radix: u32, digits: usize) -> Option<u32> {
        let mut value = 0;
        for _ in 0..digits {
            value = value * radix + self.digit(radix)?;
        }
        Some(value)
    }

    fn digit(&mut self, radix: u32) -> Option<u32> {
        let digit = char::from(self.peek()?).to_digit(radix)?;
        self.at += 1;
        Some(digit)
    }

    /// At least one digit of `radix`, leading zeros included.
    fn run(&mut self, radix: u32) -> Option<u32> {
        let mut value = self.digit(radix)?;
        while let Some(digit) = self.digit(radix) {
            value = value.saturating_mul(radix).saturating_add(digit);
        }
        Some(value)
    }

    fn unit(&self, ch: Option<char>, spelling: u8) -> Option<Unit> {
        ch.map(|ch| Unit::raw(fold(ch).spelled(spelling), self.at))
    }

    /// After `&`. An encoded ampersand before a reference counts as one: `&amp;lt;`.
    fn entity(&mut self) -> Option<Unit> {
        while self.eat("amp;") {}
        let ch = if self.eat("#") {
            let radix = if self.eat("x") || self.eat("X") { 16 } else { 10 };
            let ch = self.run(radix).and_then(char::from_u32);
            self.eat(";");
            ch
        } else {
            let first = self.peek();
            let named = NAMES.iter().filter(|(name, _)| name.bytes().next() == first).find(|(name, _)| self.eat(name));
            self.eat(";");
            named.map(|&(_, ch)| ch)
        };
        self.unit(ch, ENTITY)
    }

    /// After a backslash: `\u003c`, `\u{3c}`, `\U0000003c`, `\x3c`, `\x{3c}`, `\074`, `\n`; any other
    /// backslash is a unit of its own.
    fn escape(&mut self) -> Option<Unit> {
        let ch = match self.peek() {
            Some(letter @ (b'n' | b'r' | b't')) => {
                return Some(Unit::raw(Meaning::white_escape(letter), 2));
            }
            Some(b'0'..=b'3') => self.number(8, 3).and_then(char::from_u32),
            Some(b'u') => self.hexadecimal(4),
            Some(b'U') => self.hexadecimal(8),
            Some(b'x') => self.hexadecimal(2),
            _ => None,
        };
        self.unit(ch, ESCAPE)
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<char> {
        self.at += 1;
        if self.eat("{") {
            let value = self.run(16)?;
            return self.eat("}").then(|| char::from_u32(value))?;
        }
        let value = self.number(16, digits)?;
        // Half of a surrogate pair, as JSON spells what lies beyond four digits.
        if digits == 4 && (0xd800..0xdc00).contains(&value) && self.eat("\\u") {
            let low = self.number(16, 4)?.checked_sub(0xdc00)?;
            let code = 0x1_0000 + ((value - 0xd800) << 10) + low;
            return char::from_u32(code).filter(|_| low < 0x400);
        }
        char::from_u32(value)
    }

    /// After `%`: the encoded bytes of one character.
    fn percent(&mut self) -> Option<Unit> {
        let ch = self.percent_char();
        self.unit(ch, PERCENT)
    }

    fn percent_char(&mut self) -> Option<char> {
        let first = self.percent_byte()?;
        let more = match first {
            0..0x80 => return Some(char::from(first)),
            0xc2..0xe0 => 1,
            0xe0..0xf0 => 2,
            0xf0..=0xf4 => 3,
            _ => return None,
        };
        let mut bytes = [first, 0, 0, 0];
        for byte in bytes.iter_mut().skip(1).take(more) {
            if !self.eat("%") {
                return None;
            }
            *byte = self.percent_byte()?;
        }
        let text = std::str::from_utf8(bytes.get(..=more)?).ok()?;
        text.chars().next()
    }

    /// Two digits. Encoding twice counts as once: `%253C`.
    fn percent_byte(&mut self) -> Option<u8> {
        while self.eat("25") {}
        self.number(16, 2).and_then(|byte| u8::try_from(byte).ok())
    }

    /// One raw character; an invalid byte is none.
    fn utf8(&self, last: bool) -> Option<Unit> {
        let bytes = self.bytes.get(..4).unwrap_or(self.bytes);
        let (valid, cut_short) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let text = std::str::from_utf8(valid).unwrap_or_default();
                (text, error.error_len().is_none())
            }
        };
        match valid.chars().next() {
            Some(ch) => Some(Unit::raw(fold(ch), ch.len_utf8())),
            None if cut_short && !last => None,
            None => Some(Unit::raw(Meaning::OTHER, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hostile starts of units, repeated: each must be cut into short units in one pass.
    #[test]
    fn units_tile_any_text_and_are_short() {
        let pieces = [
            "&",
            "&#",
            "&#0",
            "&#x0",
            "&amp;",
            "&lt",
            "\\",
            "\\u{0",
            "\\ud800",
            "%",
            "%25",
            "%e2%80",
            "\u{e003c}",
            "<",
            "a",
        ];
        for piece in pieces {
            let text = piece.repeat(500);
            let (mut at, mut units) = (0, 0);
            while at < text.len() {
                let unit = decode(&text.as_bytes()[at..], true).unwrap();
                assert!((1..=LONGEST_UNIT).contains(&unit.len), "{piece:?} at {at}");
                at += unit.len;
                units += 1;
            }
            assert_eq!(at, text.len(), "{piece:?}");
            assert!(units <= text.len(), "{piece:?}");
        }
    }

    #[test]
    fn every_bracket_is_an_opening() {
        for ch in '\0'..=char::MAX {
            let text = format!("{ch}  ");
            let found = next_opening(text.as_bytes(), 0) == 0;
            let encoding = matches!(ch, '&' | '\\' | '%');
            if fold(ch).opens {
                assert!(found, "{ch:?} opens");
            } else if ch.len_utf8() < 4 && !encoding {
                assert!(!found, "{ch:?} does not open");
            }
        }
    }

    #[test]
    fn a_unit_waits_for_more_text_only_while_it_may_grow() {
        for open in ["&", "&l", "&lt", "&#0060", "\\", "\\u00", "%", "%3", "\u{e003c}"] {
            let bytes = open.as_bytes();
            let bytes = if open.is_ascii() { bytes } else { &bytes[..2] };
            assert!(decode(bytes, false).is_none(), "{open:?}");
            assert!(decode(bytes, true).is_some(), "{open:?}");
        }
        for closed in ["&lt;", "&x", "\\u003c", "\\/", "%3c", "%zz", "<", "\u{e003c}"] {
            assert!(decode(closed.as_bytes(), false).is_some(), "{closed:?}");
        }
        let padded = format!("&#{}60;", "0".repeat(LONGEST_UNIT));
        let unit = decode(padded.as_bytes(), false).unwrap();
        assert_eq!(unit.len, 1, "an over-long entity is no unit");
    }
}
