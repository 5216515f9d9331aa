//! What a character may mean in a marker: the fold that look-alikes are found by.
//!
//! Classes are chosen by what a reader, human or model, could take for the character, not by a
//! Unicode table of confusables: the alphabet here is eleven characters, so a table by hand is
//! complete enough, small, and free of data files. Code points are written as escapes, for the
//! characters themselves could not be told apart in this file.

/// The symbols of a marker after its bracket; the slash is optional.
const SYMBOLS: &[u8] = b"/untrusted-content";

/// The automaton's states right after the bracket: before the slash, or past it.
pub(super) const START: u32 = 0b11;
/// The slash among the symbols.
pub(super) const SLASH: u32 = symbol(b'/');
/// The state in which every symbol is matched.
pub(super) const MATCHED: u32 = 1 << SYMBOLS.len();

/// Spellings, as bits: anything but a plain ASCII character of a marker sets one.
pub(super) const ENTITY: u8 = 1;
pub(super) const ESCAPE: u8 = 1 << 1;
pub(super) const PERCENT: u8 = 1 << 2;
pub(super) const HOMOGLYPH: u8 = 1 << 3;
pub(super) const INVISIBLE: u8 = 1 << 4;
pub(super) const SPACE: u8 = 1 << 5;

/// What a unit of text may be in a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    /// The places of the symbols that it may stand for, as bits.
    pub(super) symbols: u32,
    /// Whether it may be there without meaning anything.
    pub(super) skips: bool,
    /// Whether it may be the bracket.
    pub(super) opens: bool,
    /// How it is spelled.
    pub(super) spelling: u8,
}

impl Meaning {
    /// No part of a marker.
    pub(super) const OTHER: Self = Self { symbols: 0, skips: false, opens: false, spelling: 0 };

    /// A backslash that escapes whatever follows.
    pub(super) const BACKSLASH: Self = Self { skips: true, spelling: ESCAPE, ..Self::OTHER };

    const fn bracket(spelling: u8) -> Self {
        Self { opens: true, spelling, ..Self::OTHER }
    }

    const fn of(symbols: u32, spelling: u8) -> Self {
        Self { symbols, spelling, ..Self::OTHER }
    }

    /// White space: nothing, or what stands for the dash.
    const SPACE: Self = Self { symbols: symbol(b'-'), skips: true, opens: false, spelling: SPACE };

    const INVISIBLE: Self = Self { skips: true, spelling: INVISIBLE, ..Self::OTHER };

    /// The same thing in a further spelling.
    pub(super) fn spelled(self, spelling: u8) -> Self {
        Self { spelling: self.spelling | spelling, ..self }
    }

    /// `\n`, `\r`, `\t`: an escaped white space, or a backslash before that letter.
    pub(super) fn white_escape(letter: u8) -> Self {
        Self { symbols: symbol(b'-') | symbol(letter), skips: true, opens: false, spelling: ESCAPE }
    }
}

/// The places of an ASCII character (lower case) among the symbols, as bits.
const fn symbol(wanted: u8) -> u32 {
    let mut bits = 0;
    let mut rest = SYMBOLS;
    let mut place = 0;
    while let [first, tail @ ..] = rest {
        if *first == wanted {
            bits |= 1 << place;
        }
        rest = tail;
        place += 1;
    }
    bits
}

/// What `ch` may mean in a marker.
pub(super) fn fold(ch: char) -> Meaning {
    match u8::try_from(ch) {
        Ok(byte) if byte.is_ascii() => ascii(byte),
        _ => foreign(ch),
    }
}

/// What an ASCII character may mean in a marker.
pub(super) fn ascii(byte: u8) -> Meaning {
    /// All of them, since this is asked for nearly every character that is looked at.
    static ASCII: [Meaning; 128] = {
        let mut table = [Meaning::OTHER; 128];
        let mut rest: &mut [Meaning] = &mut table;
        let mut byte = 0;
        while let [first, tail @ ..] = rest {
            *first = ascii_class(byte);
            rest = tail;
            byte += 1;
        }
        table
    };
    ASCII.get(usize::from(byte)).copied().unwrap_or(Meaning::OTHER)
}

