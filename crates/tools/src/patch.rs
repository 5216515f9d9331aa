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

use fence::RuntimeWords;
use policy::{ActionKind, BadInput, Proposal};
use serde::Deserialize;
use serde_json::json;
use vocab::StateEffect;

use apply::{Hunk, Line};
pub use error::{Misfit, PatchError};
pub use parse::{FileChange, FileDiff, ParsedPatch};
use plan::Item;

use crate::definition::About;
use crate::files::{Draft, FileTool};

/// The tool's arguments.
#[derive(Debug, Deserialize)]
pub(crate) struct Patch {
    patch: String,
}

impl FileTool for Patch {
    fn about() -> About<'static> {
        About {
            name: "files_patch",
            kind: ActionKind::FilesPatch,
            state_effect: StateEffect::Mutate,
            description: "Applies a unified diff to one or more files, all of it or nothing. Takes git's format (`diff --git`, \
                renames, copies, new and deleted files, modes) and plain `---`/`+++` sections; `a/` and `b/` before names are \
                stripped. Lines must match exactly. A hunk whose line number is off is applied if its lines stand at exactly one \
                place. Binary files, symbolic links and submodules are refused.",
            properties: json!({
                "patch": {"type": "string", "minLength": 1, "description": "The diff, with paths relative to the working directory."},
            }),
            required: &["patch"],
        }
    }

    fn propose(self, mut draft: Draft) -> Result<Proposal, BadInput> {
        let patch = ParsedPatch::parse(&self.patch).map_err(|error| refused(&error))?;
        let items: Vec<Item> = patch.into_files().into_iter().map(|diff| Item::new(draft.root(), diff)).collect();
        let mut named = HashSet::new();
        for (operation, given) in items.iter().flat_map(Item::effects) {
            if named.insert((operation, given.absolute())) {
                draft.names(operation, given);
            }
        }
        Ok(draft.runs(move |site| plan::run(site, &items)))
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
