//! A command that could not be done: a code, a sentence, what to do, and the exit status.

use std::path::Path;

use manifest::Diagnostic;
use serde_json::{Value, json};

use crate::terminal::tell;

/// Exit status of a task that ended other than ok, and of a check that found something.
pub(crate) const FAILED: u8 = 1;
/// Exit status of wrong usage, a bad manifest, or a launch that could not be.
pub(crate) const UNUSABLE: u8 = 2;
/// Exit status of a session that was told to end in the middle of a task.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command ends, in words for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    code: Option<&'static str>,
    message: String,
    hint: Option<String>,
    findings: Option<Findings>,
    status: u8,
}

/// Findings about a manifest: as people and as programs get them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Findings {
    rendered: String,
    diagnostics: Vec<Value>,
}

impl Failure {
    /// What went wrong, in a sentence.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub(crate) fn what_to_do(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Wrong usage or something that does not exist: exit status 2.
    pub(crate) fn unusable(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), hint: None, findings: None, status: UNUSABLE }
    }

    /// Findings about a manifest, and the form in which they are printed; the first one speaks for all. Exit
    /// status 2.
    pub(crate) fn findings(diagnostics: &[Diagnostic], rendered: String) -> Self {
        let first = diagnostics.first();
        let hint = first.and_then(|first| {
            let meant = || first.suggestion.as_ref().map(|word| format!("did you mean `{word}`?"));
            first.hint().map(str::to_owned).or_else(meant)
        });
        let diagnostics = diagnostics.iter().map(Diagnostic::to_json).collect();
        Self {
            code: first.map(|first| first.code.as_str()),
            hint,
            findings: Some(Findings { rendered, diagnostics }),
            ..Self::unusable(first.map(ToString::to_string).unwrap_or_default())
        }
    }

    /// Something that went wrong on the way: exit status 1.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { status: FAILED, ..Self::unusable(message) }
    }

    /// The same, of a task that had begun: exit status 1.
    pub(crate) fn on_the_way(self) -> Self {
        Self { status: FAILED, ..self }
    }

    /// Adds a stable code.
    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Adds what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    /// What went wrong, as the line of `mur run --json` that stands for a session that did not start: code,
    /// message, hint, and the findings when they are about a manifest, as `mur check --json` gives them.
    pub(crate) fn event(&self) -> Value {
        let diagnostics = self.findings.as_ref().map(|findings| findings.diagnostics.as_slice()).unwrap_or_default();
        json!({
            "event": "error",
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "diagnostics": diagnostics,
        })
    }

    /// What went wrong, in the form of a finding about the whole of a manifest.
    pub(crate) fn diagnostic(&self, file: &Path, severity: &str) -> Value {
        json!({
            "code": self.code,
            "severity": severity,
            "file": file.to_string_lossy(),
            "field": "",
            "line": null,
            "column": null,
            "message": self.message,
            "accepted": [],
            "suggestion": null,
            "hint": self.hint,
        })
    }

    /// Writes it to stderr.
    pub(crate) fn print(&self) {
        self.print_as("error", anstyle::AnsiColor::Red);
    }

    /// Writes it to stderr as something that does not stop the command.
    pub(crate) fn warn(&self) {
        self.print_as("warning", anstyle::AnsiColor::Yellow);
    }

    /// As one line among others that warn, without colours.
    pub(crate) fn warning_line(&self) -> String {
        let code = self.code.map(|code| format!("[{code}]")).unwrap_or_default();
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("warning{code}: {}{hint}\n", self.message)
    }

    fn print_as(&self, word: &str, colour: anstyle::AnsiColor) {
        if let Some(findings) = &self.findings {
            // A closed stderr leaves nobody to tell.
            let _ = tell(&format!("{}\n", findings.rendered.trim_end()));
            return;
        }
        let style = colour.on_default().bold();
        let dim = anstyle::Style::new().dimmed();
        let code = self.code.map(|code| format!("[{code}]")).unwrap_or_default();
        let mut lines = format!("{style}{word}{code}{style:#}: {}\n", self.message);
        if let Some(hint) = &self.hint {
            lines.push_str(&format!("  {dim}hint:{dim:#} {hint}\n"));
        }
        let _ = tell(&lines);
    }
}

impl From<std::io::Error> for Failure {
    /// Standard output or input that failed.
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}
