//! A command that could not be done: a code, a sentence, what to do, and the exit status.

use std::io::Write as _;

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
    /// Whether the message is already in its final form.
    rendered: bool,
    status: u8,
}

impl Failure {
    /// Wrong usage or something that does not exist: exit status 2.
    pub(crate) fn unusable(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), hint: None, rendered: false, status: UNUSABLE }
    }

    /// Findings about a manifest, in the form in which they are printed: exit status 2.
    pub(crate) fn rendered(text: impl Into<String>) -> Self {
        Self { rendered: true, ..Self::unusable(text) }
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

    /// Writes it to stderr.
    pub(crate) fn print(&self) {
        let mut err = anstream::stderr().lock();
        if self.rendered {
            let _ = writeln!(err, "{}", self.message.trim_end());
            return;
        }
        let red = anstyle::AnsiColor::Red.on_default().bold();
        let dim = anstyle::Style::new().dimmed();
        let code = self.code.map(|code| format!("[{code}]")).unwrap_or_default();
        // A closed stderr leaves nobody to tell.
        let _ = writeln!(err, "{red}error{code}{red:#}: {}", self.message);
        if let Some(hint) = &self.hint {
            let _ = writeln!(err, "  {dim}hint:{dim:#} {hint}");
        }
    }
}

impl From<std::io::Error> for Failure {
    /// Standard output or input that failed.
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}
