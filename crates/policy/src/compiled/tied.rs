//! Patterns that are tied to a place of a command, made for one that stands somewhere in a longer text.
//!
//! Where a program is given words or code that it may run, a command in them ends where nobody can tell: what wants
//! the end of a command is content with the end of a word. Which program a pattern is about is told by its text
//! alone, and only where it is tied to the beginning: `drop table` is about no program of that name.

use regex_syntax::hir::literal::{ExtractKind, Extractor};
use regex_syntax::hir::{Hir, HirKind, Look, Repetition};

use super::open::is_about;

/// Literals that a pattern may begin with.
const MAX_LITERALS: usize = 256;

fn parse(pattern: &str, case_insensitive: bool) -> Option<Hir> {
    let mut parser = regex_syntax::ParserBuilder::new()
        .utf8(false)
        .case_insensitive(case_insensitive)
        .dot_matches_new_line(true)
        .build();
    parser.parse(pattern).ok()
}

/// An expression for a text in which more may follow.
pub(super) struct Within {
    pub(super) pattern: String,
    /// Whether it is tied to words alone, and not to the beginning or the end.
    pub(super) by_words: bool,
}

/// The same expression for a text in which more may follow. Nothing when it is not tied to any place.
pub(super) fn within(pattern: &str, case_insensitive: bool) -> Option<Within> {
    let parsed = parse(pattern, case_insensitive)?;
    let looks = parsed.properties().look_set();
    let by_words = !looks.contains_anchor();
    (!looks.is_empty()).then(|| Within { pattern: format!("(?-i:{})", open_end(&parsed)), by_words })
}

/// An expression to which the end of a word is an end.
fn open_end(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Look(Look::End | Look::EndLF | Look::EndCRLF) => {
            Hir::alternation(vec![hir.clone(), Hir::literal(*b" ")])
        }
        HirKind::Repetition(one) => Hir::repetition(Repetition { sub: Box::new(open_end(&one.sub)), ..one.clone() }),
        HirKind::Capture(capture) => open_end(&capture.sub),
        HirKind::Concat(all) => Hir::concat(all.iter().map(open_end).collect()),
        HirKind::Alternation(all) => Hir::alternation(all.iter().map(open_end).collect()),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
    }
}

/// The names of the programs that an expression is about, if it is tied to the beginning of a command.
pub(super) fn programs(pattern: &str, case_insensitive: bool) -> Vec<String> {
    let (Some(plain), Some(meant)) = (parse(pattern, false), parse(pattern, case_insensitive)) else {
        return Vec::new();
    };
    let each = if let HirKind::Alternation(all) = plain.kind() { all.clone() } else { vec![plain] };
    let tied = each.iter().filter(|hir| matches!(hir.kind(), HirKind::Concat(all) if all.first().is_some_and(starts)));
    let mut names: Vec<String> = tied.flat_map(first_names).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| is_about(&meant, name));
    names
}

fn starts(hir: &Hir) -> bool {
    matches!(hir.kind(), HirKind::Look(Look::Start))
}

fn first_names(hir: &Hir) -> Vec<String> {
    let found = Extractor::new().kind(ExtractKind::Prefix).limit_total(MAX_LITERALS).extract(hir);
    let literals = found.literals().unwrap_or_default().iter();
    let names = literals.map(|literal| {
        let text = String::from_utf8_lossy(literal.as_bytes());
        text.chars().take_while(|c| c.is_alphanumeric() || "_.+-".contains(*c)).collect::<String>()
    });
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::{programs, within};

    #[test]
    fn a_pattern_is_about_the_program_that_it_begins_with() {
        for (pattern, names) in [
            ("^git push", &["git"][..]),
            (r"^git\s+push", &["git"]),
            ("^(curl|wget)( |$)", &["curl", "wget"]),
            ("^(sudo )?rm -rf", &["rm", "sudo"]),
            ("^a b|^c d|e f", &["a", "c"]),
            ("git push", &[]),
            (r"\bdrop\s+table\b", &[]),
            ("^.*--force", &[]),
            ("^[a-z]+ -rf", &[]),
            ("^g[a-z]+ push", &[]),
        ] {
            assert_eq!(programs(pattern, true), names, "{pattern}");
        }
    }

    #[test]
    fn an_end_is_the_end_of_a_word_as_well() {
        let is_match =
            |pattern: &str, text| regex::Regex::new(&within(pattern, false).unwrap().pattern).unwrap().is_match(text);
        assert!(is_match("^rm -rf$", "rm -rf") && is_match("^rm -rf$", "rm -rf x") && !is_match("^rm -rf$", "rm -rfv"));
        assert!(is_match("^(a|b$)", "b c") && !is_match("^(a|b$)", "bc"));
        assert!(within("rm -rf", true).is_none() && within(r"\brm\b", true).unwrap().by_words);
        assert!(!within("rm$", true).unwrap().by_words && !within("(?m)^rm", true).unwrap().by_words);
    }
}
