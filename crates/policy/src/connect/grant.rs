//! The right of an agent to call a tool, with what the operator saw when it was given.

use serde::{Deserialize, Serialize};

use super::name::{is_agent, is_digest, is_id, is_mod, is_tool};

/// The right of one agent to call one tool of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Whose it is, and for what.
    pub pinned: Pinned,
    /// Why it does not hold until it is given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspended>,
}

/// A grant with what the operator saw when it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pinned {
    /// The agent: a capsule's name.
    pub agent: String,
    /// The connection's id.
    pub connection: String,
    /// The tool's exact name.
    pub tool: String,
    /// The digest of the tool's definition.
    pub definition: String,
    /// The digest of the connection's settings.
    pub settings: String,
}

/// What changed under a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspended {
    /// The tool's description or input schema.
    Definition,
    /// The connection's command, address or environment.
    Settings,
}

impl Pinned {
    /// Whether it is for this agent, connection and tool, whatever was seen.
    pub(super) fn is_for(&self, agent: &str, connection: &str, tool: &str) -> bool {
        (&*self.agent, &*self.connection, &*self.tool) == (agent, connection, tool)
    }

    /// Whether each of its parts can be what it stands for.
    pub(super) fn is_whole(&self) -> bool {
        is_agent(&self.agent)
            && (is_id(&self.connection) || is_mod(&self.connection))
            && is_tool(&self.tool)
            && is_digest(&self.definition)
            && is_digest(&self.settings)
    }
}
