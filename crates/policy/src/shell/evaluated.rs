//! Arithmetic: what `bash` evaluates of a text may run commands, because a value can be an expression itself.
//!
//! `x='a[$(cmd)]'; echo $((x))` runs `cmd`. So the variables that arithmetic names are compared with those that
//! were given something else than a number anywhere in the text, and where both meet the text is unclear. The
//! builtins that take names of variables, which may have subscripts, belong here too.

use super::scan::Unclear;
use super::word::{self, Inner, Word};
use super::{Place, Work};

pub(super) const EVALUATED: Unclear =
    "a value that is not known to be a number is evaluated as arithmetic, which can run commands (`[ … ]` does not)";
const NAME: Unclear = "the name of a variable in it is computed, or stands for another";
const RUNS_TEXT: Unclear = "a builtin in it runs a text (`fc`, `compgen -C`, `mapfile -C`, `bind -x` and their like)";
pub(super) const MODES: Unclear = "it changes how the shell reads commands";

/// Programs that print a number, with what they must be told for it.
const COUNTERS: &[(&str, &str)] = &[
    ("wc", ""),
    ("nproc", ""),
    ("seq", ""),
    ("id", "-u"),
    ("id", "-g"),
    ("grep", "-c"),
    ("date", "+%s"),
    ("stat", "-c %s"),
    ("git rev-list", "--count"),
    ("pgrep", "-c"),
];
/// What a shell itself counts.
const COUNTED: [&str; 18] = [
    "#",
    "?",
    "$",
    "!",
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "EPOCHSECONDS",
    "UID",
    "EUID",
    "PPID",
    "BASHPID",
    "COLUMNS",
    "LINES",
    "OPTIND",
    "SHLVL",
    "BASH_SUBSHELL",
];

/// Variables that a shell sets to what nobody knows, though no word names them.
const SET_BY_SHELL: [&str; 9] = [
    "BASH_ARGV",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_REMATCH",
    "DIRSTACK",
    "MAPFILE",
    "OPTARG",
    "REPLY",
    "_",
];

/// Variables that are integers to the shell itself: what is assigned is evaluated at once.
const INTEGERS: [&str; 10] =
    ["BASHPID", "EPOCHSECONDS", "EUID", "HISTCMD", "LINENO", "OPTIND", "PPID", "RANDOM", "SECONDS", "SRANDOM"];

/// Whether what is assigned to a variable is evaluated.
pub(super) fn is_integer(name: &str) -> bool {
    INTEGERS.contains(&name)
}

/// Whether what a text comes to is a number for certain.
pub(super) fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) || digits.starts_with("0x") {
        return true;
    }
    let Some(open) = text.strip_prefix('$') else {
        return text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).is_some_and(counts);
    };
    let inside = |from: &str, to: &str| open.strip_prefix(from).and_then(|rest| rest.strip_suffix(to));
    if let Some(name) = inside("{", "}") {
        return COUNTED.contains(&name) || name.strip_prefix('#').is_some_and(|name| !name.contains('}'));
    }
    if let Some(arithmetic) = inside("((", "))") {
        return !arithmetic.contains("))");
    }
    COUNTED.contains(&open) || inside("(", ")").is_some_and(counts)
}

/// Whether a command prints a number and nothing else.
fn counts(text: &str) -> bool {
    if text.contains([';', '&', '\n', '(', ')', '`', '$']) {
        return false;
    }
    let last = text.rsplit('|').next().unwrap_or(text).trim();
    let begins =
        |name: &&(&str, &str)| last.strip_prefix(name.0).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    COUNTERS.iter().filter(begins).any(|(_, needs)| last.contains(needs))
}

/// The subscript of a name.
fn subscript(text: &str) -> Option<&str> {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    name.split_once('[').map(|(_, inside)| inside.trim_end_matches(['+', ']']))
}

