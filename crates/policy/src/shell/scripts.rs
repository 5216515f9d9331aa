//! Interpreters: the script that one is given is executed, though its words call it an operand.
//!
//! Where an option is not known every later operand may be the script. What a script does, and what the
//! code in an argument does, is not seen here.

mod sed;

use super::evaluated::short_has;
use super::subcommands::unversioned;
use super::word::Word;
use super::{Input, Place, Work, effects};
use crate::Operation::{Execute, Read};

struct Interpreter {
    name: &'static str,
    /// Letters of options with a value.
    valued: &'static str,
    /// Letters of options whose value is code, or a module: then no operand is a script.
    code: &'static str,
    /// Letters of options without a value.
    flags: &'static str,
    /// Letters of options whose value, if any, stands in the same word.
    attached: &'static str,
    /// Long options with a value of their own word.
    long: &'static [&'static str],
    /// Long options without one, or whose value stands in the same word.
    plain: &'static [&'static str],
    /// Options whose value is a script as well.
    loads: &'static [&'static str],
    /// Whether the first operand is a script.
    operand: bool,
}

const PLAIN: Interpreter = Interpreter {
    name: "",
    valued: "",
    code: "",
    flags: "",
    attached: "",
    long: &[],
    plain: &[],
    loads: &[],
    operand: true,
};
const AWK: Interpreter = Interpreter {
    valued: "fFvEilm",
    long: &["--file", "--exec", "--assign", "--field-separator", "--include", "--load", "--source"],
    plain: &["--bignum", "--csv", "--lint", "--posix", "--re-interval", "--sandbox", "--traditional", "--version"],
    loads: &["-f", "--file", "-E", "--exec", "-i", "--include", "-l", "--load"],
    operand: false,
    ..PLAIN
};

const INTERPRETERS: &[Interpreter] = &[
    Interpreter { name: "awk", ..AWK },
    Interpreter { name: "bun", ..PLAIN },
    Interpreter { name: "deno", ..PLAIN },
    Interpreter { name: "expect", valued: "f", code: "c", flags: "diNnv", loads: &["-f"], ..PLAIN },
    Interpreter { name: "gawk", ..AWK },
    Interpreter {
        name: "julia",
        valued: "LJCptH",
        code: "eE",
        flags: "iqhvO",
        long: &["--load", "--eval", "--print", "--sysimage", "--threads"],
        loads: &["-L", "--load"],
        ..PLAIN
    },
    Interpreter { name: "lua", valued: "l", code: "e", flags: "iEWv", ..PLAIN },
    Interpreter { name: "luajit", valued: "lO", code: "e", flags: "iEv", attached: "jb", ..PLAIN },
    Interpreter {
        name: "make",
        valued: "CfIoW",
        code: "E",
        flags: "bBdeiknpqrRsStwh",
        attached: "jl",
        long: &["--file", "--makefile", "--directory", "--include-dir", "--eval"],
        plain: &[
            "--always-make",
            "--dry-run",
            "--ignore-errors",
            "--jobs",
            "--keep-going",
            "--no-print-directory",
            "--quiet",
            "--silent",
        ],
        loads: &["-f", "--file", "--makefile"],
        operand: false,
    },
    Interpreter { name: "mawk", ..AWK },
    Interpreter { name: "nawk", ..AWK },
    Interpreter {
        name: "node",
        valued: "rC",
        code: "ep",
        flags: "ichv",
        long: &["--require", "--import", "--loader", "--experimental-loader", "--conditions", "--eval", "--print"],
        loads: &["-r", "--require", "--import", "--loader", "--experimental-loader"],
        ..PLAIN
    },
    Interpreter { name: "nodejs", valued: "rC", code: "ep", flags: "ichv", loads: &["-r", "--require"], ..PLAIN },
    Interpreter { name: "osascript", valued: "ls", code: "e", flags: "i", ..PLAIN },
    Interpreter { name: "perl", valued: "I", code: "eE", flags: "acfghlnpsStTuUvwWX", attached: "MmCDxFiVd", ..PLAIN },
    Interpreter {
        name: "php",
        valued: "cdfFzSt",
        code: "rBRE",
        flags: "aCehilmnqsvw",
        long: &[
            "--php-ini",
            "--define",
            "--file",
            "--process-file",
            "--run",
            "--server",
            "--docroot",
            "--zend-extension",
        ],
        loads: &["-f", "--file", "-F", "--process-file"],
        ..PLAIN
    },
    Interpreter { name: "pypy", valued: "WX", code: "cm", flags: "bBdEhiIOqsSuvVx", ..PLAIN },
    Interpreter {
        name: "python",
        valued: "WX",
        code: "cm",
        flags: "bBdEhiIOPqsSuvVx",
        long: &["--check-hash-based-pycs"],
        ..PLAIN
    },
    Interpreter { name: "Rscript", code: "e", ..PLAIN },
    Interpreter {
        name: "ruby",
        valued: "rICE",
        code: "e",
        flags: "acdhlnpsSUvwy",
        attached: "FKTWxi",
        long: &["--encoding", "--external-encoding", "--internal-encoding"],
        loads: &["-r"],
        ..PLAIN
    },
    Interpreter {
        name: "sed",
        valued: "fl",
        code: "e",
        flags: "nErsuz",
        attached: "i",
        long: &["--file", "--expression", "--line-length"],
        plain: &[
            "--debug",
            "--follow-symlinks",
            "--in-place",
            "--null-data",
            "--posix",
            "--quiet",
            "--regexp-extended",
            "--sandbox",
            "--separate",
            "--silent",
            "--unbuffered",
            "--version",
            "--zero-terminated",
        ],
        loads: &["-f", "--file"],
        operand: false,
    },
    Interpreter { name: "tclsh", valued: "", ..PLAIN },
    Interpreter { name: "ts-node", ..PLAIN },
    Interpreter { name: "tsx", ..PLAIN },
];

