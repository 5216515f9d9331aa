//! The name of the place that fenced content came from, made safe to stand in a marker.
//!
//! Sanitising happens once, at construction, so every use of a `Source` (the marker, a record's
//! `fence` field, a frame's `fence_source`) shows the same name. It does not judge whether a name is
//! a good one: names that a remote party chose are checked where they are admitted.

use std::fmt;

use crate::block::neutralise;

/// A sanitised source name, as it stands in the opening marker: `tool:<name>`,
/// `tool:<connection>/<tool>`, `task:<origin>` or `runtime:compaction`.
///
/// Markers in the name are rewritten, then `>` becomes `_` and a carriage return or a newline a
/// space.
///
/// ```
/// assert_eq!(fence::Source::tool("a>b\nc").as_str(), "tool:a_b c");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source(String);

impl Source {
    /// A tool's result, by the name that the model called.
    #[must_use]
    pub fn tool(name: &str) -> Self {
        Self::sanitised(&format!("tool:{name}"))
    }

    /// The result of a tool that a connection or a mod offers: `tool:<connection>/<tool>`.
    #[must_use]
    pub fn tool_of(connection: &str, tool: &str) -> Self {
        Self::sanitised(&format!("tool:{connection}/{tool}"))
    }

    /// A task's payload: `task:<origin>`.
    #[must_use]
    pub fn task(origin: &str) -> Self {
        Self::sanitised(&format!("task:{origin}"))
    }

    /// A summary of earlier turns that the runtime had made: `runtime:compaction`. A model wrote it over
    /// whatever the turns held, so it is no word of the runtime or the operator.
    #[must_use]
    pub fn compaction() -> Self {
        Self::sanitised("runtime:compaction")
    }

    /// A name that was stored with a fenced text. Sanitised again, which changes no name that this
    /// type ever gave out and disarms one that was tampered with.
    #[must_use]
    pub fn restore(stored: &str) -> Self {
        Self::sanitised(stored)
    }

    /// The name as it stands in the marker.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn sanitised(name: &str) -> Self {
        Self(neutralise(name).replace('>', "_").replace(['\r', '\n'], " "))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
