//! What the model is shown of connections: compact JSON, of bounded size.
//!
//! Names and descriptions are servers' words, so it is fenced like every result. A tool that cannot be called is shown
//! with the reason, so that the model can say what the operator would have to do.

use policy::{Catalog, CatalogTool, Connection, Connections, Connectors, Reach, Standing, Unreadable};
use serde_json::{Map, Value, json};

use super::Hub;

/// Tools of one answer, when nothing else is asked for.
pub(super) const USUAL: usize = 12;
/// Tools of one answer.
pub(super) const MOST: usize = 20;
/// Connections of one answer.
const PROVIDERS: usize = 50;
/// Characters of a description.
const DESCRIPTION: usize = 2_000;
/// Bytes of an input schema that is shown.
const SCHEMA: usize = 32 * 1024;
/// Bytes after which an answer ends early.
const ANSWER: usize = 128 * 1024;

/// Which tools are asked for.
pub(super) struct Asked {
    /// Every word has to stand in the name or the description.
    pub(super) query: String,
    /// How many of those that match come before.
    pub(super) after: usize,
    /// How many.
    pub(super) limit: usize,
}

/// All connections, those of the session first.
pub(super) async fn providers(hub: &Hub, record: &Connections) -> Result<String, Unreadable> {
    let is_mod = |connection: &&Connection| matches!(connection.reach, Reach::Mod { .. });
    let all = record.all();
    let ordered = all.iter().filter(is_mod).chain(all.iter().filter(|connection| !is_mod(connection)));
    let mut shown = Vec::new();
    for connection in ordered.take(PROVIDERS) {
        let mut entry = json!({
            "id": connection.id,
            "name": connection.name,
            "transport": connection.reach.as_str(),
            "enabled": connection.enabled,
        });
        // Only a mod's own process knows what it offers, and looking at a list starts none.
        let tools = if is_mod(&connection) {
            let (last, failure) = hub.last_of_mod(&connection.id);
            if let Some(why) = failure {
                put(&mut entry, "unavailable", json!(why));
            }
            last.map(|catalog| catalog.tools.len())
        } else {
            Some(hub.catalog(&connection.id).await?.tools.len())
        };
        put(&mut entry, "tools", json!(tools));
        shown.push(entry);
    }
    Ok(json!({"providers": shown, "more": all.len() > PROVIDERS}).to_string())
}

/// The tools of one connection, and whether something of them had to be left out.
pub(super) fn capabilities(
    hub: &Hub,
    connection: &Connection,
    (record, catalog): (&Connections, &Catalog),
    asked: &Asked,
) -> (String, bool) {
    let words: Vec<String> = asked.query.split_whitespace().map(str::to_lowercase).collect();
    let matches = |tool: &&CatalogTool| {
        let text = format!("{}\n{}", tool.name, tool.description).to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    let found: Vec<&CatalogTool> = catalog.tools.iter().filter(matches).collect();
    let (mut shown, mut size, mut truncated) = (Vec::new(), 0, false);
    for tool in found.iter().skip(asked.after).take(asked.limit.min(MOST)) {
        let standing = Standing::of(hub.agent(), connection, &tool.name, (record, catalog));
        let (entry, cut) = entry(tool, standing);
        let length = entry.to_string().len();
        if size > 0 && size + length > ANSWER {
            break;
        }
        size += length;
        truncated |= cut;
        shown.push(entry);
    }
    let next = asked.after.saturating_add(shown.len());
    let mut answer = json!({"provider": connection.id, "name": connection.name, "total": found.len(), "tools": shown});
    if next < found.len() {
        put(&mut answer, "next", json!(next.to_string()));
    }
    if let (_, Some(why)) = hub.last_of_mod(&connection.id) {
        put(&mut answer, "unavailable", json!(why));
    }
    (answer.to_string(), truncated)
}

/// One tool, and whether something of it had to be left out.
fn entry(tool: &CatalogTool, standing: Standing) -> (Value, bool) {
    let (description, cut) = match tool.description.char_indices().nth(DESCRIPTION) {
        Some((end, _)) => (format!("{}…", tool.description.get(..end).unwrap_or_default()), true),
        None => (tool.description.clone(), false),
    };
    let granted = standing == Standing::Granted && tool.unusable.is_none();
    let mut entry = json!({"name": tool.name, "description": description, "granted": granted});
    if let Some(why) = &tool.unusable {
        put(&mut entry, "unusable", json!(why));
        return (entry, cut);
    }
    if standing == Standing::ToolChanged {
        put(&mut entry, "why", json!(format!("mcp_tool_changed: {}", standing.reason())));
    }
    let schema = tool.input_schema.to_string();
    if schema.len() > SCHEMA {
        put(&mut entry, "input_schema_omitted", json!(format!("its {} bytes are too many to be shown", schema.len())));
        return (entry, true);
    }
    put(&mut entry, "input_schema", tool.input_schema.clone());
    (entry, cut)
}

fn put(object: &mut Value, key: &str, value: Value) {
    object.as_object_mut().unwrap_or(&mut Map::new()).insert(key.to_owned(), value);
}
