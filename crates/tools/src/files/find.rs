//! `files_find`: the paths below a directory that match a glob.
//!
//! A pattern without `/` is tried on names at every level, as `find -name` and `.gitignore` do; one with
//! `/` on the path from where the search begins.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use fence::RuntimeWords;
use globset::{GlobBuilder, GlobMatcher};
use policy::{Action, ActionKind, BadInput, Cancel, Effect, Facts, Operation, Permit, Proposal, RawResult, Tool};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vocab::{StateEffect, ToolSpec};

use super::walk::{Order, Walk};
use super::{Given, Root};
use crate::definition::Definition;
use crate::execution::{Stop, blocking};
use crate::show;

const DEPTH: u32 = 8;
const MAX_SHOWN: u64 = 1000;

/// The tool.
#[derive(Debug)]
pub(crate) struct Find {
    definition: Definition,
    root: Arc<Root>,
}

#[derive(Debug, Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
}

impl Find {
    pub(crate) fn new(root: Arc<Root>) -> Self {
        let description = "Finds files and directories by glob, up to 8 levels deep and 1000 results. `*.rs` matches names at \
            every level; `src/**/*.rs` matches paths. Knows `*`, `?`, `[…]`, `{a,b}` and, across directories, `**`. \
            Case-sensitive. Links are not followed, and the inside of `.git` directories is left out.";
        let properties = json!({
            "pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "The glob."},
            "path": {"type": "string", "minLength": 1,
                "description": "Where to look, relative to the working directory. Default: the working directory."},
        });
        Self {
            definition: Definition::new("files_find", StateEffect::Read, description, properties, &["pattern"]),
            root,
        }
    }
}

impl Tool for Find {
    fn spec(&self) -> &ToolSpec {
        self.definition.spec()
    }

    fn state_effect(&self) -> StateEffect {
        self.definition.state_effect()
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let input: Input = self.definition.read(input)?;
        let glob = Glob::new(&input.pattern)?;
        let directory = Given::new(&self.root, "path", input.path.as_deref().unwrap_or("."))?;
        let action = Action::new(call_id, "files_find", ActionKind::FilesFind)
            .with(Effect::path(Operation::Read, directory.absolute()));
        let root = Arc::clone(&self.root);
        Ok(Proposal {
            action,
            execution: blocking(move |permit, cancel| run(&root, &directory, &glob, permit, cancel)),
        })
    }
}

struct Glob {
    text: String,
    matcher: GlobMatcher,
    names: bool,
}

impl Glob {
    fn new(text: &str) -> Result<Self, BadInput> {
        let plain = text.strip_prefix("./").unwrap_or(text);
        // A pattern that names directories alone is matched like one for anything.
        let plain = plain.strip_suffix('/').unwrap_or(plain);
        if plain.starts_with('/') || plain.split('/').any(|part| part == "..") {
            let words = RuntimeWords::new(
                "`pattern` is matched on paths below `path`, so it must be relative and without `..`",
            );
            return Err(BadInput(words));
        }
        let glob = GlobBuilder::new(plain).literal_separator(true).build().map_err(|error| {
            BadInput(RuntimeWords::new("`pattern` is not a valid glob: ").echo(&error.kind().to_string()))
        })?;
        Ok(Self { text: text.to_owned(), matcher: glob.compile_matcher(), names: !plain.contains('/') })
    }

    fn matches(&self, path: &Path) -> bool {
        let subject = if self.names { path.file_name().map(Path::new) } else { Some(path) };
        subject.is_some_and(|subject| self.matcher.is_match(subject))
    }
}

fn run(root: &Root, given: &Given, glob: &Glob, permit: &Permit, cancel: &Cancel) -> Result<RawResult, Stop> {
    let start = root.find(given, permit, Operation::Read)?;
    let mut lines = String::new();
    let mut found = 0;
    let walk = Walk { root, permit, cancel, depth: DEPTH, order: Order::Depth };
    let left = walk.run(&start, |entry, _| {
        if !glob.matches(&entry.path) {
            return ControlFlow::Continue(());
        }
        if found == MAX_SHOWN {
            return ControlFlow::Break(());
        }
        found += 1;
        lines.push_str(&show::path(&entry.path));
        lines.push_str(if entry.kind == FileType::Directory { "/\n" } else { "\n" });
        ControlFlow::Continue(())
    })?;
    let head = format!("{} for `{}` in `{}`", show::count(found, "path", "paths"), glob.text, given.shown());
    let more = if left.stopped { " shown, and there are more: narrow the pattern or the path" } else { "" };
    let text = format!("{head}{more}.\n{lines}{}", left.lines(DEPTH));
    Ok(RawResult::ok(text).with_facts(Facts { truncated: left.is_partial(), ..Facts::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_with_a_slash_match_paths_and_others_names() {
        let cases = [
            ("*.rs", "a/b/c.rs", true),
            ("*.rs", "c.rs", true),
            ("*.rs", "a/c.rsx", false),
            ("./c.rs", "a/c.rs", true),
            ("a/*.rs", "a/c.rs", true),
            ("a/*.rs", "a/b/c.rs", false),
            ("a/**/*.rs", "a/b/c.rs", true),
            ("a/**/*.rs", "a/c.rs", true),
            ("**/c.{rs,toml}", "c.toml", true),
            ("A.rs", "a.rs", false),
            ("a/", "x/a", true),
            ("[ab]?", "a1", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(Glob::new(pattern).unwrap().matches(Path::new(path)), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn patterns_that_leave_or_do_not_parse_are_refused() {
        for pattern in ["/etc/*", "../*", "a/../b", "[", "{a"] {
            assert!(Glob::new(pattern).is_err(), "{pattern}");
        }
        assert!(Glob::new("a..b/[[]").is_ok());
    }
}
