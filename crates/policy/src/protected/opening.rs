//! Finds where a text declares something sensitive.
//!
//! A declaration is the key `$burrowSensitive` or `$burrowManaged` with a `:` (or `=`) behind it. It counts however
//! it is quoted: one that is not quoted as JSON is malformed, not overlooked. Inside JSON strings its quotes are
//! escaped, once for each string around it; that number is its level. A name that is spelled with escapes in other
//! places than its dollar sign is not recognised.

use memchr::memmem;

const NAMES: [&str; 2] = ["burrowSensitive", "burrowManaged"];
/// The dollar sign, plain and as escapes end.
const DOLLARS: [&str; 3] = ["$", "u0024", "x24"];
/// How many JSON strings may be around an envelope.
const MAX_LEVEL: u32 = 4;
/// The longest run of quotes, escapes and space in a declaration.
pub(super) const MAX_RUN: usize = 2048;

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

/// Whether a text can hold a declaration at all.
pub(super) fn is_suspect(text: &[u8]) -> bool {
    memmem::find(text, b"burrow").is_some()
}

/// The first declaration in `bytes` from `from` on.
pub(super) fn find(bytes: &[u8], from: usize) -> Found {
    let tail = bytes.get(from..).unwrap_or_default();
    for at in memmem::find_iter(tail, b"burrow") {
        let at = from + at;
        let (before, here) = bytes.split_at(at);
        let Some(name) = NAMES.iter().find(|name| here.starts_with(name.as_bytes())) else { continue };
        let Some(dollar) = DOLLARS.iter().find(|dollar| before.ends_with(dollar.as_bytes())) else { continue };
        let behind = here.get(name.len()..).unwrap_or_default();
        let run = behind.iter().take(MAX_RUN).take_while(|byte| is_filler(**byte)).count();
        match behind.get(run) {
            Some(b':' | b'=') => {}
            // Too long a run to be anything but a trick.
            Some(_) if run == MAX_RUN => {}
            Some(_) | None => continue,
        }
        if *dollar != "$" {
            return Found::Malformed;
        }
        let key = before.get(..before.len() - dollar.len()).unwrap_or_default();
        return opening(key).map_or(Found::Malformed, Found::At);
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
    let around = |byte: &u8| is_filler(*byte) || matches!(byte, b'4' | b'x');
    let run = front.iter().rev().take(MAX_RUN).take_while(|byte| around(byte)).count();
    let before = front.len() - run;
    match before.checked_sub(1).and_then(|at| front.get(at)) {
        Some(b'{') => before - 1,
        _ => name,
    }
}

/// Where a name begins that the end of `bytes` may be a part of; the end itself if there is none.
fn name_at_end(bytes: &[u8]) -> usize {
    let filled = bytes.iter().rev().take(MAX_RUN).take_while(|byte| is_filler(**byte)).count();
    let closed = bytes.get(..bytes.len() - filled).unwrap_or_default();
    let mut earliest = bytes.len();
    for dollar in DOLLARS {
        for name in NAMES {
            let whole = [dollar, name].concat();
            if closed.ends_with(whole.as_bytes()) {
                return closed.len() - whole.len();
            }
            let longest = (1..whole.len())
                .rev()
                .find(|length| whole.as_bytes().get(..*length).is_some_and(|beginning| bytes.ends_with(beginning)));
            earliest = earliest.min(bytes.len() - longest.unwrap_or(0));
        }
    }
    earliest
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
            ("abc {x", "{x"),
            ("abc {y", ""),
            ("price $", "$"),
        ] {
            assert_eq!(text.get(undecided(text.as_bytes())..), Some(kept), "{text}");
        }
    }
}
