//! What a manifest may declare and this version does not do yet.
//!
//! Nothing declared is silently ignored: a capsule that counts on a boundary must not run without it.
//! So a launch asks here and refuses. A row goes away with the change that makes its key work.

use crate::decode::{Step, at, show_path};
use crate::diagnostic::{Code, Diagnostic};
use crate::load::{Loaded, visit};
use crate::model::{ArtifactBody, Program};
use crate::yaml::{Kind, Node};

/// When a declaration counts.
enum When {
    /// The key stands there and its value is not an empty list or mapping.
    Declared,
    /// The value is this word.
    Is(&'static str),
}

use When::{Declared, Is};

/// Field, with `[]` for each item of a list; when it counts; what is missing.
const ROWS: &[(&str, When, &str)] = &[
    ("artifacts[].runtime", Is("hook"), "hooks are not called"),
    ("artifacts[].capabilities", Declared, "grants of single artifacts are not enforced"),
    ("inference.transport", Is("process"), "coding CLIs are not run as the loop"),
    ("capabilities.peer_fetch", Declared, "files of other capsules are not fetched"),
    ("capabilities.peers", Declared, "other capsules are not called"),
    ("exports", Declared, "files are not shared"),
];

/// Of tools alone, whose files are looked at apart.
const NO_COMPONENTS: &str = "WASM components are not run";

/// What this version refuses of a field, or of a word of it, as a sentence for the reference page. The field is
/// its path, with `[]` for each item of a list.
#[cfg(feature = "schema")]
pub(crate) fn refusal(field: &str, word: Option<&str>) -> Option<String> {
    if (field, word) == ("implementation", Some("wasm")) {
        return Some(format!("**Refused by this version**: {NO_COMPONENTS}."));
    }
    ROWS.iter().filter(|(row, ..)| *row == field).find_map(|(_, when, missing)| match (when, word) {
        (Declared, None) => Some(format!("**Refused by this version**: {missing}.")),
        (Is(refused), Some(word)) if *refused == word => Some(format!("**Refused by this version**: {missing}.")),
        _ => None,
    })
}

/// Everything that `loaded` declares and this version does not enforce or offer, in the order of the
/// file. A launch refuses when there is anything.
#[must_use]
pub fn unsupported(loaded: &Loaded) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut name = |path: &[Step], what: &str, missing: &str| {
        let message = format!("this version does not support `{what}`: {missing}");
        let diagnostic = loaded.document.diagnostic(Code::Unsupported, path, message);
        found.push(diagnostic.with_hint("remove it; nothing that a manifest declares is silently ignored"));
    };
    visit(&loaded.document.root, &mut Vec::new(), &mut |path, node| {
        let pattern = pattern(path);
        for (_, _, missing) in ROWS.iter().filter(|(field, when, _)| *field == pattern && holds(when, node)) {
            name(path, &declared(path, node), missing);
        }
    });
    for (index, artifact) in loaded.manifest.artifacts.iter().enumerate() {
        let ArtifactBody::Tool(tool) = &artifact.body else { continue };
        if matches!(tool.program, Program::Component { .. }) {
            name(at!["artifacts", index, "source"], "implementation: wasm", NO_COMPONENTS);
        }
    }
    found.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    found
}

/// The path of a field with `[]` for every index.
fn pattern(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Index(_) => out.push_str("[]"),
            Step::Key(key) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
        }
    }
    out
}

fn holds(when: &When, node: &Node) -> bool {
    let word = match &node.kind {
        Kind::Scalar { text, .. } => Some(text.as_str()),
        Kind::List(_) | Kind::Mapping(_) => None,
    };
    match when {
        Declared => match &node.kind {
            Kind::Scalar { .. } => true,
            Kind::List(items) => !items.is_empty(),
            Kind::Mapping(entries) => !entries.is_empty(),
        },
        Is(expected) => word == Some(expected),
    }
}

/// The field and, when it is one word, its value.
fn declared(path: &[Step], node: &Node) -> String {
    match &node.kind {
        Kind::Scalar { text, .. } => {
            format!("{}: {}", show_path(path), crate::diagnostic::shown(text))
        }
        Kind::List(_) | Kind::Mapping(_) => show_path(path),
    }
}
