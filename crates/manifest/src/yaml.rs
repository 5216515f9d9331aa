//! YAML text to a tree of nodes that know where they stand.
//!
//! The tree is built from parser events, not through serde: only so do quotes survive until the type
//! is known (`1.0` is not a text, `"1.0"` is), and only so can a decoder go on after an error. YAML
//! that an author of a manifest does not need (anchors, aliases, tags, merge keys, several documents)
//! is refused, which leaves no way to make a small file large.

use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span};

use crate::diagnostic::{Code, Diagnostic, Rejected, shown};
use crate::private::{hides_key, is_private_key};
use crate::source::Source;

/// Nodes that one file may hold.
pub(crate) const MAX_NODES: usize = 10_000;
/// Mappings and lists inside one another.
pub(crate) const MAX_DEPTH: usize = 32;

/// Where a node stands: line and column count from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) length: u32,
}

impl Location {
    fn of(span: &Span) -> Self {
        let (start, end) = (&span.start, &span.end);
        let length = if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
        Self {
            line: u32::try_from(start.line()).unwrap_or(u32::MAX),
            column: u32::try_from(start.col()).map_or(u32::MAX, |column| column.saturating_add(1)),
            length: u32::try_from(length).unwrap_or(1).max(1),
        }
    }
}

/// One value of the file.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) location: Location,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A scalar; `plain` is what an unquoted one stands for.
    Scalar {
        text: String,
        plain: Plain,
    },
    List(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// What a scalar stands for by the YAML 1.2 core schema.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Plain {
    Text,
    Null,
    Bool(bool),
    Integer,
    Float,
}

/// One key of a mapping, in the order of the file.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) location: Location,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) const fn empty_mapping(location: Location) -> Self {
        Self { kind: Kind::Mapping(Vec::new()), location }
    }

    /// The value under `key`, when this is a mapping that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Mapping(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.value),
            Kind::Scalar { .. } | Kind::List(_) => None,
        }
    }

    /// What an error says that it found.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Scalar { plain: Plain::Null, .. } => "nothing".to_owned(),
            Kind::Scalar { text, plain: Plain::Bool(_) } => format!("`{text}`"),
            Kind::Scalar { text, plain: Plain::Integer | Plain::Float } => {
                format!("the number `{}`", shown(text))
            }
            Kind::Scalar { text, .. } if text.is_empty() => "an empty text".to_owned(),
            Kind::Scalar { text, .. } => format!("the text `{}`", shown(text)),
            Kind::List(_) => "a list".to_owned(),
            Kind::Mapping(_) => "a mapping".to_owned(),
        }
    }
}

/// The one document of `source`.
pub(crate) fn parse(source: &Source) -> Result<Node, Rejected> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    let mut parser = Parser::new_from_str_with_options(source.text(), options);
    let mut builder = Builder { source, open: Vec::new(), root: None, nodes: 0, found: Vec::new() };
    while let Some(event) = parser.next_event() {
        let taken = match event {
            Ok((event, span)) => builder.take(event, Location::of(&span)),
            Err(error) => builder.stop(syntax(source, &error)),
        };
        if taken.is_none() {
            return Err(Rejected::new(builder.found));
        }
    }
    match builder.root {
        _ if !builder.found.is_empty() => Err(Rejected::new(builder.found)),
        Some(Node { kind: Kind::Scalar { plain: Plain::Null, .. }, .. }) | None => {
            Err(Rejected::from(Diagnostic::in_file(Code::Syntax, source, "the file is empty").with_hint(
                "`mur init` writes a commented starter; the least that runs is `name`, `version`, \
                 `artifacts` and `inference`",
            )))
        }
        Some(node) => Ok(node),
    }
}

fn syntax(source: &Source, error: &ScanError) -> Diagnostic {
    use serde_saphyr::granit_parser::ErrorKind;
    let span = Span::empty(*error.marker());
    let at = Location::of(&span);
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(source, at),
        ErrorKind::UnknownAnchor => no_anchors(source, at),
        kind => {
            let diagnostic = Diagnostic::at(Code::Syntax, source, at, format!("not valid YAML: {kind}"));
            if source.line(at.line).is_some_and(|line| line.trim_start_matches(' ').starts_with('\t')) {
                diagnostic.with_hint("YAML is indented with spaces, not with tabs")
            } else if matches!(kind, ErrorKind::MappingValueNotAllowed) {
                diagnostic.with_hint("quote a text that holds a colon and a space")
            } else {
                diagnostic
            }
        }
    }
}

