//! What a call of a connection's tool leaves for the trace.

use std::time::Duration;

/// What is recorded of a call that came as far as its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpFacts {
    /// The connection's id.
    pub connection: String,
    /// What people call it.
    pub name: String,
    /// The tool's exact name.
    pub tool: String,
    /// `stdio`, `http` or `mod`.
    pub transport: &'static str,
    /// How many processes were started for the call: none where one was kept, or behind an address; two when the first
    /// did not do.
    pub started: usize,
    /// From the first step towards the server to its answer.
    pub took: Duration,
}
