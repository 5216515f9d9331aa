//! `files_find`: the paths below a directory that match a glob.
//!
//! A pattern without `/` is tried on names at every level, as `find -name` and `.gitignore` do; one with
//! `/` on the path from where the search begins.

use std::ops::ControlFlow;
use std::path::Path;

use fence::RuntimeWords;
use globset::{GlobBuilder, GlobMatcher};
use policy::{ActionKind, BadInput, Operation, Proposal, RawResult};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::json;
use vocab::StateEffect;

use super::walk::{Order, Walk};
use super::{Draft, FileTool, Given, Site};
use crate::definition::About;
use crate::execution::{Stop, partial};
use crate::show;

const DEPTH: u32 = 8;
const MAX_SHOWN: u64 = 1000;

/// The tool's arguments.
#[derive(Debug, Deserialize)]
pub(crate) struct Find {
    pattern: String,
    path: Option<String>,
}

impl FileTool for Find {
    fn about() -> About<'static> {
        About {
            name: "files_find",
            kind: ActionKind::FilesFind,
            state_effect: StateEffect::Read,
            description: "Finds files and directories by glob, up to 8 levels deep and 1000 results. `*.rs` matches names at \
                every level; `src/**/*.rs` matches paths. Knows `*`, `?`, `[…]`, `{a,b}` and, across directories, `**`. \
                Case-sensitive. Links are not followed, and the inside of `.git` directories is left out.",
            properties: json!({
                "pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "The glob."},
                "path": {"type": "string", "minLength": 1,
                    "description": "Where to look, relative to the working directory. Default: the working directory."},
            }),
            required: &["pattern"],
        }
    }

    fn propose(self, mut draft: Draft) -> Result<Proposal, BadInput> {
        let glob = Glob::new(&self.pattern)?;
        let directory = draft.path("path", self.path.as_deref().unwrap_or("."), &[Operation::Read])?;
        Ok(draft.runs(move |site| find(site, &directory, &glob)))
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

fn find(site: Site<'_>, given: &Given, glob: &Glob) -> Result<RawResult, Stop> {
    let start = site.find(given)?;
    let mut lines = String::new();
    let mut found = 0;
    let walk = Walk { site, depth: DEPTH, order: Order::Depth };
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
    Ok(partial(format!("{head}{more}.\n{lines}{}", left.lines(DEPTH)), left.is_partial()))
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