/// Interpreters of `awk`.
pub(super) const AWKS: [&str; 5] = ["awk", "gawk", "mawk", "nawk", "original-awk"];
/// Interpreters, shells of another kind and programs with a language of their own: all that they are given is code.
const LANGUAGES: &[&str] = &[
    "R", "bun", "clojure", "csh", "deno", "ed", "elixir", "elvish", "emacs", "erl", "ex", "fish", "gdb", "ghci",
    "gnuplot", "groovy", "guile", "ipython", "irb", "ksh", "lksh", "lldb", "m4", "mksh", "mysql", "nu", "nvim",
    "octave", "posh", "psql", "pwsh", "racket", "sbcl", "scala", "sqlite3", "tclsh", "tcsh", "vi", "view", "vim",
    "vimdiff", "xonsh", "yash", "zsh",
];

/// Long options whose value is code.
const LONG_CODE: [&str; 5] = ["--eval", "--expression", "--print", "--run", "--source"];

/// What the options of a command line came to.
struct Options {
    /// Where the operands begin.
    at: usize,
    /// Where they begin at the earliest, if an option is not known.
    unsure_from: Option<usize>,
    has_code: bool,
    scripts: Vec<Word>,
    /// Which words are code.
    code: Vec<usize>,
}

impl Work<'_> {
    /// Notes that a shell or an interpreter runs this file.
    pub(super) fn script(&mut self, word: &Word, place: &Place) {
        // Which file it is nobody knows; it may be one that the text writes.
        if word.known().is_none() && !self.possible {
            self.takes_written.add(self.number);
        }
        self.path(Execute, word, place);
        self.path(Read, word, place);
    }

    /// Notes that it runs its input, if that is a file.
    pub(super) fn input_file(&mut self, place: &Place) {
        if let Input::File(word) = &place.input {
            self.path(Execute, word, place);
        }
    }

    /// Notes the scripts that an interpreter is given.
    pub(super) fn interpreted(&mut self, name: &str, args: &[Word], place: &Place) {
        let plain = unversioned(name);
        let Some(interpreter) = INTERPRETERS.iter().find(|one| one.name == plain) else { return };
        let options = options(interpreter, args);
        options.scripts.iter().for_each(|word| self.script(word, place));
        if !interpreter.operand || (options.has_code && options.unsure_from.is_none()) {
            return;
        }
        if let Some(from) = options.unsure_from {
            for word in args.iter().skip(from).filter(|word| !word.lead().starts_with('-')) {
                self.script(word, place);
            }
        }
        match args.get(options.at) {
            Some(word) if !word.known().is_some_and(|text| text == "-" || effects::is_descriptor(text)) => {
                self.script(word, place);
            }
            _ => self.input_file(place),
        }
    }
}

/// Which words of a command are code in another language, and whether its input is.
pub(super) fn code(name: &str, args: &[Word]) -> (Vec<usize>, bool) {
    if LANGUAGES.contains(&name) {
        return ((0..args.len()).collect(), true);
    }
    let plain = unversioned(name);
    let Some(interpreter) = INTERPRETERS.iter().find(|one| one.name == plain) else { return (Vec::new(), false) };
    let mut options = options(interpreter, args);
    if options.unsure_from.is_some() {
        return ((0..args.len()).collect(), true);
    }
    if !interpreter.operand && !options.has_code && options.scripts.is_empty() {
        options.code.push(options.at);
    }
    (options.code, true)
}

/// The code of an interpreter whose options are all known and that loads none.
fn whole_code<'a>(name: &str, args: &'a [Word]) -> Option<Vec<&'a str>> {
    let interpreter = INTERPRETERS.iter().find(|one| one.name == name)?;
    let options = options(interpreter, args);
    // Where `<(…)` is an option's value there is no word.
    if options.unsure_from.is_some() || !options.scripts.is_empty() || options.at > args.len() {
        return None;
    }
    let (at, _) = code(name, args);
    at.into_iter().filter_map(|at| args.get(at)).map(Word::known).collect()
}

