//! From a text to its simple commands: tokens, cut at every operator.
//!
//! Constructs are not parsed. A reserved word at the start of a run is taken off, and what follows it is
//! a command; only what can never be one (the words of `for`, the patterns of `case`, the elements of an
//! array) is not held against the text when its first word is not known. Where a shell could see a
//! here-document and another does not, the text is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use brush_parser::{Token, TokenizerOptions, uncached_tokenize_str};

use super::scan::{self, ARITHMETIC, HERE_TAG, MAX_NESTING, NESTED, Unclear};
use super::word::{self, Word};
use super::{Input, MAX_BASES, Place, Work, effects, evaluated};
use crate::Operation;

const NO_SHELL: Unclear = "it is no command that a shell would understand";
const DESCRIPTOR: Unclear = "shells disagree on which descriptor a redirection in it means";
const EXTENDED: Unclear = "it holds an extended pattern, such as `@(a|b)`";
const APPENDED: Unclear = "what `<(…)` brings becomes arguments of a program that stands behind it";
const DIRECTORIES: Unclear = "it changes its directory too often";

/// What a parenthesis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Commands.
    List,
    /// The second of two.
    Second,
    /// The second of two that touch: perhaps arithmetic.
    Arithmetic,
    /// The elements of an array.
    Array,
}

impl Work<'_> {
    /// Looks through one text.
    pub(super) fn segments(&mut self, text: &str, place: Place) -> Result<(), Unclear> {
        scan::check(text)?;
        self.tokens(text, place.clone())?;
        // `a &>b c` is one command for `bash`; plain `sh` starts `a`, and then runs `c`.
        if text.contains("&>") { self.tokens(&text.replace("&>", "& >"), place) } else { Ok(()) }
    }

    fn tokens(&mut self, text: &str, place: Place) -> Result<(), Unclear> {
        let options = TokenizerOptions { enable_extended_globbing: false, posix_mode: false, sh_mode: false };
        let tokens = catch_unwind(AssertUnwindSafe(|| uncached_tokenize_str(text, &options)));
        let tokens = tokens.map_err(|_| NO_SHELL)?.map_err(|_| NO_SHELL)?;
        Cutter::new(self, &tokens, place).run()
    }
}

/// Whether a word in front of a redirection is the name of a variable for the descriptor.
fn names_descriptor(word: &str) -> bool {
    let name = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.contains([',', '.']))
}

/// What follows behind `]]`: a reserved word may, without an operator between them.
fn behind_test(words: &[Word]) -> Option<Vec<Word>> {
    let end = words.iter().position(|word| word.bare() == Some("]]"))?;
    words.get(end + 1..).filter(|rest| !rest.is_empty()).map(<[Word]>::to_vec)
}

/// Whether the words end within `[[ … =~ …`, where parentheses belong to an expression.
fn is_matched(words: &[Word]) -> bool {
    let at = |wanted: &str| words.iter().position(|word| word.bare() == Some(wanted));
    match (at("[["), at("=~")) {
        (Some(test), Some(matches)) => test < matches && at("]]").is_none(),
        _ => false,
    }
}

struct Cutter<'w, 'h, 't> {
    work: &'w mut Work<'h>,
    tokens: &'t [Token],
    at: usize,
    place: Place,
    words: Vec<Word>,
    /// Whether the last token was a word, and how it was written.
    last: Option<&'t Token>,
    input: Input,
    open: Vec<Open>,
    /// `case` without its `esac`.
    cases: usize,
    patterns: bool,
    /// Whether the expression of a `[[ … =~ … ]]` goes on.
    matching: bool,
    /// What the command before a pipe prints, if that is known.
    piped: Input,
    /// The elements of the array at hand.
    elements: Vec<String>,
    /// A `cd` that ran before, with where it would lead: which of both holds depends on what follows.
    moved: Option<Vec<PathBuf>>,
}

