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
    /// Options whose value is a script as well.
    loads: &'static [&'static str],
    /// Whether the first operand is a script.
    operand: bool,
}

const PLAIN: Interpreter =
    Interpreter { name: "", valued: "", code: "", flags: "", attached: "", long: &[], loads: &[], operand: true };
const AWK: Interpreter = Interpreter {
    valued: "fFvEilm",
    long: &["--file", "--exec", "--assign", "--field-separator", "--include", "--load"],
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
        flags: "bBdeiknpqrRsStwh",
        attached: "jl",
        long: &["--file", "--makefile", "--directory", "--include-dir"],
        loads: &["-f", "--file", "--makefile"],
        operand: false,
        ..PLAIN
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
    if options.unsure_from.is_some() || !options.scripts.is_empty() {
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

/// Whether a `sed` is given code that can start nothing.
pub(super) fn sed_runs_nothing(args: &[Word]) -> bool {
    let Some(interpreter) = INTERPRETERS.iter().find(|one| one.name == "sed") else { return false };
    // Options may stand behind the operands, and with `-e` there the first of them is no code.
    let unsure = |word: &Word| short_has(word, &['e', 'f']) || word.text().starts_with("--") || word.splits();
    let behind = args.iter().skip(options(interpreter, args).at);
    let hidden = behind.filter(|word| !word.is_operand()).any(unsure);
    !hidden && whole_code("sed", args).is_some_and(|code| sed::is_plain(&code.join("\n")))
}

fn options(interpreter: &Interpreter, args: &[Word]) -> Options {
    let mut found = Options { at: 0, unsure_from: None, has_code: false, scripts: Vec::new(), code: Vec::new() };
    while let Some(word) = args.get(found.at).filter(|word| word.lead().starts_with('-') && word.text() != "-") {
        found.at += 1;
        if word.text() == "--" {
            break;
        }
        let known = if word.text().starts_with("--") {
            long_option(interpreter, word, args, &mut found)
        } else {
            short_letters(interpreter, word, args, &mut found)
        };
        if !known {
            found.unsure_from.get_or_insert(found.at);
        }
    }
    found
}

fn long_option(interpreter: &Interpreter, word: &Word, args: &[Word], found: &mut Options) -> bool {
    let attached = word.lead().split_once('=').map(|(name, _)| name);
    let name = attached.unwrap_or(word.text());
    let valued = interpreter.long.contains(&name);
    let value = match attached {
        Some(name) => word.behind(&format!("{name}=")),
        None if valued => args.get(found.at).cloned(),
        None => None,
    };
    let at = found.at;
    found.at += usize::from(valued && attached.is_none());
    if matches!(name, "--eval" | "--print" | "--run" | "--expression") {
        found.has_code = true;
        found.code.extend([at - 1, at]);
    }
    found.scripts.extend(value.filter(|_| interpreter.loads.contains(&name)));
    valued || attached.is_some()
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
