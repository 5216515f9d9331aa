//! Programs that run other programs: what stands behind them is a command as well.
//!
//! For each the options that take a value are listed, so that the command's place is found; behind an
//! option that is not listed every later word may be the command, and all of them are tried.

use super::scan::Unclear;
use super::word::{Word, substitutions};
use super::{Input, Place, Simple, Work, base_name, effects};

const COMPUTED: Unclear = "the name of a program in it is computed";
const COMPUTED_TEXT: Unclear = "a text that it gives to a shell is computed";
const SHELL_INPUT: Unclear = "a shell in it reads its commands from an input that is not known";
pub(super) const ALIAS: Unclear = "it changes what names mean";
pub(super) const MANY_PLACES: Unclear = "where a command in it begins cannot be told";
/// Places that are tried behind an option that is not known.
pub(super) const MAX_PLACES: usize = 32;

/// A program that runs the command behind its options.
struct Wrapper {
    name: &'static str,
    /// Letters of options with a value.
    valued: &'static str,
    /// Letters of options without one.
    flags: &'static str,
    /// Long options with a value of their own word.
    long: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
}

const fn wrapper(
    name: &'static str,
    valued: &'static str,
    flags: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, valued, flags, long, operands }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("builtin", "", "", &[], 0),
    wrapper("busybox", "", "", &[], 0),
    wrapper("chroot", "", "", &[], 1),
    wrapper("chrt", "TPD", "abfimorRv", &[], 1),
    wrapper("command", "", "pvV", &[], 0),
    wrapper("doas", "aCu", "Lns", &[], 0),
    wrapper("env", "uCa", "i0v", &["--unset", "--chdir", "--argv0"], 0),
    wrapper("exec", "a", "cl", &[], 0),
    wrapper("fakeroot", "lisub", "h", &[], 0),
    wrapper("flock", "wE", "sxneuoFv", &["--timeout", "--wait", "--conflict-exit-code"], 1),
    wrapper("gtimeout", "ks", "v", &["--kill-after", "--signal"], 1),
    wrapper("ionice", "cnpPu", "t", &["--class", "--classdata"], 0),
    wrapper("linux32", "", "", &[], 0),
    wrapper("linux64", "", "", &[], 0),
    wrapper("ltrace", "aeonpsulxDF", "bcCfhiLrStTV", &[], 0),
    wrapper("nice", "n", "", &["--adjustment"], 0),
    wrapper("nocache", "n", "", &[], 0),
    wrapper("nohup", "", "", &[], 0),
    wrapper("nsenter", "tSGW", "aZFe", &["--target"], 0),
    wrapper("numactl", "aCmNip", "lsHh", &[], 0),
    wrapper("parallel", "jSPaICN", "kmXuq0", &["--jobs", "--arg-file", "--colsep"], 0),
    wrapper("pkexec", "", "", &["--user"], 0),
    wrapper("prlimit", "p", "", &["--pid"], 0),
    wrapper("proot", "rbqwk", "0S", &[], 0),
    wrapper("runuser", "ugG", "l", &["--user", "--group"], 0),
    wrapper("script", "IOBEcmoTt", "aefq", &[], 0),
    wrapper("setarch", "", "RFZLXBIS3", &[], 1),
    wrapper("setpriv", "", "", &["--reuid", "--regid", "--groups"], 0),
    wrapper("setsid", "", "cfw", &[], 0),
    wrapper("start-stop-daemon", "xapnugsRkNPIc", "SKTHbmtoqvC", &["--exec", "--startas", "--pidfile"], 0),
    wrapper("stdbuf", "ioe", "", &["--input", "--output", "--error"], 0),
    wrapper("strace", "aeEIoOpPsSuUX", "cCdDfFhikqrtTvVxyYzZ", &[], 0),
    wrapper("sudo", "aCcDghpRrtTUu", "ABbEeHiKklNnPSsVv", &["--user", "--group", "--chdir", "--host", "--prompt"], 0),
    wrapper("systemd-run", "puEHMt", "dGqPS", &["--unit", "--property", "--setenv", "--uid", "--slice"], 0),
    wrapper("taskset", "", "apc", &[], 1),
    wrapper("time", "fo", "apqvV", &["--format", "--output"], 0),
    wrapper("timeout", "ks", "fpv", &["--kill-after", "--signal"], 1),
    wrapper("toybox", "", "", &[], 0),
    wrapper("unbuffer", "", "p", &[], 0),
    wrapper("unshare", "RwSG", "imnpuUCTfrc", &["--root", "--wd"], 0),
    wrapper("valgrind", "", "", &[], 0),
    wrapper(
        "xargs",
        "adEIiLlnPs",
        "0oprtx",
        &["--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-lines"],
        0,
    ),
    wrapper("xvfb-run", "enfpsw", "al", &[], 0),
];

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
        let assignments = words.iter().take_while(|word| assignment(word).is_some()).count();
        for word in words.iter().take(assignments) {
            self.assigned(word, place);
        }
        let words: Vec<Word> = words.into_iter().skip(assignments).collect();
        let Some(program) = words.first() else { return };
        if self.analysis.commands.len() > super::MAX_COMMANDS || place.level > super::MAX_LEVEL {
            self.unclear(super::TOO_MUCH);
            return;
        }
        let name = match program.known() {
            Some(name) => base_name(name).to_owned(),
            None => {
                if place.certain {
                    self.unclear(COMPUTED);
                }
                self.analysis.commands.push(Simple::new(words));
                return;
            }
        };
        words.iter().filter(|word| is_subscript(word)).for_each(|word| self.latent(word, place));
        let forms = self.without_globals(&name, &words);
        self.effects(&name, &words, &forms, place);
        self.runs(&name, &words, place);
        self.analysis.commands.push(Simple::new(words));
        self.analysis.commands.extend(forms.into_iter().map(Simple::new));
    }

    /// A value that is assigned may be evaluated later, and some are commands by themselves.
    fn assigned(&mut self, word: &Word, place: &Place) {
        let Some((name, _)) = assignment(word) else { return };
        if matches!(
            name,
            "BASH_ENV" | "ENV" | "PROMPT_COMMAND" | "PS0" | "PS4" | "BASH_FUNC" | "SHELLOPTS" | "BASHOPTS"
        ) || name == "GIT_CONFIG_PARAMETERS"
            || name.starts_with("GIT_CONFIG_KEY_")
        {
            self.unclear(ALIAS);
        }
        self.latent(word, place);
    }

    /// The same for a program that sets variables of any name.
    fn environment(&mut self, word: &Word, place: &Place) {
        if word.text().starts_with("BASH_FUNC_") || !word.lead().contains('=') {
            self.unclear(ALIAS);
        }
        self.assigned(word, place);
    }

    /// Substitutions in a text that a shell only evaluates later.
    fn latent(&mut self, word: &Word, place: &Place) {
        if word.known().is_none_or(|text| !text.contains("$(") && !text.contains('`')) {
            return;
        }
        match substitutions(word.text()) {
            Ok(texts) => self.inner_texts(texts, place),
            Err(why) => self.unclear(why),
        }
    }

    fn runs(&mut self, name: &str, words: &[Word], place: &Place) {
        let args = words.get(1..).unwrap_or_default();
        if EVALUATING.contains(&name) {
            args.iter().for_each(|word| self.latent(word, place));
        }
        if let Some((_, options)) = TEXT_OPTIONS.iter().find(|(program, _)| *program == name) {
            self.text_options(options, args, place);
        }
        match name {
            "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh" | "mksh" | "rbash" | "yash" | "posh" | "lksh" => {
                self.shell(args, place);
            }
            // It looks a name up and runs nothing.
            "command" if args.first().is_some_and(|word| matches!(word.known(), Some("-v" | "-V" | "-pv" | "-pV"))) => {
            }
            "eval" => self.joined(args, place),
            "watch" => self.joined(behind_options(args, "n"), place),
            "ssh" => self.joined(behind_options(args, "bcDEeFIiJLlmOopQRSWw").get(1..).unwrap_or_default(), place),
            "su" => self.joined_if_shell_option(args, place),
            "trap" => {
                let options =
                    args.iter().take_while(|word| word.known().is_some_and(|text| text.starts_with("-"))).count();
                self.word_text(args.get(options), place);
            }
            "alias" if args.iter().any(|word| word.text().contains('=')) => self.unclear(ALIAS),
            "hash" if args.iter().any(|word| word.text().starts_with("-p")) => self.unclear(ALIAS),
            "enable" if args.iter().any(|word| word.text().starts_with("-f")) => self.unclear(ALIAS),
            "." | "source" => match args.iter().find(|word| word.text() != "--") {
                Some(script) if script.known().is_some_and(effects::is_descriptor) => self.input_is_script(place),
                Some(script) => {
                    self.script(script, place);
                    if script.known().is_none() {
                        self.unclear(SHELL_INPUT);
                    }
                }
                None => self.unclear(SHELL_INPUT),
            },
            "find" | "gfind" | "fd" | "fdfind" => self.find_exec(args, place),
            "git" => self.git(args, place),
            "tar" | "gtar" | "bsdtar" => {
                for word in args {
                    let text = word.text().split_once("exec=").map(|(_, text)| text.to_owned());
                    text.into_iter().for_each(|text| self.inner_texts(vec![text], place));
                }
            }
            _ if name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so" => {
                self.wrapped(&wrapper("ld.so", "", "", &["--library-path", "--argv0", "--preload"], 0), args, place);
            }
            _ => {
                if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
                    self.wrapped(wrapper, args, place);
                }
            }
        }
    }

    /// Whether a program runs the command behind its options.
    pub(super) fn is_wrapper(name: &str) -> bool {
        WRAPPERS.iter().any(|wrapper| wrapper.name == name)
    }

    /// What stands behind a program that runs it.
    fn wrapped(&mut self, wrapper: &Wrapper, args: &[Word], place: &Place) {
        let mut at = 0;
        let mut sure = true;
        let sets_environment = matches!(wrapper.name, "env" | "sudo" | "doas" | "pkexec");
        while let Some(word) = args.get(at) {
            let text = word.text();
            if wrapper.name == "env" && self.split_string(args, at, place) {
                return;
            }
            if text == "--" {
                at += 1;
                break;
            }
            if sets_environment && text.contains('=') && !text.starts_with('-') {
                self.environment(word, place);
                at += 1;
            } else if let Some(long) = text.strip_prefix("--").filter(|_| word.known().is_some()) {
                at += 1 + usize::from(wrapper.long.contains(&text));
                sure &= long.contains('=') || wrapper.long.contains(&text);
            } else if text.len() > 1 && text.starts_with('-') && word.known().is_some() {
                let (width, known) = short_options(text, wrapper.valued, wrapper.flags);
                sure &= known;
                at += width;
            } else {
                break;
            }
        }
        at += wrapper.operands;
        // The words of the command itself are looked at as its own.
        self.named(wrapper.name, args.get(..at).unwrap_or(args), place);
        // Behind `--` they may follow as well.
        while let Some(word) = args.get(at).filter(|word| sets_environment && word.text().contains('=')) {
            self.environment(word, place);
            at += 1;
        }
        let appends = matches!(wrapper.name, "xargs" | "parallel");
        let behind = |from: usize| -> Vec<Word> {
            let rest = args.get(from..).unwrap_or_default().iter().cloned();
            rest.chain(appends.then(Word::open)).collect()
        };
        let inner = |certain| Place { level: place.level + 1, certain, ..place.clone() };
        if wrapper.name == "parallel" && args.get(at).is_none_or(|word| word.text().starts_with(":::")) {
            self.unclear(SHELL_INPUT);
        }
        if at < args.len() {
            self.command(behind(at), &inner(place.certain));
        }
        if sure {
            return;
        }
        if args.len() > MAX_PLACES {
            self.unclear(MANY_PLACES);
            return;
        }
        for from in (0..args.len()).filter(|from| *from != at) {
            self.command(behind(from), &inner(false));
        }
    }

    /// `env -S`: one text that is split into words.
    fn split_string(&mut self, args: &[Word], at: usize, place: &Place) -> bool {
        let Some(word) = args.get(at) else { return false };
        let text = word.text();
        let short = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.split_once('S'));
        let value = match (text.strip_prefix("--split-string"), short) {
            (Some(rest), _) => rest.strip_prefix('=').unwrap_or(rest),
            (None, Some((flags, rest))) if flags.chars().all(|c| "iv0".contains(c)) => rest,
            _ => return false,
        };
        let (first, from) = if value.is_empty() {
            (args.get(at + 1).map(Word::text).unwrap_or_default(), at + 2)
        } else {
            (value, at + 1)
        };
        if word.known().is_none() {
            self.unclear(COMPUTED_TEXT);
        }
        let rest = args.get(from..).unwrap_or_default().iter().map(Word::text);
        let whole = std::iter::once("env").chain(std::iter::once(first)).chain(rest).collect::<Vec<_>>().join(" ");
        self.inner_texts(vec![whole], place);
        true
    }

    /// The commands of a shell: its `-c` text, or its input.
    fn shell(&mut self, args: &[Word], place: &Place) {
        let mut at = 0;
        let mut command = false;
        let mut input = false;
        while let Some(word) = args.get(at) {
            let text = word.text();
            let Some(letters) = text.strip_prefix(['-', '+']).filter(|rest| !rest.is_empty()) else { break };
            at += 1;
            if word.known().is_none() {
                return self.unclear(COMPUTED_TEXT);
            }
            match letters.strip_prefix('-') {
                Some("") => break,
                Some("version" | "help") => return,
                Some("rcfile" | "init-file") => {
                    args.get(at).into_iter().for_each(|word| self.script(word, place));
                    at += 1;
                }
                Some(_) => {}
                None => {
                    command |= letters.contains('c') && text.starts_with('-');
                    input |= letters.contains('s');
                    at += letters.chars().filter(|letter| matches!(letter, 'o' | 'O')).count();
                }
            }
        }
        if command {
            // Some shells let an option stand behind `-c`.
            let text = args.get(at);
            return self.word_text(text, place);
        }
        match args.get(at) {
            Some(script) if !input && script.text() != "-" => {
                if script.known().is_some_and(effects::is_descriptor) {
                    self.input_is_script(place);
                } else {
                    self.script(script, place);
                }
            }
            _ => self.input_is_script(place),
        }
    }

    fn input_is_script(&mut self, place: &Place) {
        match &place.input {
            Input::Text(text) => self.inner_texts(vec![text.clone()], place),
            Input::File(_) => self.input_file(place),
            Input::Unknown => self.unclear(SHELL_INPUT),
        }
    }

    /// A word that is a command text.
    fn word_text(&mut self, word: Option<&Word>, place: &Place) {
        match word.map(Word::known) {
            Some(Some(text)) => self.inner_texts(vec![text.to_owned()], place),
            Some(None) => self.unclear(COMPUTED_TEXT),
            None => {}
        }
    }

    /// Words that are joined to a command text.
    fn joined(&mut self, words: &[Word], place: &Place) {
        if words.iter().any(|word| word.known().is_none()) {
            return self.unclear(COMPUTED_TEXT);
        }
        let text = words.iter().map(Word::text).collect::<Vec<_>>().join(" ");
        self.inner_texts(vec![text], place);
    }

    /// `su` hands what follows the user's name to the shell.
    fn joined_if_shell_option(&mut self, args: &[Word], place: &Place) {
        let user = args.iter().position(|word| !word.text().starts_with('-') || word.text() == "-");
        if let Some(rest) = user.and_then(|at| args.get(at + 1..)) {
            self.shell_if_any(rest, place);
        }
    }

    fn shell_if_any(&mut self, args: &[Word], place: &Place) {
        if args.iter().any(|word| word.text().starts_with('-')) {
            self.shell(args, place);
        }
    }

    fn text_options(&mut self, options: &[&str], args: &[Word], place: &Place) {
        for (at, word) in args.iter().enumerate() {
            for option in options {
                let attached = if option.starts_with("--") { format!("{option}=") } else { (*option).to_owned() };
                if word.text() == *option {
                    self.word_text(args.get(at + 1), place);
                } else if let Some(value) = word.behind(&attached) {
                    self.word_text(Some(&value), place);
                }
            }
        }
    }

    fn find_exec(&mut self, args: &[Word], place: &Place) {
        for (at, word) in args.iter().enumerate() {
            if matches!(word.text(), "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch")
            {
                let rest = args.get(at + 1..).unwrap_or_default();
                let end = rest.iter().position(|word| matches!(word.text(), ";" | "+")).unwrap_or(rest.len());
                let inner =
                    rest.iter().take(end).map(|word| if word.text() == "{}" { Word::open() } else { word.clone() });
                let inner: Vec<Word> = inner.collect();
                self.command(inner, &Place { level: place.level + 1, ..place.clone() });
            }
        }
    }

    /// Commands that git is told to run.
    fn git(&mut self, args: &[Word], place: &Place) {
        self.git_aliases(args);
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
                (Some("foreach"), _) => self.joined(behind_options(args.get(at + 1..).unwrap_or_default(), ""), place),
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

fn behind_options<'a>(args: &'a [Word], valued: &str) -> &'a [Word] {
    let mut at = 0;
    while let Some(word) = args.get(at).filter(|word| word.text().starts_with('-') && word.known().is_some()) {
        at += 1;
        let mut letters = word.text().chars().skip(1);
        if word.text().len() == 2 && letters.next().is_some_and(|letter| valued.contains(letter)) {
            at += 1;
        }
    }
    args.get(at..).unwrap_or_default()
}