fn too_deep(source: &Source, at: Location) -> Diagnostic {
    let message = format!("lists and mappings nest deeper than {MAX_DEPTH} levels");
    Diagnostic::at(Code::Syntax, source, at, message)
}

fn no_anchors(source: &Source, at: Location) -> Diagnostic {
    Diagnostic::at(Code::Syntax, source, at, "anchors and aliases are not accepted")
        .with_hint("write the value out where it is needed; quote a text that begins with `*` or `&`")
}

/// A list or mapping whose end has not come yet.
enum Open {
    List { location: Location, items: Vec<Node> },
    Mapping { location: Location, entries: Vec<Entry>, key: Option<(String, Location)> },
}

struct Builder<'s> {
    source: &'s Source,
    open: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
    found: Vec<Diagnostic>,
}

impl Builder<'_> {
    /// Notes what ends the reading.
    fn stop<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.found.push(diagnostic);
        None
    }

    fn refuse<T>(&mut self, at: Location, message: &str, hint: &str) -> Option<T> {
        self.stop(Diagnostic::at(Code::Syntax, self.source, at, message).with_hint(hint))
    }

    fn take(&mut self, event: Event<'_>, at: Location) -> Option<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.admit(anchor, tag.is_some(), at)?;
                let plain = if style == ScalarStyle::Plain { resolve(&text) } else { Plain::Text };
                self.add(Node { kind: Kind::Scalar { text: text.into_owned(), plain }, location: at })
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.admit(anchor, tag.is_some(), at)?;
                self.enter(Open::List { location: at, items: Vec::new() }, at)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.admit(anchor, tag.is_some(), at)?;
                self.enter(Open::Mapping { location: at, entries: Vec::new(), key: None }, at)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { location, items }) => self.add(Node { kind: Kind::List(items), location }),
                Some(Open::Mapping { location, entries, .. }) => {
                    self.add(Node { kind: Kind::Mapping(entries), location })
                }
                None => Some(()),
            },
            Event::DocumentStart(..) if self.root.is_some() => self.refuse(
                at,
                "a second YAML document begins here",
                "a manifest is one document: remove the `---` and what follows it",
            ),
            Event::Alias(_) | Event::UnresolvedAlias(_) | Event::Anchor(..) => self.stop(no_anchors(self.source, at)),
            _ => Some(()),
        }
    }

    /// Counts a node and refuses the properties that none may carry.
    fn admit(&mut self, anchor: usize, tagged: bool, at: Location) -> Option<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let message = format!("the file holds more than {MAX_NODES} values");
            return self.stop(Diagnostic::at(Code::Syntax, self.source, at, message));
        }
        if anchor != 0 {
            return self.stop(no_anchors(self.source, at));
        }
        if tagged {
            let hint = "remove the `!tag`; quote a text that begins with `!`";
            return self.refuse(at, "YAML tags are not accepted", hint);
        }
        Some(())
    }

    fn enter(&mut self, open: Open, at: Location) -> Option<()> {
        if let Some(Open::Mapping { key: None, .. }) = self.open.last() {
            let message = "a key must be a text, found a list or a mapping";
            return self.refuse(at, message, "quote a text that begins with `{` or `[`");
        }
        if self.open.len() >= MAX_DEPTH {
            return self.stop(too_deep(self.source, at));
        }
        self.open.push(open);
        Some(())
    }

    fn add(&mut self, node: Node) -> Option<()> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Mapping { entries, key, .. }) => match key.take() {
                Some((name, location)) => entries.push(Entry { key: name, location, value: node }),
                None => return self.add_key(node),
            },
        }
        Some(())
    }

    fn add_key(&mut self, node: Node) -> Option<()> {
        let private = self.open.iter().any(|open| match open {
            Open::Mapping { key: Some((key, _)), .. } => is_private_key(key),
            Open::Mapping { .. } | Open::List { .. } => false,
        });
        let Some(Open::Mapping { entries, key, .. }) = self.open.last_mut() else { return Some(()) };
        match read_key(self.source, node, entries, private, &mut self.found) {
            Ok(read) => *key = Some(read),
            Err(diagnostic) => return self.stop(*diagnostic),
        }
        Some(())
    }
}

