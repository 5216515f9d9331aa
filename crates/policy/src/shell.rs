//! What a command text would run, as far as a text can say.
//!
//! The text is cut into tokens by a shell's own rules, and every run of words between two operators counts
//! as a command, whatever construct it stands in: that finds too much rather than too little, holds for
//! `bash` and plain `sh` alike, and takes linear time. What is found inside (substitutions, `sh -c`, what
//! `sudo` or `find -exec` start) waits in a queue, so nothing here recurses. Whatever is not understood makes
//! the whole unclear, and unclear is blocked wherever a rule about commands is enabled.
//!
//! It does not run, expand or remember anything: the value of a variable, what a program prints, and code
//! in other languages stay unknown.

mod effects;
mod evaluated;
mod expand;
mod harmless;
mod input;
mod named;
mod programs;
mod scan;
mod scripts;
mod segments;
mod shells;
mod subcommands;
mod suspects;
mod variables;
mod word;
mod wrappers;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::Operation;

use input::{Input, Takers};

pub(crate) use expand::{MAX_ENTRIES, expand};
pub(crate) use suspects::{Suspect, pieces};
pub(crate) use word::Word;

/// The longest text that is looked into, in bytes.
pub const MAX_COMMAND: usize = 64 * 1024;
/// How deep texts may stand in texts.
const MAX_LEVEL: usize = 32;
/// Commands of one text.
const MAX_COMMANDS: usize = 4096;
/// File name patterns of one text.
const MAX_PATTERNS: usize = 64;
/// Bytes of all texts within the text.
const MAX_BYTES: usize = 1024 * 1024;
/// What may be looked at: the bytes of every command as often as it is looked at, and so much for each of its words.
const MAX_WORK: usize = 4 * 1024 * 1024;
const WORK_OF_WORD: usize = 32;
/// Directories that relative paths may be relative to.
const MAX_BASES: usize = 32;
/// Directories in which a text has programs looked for.
const MAX_SEARCHED: usize = 32;

const TOO_LONG: &str = "it is longer than 64 KiB";
const TOO_MUCH: &str = "too much is nested in it";

/// One simple command: a program and its words, quotes removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simple {
    words: Vec<Word>,
    text: String,
    based: Option<String>,
    possible: bool,
}

impl Simple {
    fn new(words: Vec<Word>, possible: bool) -> Self {
        let text = words.iter().map(Word::text).collect::<Vec<_>>().join(" ");
        let mut simple = Self { words, text, based: None, possible };
        if let (Some(base), Some(first)) = (simple.base_name(), simple.words.first())
            && base != first.text()
        {
            let rest = simple.text.get(first.text().len()..).unwrap_or_default();
            simple.based = Some(format!("{base}{rest}"));
        }
        simple
    }

    pub(crate) fn words(&self) -> &[Word] {
        &self.words
    }

    /// Whether it stands in a text that some program may run.
    pub(crate) fn is_possible(&self) -> bool {
        self.possible
    }

    /// The words with a space between them; a word that is not known stands as it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same with the program's base name, where that is shorter.
    pub(crate) fn based(&self) -> Option<&str> {
        self.based.as_deref()
    }

    /// The last component of the program's name.
    pub(crate) fn base_name(&self) -> Option<&str> {
        self.words.first().and_then(Word::known).map(base_name)
    }
}

/// Whether a file can be run. Nothing when it is none.
fn is_program(path: &Path) -> Option<bool> {
    let found = rustix::fs::stat(path).ok()?;
    let is_file = rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::RegularFile;
    is_file.then_some(found.st_mode & 0o111 != 0)
}

/// The last component of a program's name.
fn base_name(program: &str) -> &str {
    let plain = program.trim_end_matches('/');
    plain.rsplit('/').next().unwrap_or(plain)
}

