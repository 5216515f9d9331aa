//! A server's catalog as it is stored and judged.

use policy::CatalogTool;

/// What a server offers, in the form that is stored and that grants are compared with.
#[must_use]
pub fn catalog_of(found: &::mcp::Catalog) -> policy::Catalog {
    let tool = |tool: &::mcp::Tool| CatalogTool {
        name: tool.name.clone(),
        description: tool.description.clone().unwrap_or_default(),
        input_schema: tool.input_schema.clone(),
        definition: tool.definition.to_string(),
        unusable: tool.unusable.clone(),
        mod_authorized: tool.mod_authorized,
    };
    policy::Catalog::new(found.tools().iter().map(tool).collect())
}
