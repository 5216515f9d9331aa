//! One word: quotes removed, braces expanded, the rest marked as not known.
//!
//! What a shell would only know when it runs (variables, substitutions, file name patterns) makes a word
//! open; the texts of substitutions are handed back, to be looked into as commands.

mod braces;
mod reader;

use std::path::Path;

use braces::braces;
pub(super) use reader::Inner;
use reader::{Piece, Reader, fallback};

use super::scan::Unclear;

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    text: String,
    /// How many bytes at the start are certain: all of them, or those before the first open part.
    lead: usize,
    known: bool,
    /// Whether the shell may make several words of it, or none.
    splits: bool,
    /// Whether it starts with a `~` that is expanded.
    tilde: bool,
    /// Whether anything in it is quoted, so that it is no reserved word.
    quoted: bool,
    /// The file name pattern that it is, when nothing else in it is open.
    pattern: Option<String>,
    /// What of it is certain where something else is not: a NUL stands for each open part.
    certain: Option<String>,
}

impl Word {
    /// A word that means just this.
    pub(crate) fn literal(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            lead: text.len(),
            known: true,
            splits: false,
            tilde: false,
            quoted: true,
            pattern: None,
            certain: None,
        }
    }

    /// A word of which nothing is known.
    pub(crate) fn open() -> Self {
        Self {
            text: "{}".to_owned(),
            lead: 0,
            known: false,
            splits: true,
            certain: Some("\0".to_owned()),
            ..Self::literal("")
        }
    }

    /// The word without its quotes; open parts stand as they are written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The word, when it is known as a whole.
    pub(crate) fn known(&self) -> Option<&str> {
        self.known.then_some(self.text.as_str())
    }

    /// What is written in it, with a NUL for each part that only the shell will know.
    pub(super) fn written(&self) -> &str {
        self.certain.as_deref().unwrap_or(&self.text)
    }

    /// Whether it is sure not to be an option.
    pub(super) fn is_operand(&self) -> bool {
        self.lead().chars().next().is_some_and(|first| first != '-') || self.text.is_empty()
    }

    /// Whether it may come to an option: it begins like one, or nobody knows how it begins or what else it brings.
    pub(super) fn may_be_option(&self) -> bool {
        let brings_more = !self.known && self.splits && self.pattern.is_none();
        brings_more || !self.is_operand()
    }

    /// Whether nothing but file names can make it more than it is.
    pub(super) fn is_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// The same as a program: whatever stands before its last component, that is the program's name.
    pub(super) fn with_known_name(&self) -> Option<Self> {
        let certain = self.certain.as_deref().filter(|_| !self.known && !self.splits)?;
        let (_, name) = certain.rsplit_once('/')?;
        let named = !name.is_empty() && !name.contains('\0') && self.text.rsplit('/').next() == Some(name);
        named.then(|| Self::literal(&self.text))
    }

    /// The same word where a text is put in place of some of its own.
    pub(super) fn replaced(&self, place: &str) -> Self {
        if !self.text.contains(place) {
            return self.clone();
        }
        let lead = self.text.find(place).unwrap_or_default().min(self.lead);
        let certain = Some(self.written().replace(place, "\0"));
        Self { lead, known: false, splits: false, pattern: None, certain, ..self.clone() }
    }

    /// Whether the shell may make several words of it, or none.
    pub(crate) fn splits(&self) -> bool {
        self.splits
    }

    /// The certain beginning.
    pub(crate) fn lead(&self) -> &str {
        self.text.get(..self.lead).unwrap_or_default()
    }

    /// What is certain at its beginning and at its end, where something between them is not known.
    pub(crate) fn ends(&self) -> (&str, &str) {
        let end = self.certain.as_deref().and_then(|text| text.rsplit(['\0', '*', '?', '[', ']']).next());
        (self.lead(), end.unwrap_or_default())
    }

    /// The word as a reserved one could be written.
    pub(super) fn bare(&self) -> Option<&str> {
        (self.known && !self.quoted).then_some(self.text.as_str())
    }

    /// The path that it names, when it is known. A shell's own directory in `/proc` is as good as another's.
    pub(super) fn path(&self, home: &Path) -> Option<std::path::PathBuf> {
        let own = ["$$", "$BASHPID", "${$}", "${BASHPID}"].iter();
        let mut own = own.filter_map(|pid| self.text.strip_prefix("/proc/")?.strip_prefix(pid));
        if let Some(rest) = own.next().filter(|rest| !self.known && rest.starts_with('/') && !rest.contains(['$', '`']))
        {
            return Some(format!("/proc/self{rest}").into());
        }
        if let Some(path) = self.path_behind(home) {
            return Some(path);
        }
        let text = self.known().filter(|text| !text.is_empty())?;
        match text.strip_prefix('~').filter(|_| self.tilde) {
            Some("") => Some(home.to_owned()),
            Some(rest) => rest.starts_with('/').then(|| home.join(rest.trim_start_matches('/'))),
            None => Some(text.into()),
        }
    }

    /// A path behind `~+`, `~-`, `$PWD` or `$HOME`. The directory that was left is added where it is used.
    fn path_behind(&self, home: &Path) -> Option<std::path::PathBuf> {
        let certain = |rest: &&str| {
            !self.known && (rest.is_empty() || rest.starts_with('/')) && !rest.contains(['$', '`', '*', '?', '['])
        };
        let behind = |names: &[&str]| names.iter().find_map(|name| self.text.strip_prefix(name)).filter(certain);
        let here = behind(&["$PWD", "${PWD}"]);
        let here = here.or_else(|| behind(&["~+", "~-"]).filter(|_| self.tilde));
        let at_home = || behind(&["$HOME", "${HOME}"]).map(|rest| home.join(rest.trim_start_matches('/')));
        here.map(|rest| format!(".{rest}").into()).or_else(at_home)
    }

    /// The file name pattern that it is, with a `~` in front made absolute.
    pub(super) fn pattern(&self, home: &Path) -> Option<String> {
        let pattern = self.pattern.as_deref()?;
        match pattern.strip_prefix('~').filter(|_| self.tilde) {
            Some(rest) => Some(format!("{}{rest}", globset::escape(home.to_str()?))),
            None => Some(pattern.to_owned()),
        }
    }

    /// Whether it begins at the directory that was left last.
    pub(super) fn is_behind(&self) -> bool {
        self.tilde && self.text.starts_with("~-") || self.known() == Some("-")
    }

    /// What stands behind a prefix, as a word.
    pub(super) fn behind(&self, prefix: &str) -> Option<Self> {
        let rest = self.text.strip_prefix(prefix).filter(|_| self.lead >= prefix.len())?;
        let pattern = self.pattern.as_deref().and_then(|pattern| pattern.strip_prefix(prefix)).map(str::to_owned);
        let certain = self.certain.as_deref().and_then(|text| text.strip_prefix(prefix)).map(str::to_owned);
        Some(Self { text: rest.to_owned(), lead: self.lead - prefix.len(), pattern, certain, ..self.clone() })
    }
}

