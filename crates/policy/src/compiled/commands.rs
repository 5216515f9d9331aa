//! Command rules.
//!
//! They are tried on the text as it was given and on every simple command that was found in it, the
//! program also by its base name. Exact and prefix compare words through one table, so they cost the
//! number of words; a word that only the shell will know could be anything, so where the outcome hangs on
//! one, the command counts as not analyzable. For patterns that is decided in `open`.

use std::collections::{HashMap, HashSet};

use super::open::{self, OpenSet, Steps};
use super::text::{Patterns, TextSet};
use super::tied;
use crate::boundaries::Unreadable;
use crate::document::{Matching, glob_set_pattern};
use crate::shell::{Analysis, MAX_COMMAND, Simple, Suspect, Word, pieces};
use crate::{HardBlock, Match};

/// What the command rules say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandFinding {
    Rule(Match),
    /// A program was given what the rule forbids, and may run it.
    MayRun(Match),
    NotAnalyzable(&'static str),
}

/// The same, with the rule's index and the text that it matched.
pub(super) enum Found {
    Rule(usize, String),
    /// The same for what a program may run, with its name where that is kept.
    MayRun(usize, String, Option<String>),
    NotAnalyzable(&'static str),
}

const OPEN_ARGUMENT: &str = "whether a rule covers it depends on an argument that only the shell will know";

/// The command rules.
#[derive(Debug, Default)]
pub(super) struct CommandSet {
    /// Words, each with a NUL behind it, to the first rule that wants just these or begins with them.
    words: HashMap<String, Wanted>,
    /// The same rules as lists of words, for commands with words that are not known.
    open: Vec<(bool, Vec<String>)>,
    /// The most words of a rule.
    longest: usize,
    /// The same rules by their program, each with the pieces of its other words.
    programs: HashMap<String, Vec<(usize, Vec<String>)>>,
    text: TextSet,
    /// The patterns again, for commands with words that are not known.
    open_text: OpenSet,
    /// Those of the patterns that are tied to a place of a command, for a command within a text.
    tied: TextSet,
    /// Those that are tied to words alone: what they miss begins behind the letter of an escape.
    worded: TextSet,
    /// The programs that they are about.
    about: HashMap<String, usize>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Wanted {
    exact: Option<usize>,
    prefix: Option<usize>,
}

impl CommandSet {
    pub(super) fn new<'a>(rules: impl Iterator<Item = (usize, &'a HardBlock)>) -> Result<Self, Unreadable> {
        let mut set = Self::default();
        let mut patterns = Patterns::default();
        let (mut tied, mut worded) = (Patterns::default(), Patterns::default());
        for (index, rule) in rules {
            match rule.matching {
                Matching::Exact | Matching::Prefix => set.add(index, rule),
                Matching::Glob => {
                    let glob = glob_set_pattern(&rule.pattern, false);
                    let broken = |_| Unreadable::new(format!("the glob of the rule `{}` cannot be compiled", rule.id));
                    let glob = glob.map_err(broken)?;
                    set.open_text.add(glob.regex(), false);
                    set.tie(index, glob.regex(), false, [&mut tied, &mut worded]);
                    patterns.globs.push((index, glob));
                }
                Matching::Regex => {
                    set.tie(index, &rule.pattern, true, [&mut tied, &mut worded]);
                    set.open_text.add(&rule.pattern, true);
                    patterns.regexes.push((index, rule.pattern.clone()));
                }
                Matching::Contains => {
                    set.open_text.add_text(&rule.pattern);
                    patterns.texts.push((index, rule.pattern.clone()));
                }
            }
        }
        set.text = TextSet::new(patterns, true)?;
        set.tied = TextSet::new(tied, true)?;
        set.worded = TextSet::new(worded, true)?;
        Ok(set)
    }

    fn tie(&mut self, rule: usize, pattern: &str, case_insensitive: bool, [tied, worded]: [&mut Patterns; 2]) {
        if let Some(within) = tied::within(pattern, case_insensitive) {
            let patterns = if within.by_words { worded } else { tied };
            patterns.regexes.push((rule, within.pattern));
        }
        for name in tied::programs(pattern, case_insensitive) {
            let name = if case_insensitive { name.to_lowercase() } else { name };
            self.about.entry(name).or_insert(rule);
        }
    }

    /// The rule with a pattern that is about this program.
    fn about(&self, name: &str) -> Option<usize> {
        if self.about.is_empty() {
            return None;
        }
        self.about.get(name).or_else(|| self.about.get(&name.to_lowercase())).copied()
    }