impl<'w, 'h, 't> Cutter<'w, 'h, 't> {
    fn new(work: &'w mut Work<'h>, tokens: &'t [Token], place: Place) -> Self {
        Self {
            work,
            tokens,
            at: 0,
            place,
            words: Vec::new(),
            last: None,
            input: Input::Unknown,
            open: Vec::new(),
            cases: 0,
            patterns: false,
            matching: false,
            piped: Input::Unknown,
            elements: Vec::new(),
            moved: None,
        }
    }

    fn run(&mut self) -> Result<(), Unclear> {
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            match token {
                Token::Word(raw, _) => {
                    let parsed = word::parse(raw)?;
                    self.words.extend(parsed.words);
                    self.work.inner(parsed.inner, &self.place);
                }
                Token::Operator(operator, _) => self.operator(operator)?,
            }
            self.last = Some(token);
        }
        self.end("\n")?;
        if self.cases > 0 { Err(NO_SHELL) } else { Ok(()) }
    }

    fn operator(&mut self, operator: &str) -> Result<(), Unclear> {
        let before = self.input.clone();
        let is_input = self.descriptor().is_none_or(|number| number.trim_start_matches('0').is_empty());
        let done = self.one_operator(operator, is_input);
        // What another descriptor reads is not the command's input.
        if !is_input {
            self.input = before;
        }
        done
    }

    /// The number that touches the operator at hand, and belongs to it.
    fn descriptor(&self) -> Option<&'t str> {
        self.touching().filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// The word, as it is written, that touches the operator at hand.
    fn touching(&self) -> Option<&'t str> {
        match (self.last, self.tokens.get(self.at.checked_sub(1)?)) {
            (Some(Token::Word(word, place)), Some(Token::Operator(_, own))) if place.end.index == own.start.index => {
                Some(word)
            }
            _ => None,
        }
    }

    fn one_operator(&mut self, operator: &str, is_input: bool) -> Result<(), Unclear> {
        match operator {
            "<<" | "<<-" => self.here_document(),
            "<<<" => {
                let target = self.target()?;
                self.input = match &target {
                    Some(word) if word.known().is_some() => Input::Text(word.text().to_owned()),
                    Some(word) => Input::Written(word.written().to_owned()),
                    None => Input::Unknown,
                };
                Ok(())
            }
            "<" | ">" | ">>" | ">|" | "<>" | "<&" | ">&" | "&>" | "&>>" => {
                // Its input is no longer what the pipe brings.
                if is_input && matches!(operator, "<&" | "<>") {
                    self.piped = Input::Unknown;
                    self.input = Input::Unknown;
                }
                self.redirection(operator)
            }
            other => self.end(other),
        }
    }

    /// The word behind a redirection, if one stands there.
    fn target(&mut self) -> Result<Option<Word>, Unclear> {
        // A number that touches the operator belongs to it.
        if self.descriptor().is_some() {
            self.words.pop();
        } else if self.touching().is_some_and(names_descriptor) {
            // For `bash` it is a descriptor's name, for another shell a word.
            self.work.unclear(DESCRIPTOR);
        }
        let Some(Token::Word(raw, _)) = self.tokens.get(self.at) else { return Ok(None) };
        self.at += 1;
        let parsed = word::parse(raw)?;
        self.work.inner(parsed.inner, &self.place);
        Ok(parsed.words.into_iter().next())
    }

    fn redirection(&mut self, operator: &str) -> Result<(), Unclear> {
        let target = self.target()?;
        if operator == "<" {
            // `<(…)` has no word behind it, and what it brings is not known.
            self.input = target.clone().map_or(Input::Piped, Input::File);
        }
        let Some(target) = target else {
            // `x=<(…)` and `exec 3< <(…)` are for what comes later.
            let is_value = self.touching().is_some_and(|word| word.contains('=') && !word.starts_with('-'));
            if is_value || self.words.first().and_then(Word::known) == Some("exec") {
                self.work.given_later();
            }
            let appends = |word: &Word| matches!(super::base_name(word.text()), "xargs" | "parallel");
            if self.words.iter().any(appends) {
                self.work.unclear(APPENDED);
            }
            return Ok(());
        };
        if matches!(operator, "<&" | ">&") {
            let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            match target.known() {
                Some(text) if text == "-" || number(text.trim_end_matches('-')) => return Ok(()),
                // `<&-rm` closes the input of `rm` for `bash`.
                Some(text) if !text.starts_with('-') && operator == ">&" => {}
                _ => self.work.unclear(DESCRIPTOR),
            }
        }
        if operator == "<" && target.known().is_none_or(effects::is_descriptor) {
            self.input = Input::Unknown;
        }
        if matches!(operator, "<" | "<>" | "<&") {
            self.work.path(Operation::Read, &target, &self.place);
        }
        if !matches!(operator, "<" | "<&") {
            self.work.makes(&target);
            self.work.path(Operation::Write, &target, &self.place);
        }
        Ok(())
    }

    fn here_document(&mut self) -> Result<(), Unclear> {
        // `((1<<2))` and `a[1<<2]=` are arithmetic for one shell and a here-document for another.
        if self.open.iter().any(|open| *open != Open::List) || self.in_subscript() {
            return Err(ARITHMETIC);
        }
        let (Some(Token::Word(tag, _)), Some(body)) = (self.tokens.get(self.at), self.tokens.get(self.at + 1)) else {
            return Err(HERE_TAG);
        };
        self.at += 3;
        scan::here_tag(tag.trim())?;
        let body = body.to_str();
        let quoted = tag.contains(['\'', '"', '\\']);
        if !quoted {
            let inner = word::substitutions(body)?;
            self.work.inner(inner, &self.place);
        }
        let plain = quoted || !body.contains(['$', '`', '\\']);
        self.input = if plain { Input::Text(body.to_owned()) } else { Input::Written(body.to_owned()) };
        Ok(())
    }

    /// Whether the words at hand may have begun a subscript, in which `<<` is arithmetic.
    fn in_subscript(&self) -> bool {
        let before = self.tokens.get(..self.at).unwrap_or_default().iter().rev().skip(1);
        let words = before.map_while(|token| match token {
            Token::Word(raw, _) => Some(raw),
            Token::Operator(..) => None,
        });
        let subscript = |raw: &str| {
            let begun = raw.split(['\'', '"', '\\']).next().unwrap_or_default();
            begun
                .split_once('[')
                .is_some_and(|(name, _)| name.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
        };
        words.into_iter().any(|raw| subscript(raw))
    }

    /// Ends the run of words, for this reason.
    fn end(&mut self, operator: &str) -> Result<(), Unclear> {
        let words = std::mem::take(&mut self.words);
        let own_input = std::mem::replace(&mut self.input, Input::Unknown);
        let piped = std::mem::replace(&mut self.piped, Input::Unknown);
        let input = if own_input == Input::Unknown { piped } else { own_input };
        let mut printed = Input::Piped;
        // What is no pattern or element for this end is a command, whatever stood before it.
        let pattern = self.patterns && matches!(operator, ")" | "|");
        let element = self.open.contains(&Open::Array) && matches!(operator, ")" | "\n");
        let (words, expression) = self.behind_expression(words, operator);
        if self.open.contains(&Open::Arithmetic) {
            words.iter().for_each(|word| self.work.evaluated(word.text()));
        }
        if self.open.contains(&Open::Array) {
            let inside = |word: &Word| Some(word.text().strip_prefix('[')?.split("]=").next()?.to_owned());
            words.iter().filter_map(inside).for_each(|text| self.work.evaluated(&text));
            self.elements.extend(words.iter().map(|word| word.written().to_owned()));
        }
        if operator == "(" {
            self.before_parenthesis(&words);
        }
        let place =
            Place { certain: !(pattern || element || expression) && self.place.certain, input, ..self.place.clone() };
        let mut left = Some(words);
        while let Some(words) = left {
            left = behind_test(&words);
            if left.is_some() && !self.work.spend(&words) {
                break;
            }
            printed = self.run_of_words(words, &place);
        }
        if matches!(operator, "|" | "|&") {
            self.piped = printed;
        }
        self.settle(operator)?;
        match operator {
            "(" => self.open_parenthesis()?,
            // One without an opening one ends a pattern of `case`.
            ")" => {
                if self.open.pop() == Some(Open::Array) {
                    let elements = std::mem::take(&mut self.elements).join(" ");
                    self.work.suspect_value("it", &elements, &self.place.clone());
                }
                self.patterns = false;
            }
            ";;" | ";&" | ";;&" => self.patterns = self.cases > 0,
            _ => {}
        }
        // No array holds an operator, so it was none.
        if !matches!(operator, "(" | ")" | "\n")
            && let Some(open) = self.open.last_mut()
        {
            *open = if *open == Open::Array { Open::List } else { *open };
        }
        Ok(())
    }

    /// The words without what belongs to the expression of a `[[ … =~ … ]]`, and whether all do: parentheses and `|`
    /// are no operators there.
    fn behind_expression(&mut self, mut words: Vec<Word>, operator: &str) -> (Vec<Word>, bool) {
        let goes_on = matches!(operator, "(" | ")" | "|");
        if !self.matching {
            self.matching = operator == "(" && is_matched(&words);
            return (words, false);
        }
        let end = words.iter().position(|word| word.bare() == Some("]]"));
        self.matching = goes_on && end.is_none();
        if let Some(end) = end {
            words.drain(..end);
        }
        (words, self.matching)
    }

    /// Looks at a run of words. What it prints.
    fn run_of_words(&mut self, words: Vec<Word>, place: &Place) -> Input {
        let Some(words) = self.command_words(words, place) else {
            if let Some(text) = place.input.written() {
                // What a whole construct reads, something in it may run.
                self.work.suspect_value("it", text, place);
            }
            return Input::Piped;
        };
        let printed = super::input::printed(&words, &place.input);
        self.work.number += 1;
        self.work.writes(&words, &place.input);
        self.change_directory(&words);
        self.work.command(words, place);
        printed
    }

    /// A parenthesis behind a word defines a function, or is part of a pattern.
    fn before_parenthesis(&mut self, words: &[Word]) {
        let extended = self.touching().filter(|word| word.ends_with(['?', '*', '+', '@', '!']));
        if extended.is_some_and(|word| word != "!" || self.work.extended) {
            self.work.unclear(EXTENDED);
        }
        if let (Some(name), Some(Token::Operator(operator, _))) = (words.last(), self.tokens.get(self.at))
            && operator == ")"
        {
            self.work.defined(name);
        }
    }

    fn open_parenthesis(&mut self) -> Result<(), Unclear> {
        let before = self.last;
        let open = match before {
            _ if self.matching => Open::List,
            Some(Token::Operator(operator, place)) if operator == "(" => match self.tokens.get(self.at - 1) {
                Some(Token::Operator(_, own)) if own.start.index == place.end.index => Open::Arithmetic,
                _ => Open::Second,
            },
            Some(Token::Word(word, _)) if word.ends_with('=') => Open::Array,
            _ => Open::List,
        };
        self.open.push(open);
        if self.open.len() > MAX_NESTING { Err(NESTED) } else { Ok(()) }
    }

    /// The words that are a command: without the reserved words in front. Nothing when there is none.
    fn command_words(&mut self, words: Vec<Word>, place: &Place) -> Option<Vec<Word>> {
        let mut words = words.into_iter().peekable();
        loop {
            match words.peek()?.bare() {
                Some("!" | "{" | "}" | "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "done" | "fi") => {
                    words.next();
                }
                Some("esac") => {
                    words.next();
                    self.cases = self.cases.saturating_sub(1);
                    self.patterns = false;
                }
                Some("time") => {
                    if !self.work.spend(words.clone().collect::<Vec<_>>().iter()) {
                        return None;
                    }
                    // For plain `sh` it is a program with options of its own.
                    self.work.command(words.clone().collect(), &Place { certain: false, ..place.clone() });
                    words.next();
                    while words.next_if(|word| word.bare().is_some_and(|text| text.starts_with('-'))).is_some() {}
                }
                Some("function") => {
                    words.next();
                    words.next().iter().for_each(|name| self.work.defined(name));
                }
                Some("coproc") => {
                    words.next();
                    let mut ahead = words.clone();
                    ahead.next();
                    // Only what is no simple command may have a name.
                    let compound = ["{", "if", "while", "until", "for", "case", "select", "[["];
                    if ahead.peek().and_then(Word::bare).is_some_and(|word| compound.contains(&word)) {
                        words.next();
                    }
                }
                Some("case") => {
                    // Behind an empty one a reserved word may follow.
                    words.by_ref().take(2).for_each(drop);
                    if !words.by_ref().any(|word| word.bare() == Some("esac")) {
                        self.cases += 1;
                        self.patterns = true;
                        return None;
                    }
                }
                // In an old shell `[[` and `select` are programs, and harmless ones.
                Some("for" | "select") => {
                    let list: Vec<Word> = words.by_ref().skip(1).take(2).collect();
                    let name = list.first().map(Word::text).unwrap_or_default();
                    match list.get(1).and_then(Word::bare) {
                        // It goes through the arguments.
                        Some("do" | "{") => self.work.variable(name),
                        _ => {
                            let values: Vec<Word> = words.filter(|word| !evaluated::is_number(word.text())).collect();
                            if !values.is_empty() {
                                self.work.variable(name);
                                let values: Vec<&str> = values.iter().map(Word::written).collect();
                                self.work.suspect_value(name, &values.join(" "), place);
                            }
                            return None;
                        }
                    }
                }
                _ => return Some(words.collect()),
            }
        }
    }

    /// Takes note of a `cd`.
    fn change_directory(&mut self, words: &[Word]) {
        let is_cd = |word: &Word| matches!(word.known(), Some("cd" | "pushd"));
        let mut rest = words.iter().skip_while(|word| matches!(word.known(), Some("builtin" | "command")));
        if !rest.next().is_some_and(is_cd) {
            return;
        }
        let option = |word: &&Word| word.known().is_some_and(|text| text.starts_with('-') && text.len() > 1);
        let target = rest.find(|word| !option(word));
        let given = match target {
            None => Some(self.work.home.to_owned()),
            Some(word) => word.path(self.work.home),
        };
        for base in &self.place.bases {
            if self.work.left.len() < MAX_BASES && !self.work.left.contains(base) {
                self.work.left.push(base.clone());
            }
        }
        self.moved = Some(match given {
            // Back to one of those that were left.
            Some(_) if target.is_some_and(Word::is_behind) => self.work.left.clone(),
            Some(given) => {
                self.place.bases.iter().map(|base| crate::lexical(&effects::absolute(base, &given))).collect()
            }
            // Where to is not known; it may be where it was.
            None => self.place.bases.clone(),
        });
    }

    /// What a `cd` means for what comes behind this operator.
    fn settle(&mut self, operator: &str) -> Result<(), Unclear> {
        let Some(moved) = self.moved.take() else { return Ok(()) };
        // Behind `&&` it worked; else it may have failed, or have happened in a process of its own.
        if operator == "&&" && self.open.is_empty() {
            self.place.bases = moved;
            return Ok(());
        }
        for base in moved {
            if !self.place.bases.contains(&base) {
                self.place.bases.push(base);
            }
        }
        if self.place.bases.len() > MAX_BASES { Err(DIRECTORIES) } else { Ok(()) }
    }
}
