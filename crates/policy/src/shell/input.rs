//! What commands read, and what is written for others to read.
//!
//! A shell runs only an input that is known for certain. What a program that may start others gets from elsewhere
//! (a pipe, a substitution, a script that the same text wrote) is not followed from place to place: where there
//! is such a program, whatever the text writes anywhere counts as given to it.

use std::collections::HashSet;
use std::path::PathBuf;

use super::programs::is_foreign;
use super::word::Word;
use super::{Work, base_name};
use crate::Operation;

/// What a command reads as its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    Unknown,
    /// What another command writes.
    Piped,
    /// This text, in which something only the shell will know.
    Written(String),
    Text(String),
    /// This file.
    File(Word),
}

/// Programs that write what their words say.
const WRITERS: [&str; 20] = [
    "awk", "base64", "basename", "column", "date", "dirname", "echo", "expr", "gawk", "jq", "mawk", "numfmt", "paste",
    "pr", "printf", "sed", "seq", "tr", "xxd", "yes",
];

impl Input {
    /// The text, as far as it is known.
    pub(super) fn written(&self) -> Option<&str> {
        match self {
            Self::Written(text) | Self::Text(text) => Some(text),
            Self::Unknown | Self::Piped | Self::File(_) => None,
        }
    }
}

/// What a command prints into a pipe, if that can be told: the text of `echo`, `printf` and `cat` of a known input.
pub(super) fn printed(words: &[Word], input: &Input) -> Input {
    let Some(program) = words.first().and_then(Word::known).filter(|name| !is_foreign(name)) else {
        return Input::Piped;
    };
    let args = words.get(1..).unwrap_or_default();
    let written = |args: &[Word]| args.iter().map(Word::written).collect::<Vec<_>>().join(" ");
    let certain = |args: &[Word]| args.iter().all(|word| word.known().is_some());
    let known = |text: String, certain: bool| if certain { Input::Text(text) } else { Input::Written(text) };
    match base_name(program) {
        "echo" => {
            let option = |word: &Word| {
                let letters = word.known().and_then(|text| text.strip_prefix('-'));
                letters.is_some_and(|letters| !letters.is_empty() && !letters.contains(|c| !"neE".contains(c)))
            };
            let options = args.iter().take_while(|word| option(word)).count();
            let args = args.get(options..).unwrap_or_default();
            let text = written(args);
            let plain = certain(args) && !text.contains('\\');
            known(text, plain)
        }
        "printf" => match args {
            [text] => {
                let plain = text.written().replace("\\n", "\n").replace("\\t", "\t");
                let is_certain = certain(args) && !plain.contains(['\\', '%']);
                known(plain, is_certain)
            }
            [format, text] if matches!(format.known(), Some("%s" | "%s\\n")) => {
                known(text.written().to_owned(), text.known().is_some())
            }
            _ => Input::Written(written(args)),
        },
        "cat" | "tee" if args.is_empty() || args.iter().all(|word| word.text() == "-") => match input {
            Input::Unknown => Input::Piped,
            other => other.clone(),
        },
        _ => Input::Piped,
    }
}

impl Work<'_> {
    /// Takes note of what a command writes.
    pub(super) fn writes(&mut self, words: &[Word], input: &Input) {
        if self.possible {
            return;
        }
        let name = words.first().and_then(Word::known).map(base_name).unwrap_or_default();
        if WRITERS.contains(&name) {
            self.written.push(words.iter().skip(1).map(Word::written).collect::<Vec<_>>().join(" "));
        }
        self.written.extend(input.written().map(str::to_owned));
    }

    /// Takes note of words and an input of a program that may run what it is given.
    pub(super) fn takes(&mut self, args: &[Word], input: &Input) {
        let substitutes = |word: &Word| word.text().contains("$(") || word.text().contains('`');
        let expands = |word: &Word| word.text().contains('$');
        let computed = args.iter().filter(|word| word.known().is_none());
        self.takes_written |= *input == Input::Piped || computed.clone().any(substitutes);
        self.takes_values |= computed.clone().any(expands);
    }

    /// Whether something may run what the text writes.
    pub(super) fn runs_what_it_writes(&self) -> bool {
        let paths = &self.analysis.paths;
        let all = |operation| {
            let of = paths.iter().filter(move |effect| effect.operation == operation);
            of.map(|effect| crate::lexical(&effect.path))
        };
        let runs_own_file = || {
            let written: HashSet<PathBuf> = all(Operation::Write).collect();
            all(Operation::Execute).any(|script| written.contains(&script))
        };
        !self.written.is_empty() && (self.takes_written || (self.takes_values && self.substitutes) || runs_own_file())
    }
}