    fn add(&mut self, rule: usize, block: &HardBlock) {
        let exact = block.matching == Matching::Exact;
        let plain: Vec<String> = block.pattern.split_whitespace().map(str::to_owned).collect();
        // A pattern with quotes means the words that the shell would make of it.
        let meant = Analysis::only_words(&block.pattern).filter(|words| *words != plain);
        for words in [Some(plain), meant].into_iter().flatten() {
            let wanted = self.words.entry(key(words.iter().map(String::as_str))).or_default();
            let slot = if exact { &mut wanted.exact } else { &mut wanted.prefix };
            *slot = Some(slot.map_or(rule, |other| other.min(rule)));
            self.longest = self.longest.max(words.len());
            let mut pieces = pieces(&words).into_iter();
            if let Some(program) = pieces.next() {
                self.programs.entry(program).or_default().push((rule, pieces.collect()));
            }
            self.open.push((exact, words));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.text.is_empty()
    }

    /// What the rules say about a command. A rule that matches goes before what is not understood.
    pub(super) fn find(&self, analysis: &Analysis) -> Option<Found> {
        if self.is_empty() {
            return None;
        }
        let raw = analysis.raw();
        // A text that is too long is blocked for that; patterns need not go through it.
        if raw.len() > MAX_COMMAND {
            return analysis.unclear().map(Found::NotAnalyzable);
        }
        let given = self.text.find(raw.as_bytes()).into_iter();
        if let Some(rule) = given.chain(self.words(raw.split_whitespace())).min() {
            return Some(Found::Rule(rule, raw.to_owned()));
        }
        let mut unclear = analysis.unclear();
        let mut steps = Steps::default();
        for simple in analysis.commands() {
            if let Some(rule) = self.simple(simple) {
                return Some(match simple.is_possible() {
                    true => Found::MayRun(rule, simple.text().to_owned(), None),
                    false => Found::Rule(rule, simple.text().to_owned()),
                });
            }
            if unclear.is_none() && !simple.is_possible() && self.could_match(simple, &mut steps) {
                unclear = Some(OPEN_ARGUMENT);
            }
        }
        for suspect in analysis.suspects() {
            match self.suspect(suspect) {
                Some(Found::NotAnalyzable(why)) => unclear = unclear.or(Some(why)),
                None => {}
                found => return found,
            }
        }
        unclear.map(Found::NotAnalyzable)
    }

    /// What the rules say about words that a program may run.
    fn suspect(&self, suspect: &Suspect) -> Option<Found> {
        let may_run = |rule, text: &str| Found::MayRun(rule, text.to_owned(), Some(suspect.program().to_owned()));
        if let Some(rule) = self.text.find(suspect.text().as_bytes()) {
            return Some(may_run(rule, suspect.text()));
        }
        let mut seen = HashSet::new();
        let mut open = false;
        for at in 0..suspect.len() {
            for (name, whole) in suspect.names(at) {
                if let Some(rule) = self.about(name) {
                    if suspect.is_code() {
                        return Some(may_run(rule, name));
                    }
                    open |= whole && suspect.has_open_behind(at);
                }
                let Some(rules) = self.programs.get(name) else { continue };
                // What follows behind a later one follows behind the first as well.
                if !seen.insert((name, whole)) {
                    continue;
                }
                let found = |(rule, pieces): &(usize, Vec<String>)| {
                    (suspect.is_code() || suspect.follows(at, pieces)).then_some(*rule)
                };
                if let Some(rule) = rules.iter().filter_map(found).min() {
                    return Some(may_run(rule, name));
                }
                // In `$HOME/go/bin:$PATH` nothing follows `go`.
                open |= whole && suspect.has_open_behind(at);
            }
            let worded = Some(&self.worded).filter(|_| suspect.is_escaped(at));
            for set in [Some(&self.tied), worded].into_iter().flatten().filter(|set| !set.is_empty()) {
                let found = suspect.windows(at).find_map(|text| Some((set.find(text.as_bytes())?, text)));
                if let Some((rule, text)) = found {
                    return Some(may_run(rule, text));
                }
            }
        }
        open.then_some(Found::NotAnalyzable(OPEN_ARGUMENT))
    }

    fn simple(&self, simple: &Simple) -> Option<usize> {
        let known = || simple.words().iter().map_while(Word::known);
        let all_known = known().count() == simple.words().len();
        let mut first = self.text.find(simple.text().as_bytes());
        let mut note = |rule: Option<usize>| first = first.into_iter().chain(rule).min();
        note(self.leading(known(), all_known));
        if let Some(based) = simple.based() {
            note(self.text.find(based.as_bytes()));
            let base = simple.base_name();
            note(self.leading(base.into_iter().chain(known().skip(1)), all_known));
        }
        first
    }

    fn words<'a>(&self, words: impl Iterator<Item = &'a str>) -> Option<usize> {
        self.leading(words, true)
    }

    /// The first rule that begins with, or is, these words.
    fn leading<'a>(&self, words: impl Iterator<Item = &'a str>, complete: bool) -> Option<usize> {
        if self.words.is_empty() {
            return None;
        }
        let mut first: Option<usize> = None;
        let mut so_far = String::new();
        let mut words = words.peekable();
        for _ in 0..self.longest {
            let Some(word) = words.next() else { break };
            so_far.push_str(word);
            so_far.push('\0');
            if let Some(wanted) = self.words.get(&so_far) {
                first = first.into_iter().chain(wanted.prefix).min();
                if complete && words.peek().is_none() {
                    first = first.into_iter().chain(wanted.exact).min();
                }
            }
        }
        first
    }

    /// Whether some rule would match if the words that are not known were the right ones.
    fn could_match(&self, simple: &Simple, steps: &mut Steps) -> bool {
        let words = simple.words();
        // A program that is not known at all is another matter.
        let open = words.iter().position(|word| word.known().is_none()).filter(|at| *at > 0);
        let Some(at) = open else { return false };
        if !self.open_text.is_empty()
            && (self.text.find(open::closed(simple).as_bytes()).is_some() || self.open_text.could_match(simple, steps))
        {
            return true;
        }
        let base = simple.base_name();
        let only_open_words_follow = words.iter().skip(at).all(|word| word.known().is_none());
        self.open.iter().any(|(exact, wanted)| {
            // Up to the open word all must agree; from there on the open word may stand for any number.
            let agrees =
                wanted.iter().zip(words).take(at).enumerate().all(|(place, (wanted, word))| {
                    word.known() == Some(wanted) || (place == 0 && base == Some(wanted))
                });
            let lead = words.get(at).map(Word::lead).unwrap_or_default();
            agrees
                && match wanted.get(at) {
                    Some(wanted) => wanted.starts_with(lead),
                    // Open words may also come to nothing.
                    None => *exact && wanted.len() == at && only_open_words_follow,
                }
        })
    }
}

fn key<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.fold(String::new(), |mut key, word| {
        key.push_str(word);
        key.push('\0');
        key
    })
}
