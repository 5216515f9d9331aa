//! `files_write`: a whole file, new or replaced, at once or not at all.

use std::sync::Arc;

use policy::{Action, ActionKind, BadInput, Effect, Operation, Permit, Proposal, RawResult, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use super::change::{Access, Staged};
use super::place::{Place, Reach};
use super::{Given, Root};
use crate::definition::Definition;
use crate::execution::{Stop, blocking};
use crate::show;

/// The tool.
#[derive(Debug)]
pub(crate) struct Write {
    definition: Definition,
    root: Arc<Root>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    file_path: String,
    content: String,
    create_parents: Option<bool>,
}

impl Write {
    pub(crate) fn new(root: Arc<Root>) -> Self {
        let description = "Writes a whole file as UTF-8, replacing what was there. The file is whole at every moment: the old \
            content or the new. The mode of an existing file is kept. Use `files_edit` or `files_patch` for a change in part.";
        let properties = json!({
            "filePath": {"type": "string", "minLength": 1, "description": "The file, relative to the working directory."},
            "content": {"type": "string", "description": "The whole new content."},
            "createParents": {"type": "boolean", "description": "Make missing directories. Default true."},
        });
        let required = ["filePath", "content"];
        Self {
            definition: Definition::new("files_write", StateEffect::Mutate, description, properties, &required),
            root,
        }
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let input: Input = self.definition.read(input)?;
        let file = Given::new(&self.root, "filePath", &input.file_path)?;
        let action = Action::new(call_id, "files_write", ActionKind::FilesWrite)
            .with(Effect::path(Operation::Write, file.absolute()));
        let reach = Reach { make: input.create_parents.unwrap_or(true), follow: true };
        let root = Arc::clone(&self.root);
        let work = move |permit: &Permit, _: &_| {
            let mut place = root.place(&file, permit, Operation::Write, reach)?;
            let result = write(&place, input.content.as_bytes(), permit)?;
            place.keep();
            Ok(result)
        };
        Ok(Proposal { action, execution: blocking(work) })
    }
}

fn write(place: &Place, content: &[u8], permit: &Permit) -> Result<RawResult, Stop> {
    let cleared = place.clear(permit, Operation::Write)?;
    place.require_writable()?;
    let staged = Staged::write(place, content, Access::default(), &cleared)?;
    let again = staged.clear(permit)?;
    staged.commit(&again)?.finish();
    let (name, size) = (show::path(place.written()), show::bytes(content.len() as u64));
    let mut text = match place.existing() {
        None => format!("Created `{name}`: {size}."),
        Some(old) => format!("Overwrote `{name}`: {size} (before: {}).", show::bytes(old.size())),
    };
    if let Some(old) = place.existing().filter(|old| old.stat().st_nlink > 1) {
        let others = match old.stat().st_nlink - 1 {
            1 => "1 further name".to_owned(),
            more => format!("{more} further names"),
        };
        text.push_str(&format!(" The old content keeps its {others} (hard links)."));
    }
    Ok(RawResult::ok(text))
}
