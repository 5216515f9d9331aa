//! The way in: a path or a text becomes a [`Loaded`] manifest, or every reason why not.
//!
//! First the text, then the structure, then the meaning: a later stage runs only on what the one before
//! accepted, and each stage reports all that it finds. Files that the manifest names (tools, skills,
//! documents) are read here too, so that a launch cannot fail on them later.

use std::path::{Path, PathBuf};

use crate::decode::{Context, Step, Value, show_path};
use crate::diagnostic::{Code, Diagnostic, Rejected};
use crate::model::Manifest;
use crate::model::declaration::CapsuleFile;
use crate::resolve;
use crate::source::Source;
use crate::yaml::{Kind, Location, Node};

/// The name of a manifest in its directory.
pub const FILE_NAME: &str = "murmur.yaml";

/// A manifest that was accepted, and where it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it declares.
    pub manifest: Manifest,
    /// The file, absolute.
    pub path: PathBuf,
    /// The directory of the file, absolute: what its paths are relative to.
    pub dir: PathBuf,
    /// What is accepted and yet worth knowing.
    pub warnings: Vec<Diagnostic>,
    pub(crate) document: Document,
}

impl Loaded {
    /// The text of the file, as it was read.
    #[must_use]
    pub fn text(&self) -> &str {
        self.document.source.text()
    }

    /// Where a field stands, by its path as diagnostics show it, such as `artifacts[0].gateway`.
    #[must_use]
    pub fn place(&self, field: &str) -> Option<Place> {
        self.document.place(field)
    }
}

/// Where a field stands: line and column count from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// A file and its tree: what locations are looked up in.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) source: Source,
    pub(crate) root: Node,
    /// Directory of the file, absolute.
    pub(crate) dir: PathBuf,
}

/// A credential may stand in the text, so the text is not shown.
impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document").field("path", &self.source.path()).finish_non_exhaustive()
    }
}

impl Document {
    /// A finding about the value at `path`, or about the nearest value above it that is there.
    pub(crate) fn diagnostic(&self, code: Code, path: &[Step], message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(code, &self.source, self.locate(path), message).field(show_path(path))
    }

    /// The value at `path`.
    pub(crate) fn get(&self, path: &[Step]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| step_into(node, step).map(|(next, _)| next))
    }

    /// Where the value at `path` stands; for a mapping or a list, its key.
    fn locate(&self, path: &[Step]) -> Location {
        let (mut node, mut at) = (&self.root, self.root.location);
        for step in path {
            let Some((next, next_at)) = step_into(node, step) else { break };
            (node, at) = (next, next_at);
        }
        at
    }

    fn place(&self, field: &str) -> Option<Place> {
        let mut found = None;
        visit(&self.root, &mut Vec::new(), &mut |path, node| {
            if found.is_none() && show_path(path) == field {
                found = Some(Place { line: node.location.line, column: node.location.column });
            }
        });
        found
    }
}

/// The value one step down and where it stands.
fn step_into<'n>(node: &'n Node, step: &Step) -> Option<(&'n Node, Location)> {
    match (step, &node.kind) {
        (Step::Key(key), Kind::Mapping(entries)) => {
            let entry = entries.iter().find(|entry| entry.key == *key)?;
            let at = match &entry.value.kind {
                Kind::Scalar { .. } => entry.value.location,
                Kind::List(_) | Kind::Mapping(_) => entry.location,
            };
            Some((&entry.value, at))
        }
        (Step::Index(index), Kind::List(items)) => items.get(*index).map(|item| (item, item.location)),
        _ => None,
    }
}

/// Calls `seen` for every value, in the order of the file. The depth is bounded by the reader.
pub(crate) fn visit(node: &Node, path: &mut Vec<Step>, seen: &mut impl FnMut(&[Step], &Node)) {
    seen(path, node);
    match &node.kind {
        Kind::Scalar { .. } => {}
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.into());
                visit(item, path, seen);
                path.pop();
            }
        }
        Kind::Mapping(entries) => {
            for entry in entries {
                path.push(entry.key.clone().into());
                visit(&entry.value, path, seen);
                path.pop();
            }
        }
    }
}

/// Loads the manifest at `path`: the file itself, or a directory that holds `murmur.yaml`.
///
/// # Errors
/// [`Rejected`] with every finding of the stage that failed: the file could not be read
/// (`E-MAN-001`), is not a plain YAML document (`E-MAN-002`), or a field is wrong (`E-MAN-003`).
pub fn load(path: &Path) -> Result<Loaded, Rejected> {
    let file = if path.is_dir() { path.join(FILE_NAME) } else { path.to_path_buf() };
    if !file.exists() {
        let diagnostic = Diagnostic::of_path(Code::Unreadable, &file, "no such file");
        return Err(diagnostic
            .with_hint("name a manifest or its directory; `mur init` writes a starter manifest")
            .into());
    }
    let source = Source::read(&file, &file)?;
    from_source(source, &file)
}

/// Loads a manifest whose text is at hand; `path` is where it would stand, for its relative paths.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &[u8], path: &Path) -> Result<Loaded, Rejected> {
    let source = Source::from_bytes(path.to_path_buf(), text.to_vec())?;
    from_source(source, path)
}

fn from_source(source: Source, file: &Path) -> Result<Loaded, Rejected> {
    let path = std::path::absolute(file).map_err(|error| {
        let message = format!("the path could not be made absolute: {error}");
        Rejected::from(Diagnostic::of_path(Code::Unreadable, file, message))
    })?;
    let dir = path.parent().unwrap_or(&path).to_path_buf();
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let root = crate::yaml::parse(&source)?;
    if let Some(at) = artifact(&root) {
        let message = "this file describes an artifact; a session is declared by a capsule's manifest";
        let hint = "name its directory as `source` under `artifacts` of a capsule, and run or check that one";
        return Err(Diagnostic::at(Code::Field, &source, at, message)
            .field("runtime".to_owned())
            .with_hint(hint)
            .into());
    }
    let declared: CapsuleFile = decode(&source, &root, &dir, home.as_deref())?;
    let document = Document { source, root, dir: dir.clone() };
    let (manifest, warnings) = resolve::capsule(&document, declared)?;
    Ok(Loaded { manifest, path, dir, warnings, document })
}

/// Where a file says that it is a tool, hook or mod, if it does and has nothing of a capsule.
fn artifact(root: &Node) -> Option<Location> {
    let Kind::Mapping(entries) = &root.kind else { return None };
    let entry = |key: &str| entries.iter().find(|entry| entry.key == key);
    let capsule = ["artifacts", "inference", "capabilities"].into_iter().any(|key| entry(key).is_some());
    let own = ["runtime", "implementation", "input_schema", "command"].into_iter().find_map(entry);
    own.filter(|_| !capsule).map(|entry| entry.location)
}

/// The typed form of a tree, or every structural error in it.
pub(crate) fn decode<T: Value>(source: &Source, root: &Node, dir: &Path, home: Option<&Path>) -> Result<T, Rejected> {
    let mut cx = Context::new(source, dir, home);
    let value = T::decode(root, &mut cx);
    match value {
        Some(value) if cx.found.is_empty() => Ok(value),
        _ => Err(Rejected::new(cx.found)),
    }
}