/// A path that a redirection or a well-known command names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathEffect {
    /// What is done to it.
    pub operation: Operation,
    /// The absolute path as the command gives it: a `..` in it stands behind what the links before it lead to.
    pub path: PathBuf,
}

/// What a command text, or an argument list, would run and touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    raw: String,
    commands: Vec<Simple>,
    suspects: Vec<Suspect>,
    paths: Vec<PathEffect>,
    patterns: Vec<PathPattern>,
    /// The directories that what names them may run in.
    directories: Vec<PathBuf>,
    /// Where it has programs looked for besides.
    search: Vec<PathBuf>,
    /// The directories that commands may start in.
    starts: Vec<PathBuf>,
    /// Whether more paths are named than are noted here.
    too_many_paths: bool,
    unclear: Option<&'static str>,
}

/// A file name pattern that a redirection or a well-known command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathPattern {
    /// What is done to the files.
    pub(crate) operation: Operation,
    /// The directory that it is relative to.
    pub(crate) base: PathBuf,
    /// The pattern, in which quoted characters are escaped.
    pub(crate) pattern: String,
}

impl Analysis {
    /// Looks into a text for a shell that starts in `cwd`. `home` is what `~` is taken for.
    #[must_use]
    pub fn of_text(text: &str, cwd: &Path, home: &Path) -> Self {
        let mut work = Work::new(text.to_owned(), home);
        work.text(text, &Place::at(cwd));
        work.finish()
    }

    /// Looks at a program with its arguments, program first, that starts in `cwd`.
    #[must_use]
    pub fn of_argv<S: AsRef<str>>(argv: &[S], cwd: &Path, home: &Path) -> Self {
        let words: Vec<Word> = argv.iter().map(|arg| Word::literal(arg.as_ref())).collect();
        let raw = argv.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" ");
        let mut work = Work::new(raw, home);
        if work.analysis.raw.len() > MAX_COMMAND {
            work.unclear(TOO_LONG);
        } else {
            work.command(words, &Place { certain: true, ..Place::at(cwd) });
        }
        work.finish()
    }

    /// The words of a text that is one command and nothing else.
    pub(crate) fn only_words(text: &str) -> Option<Vec<String>> {
        let nowhere = Path::new("/");
        let analysis = Self::of_text(text, nowhere, nowhere);
        // What it runs in turn is shorter.
        match (analysis.unclear, analysis.commands.iter().max_by_key(|simple| simple.text.len())) {
            (None, Some(simple)) if !analysis.raw.contains(['|', ';', '&', '\n', '(']) => {
                simple.words.iter().map(|word| word.known().map(str::to_owned)).collect()
            }
            _ => None,
        }
    }

    /// The text as it was given.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Every simple command that was found, those behind other programs too.
    #[must_use]
    pub fn commands(&self) -> &[Simple] {
        &self.commands
    }

    /// The programs that it runs and names without a directory, each once.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        let named = self.commands.iter().filter(|simple| !simple.possible);
        let named = named.filter_map(|simple| simple.words.first()?.known());
        named.filter(move |name| !name.is_empty() && !name.contains('/') && seen.insert(*name))
    }

    /// Every file that a program of this name may be, where a shell looks for it in these directories first: the text
    /// may change where programs are looked for. A shell goes by what is no program.
    pub(crate) fn found_as(&self, name: &str, search: &[PathBuf]) -> Vec<PathBuf> {
        let files = |directory: &PathBuf| -> Vec<(PathBuf, bool)> {
            // Only what is relative depends on where the command starts.
            let starts = if directory.is_absolute() { &[PathBuf::from("/")][..] } else { &self.starts };
            let all = starts.iter().map(|start| start.join(directory).join(name));
            all.filter_map(|path| is_program(&path).map(|runs| (path, runs))).collect()
        };
        let mut found = Vec::new();
        for (path, runs) in search.iter().flat_map(files) {
            found.push(path);
            if runs {
                break;
            }
        }
        found.extend(self.search.iter().flat_map(files).map(|(path, _)| path));
        found
    }

    /// What programs are given that may run it.
    pub(crate) fn suspects(&self) -> &[Suspect] {
        &self.suspects
    }

    /// Every path that was found.
    #[must_use]
    pub fn paths(&self) -> &[PathEffect] {
        &self.paths
    }

    /// Every file name pattern that stands where a path could.
    pub(crate) fn patterns(&self) -> &[PathPattern] {
        &self.patterns
    }

    /// The directories in which the commands may run that name them.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Whether more paths are named than [`Self::paths`] and [`Self::patterns`] hold.
    pub(crate) fn has_too_many_paths(&self) -> bool {
        self.too_many_paths
    }

    /// Why the text is not understood, if it is not.
    #[must_use]
    pub fn unclear(&self) -> Option<&'static str> {
        self.unclear
    }
}