const fn ascii_class(byte: u8) -> Meaning {
    match byte {
        b'<' => Meaning::bracket(0),
        b'\\' => Meaning::BACKSLASH,
        b'_' => Meaning::of(symbol(b'-'), HOMOGLYPH),
        b'0' => Meaning::of(symbol(b'o'), HOMOGLYPH),
        b' ' | b'\t'..=b'\r' => Meaning::SPACE,
        0..b' ' | 0x7f => Meaning::INVISIBLE,
        _ => Meaning::of(symbol(byte.to_ascii_lowercase()), 0),
    }
}

fn foreign(ch: char) -> Meaning {
    if let Some(tagged) = tag(ch) {
        return ascii(tagged).spelled(INVISIBLE);
    }
    if let Some(plain) = styled(ch) {
        return ascii(plain).spelled(HOMOGLYPH);
    }
    if is_bracket(ch) {
        return Meaning::bracket(HOMOGLYPH);
    }
    if is_invisible(ch) {
        // A soft hyphen is shown as one where a line breaks.
        let symbols = if ch == '\u{ad}' { symbol(b'-') } else { 0 };
        return Meaning { symbols, ..Meaning::INVISIBLE };
    }
    if ch.is_whitespace() || ch == '\u{2800}' {
        return Meaning::SPACE;
    }
    if is_combining(ch) {
        return Meaning::INVISIBLE.spelled(HOMOGLYPH);
    }
    match homoglyph(ch) {
        Some(plain) => Meaning::of(symbol(plain), HOMOGLYPH),
        None => Meaning::OTHER,
    }
}

/// The ASCII character that a Unicode tag character smuggles.
fn tag(ch: char) -> Option<u8> {
    let code = u32::from(ch).checked_sub(0xe_0000)?;
    u8::try_from(code).ok().filter(|b| (b' '..=b'~').contains(b))
}

/// The ASCII character of which `ch` is the full-width or another styled form.
fn styled(ch: char) -> Option<u8> {
    let code = u32::from(ch);
    let letter = |from: u32| u8::try_from((code - from) % 26).ok().map(|n| b'a' + n);
    match code {
        // The masculine ordinal, a raised o.
        0xba => Some(b'o'),
        0xff01..=0xff5e => u8::try_from(code - 0xff01).ok().map(|n| b'!' + n),
        // Circled and parenthesised.
        0x249c..=0x24b5 => letter(0x249c),
        0x24b6..=0x24e9 => letter(0x24b6),
        // Mathematical alphabets, capitals and small letters by turns.
        0x1_d400..=0x1_d6a3 => letter(0x1_d400),
        // Parenthesised, squared, filled; regional indicators.
        0x1_f110..=0x1_f129 => letter(0x1_f110),
        0x1_f130..=0x1_f149 => letter(0x1_f130),
        0x1_f150..=0x1_f169 => letter(0x1_f150),
        0x1_f170..=0x1_f189 => letter(0x1_f170),
        0x1_f1e6..=0x1_f1ff => letter(0x1_f1e6),
        _ => None,
    }
}

/// Brackets that look like `<`.
fn is_bracket(ch: char) -> bool {
    matches!(
        ch,
        '\u{ab}'
            | '\u{2c2}'
            | '\u{1438}'
            | '\u{2039}'
            | '\u{226a}'
            | '\u{226e}'
            | '\u{227a}'
            | '\u{22d6}'
            | '\u{22d8}'
            | '\u{2329}'
            | '\u{276c}'
            | '\u{276e}'
            | '\u{2770}'
            | '\u{27e8}'
            | '\u{27ea}'
            | '\u{2991}'
            | '\u{29fc}'
            | '\u{2a79}'
            | '\u{3008}'
            | '\u{300a}'
            | '\u{fe3d}'
            | '\u{fe3f}'
            | '\u{fe64}'
            | '\u{1_d236}'
    )
}

/// Characters that are not seen: zero-width, direction marks, fillers, variation selectors, other
/// format and control characters.
pub(crate) fn is_invisible(ch: char) -> bool {
    ch.is_control() && !ch.is_whitespace()
        || matches!(
            ch,
            '\u{ad}'
                | '\u{34f}'
                | '\u{600}'..='\u{605}'
                | '\u{61c}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{8e2}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1_bca0}'..='\u{1_bca3}'
                | '\u{1_d173}'..='\u{1_d17a}'
                | '\u{e_0000}'..='\u{e_0fff}'
        )
}

/// Marks that only decorate the character before them.
fn is_combining(ch: char) -> bool {
    matches!(
        ch,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20f0}'
            | '\u{fe20}'..='\u{fe2f}'
    )
}

