//! The built-in tools by name.
//!
//! A tool exists for an agent only when its manifest names it, so this makes what it is asked for and
//! nothing else.

use std::sync::Arc;

use policy::Tool;

use crate::files::file_tool;
use crate::{Environment, ToolError, files, patch};

/// The names of the built-in tools that this crate makes.
pub const BUILTIN_TOOLS: &[&str] = &[
    "files_read",
    "files_list",
    "files_find",
    "files_inspect",
    "files_search",
    "files_write",
    "files_edit",
    "files_patch",
];

/// The named tools, in the order of the names.
///
/// # Errors
/// [`ToolError::UnknownTool`] for a name that is not in [`BUILTIN_TOOLS`].
pub fn builtin_tools<'n>(
    names: impl IntoIterator<Item = &'n str>,
    environment: &Environment,
) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
    names.into_iter().map(|name| builtin(name, environment)).collect()
}

fn builtin(name: &str, environment: &Environment) -> Result<Arc<dyn Tool>, ToolError> {
    let root = environment.files();
    Ok(match name {
        "files_read" => file_tool::<files::Read>(root),
        "files_list" => file_tool::<files::List>(root),
        "files_find" => file_tool::<files::Find>(root),
        "files_inspect" => file_tool::<files::Inspect>(root),
        "files_search" => file_tool::<files::Search>(root),
        "files_write" => file_tool::<files::Write>(root),
        "files_edit" => file_tool::<files::Edit>(root),
        "files_patch" => file_tool::<patch::Patch>(root),
        _ => return Err(ToolError::UnknownTool { name: name.to_owned() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_makes_the_tool_of_that_name() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::open(dir.path()).unwrap();
        let tools = builtin_tools(BUILTIN_TOOLS.iter().copied(), &environment).unwrap();
        let made: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        assert_eq!(made, BUILTIN_TOOLS);
        let unknown = builtin_tools(["files_read", "files_reed"], &environment);
        assert!(matches!(unknown, Err(ToolError::UnknownTool { name }) if name == "files_reed"));
    }
}