/// Whether an `awk` is given code that can start nothing.
pub(super) fn awk_runs_nothing(args: &[Word]) -> bool {
    whole_code("awk", args)
        .is_some_and(|code| code.iter().all(|text| !text.contains("system") && !text.contains(['|', '@'])))
}

/// From which argument on a `sed` may run what it is given.
pub(super) fn sed_may_run_from(args: &[Word]) -> Option<usize> {
    let Some(interpreter) = INTERPRETERS.iter().find(|one| one.name == "sed") else { return Some(0) };
    let at = options(interpreter, args).at;
    // Options may stand behind the operands, and with `-e` there the first of them is no code.
    let unsure = |word: &Word| short_has(word, &['e', 'f']) || word.text().starts_with("--");
    let behind = || args.iter().enumerate().skip(at);
    let hidden = behind().any(|(_, word)| word.known().is_some() && !word.is_operand() && unsure(word));
    if hidden || !whole_code("sed", args).is_some_and(|code| sed::is_plain(&code.join("\n"))) {
        return Some(0);
    }
    let ended = at.checked_sub(1).and_then(|before| args.get(before)).is_some_and(|word| word.text() == "--");
    // A script in the words that may only now turn out to be options stands in them, or behind.
    let open = |word: &Word| word.known().is_none() && word.may_be_option();
    behind().find(|(_, word)| !ended && open(word)).map(|(at, _)| at)
}

fn options(interpreter: &Interpreter, args: &[Word]) -> Options {
    let mut found = Options { at: 0, unsure_from: None, has_code: false, scripts: Vec::new(), code: Vec::new() };
    while let Some(word) = args.get(found.at).filter(|word| word.lead().starts_with('-') && word.text() != "-") {
        let from = found.at;
        found.at += 1;
        if word.text() == "--" {
            break;
        }
        let known = if word.text().starts_with("--") {
            long_option(interpreter, word, args, &mut found)
        } else {
            short_letters(interpreter, word, args, &mut found)
        };
        // What the shell takes apart may bring an option along.
        let mut taken = args.iter().take(found.at).skip(from);
        if !known || taken.any(|word| word.splits() && !word.is_pattern()) {
            found.unsure_from.get_or_insert(found.at);
        }
    }
    found
}

/// Takes note of a long option. Those of the kind that may be cut short are: of what such a one could mean, all holds.
fn long_option(interpreter: &Interpreter, word: &Word, args: &[Word], found: &mut Options) -> bool {
    let attached = word.lead().split_once('=').map(|(name, _)| name);
    let name = attached.unwrap_or(word.text());
    let begins = |option: &&&str| name.len() > 2 && option.starts_with(name);
    let exact = interpreter.long.contains(&name);
    let is_plain = !exact && interpreter.plain.iter().any(|option| begins(&option));
    let meant: Vec<&str> = match exact {
        true => vec![name],
        false => interpreter.long.iter().filter(begins).copied().collect(),
    };
    let value = match attached {
        Some(name) => word.behind(&format!("{name}=")),
        None if !meant.is_empty() => args.get(found.at).cloned(),
        None => None,
    };
    let at = found.at;
    found.at += usize::from(!meant.is_empty() && attached.is_none());
    if meant.iter().any(|name| LONG_CODE.contains(name)) {
        found.has_code = true;
        found.code.extend([at - 1, at]);
    }
    found.scripts.extend(value.filter(|_| meant.iter().any(|name| interpreter.loads.contains(name))));
    // What else has a value may take code; where an operand is the script, that is told apart from it.
    let guessed = attached.is_some() && interpreter.operand && meant.is_empty() && !is_plain;
    found.code.extend(guessed.then_some(at - 1));
    exact || guessed || (is_plain && meant.is_empty())
}

fn short_letters(interpreter: &Interpreter, word: &Word, args: &[Word], found: &mut Options) -> bool {
    let mut prefix = String::from("-");
    for letter in word.text().chars().skip(1) {
        prefix.push(letter);
        let is_code = interpreter.code.contains(letter);
        if is_code || interpreter.valued.contains(letter) {
            found.has_code |= is_code;
            let own = word.text() == prefix;
            found.code.extend(is_code.then_some(found.at - usize::from(!own)));
            let value = if own {
                found.at += 1;
                args.get(found.at - 1).cloned()
            } else {
                word.behind(&prefix)
            };
            let loads =
                interpreter.loads.iter().any(|option| option.strip_prefix('-') == Some(letter.to_string().as_str()));
            found.scripts.extend(value.filter(|_| loads));
            return true;
        }
        if interpreter.attached.contains(letter) {
            return true;
        }
        if !interpreter.flags.contains(letter) && !letter.is_ascii_digit() {
            return false;
        }
    }
    true
}
