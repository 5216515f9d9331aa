//! Where things in a text end: quotes, substitutions, expansions.
//!
//! One machine with a stack of its own instead of recursion. It knows only what decides about an end;
//! what a shell might read in two ways is an error here, because a wrong end would hide a command.

/// Constructs that may stand in each other.
pub(super) const MAX_NESTING: usize = 64;
/// Openers of substitutions in one text.
const MAX_OPENERS: usize = 512;

pub(super) type Unclear = &'static str;

pub(super) const UNENDED: Unclear = "a quote or a substitution in it has no end";
pub(super) const NESTED: Unclear = "it is nested too deeply";
pub(super) const ANSI_QUOTE: Unclear = "shells disagree on where a quote in it ends";
pub(super) const ARITHMETIC: Unclear = "shells disagree on how its arithmetic is read";
pub(super) const HERE_TAG: Unclear = "the end of a here-document in it is not plain";
const NUL: Unclear = "it holds a NUL character";
const SPLIT: Unclear = "an operator in it is split over two lines";
const BRACE_QUOTE: Unclear = "a quote inside an expansion in it can be read in two ways";

/// Refuses what the tokenizer should not be shown.
pub(super) fn check(text: &str) -> Result<(), Unclear> {
    if text.contains('\0') {
        return Err(NUL);
    }
    if text.contains("$[") {
        return Err(ARITHMETIC);
    }
    let bytes = text.as_bytes();
    let openers = bytes.windows(2).filter(|pair| matches!(pair, [b'$' | b'<' | b'>', b'('] | [b'$', b'{'])).count();
    let ticks = bytes.iter().filter(|byte| **byte == b'`').count();
    if openers + ticks > MAX_OPENERS {
        return Err(NESTED);
    }
    let split = |triple: &[u8]| matches!(triple, [b'$' | b'<' | b'>' | b'&' | b'|' | b';' | b'(', b'\\', b'\n']);
    if bytes.windows(3).any(split) {
        return Err(SPLIT);
    }
    if has_comment_in_arithmetic(text) { Err(ARITHMETIC) } else { Ok(()) }
}

/// Whether a `#` that begins a word stands in what may be `((…))`, where it begins no comment.
fn has_comment_in_arithmetic(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once("((") {
        let to = |end: Option<usize>| end.unwrap_or(behind.len());
        let mut end = to(behind.find("))"));
        if behind.get(..end).is_some_and(|inside| inside.contains(['\'', '"', '\\'])) {
            end = to(behind.rfind("))"));
        }
        let inside = behind.as_bytes().get(..end).unwrap_or_default();
        let comment = |pair: &[u8]| matches!(pair, [b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')', b'#']);
        if inside.first() == Some(&b'#') || inside.windows(2).any(comment) {
            return true;
        }
        rest = behind.get(end..).unwrap_or_default();
    }
    false
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// Commands, up to `)`.
    Paren,
    /// A double quote.
    Quote,
    /// `${`, up to `}`.
    Brace,
}

/// The index of what ends the construct that is open at `start`.
pub(super) fn end_of(chars: &[char], start: usize, open: Inside) -> Result<usize, Unclear> {
    let arithmetic = open == Inside::Paren && chars.get(start) == Some(&'(');
    let mut machine = Machine { chars, at: start, stack: vec![open], tags: Vec::new(), arithmetic, shifts: false };
    machine.run()?;
    let end = machine.at;
    // `$((…))` closes with both at once; else it was a subshell in a substitution, and `<<` meant otherwise.
    if machine.shifts && chars.get(end.wrapping_sub(1)) != Some(&')') {
        return Err(ARITHMETIC);
    }
    Ok(end)
}

struct Machine<'a> {
    chars: &'a [char],
    at: usize,
    stack: Vec<Inside>,
    /// Here-documents whose bodies begin at the next line.
    tags: Vec<(String, bool)>,
    arithmetic: bool,
    shifts: bool,
}

