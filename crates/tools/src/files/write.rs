//! `files_write`: a whole file, new or replaced, at once or not at all.
//!
//! A file that exists is replaced only by a task that has read or written it, and only as it was then: the
//! other tools that change files carry that proof in the text that must match, this one has none.

use policy::{ActionKind, BadInput, Operation, Permit, Proposal, RawResult};
use serde::Deserialize;
use serde_json::json;
use vocab::StateEffect;

use super::change::put;
use super::place::{Place, Reach};
use super::{Draft, FileTool};
use crate::definition::About;
use crate::execution::Stop;
use crate::show;

/// The tool's arguments.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Write {
    file_path: String,
    content: String,
    create_parents: Option<bool>,
}

impl FileTool for Write {
    fn about() -> About<'static> {
        About {
            name: "files_write",
            kind: ActionKind::FilesWrite,
            state_effect: StateEffect::Mutate,
            description: "Writes a whole file as UTF-8, replacing what was there. A file that exists must have been read or written \
                in this task, and not have changed since. The file is whole at every moment: the old content or the new. The mode \
                of an existing file is kept. Use `files_edit` or `files_patch` for a change in part.",
            properties: json!({
                "filePath": {"type": "string", "minLength": 1, "description": "The file, relative to the working directory."},
                "content": {"type": "string", "description": "The whole new content."},
                "createParents": {"type": "boolean", "description": "Make missing directories. Default true."},
            }),
            required: &["filePath", "content"],
        }
    }

    fn propose(self, mut draft: Draft) -> Result<Proposal, BadInput> {
        let file = draft.path("filePath", &self.file_path, &[Operation::Write])?;
        let reach = Reach { make: self.create_parents.unwrap_or(true), follow: true };
        Ok(draft.runs(move |site| {
            let mut place = site.place(&file, Operation::Write, reach)?;
            let result = write(&place, self.content.as_bytes(), site.permit)?;
            place.keep();
            Ok(result)
        }))
    }
}

fn write(place: &Place, content: &[u8], permit: &Permit) -> Result<RawResult, Stop> {
    let cleared = place.clear(permit, Operation::Write)?;
    place.require_writable()?;
    if let Some(old) = place.existing() {
        // The exchange makes sure that what comes out is this very state.
        permit.confirm_overwrite(&cleared, old.identity().stamp())?;
    }
    put(place, content, &cleared, permit)?;
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
