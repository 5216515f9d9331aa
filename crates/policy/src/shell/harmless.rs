//! Programs that start no other, whatever their arguments, but for the options that are named with them.
//!
//! A program belongs here only when its arguments, its input and its files cannot make it start a program. For
//! programs with subcommands those are listed that take names and messages; the others may run what stands in
//! their words.

mod limited;
mod plain;

use limited::{SUBCOMMANDS, TAR, WITH_OPTIONS, WithOptions};
use plain::PLAIN;

use super::evaluated::short_has;
use super::programs::short_options;
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

/// From which argument on the words of a program may be run. Nothing when it starts no other program: a word that
/// only the shell will know may be one of the options that do, and those take what is in them or stands behind them.
/// `forms` are the command without the options before its subcommand.
pub(super) fn may_run_from(name: &str, words: &[Word], forms: &[Vec<Word>]) -> Option<usize> {
    let args = words.get(1..).unwrap_or_default();
    if PLAIN.binary_search(&name).is_ok() {
        return None;
    }
    if let Some(program) = WITH_OPTIONS.iter().find(|program| program.name == name) {
        return with_options(program, args);
    }
    if name == "sed" || name == "gsed" {
        return scripts::sed_may_run_from(args);
    }
    if scripts::AWKS.contains(&name) {
        return if scripts::awk_runs_nothing(args) { None } else { Some(0) };
    }
    let plain = unversioned(name);
    let found = SUBCOMMANDS.iter().find(|one| one.name == name || (one.name == plain && plain == "pip"));
    let Some(subcommands) = found else { return Some(0) };
    let own = [words.to_vec()];
    let forms = if forms.is_empty() { &own } else { forms };
    let listed =
        |form: &Vec<Word>| form.get(1).and_then(Word::known).is_some_and(|word| subcommands.words.contains(&word));
    let configured = name == "git" && !git_configures_nothing(args);
    let has_option = || args.iter().any(|word| subcommands.but.iter().any(|option| is_option(word, option)));
    if configured || !forms.iter().all(listed) || has_option() {
        return Some(0);
    }
    // What stands behind the subcommand is the end of the arguments, whatever was left out before it.
    let open = |form: &Vec<Word>| {
        let verb = form.get(1).and_then(Word::known).unwrap_or_default();
        let risky = subcommands.risky.is_empty() || subcommands.risky.contains(&verb);
        let behind = form.get(2..).filter(|_| risky)?;
        // What `gh` is given behind `--` are options of git.
        let at = open_option(behind, "", "", name != "gh")?;
        Some(args.len().saturating_sub(behind.len()) + at)
    };
    forms.iter().filter_map(open).min()
}

/// The same for a program that starts others only by its options.
fn with_options(program: &WithOptions, args: &[Word]) -> Option<usize> {
    // The first word of `tar` needs no dash.
    let bundle = args
        .first()
        .filter(|word| program.options == TAR && word.known().is_some() && !word.text().starts_with('-'))
        .map(Word::text);
    let bundled = bundle.is_some_and(|letters| letters.contains(['I', 'F']));
    if bundled || args.iter().any(|word| program.options.iter().any(|option| is_option(word, option))) {
        return Some(0);
    }
    // It takes options in front alone.
    if program.name == "printf" {
        let first = args.first().filter(|word| word.known().is_none() && word.may_be_option());
        // A name and a format follow, or come with it.
        return first.filter(|word| args.len() > 1 || !is_one(word)).map(|_| 0);
    }
    let values = bundle.map_or(0, |letters| letters.chars().filter(|letter| program.valued.contains(*letter)).count());
    let given = args.get(usize::from(bundle.is_some())..).unwrap_or_default();
    let given =
        given.get(values..).filter(|_| given.iter().take(values).all(is_one)).map_or((given, 0), |rest| (rest, values));
    let before = usize::from(bundle.is_some()) + given.1;
    open_option(given.0, program.valued, program.flags, true).map(|at| before + at)
}

/// Whether a word stays one.
fn is_one(word: &Word) -> bool {
    word.known().is_some() || !word.splits()
}

/// The first word of which only the shell will know whether it is an option.
fn open_option(args: &[Word], valued: &str, flags: &str, ends: bool) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let text = word.text();
        match word.known() {
            None if word.may_be_option() => return Some(at),
            Some("--") if ends => return None,
            Some(_) if text.starts_with('-') && !text.starts_with("--") => {
                // The value of an option that is known is none, if it stays one word.
                let (width, known) = short_options(text, valued, flags);
                let is_value = known && width > 1 && args.get(at + 1).is_some_and(is_one);
                at += usize::from(is_value);
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether a program stands in these tables.
pub(super) fn is_known(name: &str) -> bool {
    PLAIN.binary_search(&name).is_ok()
        || WITH_OPTIONS.iter().any(|program| program.name == name)
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

/// Whether a word is this option, as far as it is known: long ones may be cut short, short ones stand in groups.
fn is_option(word: &Word, option: &str) -> bool {
    let name = word.lead().split_once('=').map_or(word.lead(), |(name, _)| name);
    match option.strip_prefix("--") {
        Some(_) => name.len() > 2 && name.starts_with("--") && option.starts_with(name),
        None if option.len() == 2 => option.chars().nth(1).is_some_and(|letter| short_has(word, &[letter])),
        None => name.starts_with(option),
    }
}