/// Whether a word that is evaluated as arithmetic would run what stands in its subscript.
fn is_subscript(word: &Word) -> bool {
    let inside =
        |text: &str| text.split(']').next().is_some_and(|inside| inside.contains("$(") || inside.contains('`'));
    let name = |text: &str| text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    word.text().match_indices('[').any(|(at, _)| {
        let (before, behind) = word.text().split_at(at);
        name(before) && inside(behind)
    })
}

/// The name and value of a word that is an assignment.
fn assignment(word: &Word) -> Option<(&str, &str)> {
    let (name, value) = word.text().split_once('=')?;
    let plain = name.strip_suffix('+').unwrap_or(name);
    let plain = plain.split_once('[').map_or(plain, |(plain, _)| plain);
    let mut chars = plain.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let certain = word.lead().len() > name.len();
    (starts && certain && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some((plain, value))
}

/// What a command prints, if that can be told: the text of `echo`, `printf` and `cat` of a known input.
pub(super) fn printed(words: &[Word], input: &Input) -> Input {
    let Some(name) = words.first().and_then(Word::known).map(base_name) else { return Input::Unknown };
    let args: Option<Vec<&str>> = words.iter().skip(1).map(Word::known).collect();
    let Some(args) = args else { return Input::Unknown };
    match name {
        "echo" => {
            let text = args
                .iter()
                .skip_while(|arg| matches!(**arg, "-n" | "-E" | "-e"))
                .copied()
                .collect::<Vec<_>>()
                .join(" ");
            if text.contains('\\') { Input::Unknown } else { Input::Text(text) }
        }
        "printf" if args.len() == 1 => {
            let text = args.concat().replace("\\n", "\n");
            if text.contains(['\\', '%']) { Input::Unknown } else { Input::Text(text) }
        }
        "printf" if args.len() == 2 && matches!(args.first(), Some(&"%s" | &"%s\\n")) => {
            Input::Text(args.get(1).map(|text| (*text).to_owned()).unwrap_or_default())
        }
        "cat" | "tee" if args.is_empty() || args == ["-"] => input.clone(),
        _ => Input::Unknown,
    }
}
