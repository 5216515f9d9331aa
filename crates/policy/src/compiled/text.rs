//! Patterns that are looked for in bytes: globs, expressions and plain texts.
//!
//! All patterns of a kind are one automaton. `find` first asks whether anything matches at all, which
//! keeps nothing and is the common case, and only then which.
//!
//! `.` is any character, a line break too, and a name that is not UTF-8 is tried as it is shown as well: a
//! character that an expression's author did not think of must not lead around a rule.

use std::borrow::Cow;

use aho_corasick::AhoCorasick;
use globset::{Candidate, Glob, GlobSet, GlobSetBuilder};
use regex::bytes::{RegexSet, RegexSetBuilder};

use crate::boundaries::Unreadable;
use crate::document::MAX_COMPILED;

/// Expressions that are compiled into one automaton.
const CHUNK: usize = 128;

/// What a set is made of.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    pub(super) globs: Vec<(usize, Glob)>,
    pub(super) regexes: Vec<(usize, String)>,
    pub(super) texts: Vec<(usize, String)>,
}

/// The compiled patterns, each with its rule's index.
#[derive(Debug, Default)]
pub(super) struct TextSet {
    globs: Option<(GlobSet, Vec<usize>)>,
    regexes: Vec<(RegexSet, Vec<usize>)>,
    texts: Option<(AhoCorasick, Vec<usize>)>,
}

impl TextSet {
    pub(super) fn new(patterns: Patterns, case_insensitive: bool) -> Result<Self, Unreadable> {
        let broken = |what: &str| Unreadable::new(format!("the {what} of the rules cannot be compiled"));
        let mut set = Self::default();
        if !patterns.globs.is_empty() {
            let mut builder = GlobSetBuilder::new();
            let mut rules = Vec::with_capacity(patterns.globs.len());
            for (rule, glob) in patterns.globs {
                builder.add(glob);
                rules.push(rule);
            }
            set.globs = Some((builder.build().map_err(|_| broken("globs"))?, rules));
        }
        for chunk in patterns.regexes.chunks(CHUNK) {
            let built = RegexSetBuilder::new(chunk.iter().map(|(_, pattern)| pattern))
                .case_insensitive(case_insensitive)
                .dot_matches_new_line(true)
                .size_limit(MAX_COMPILED.saturating_mul(CHUNK))
                .build()
                .map_err(|_| broken("regular expressions"))?;
            set.regexes.push((built, chunk.iter().map(|(rule, _)| *rule).collect()));
        }
        if !patterns.texts.is_empty() {
            let (rules, texts): (Vec<usize>, Vec<String>) = patterns.texts.into_iter().unzip();
            set.texts = Some((AhoCorasick::new(texts).map_err(|_| broken("texts"))?, rules));
        }
        Ok(set)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.globs.is_none() && self.regexes.is_empty() && self.texts.is_none()
    }

    /// The first rule of those that match. Globs match the whole, the others anywhere in it.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<usize> {
        let mut first: Option<usize> = None;
        let mut note = |rule: Option<&usize>| first = first.into_iter().chain(rule.copied()).min();
        if let Some((globs, rules)) = &self.globs {
            let candidate = Candidate::from_bytes(bytes);
            if globs.is_match_candidate(&candidate) {
                globs.matches_candidate(&candidate).into_iter().for_each(|at| note(rules.get(at)));
            }
        }
        if !self.regexes.is_empty() {
            // An expression's `.` and classes are characters, which bytes that are not UTF-8 are not.
            let shown = match String::from_utf8_lossy(bytes) {
                Cow::Owned(shown) => Some(shown),
                Cow::Borrowed(_) => None,
            };
            for (regexes, rules) in &self.regexes {
                for bytes in [Some(bytes), shown.as_deref().map(str::as_bytes)].into_iter().flatten() {
                    if regexes.is_match(bytes) {
                        regexes.matches(bytes).into_iter().for_each(|at| note(rules.get(at)));
                    }
                }
            }
        }
        if let Some((texts, rules)) = &self.texts
            && texts.is_match(bytes)
        {
            texts.find_overlapping_iter(bytes).for_each(|found| note(rules.get(found.pattern().as_usize())));
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::{Patterns, TextSet};

    #[test]
    fn no_byte_of_a_name_leads_around_an_expression() {
        for (pattern, blocks, allows) in [
            (r"^/a/.*/sec$", &[&b"/a/x/sec"[..], b"/a/x\ny/sec", b"/a/\xff\n/sec"], &b"/a/\xff/secs"[..]),
            (r"^/a/[^/]+/sec$", &[b"/a/x/sec", b"/a/\n/sec", b"/a/x\xfe\xff/sec"], b"/a/\xff/y/sec"),
            (r"^/a/(?-u:\xff)/sec$", &[b"/a/\xff/sec"; 3], b"/a/\xfe/sec"),
        ] {
            let patterns = Patterns { regexes: vec![(7, pattern.to_owned())], ..Patterns::default() };
            let set = TextSet::new(patterns, false).expect("the pattern compiles");
            for name in blocks {
                assert_eq!(set.find(name), Some(7), "{pattern}: {}", name.escape_ascii());
            }
            assert_eq!(set.find(allows), None, "{pattern}: {}", allows.escape_ascii());
        }
    }
}
