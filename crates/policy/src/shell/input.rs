//! What commands read, and what is written for others to read.
//!
//! A shell runs only an input that is known for certain. What a program that may start others gets from elsewhere
//! (a pipe, a substitution, a script that the same text wrote) is not followed from place to place: where there
//! is such a program, whatever the text writes anywhere counts as given to it.

use std::collections::HashSet;
use std::path::PathBuf;

use super::named::candidates;
use super::programs::is_foreign;
use super::word::Word;
use super::{Place, Work, base_name, effects};
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

/// Commands that take something, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Takers {
    one: Option<usize>,
    several: bool,
}

impl Takers {
    pub(super) fn add(&mut self, number: usize) {
        self.several |= *self.one.get_or_insert(number) != number;
    }

    /// Whether one of them takes it from this one, which is another.
    fn takes(&self, writer: usize) -> bool {
        self.several || self.one.is_some_and(|one| one != writer)
    }
}

/// Programs that write what their words say.
const WRITERS: [&str; 20] = [
    "awk", "base64", "basename", "column", "date", "dirname", "echo", "expr", "gawk", "jq", "mawk", "numfmt", "paste",
    "pr", "printf", "sed", "seq", "tr", "xxd", "yes",
];

/// Others, with the options that make them write a text of their words.
const FORMATS: &[(&str, &[&str])] = &[
    ("curl", &["-w", "--write-out"]),
    ("docker", &["--format"]),
    ("find", &["-printf", "-fprintf"]),
    ("gfind", &["-printf", "-fprintf"]),
    ("git", &["--format", "--pretty"]),
    ("stat", &["-c", "--format", "--printf"]),
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
        "printf" => {
            let (text, plain) = formatted(args);
            known(text, plain && certain(args))
        }
        "cat" | "tee" if args.is_empty() || args.iter().all(|word| word.text() == "-") => match input {
            Input::Unknown => Input::Piped,
            other => other.clone(),
        },
        _ => Input::Piped,
    }
}

/// What `printf` makes of a format and its values, and whether it is just that.
fn formatted(args: &[Word]) -> (String, bool) {
    let options = match args.first().map(Word::text) {
        Some("--") => 1,
        Some("-v") => 2,
        _ => 0,
    };
    let mut args = args.get(options..).unwrap_or_default().iter().map(Word::written);
    let format = args.next().unwrap_or_default();
    let (mut text, mut plain) = (String::new(), !format.starts_with('-'));
    let mut values = args.peekable();
    loop {
        let before = values.len();
        plain &= once(format, &mut values, &mut text);
        if values.peek().is_none() || values.len() == before {
            return (text, plain);
        }
        if text.len() > super::MAX_COMMAND {
            text.extend(values.flat_map(|value| [" ", value]));
            return (text, false);
        }
    }
}

/// Goes through the format once.
fn once<'a>(format: &str, values: &mut impl Iterator<Item = &'a str>, text: &mut String) -> bool {
    let (mut chars, mut plain) = (format.chars(), true);
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                other => {
                    plain = false;
                    text.extend(std::iter::once(c).chain(other));
                }
            },
            '%' => {
                // Widths and other conversions change the value.
                plain &= chars.as_str().starts_with(['s', '%']);
                match chars.find(|c| !c.is_ascii_digit() && !"-+ #0.*'".contains(*c)) {
                    Some('%') => text.push('%'),
                    _ => text.push_str(values.next().unwrap_or_default()),
                }
            }
            c => text.push(c),
        }
    }
    plain
}

impl Work<'_> {
    /// Takes note of what a command writes, and of the files that it makes.
    pub(super) fn writes(&mut self, words: &[Word], input: &Input) {
        if self.possible {
            return;
        }
        let name = words.first().and_then(Word::known).map(base_name).unwrap_or_default();
        let (args, number) = (words.get(1..).unwrap_or_default(), self.number);
        let text = |words: &[&Word]| words.iter().map(|word| word.written()).collect::<Vec<_>>().join(" ");
        let all: Vec<&Word> = args.iter().collect();
        if WRITERS.contains(&name) {
            self.written.push((number, text(&all)));
        }
        if name == "printf" {
            self.written.push((number, formatted(args).0));
        }
        let options = FORMATS.iter().find(|(program, _)| *program == name).map_or(&[][..], |(_, options)| options);
        let is_format = |word: &&Word| options.iter().any(|option| word.lead().starts_with(option));
        let formats = args.iter().enumerate().filter(|(_, word)| is_format(word));
        let texts =
            formats.map(|(at, word)| text(&[Some(word), args.get(at + 1)].into_iter().flatten().collect::<Vec<_>>()));
        self.written.extend(texts.map(|text| (number, text)));
        self.written.extend(input.written().map(|text| (number, text.to_owned())));
        let mut plain = false;
        for word in args {
            if plain || word.lead().contains('/') {
                self.makes(word);
            }
            plain |= word.text() == "--";
        }
    }

    /// Takes note of the name of a file that may be made.
    pub(super) fn makes(&mut self, word: &Word) {
        let name = base_name(word.written());
        if name.starts_with('-') && !self.possible {
            self.dashed.push(name.to_owned());
        }
    }

    /// Takes note of words and an input of a program that may run what it is given.
    pub(super) fn takes(&mut self, args: &[Word], place: &Place) {
        let substitutes = |word: &Word| word.text().contains("$(") || word.text().contains('`');
        let expands = |word: &Word| word.text().contains('$');
        let computed = args.iter().filter(|word| word.known().is_none());
        self.takes_names |= place.input == Input::Piped;
        let file = if let Input::File(word) = &place.input { Some(word.clone()) } else { None };
        if place.input == Input::Piped || computed.clone().any(substitutes) {
            self.takes_written.add(self.number);
        }
        if computed.clone().any(expands) {
            self.takes_values.add(self.number);
        }
        self.takes_names |= computed.clone().any(|word| word.splits() && !word.is_operand());
        let words = args.iter().flat_map(|word| candidates(word, false)).chain(file);
        for given in words.filter_map(|word| word.path(self.home)) {
            if self.taken.len() > super::MAX_COMMANDS {
                // Too many to tell them apart.
                return self.given_later();
            }
            self.taken.extend(place.bases.iter().map(|base| crate::lexical(&effects::absolute(base, &given))));
        }
    }

    /// Takes note that something which is written is kept for a command that is not known.
    pub(super) fn given_later(&mut self) {
        self.takes_written = Takers { one: Some(self.number), several: true };
    }

    /// What the text writes that something in it may run. What a command writes itself it is not given.
    pub(super) fn written_for_others(&mut self) -> Vec<String> {
        let paths = &self.analysis.paths;
        let all = |operation| {
            let of = paths.iter().filter(move |effect| effect.operation == operation);
            of.map(|effect| crate::lexical(&effect.path))
        };
        let runs_own_file = || {
            let run: HashSet<PathBuf> = all(Operation::Execute).collect();
            // What is run may be all that a directory holds.
            all(Operation::Write)
                .any(|file| self.taken.contains(&file) || file.ancestors().any(|path| run.contains(path)))
        };
        let all = !self.written.is_empty() && runs_own_file();
        let by_values = self.substitutes;
        let taken =
            |writer: usize| all || self.takes_written.takes(writer) || (by_values && self.takes_values.takes(writer));
        let texts = self.written.iter().filter(|(writer, _)| taken(*writer));
        texts.map(|(_, text)| text.clone()).collect()
    }
}
