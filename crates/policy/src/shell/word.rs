//! One word: quotes removed, braces expanded, the rest marked as not known.
//!
//! What a shell would only know when it runs (variables, substitutions, file name patterns) makes a word
//! open; the texts of substitutions are handed back, to be looked into as commands.

use std::path::Path;

use super::scan::{self, ARITHMETIC, Inside, UNENDED, Unclear};

/// Words that one word's braces may become.
const MAX_WORDS: usize = 256;
const BRACES: Unclear = "its braces expand to too many words";
const NUL_ESCAPE: Unclear = "a quoted escape in it stands for nothing";

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
        }
    }

    /// A word of which nothing is known.
    pub(crate) fn open() -> Self {
        Self { text: "{}".to_owned(), lead: 0, known: false, splits: true, tilde: false, quoted: true, pattern: None }
    }

    /// The word without its quotes; open parts stand as they are written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The word, when it is known as a whole.
    pub(crate) fn known(&self) -> Option<&str> {
        self.known.then_some(self.text.as_str())
    }

    /// Whether the shell may make several words of it, or none.
    pub(super) fn splits(&self) -> bool {
        self.splits
    }

    /// The certain beginning.
    pub(crate) fn lead(&self) -> &str {
        self.text.get(..self.lead).unwrap_or_default()
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
        let text = self.known().filter(|text| !text.is_empty())?;
        match text.strip_prefix('~').filter(|_| self.tilde) {
            Some("") => Some(home.to_owned()),
            Some(rest) => rest.starts_with('/').then(|| home.join(rest.trim_start_matches('/'))),
            None => Some(text.into()),
        }
    }

    /// The file name pattern that it is, with a `~` in front made absolute.
    pub(super) fn pattern(&self, home: &Path) -> Option<String> {
        let pattern = self.pattern.as_deref()?;
        match pattern.strip_prefix('~').filter(|_| self.tilde) {
            Some(rest) => Some(format!("{}{rest}", globset::escape(home.to_str()?))),
            None => Some(pattern.to_owned()),
        }
    }

    /// What stands behind a prefix, as a word.
    pub(super) fn behind(&self, prefix: &str) -> Option<Self> {
        let rest = self.text.strip_prefix(prefix).filter(|_| self.lead >= prefix.len())?;
        let pattern = self.pattern.as_deref().and_then(|pattern| pattern.strip_prefix(prefix)).map(str::to_owned);
        Some(Self { text: rest.to_owned(), lead: self.lead - prefix.len(), pattern, ..self.clone() })
    }
}

/// One character of a word, or a part that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Bare(char),
    Quoted(char),
    /// As it is written, and whether the shell takes apart what it comes to.
    Open(String, bool),
}

/// What a word came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) words: Vec<Word>,
    /// The texts of its substitutions.
    pub(super) texts: Vec<String>,
}

/// Takes a word apart.
pub(super) fn parse(raw: &str) -> Result<Parsed, Unclear> {
    let chars: Vec<char> = raw.chars().collect();
    let mut reader = Reader { chars: &chars, at: 0, texts: Vec::new(), quotes: false };
    let pieces = reader.unquoted()?;
    let (texts, quoted) = (reader.texts, reader.quotes);
    let mut expanded = Vec::new();
    braces(pieces, &mut expanded)?;
    let words = expanded.into_iter().map(|pieces| word(&pieces, quoted)).collect();
    Ok(Parsed { words, texts })
}

/// The substitutions in a text that is expanded like the inside of double quotes.
pub(super) fn substitutions(text: &str) -> Result<Vec<String>, Unclear> {
    if !text.contains(['$', '`']) {
        return Ok(Vec::new());
    }
    let chars: Vec<char> = text.chars().collect();
    let mut reader = Reader { chars: &chars, at: 0, texts: Vec::new(), quotes: false };
    reader.quoted(None)?;
    Ok(reader.texts)
}

