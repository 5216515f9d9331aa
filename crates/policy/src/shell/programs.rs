//! What one command runs: the commands that its program is known to start, and what it may start.
//!
//! Three kinds of programs: those whose way to start others is followed here, exactly; those that start none
//! (`harmless`); and all others, whose words are looked through (`suspects`).

use super::evaluated::{self, short_has};
use super::scan::Unclear;
use super::variables::assignment;
use super::word::Word;
use super::{Place, Simple, Work, base_name, effects, harmless, wrappers};
use crate::Operation;

pub(super) const COMPUTED: Unclear = "the name of a program in it is computed";
pub(super) const COMPUTED_TEXT: Unclear = "a text that it gives to a shell is computed";
pub(super) const SHELL_INPUT: Unclear = "a shell in it reads its commands from an input that is not known";
pub(super) const ALIAS: Unclear = "it changes what names mean";
const SHADOWED: Unclear = "a function in it has the name of a program that is known";
pub(super) const MANY_PLACES: Unclear = "where a command in it begins cannot be told";
/// Places that are tried behind an option that is not known.
pub(super) const MAX_PLACES: usize = 32;

/// Shells whose language is followed.
pub(super) const SHELLS: [&str; 5] = ["ash", "bash", "dash", "rbash", "sh"];
/// Shells with a language of their own besides: their texts are looked through as well.
const OTHER_SHELLS: [&str; 8] = ["ksh", "lksh", "mksh", "oksh", "pdksh", "posh", "yash", "zsh"];
/// Programs whose commands are followed, besides wrappers and shells.
const FOLLOWED: [&str; 12] =
    [".", "coproc", "eval", "find", "gfind", "git", "source", "ssh", "su", "time", "trap", "watch"];

