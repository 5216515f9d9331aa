//! Variables by which programs are told to run others.
//!
//! A value counts like an argument of a program of which nothing is known. Some names are refused whatever their
//! value, because a shell runs it at once or later; of those that name a program the value must be literal.

use super::scan::Unclear;
use super::word::{Word, parse, substitutions};
use super::{Place, Work, evaluated, programs};

const STARTS: Unclear = "it sets a variable that makes a shell run a text or a file (`BASH_ENV`, `PS4` and their like)";
const COMPUTED_VALUE: Unclear = "the value of a variable that names a program is computed";

/// Variables whose value a shell runs or that change how it reads.
const OF_SHELLS: [&str; 14] = [
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "BASH_ALIASES",
    "BASH_CMDS",
    "ZDOTDIR",
    "FPATH",
];
/// Variables that name a program, or options that can.
const OF_PROGRAMS: [&str; 36] = [
    "AR",
    "BROWSER",
    "CC",
    "CXX",
    "ED",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH",
    "GIT_TEMPLATE_DIR",
    "GREP_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "LD",
    "LD_AUDIT",
    "LD_PRELOAD",
    "LESS",
    "LESSCLOSE",
    "LESSOPEN",
    "MAKE",
    "MAKEFLAGS",
    "MFLAGS",
    "NODE_OPTIONS",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "RUBYLIB",
    "RUBYOPT",
    "RUSTC",
    "RUSTDOC",
    "SHELL",
    "TAR_OPTIONS",
    "VISUAL",
    "VIMINIT",
    "_JAVA_OPTIONS",
];
/// Variables that name a configuration, or a directory with some, which can name programs.
const OF_CONFIGURATIONS: [&str; 18] = [
    "BAT_CONFIG_PATH",
    "CARGO_HOME",
    "CURL_HOME",
    "DOCKER_CONFIG",
    "GIT_CONFIG",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_DIR",
    "HOME",
    "KUBECONFIG",
    "LESSKEYIN",
    "MAKEFILES",
    "NPM_CONFIG_USERCONFIG",
    "OPENSSL_CONF",
    "PIP_CONFIG_FILE",
    "RIPGREP_CONFIG_PATH",
    "WGETRC",
    "XDG_CONFIG_HOME",
];
/// How the names of others end.
const ENDINGS: [&str; 12] = [
    "PAGER", "EDITOR", "ASKPASS", "_RSH", "_SSH", "_COMMAND", "_RUNNER", "_LINKER", "_WRAPPER", "_SHELL", "_CMD",
    "_PROG",
];
/// Variables that are lists of directories: parts of them may be other variables.
const LISTS: [&str; 5] = ["PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PERL5LIB", "RUBYLIB"];

fn of_shells(name: &str) -> bool {
    OF_SHELLS.contains(&name)
        || name.starts_with("BASH_FUNC")
        || name == "GIT_CONFIG_PARAMETERS"
        || name.starts_with("GIT_CONFIG_KEY_")
}

fn of_programs(name: &str) -> bool {
    OF_PROGRAMS.contains(&name) || ENDINGS.iter().any(|end| name.ends_with(end)) || name.starts_with("DYLD_")
}

/// The name and value of a word that is an assignment.
pub(super) fn assignment(word: &Word) -> Option<(&str, &str)> {
    let (name, value) = word.text().split_once('=')?;
    let plain = name.strip_suffix('+').unwrap_or(name);
    let plain = plain.split_once('[').map_or(plain, |(plain, _)| plain);
    let mut chars = plain.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    // A subscript looks like a file name pattern.
    let certain = word.lead().len() > name.len() || (name != plain && word.lead() == plain);
    (starts && certain && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some((plain, value))
}

/// Whether a value is the variable's own, or else a literal: `CC=${CC:-gcc}`.
fn is_own_default(name: &str, value: &str) -> bool {
    let inner = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let default = inner.and_then(|inner| inner.strip_prefix(name)).map(|rest| rest.strip_prefix(':').unwrap_or(rest));
    default.and_then(|rest| rest.strip_prefix(['-', '='])).is_some_and(|text| !text.contains(['$', '`', '{', '}']))
}

impl Work<'_> {
    /// A value that is assigned may be evaluated later, and some are commands by themselves.
    pub(super) fn assigned(&mut self, word: &Word, place: &Place) {
        let Some((name, value)) = assignment(word) else { return };
        let is_open = word.known().is_none();
        if !evaluated::is_number(value) {
            self.open_values.insert(name.to_owned());
        }
        if evaluated::is_integer(name) && !evaluated::is_number(value) {
            self.unclear(evaluated::EVALUATED);
        }
        if let Some((_, inside)) = word.text().split_once('=').and_then(|(name, _)| name.split_once('[')) {
            self.evaluated(inside);
        }
        let computed = value.contains("$(") || value.contains('`');
        if of_shells(name) {
            self.unclear(STARTS);
        } else if OF_CONFIGURATIONS.contains(&name) {
            // It is run like a script.
            word.behind(&format!("{name}=")).iter().for_each(|value| self.script(value, place));
        } else if name == "GIT_ALLOW_PROTOCOL" {
            self.addresses.0 |= is_open || value.contains("ext");
        } else if is_open
            && !is_own_default(name, value)
            && if LISTS.contains(&name) { computed } else { of_programs(name) }
        {
            self.unclear(COMPUTED_VALUE);
        }
        if name == "PATH" && !self.possible {
            self.searches(value);
        }
        self.latent(word, place);
        if let Some((_, value)) = word.written().split_once('=') {
            self.suspect_value(name, value, place);
        }
    }

    /// Takes note of where programs are looked for, as far as that is known.
    fn searches(&mut self, list: &str) {
        for entry in list.split(':') {
            let entry = if entry.is_empty() { "." } else { entry };
            let words = parse(entry).map(|parsed| parsed.words).unwrap_or_default();
            for path in words.iter().filter_map(|word| word.path(self.home)) {
                if self.analysis.search.len() >= super::MAX_SEARCHED {
                    self.analysis.too_many_paths = true;
                } else if !self.analysis.search.contains(&path) {
                    self.analysis.search.push(path);
                }
            }
        }
    }

    /// A variable is given a value of which nothing is known.
    pub(super) fn set_by_others(&mut self, name: &str) {
        if of_shells(name) {
            self.unclear(STARTS);
        } else if of_programs(name) || LISTS.contains(&name) {
            self.unclear(COMPUTED_VALUE);
        } else if evaluated::is_integer(name) {
            self.unclear(evaluated::EVALUATED);
        }
    }

    /// The same for a program that sets variables of any name.
    pub(super) fn environment(&mut self, word: &Word, place: &Place) {
        if word.text().starts_with("BASH_FUNC_") || !word.lead().contains('=') {
            self.unclear(programs::ALIAS);
        }
        self.assigned(word, place);
    }

    /// Substitutions in a text that a shell only evaluates later.
    pub(super) fn latent(&mut self, word: &Word, place: &Place) {
        if word.known().is_none_or(|text| !text.contains("$(") && !text.contains('`')) {
            return;
        }
        match substitutions(word.text()) {
            Ok(inner) => self.inner(inner, place),
            Err(why) => self.unclear(why),
        }
    }
}
