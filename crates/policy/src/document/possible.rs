//! Whether a pattern is one, and whether anything can ever match it.
//!
//! A rule that cannot match is a mistake that looks like protection, so it is refused. The check is
//! sound, not complete: it never refuses a pattern that could match.

use globset::{Glob, GlobBuilder};
use regex_syntax::hir::{Hir, HirKind, Look};

use super::{Base, Matching, Subject, Wrong};

/// Bytes that one compiled expression may have.
pub(crate) const MAX_COMPILED: usize = 1 << 18;

pub(super) fn check(subject: Subject, matching: Matching, pattern: &str, base: &Base) -> Result<(), Wrong> {
    // Neither a path nor a command can carry it.
    if pattern.contains('\0') {
        return Err(Wrong::Unmatchable);
    }
    match (subject, matching) {
        (_, Matching::Regex) => regex(subject, pattern),
        (Subject::Path, Matching::Glob) => path_glob(pattern, base),
        (Subject::Command, Matching::Glob) => glob_set_pattern(pattern, false).map(drop).map_err(|_| Wrong::Glob),
        (Subject::Path, Matching::Contains) => path_contains(pattern),
        (Subject::Command, Matching::Exact | Matching::Prefix) if pattern.trim().is_empty() => Err(Wrong::Unmatchable),
        (Subject::Path, Matching::Exact | Matching::Prefix) | (Subject::Command, _) => Ok(()),
    }
}

/// Absolute paths hold no empty, `.` or `..` component.
fn path_contains(pattern: &str) -> Result<(), Wrong> {
    let impossible = ["//", "/./", "/../"].iter().any(|piece| pattern.contains(piece));
    if impossible { Err(Wrong::Unmatchable) } else { Ok(()) }
}

fn regex(subject: Subject, pattern: &str) -> Result<(), Wrong> {
    let insensitive = subject == Subject::Command;
    regex::bytes::RegexBuilder::new(pattern)
        .case_insensitive(insensitive)
        .dot_matches_new_line(true)
        .size_limit(MAX_COMPILED)
        .build()
        .map_err(|_| Wrong::Regex)?;
    let mut parser =
        regex_syntax::ParserBuilder::new().utf8(false).case_insensitive(insensitive).dot_matches_new_line(true).build();
    let hir = parser.parse(pattern).map_err(|_| Wrong::Regex)?;
    if regex_hir_possible(&hir) { Ok(()) } else { Err(Wrong::Unmatchable) }
}

/// Whether the expression's language can hold anything at all.
fn regex_hir_possible(hir: &Hir) -> bool {
    if hir.properties().minimum_len().is_none() {
        return false;
    }
    match hir.kind() {
        HirKind::Capture(capture) => regex_hir_possible(&capture.sub),
        HirKind::Repetition(repetition) => repetition.min == 0 || regex_hir_possible(&repetition.sub),
        HirKind::Alternation(branches) => branches.iter().any(regex_hir_possible),
        HirKind::Concat(parts) => parts.iter().all(regex_hir_possible) && anchors_possible(parts),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => true,
    }
}

/// That nothing must stand before the text's start or behind its end.
fn anchors_possible(parts: &[Hir]) -> bool {
    let needs = |hir: &Hir| hir.properties().minimum_len().unwrap_or(0) > 0;
    let mut before = false;
    for part in parts {
        if before && part.properties().look_set_prefix().contains(Look::Start) {
            return false;
        }
        before |= needs(part);
    }
    let mut behind = false;
    for part in parts.iter().rev() {
        if behind && part.properties().look_set_suffix().contains(Look::End) {
            return false;
        }
        behind |= needs(part);
    }
    true
}

fn path_glob(pattern: &str, base: &Base) -> Result<(), Wrong> {
    let normal = normal_glob(pattern, base).ok_or(Wrong::Unmatchable)?;
    glob_set_pattern(&normal.whole, true).map(drop).map_err(|_| Wrong::Glob)
}

/// A glob in which wildcards stay within a component, for paths, or do not, for commands.
pub(crate) fn glob_set_pattern(pattern: &str, within_components: bool) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(within_components).backslash_escape(true).empty_alternates(true).build()
}

/// A path glob made absolute.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NormalGlob {
    /// The glob, absolute, without `.`, `..` and `//`.
    pub(crate) whole: String,
    /// The directory itself, when the glob ends in `/**` or `/`: what is below is in `whole`.
    pub(crate) itself: Option<String>,
    /// The leading components without any wildcard.
    pub(crate) literal: std::path::PathBuf,
}

/// Makes a path glob absolute; nothing when `..` stands behind a wildcard, where no real path has it, or
/// when the directory that it is relative to is no UTF-8.
pub(crate) fn normal_glob(pattern: &str, base: &Base) -> Option<NormalGlob> {
    let (root, rest) = match pattern.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (Some(&base.home), rest),
        _ if pattern.starts_with('/') => (None, pattern),
        _ => (Some(&base.workdir), pattern),
    };
    let mut parts: Vec<String> = Vec::new();
    for component in root.iter().flat_map(|root| root.components()) {
        if let std::path::Component::Normal(name) = component {
            parts.push(globset::escape(name.to_str()?));
        }
    }
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.last().is_some_and(|last| literal(last).is_none()) {
                    return None;
                }
                parts.pop();
            }
            part => parts.push(part.to_owned()),
        }
    }
    let mut path = std::path::PathBuf::from("/");
    path.extend(parts.iter().map_while(|part| literal(part)));
    let below = parts.last().is_some_and(|last| last == "**");
    if below {
        parts.pop();
    }
    let own = format!("/{}", parts.join("/"));
    let covers = below || pattern.ends_with('/');
    let whole = match (covers, own.as_str()) {
        (true, "/") => "/**".to_owned(),
        (true, own) => format!("{own}/**"),
        (false, own) => own.to_owned(),
    };
    Some(NormalGlob { whole, itself: covers.then_some(own), literal: path })
}

/// The component's own text, when it has no wildcard.
fn literal(part: &str) -> Option<String> {
    let mut text = String::with_capacity(part.len());
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' | '{' | '}' => return None,
            // `globset::escape` writes a character that means something as a class of one.
            '[' => {
                text.push(chars.next()?);
                if chars.next() != Some(']') {
                    return None;
                }
            }
            ']' => return None,
            '\\' => text.push(chars.next()?),
            c => text.push(c),
        }
    }
    Some(text)
}