/// Options whose value is a text for a shell.
const TEXT_OPTIONS: &[(&str, &[&str])] = &[
    ("flock", &["-c", "--command"]),
    ("git", &["-x", "--exec", "--upload-pack", "--receive-pack", "--tree-filter", "--index-filter", "--msg-filter"]),
    ("man", &["-P", "--pager"]),
    ("mapfile", &["-C"]),
    ("parallel", &["--rpl"]),
    ("readarray", &["-C"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("runuser", &["-c", "--command", "--session-command"]),
    ("script", &["-c", "--command"]),
    ("sg", &["-c"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("start-stop-daemon", &["-x", "-a", "--exec", "--startas"]),
    ("su", &["-c", "--command", "--session-command"]),
    (
        "tar",
        &[
            "-I",
            "-F",
            "--to-command",
            "--use-compress-program",
            "--info-script",
            "--checkpoint-action",
            "--rsh-command",
        ],
    ),
];

/// Builtins that evaluate their words as arithmetic or as names with subscripts.
const EVALUATING: [&str; 13] =
    ["[", "[[", "declare", "export", "let", "local", "printf", "read", "readonly", "test", "typeset", "unset", "wait"];

impl Work<'_> {
    /// Looks at one command and at what it runs.
    pub(super) fn command(&mut self, words: Vec<Word>, place: &Place) {
        if !self.spend(&words) {
            return;
        }
        let assignments = words.iter().take_while(|word| assignment(word).is_some()).count();
        for word in words.iter().take(assignments) {
            self.assigned(word, place);
        }
        let words: Vec<Word> = words.into_iter().skip(assignments).collect();
        let mut words = words;
        if let Some(program) = words.first_mut()
            && let Some(named) = program.with_known_name()
        {
            *program = named;
        }
        let Some(program) = words.first() else { return };
        for base in &place.bases {
            if !self.analysis.starts.contains(base) && self.analysis.starts.len() < super::MAX_BASES {
                self.analysis.starts.push(base.clone());
            }
        }
        if self.analysis.commands.len() > super::MAX_COMMANDS || place.level > super::MAX_LEVEL {
            self.unclear(super::TOO_MUCH);
            return;
        }
        let name = match program.known() {
            Some(name) => base_name(name).to_owned(),
            None => {
                // A number is no program.
                if place.certain && !evaluated::is_number(program.text()) {
                    self.unclear(COMPUTED);
                }
                // Where it is a pattern, the files are known.
                if program.text().contains('/') {
                    self.path(Operation::Execute, program, place);
                }
                self.found(words);
                return;
            }
        };
        words.iter().filter(|word| is_subscript(word)).for_each(|word| self.latent(word, place));
        // `git-push` is `git push`.
        if let Some(subcommand) = name.strip_prefix("git-").filter(|rest| !rest.is_empty()) {
            let git = ["git", subcommand].into_iter().map(Word::literal).chain(words.iter().skip(1).cloned());
            self.command(git.collect(), &Place { level: place.level + 1, ..place.clone() });
        }
        let forms = self.without_globals(&name, &words);
        if !self.possible {
            self.effects(&name, &words, &forms, place);
        }
        self.runs(&name, &words, &forms, place);
        self.found(words);
        forms.into_iter().for_each(|form| self.found(form));
    }

    pub(super) fn found(&mut self, words: Vec<Word>) {
        self.analysis.commands.push(Simple::new(words, self.possible));
    }

    /// Takes note of a function's name.
    pub(super) fn defined(&mut self, name: &Word) {
        let known = |name: &str| {
            harmless::is_known(name)
                || FOLLOWED.contains(&name)
                || SHELLS.contains(&name)
                || wrappers::find(name).is_some()
                || TEXT_OPTIONS.iter().any(|(program, _)| *program == name)
        };
        if name.known().is_none_or(known) {
            self.unclear(SHADOWED);
        }
    }

    fn runs(&mut self, name: &str, words: &[Word], forms: &[Vec<Word>], place: &Place) {
        let args = words.get(1..).unwrap_or_default();
        if words.first().is_some_and(|word| is_foreign(word.text())) {
            self.suspect(name, args, place);
        }
        if EVALUATING.contains(&name) {
            args.iter().for_each(|word| self.latent(word, place));
        }
        self.builtin(name, args, place);
        // What follows behind `<(…)` begins anew: these are options of a program before it.
        if name.starts_with('-') {
            self.suspect("it", words, place);
        }
        if let Some((_, options)) = TEXT_OPTIONS.iter().find(|(program, _)| *program == name) {
            self.text_options(options, args, place);
        }
        self.starts(name, words, forms, place);
    }

    /// What a program starts in a way of its own.
    fn starts(&mut self, name: &str, words: &[Word], forms: &[Vec<Word>], place: &Place) {
        let args = words.get(1..).unwrap_or_default();
        match name {
            // It looks a name up and runs nothing.
            "command" if args.first().is_some_and(|word| matches!(word.known(), Some("-v" | "-V" | "-pv" | "-pV"))) => {
            }
            name if SHELLS.contains(&name) => self.shell(args, place),
            name if OTHER_SHELLS.contains(&name) => {
                self.shell(args, place);
                self.suspect(name, args, place);
            }
            "eval" => {
                let options = usize::from(args.first().is_some_and(|word| word.text() == "--"));
                self.joined(args.get(options..).unwrap_or_default(), place);
            }
            "watch" => self.watch(args, place),
            // It starts whatever a directory holds.
            "run-parts" if !args.iter().any(|word| matches!(word.text(), "--test" | "--list")) => {
                self.unclear(COMPUTED);
                self.unless_harmless(name, words, forms, place);
            }
            "ssh" => self.ssh(args, place),
            "su" => self.su(args, place),
            "trap" => {
                let options =
                    args.iter().take_while(|word| word.known().is_some_and(|text| text.starts_with('-'))).count();
                self.word_text(args.get(options), place);
            }
            "jobs" => match args.iter().position(|word| word.known().is_none() || short_has(word, &['x'])) {
                Some(at) if args.get(at).and_then(Word::known).is_some() => {
                    let inner = args.get(at + 1..).unwrap_or_default().to_vec();
                    self.command(inner, &Place { level: place.level + 1, ..place.clone() });
                }
                Some(_) => self.unclear(COMPUTED),
                None => {}
            },
            "alias" if args.iter().any(|word| word.text().contains('=') || word.known().is_none()) => {
                self.unclear(ALIAS)
            }
            "hash" | "enable" if args.iter().any(|word| !matches!(word.text(), "-r" | "-t" | "-l" | "-a")) => {
                // Without options names are only looked up.
                if name == "enable" || args.iter().any(|word| !word.is_operand()) {
                    self.unclear(ALIAS);
                }
                let files = args.iter().filter(|word| word.text().contains('/'));
                files.for_each(|word| self.path(Operation::Execute, word, place));
            }
            "." | "source" => match args.iter().find(|word| word.text() != "--") {
                Some(script) if script.known().is_some_and(effects::is_input) => self.input_is_script(place),
                Some(script) => {
                    self.script(script, place);
                    self.found(args.iter().skip_while(|word| word.text() == "--").cloned().collect());
                    self.suspect(name, args, place);
                    if script.known().is_none_or(effects::is_descriptor) {
                        self.unclear(SHELL_INPUT);
                    }
                }
                None => self.unclear(SHELL_INPUT),
            },
            "find" | "gfind" => self.find_exec(args, place),
            "fd" | "fdfind" => {
                let args: Vec<Word> = args.iter().map(wrappers::filled).collect();
                self.find_exec(&args, place);
                self.unless_harmless(name, words, forms, place);
            }
            "git" => {
                self.git(args, &self.git_place(args, place));
                self.unless_harmless(name, words, forms, place);
            }
            "tar" | "gtar" | "bsdtar" => {
                for word in args {
                    let text = word.text().split_once("exec=").map(|(_, text)| text.to_owned());
                    text.into_iter().for_each(|text| self.inner_texts(vec![text], place));
                }
                self.unless_harmless(name, words, forms, place);
            }
            _ => match wrappers::find(name) {
                Some(wrapper) => self.wrapped(wrapper, args, place),
                None => self.unless_harmless(name, words, forms, place),
            },
        }
    }

    /// What starts others in a way that is not known may start what its words name.
    fn unless_harmless(&mut self, name: &str, words: &[Word], forms: &[Vec<Word>], place: &Place) {
        if let Some(from) = harmless::may_run_from(name, words, forms) {
            self.suspect(name, words.get(1 + from..).unwrap_or_default(), place);
        }
    }

    /// The words behind the options are one text, or with `-x` a command.
    fn watch(&mut self, args: &[Word], place: &Place) {
        let (at, sure) = behind_options(args, "nqs", "bcdegtrxwC");
        let inner = args.get(at..).unwrap_or_default();
        self.command(inner.to_vec(), &Place { level: place.level + 1, ..place.clone() });
        self.joined(inner, place);
        if !sure {
            self.suspect("watch", args, place);
        }
    }

    /// The words behind the host are one text; without one a shell reads the input.
    fn ssh(&mut self, args: &[Word], place: &Place) {
        let (valued, flags) = ("BbcDEeFIiJLlmOopPQRSWw", "46AaCfGgKkMNnqsTtVvXxYy");
        let (host, sure) = behind_options(args, valued, flags);
        // Options may stand behind the host as well.
        let rest = args.get(host + 1..).unwrap_or_default();
        let (behind, sure_behind) = behind_options(rest, valued, flags);
        let configures = args.iter().any(|word| short_has(word, &['o', 'F', 'J', 'D']))
            || args.get(host).is_some_and(|word| word.known().is_none() && word.may_be_option());
        if configures || !sure || !sure_behind {
            self.suspect("ssh", args, place);
        }
        match rest.get(behind..) {
            Some(words @ [_, ..]) => self.joined(words, place),
            _ if args.iter().any(|word| short_has(word, &['N', 'V', 'Q', 'O', 'G'])) => {}
            _ => self.input_is_script(place),
        }
    }

    fn text_options(&mut self, options: &[&str], args: &[Word], place: &Place) {
        for (at, word) in args.iter().enumerate() {
            for option in options {
                match option_text(word, option) {
                    None => {}
                    Some(OptionText::Next) => self.word_text(args.get(at + 1), place),
                    Some(OptionText::Here(value)) => self.word_text(Some(&value), place),
                }
            }
        }
    }

    fn find_exec(&mut self, args: &[Word], place: &Place) {
        for (at, word) in args.iter().enumerate() {
            if matches!(word.text(), "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch")
            {
                let rest = args.get(at + 1..).unwrap_or_default();
                if !self.spend(rest) {
                    return;
                }
                // A `+` ends it only behind the place of the files.
                let ends = |(before, word): (&Word, &Word)| {
                    word.text() == ";" || (word.text() == "+" && before.text() == "{}")
                };
                let end = rest.iter().zip(rest.iter().skip(1)).position(ends).map_or(rest.len(), |end| end + 1);
                let inner: Vec<Word> = rest.iter().take(end).map(|word| word.replaced("{}")).collect();
                self.command(inner, &Place { level: place.level + 1, ..place.clone() });
            }
        }
        // What is not known may be such an option.
        if args.iter().any(|word| word.known().is_none() && word.may_be_option()) {
            self.suspect("find", args, place);
        }
    }

    /// Commands that git is told to run.
    fn git(&mut self, args: &[Word], place: &Place) {
        self.git_aliases(args);
        let allows = |word: &Word| word.text().contains("protocol.") && !word.text().contains("protocol.version");
        self.addresses.0 |= args.iter().any(allows);
        self.addresses.1 |= args.iter().any(|word| word.known().is_none());
        for word in args {
            if let Some((_, text)) = word.text().split_once("=!") {
                self.inner_texts(vec![text.to_owned()], place);
            }
        }
        let text = |at: usize| args.get(at).map(Word::text);
        for at in 0..args.len() {
            match (text(at), text(at + 1)) {
                (Some("bisect"), Some("run")) => {
                    let inner = args.get(at + 2..).unwrap_or_default().to_vec();
                    self.command(inner, &Place { level: place.level + 1, ..place.clone() });
                }
                (Some("foreach"), _) => {
                    let rest = args.get(at + 1..).unwrap_or_default();
                    self.joined(rest.get(behind_options(rest, "", "q").0..).unwrap_or_default(), place);
                }
                _ => {}
            }
        }
    }
}

/// How many words a group of short options takes, and whether all of them are known.
pub(super) fn short_options(text: &str, valued: &str, flags: &str) -> (usize, bool) {
    let letters: Vec<char> = text.chars().skip(1).collect();
    for (place, letter) in letters.iter().enumerate() {
        if valued.contains(*letter) {
            let attached = place + 1 < letters.len();
            return (1 + usize::from(!attached), true);
        }
        // `nice -10` and the like.
        if !flags.contains(*letter) && !letter.is_ascii_digit() {
            return (1, false);
        }
    }
    (1, true)
}

/// Where the operands begin, and whether every option before them is known.
fn behind_options(args: &[Word], valued: &str, flags: &str) -> (usize, bool) {
    let (mut at, mut sure) = (0, true);
    while let Some(word) = args.get(at).filter(|word| word.text().starts_with('-') && word.known().is_some()) {
        if word.text() == "--" {
            return (at + 1, sure);
        }
        let (width, known) = short_options(word.text(), valued, flags);
        at += width;
        sure &= known;
    }
    (at, sure)
}

/// Where the text that an option takes stands.
enum OptionText {
    Next,
    Here(Word),
}

/// Whether a word is an option that takes a text. Long ones may be cut short, short ones stand in groups.
fn option_text(word: &Word, option: &str) -> Option<OptionText> {
    let text = word.text();
    if option.starts_with("--") {
        let (name, attached) = text.split_once('=').map_or((text, false), |(name, _)| (name, true));
        if name.len() < 3 || !option.starts_with(name) {
            return None;
        }
        return Some(if attached {
            OptionText::Here(word.behind(&format!("{name}=")).unwrap_or_else(Word::open))
        } else {
            OptionText::Next
        });
    }
    let letter = option.strip_prefix('-').filter(|_| text.starts_with('-') && !text.starts_with("--"))?;
    let (before, behind) = text.split_once(letter)?;
    // What stands before it must be options without a value.
    if before.contains('=') {
        return None;
    }
    if behind.is_empty() {
        return Some(OptionText::Next);
    }
    Some(OptionText::Here(word.behind(&format!("{before}{letter}")).unwrap_or_else(Word::open)))
}

/// Whether a program is named by a path that is not one of the system's: it is another of the same name, perhaps.
pub(super) fn is_foreign(program: &str) -> bool {
    let Some((directory, _)) = program.rsplit_once('/') else { return false };
    !["/bin", "/sbin", "/usr/bin", "/usr/local/bin", "/usr/sbin"].contains(&directory)
}

/// Whether a word that is evaluated as arithmetic would run what stands in its subscript.
fn is_subscript(word: &Word) -> bool {
    let (mut inside, mut before) = (false, ' ');
    for c in word.text().chars() {
        match c {
            '[' => inside |= before.is_ascii_alphanumeric() || before == '_',
            ']' => inside = false,
            '`' if inside => return true,
            '(' if inside && before == '$' => return true,
            _ => {}
        }
        before = c;
    }
    false
}