fn word(pieces: &[Piece], quoted: bool) -> Word {
    let mut word =
        Word { text: String::new(), lead: 0, known: true, splits: false, tilde: false, quoted, pattern: None };
    let (mut pattern, mut only_pattern) = (String::new(), true);
    word.tilde = pieces.first() == Some(&Piece::Bare('~'));
    for piece in pieces {
        if word.known {
            word.lead = word.text.len();
        }
        match piece {
            Piece::Quoted(c) => {
                word.text.push(*c);
                pattern.push_str(&globset::escape(c.encode_utf8(&mut [0; 4])));
            }
            Piece::Bare(c) => {
                let is_wild = matches!(c, '*' | '?' | '[');
                word.known &= !is_wild;
                word.splits |= is_wild;
                word.text.push(*c);
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
            }
        }
    }
    if word.known {
        word.lead = word.text.len();
    }
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

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    texts: Vec<String>,
    quotes: bool,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied()?;
        self.at += 1;
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn slice(&self, from: usize, to: usize) -> &[char] {
        self.chars.get(from..to).unwrap_or_default()
    }

    fn unquoted(&mut self) -> Result<Vec<Piece>, Unclear> {
        let mut pieces = Vec::new();
        while let Some(c) = self.next() {
            match c {
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c) => {
                        self.quotes = true;
                        pieces.push(Piece::Quoted(c));
                    }
                },
                '\'' => {
                    self.quotes = true;
                    let end = scan::single_end(self.chars, self.at)?;
                    pieces.extend(self.slice(self.at, end).iter().map(|c| Piece::Quoted(*c)));
                    self.at = end + 1;
                }
                '"' => {
                    self.quotes = true;
                    pieces.append(&mut self.quoted(Some('"'))?);
                }
                '`' => pieces.push(self.backquote(false)?),
                '$' => self.dollar(false, &mut pieces)?,
                c => pieces.push(Piece::Bare(c)),
            }
        }
        Ok(pieces)
    }

    /// The inside of double quotes, or of a text that is expanded like one.
    fn quoted(&mut self, end: Option<char>) -> Result<Vec<Piece>, Unclear> {
        let mut pieces = Vec::new();
        while let Some(c) = self.next() {
            match c {
                c if Some(c) == end => return Ok(pieces),
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => pieces.push(Piece::Quoted(c)),
                    Some(c) => pieces.extend([Piece::Quoted('\\'), Piece::Quoted(c)]),
                },
                '`' => pieces.push(self.backquote(end.is_some())?),
                '$' => self.dollar(true, &mut pieces)?,
                c => pieces.push(Piece::Quoted(c)),
            }
        }
        if end.is_some() { Err(UNENDED) } else { Ok(pieces) }
    }

    fn backquote(&mut self, in_quotes: bool) -> Result<Piece, Unclear> {
        let end = scan::tick_end(self.chars, self.at)?;
        let raw = self.slice(self.at, end);
        let mut text = String::with_capacity(raw.len());
        let mut chars = raw.iter().copied().peekable();
        while let Some(c) = chars.next() {
            let escapes = |next: &char| matches!(next, '\\' | '$' | '`') || (in_quotes && *next == '"');
            match (c, chars.peek()) {
                ('\\', Some(next)) if escapes(next) => text.extend(chars.next()),
                _ => text.push(c),
            }
        }
        let piece = Piece::Open(format!("`{text}`"), !in_quotes);
        self.texts.push(text);
        self.at = end + 1;
        Ok(piece)
    }

    /// What stands behind a `$` that was taken.
    fn dollar(&mut self, quoted: bool, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        let start = self.at;
        match self.peek() {
            Some('(') => {
                let end = scan::end_of(self.chars, start + 1, Inside::Paren)?;
                self.parenthesis(start + 1, end)?;
                self.at = end + 1;
            }
            Some('{') => {
                let end = scan::end_of(self.chars, start + 1, Inside::Brace)?;
                let inner: String = self.slice(start + 1, end).iter().collect();
                self.expansion(&inner, quoted)?;
                self.at = end + 1;
            }
            Some('\'') if !quoted => {
                let end = scan::ansi_end(self.chars, start + 1)?;
                self.quotes = true;
                ansi(self.slice(start + 1, end), pieces)?;
                self.at = end + 1;
                return Ok(());
            }
            Some('"') if !quoted => return Ok(()),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.at += 1;
                }
            }
            Some('[') => return Err(ARITHMETIC),
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => self.at += 1,
            _ => {
                pieces.push(if quoted { Piece::Quoted('$') } else { Piece::Bare('$') });
                return Ok(());
            }
        }
        let raw: String = self.slice(start, self.at).iter().collect();
        // `"$@"` and `"${a[@]}"` are several words in quotes as well.
        let splits = !quoted || raw.contains('@');
        pieces.push(Piece::Open(format!("${raw}"), splits));
        Ok(())
    }

    /// `$(…)` is commands, `$((…))` is arithmetic with perhaps substitutions in it.
    fn parenthesis(&mut self, from: usize, end: usize) -> Result<(), Unclear> {
        let inner: String = self.slice(from, end).iter().collect();
        let arithmetic = self.chars.get(from) == Some(&'(')
            && scan::end_of(self.chars, from + 1, Inside::Paren).is_ok_and(|inner_end| inner_end + 1 == end);
        if arithmetic {
            self.texts.extend(substitutions(&inner)?);
        } else {
            self.texts.push(inner);
        }
        Ok(())
    }

    /// The inside of `${…}`: its default or pattern may hold substitutions, in quotes or not.
    fn expansion(&mut self, inner: &str, quoted: bool) -> Result<(), Unclear> {
        if !inner.contains(['$', '`']) {
            return Ok(());
        }
        if quoted || !inner.contains('\'') {
            self.texts.extend(substitutions(inner)?);
            return Ok(());
        }
        let chars: Vec<char> = inner.chars().collect();
        let mut reader = Reader { chars: &chars, at: 0, texts: Vec::new(), quotes: false };
        reader.unquoted()?;
        self.texts.append(&mut reader.texts);
        Ok(())
    }
}

