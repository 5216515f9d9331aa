//! Whether an agent may call a tool of a connection, by what holds at this moment.

use std::sync::Arc;

use super::{Catalog, Connection, Connections, Connectors, Reach};
use crate::Unreadable;

/// What stands in the way of a call, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The agent may call it.
    Granted,
    /// No enabled connection has that id, or that name alone.
    ProviderNotAvailable,
    /// The connection is not known to offer it, or offers it in a form that cannot be called.
    ToolNotFound,
    /// It was never granted to this agent, or not any more.
    ToolNotGranted,
    /// It was granted, and the tool or the connection is another one since.
    ToolChanged,
}

impl Standing {
    /// The stable code of a refusal; nothing when it is granted.
    #[must_use]
    pub fn code(self) -> Option<&'static str> {
        match self {
            Self::Granted => None,
            Self::ProviderNotAvailable => Some("mcp_provider_not_available"),
            Self::ToolNotFound => Some("mcp_tool_not_found"),
            Self::ToolNotGranted => Some("mcp_tool_not_granted"),
            Self::ToolChanged => Some("mcp_tool_changed"),
        }
    }

    /// A sentence for the model and the operator.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Granted => "it may be called",
            Self::ProviderNotAvailable => {
                "no enabled provider has this id, or this name alone; `mcp_providers` lists them"
            }
            Self::ToolNotFound => {
                "the provider is not known to offer a usable tool of exactly this name; `mcp_capabilities` lists them"
            }
            Self::ToolNotGranted => "the operator has not granted this tool to this agent",
            Self::ToolChanged => {
                "the tool or its connection has changed since it was granted; the operator has to look at it and grant it \
                 again: `mur mcp discover NAME`, then `mur mcp grant AGENT NAME TOOL`"
            }
        }
    }

    /// Of one tool of one connection, enabled or not.
    #[must_use]
    pub fn of(agent: &str, connection: &Connection, tool: &str, (record, catalog): (&Connections, &Catalog)) -> Self {
        if !connection.enabled {
            return Self::ProviderNotAvailable;
        }
        let offered = catalog.find(tool).filter(|offered| offered.unusable.is_none());
        if offered.is_some_and(|offered| offered.mod_authorized) && matches!(connection.reach, Reach::Mod { .. }) {
            return Self::Granted;
        }
        let Some(grant) = record.grant_of(agent, &connection.id, tool) else {
            return if offered.is_some() { Self::ToolNotGranted } else { Self::ToolNotFound };
        };
        if grant.suspended.is_some() || grant.pinned.settings != connection.settings() {
            return Self::ToolChanged;
        }
        match offered {
            Some(offered) if offered.definition == grant.pinned.definition => Self::Granted,
            Some(_) => Self::ToolChanged,
            None => Self::ToolNotFound,
        }
    }
}

/// The right to one call of one tool, as it was granted. Only a permit gives it.
#[derive(Debug, Clone)]
pub struct ClearedCall {
    /// The connection, as it was when the call was judged for the last time.
    pub(crate) connection: Connection,
    pub(crate) tool: String,
    pub(crate) definition: String,
    pub(crate) agent: Arc<str>,
}

impl ClearedCall {
    /// The connection that is called.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The tool's exact name.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The definition that the tool must have.
    #[must_use]
    pub fn definition(&self) -> &str {
        &self.definition
    }

    /// The agent that calls it.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Judges it anew by what holds now, and gives it with the connection as that is now. Another definition or other
    /// settings than it was cleared for are a change, whatever was granted since.
    ///
    /// # Errors
    /// When what holds cannot be read; what stands in the way is no error.
    pub async fn renewed(&self, source: &dyn Connectors) -> Result<Result<Self, Standing>, Unreadable> {
        let now = judge(source, &self.agent, (&self.connection.id, &self.tool)).await?;
        let is_same =
            |now: &Self| now.definition == self.definition && now.connection.settings() == self.connection.settings();
        Ok(now.and_then(|now| if is_same(&now) { Ok(now) } else { Err(Standing::ToolChanged) }))
    }

    /// The grant that it rests on, for when the tool turns out to be another one.
    #[must_use]
    pub fn pinned(&self) -> super::Pinned {
        super::Pinned {
            agent: self.agent.to_string(),
            connection: self.connection.id.clone(),
            tool: self.tool.clone(),
            definition: self.definition.clone(),
            settings: self.connection.settings(),
        }
    }
}

/// Reads what holds now and judges one call by it.
pub(crate) async fn judge(
    source: &dyn Connectors,
    agent: &Arc<str>,
    (provider, tool): (&str, &str),
) -> Result<Result<ClearedCall, Standing>, Unreadable> {
    let record = source.current().await?;
    let Some(Connection { id, .. }) = record.select(provider) else { return Ok(Err(Standing::ProviderNotAvailable)) };
    let catalog = source.catalog(id).await?;
    // A mod is started to say what it offers: what holds is read once it has.
    let record = source.current().await?;
    let selected = record.select(provider).filter(|connection| connection.id == *id);
    let Some(connection) = selected else { return Ok(Err(Standing::ProviderNotAvailable)) };
    let standing = Standing::of(agent, connection, tool, (&record, &catalog));
    if standing != Standing::Granted {
        return Ok(Err(standing));
    }
    let definition = catalog.find(tool).map(|offered| offered.definition.clone()).unwrap_or_default();
    let (connection, tool, agent) = (connection.clone(), tool.to_owned(), Arc::clone(agent));
    Ok(Ok(ClearedCall { connection, tool, definition, agent }))
}
