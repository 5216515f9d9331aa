//! Programs that start no other, whatever their arguments, but for the options that are named with them.
//!
//! A program belongs here only when its arguments, its input and its files cannot make it start a program. For
//! programs with subcommands those are listed that take names and messages; the others may run what stands in
//! their words.

mod limited;
mod plain;

use limited::{SUBCOMMANDS, TAR, WITH_OPTIONS};
use plain::PLAIN;

use super::evaluated::short_has;
use super::scripts;
use super::subcommands::unversioned;
use super::word::Word;

/// Keys of git's configuration whose values are no programs.
const GIT_KEYS: [&str; 16] = [
    "advice.",
    "branch.",
    "color.",
    "column.",
    "commit.",
    "core.abbrev",
    "core.autocrlf",
    "core.quotepath",
    "fetch.",
    "http.",
    "init.defaultbranch",
    "log.",
    "protocol.version",
    "pull.",
    "safe.",
    "user.",
];

/// Whether a program starts no other. `forms` are the command without the options before its subcommand.
pub(super) fn starts_nothing(name: &str, words: &[Word], forms: &[Vec<Word>]) -> bool {
    let args = words.get(1..).unwrap_or_default();
    if PLAIN.binary_search(&name).is_ok() {
        return true;
    }
    if let Some((_, but)) = WITH_OPTIONS.iter().find(|(program, _)| *program == name) {
        // The first word of `tar` needs no dash.
        let bundled = TAR == *but
            && args.first().is_some_and(|word| word.text().contains(['I', 'F']) && !word.text().starts_with("--"));
        return !bundled && !args.iter().any(|word| but.iter().any(|option| is_option(word, option)));
    }
    if name == "sed" || name == "gsed" {
        return scripts::sed_runs_nothing(args);
    }
    if scripts::AWKS.contains(&name) {
        return scripts::awk_runs_nothing(args);
    }
    let plain = unversioned(name);
    let found = SUBCOMMANDS.iter().find(|one| one.name == name || (one.name == plain && plain == "pip"));
    let Some(subcommands) = found else { return false };
    let own = [words.to_vec()];
    let mut forms = if forms.is_empty() { own.iter() } else { forms.iter() };
    let listed =
        |form: &Vec<Word>| form.get(1).and_then(Word::known).is_some_and(|word| subcommands.words.contains(&word));
    let configured = name == "git" && !git_configures_nothing(args);
    !configured
        && forms.all(listed)
        && !args.iter().any(|word| subcommands.but.iter().any(|option| is_option(word, option)))
}

/// Whether a program stands in these tables.
pub(super) fn is_known(name: &str) -> bool {
    PLAIN.binary_search(&name).is_ok()
        || WITH_OPTIONS.iter().any(|(program, _)| *program == name)
        || SUBCOMMANDS.iter().any(|one| one.name == name)
}

/// Whether a key of git's configuration, as it is written, names no program.
pub(super) fn is_plain_git_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    GIT_KEYS.iter().any(|plain| if plain.ends_with('.') { key.starts_with(plain) } else { key == *plain })
}

fn git_configures_nothing(args: &[Word]) -> bool {
    let ext = |word: &Word| word.text().contains("::");
    let pairs = args.iter().zip(args.iter().skip(1));
    let keys = pairs.filter(|(option, _)| option.text() == "-c").map(|(_, value)| value.lead());
    let mut keys = keys.map(|value| value.split_once('=').map_or(value, |(key, _)| key));
    let attached = |word: &Word| word.text().starts_with("-c") && word.text().contains('=');
    keys.all(|key| is_plain_git_key(key) || !key.contains('.')) && !args.iter().any(|word| ext(word) || attached(word))
}

/// Whether a word is, or may be, this option: long ones may be cut short, short ones stand in groups, and what is
/// not known may be any.
fn is_option(word: &Word, option: &str) -> bool {
    if word.known().is_none() && !word.is_operand() && word.splits() {
        return true;
    }
    let name = word.lead().split_once('=').map_or(word.lead(), |(name, _)| name);
    match option.strip_prefix("--") {
        Some(_) => name.len() > 2 && name.starts_with("--") && option.starts_with(name),
        None if option.len() == 2 => option.chars().nth(1).is_some_and(|letter| short_has(word, &[letter])),
        None => name.starts_with(option),
    }
}