/// What a word came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) words: Vec<Word>,
    pub(super) inner: Inner,
}

/// Takes a word apart.
pub(super) fn parse(raw: &str) -> Result<Parsed, Unclear> {
    let chars: Vec<char> = raw.chars().collect();
    let mut reader = Reader::new(&chars);
    let pieces = reader.unquoted()?;
    let (inner, quoted) = (reader.inner, reader.quotes);
    let mut expanded = Vec::new();
    braces(pieces, &mut expanded)?;
    // What braces leave empty is no word.
    let several = expanded.len() > 1;
    let words = expanded.into_iter().filter(|pieces| quoted || !several || !pieces.is_empty());
    let words = words.map(|pieces| word(&pieces, quoted)).collect();
    Ok(Parsed { words, inner })
}

/// What stands in a text that is expanded like the inside of double quotes.
pub(super) fn substitutions(text: &str) -> Result<Inner, Unclear> {
    if !text.contains(['$', '`']) {
        return Ok(Inner::default());
    }
    let chars: Vec<char> = text.chars().collect();
    let mut reader = Reader::new(&chars);
    reader.quoted(None)?;
    Ok(reader.inner)
}

fn word(pieces: &[Piece], quoted: bool) -> Word {
    let mut word = Word { quoted, ..Word::literal("") };
    let (mut pattern, mut only_pattern) = (String::new(), true);
    let mut certain = pieces.iter().any(|piece| matches!(piece, Piece::Open(..))).then(String::new);
    word.tilde = pieces.first() == Some(&Piece::Bare('~'));
    for piece in pieces {
        if word.known {
            word.lead = word.text.len();
        }
        match piece {
            Piece::Quoted(c) => {
                word.text.push(*c);
                certain.iter_mut().for_each(|text| text.push(*c));
                pattern.push_str(&globset::escape(c.encode_utf8(&mut [0; 4])));
            }
            Piece::Bare(c) => {
                let is_wild = matches!(c, '*' | '?' | '[');
                word.known &= !is_wild;
                word.splits |= is_wild;
                word.text.push(*c);
                certain.iter_mut().for_each(|text| text.push(*c));
                match c {
                    // To a shell these are characters like others.
                    '{' | '}' => pattern.push_str(&globset::escape(c.encode_utf8(&mut [0; 4]))),
                    c => pattern.push(*c),
                }
            }
            Piece::Open(raw, splits) => {
                word.known = false;
                word.splits |= splits;
                only_pattern = false;
                word.text.push_str(raw);
                certain.iter_mut().for_each(|text| text.push_str(&fallback(raw)));
            }
        }
    }
    if word.known {
        word.lead = word.text.len();
    }
    word.certain = certain;
    word.pattern = (!word.known && only_pattern).then_some(pattern);
    // `[` and `[[` are commands; alone it is no pattern.
    if matches!(word.text.as_str(), "[" | "[[") {
        word.known = true;
        word.splits = false;
        word.lead = word.text.len();
    }
    // `~name` is somebody's home.
    if word.tilde && word.text.len() > 1 && !word.text.starts_with("~/") {
        word.known = false;
        word.lead = 0;
    }
    word
}
