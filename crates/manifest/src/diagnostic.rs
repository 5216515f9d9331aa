//! What is wrong, where, and what to do: one form for every error and warning about a manifest.
//!
//! A diagnostic owns the line it points at, so it can be rendered after the file is gone. It does not
//! print and knows no colours; the command line does that.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::source::Source;
use crate::yaml::Location;

/// The stable codes of this crate. [`codes`] explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// `E-MAN-001`
    Unreadable,
    /// `E-MAN-002`
    Syntax,
    /// `E-MAN-003`
    Field,
    /// `E-MAN-004`
    Unsupported,
    /// `W-MAN-001`
    OutputLimit,
    /// `W-MAN-002`
    LiteralKey,
    /// `W-MAN-003`
    ClearText,
}

/// One row of the table of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeInfo {
    /// The code as it is printed.
    pub code: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

const CODES: &[(Code, CodeInfo)] = &[
    (
        Code::Unreadable,
        CodeInfo {
            code: "E-MAN-001",
            meaning: "the manifest, or a file or directory that it names, was not found or could not be read",
            remedy: "check the path and its permissions; `mur init` writes a starter manifest",
        },
    ),
    (
        Code::Syntax,
        CodeInfo {
            code: "E-MAN-002",
            meaning: "the file is not one plain YAML document: bad syntax, a key that stands twice, an anchor, a tag, bytes that are not UTF-8",
            remedy: "correct the place that the message points at",
        },
    ),
    (
        Code::Field,
        CodeInfo {
            code: "E-MAN-003",
            meaning: "a key is unknown or missing, or its value is of the wrong type, out of range or at odds with another",
            remedy: "correct the field that the message names; the message says what is accepted",
        },
    ),
    (
        Code::Unsupported,
        CodeInfo {
            code: "E-MAN-004",
            meaning: "the manifest is valid but declares something that this version does not enforce or offer; nothing declared is silently ignored",
            remedy: "remove the declaration, or use a version that supports it",
        },
    ),
    (
        Code::OutputLimit,
        CodeInfo {
            code: "W-MAN-001",
            meaning: "the model writes fewer tokens in one reply than `inference.max_tokens` asks for",
            remedy: "lower `inference.max_tokens`, or correct `max_output_tokens` of the model",
        },
    ),
    (
        Code::LiteralKey,
        CodeInfo {
            code: "W-MAN-002",
            meaning: "a credential stands literally in the manifest",
            remedy: "write `${NAME}` and put the value in the environment or in the credentials of `config.yaml`",
        },
    ),
    (
        Code::ClearText,
        CodeInfo {
            code: "W-MAN-003",
            meaning: "a credential is sent over plain `http` to another host",
            remedy: "use an `https` endpoint",
        },
    ),
];

/// The table of codes, for the documentation.
#[must_use]
pub fn codes() -> Vec<CodeInfo> {
    CODES.iter().map(|(_, info)| *info).collect()
}

impl Code {
    /// The code as it is printed, such as `E-MAN-003`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        CODES.iter().find(|(code, _)| *code == self).map_or("E-MAN-003", |(_, info)| info.code)
    }

    /// Whether this is a warning: the manifest is accepted.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        matches!(self, Self::OutputLimit | Self::LiteralKey | Self::ClearText)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One finding about a manifest or a file that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// The file, as the user or the manifest spelled it.
    pub file: PathBuf,
    /// The path of the field, such as `inference.retry.max_retries`; empty for the whole file.
    pub field: String,
    /// Line, from 1; absent when the whole file is meant.
    pub line: Option<u32>,
    /// Column in characters, from 1.
    pub column: Option<u32>,
    /// One lower-case sentence without a full stop.
    pub message: String,
    /// The values or keys that would be accepted, when they are few.
    pub accepted: Vec<String>,
    /// The accepted value or key that was probably meant.
    pub suggestion: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    excerpt: Option<String>,
    length: u32,
}

impl Diagnostic {
    pub(crate) fn of_path(code: Code, file: &Path, message: impl Into<String>) -> Self {
        Self {
            code,
            file: file.to_path_buf(),
            field: String::new(),
            line: None,
            column: None,
            message: message.into(),
            accepted: Vec::new(),
            suggestion: None,
            hint: None,
            excerpt: None,
            length: 1,
        }
    }

    pub(crate) fn in_file(code: Code, source: &Source, message: impl Into<String>) -> Self {
        Self::of_path(code, source.path(), message)
    }

    pub(crate) fn at(code: Code, source: &Source, at: Location, message: impl Into<String>) -> Self {
        Self {
            line: Some(at.line),
            column: Some(at.column),
            excerpt: source.excerpt(at),
            length: at.length,
            ..Self::in_file(code, source, message)
        }
    }

    pub(crate) fn field(mut self, field: String) -> Self {
        self.field = field;
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<&str>) -> Self {
        self.hint = hint.map(str::to_owned);
        self
    }