/// The text of a key; a repeated one is noted and reading goes on, so that all are found.
fn read_key(
    source: &Source,
    node: Node,
    before: &[Entry],
    private: bool,
    found: &mut Vec<Diagnostic>,
) -> Result<(String, Location), Box<Diagnostic>> {
    let location = node.location;
    let described = if private { "something else".to_owned() } else { node.describe() };
    let refuse = |message: String, hint: &str| {
        Err(Box::new(Diagnostic::at(Code::Syntax, source, location, message).with_hint(hint)))
    };
    let (text, plain) = match node.kind {
        Kind::Scalar { text, plain } => (text, plain),
        Kind::List(_) | Kind::Mapping(_) => {
            return refuse(format!("a key must be a text, found {described}"), "write the key as one word");
        }
    };
    if plain != Plain::Text {
        return refuse(format!("a key must be a text, found {described}"), "write the key in quotes");
    }
    if text == "<<" {
        return refuse("merge keys (`<<`) are not accepted".to_owned(), "write the keys out where they are needed");
    }
    if let Some(first) = before.iter().find(|entry| entry.key == text) {
        let key = if hides_key(private, &text) { "a key".to_owned() } else { format!("the key `{}`", shown(&text)) };
        let message = format!("{key} stands twice, first on line {}", first.location.line);
        let diagnostic = Diagnostic::at(Code::Syntax, source, location, message);
        found.push(diagnostic.with_hint("keep one of the two; nothing is merged"));
    }
    Ok((text, location))
}

/// What an unquoted scalar stands for by the YAML 1.2 core schema; `yes`, `on` and `1_000` are texts.
pub(crate) fn resolve(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "true" | "True" | "TRUE" => return Plain::Bool(true),
        "false" | "False" | "FALSE" => return Plain::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Plain::Float,
        _ => {}
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Plain::Float;
    }
    let all = |digits: &str, test: fn(&char) -> bool| !digits.is_empty() && digits.chars().all(|c| test(&c));
    if all(unsigned, char::is_ascii_digit)
        || text.strip_prefix("0x").is_some_and(|hex| all(hex, char::is_ascii_hexdigit))
        || text.strip_prefix("0o").is_some_and(|oct| all(oct, |c| matches!(c, '0'..='7')))
    {
        return Plain::Integer;
    }
    if is_float(unsigned) { Plain::Float } else { Plain::Text }
}

/// `(\. [0-9]+ | [0-9]+ (\. [0-9]*)?) ([eE] [-+]? [0-9]+)?`
fn is_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let exponent_ok = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let mantissa_ok = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    exponent_ok && mantissa_ok
}

#[cfg(test)]
mod tests {
    use super::{Plain, resolve};

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for (text, expected) in [
            ("", Plain::Null),
            ("~", Plain::Null),
            ("true", Plain::Bool(true)),
            ("FALSE", Plain::Bool(false)),
            ("yes", Plain::Text),
            ("off", Plain::Text),
            ("tRue", Plain::Text),
            ("0", Plain::Integer),
            ("-12", Plain::Integer),
            ("0755", Plain::Integer),
            ("0x1F", Plain::Integer),
            ("0o17", Plain::Integer),
            ("0x", Plain::Text),
            ("0o8", Plain::Text),
            ("1_000", Plain::Text),
            ("1.0", Plain::Float),
            ("1.", Plain::Float),
            (".5", Plain::Float),
            ("1e3", Plain::Float),
            ("-.inf", Plain::Float),
            (".nan", Plain::Float),
            (".", Plain::Text),
            ("1e", Plain::Text),
            ("e5", Plain::Text),
            ("+", Plain::Text),
            ("0.1.0", Plain::Text),
            ("2026-10-24", Plain::Text),
            ("1:30", Plain::Text),
        ] {
            assert_eq!(resolve(text), expected, "{text}");
        }
    }
}
