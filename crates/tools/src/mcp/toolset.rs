//! The three tools through which the model sees and uses connections.

use std::sync::Arc;

use fence::RuntimeWords;
use policy::{ActionKind, BadInput, Connectors, Effect, Proposal, RawResult, Standing, Tool, Unreadable};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::StateEffect;

use super::Hub;
use super::call::{self, McpCall};
use super::listing::{self, Asked};
use crate::definition::{About, Definition};

/// `mcp_providers`, `mcp_capabilities` and `mcp_call`.
#[must_use]
pub fn mcp_tools(hub: &Arc<Hub>) -> Vec<Arc<dyn Tool>> {
    vec![providers(Arc::clone(hub)), capabilities(Arc::clone(hub)), calls(Arc::clone(hub))]
}

fn providers(hub: Arc<Hub>) -> Arc<dyn Tool> {
    let definition = Definition::new(About {
        name: "mcp_providers",
        kind: ActionKind::McpProviders,
        state_effect: StateEffect::Read,
        description: "List the MCP providers (connected servers) that the operator has configured: id, name, transport, whether it \
                      is enabled, and how many tools it offers. Nothing is started.",
        properties: json!({}),
        required: &[],
    });
    definition.typed(move |action, NoInput {}| {
        let hub = Arc::clone(&hub);
        let execution = call::looking(move || async move {
            let record = hub.current().await.map_err(unreadable)?;
            Ok(RawResult::ok(listing::providers(&hub, &record).await.map_err(unreadable)?))
        });
        Ok(Proposal { action, execution })
    })
}

fn capabilities(hub: Arc<Hub>) -> Arc<dyn Tool> {
    let properties = json!({
        "provider": provider_property(),
        "query": {"type": "string", "description": "only tools in whose name or description every word of this stands"},
        "cursor": {"type": "string", "description": "`next` of the answer before, for the tools after those"},
        "limit": {"type": "integer", "minimum": 1, "maximum": listing::MOST, "description": "how many tools; 12 by default"},
    });
    let definition = Definition::new(About {
        name: "mcp_capabilities",
        kind: ActionKind::McpCapabilities,
        state_effect: StateEffect::Read,
        description: "List the tools of an MCP provider: name, description, input schema, and whether the operator has granted \
                      them to you. Only granted tools can be called.",
        properties,
        required: &["provider"],
    });
    definition.typed(move |action, input: CapabilitiesInput| {
        let after = match input.cursor.as_deref().map(str::parse::<usize>) {
            None => 0,
            Some(Ok(after)) => after,
            Some(Err(_)) => return Err(BadInput(RuntimeWords::new("`cursor` is not one that an answer gave"))),
        };
        let limit = input.limit.unwrap_or(listing::USUAL);
        let asked = Asked { query: input.query.unwrap_or_default(), after, limit };
        let (hub, provider) = (Arc::clone(&hub), input.provider);
        let execution = call::looking(move || async move {
            let record = hub.current().await.map_err(unreadable)?;
            let found = record.select(&provider).filter(|connection| connection.enabled);
            let connection = found.ok_or_else(|| refusal(&provider, Standing::ProviderNotAvailable))?;
            let catalog = hub.catalog(&connection.id).await.map_err(unreadable)?;
            let (text, truncated) = listing::capabilities(&hub, connection, (&record, &catalog), &asked);
            Ok(crate::execution::partial(text, truncated))
        });
        Ok(Proposal { action, execution })
    })
}

fn calls(hub: Arc<Hub>) -> Arc<dyn Tool> {
    let properties = json!({
        "provider": provider_property(),
        "tool": {"type": "string", "minLength": 1, "description": "the tool's exact name"},
        "arguments": {"type": "object", "description": "what the tool's input schema asks for"},
    });
    let definition = Definition::new(About {
        name: "mcp_call",
        kind: ActionKind::McpCall,
        state_effect: StateEffect::Mutate,
        description: "Call a tool of an MCP provider. `mcp_capabilities` shows its input schema and whether it is granted.",
        properties,
        required: &["provider", "tool"],
    });
    definition.typed(move |action, input: CallInput| {
        let action = action.with(Effect::connected(input.provider, input.tool));
        let execution = Box::new(McpCall { hub: Arc::clone(&hub), arguments: input.arguments });
        Ok(Proposal { action, execution })
    })
}

fn provider_property() -> Value {
    json!({"type": "string", "minLength": 1, "description": "the provider's id, or its name where no other has the same"})
}

fn unreadable(_: Unreadable) -> RuntimeWords {
    // What is wrong is the operator's to know.
    RuntimeWords::new("the operator's connections and grants cannot be read, so nothing of them is shown")
}

fn refusal(provider: &str, standing: Standing) -> RuntimeWords {
    RuntimeWords::new("`")
        .echo(provider)
        .text("` is not available: ")
        .text(standing.reason())
        .text(" [")
        .text(standing.code().unwrap_or_default())
        .text("]")
}

#[derive(Deserialize)]
struct NoInput {}

#[derive(Deserialize)]
struct CapabilitiesInput {
    provider: String,
    query: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct CallInput {
    provider: String,
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}
