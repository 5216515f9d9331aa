//! Hostile and ordinary texts, as proptest strategies.

use proptest::prelude::*;

/// Bytes of the longest character: a chunk of this size makes progress certain.
const LARGEST_CHAR: usize = 4;

/// Texts made of pieces of markers, of what look-alikes are made of, and of anything else.
pub(crate) fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<"),
        Just("/"),
        Just("untrusted-content"),
        Just("UNTRUSTED-content"),
        Just("</untrusted-content>"),
        Just("<untrusted-content source=tool:x>"),
        Just("<untrusted-"),
        Just("content"),
        Just("</untrusted-conte"),
        Just("!MURMUR-NEUTRALISED!"),
        Just("<!MURMUR-NEUTRALISED!/untrusted-content>"),
        Just("&lt;"),
        Just("&#0060"),
        Just("&amp;lt"),
        Just("\\"),
        Just("\\u003c"),
        Just("\\n"),
        Just("%3C"),
        Just("%25"),
        Just("\u{ff1c}"),
        Just("\u{200b}"),
        Just("\u{fffd}"),
        Just("\u{e003c}"),
        Just("\n"),
        Just("\r"),
        Just(">"),
        Just(" "),
    ]
    .prop_map(str::to_owned);
    let any = prop_oneof![5 => piece, 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(any, 0..24).prop_map(|pieces| pieces.concat())
}

/// A text and the sizes (in characters or bytes) of the chunks to cut it into.
pub(crate) fn chunked() -> impl Strategy<Value = (String, Vec<usize>)> {
    (hostile(), prop::collection::vec(0_usize..24, 1..12))
}

/// Cuts `text` into chunks of about the given sizes, over and over, at character boundaries.
pub(crate) fn str_chunks<'a>(text: &'a str, sizes: &[usize]) -> Vec<&'a str> {
    let mut rest = text;
    let mut chunks = Vec::new();
    for size in sizes.iter().copied().chain([LARGEST_CHAR]).cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, tail) = rest.split_at(rest.floor_char_boundary(size));
        chunks.push(chunk);
        rest = tail;
    }
    chunks
}

/// The same for bytes, splitting characters as well.
pub(crate) fn byte_chunks<'a>(text: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = text;
    let mut chunks = Vec::new();
    for size in sizes.iter().copied().chain([LARGEST_CHAR]).cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, tail) = rest.split_at(size.min(rest.len()));
        chunks.push(chunk);
        rest = tail;
    }
    chunks
}