/// The escapes of `$'…'`.
fn ansi(raw: &[char], pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
    let mut at = 0;
    while let Some(c) = raw.get(at) {
        at += 1;
        if *c != '\\' {
            pieces.push(Piece::Quoted(*c));
            continue;
        }
        let Some(escape) = raw.get(at).copied() else { break };
        at += 1;
        let plain = match escape {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' | '"' | '?' => escape,
            'x' => number(raw, &mut at, 16, 2)?,
            'u' => number(raw, &mut at, 16, 4)?,
            'U' => number(raw, &mut at, 16, 8)?,
            '0'..='7' => {
                at -= 1;
                number(raw, &mut at, 8, 3)?
            }
            'c' => {
                let control = raw.get(at).copied().unwrap_or('@');
                at += 1;
                let code = u32::from(control) & 0x1f;
                char::from_u32(code).filter(|c| *c != '\0').ok_or(NUL_ESCAPE)?
            }
            other => {
                pieces.push(Piece::Quoted('\\'));
                other
            }
        };
        pieces.push(Piece::Quoted(plain));
    }
    Ok(())
}

fn number(raw: &[char], at: &mut usize, radix: u32, most: usize) -> Result<char, Unclear> {
    let mut value: u32 = 0;
    for _ in 0..most {
        let Some(digit) = raw.get(*at).and_then(|c| c.to_digit(radix)) else { break };
        value = value.wrapping_mul(radix).wrapping_add(digit);
        *at += 1;
    }
    // A byte alone above ASCII is part of a character that is written in pieces.
    char::from_u32(value).filter(|c| *c != '\0' && (radix == 16 && most > 2 || c.is_ascii())).ok_or(NUL_ESCAPE)
}

/// Expands `{a,b}` and `{1..3}`, leftmost first, with a list of what is still to be done.
fn braces(pieces: Vec<Piece>, out: &mut Vec<Vec<Piece>>) -> Result<(), Unclear> {
    let mut todo = vec![(pieces, 0)];
    let mut steps = 0;
    while let Some((pieces, from)) = todo.pop() {
        steps += 1;
        if steps > 4 * MAX_WORDS || todo.len() + out.len() > MAX_WORDS {
            return Err(BRACES);
        }
        let open = pieces.iter().skip(from).position(|piece| *piece == Piece::Bare('{')).map(|at| at + from);
        let Some(open) = open else {
            out.push(pieces);
            continue;
        };
        match alternatives(&pieces, open)? {
            None => todo.push((pieces, open + 1)),
            Some((end, alternatives)) => {
                let head = pieces.get(..open).unwrap_or_default();
                let tail = pieces.get(end + 1..).unwrap_or_default();
                // The last one goes first onto the stack, so that the words come in the shell's order.
                todo.extend(alternatives.into_iter().rev().map(|middle| ([head, &middle, tail].concat(), open)));
            }
        }
    }
    Ok(())
}

type Alternatives = Option<(usize, Vec<Vec<Piece>>)>;

/// The alternatives of the brace that opens at `open`, if it is one that expands.
fn alternatives(pieces: &[Piece], open: usize) -> Result<Alternatives, Unclear> {
    let (mut depth, mut current, mut found) = (0_usize, Vec::new(), Vec::new());
    for (at, piece) in pieces.iter().enumerate().skip(open + 1) {
        match piece {
            Piece::Bare('{') => depth += 1,
            Piece::Bare('}') if depth == 0 => {
                if found.is_empty() {
                    return Ok(sequence(&current).map(|words| (at, words)));
                }
                found.push(current);
                return Ok(Some((at, found)));
            }
            Piece::Bare('}') => depth -= 1,
            Piece::Bare(',') if depth == 0 => {
                found.push(std::mem::take(&mut current));
                if found.len() > MAX_WORDS {
                    return Err(BRACES);
                }
                continue;
            }
            Piece::Bare(_) | Piece::Quoted(_) | Piece::Open(..) => {}
        }
        current.push(piece.clone());
    }
    Ok(None)
}

/// `{a..e}` and `{1..9..2}`.
fn sequence(inside: &[Piece]) -> Option<Vec<Vec<Piece>>> {
    let text: Option<String> =
        inside.iter().map(|piece| if let Piece::Bare(c) = piece { Some(*c) } else { None }).collect();
    let text = text.filter(|text| text.contains(".."))?;
    let parts: Vec<&str> = text.split("..").collect();
    let (first, last) = match parts.as_slice() {
        [first, last] | [first, last, _] => (*first, *last),
        _ => return None,
    };
    let single = |text: &str| (text.chars().count() == 1).then(|| text.chars().next()).flatten();
    if let (Ok(from), Ok(to)) = (first.parse::<i64>(), last.parse::<i64>()) {
        let (low, high) = (from.min(to), from.max(to));
        if high.abs_diff(low) >= MAX_WORDS as u64 {
            return Some(vec![vec![Piece::Open(format!("{{{text}}}"), true)]]);
        }
        // Whatever the step, each word is one of these.
        return Some((low..=high).map(|n| n.to_string().chars().map(Piece::Bare).collect()).collect());
    }
    let (Some(from), Some(to)) = (single(first), single(last)) else { return None };
    if !(from.is_ascii() && to.is_ascii()) {
        return None;
    }
    Some((from.min(to)..=from.max(to)).map(|c| vec![Piece::Bare(c)]).collect())
}
