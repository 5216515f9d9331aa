//! Whole blocks: `neutralise`, `wrap` and `parse`.
//!
//! Wrapping rewrites straight into the block's own buffer, so content is copied once and the only
//! live markers of a block are the two that stand around it. Parsing follows the three rules of the
//! fence document and is lenient about a missing separator: what stands between an opener and the
//! final closer is data, and refusing to see the block would hand that data on as if it were not.

use std::borrow::Cow;

use crate::marker::{CLOSER, INFIX, OPENER, find, next_cut, rfind};
use crate::source::Source;

/// Rewrites every marker that `content` spells, so that none is left alive.
///
/// Inserts `!MURMUR-NEUTRALISED!` after the `<` of each `<untrusted-content` and
/// `</untrusted-content` (any ASCII case, whatever follows) and changes nothing else. Borrowed, with
/// no allocation, when there is nothing to rewrite; linear in the length of `content`.
///
/// ```
/// # use std::borrow::Cow;
/// assert_eq!(
///     fence::neutralise("a</Untrusted-Content>b"),
///     "a<!MURMUR-NEUTRALISED!/Untrusted-Content>b",
/// );
/// assert!(matches!(fence::neutralise("<p>plain</p>"), Cow::Borrowed(_)));
/// ```
#[must_use]
pub fn neutralise(content: &str) -> Cow<'_, str> {
    let Some(first) = next_cut(content.as_bytes(), 0) else {
        return Cow::Borrowed(content);
    };
    let mut out = String::with_capacity(content.len() + 4 * INFIX.len());
    neutralise_from(content, Some(first), &mut out);
    Cow::Owned(out)
}

/// Appends `content` to `out` with its markers rewritten.
pub(crate) fn neutralise_into(content: &str, out: &mut String) {
    neutralise_from(content, next_cut(content.as_bytes(), 0), out);
}

fn neutralise_from(content: &str, first: Option<usize>, out: &mut String) {
    let mut rest = content;
    let mut next = first;
    while let Some(cut) = next {
        // A cut stands right after an ASCII `<`, so it never splits a character.
        let (before, after) = rest.split_at(cut);
        out.push_str(before);
        out.push_str(INFIX);
        rest = after;
        next = next_cut(rest.as_bytes(), 0);
    }
    out.push_str(rest);
}

/// A fenced block: opening marker, newline, neutralised content, newline, closing marker.
///
/// ```
/// let source = fence::Source::tool("web-fetch");
/// assert_eq!(
///     fence::wrap(&source, "{\"status\":200}"),
///     "<untrusted-content source=tool:web-fetch>\n{\"status\":200}\n</untrusted-content>",
/// );
/// ```
#[must_use]
pub fn wrap(source: &Source, content: &str) -> String {
    let around = OPENER.len() + source.as_str().len() + CLOSER.len() + 3;
    let mut out = String::with_capacity(around + content.len());
    open(source, &mut out);
    neutralise_into(content, &mut out);
    out.push('\n');
    out.push_str(CLOSER);
    out
}

/// Appends the opening marker and its separator.
pub(crate) fn open(source: &Source, out: &mut String) {
    out.push_str(OPENER);
    out.push_str(source.as_str());
    out.push_str(">\n");
}

/// A message taken apart: at most one block, and what stands around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// The text before the block; the whole message when it holds none.
    pub before: &'a str,
    /// The block.
    pub block: Option<Block<'a>>,
    /// The text after the block's closing marker, its leading newline included.
    pub after: &'a str,
}

/// The inside of a fenced block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// The source's name as it stands in the opening marker.
    pub source: &'a str,
    /// The data between the separators, verbatim: neutralised markers stay as they are.
    pub content: &'a str,
}

/// Takes a message apart by the fence document's three rules: the block opens at the first
/// `<untrusted-content source=`, whose name runs to the first `>`; it ends at the *final*
/// `</untrusted-content>`; everything between the separators is data. Case does not matter.
///
/// ```
/// let message = "<untrusted-content source=tool:sh>\nhi\n</untrusted-content>\ncut at 2 bytes";
/// let parsed = fence::parse(message);
/// let block = parsed.block.unwrap();
/// assert_eq!((block.source, block.content), ("tool:sh", "hi"));
/// assert_eq!((parsed.before, parsed.after), ("", "\ncut at 2 bytes"));
/// ```
#[must_use]
pub fn parse(message: &str) -> Parsed<'_> {
    split(message).unwrap_or(Parsed { before: message, block: None, after: "" })
}

fn split(message: &str) -> Option<Parsed<'_>> {
    let start = find(message.as_bytes(), OPENER)?;
    let (before, opened) = message.split_at_checked(start)?;
    let (source, inside) = opened.get(OPENER.len()..)?.split_once('>')?;
    let end = rfind(inside.as_bytes(), CLOSER)?;
    let (content, closing) = inside.split_at_checked(end)?;
    let after = closing.get(CLOSER.len()..)?;
    let content = content.strip_prefix('\n').unwrap_or(content);
    let content = content.strip_suffix('\n').unwrap_or(content);
    Some(Parsed { before, block: Some(Block { source, content }), after })
}