/// Where a command stands.
#[derive(Debug, Clone)]
struct Place {
    /// The directories that it may start in. None when that cannot be known.
    bases: Vec<PathBuf>,
    level: usize,
    /// Whether it is a command for certain: a program's name that is not known matters only then.
    certain: bool,
    /// Whether nobody knows that it is a command at all: nothing is held against what is not understood then.
    possible: bool,
    /// What its input is, if that is a known text.
    input: Input,
}

impl Place {
    fn at(cwd: &Path) -> Self {
        Self { bases: vec![crate::lexical(cwd)], level: 0, certain: true, possible: false, input: Input::Unknown }
    }
}

struct Work<'a> {
    analysis: Analysis,
    home: &'a Path,
    queue: Vec<(String, Place)>,
    bytes: usize,
    /// What of `MAX_WORK` is left.
    work: usize,
    /// Looks at the file system that are left.
    looks: usize,
    /// The paths that are noted.
    seen: HashSet<PathEffect>,
    /// Whether it speaks of extended patterns, so that `!(…)` may be one.
    extended: bool,
    /// Whether what is looked at is only perhaps a command.
    possible: bool,
    /// The variables that are evaluated as arithmetic.
    names: HashSet<String>,
    /// The variables that were given something else than a number.
    open_values: HashSet<String>,
    /// What commands write, each with the number of the one that does.
    written: Vec<(usize, String)>,
    /// The number of the command at hand.
    number: usize,
    /// The files that programs are handed that may start others.
    taken: HashSet<PathBuf>,
    /// Names that are given to files and could be taken for options.
    dashed: Vec<String>,
    /// Whether a program that may start others is given the names of files, whatever they are.
    takes_names: bool,
    /// The programs that may start others and take what others write.
    takes_written: Takers,
    /// Those that take the value of a variable.
    takes_values: Takers,
    /// Whether variables are given what is written: by a substitution, or by a builtin that reads.
    substitutes: bool,
    /// Whether git may be told by an address what to start, and whether one is computed.
    addresses: (bool, bool),
    /// Directories that were left.
    left: Vec<PathBuf>,
}

impl<'a> Work<'a> {
    fn new(raw: String, home: &'a Path) -> Self {
        let extended = raw.contains("extglob");
        let analysis = Analysis {
            raw,
            commands: Vec::new(),
            suspects: Vec::new(),
            paths: Vec::new(),
            patterns: Vec::new(),
            directories: Vec::new(),
            search: Vec::new(),
            starts: Vec::new(),
            too_many_paths: false,
            unclear: None,
        };
        Self {
            analysis,
            home,
            queue: Vec::new(),
            bytes: 0,
            work: MAX_WORK,
            looks: named::MAX_LOOKS,
            seen: HashSet::new(),
            extended,
            possible: false,
            names: HashSet::new(),
            open_values: HashSet::new(),
            written: Vec::new(),
            number: 0,
            taken: HashSet::new(),
            dashed: Vec::new(),
            takes_names: false,
            takes_written: Takers::default(),
            takes_values: Takers::default(),
            substitutes: false,
            addresses: (false, false),
            left: Vec::new(),
        }
    }

