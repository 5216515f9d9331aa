//! `files_list`: what is in a directory, some levels deep.
//!
//! Level by level, so that a list which is cut still shows everything near the top; sorted by path for
//! reading. Directories end in `/`; links are named, not followed.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::{Action, ActionKind, BadInput, Cancel, Effect, Facts, Operation, Permit, Proposal, RawResult, Tool};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use super::node::kind_words;
use super::root::Way;
use super::walk::{Entry, Order, Walk};
use super::{Given, Root};
use crate::definition::Definition;
use crate::execution::{Stop, blocking};
use crate::show;

const DEFAULT_DEPTH: u32 = 4;
const MAX_SHOWN: usize = 500;

/// The tool.
#[derive(Debug)]
pub(crate) struct List {
    definition: Definition,
    root: Arc<Root>,
}

#[derive(Debug, Deserialize)]
struct Input {
    path: Option<String>,
    depth: Option<u32>,
}

impl List {
    pub(crate) fn new(root: Arc<Root>) -> Self {
        let description = "Lists a directory, some levels deep, at most 500 entries; says so when there are more. Symbolic \
            links are named but not followed, and the inside of `.git` directories is left out.";
        let properties = json!({
            "path": {"type": "string", "minLength": 1,
                "description": "The directory, relative to the working directory. Default: the working directory."},
            "depth": {"type": "integer", "minimum": 1, "maximum": 64,
                "description": "How many levels to show; 1 is the directory's own entries. Default 4."},
        });
        Self { definition: Definition::new("files_list", StateEffect::Read, description, properties, &[]), root }
    }
}

impl Tool for List {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let input: Input = self.definition.read(input)?;
        let directory = Given::new(&self.root, "path", input.path.as_deref().unwrap_or("."))?;
        let depth = input.depth.unwrap_or(DEFAULT_DEPTH);
        let action = Action::new(call_id, "files_list", ActionKind::FilesList)
            .with(Effect::path(Operation::Read, directory.absolute()));
        let root = Arc::clone(&self.root);
        Ok(Proposal {
            action,
            execution: blocking(move |permit, cancel| run(&root, &directory, depth, permit, cancel)),
        })
    }
}

fn run(root: &Root, given: &Given, depth: u32, permit: &Permit, cancel: &Cancel) -> Result<RawResult, Stop> {
    let start = root.find(given, permit, Operation::Read)?;
    let mut shown: Vec<(PathBuf, String)> = Vec::new();
    let walk = Walk { root, permit, cancel, depth, order: Order::Breadth };
    let left = walk.run(&start, |entry, _| {
        if shown.len() == MAX_SHOWN {
            return ControlFlow::Break(());
        }
        let line = line(root, &entry, permit);
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
    Ok(RawResult::ok(text).with_facts(Facts { truncated: left.is_partial(), ..Facts::default() }))
}

fn line(root: &Root, entry: &Entry, permit: &Permit) -> String {
    let mut line = show::path(&entry.path);
    // Writing to a string cannot fail.
    let _ = match entry.kind {
        FileType::Directory => write!(line, "/"),
        FileType::RegularFile => {
            let size = u64::try_from(entry.stat.st_size).unwrap_or(0);
            let executable = if entry.stat.st_mode & 0o111 == 0 { "" } else { ", executable" };
            write!(line, "  ({}{executable})", show::bytes(size))
        }
        FileType::Symlink => match target(root, &entry.below, permit) {
            Some(target) => write!(line, " -> {target}  (link)"),
            None => write!(line, "  (link)"),
        },
        kind => write!(line, "  ({})", kind_words(kind)),
    };
    line
}

/// Where a link leads, if that is inside and may be shown: where else it leads is not for showing.
pub(super) fn target(root: &Root, below: &Path, permit: &Permit) -> Option<String> {
    let Ok(Way::Inside { existing, missing }) = root.way(below, true) else { return None };
    let exists = missing.is_empty();
    let end: PathBuf = std::iter::once(existing.into_os_string()).chain(missing).collect();
    permit.confirm_path(Operation::Read, &root.absolute(&end)).ok()?;
    let plain = end.strip_prefix(".").ok().filter(|plain| !plain.as_os_str().is_empty());
    let shown = show::path(plain.unwrap_or(&end));
    Some(if exists { shown } else { format!("{shown} (missing)") })
}
