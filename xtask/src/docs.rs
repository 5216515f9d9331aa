//! Pages that are generated from the product's own tables, so that they cannot tell another story.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::process::root;

/// Every generated file: its path below the root, and its content now.
fn pages() -> Result<Vec<(&'static str, String)>> {
    let mut schema = serde_json::to_string_pretty(&manifest::json_schema())?;
    schema.push('\n');
    Ok(vec![
        ("murmur.schema.json", schema),
        ("docs/reference/manifest.md", manifest::reference_markdown()),
        ("docs/reference/trace.md", record::reference_markdown()),
        ("docs/reference/cli.md", mur::command_markdown()),
        ("docs/reference/diagnostics.md", mur::diagnostics_markdown()),
    ])
}

/// Writes them.
pub(crate) fn write() -> Result<()> {
    for (path, content) in pages()? {
        let file = root().join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&file, content).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

/// Compares them with what is there.
pub(crate) fn check() -> Result<()> {
    for (path, content) in pages()? {
        if fs::read_to_string(root().join(path)).ok().as_deref() != Some(content.as_str()) {
            bail!("{path} is not what the tables say now: run `cargo xtask docs`");
        }
    }
    Ok(())
}