    fn unclear(&mut self, why: &'static str) {
        if !self.possible {
            self.analysis.unclear.get_or_insert(why);
        }
    }

    /// Whether so many words may still be looked at. If not, the whole is unclear, wherever they stand: what
    /// else there is was not looked at.
    fn spend<'w>(&mut self, words: impl IntoIterator<Item = &'w Word>) -> bool {
        let cost: usize = words.into_iter().map(|word| word.text().len() + WORK_OF_WORD).sum();
        self.work = self.work.saturating_sub(cost);
        if self.work == 0 {
            self.analysis.unclear.get_or_insert(TOO_MUCH);
        }
        self.work > 0
    }

    /// Puts a text in the queue.
    fn text(&mut self, text: &str, place: &Place) {
        self.bytes = self.bytes.saturating_add(text.len());
        let too_long = text.len() > MAX_COMMAND;
        if too_long || place.level > MAX_LEVEL || self.bytes > MAX_BYTES {
            if !place.possible {
                self.unclear(if too_long { TOO_LONG } else { TOO_MUCH });
            }
        } else {
            self.queue.push((text.to_owned(), Place { certain: true, input: Input::Unknown, ..place.clone() }));
        }
    }

    /// Puts texts in the queue that stand inside what `place` is.
    fn inner_texts(&mut self, texts: Vec<String>, place: &Place) {
        for text in texts {
            self.text(&text, &Place { level: place.level + 1, ..place.clone() });
        }
    }

    fn path(&mut self, operation: Operation, word: &Word, place: &Place) {
        if self.possible {
            return;
        }
        let room = self.analysis.paths.len() < MAX_COMMANDS && self.analysis.patterns.len() < MAX_PATTERNS;
        self.analysis.too_many_paths |= !room;
        for base in &place.bases {
            if !self.analysis.directories.contains(base) {
                self.analysis.directories.push(base.clone());
            }
        }
        let Some(given) = word.path(self.home).filter(|_| room) else {
            if let Some(pattern) = word.pattern(self.home).filter(|_| room) {
                for base in &place.bases {
                    let effect = PathPattern { operation, base: base.clone(), pattern: pattern.clone() };
                    if !self.analysis.patterns.contains(&effect) {
                        self.analysis.patterns.push(effect);
                    }
                }
            }
            return;
        };
        let left = if word.is_behind() { std::mem::take(&mut self.left) } else { Vec::new() };
        for base in place.bases.iter().chain(&left) {
            let effect = PathEffect { operation, path: effects::absolute(base, &given) };
            if self.seen.insert(effect.clone()) {
                self.analysis.paths.push(effect);
            }
        }
        if !left.is_empty() {
            self.left = left;
        }
    }

    fn finish(mut self) -> Analysis {
        self.drain();
        self.judge_values();
        if self.addresses == (true, true) {
            self.unclear(programs::COMPUTED_TEXT);
        }
        let mut texts = if self.takes_names { std::mem::take(&mut self.dashed) } else { Vec::new() };
        texts.extend(self.written_for_others());
        if !texts.is_empty() {
            texts.iter().for_each(|text| self.suspect_value("it", text, &Place::at(Path::new("/"))));
            self.drain();
        }
        self.analysis
    }

    /// Looks through all that waits.
    fn drain(&mut self) {
        while let Some((text, place)) = self.queue.pop() {
            self.possible = place.possible;
            // A text that is not understood in one place is still looked through in the others: a rule
            // that matches there says more.
            if let Err(why) = self.segments(&text, place) {
                self.unclear(why);
            }
            self.possible = false;
            if self.analysis.commands.len() > MAX_COMMANDS || self.work == 0 {
                self.unclear(TOO_MUCH);
                break;
            }
        }
    }
}
