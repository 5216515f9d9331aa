//! The request router: which skills and context documents bear on a task, most first.
//!
//! It goes by words that the task shares with their names and descriptions, the action's word counting
//! most, and knows no language: a poor guess costs nothing, because it only recommends. It decides no
//! permission and no tool's existence. What it recommends stands beside the task's text and never in the
//! system prompt, whose bytes stay the same for all tasks, so that a provider's cache of it holds.

use std::collections::HashSet;

use fence::RuntimeWords;

use crate::{ContextDocument, SkillEntry};

/// What a capsule offers as guidance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guidance {
    /// Its skills.
    pub skills: Vec<SkillEntry>,
    /// Its context documents.
    pub documents: Vec<ContextDocument>,
}

/// As much of a text as is looked at, in characters.
const LOOKED_AT: usize = 16 * 1024;
/// As many names of a kind as are recommended.
const RECOMMENDED: usize = 5;
/// Shorter words, and these, say nothing.
const SHORTEST: usize = 3;
const COMMON: &[&str] = &[
    "all", "and", "any", "are", "but", "can", "for", "from", "has", "have", "how", "into", "its", "not", "should",
    "that", "the", "them", "then", "this", "use", "what", "when", "which", "will", "with", "you", "your",
];

/// What the router found for one task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route<'g> {
    /// All skills, those that fit first.
    pub(crate) skills: Vec<&'g str>,
    /// All context documents, those that fit first.
    pub(crate) documents: Vec<&'g str>,
    /// How many of each fit.
    fitting: (usize, usize),
}

impl<'g> Route<'g> {
    /// Orders the guidance for a task; nothing when there is none.
    pub(crate) fn find(guidance: &'g Guidance, action: Option<&str>, text: &str) -> Option<Self> {
        if guidance.skills.is_empty() && guidance.documents.is_empty() {
            return None;
        }
        let (text, action) = (words(text), words(action.unwrap_or_default()));
        let score = |name: &str, about: &str| {
            let (name, about) = (words(name), words(about));
            let shared = |one: &HashSet<String>, other: &HashSet<String>| one.intersection(other).count();
            // A name says more than a description, and the action's one word more than any of a long text.
            6 * shared(&name, &action) + 3 * shared(&name, &text) + 2 * shared(&about, &action) + shared(&about, &text)
        };
        let skills = guidance.skills.iter().map(|skill| (score(&skill.name, &skill.description), skill.name.as_str()));
        let documents = guidance.documents.iter().map(|one| (score(&one.name, &one.text), one.name.as_str()));
        let ((skills, first), (documents, second)) = (ordered(skills.collect()), ordered(documents.collect()));
        Some(Self { skills, documents, fitting: (first, second) })
    }

    /// What stands beside the task's text; nothing when nothing fits.
    pub(crate) fn note(&self) -> Option<RuntimeWords> {
        let (skills, documents) = (named(&self.skills, self.fitting.0), named(&self.documents, self.fitting.1));
        let note = RuntimeWords::new("Of this capsule's guidance, most likely to bear on this task: ");
        match (skills, documents) {
            (None, None) => None,
            (Some(skills), None) => Some(note.text("the skills ").echo(&skills).text(".")),
            (None, Some(documents)) => Some(note.text("the documents ").echo(&documents).text(".")),
            (Some(skills), Some(documents)) => {
                Some(note.text("the skills ").echo(&skills).text("; the documents ").echo(&documents).text("."))
            }
        }
    }
}

fn named(names: &[&str], fitting: usize) -> Option<String> {
    let names: Vec<&str> = names.iter().take(fitting.min(RECOMMENDED)).copied().collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The names, highest score first and else as declared; and how many have a score at all.
fn ordered(mut scored: Vec<(usize, &str)>) -> (Vec<&str>, usize) {
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let fitting = scored.iter().filter(|(score, _)| *score > 0).count();
    (scored.into_iter().map(|(_, name)| name).collect(), fitting)
}

/// The words of a text, lower-case, without a plural's `s`.
fn words(text: &str) -> HashSet<String> {
    let looked_at = text.char_indices().nth(LOOKED_AT).and_then(|(end, _)| text.get(..end)).unwrap_or(text);
    let words = looked_at.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let words = words.filter(|word| word.chars().count() >= SHORTEST && !COMMON.contains(&word.as_str()));
    words
        .map(|word| match word.strip_suffix('s') {
            Some(one) if one.len() >= SHORTEST && !one.ends_with('s') => one.to_owned(),
            _ => word,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn guidance() -> Guidance {
        let skill = |name: &str, description: &str| SkillEntry { name: name.into(), description: description.into() };
        let document = |name: &str, text: &str| ContextDocument { name: name.into(), text: text.into() };
        Guidance {
            skills: vec![
                skill("house-style", "How C code is written here"),
                skill("releases", "What to do for a release"),
                skill("commit", "How messages are worded"),
            ],
            documents: vec![
                document("profile/identity.md", "You are a careful engineer."),
                document("profile/rules.md", "Tests come before the change."),
            ],
        }
    }

    fn note(action: Option<&str>, text: &str) -> Option<String> {
        Route::find(&guidance(), action, text).unwrap().note().map(RuntimeWords::into_string)
    }

    #[test]
    fn what_shares_words_with_the_task_comes_first_and_the_rest_as_declared() {
        let guidance = guidance();
        let route = Route::find(&guidance, None, "Prepare the RELEASE; run all tests.").unwrap();
        assert_eq!(route.skills, ["releases", "house-style", "commit"]);
        assert_eq!(route.documents, ["profile/rules.md", "profile/identity.md"]);
        let none = Route::find(&guidance, None, "Sing.").unwrap();
        assert_eq!(none.skills, ["house-style", "releases", "commit"]);
        assert_eq!(none.note(), None);
    }

    #[test]
    fn the_actions_word_counts_most() {
        let guidance = guidance();
        let text = "release of code in house style";
        assert_eq!(Route::find(&guidance, None, text).unwrap().skills.first(), Some(&"house-style"));
        assert_eq!(Route::find(&guidance, Some("commit"), "Go.").unwrap().skills.first(), Some(&"commit"));
    }

    #[test]
    fn the_note_names_what_fits() {
        let start = "Of this capsule's guidance, most likely to bear on this task: ";
        let both = note(None, "write code, then tests, in house style");
        assert_eq!(both, Some(format!("{start}the skills house-style; the documents profile/rules.md.")));
        assert_eq!(note(None, "a release"), Some(format!("{start}the skills releases.")));
        assert_eq!(note(None, "an engineer"), Some(format!("{start}the documents profile/identity.md.")));
        assert_eq!(note(Some("chat"), "the and for with"), None);
    }

    #[test]
    fn without_guidance_there_is_no_route() {
        assert_eq!(Route::find(&Guidance::default(), Some("commit"), "tests"), None);
    }

    proptest! {
        #[test]
        fn nothing_is_added_or_lost(text in "\\PC{0,200}", action in proptest::option::of("[a-z]{0,8}")) {
            let guidance = guidance();
            let route = Route::find(&guidance, action.as_deref(), &text).unwrap();
            let sorted = |mut names: Vec<&str>| { names.sort_unstable(); names.join(" ") };
            prop_assert_eq!(sorted(route.skills), "commit house-style releases");
            prop_assert_eq!(sorted(route.documents), "profile/identity.md profile/rules.md");
        }
    }
}
