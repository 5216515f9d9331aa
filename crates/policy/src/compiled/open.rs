//! Patterns that are tried on commands of which only the shell will know some words.
//!
//! A word that is not known may come to anything, so what is asked is whether some text in its place would make a
//! pattern match. That alone would be true of `--force` and any such command. Therefore a pattern counts only where
//! it is about the command's program: its match begins within the program's name, and with another name there would
//! be none. An expression is followed over all places of the text at once; what takes too many steps counts as a
//! match. Line ends, and words next to what is not known, are taken as they suit the pattern.

use std::collections::{BTreeSet, HashMap};

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use crate::shell::{Simple, Word};

/// Steps for all patterns on all commands of one text.
const MAX_STEPS: usize = 1024 * 1024;
/// A program's name that no pattern means.
const OTHER: char = '\u{f8ff}';
/// One that could be a program's.
const OTHER_NAME: &str = "qxzj";

/// The patterns of some rules.
#[derive(Debug, Default)]
pub(super) struct OpenSet {
    patterns: Vec<Hir>,
}

/// What is left to spend on one text, and what is known from its other commands.
#[derive(Debug)]
pub(super) struct Steps {
    left: usize,
    /// The patterns that may be about a program.
    about: HashMap<String, Vec<usize>>,
}

impl Default for Steps {
    fn default() -> Self {
        Self { left: MAX_STEPS, about: HashMap::new() }
    }
}

/// A character, or what may come to any text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Is(char),
    Any,
    /// The space in front of an `Any`, where that may come to no word at all.
    Gap,
}

impl OpenSet {
    /// Adds an expression. One that cannot be read is refused elsewhere.
    pub(super) fn add(&mut self, pattern: &str, case_insensitive: bool) {
        let mut parser = regex_syntax::ParserBuilder::new()
            .utf8(false)
            .case_insensitive(case_insensitive)
            .dot_matches_new_line(true)
            .build();
        match parser.parse(pattern).map(|hir| (hir.kind().clone(), hir)) {
            // Each is about programs of its own.
            Ok((HirKind::Alternation(all), _)) => self.patterns.extend(all.into_iter().map(begin)),
            Ok((_, hir)) => self.patterns.push(begin(hir)),
            Err(_) => {}
        }
    }

