//! `files_patch`: a unified diff, applied whole or not at all.
//!
//! The diff is parsed when the call is proposed, so the review sees every file that it names, and the
//! same parsed diff is applied. Execution has three parts: every target is checked and every hunk applied
//! in memory; all new content is written beside its place; only then names change, one after another,
//! and are changed back if one of them fails. A crash between two names is not undone.

mod apply;
mod error;
mod layout;
mod parse;
mod plan;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use fence::RuntimeWords;
use policy::{Action, ActionKind, BadInput, Effect, Operation, Proposal, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use apply::{Hunk, Line};
pub use error::{Misfit, PatchError};
pub use parse::{FileChange, FileDiff, ParsedPatch};

use crate::definition::Definition;
use crate::execution::blocking;
use crate::files::{Given, Root};

/// The tool.
#[derive(Debug)]
pub(crate) struct Patch {
    definition: Definition,
    root: Arc<Root>,
}

#[derive(Debug, Deserialize)]
struct Input {
    patch: String,
}

impl Patch {
    pub(crate) fn new(root: Arc<Root>) -> Self {
        let description = "Applies a unified diff to one or more files, all of it or nothing. Takes git's format (`diff --git`, \
            renames, copies, new and deleted files, modes) and plain `---`/`+++` sections; `a/` and `b/` before names are \
            stripped. Lines must match exactly. A hunk whose line number is off is applied if its lines stand at exactly one \
            place. Binary files, symbolic links and submodules are refused.";
        let properties = json!({
            "patch": {"type": "string", "minLength": 1, "description": "The diff, with paths relative to the working directory."},
        });
        Self {
            definition: Definition::new("files_patch", StateEffect::Mutate, description, properties, &["patch"]),
            root,
        }
    }
}

impl Tool for Patch {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let input: Input = self.definition.read(input)?;
        let patch = ParsedPatch::parse(&input.patch).map_err(|error| refused(&error))?;
        let mut action = Action::new(call_id, "files_patch", ActionKind::FilesPatch);
        let mut named = HashSet::new();
        let mut add = |action: Action, operation: Operation, path: &std::path::Path| {
            let path: PathBuf = self.root.absolute(path);
            if named.insert((operation, path.clone())) { action.with(Effect::path(operation, path)) } else { action }
        };
        for file in patch.files() {
            // Sources are read, because what is told about a hunk that does not fit shows their lines.
            if let Some(source) = file.change.source() {
                action = add(action, Operation::Read, source);
            }
            if let FileChange::Delete(path) | FileChange::Rename { from: path, .. } = &file.change {
                action = add(action, Operation::Delete, path);
            }
            if let Some(target) = file.change.target() {
                action = add(action, Operation::Write, target);
            }
        }
        let given = |path: Option<&std::path::Path>| path.map(|path| Given::path(&self.root, path));
        let files: Vec<plan::Item> = patch
            .files()
            .iter()
            .map(|file| plan::Item {
                source: given(file.change.source()),
                target: given(file.change.target()),
                diff: file.clone(),
            })
            .collect();
        let root = Arc::clone(&self.root);
        Ok(Proposal { action, execution: blocking(move |permit, cancel| plan::run(&root, &files, permit, cancel)) })
    }
}

fn refused(error: &PatchError) -> BadInput {
    let mut words = RuntimeWords::new("`patch` cannot be read: ");
    // Piece by piece, because an echo shows no backtick as it is.
    for (index, piece) in error.to_string().split('`').enumerate() {
        words = if index > 0 { words.text("`").echo(piece) } else { words.echo(piece) };
    }
    BadInput(match error.hint() {
        Some(hint) => words.text("; ").text(hint),
        None => words,
    })
}
