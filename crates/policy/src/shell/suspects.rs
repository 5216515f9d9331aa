//! What a program is given that may start others: its words are looked through for programs that rules forbid.
//!
//! Most programs can be told to run another, each in its own way, so that no table of ways is ever whole. The table
//! is of those that run none (`harmless`); every other program is taken to run whatever stands among its words, its
//! input and the values of variables: a piece of a word counts as a word, and in code of other languages a name
//! alone counts. What is put together from pieces while it runs is not seen.

use super::word::Word;
use super::{Place, Work, scripts};

/// Letters of options in front of a value in one word.
const MAX_LETTERS: usize = 4;
/// The longest escape in front of a piece: `U` and its digits.
const MAX_ESCAPE: usize = 9;
/// What may stand around a name within a piece.
const AROUND: [char; 6] = ['-', '+', '.', '_', '/', '@'];
/// Quotes of `perl` whose end may be any of those.
const NAMED_QUOTES: [&str; 4] = ["qw", "qx", "qq", "q"];
/// Tokens that are tried together with a pattern that is tied to a beginning.
const WINDOW: usize = 16;

/// Words of a program that may start others, in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspect {
    program: String,
    /// The pieces with a space between them.
    text: String,
    tokens: Vec<Token>,
    /// Whether it is code, which may put the rest of a command together.
    code: bool,
}

/// What a piece of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pieces {
    /// What could be a name or a path.
    Names,
    /// What stands between spaces, quotes, commas and brackets: `"--mode=all"` in a list of words is `--mode=all`.
    Values,
    /// The whole word.
    Words,
}

impl Pieces {
    fn holds(self, c: char) -> bool {
        match self {
            Self::Names => c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '+' | '-'),
            Self::Values => !c.is_whitespace() && !"'\"`\\,()[]{};|&<>\0".contains(c),
            Self::Words => c != '\0',
        }
    }
}

/// Where a piece stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token {
    start: usize,
    /// Where the last component of a path begins.
    base: usize,
    end: usize,
    /// Whether a backslash stood before it, so that its first letter may belong to that.
    escaped: bool,
    /// Whether it is written like a long option, which is not a name with dashes around it.
    option: bool,
    /// Whether it stands for what only the shell will know.
    open: bool,
}

impl Suspect {
    fn new(program: &str, code: bool) -> Self {
        Self { program: program.to_owned(), text: String::new(), tokens: Vec::new(), code }
    }

    /// The same from texts as they are, and again without quotes where there are any: some shell may take them off.
    /// For patterns, which may hold any character, also in larger pieces.
    fn both(program: &str, code: bool, texts: &[&str]) -> impl Iterator<Item = Self> {
        let of = |pieces: Pieces| {
            let mut suspect = Self::new(program, code);
            texts.iter().for_each(|text| suspect.add(text, pieces));
            suspect
        };
        let bare = texts.iter().any(|text| text.contains(QUOTES)).then(|| {
            let mut bare = Self::new(program, code);
            texts.iter().for_each(|text| bare.add(&without_quotes(text), Pieces::Names));
            bare
        });
        // Most words come to the same either way.
        let differ =
            |more: Pieces, less: Pieces| texts.iter().any(|text| text.chars().any(|c| more.holds(c) && !less.holds(c)));
        let values = differ(Pieces::Values, Pieces::Names).then(|| of(Pieces::Values));
        let words = (!code && differ(Pieces::Words, Pieces::Values)).then(|| of(Pieces::Words));
        let all = std::iter::once(of(Pieces::Names)).chain(bare).chain(values).chain(words);
        all.filter(|suspect| suspect.len() > 0)
    }

    /// Takes a text apart.
    fn add(&mut self, written: &str, pieces: Pieces) {
        let mut before = ' ';
        let mut token: Option<Token> = None;
        for c in written.chars().map(Some).chain([None]) {
            let held = c.filter(|c| pieces.holds(*c));
            if let Some(c) = held {
                let at = self.text.len();
                let escaped = before == '\\';
                let one = token.get_or_insert(Token {
                    start: at,
                    base: at,
                    end: at,
                    escaped,
                    option: matches!(before, ' ' | '\'' | '"'),
                    open: false,
                });
                self.text.push(c);
                one.end = self.text.len();
                if c == '/' {
                    one.base = one.end;
                }
            } else if let Some(mut one) = token.take() {
                one.option &= self.text.get(one.start..one.end).is_some_and(|text| text.starts_with("--"));
                self.tokens.push(one);
                self.text.push(' ');
                // `git-push` is `git push`. No subcommand is called so again, and a long row of them would go deep.
                let name = self.text.get(one.base..one.end).and_then(|name| name.strip_prefix("git-"));
                let name = name.filter(|rest| !rest.starts_with("git-"));
                if let Some(subcommand) = name.map(str::to_owned) {
                    self.add("git", pieces);
                    self.add(&subcommand, pieces);
                }
            }
            if c == Some('\0') {
                let at = self.text.len();
                self.tokens.push(Token { start: at, base: at, end: at, escaped: false, option: false, open: true });
            }
            before = c.unwrap_or(' ');
        }
    }

    /// The program that may run something.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// All pieces.
    pub(crate) fn text(&self) -> &str {
        self.text.trim_end()
    }

    /// Whether a name alone counts.
    pub(crate) fn is_code(&self) -> bool {
        self.code
    }

    /// How many pieces there are.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The names that the piece could be meant as, and whether each goes to the piece's end.
    pub(crate) fn names(&self, at: usize) -> impl Iterator<Item = (&str, bool)> {
        let whole = self.beginnings(at).filter_map(move |(from, to)| self.text.get(from..to));
        whole.map(|name| (name, true)).chain(self.parts(at))
    }