    /// Adds a text that is looked for.
    pub(super) fn add_text(&mut self, text: &str) {
        self.patterns.push(Hir::literal(text.as_bytes()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The patterns that can match at all from within this program's name on.
    fn about(&self, program: &str, steps: &mut Steps) -> Vec<usize> {
        if let Some(known) = steps.about.get(program) {
            return known.clone();
        }
        let alone: Vec<Part> = program.chars().map(Part::Is).chain([Part::Any]).collect();
        let all = self.patterns.iter().enumerate();
        let about: Vec<usize> =
            all.filter(|(_, pattern)| begins(pattern, &alone, alone.len() - 1, steps)).map(|(at, _)| at).collect();
        steps.about.insert(program.to_owned(), about.clone());
        about
    }

    /// Whether a pattern would match the command if what is not known were the right text.
    pub(super) fn could_match(&self, simple: &Simple, steps: &mut Steps) -> bool {
        let Some(program) = simple.words().first().and_then(Word::known) else { return false };
        let base = simple.base_name().filter(|base| *base != program);
        std::iter::once(program).chain(base).any(|program| {
            let (own, other) = (parts(program, simple.words()), parts(&OTHER.to_string(), simple.words()));
            let within = program.chars().count();
            let about = self.about(program, steps);
            about.iter().filter_map(|at| self.patterns.get(*at)).any(|pattern| {
                begins(pattern, &own, within, steps) && (steps.left == 0 || !begins(pattern, &other, 1, steps))
            })
        })
    }
}

/// Whether a pattern could match a command of this program, whatever its words, and none of another.
pub(super) fn is_about(pattern: &Hir, program: &str) -> bool {
    let mut steps = Steps::default();
    let mut matches = |program: &str| {
        let parts: Vec<Part> = program.chars().chain([' ']).map(Part::Is).chain([Part::Any]).collect();
        begins(pattern, &parts, program.chars().count(), &mut steps)
    };
    matches(program) && !matches(&OTHER.to_string()) && !matches(OTHER_NAME)
}

/// A command where what is not known comes to nothing.
pub(super) fn closed(simple: &Simple) -> String {
    let one = |word: &Word| word.known().map_or_else(|| word.ends().0.to_owned() + word.ends().1, str::to_owned);
    simple.words().iter().map(one).collect::<Vec<_>>().join(" ")
}

/// A pattern without what in front of it stands for anything.
fn begin(hir: Hir) -> Hir {
    let HirKind::Concat(all) = hir.kind() else { return hir };
    let is_start = |hir: &&Hir| matches!(hir.kind(), HirKind::Look(Look::Start | Look::StartLF));
    let starts = all.iter().take_while(is_start).count();
    let anything = all.iter().skip(starts).take_while(|hir| is_anything(hir)).count();
    if anything == 0 { hir } else { Hir::concat(all.iter().skip(starts + anything).cloned().collect()) }
}

fn is_anything(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(Repetition { min: 0, max: None, sub, .. }) => {
            matches!(sub.kind(), HirKind::Class(class) if has(class, OTHER) && has(class, ' ') && has(class, 'a'))
        }
        HirKind::Capture(capture) => is_anything(&capture.sub),
        _ => false,
    }
}

/// The command with this program.
fn parts(program: &str, words: &[Word]) -> Vec<Part> {
    let mut parts: Vec<Part> = program.chars().map(Part::Is).collect();
    for word in words.iter().skip(1) {
        match word.known() {
            Some(text) => parts.extend(std::iter::once(' ').chain(text.chars()).map(Part::Is)),
            None => {
                let (before, behind) = word.ends();
                let stays = !before.is_empty() || !behind.is_empty() || !word.splits();
                parts.push(if stays { Part::Is(' ') } else { Part::Gap });
                parts.extend(before.chars().map(Part::Is));
                parts.push(Part::Any);
                parts.extend(behind.chars().map(Part::Is));
            }
        }
    }
    parts
}

/// Whether a match begins within so many of the first parts.
fn begins(pattern: &Hir, parts: &[Part], within: usize, steps: &mut Steps) -> bool {
    let mut run = Run { parts, steps };
    let from: BTreeSet<usize> = (0..within).collect();
    !run.behind(pattern, &from).is_empty() || run.steps.left == 0
}

/// One pattern on one text.
struct Run<'p, 's> {
    parts: &'p [Part],
    steps: &'s mut Steps,
}

impl Run<'_, '_> {
    /// Where an expression may end that begins at one of these places.
    fn behind(&mut self, hir: &Hir, from: &BTreeSet<usize>) -> BTreeSet<usize> {
        self.steps.left = self.steps.left.saturating_sub(from.len() + 1);
        if from.is_empty() || self.steps.left == 0 {
            return BTreeSet::new();
        }
        match hir.kind() {
            HirKind::Empty => from.clone(),
            HirKind::Literal(literal) => {
                let text = String::from_utf8_lossy(&literal.0);
                text.chars().fold(from.clone(), |at, wanted| self.one(&at, |c| c == wanted))
            }
            HirKind::Class(class) => self.one(from, |c| has(class, c)),
            HirKind::Look(look) => self.spread(from).into_iter().filter(|at| self.looks(*look, *at)).collect(),
            HirKind::Repetition(repetition) => self.repeated(repetition, from),
            HirKind::Capture(capture) => self.behind(&capture.sub, from),
            HirKind::Concat(all) => all.iter().fold(from.clone(), |at, hir| self.behind(hir, &at)),
            HirKind::Alternation(all) => all.iter().flat_map(|hir| self.behind(hir, from)).collect(),
        }
    }

    fn repeated(&mut self, repetition: &Repetition, from: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut at = from.clone();
        for _ in 0..repetition.min {
            let next = self.behind(&repetition.sub, &at);
            // From here on nothing changes any more.
            if next.is_empty() || next == at {
                at = next;
                break;
            }
            at = next;
        }
        let mut all = at.clone();
        let mut left = repetition.max.map(|max| max.saturating_sub(repetition.min));
        while left != Some(0) && !at.is_empty() {
            at = self.behind(&repetition.sub, &at).difference(&all).copied().collect();
            all.extend(&at);
            left = left.map(|left| left - 1);
        }
        all
    }

    /// The places that can be reached without a character of the pattern.
    fn spread(&mut self, from: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut all = from.clone();
        for start in from {
            let mut at = *start;
            loop {
                at += match self.parts.get(at) {
                    Some(Part::Any) => 1,
                    Some(Part::Gap) => 2,
                    Some(Part::Is(_)) | None => break,
                };
                all.insert(at);
            }
        }
        self.steps.left = self.steps.left.saturating_sub(all.len());
        all
    }

    /// One character further.
    fn one(&mut self, from: &BTreeSet<usize>, wanted: impl Fn(char) -> bool) -> BTreeSet<usize> {
        let places = self.spread(from).into_iter();
        let next = |at: usize| match self.parts.get(at)? {
            Part::Any => Some(at),
            Part::Gap => wanted(' ').then_some(at + 1),
            Part::Is(c) => wanted(*c).then_some(at + 1),
        };
        places.filter_map(next).collect()
    }

    fn looks(&self, look: Look, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|at| self.parts.get(at));
        let next = self.parts.get(at);
        // The text may begin and end only where nothing is certain before and behind.
        let is_open = |part: &Part| matches!(part, Part::Any | Part::Gap);
        let open = |parts: &[Part]| parts.iter().all(is_open);
        match look {
            Look::Start => return self.parts.get(..at).is_some_and(open),
            Look::End => return self.parts.get(at..).is_some_and(open),
            _ => {}
        }
        if before.into_iter().chain(next).any(is_open) {
            return true;
        }
        let word = |part: Option<&Part>| matches!(part, Some(Part::Is(c)) if c.is_alphanumeric() || *c == '_');
        match look {
            Look::Start | Look::End => false,
            Look::WordAscii | Look::WordUnicode => word(before) != word(next),
            Look::WordAsciiNegate | Look::WordUnicodeNegate => word(before) == word(next),
            Look::WordStartAscii | Look::WordStartUnicode => !word(before) && word(next),
            Look::WordEndAscii | Look::WordEndUnicode => word(before) && !word(next),
            Look::WordStartHalfAscii | Look::WordStartHalfUnicode => !word(before),
            Look::WordEndHalfAscii | Look::WordEndHalfUnicode => !word(next),
            Look::StartLF | Look::StartCRLF => matches!(before, None | Some(Part::Is('\n' | '\r'))),
            Look::EndLF | Look::EndCRLF => matches!(next, None | Some(Part::Is('\n' | '\r'))),
        }
    }
}

/// Whether a class has a character.
fn has(class: &Class, c: char) -> bool {
    match class {
        Class::Unicode(class) => class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&c)),
        // Bytes above ASCII are parts of characters.
        Class::Bytes(class) => {
            let byte = if c.is_ascii() { u8::try_from(c).unwrap_or(u8::MAX) } else { u8::MAX };
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte))
        }
    }
}
