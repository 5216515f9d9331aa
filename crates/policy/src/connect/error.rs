//! Why a change of connections and grants is refused, told so that the operator can act.

use super::Unfit;
use super::document::MOST;

/// Why a change of the record is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionsError {
    /// A connection that cannot be used as it is described.
    #[error("the connection `{name}` {fault}")]
    Unfit {
        /// The connection's name.
        name: String,
        /// What is wrong with it.
        fault: Unfit,
    },
    /// No such connection, or several of that name.
    #[error("`{0}` is neither the id of a connection nor the name of exactly one")]
    Selected(String),
    /// No such tool in its catalog.
    #[error("the connection `{connection}` offers no tool `{tool}`")]
    Tool {
        /// The connection's name.
        connection: String,
        /// The tool.
        tool: String,
    },
    /// The tool cannot be called.
    #[error("the tool `{tool}` cannot be used: {why}")]
    Unusable {
        /// The tool.
        tool: String,
        /// Why.
        why: String,
    },
    /// No such grant.
    #[error("`{agent}` has no grant for `{tool}` of `{connection}`")]
    NotGranted {
        /// The agent.
        agent: String,
        /// The connection's name.
        connection: String,
        /// The tool.
        tool: String,
    },
    /// An agent's name that none can have.
    #[error("`{0}` cannot be the name of a capsule")]
    Agent(String),
    /// The record is full.
    #[error("there are {MOST} already, and no more are taken")]
    Full,
}

impl ConnectionsError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unfit { fault, .. } => fault.hint(),
            Self::Selected(_) => "`mur mcp list` shows ids and names",
            Self::Tool { .. } => "names are exact; `mur mcp discover` shows what it offers",
            Self::Unusable { .. } => "only its server can change that",
            Self::NotGranted { .. } => "`mur mcp list` shows who has what",
            Self::Agent(_) => "it is the `name` of the capsule's manifest",
            Self::Full => "remove what is not used",
        }
    }
}
