//! Finds where a text declares something sensitive.
//!
//! A declaration is the key `$burrowSensitive` or `$burrowManaged` with a `:` (or `=`) behind it. It counts however
//! it is quoted and spelled: one that is not quoted as JSON, or has a letter written as an escape, is malformed and not
//! overlooked. Inside JSON strings its quotes are escaped, once for each string around it; that number is its level.

use memchr::memmem;

const NAMES: [&str; 2] = ["$burrowSensitive", "$burrowManaged"];
/// How many JSON strings may be around an envelope.
const MAX_LEVEL: u32 = 4;
/// The longest run of quotes, escapes and space in a declaration.
pub(super) const MAX_RUN: usize = 2048;
/// The most backslashes of an escaped letter: more strings around it than any reader unpacks.
const MAX_SLASHES: usize = 64;
/// The longest that a name can be whose letters are all escaped.
const MAX_NAME: usize = 16 * (MAX_SLASHES + 5);

/// Where an envelope begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opening {
    /// Of its `{`.
    pub(super) start: usize,
    /// How many JSON strings it is in.
    pub(super) level: u32,
}

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// No declaration, as far as can be said.
    Nothing,
    /// One, and its envelope may follow.
    At(Opening),
    /// One that no envelope can be.
    Malformed,
}

/// Whether a text can hold a declaration at all: a piece of a name in clear, or a letter of one as an escape, which
/// nobody writes who has nothing to hide.
pub(super) fn is_suspect(text: &[u8]) -> bool {
    memmem::find(text, b"burrow").is_some() || has_escaped_letter(text)
}

fn has_escaped_letter(text: &[u8]) -> bool {
    let letter =
        |digits: &[u8]| hex(digits).is_some_and(|byte| NAMES.iter().any(|name| name.as_bytes().contains(&byte)));
    let after = |start: usize| text.get(start..start + 2).is_some_and(letter);
    memmem::find_iter(text, b"\\u00").any(|at| after(at + 4)) || memmem::find_iter(text, b"\\x").any(|at| after(at + 2))
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |index: usize| digits.get(index).and_then(|digit| char::from(*digit).to_digit(16));
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// How the beginning of some bytes compares to a name.
enum Named {
    /// It is not the name.
    Not,
    /// The bytes end within it.
    Begun,
    /// It is, in so many bytes, spelled in clear or not.
    Whole { len: usize, in_clear: bool },
}

fn named(bytes: &[u8], name: &str) -> Named {
    let (mut at, mut in_clear) = (0, true);
    for letter in name.bytes() {
        let rest = bytes.get(at..).unwrap_or_default();
        let slashes = rest.iter().take(MAX_SLASHES).take_while(|byte| **byte == b'\\').count();
        let escape = rest.get(slashes..).unwrap_or_default();
        let (front, digits): (&[u8], usize) = match escape.first() {
            Some(b'u') => (b"u00", 2),
            Some(b'x') => (b"x", 2),
            _ => (b"", 0),
        };
        let taken = match (rest.first(), slashes) {
            (None, _) => return Named::Begun,
            (Some(byte), 0) if *byte == letter => 1,
            (Some(_), 0) => return Named::Not,
            (Some(_), _) if escape.is_empty() => return Named::Begun,
            (Some(_), _) => {
                let len = front.len() + digits;
                let written = escape.get(..len).unwrap_or(escape);
                if digits == 0 || !written.starts_with(front.get(..written.len().min(front.len())).unwrap_or_default())
                {
                    return Named::Not;
                }
                if written.len() < len {
                    return Named::Begun;
                }
                if hex(written.get(front.len()..).unwrap_or_default()) != Some(letter) {
                    return Named::Not;
                }
                in_clear = false;
                slashes + len
            }
        };
        at += taken;
    }
    Named::Whole { len: at, in_clear }
}

/// Where in `bytes` from `from` on a name can begin: at a dollar sign, or at the escape of one.
fn candidates(bytes: &[u8], from: usize) -> impl Iterator<Item = usize> + '_ {
    let tail = bytes.get(from..).unwrap_or_default();
    let is_first = move |at: &usize| {
        bytes.get(*at) == Some(&b'$') || at.checked_sub(1).is_none_or(|before| bytes.get(before) != Some(&b'\\'))
    };
    memchr::memchr2_iter(b'$', b'\\', tail).map(move |at| from + at).filter(is_first)
}