    /// The components of a piece, without what may stand around a name.
    fn parts(&self, at: usize) -> impl Iterator<Item = (&str, bool)> {
        let token = self.tokens.get(at).filter(|token| !token.open && !token.option);
        let text = token.and_then(|token| self.text.get(token.start..token.end)).unwrap_or_default();
        text.split('/').rev().enumerate().flat_map(|(behind, part)| {
            let plain = part.trim_matches(AROUND);
            let quoted = NAMED_QUOTES.iter().find_map(|quote| plain.strip_prefix(quote));
            let quoted = quoted.filter(|rest| rest.starts_with(AROUND)).map(|rest| rest.trim_matches(AROUND));
            std::iter::once(plain).chain(quoted).map(move |name| (name, behind == 0))
        })
    }

    fn beginnings(&self, at: usize) -> impl Iterator<Item = (usize, usize)> {
        let token = self.tokens.get(at).copied().filter(|token| !token.open);
        token.into_iter().flat_map(|token| {
            let text = self.text.get(token.start..token.end).unwrap_or_default();
            let plus = usize::from(text.starts_with('+'));
            let option = text.get(plus..).unwrap_or_default();
            let is_option = option.starts_with('-') && !option.starts_with("--");
            let from = token.start + plus;
            let letters = (2..2 + MAX_LETTERS).filter(move |_| is_option).map(move |letters| from + letters);
            let base = (token.base > token.start).then_some(token.base);
            let escaped = (1..=MAX_ESCAPE).filter(move |_| token.escaped).map(move |width| token.start + width);
            let all = std::iter::once(token.start).chain(base).chain(escaped).chain(letters);
            all.filter(move |from| *from < token.end).map(move |from| (from, token.end))
        })
    }

    /// Whether a piece's first letters may belong to an escape.
    pub(crate) fn is_escaped(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.escaped)
    }

    /// What a pattern that is tied to a beginning is tried on: pieces up to a bound, and one alone.
    pub(crate) fn windows(&self, at: usize) -> impl Iterator<Item = &str> {
        let last = self.tokens.iter().skip(at).take_while(|token| !token.open).take(WINDOW).last();
        let far = last.map_or(0, |token| token.end);
        let whole = self.beginnings(at).map(move |(from, _)| self.text.get(from..far));
        whole.flatten().chain(self.parts(at).map(|(part, _)| part))
    }

    /// Whether these pieces follow behind one, in this order, perhaps with others between them.
    pub(crate) fn follows(&self, at: usize, pieces: &[String]) -> bool {
        let mut wanted = pieces.iter().peekable();
        for token in self.tokens.iter().skip(at + 1) {
            let Some(next) = wanted.peek() else { break };
            if self.text.get(token.start..token.end) == Some(next.as_str()) {
                wanted.next();
            }
        }
        wanted.peek().is_none()
    }

    /// Whether something that only the shell will know follows behind a piece.
    pub(crate) fn has_open_behind(&self, at: usize) -> bool {
        self.tokens.iter().skip(at + 1).any(|token| token.open)
    }
}

/// The pieces that a rule's words come to.
pub(crate) fn pieces(words: &[String]) -> Vec<String> {
    let mut all = Suspect::new("", false);
    words.iter().for_each(|word| all.add(word, Pieces::Names));
    all.text().split(' ').filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

const QUOTES: [char; 3] = ['\'', '"', '\\'];

/// A text without its quotes, whatever they hold.
fn without_quotes(text: &str) -> String {
    let quoted = text.replace("$'", "'").replace("$\"", "\"");
    quoted.replace(QUOTES, "")
}

/// Whether a shell would make more than a word of a text.
fn is_text(text: &str) -> bool {
    text.contains([' ', '\t', '\n', ';', '|', '&', '$', '`', '\'', '"', '\\'])
}

impl Work<'_> {
    /// Takes note of what a program is given that may run it.
    pub(super) fn suspect(&mut self, name: &str, args: &[Word], place: &Place) {
        if self.possible || !place.certain {
            return;
        }
        let (code, input_is_code) = scripts::code(name, args);
        self.takes(args, place);
        let (mut words, mut programs) = (Vec::new(), Vec::new());
        for (at, word) in args.iter().enumerate() {
            let texts = if code.contains(&at) { &mut programs } else { &mut words };
            texts.push(word.written());
            self.possible_texts(word.written(), place);
        }
        if let Some(text) = place.input.written() {
            let texts = if input_is_code { &mut programs } else { &mut words };
            texts.push(text);
            self.possible_texts(text, place);
        }
        self.analysis.suspects.extend(Suspect::both(name, false, &words));
        self.analysis.suspects.extend(Suspect::both(name, true, &programs));
    }

    /// The same for the value of a variable, which some program may run.
    pub(super) fn suspect_value(&mut self, name: &str, value: &str, place: &Place) {
        if self.possible || value.is_empty() {
            return;
        }
        self.possible_texts(value, place);
        self.analysis.suspects.extend(Suspect::both(name, false, &[value]));
    }

    /// Texts that may be commands: they are looked into, and nothing is held against them.
    fn possible_texts(&mut self, written: &str, place: &Place) {
        let value = written.split_once('=').map(|(_, value)| value);
        for text in std::iter::once(written).chain(value).filter(|text| is_text(text) && !text.contains('\0')) {
            self.text(text, &Place { level: place.level + 1, possible: true, ..place.clone() });
        }
    }
}