    pub(crate) fn accepted<'a>(mut self, accepted: impl IntoIterator<Item = &'a str>) -> Self {
        self.accepted = accepted.into_iter().map(str::to_owned).collect();
        self
    }

    /// The accepted word nearest to `given`, when one is near enough to have been meant.
    pub(crate) fn suggest(mut self, given: &str) -> Self {
        self.suggestion = nearest(given, self.accepted.iter().map(String::as_str));
        self
    }

    /// What to do, in a sentence.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The finding in several lines, with the place it points at. Ends with a newline.
    ///
    /// ```text
    /// error[E-MAN-003]: `inference` has no key `max_tokenz`
    ///   --> murmur.yaml:9:3
    ///    |
    ///  9 |   max_tokenz: 4096
    ///    |   ^^^^^^^^^^
    ///    = hint: did you mean `max_tokens`?
    /// ```
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        let kind = if self.code.is_warning() { "warning" } else { "error" };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{kind}[{}]: {}", self.code, self.message);
        let number = self.line.map(|line| line.to_string()).unwrap_or_default();
        let margin = " ".repeat(number.len().max(1));
        let _ = write!(out, "{margin}--> {}", shown_path(&self.file));
        if let (Some(line), Some(column)) = (self.line, self.column) {
            let _ = write!(out, ":{line}:{column}");
        }
        let _ = writeln!(out, "{}", self.field_if_unnamed());
        if let (Some(excerpt), Some(column)) = (&self.excerpt, self.column) {
            let lead = usize::try_from(column).unwrap_or(1).saturating_sub(1);
            let room = excerpt.chars().count().saturating_sub(lead).max(1);
            let carets = usize::try_from(self.length).unwrap_or(1).clamp(1, room);
            let _ = writeln!(out, "{margin} |");
            let _ = writeln!(out, "{number} | {excerpt}");
            if lead <= excerpt.chars().count() {
                let _ = writeln!(out, "{margin} | {}{}", " ".repeat(lead), "^".repeat(carets));
            }
        }
        if let Some(suggestion) = &self.suggestion {
            let _ = writeln!(out, "{margin} = hint: did you mean `{suggestion}`?");
        }
        if !self.accepted.is_empty() {
            let _ = writeln!(out, "{margin} = accepted: {}", self.accepted.join(", "));
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(out, "{margin} = hint: {hint}");
        }
        out
    }

    /// The field's path in brackets, when the message does not name it.
    fn field_if_unnamed(&self) -> String {
        if self.message.contains(&self.field) { String::new() } else { format!(" ({})", self.field) }
    }

    /// The finding as one JSON object: code, severity, file, field, line, column, message, accepted,
    /// suggestion, hint. Absent values are null.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "code": self.code.as_str(),
            "severity": if self.code.is_warning() { "warning" } else { "error" },
            "file": self.file.to_string_lossy(),
            "field": self.field,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "accepted": self.accepted,
            "suggestion": self.suggestion,
            "hint": self.hint,
        })
    }
}

/// One line: `murmur.yaml:9:3: error[E-MAN-003]: …`.
impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown_path(&self.file))?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ":{line}:{column}")?;
        }
        let kind = if self.code.is_warning() { "warning" } else { "error" };
        write!(f, ": {kind}[{}]: {}{}", self.code, self.message, self.field_if_unnamed())
    }
}

impl From<Diagnostic> for Rejected {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { diagnostics: vec![diagnostic], omitted: 0 }
    }
}

/// A manifest that was not accepted: every finding, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", summary(diagnostics, *omitted))]
pub struct Rejected {
    diagnostics: Vec<Diagnostic>,
    omitted: usize,
}

/// Findings that are kept: nobody reads more, and a hostile file has thousands.
const MAX_FINDINGS: usize = 100;

impl Rejected {
    pub(crate) fn new(mut diagnostics: Vec<Diagnostic>) -> Self {
        let omitted = diagnostics.len().saturating_sub(MAX_FINDINGS);
        diagnostics.truncate(MAX_FINDINGS);
        Self { diagnostics, omitted }
    }

    pub(crate) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    /// The findings, in the order of the file; at least one, at most 100.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The code of the first finding.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.diagnostics.first().map_or("E-MAN-003", |first| first.code.as_str())
    }

    /// What to do about the first finding.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.diagnostics.first().and_then(Diagnostic::hint)
    }

    /// Every finding in several lines, an empty line between two.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = self.diagnostics.iter().map(Diagnostic::render).collect::<Vec<_>>().join("\n");
        if self.omitted > 0 {
            let _ = writeln!(out, "\n{} more are not shown", self.omitted);
        }
        out
    }
}

fn summary(diagnostics: &[Diagnostic], omitted: usize) -> String {
    match diagnostics {
        [] => "the manifest was not accepted".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len() + omitted),
    }
}

/// A text of the user in a message: printable, at most 80 characters.
pub(crate) fn shown(text: &str) -> String {
    const LIMIT: usize = 80;
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == LIMIT {
            out.push('…');
            break;
        }
        if c.is_control() || is_bidi(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that change the direction of what stands around them: a message must not be reordered.
pub(crate) const fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

fn shown_path(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

/// The word of `known` that `given` was probably meant to be.
pub(crate) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // The distance costs length times length, and no key is this long.
    if given.len() > 64 {
        return None;
    }
    let folded = given.to_lowercase().replace('-', "_");
    known
        .map(|word| (strsim::damerau_levenshtein(&folded, &word.to_lowercase().replace('-', "_")), word))
        .filter(|(distance, word)| *distance <= (word.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word.to_owned())
}