/// The first declaration in `bytes` from `from` on.
pub(super) fn find(bytes: &[u8], from: usize) -> Found {
    for start in candidates(bytes, from) {
        let here = bytes.get(start..).unwrap_or_default();
        let whole = NAMES.iter().find_map(|name| match named(here, name) {
            Named::Whole { len, in_clear } => Some((len, in_clear)),
            Named::Not | Named::Begun => None,
        });
        let Some((len, in_clear)) = whole else { continue };
        let behind = here.get(len..).unwrap_or_default();
        let run = behind.iter().take(MAX_RUN).take_while(|byte| is_filler(**byte)).count();
        match behind.get(run) {
            Some(b':' | b'=') => {}
            // Too long a run to be anything but a trick.
            Some(_) if run == MAX_RUN => {}
            Some(_) | None => continue,
        }
        if !in_clear {
            return Found::Malformed;
        }
        return opening(bytes.get(..start).unwrap_or_default()).map_or(Found::Malformed, Found::At);
    }
    Found::Nothing
}

/// The brace and the level, from what stands before the key's name.
fn opening(before: &[u8]) -> Option<Opening> {
    let (before, level) = quote(before)?;
    let mut end = before.len();
    for _ in 0..MAX_RUN {
        let rest = before.get(..end)?;
        match rest.last()? {
            b'{' => return Some(Opening { start: end - 1, level }),
            b' ' | b'\t' | b'\n' | b'\r' => end -= 1,
            b'n' | b't' | b'r' => {
                let slashes = backslashes(rest.get(..end - 1)?);
                if slashes == 0 {
                    return None;
                }
                end -= 1 + slashes;
            }
            _ => return None,
        }
    }
    None
}

/// Cuts the key's opening quote off and says how often it is escaped.
fn quote(before: &[u8]) -> Option<(&[u8], u32)> {
    let (rest, spelled) = match before.strip_suffix(b"\"") {
        Some(rest) => (rest, false),
        None => (before.strip_suffix(b"u0022")?, true),
    };
    let slashes = backslashes(rest);
    // Each string around doubles the backslashes and escapes the quote, or spells it, once.
    let doubled = if spelled { slashes } else { slashes + 1 };
    if !doubled.is_power_of_two() {
        return None;
    }
    let level = doubled.ilog2() + u32::from(spelled);
    (level <= MAX_LEVEL).then(|| (rest.get(..rest.len() - slashes).unwrap_or_default(), level))
}

fn backslashes(bytes: &[u8]) -> usize {
    bytes.iter().rev().take(MAX_RUN).take_while(|byte| **byte == b'\\').count()
}

/// What may stand around a key: space and quotes, plain or escaped.
fn is_filler(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'\\' | b'"' | b'\'' | b'n' | b't' | b'r' | b'u' | b'0' | b'2' | b'7')
}

/// From where on the end of `bytes` may be the beginning of a declaration, when more follows.
pub(super) fn undecided(bytes: &[u8]) -> usize {
    let name = name_at_end(bytes);
    let front = bytes.get(..name).unwrap_or_default();
    let run = front.iter().rev().take(MAX_RUN).take_while(|byte| is_filler(**byte)).count();
    let before = front.len() - run;
    match before.checked_sub(1).and_then(|at| front.get(at)) {
        Some(b'{') => before - 1,
        _ => name,
    }
}

