//! The characters of a word: quotes, escapes and expansions, as far as they end and what they hold.
//!
//! Nothing is expanded: the texts of substitutions and of arithmetic are handed back, because what is done with
//! them (commands, variables that are evaluated) is not a matter of one word.

use super::super::scan::{self, ARITHMETIC, Inside, UNENDED, Unclear};
use super::substitutions;

const INDIRECT: Unclear = "a variable in it is named by another's value (`${!x}`)";
const PROMPT: Unclear = "a value in it is expanded like a prompt (`${x@P}`)";
const NUL_ESCAPE: Unclear = "a quoted escape in it stands for nothing";

/// One character of a word, or a part that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Bare(char),
    Quoted(char),
    /// As it is written, and whether the shell takes apart what it comes to.
    Open(String, bool),
}

/// What stands in a word, or in a text that is expanded like one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::shell) struct Inner {
    /// The texts of its substitutions.
    pub(in crate::shell) texts: Vec<String>,
    /// Texts that are evaluated as arithmetic.
    pub(in crate::shell) evaluated: Vec<String>,
    /// Variables that it gives a value, with that.
    pub(in crate::shell) assigned: Vec<(String, String)>,
    /// What about it cannot be followed.
    pub(in crate::shell) unclear: Option<Unclear>,
}

/// What an open part says of itself: a NUL, and the texts in `${x:-…}`, `${x/a/…}` and their like that it may come to.
pub(super) fn fallback(raw: &str) -> String {
    let Some(inner) = raw.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else { return "\0".to_owned() };
    let named = inner.trim_start_matches(['!', '#']);
    let named = named.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let plain = without_substitutions(named);
    let operand = plain.strip_prefix(':').unwrap_or(&plain);
    match operand.chars().next() {
        None => "\0".to_owned(),
        Some('-' | '=' | '?' | '+') => format!("\0 {}\0", operand.get(1..).unwrap_or_default()),
        // What is put in place of a part, alone too.
        Some('/') => format!("\0 {operand} {}\0", operand.replace('/', " ")),
        Some(_) => format!("\0 {operand}\0"),
    }
}

/// A text without what stands in substitutions: those are looked into as commands.
fn without_substitutions(text: &str) -> String {
    let (mut depth, mut ticked) = (0_usize, false);
    let keep = |c: &char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '`' => ticked = !ticked,
            _ => return depth == 0 && !ticked,
        }
        false
    };
    text.chars().filter(keep).collect()
}

pub(super) struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    pub(super) inner: Inner,
    pub(super) quotes: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(chars: &'a [char]) -> Self {
        Self { chars, at: 0, inner: Inner::default(), quotes: false }
    }

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

    pub(super) fn unquoted(&mut self) -> Result<Vec<Piece>, Unclear> {
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
    pub(super) fn quoted(&mut self, end: Option<char>) -> Result<Vec<Piece>, Unclear> {
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
        self.inner.texts.push(text);
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
            self.merge(substitutions(&inner)?);
            self.inner.evaluated.push(inner);
        } else {
            self.inner.texts.push(inner);
        }
        Ok(())
    }

    /// The inside of `${…}`: its default or pattern may hold substitutions, in quotes or not.
    fn expansion(&mut self, inner: &str, quoted: bool) -> Result<(), Unclear> {
        let whole = inner;
        // A parameter of the shell, or the length of one, may have what a variable may.
        let inner = inner.strip_prefix(['@', '*', '?', '$', '-', '#']).unwrap_or(inner);
        let named: &str = inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let name = inner.strip_suffix(named).unwrap_or_default();
        match named.as_bytes() {
            // `${!x[@]}` and `${!x*}` list names; others are what a value names.
            [b'!', .., b'*' | b'@'] | [b'!', .., b'*' | b'@', b']'] if name.is_empty() => {}
            [b'!', _, ..] if name.is_empty() => self.inner.unclear = Some(INDIRECT),
            [.., b'@', b'P'] => self.inner.unclear = Some(PROMPT),
            [b'[', ..] => {
                let subscript = named.trim_start_matches('[').split(']').next().unwrap_or_default();
                self.inner.evaluated.push(subscript.to_owned());
                // What stands behind the subscript is told apart no further.
                self.inner.evaluated.extend(named.split_once("]:").map(|(_, rest)| rest.to_owned()));
            }
            [b':', b'=', ..] | [b'=', ..] => {
                let value = named.trim_start_matches([':', '=']).to_owned();
                self.inner.assigned.push((name.to_owned(), value));
            }
            [b':', b'-' | b'+' | b'?', ..] => {}
            [b':', ..] => self.inner.evaluated.push(named.to_owned()),
            _ => {}
        }
        let inner = whole;
        if !inner.contains(['$', '`']) {
            return Ok(());
        }
        if quoted || !inner.contains('\'') {
            let found = substitutions(inner)?;
            self.merge(found);
            return Ok(());
        }
        let chars: Vec<char> = inner.chars().collect();
        let mut reader = Reader::new(&chars);
        reader.unquoted()?;
        self.merge(reader.inner);
        Ok(())
    }

    fn merge(&mut self, other: Inner) {
        self.inner.texts.extend(other.texts);
        self.inner.evaluated.extend(other.evaluated);
        self.inner.assigned.extend(other.assigned);
        self.inner.unclear = self.inner.unclear.or(other.unclear);
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