/// The symbol of a marker that `ch` looks like.
fn homoglyph(ch: char) -> Option<u8> {
    slash_or_dash(ch).or_else(|| letter(ch))
}

fn slash_or_dash(ch: char) -> Option<u8> {
    Some(match ch {
        '\u{1735}' | '\u{2044}' | '\u{2215}' | '\u{2571}' | '\u{27cb}' | '\u{29f5}' | '\u{29f8}' | '\u{2cc6}'
        | '\u{2e4a}' | '\u{2f03}' | '\u{3033}' | '\u{30ce}' | '\u{31d3}' | '\u{4e3f}' => b'/',
        '\u{af}'
        | '\u{b7}'
        | '\u{2c9}'
        | '\u{2d7}'
        | '\u{58a}'
        | '\u{5be}'
        | '\u{6d4}'
        | '\u{1806}'
        | '\u{2010}'..='\u{2015}'
        | '\u{2043}'
        | '\u{2212}'
        | '\u{2500}'
        | '\u{2501}'
        | '\u{2796}'
        | '\u{2cba}'
        | '\u{30fb}'
        | '\u{30fc}'
        | '\u{301c}'
        | '\u{4e00}'
        | '\u{fe58}'
        | '\u{fe63}'
        | '\u{ff70}' => b'-',
        _ => return None,
    })
}