/// Where a name begins that the end of `bytes` may be a part of; the end itself if there is none.
fn name_at_end(bytes: &[u8]) -> usize {
    let filled = bytes.iter().rev().take(MAX_RUN).take_while(|byte| is_filler(**byte)).count();
    let from = bytes.len().saturating_sub(filled + MAX_NAME);
    let is_open = |start: &usize| {
        let here = bytes.get(*start..).unwrap_or_default();
        NAMES.iter().any(|name| match named(here, name) {
            Named::Not => false,
            Named::Begun => true,
            Named::Whole { len, .. } => here.get(len..).unwrap_or_default().iter().all(|byte| is_filler(*byte)),
        })
    };
    candidates(bytes, from).find(is_open).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_found_at_its_level() {
        for (text, found) in [
            (r#"a {"$burrowSensitive":{}}"#, Found::At(Opening { start: 2, level: 0 })),
            ("{ \n\t\"$burrowManaged\" : ", Found::At(Opening { start: 0, level: 0 })),
            (r#""{\"$burrowSensitive\":"#, Found::At(Opening { start: 1, level: 1 })),
            (r#""{\n  \"$burrowSensitive\" :"#, Found::At(Opening { start: 1, level: 1 })),
            (r#""{\u0022$burrowSensitive\u0022:"#, Found::At(Opening { start: 1, level: 1 })),
            (r#"{\\\"$burrowSensitive\\\":"#, Found::At(Opening { start: 0, level: 2 })),
            (r#"{\\n\\\"$burrowSensitive\\\":"#, Found::At(Opening { start: 0, level: 2 })),
            (r"{'$burrowSensitive': 1}", Found::Malformed),
            (r"$burrowSensitive: {}", Found::Malformed),
            (r#"{"a":1,"$burrowSensitive":{}}"#, Found::Malformed),
            (r#"{\\"$burrowSensitive\\":"#, Found::Malformed),
            (r#"{"\u0024burrowSensitive":{}}"#, Found::Malformed),
            (r#"{"$burrow\u0053ensitive":{}}"#, Found::Malformed),
            (r#"{"$\u0062urrowManage\u0064":{}}"#, Found::Malformed),
            (r#""{\"\\u0024\\u0062urrowSensitive\":{}}"#, Found::Malformed),
            (r#"{"\x24burrowSensitive":{}}"#, Found::Malformed),
            (r#"{"$burrow\u0054ensitive":{}}"#, Found::Nothing),
            (r#"{"$burrow\u0053ensitive","#, Found::Nothing),
            ("the key `$burrowSensitive`: it marks", Found::Nothing),
            (r#""$burrowSensitive","#, Found::Nothing),
            (r#"{"$burrowSensitive""#, Found::Nothing),
            (r#"{"burrowSensitive":1} {"$burrowSensitiveX":1} $burrow"#, Found::Nothing),
        ] {
            assert_eq!(find(text.as_bytes(), 0), found, "{text}");
        }
    }

    #[test]
    fn the_end_of_a_chunk_is_kept_back_only_where_a_declaration_may_begin() {
        for (text, kept) in [
            ("abc", ""),
            ("abc {", "{"),
            ("abc { \\\"", "{ \\\""),
            ("abc {\"$burr", "{\"$burr"),
            ("abc $burrowSensitive\" ", "$burrowSensitive\" "),
            ("abc {\"$burrowSensitive\"", "{\"$burrowSensitive\""),
            ("abc {\\n\\u002", "{\\n\\u002"),
            ("abc {x", ""),
            ("abc $\\u0062urr", "$\\u0062urr"),
            ("abc \\\\u0024\\\\u00", "\\\\u0024\\\\u00"),
            ("abc \\", "\\"),
            ("abc \\u0025", ""),
            ("abc {y", ""),
            ("price $", "$"),
        ] {
            assert_eq!(text.get(undecided(text.as_bytes())..), Some(kept), "{text}");
        }
    }
}
