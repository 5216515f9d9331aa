//! `files_list`: what is in a directory, some levels deep.
//!
//! Level by level, so that a list which is cut still shows everything near the top; sorted by path for
//! reading. Directories end in `/`; links are named, not followed.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use policy::{ActionKind, BadInput, Operation, Proposal, RawResult};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::json;
use vocab::StateEffect;

use super::node::kind_words;
use super::root::Way;
use super::walk::{Entry, Order, Walk};
use super::{Draft, FileTool, Given, Site};
use crate::definition::About;
use crate::execution::{Stop, partial};
use crate::show;

const DEFAULT_DEPTH: u32 = 4;
const MAX_SHOWN: usize = 500;

/// The tool's arguments.
#[derive(Debug, Deserialize)]
pub(crate) struct List {
    path: Option<String>,
    depth: Option<u32>,
}

impl FileTool for List {
    fn about() -> About<'static> {
        About {
            name: "files_list",
            kind: ActionKind::FilesList,
            state_effect: StateEffect::Read,
            description: "Lists a directory, some levels deep, at most 500 entries; says so when there are more. Symbolic \
                links are named but not followed, and the inside of `.git` directories is left out.",
            properties: json!({
                "path": {"type": "string", "minLength": 1,
                    "description": "The directory, relative to the working directory. Default: the working directory."},
                "depth": {"type": "integer", "minimum": 1, "maximum": 64,
                    "description": "How many levels to show; 1 is the directory's own entries. Default 4."},
            }),
            required: &[],
        }
    }

    fn propose(self, mut draft: Draft) -> Result<Proposal, BadInput> {
        let directory = draft.path("path", self.path.as_deref().unwrap_or("."), &[Operation::Read])?;
        let depth = self.depth.unwrap_or(DEFAULT_DEPTH);
        Ok(draft.runs(move |site| list(site, &directory, depth)))
    }
}

fn list(site: Site<'_>, given: &Given, depth: u32) -> Result<RawResult, Stop> {
    let start = site.find(given)?;
    let mut shown: Vec<(PathBuf, String)> = Vec::new();
    let walk = Walk { site, depth, order: Order::Breadth };
    let left = walk.run(&start, |entry, _| {
        if shown.len() == MAX_SHOWN {
            return ControlFlow::Break(());
        }
        let line = line(site, &entry);
        shown.push((entry.path, line));
        ControlFlow::Continue(())
    })?;
    shown.sort_by(|one, other| one.0.cmp(&other.0));
    let mut text = format!("`{}`: {}", given.shown(), show::count(shown.len() as u64, "entry", "entries"));
    text.push_str(if left.stopped {
        " shown, and there are more: list a directory below, or fewer levels.\n"
    } else {
        ".\n"
    });
    for (_, line) in &shown {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str(&left.lines(depth));
    Ok(partial(text, left.is_partial()))
}

fn line(site: Site<'_>, entry: &Entry) -> String {
    let mut line = show::path(&entry.path);
    // Writing to a string cannot fail.
    let _ = match entry.kind {
        FileType::Directory => write!(line, "/"),
        FileType::RegularFile => {
            let size = u64::try_from(entry.stat.st_size).unwrap_or(0);
            let executable = if entry.stat.st_mode & 0o111 == 0 { "" } else { ", executable" };
            write!(line, "  ({}{executable})", show::bytes(size))
        }
        FileType::Symlink => match target(site, &entry.below) {
            Some(target) => write!(line, " -> {target}  (link)"),
            None => write!(line, "  (link)"),
        },
        kind => write!(line, "  ({})", kind_words(kind)),
    };
    line
}

/// Where a link leads, if that is inside and may be shown: where else it leads is not for showing.
pub(super) fn target(site: Site<'_>, below: &Path) -> Option<String> {
    let Ok(Way::Inside { existing, missing }) = site.root.way(below, true) else { return None };
    let exists = missing.is_empty();
    let end: PathBuf = std::iter::once(existing.into_os_string()).chain(missing).collect();
    site.permit.confirm_path(Operation::Read, &site.root.absolute(&end)).ok()?;
    let plain = end.strip_prefix(".").ok().filter(|plain| !plain.as_os_str().is_empty());
    let shown = show::path(plain.unwrap_or(&end));
    Some(if exists { shown } else { format!("{shown} (missing)") })
}
