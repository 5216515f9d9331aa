//! Reads an object out of the JSON strings that it stands in, byte by byte, and no further than its end.
//!
//! A string around it is decoded while it is read, so that a part of a text of any length is looked at as far as
//! the object goes and what follows stays untouched. Whether the object is an envelope is not decided here.

/// The most bytes that an object may take where it stands.
const MAX_RAW: usize = 4 * 1024 * 1024;
/// An envelope is an object in an object.
const MAX_DEPTH: u32 = 2;

/// What came of an object that begins at the first byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Collected {
    /// Its text, decoded, and how many bytes it takes where it stands.
    Whole { object: Vec<u8>, len: usize },
    /// The bytes end before it does.
    Incomplete,
    /// It cannot be an envelope.
    Malformed,
}

/// Collects the object at the start of `bytes`, which stands in `level` JSON strings.
pub(super) fn collect(bytes: &[u8], level: u32) -> Collected {
    let mut layer = Layer::new(bytes, level);
    let mut object = Vec::new();
    let (mut depth, mut quoted, mut escaped) = (0_u32, false, false);
    loop {
        if layer.position() > MAX_RAW {
            return Collected::Malformed;
        }
        let byte = match layer.next() {
            Step::Byte(byte) => byte,
            Step::End => return Collected::Incomplete,
            Step::Broken => return Collected::Malformed,
        };
        object.push(byte);
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth = depth.saturating_sub(1),
            b'[' if !quoted => return Collected::Malformed,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Collected::Malformed;
        }
        if depth == 0 {
            return Collected::Whole { object, len: layer.position() };
        }
    }
}

enum Step {
    Byte(u8),
    /// There is no more yet.
    End,
    /// A string around ends here, or holds an escape that is none.
    Broken,
}

enum Layer<'a> {
    Raw {
        bytes: &'a [u8],
        at: usize,
    },
    /// The inside of a JSON string; characters that took several bytes wait, the last one first.
    Inside {
        outer: Box<Layer<'a>>,
        waiting: Vec<u8>,
    },
}

impl<'a> Layer<'a> {
    fn new(bytes: &'a [u8], level: u32) -> Self {
        (0..level)
            .fold(Self::Raw { bytes, at: 0 }, |outer, _| Self::Inside { outer: Box::new(outer), waiting: Vec::new() })
    }

    /// How many of the raw bytes have been read.
    fn position(&self) -> usize {
        match self {
            Self::Raw { at, .. } => *at,
            Self::Inside { outer, .. } => outer.position(),
        }
    }

    fn next(&mut self) -> Step {
        match self {
            Self::Raw { bytes, at } => match bytes.get(*at) {
                Some(byte) => {
                    *at += 1;
                    Step::Byte(*byte)
                }
                None => Step::End,
            },
            Self::Inside { outer, waiting } => {
                if let Some(byte) = waiting.pop() {
                    return Step::Byte(byte);
                }
                match outer.next() {
                    Step::Byte(b'\\') => escape(outer, waiting).unwrap_or_else(|step| step),
                    Step::Byte(b'"') => Step::Broken,
                    step => step,
                }
            }
        }
    }

    fn byte(&mut self) -> Result<u8, Step> {
        match self.next() {
            Step::Byte(byte) => Ok(byte),
            step => Err(step),
        }
    }

    fn hex(&mut self) -> Result<u32, Step> {
        let mut value = 0;
        for _ in 0..4 {
            value = value * 16 + char::from(self.byte()?).to_digit(16).ok_or(Step::Broken)?;
        }
        Ok(value)
    }
}

/// What follows a backslash.
fn escape(outer: &mut Layer<'_>, waiting: &mut Vec<u8>) -> Result<Step, Step> {
    let plain = match outer.byte()? {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        same @ (b'"' | b'\\' | b'/') => same,
        b'u' => {
            let mut code = outer.hex()?;
            if (0xD800..0xDC00).contains(&code) {
                if outer.byte()? != b'\\' || outer.byte()? != b'u' {
                    return Err(Step::Broken);
                }
                let low @ 0xDC00..0xE000 = outer.hex()? else { return Err(Step::Broken) };
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            }
            let mut buffer = [0; 4];
            let character = char::from_u32(code).ok_or(Step::Broken)?;
            waiting.extend(character.encode_utf8(&mut buffer).bytes().rev());
            return waiting.pop().map(Step::Byte).ok_or(Step::Broken);
        }
        _ => return Err(Step::Broken),
    };
    Ok(Step::Byte(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(text: &str, level: u32) -> Result<(String, &str), Collected> {
        match collect(text.as_bytes(), level) {
            Collected::Whole { object, len } => Ok((String::from_utf8(object).unwrap(), text.get(len..).unwrap())),
            other => Err(other),
        }
    }

    #[test]
    fn an_object_is_read_to_its_end_at_each_level() {
        for (text, level, object, rest) in [
            (r#"{"a":{"b":"}\"{"}} x"#, 0, r#"{"a":{"b":"}\"{"}}"#, " x"),
            (r#"{\"a\":\"}\\\"\u00fc\"}","#, 1, "{\"a\":\"}\\\"\u{fc}\"}", r#"","#),
            (r"{\u0022a\u0022:1}\n", 1, r#"{"a":1}"#, r"\n"),
            (r#"{\\\"a\\\":\\\"\ud83d\ude00\\\"}\""#, 2, "{\"a\":\"\u{1f600}\"}", r#"\""#),
        ] {
            assert_eq!(collected(text, level), Ok((object.to_owned(), rest)), "{text}");
        }
    }

    #[test]
    fn an_end_and_a_break_are_told_apart() {
        for (text, level, end) in [
            (r#"{"a":1"#, 0, Collected::Incomplete),
            (r#"{\"a\""#, 1, Collected::Incomplete),
            (r#"{\"a\":"}"#, 1, Collected::Malformed),
            (r#"{\"a\":\q}"#, 1, Collected::Malformed),
            (r#"{\"a\":\ud83dx}"#, 1, Collected::Malformed),
            (r#"{"a":{"b":{"c":1}}}"#, 0, Collected::Malformed),
            (r#"{"a":[]}"#, 0, Collected::Malformed),
        ] {
            assert_eq!(collected(text, level), Err(end), "{text}");
        }
    }
}