impl Work<'_> {
    /// Takes over what a word holds.
    pub(super) fn inner(&mut self, inner: Inner, place: &Place) {
        self.substitutes |= !inner.texts.is_empty();
        self.inner_texts(inner.texts, place);
        inner.evaluated.iter().for_each(|text| self.evaluated(text));
        for (name, value) in inner.assigned {
            self.variable(&name);
            self.suspect_value(&name, &value, place);
        }
        inner.unclear.into_iter().for_each(|why| self.unclear(why));
    }

    /// Takes note of a text that is evaluated.
    pub(super) fn evaluated(&mut self, text: &str) {
        if self.possible {
            return;
        }
        let mut before = ' ';
        let mut name = String::new();
        for c in text.chars().chain([' ']) {
            if c.is_ascii_alphanumeric() || c == '_' {
                let begins = name.is_empty() && (c.is_ascii_digit() || before.is_ascii_alphanumeric());
                // Arguments may be anything.
                if c.is_ascii_digit() && matches!(before, '$') {
                    self.unclear(EVALUATED);
                }
                if !begins {
                    name.push(c);
                }
            } else if !name.is_empty() {
                self.names.insert(std::mem::take(&mut name));
            }
            before = c;
        }
        if text.contains("$(") || text.contains('`') || text.contains("$@") || text.contains("$*") {
            let counted = word::substitutions(text).is_ok_and(|inner| inner.texts.iter().all(|text| counts(text)));
            if !counted || text.contains("$@") || text.contains("$*") {
                self.unclear(EVALUATED);
            }
        }
    }

    /// Takes note of a variable that is given a value of which nothing is known.
    pub(super) fn variable(&mut self, name: &str) {
        if self.possible {
            return;
        }
        if let Some(inside) = subscript(name) {
            self.evaluated(inside);
        }
        let plain = name.split_once('[').map_or(name, |(plain, _)| plain);
        self.set_by_others(plain);
        self.open_values.insert(plain.to_owned());
    }

    /// Whether something is evaluated that need not be a number.
    pub(super) fn judge_values(&mut self) {
        let by_shell = SET_BY_SHELL.iter().any(|name| self.names.contains(*name));
        if by_shell || !self.names.is_disjoint(&self.open_values) {
            self.unclear(EVALUATED);
        }
    }

    /// A word that is the name of a variable.
    fn name(&mut self, word: &Word) {
        self.substitutes |= !self.possible;
        match word.known() {
            Some(name) => self.variable(name),
            None => self.unclear(NAME),
        }
    }

    /// What builtins do to variables, and with texts.
    pub(super) fn builtin(&mut self, name: &str, args: &[Word], place: &Place) {
        let letters = |letters: &[char]| args.iter().any(|word| short_has(word, letters));
        let has = |names: &[&str]| args.iter().any(|word| names.contains(&word.text()));
        match name {
            "test" | "[" | "[[" => self.tests(name, args),
            "let" => args.iter().for_each(|word| self.evaluated(word.text())),
            "declare" | "typeset" | "local" | "export" | "readonly" => {
                if letters(&['i', 'n']) && name != "export" {
                    self.unclear(NAME);
                }
                for word in args.iter().filter(|word| !word.lead().starts_with(['-', '+'])) {
                    match subscript(word.lead()) {
                        _ if word.known().is_none() && !word.lead().contains('=') => self.unclear(NAME),
                        Some(inside) => self.evaluated(inside),
                        None => {}
                    }
                    // `declare -a a="(…)"` is a list whose subscripts are evaluated.
                    let listed = || word.known().is_none() || word.text().contains("=(");
                    if letters(&['a', 'A']) && word.lead().contains('=') && listed() {
                        self.unclear(EVALUATED);
                    }
                    if word.lead().contains('=') {
                        self.assigned(word, place);
                    }
                }
            }
            "unset" => args.iter().for_each(|word| match word.known() {
                Some(name) => subscript(name).into_iter().for_each(|inside| self.evaluated(inside)),
                None => self.unclear(NAME),
            }),
            "read" | "getopts" | "mapfile" | "readarray" => {
                if letters(&['C']) && matches!(name, "mapfile" | "readarray") {
                    self.unclear(RUNS_TEXT);
                }
                let mut before = false;
                for word in args {
                    // The value of an option may be anything.
                    if word.known().is_some() || !before {
                        self.name(word);
                    }
                    before =
                        word.lead().starts_with('-') && word.text().ends_with(['a', 'd', 'i', 'n', 'N', 'p', 't', 'u']);
                }
            }
            "printf" | "wait" => {
                let option = if name == "printf" { "-v" } else { "-p" };
                for (at, word) in args.iter().enumerate().filter(|(_, word)| word.lead().starts_with(option)) {
                    match word.text().len() {
                        2 => args.get(at + 1).into_iter().for_each(|word| self.name(word)),
                        _ => self.name(&word.behind(option).unwrap_or_else(Word::open)),
                    }
                }
            }
            "fc" if !letters(&['l']) || letters(&['s', 'e']) || args.iter().any(|word| word.known().is_none()) => {
                self.unclear(RUNS_TEXT);
            }
            "history" if args.iter().any(|word| word.text() != "-c" && !is_number(word.text())) => {
                self.unclear(RUNS_TEXT);
            }
            "compgen" | "complete" if letters(&['C', 'F', 'W']) => self.unclear(RUNS_TEXT),
            "bind" => self.unclear(RUNS_TEXT),
            "set" | "shopt" => {
                let modes = ["history", "histexpand", "keyword"];
                let letters =
                    args.iter().take_while(|word| word.text() != "--").any(|word| short_has(word, &['H', 'k']));
                if has(&modes) || (name == "set" && letters) {
                    self.unclear(MODES);
                }
            }
            _ => {}
        }
    }

    fn tests(&mut self, name: &str, args: &[Word]) {
        let operands = args.iter().filter(|word| !matches!(word.text(), "]" | "]]")).count();
        for (at, word) in args.iter().enumerate() {
            let next = args.get(at + 1);
            match word.text() {
                "-v" | "-R" => match next.map(|word| (word.known(), word)) {
                    Some((Some(name), _)) => subscript(name).into_iter().for_each(|inside| self.evaluated(inside)),
                    Some((None, _)) => self.unclear(NAME),
                    None => {}
                },
                "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" if name == "[[" => {
                    let before = at.checked_sub(1).and_then(|at| args.get(at));
                    before.into_iter().chain(next).for_each(|word| self.evaluated(word.text()));
                }
                // Without quotes it may come to `-v` and a name.
                text if at == 0 && operands <= 2 && name != "[[" && word.splits() && !is_number(text) => {
                    self.unclear(NAME);
                }
                _ => {}
            }
        }
    }
}

/// Whether a word is a group of short options with one of these letters.
pub(super) fn short_has(word: &Word, letters: &[char]) -> bool {
    word.text().strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains(letters))
}