impl Machine<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Stops at the closing character.
    fn run(&mut self) -> Result<(), Unclear> {
        while let Some(c) = self.peek(0) {
            if self.stack.len() > MAX_NESTING {
                return Err(NESTED);
            }
            let Some(top) = self.stack.last().copied() else { return Err(UNENDED) };
            let closer = match top {
                Inside::Paren => ')',
                Inside::Quote => '"',
                Inside::Brace => '}',
            };
            if c == closer {
                self.stack.pop();
                if self.stack.is_empty() {
                    return Ok(());
                }
                self.at += 1;
                continue;
            }
            self.step(c, top)?;
        }
        Err(UNENDED)
    }

    fn step(&mut self, c: char, top: Inside) -> Result<(), Unclear> {
        match (c, self.peek(1)) {
            ('\\', _) => self.at += 2,
            ('`', _) => self.at = tick_end(self.chars, self.at + 1)? + 1,
            ('$', Some('(')) => self.open(Inside::Paren, 2),
            ('$', Some('{')) => self.open(Inside::Brace, 2),
            ('$', Some('\'')) if top != Inside::Quote => self.at = ansi_end(self.chars, self.at + 2)? + 1,
            ('"', _) => self.open(Inside::Quote, 1),
            ('\'', _) if top == Inside::Paren => self.at = single_end(self.chars, self.at + 1)? + 1,
            ('\'', _) if top == Inside::Brace => {
                if self.stack.contains(&Inside::Quote) {
                    return Err(BRACE_QUOTE);
                }
                self.at = single_end(self.chars, self.at + 1)? + 1;
            }
            _ if top == Inside::Paren => return self.command(c),
            _ => self.at += 1,
        }
        Ok(())
    }

    fn open(&mut self, inside: Inside, width: usize) {
        self.stack.push(inside);
        self.at += width;
    }

    fn command(&mut self, c: char) -> Result<(), Unclear> {
        match c {
            '(' => self.open(Inside::Paren, 1),
            // In arithmetic it begins no comment.
            '#' if self.begins_word() && self.arithmetic => return Err(ARITHMETIC),
            '#' if self.begins_word() => {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            }
            '<' if self.peek(1) == Some('<') && self.arithmetic => {
                self.shifts = true;
                self.at += 2;
            }
            '<' if self.peek(1) == Some('<') && self.peek(2) == Some('<') => self.at += 3,
            '<' if self.peek(1) == Some('<') => self.here()?,
            '\n' => {
                self.at += 1;
                for (tag, tabs) in std::mem::take(&mut self.tags) {
                    self.body(&tag, tabs)?;
                }
            }
            _ => self.at += 1,
        }
        Ok(())
    }

    fn begins_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.chars.get(at));
        before.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')'))
    }

    /// Takes the tag of a here-document.
    fn here(&mut self) -> Result<(), Unclear> {
        self.at += 2;
        let tabs = self.peek(0) == Some('-');
        self.at += usize::from(tabs);
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        let start = self.at;
        while self.peek(0).is_some_and(|c| !matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')) {
            self.at += 1;
        }
        let raw: String = self.chars.get(start..self.at).unwrap_or_default().iter().collect();
        self.tags.push((here_tag(&raw)?.to_owned(), tabs));
        Ok(())
    }

    /// Goes behind the body of a here-document.
    fn body(&mut self, tag: &str, tabs: bool) -> Result<(), Unclear> {
        loop {
            let rest = self.chars.get(self.at..).filter(|rest| !rest.is_empty()).ok_or(UNENDED)?;
            let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
            let line: String = rest.iter().take(length).collect();
            self.at += (length + 1).min(rest.len());
            let line = if tabs { line.trim_start_matches('\t') } else { &line };
            if line == tag {
                return Ok(());
            }
            // Where the closing parenthesis stands on the tag's own line, shells differ.
            if line.starts_with(tag) && line.trim_start_matches(tag).starts_with([')', ' ', '`']) {
                return Err(HERE_TAG);
            }
        }
    }
}

/// The plain tag of a here-document, its quotes removed.
pub(super) fn here_tag(raw: &str) -> Result<&str, Unclear> {
    let quoted = |quote: char| raw.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let tag = quoted('\'').or_else(|| quoted('"')).or_else(|| raw.strip_prefix('\\')).unwrap_or(raw);
    let plain = !tag.is_empty() && tag.chars().all(|c| c.is_ascii_alphanumeric() || "_-.!".contains(c));
    if plain { Ok(tag) } else { Err(HERE_TAG) }
}

/// The end of a single quote.
pub(super) fn single_end(chars: &[char], start: usize) -> Result<usize, Unclear> {
    let at = chars.iter().skip(start).position(|c| *c == '\'').ok_or(UNENDED)?;
    Ok(start + at)
}

/// The end of `$'`. Where a quote is escaped in it, a shell that does not know `$'` ends it earlier.
pub(super) fn ansi_end(chars: &[char], start: usize) -> Result<usize, Unclear> {
    let end = single_end(chars, start)?;
    let inside = chars.get(start..end).unwrap_or_default();
    let escapes = inside.iter().rev().take_while(|c| **c == '\\').count();
    if escapes > 0 { Err(ANSI_QUOTE) } else { Ok(end) }
}

/// The end of a backquote.
pub(super) fn tick_end(chars: &[char], start: usize) -> Result<usize, Unclear> {
    let mut at = start;
    while let Some(c) = chars.get(at) {
        match c {
            '`' => return Ok(at),
            '\\' => at += 2,
            _ => at += 1,
        }
    }
    Err(UNENDED)
}