/// Letters of other scripts, small capitals, superscripts and letters with marks, by the letter
/// they look like, either case.
#[rustfmt::skip]
fn letter(ch: char) -> Option<u8> {
    Some(match ch {
        '\u{a2}' | '\u{c7}' | '\u{e7}' | '\u{106}'..='\u{10d}' | '\u{187}' | '\u{188}' | '\u{23b}'
        | '\u{23c}' | '\u{297}' | '\u{3c2}' | '\u{3f2}' | '\u{3f9}' | '\u{421}' | '\u{441}'
        | '\u{4aa}' | '\u{4ab}' | '\u{13df}' | '\u{1d04}' | '\u{1d9c}' | '\u{1e08}' | '\u{1e09}'
        | '\u{2102}' | '\u{212d}' | '\u{216d}' | '\u{217d}' | '\u{2ca4}' | '\u{2ca5}' | '\u{a4da}'
            => b'c',
        '\u{d0}' | '\u{10e}'..='\u{111}' | '\u{189}'..='\u{18c}' | '\u{256}' | '\u{257}' | '\u{500}'
        | '\u{501}' | '\u{13a0}' | '\u{13e7}' | '\u{146f}' | '\u{15de}' | '\u{1d05}' | '\u{1d48}'
        | '\u{1e0a}'..='\u{1e13}' | '\u{2145}' | '\u{2146}' | '\u{216e}' | '\u{217e}' | '\u{a4d3}'
            => b'd',
        '\u{c8}'..='\u{cb}' | '\u{e8}'..='\u{eb}' | '\u{112}'..='\u{11b}' | '\u{18e}' | '\u{1dd}'
        | '\u{204}'..='\u{207}' | '\u{228}' | '\u{229}' | '\u{247}' | '\u{258}' | '\u{259}'
        | '\u{25b}' | '\u{395}' | '\u{3b5}' | '\u{3f5}' | '\u{400}' | '\u{401}' | '\u{404}'
        | '\u{415}' | '\u{435}' | '\u{450}' | '\u{451}' | '\u{454}' | '\u{4bc}'..='\u{4bf}'
        | '\u{4d6}' | '\u{4d7}' | '\u{13ac}' | '\u{1d07}' | '\u{1d49}' | '\u{1e14}'..='\u{1e1d}'
        | '\u{1eb8}'..='\u{1ec7}' | '\u{2091}' | '\u{20ac}' | '\u{212e}'..='\u{2130}' | '\u{2147}'
        | '\u{2d39}' | '\u{a4f0}' | '\u{ab32}' => b'e',
        '\u{d1}' | '\u{f1}' | '\u{143}'..='\u{14b}' | '\u{19d}' | '\u{19e}' | '\u{1f8}' | '\u{1f9}'
        | '\u{220}' | '\u{272}'..='\u{274}' | '\u{377}' | '\u{39d}' | '\u{3ae}' | '\u{3b7}'
        | '\u{43f}' | '\u{578}' | '\u{57c}' | '\u{1e44}'..='\u{1e4b}' | '\u{207f}' | '\u{2099}'
        | '\u{2115}' | '\u{2c9a}' | '\u{2c9b}' | '\u{a4e0}' => b'n',
        '\u{d2}'..='\u{d6}' | '\u{d8}' | '\u{f0}' | '\u{f2}'..='\u{f6}' | '\u{f8}'
        | '\u{14c}'..='\u{151}' | '\u{1a0}' | '\u{1a1}' | '\u{1d1}' | '\u{1d2}' | '\u{1ea}'..='\u{1ed}'
        | '\u{1fe}' | '\u{1ff}' | '\u{20c}'..='\u{20f}' | '\u{22a}'..='\u{231}' | '\u{275}'
        | '\u{39f}' | '\u{3bf}' | '\u{3c3}' | '\u{3cc}' | '\u{41e}' | '\u{43e}' | '\u{472}'
        | '\u{473}' | '\u{4e6}'..='\u{4eb}' | '\u{555}' | '\u{585}' | '\u{5e1}' | '\u{665}'
        | '\u{6f5}' | '\u{7c0}' | '\u{966}' | '\u{be6}' | '\u{c66}' | '\u{d20}' | '\u{d66}'
        | '\u{e50}' | '\u{ed0}' | '\u{101d}' | '\u{1040}' | '\u{10ff}' | '\u{1d0f}' | '\u{1d11}'
        | '\u{1d52}' | '\u{1e4c}'..='\u{1e53}' | '\u{1ecc}'..='\u{1ee3}' | '\u{2092}' | '\u{2134}'
        | '\u{25cb}' | '\u{25ef}' | '\u{2c9e}' | '\u{2c9f}' | '\u{2d54}' | '\u{3007}' | '\u{a4f3}'
            => b'o',
        '\u{154}'..='\u{159}' | '\u{210}'..='\u{213}' | '\u{24d}' | '\u{27c}'..='\u{27e}' | '\u{280}'
        | '\u{2b3}' | '\u{403}' | '\u{413}' | '\u{433}' | '\u{453}' | '\u{490}' | '\u{491}'
        | '\u{13a1}' | '\u{13d2}' | '\u{1d26}' | '\u{1d63}' | '\u{1e58}'..='\u{1e5f}'
        | '\u{211b}'..='\u{211d}' | '\u{2c84}' | '\u{2c85}' | '\u{a4e3}' | '\u{ab47}' | '\u{ab48}'
            => b'r',
        '\u{a7}' | '\u{15a}'..='\u{161}' | '\u{17f}' | '\u{1bd}' | '\u{218}' | '\u{219}' | '\u{23f}'
        | '\u{282}' | '\u{2e2}' | '\u{405}' | '\u{455}' | '\u{54f}' | '\u{13d5}' | '\u{13da}'
        | '\u{1e60}'..='\u{1e69}' | '\u{1e9b}' | '\u{209b}' | '\u{a4e2}' | '\u{a731}' => b's',
        '\u{162}'..='\u{167}' | '\u{1ab}'..='\u{1ae}' | '\u{21a}' | '\u{21b}' | '\u{288}'
        | '\u{3a4}' | '\u{3c4}' | '\u{422}' | '\u{442}' | '\u{4ac}' | '\u{4ad}' | '\u{13a2}'
        | '\u{1d1b}' | '\u{1d57}' | '\u{1e6a}'..='\u{1e71}' | '\u{1e97}' | '\u{2020}' | '\u{209c}'
        | '\u{22a4}' | '\u{27d9}' | '\u{2ca6}' | '\u{2ca7}' | '\u{a4d4}' => b't',
        '\u{b5}' | '\u{d9}'..='\u{dc}' | '\u{f9}'..='\u{fc}' | '\u{168}'..='\u{173}' | '\u{1af}'
        | '\u{1b0}' | '\u{1d3}'..='\u{1dc}' | '\u{214}'..='\u{217}' | '\u{244}' | '\u{28b}'
        | '\u{3bc}' | '\u{3c5}' | '\u{3cb}' | '\u{3cd}' | '\u{446}' | '\u{54d}' | '\u{57d}'
        | '\u{1200}' | '\u{144c}' | '\u{1d1c}' | '\u{1d58}' | '\u{1d64}' | '\u{1e72}'..='\u{1e7b}'
        | '\u{1ee4}'..='\u{1ef1}' | '\u{222a}' | '\u{22c3}' | '\u{a4f4}' | '\u{a79f}' | '\u{ab4e}'
        | '\u{ab52}' => b'u',
        _ => return None,
    })
}
