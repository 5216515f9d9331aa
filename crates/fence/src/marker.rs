//! How a marker is spelled, and where one stands in text: the one definition the whole crate uses.
//!
//! A marker is a `<`, an optional `/`, then `untrusted-content` in any ASCII case, whatever follows.
//! The search works on bytes, because every byte of a marker is ASCII and a cut after `<` can
//! therefore never split a character. It knows no look-alikes; those are `scan`'s.

use memchr::{memchr, memrchr};

/// What the rewrite inserts after a marker's `<`. It holds no `<`, hence the rewrite is idempotent.
pub(crate) const INFIX: &str = "!MURMUR-NEUTRALISED!";

/// The word of a marker.
pub(crate) const WORD: &[u8] = b"untrusted-content";

/// What comes before the source's name in an opening marker.
pub(crate) const OPENER: &str = "<untrusted-content source=";

/// What comes behind it, and ends the opening marker.
pub(crate) const OPENER_END: &str = ">\n";

/// The closing marker.
pub(crate) const CLOSER: &str = "</untrusted-content>";

/// Bytes that may follow the `<` of a marker: the slash and the word.
pub(crate) const LONGEST_REST: usize = 1 + WORD.len();

/// Whether `rest`, the text after a `<`, makes that `<` the start of a marker.
pub(crate) fn completes(rest: &[u8]) -> bool {
    let word = match rest.first() {
        Some(b'/') => rest.get(1..),
        Some(b'u' | b'U') => Some(rest),
        _ => None,
    };
    word.and_then(|word| word.get(..WORD.len())).is_some_and(|word| word.eq_ignore_ascii_case(WORD))
}

/// Whether `rest`, the text after a `<` up to the end of what is known, may still become a marker.
pub(crate) fn may_complete(rest: &[u8]) -> bool {
    let word = rest.strip_prefix(b"/").unwrap_or(rest);
    word.len() < WORD.len() && WORD.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Starts of a marker that are looked at together.
const BLOCK: usize = 64;

/// The offset just after the `<` of the next marker at or after `from`.
///
/// Goes from one `<` to the next in leaps of a block: from each `<` found, a whole block of possible
/// starts is excluded at once where it can be, which makes text full of `<` as cheap as any other.
pub(crate) fn next_cut(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr(b'<', text.get(at..)?)?;
        let rest = text.get(at..)?;
        if may_hold_marker(rest) {
            let starts = rest.iter().take(BLOCK).enumerate();
            for (offset, _) in starts.filter(|&(_, &byte)| byte == b'<') {
                let cut = offset + 1;
                if rest.get(cut..).is_some_and(completes) {
                    return Some(at + cut);
                }
            }
        }
        at += BLOCK;
    }
}

/// Whether a marker may start in the block at the start of `text`: whether any `<` has the word's
/// dash where a marker has it, with the slash or without. Written to compile to vector code.
fn may_hold_marker(text: &[u8]) -> bool {
    /// Where the dash stands in a marker without a slash.
    const DASH: usize = 10;
    let (Some(starts), Some(dashes), Some(dashes_after_slash)) =
        (text.get(..BLOCK), text.get(DASH..DASH + BLOCK), text.get(DASH + 1..DASH + 1 + BLOCK))
    else {
        return true;
    };
    starts.iter().zip(dashes).zip(dashes_after_slash).fold(false, |any, ((&start, &dash), &dash_after_slash)| {
        any | ((start == b'<') & ((dash == b'-') | (dash_after_slash == b'-')))
    })
}

/// The offset of the `<` of the first `marker` (an ASCII spelling, any case) in `text`.
pub(crate) fn find(text: &[u8], marker: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(cut) = next_cut(text, from) {
        let at = cut - 1;
        if spells(text, at, marker) {
            return Some(at);
        }
        from = cut;
    }
    None
}

/// The offset of the `<` of the last `marker` (an ASCII spelling, any case) in `text`.
pub(crate) fn rfind(text: &[u8], marker: &str) -> Option<usize> {
    let mut end = text.len();
    while let Some(at) = memrchr(b'<', text.get(..end)?) {
        if spells(text, at, marker) {
            return Some(at);
        }
        end = at;
    }
    None
}

fn spells(text: &[u8], at: usize, marker: &str) -> bool {
    text.get(at..at + marker.len()).is_some_and(|found| found.eq_ignore_ascii_case(marker.as_bytes()))
}
