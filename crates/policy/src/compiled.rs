//! The rules as actions are judged by them: compiled once per change of the document.
//!
//! Each operation has matchers of its own, holding only the rules that name it, so one review asks a
//! handful of automata and tables and never goes through the rules. Which rule it was is only looked up
//! after a match. What is compiled is complete or does not exist: a pattern that no longer compiles
//! makes the whole unreadable, never a rule fewer.

mod commands;
mod open;
mod paths;
mod text;
mod tied;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use commands::CommandFinding;
use commands::CommandSet;
pub(crate) use paths::PathSet;

use crate::boundaries::Unreadable;
use crate::document::{self, Base, Document, Operations, Subject};
use crate::links::{FileId, LinkIndex};
use crate::realpath::{Found, Resolved, find, find_for_process};
use crate::shell::{Analysis, MAX_ENTRIES, expand};
use crate::{HardBlock, Operation};

/// What one document forbids, ready to be asked; or what several do.
#[derive(Debug, Clone)]
pub struct Compiled {
    layers: Vec<Arc<Layer>>,
}

/// One document's rules.
#[derive(Debug)]
pub(crate) struct Layer {
    rules: Vec<HardBlock>,
    base: Base,
    paths: [PathSet; 5],
    commands: CommandSet,
}

/// A rule that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The rule's id.
    pub id: Arc<str>,
    /// Its own words.
    pub reason: Option<Arc<str>>,
    /// The form of the target that matched: the lexical path, the real path, or the command's text.
    pub form: Form,
}

/// In which form a target matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// The path as it is written, made absolute and plain.
    Lexical(PathBuf),
    /// The path with its links resolved.
    Real(PathBuf),
    /// A hard link to something that the rule covers.
    HardLink(PathBuf),
    /// A command, as given or as it was found in the text.
    Command(String),
}

/// What the rules say about one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathFinding {
    Rule(Match),
    /// Its links cannot be followed, so nobody can say where it leads.
    Unresolvable,
    /// There is too much to look through for what else the file is called.
    Unindexed,
}

impl Compiled {
    /// Compiles a document. Links in the patterns of path rules are resolved now.
    ///
    /// # Errors
    /// When a pattern cannot be compiled or placed.
    pub fn new(document: &Document, base: &Base) -> Result<Self, Unreadable> {
        Ok(Self { layers: vec![Arc::new(Layer::new(document, base, true)?)] })
    }

    /// The same without looking at the file system.
    pub(crate) fn without_links(document: &Document, base: &Base) -> Result<Self, Unreadable> {
        Ok(Self { layers: vec![Arc::new(Layer::new(document, base, false)?)] })
    }

    /// No rules at all.
    #[must_use]
    pub fn empty() -> Self {
        Self { layers: Vec::new() }
    }

    /// What any of these forbids: a subagent's own boundaries and its ancestors'.
    #[must_use]
    pub fn join<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        Self { layers: all.into_iter().flat_map(|one| one.layers.iter().cloned()).collect() }
    }

    /// Each document that stands in this, with what its relative patterns are taken under: what a subagent is told of
    /// the boundaries that it works within.
    pub fn documents(&self) -> impl Iterator<Item = (serde_json::Value, &Base)> {
        self.layers.iter().map(|layer| (document::to_json(&layer.rules), &layer.base))
    }

    /// Whether this was compiled from the very same documents as another.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.layers.len() == other.layers.len()
            && self.layers.iter().zip(&other.layers).all(|(one, two)| Arc::ptr_eq(one, two))
    }

    /// Whether no enabled rule is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.governs_commands() && Operations::ALL.into_iter().all(|operation| !self.governs_paths(operation))
    }

    /// Whether any enabled rule is about commands.
    #[must_use]
    pub fn governs_commands(&self) -> bool {
        self.layers.iter().any(|layer| !layer.commands.is_empty())
    }

    /// Whether any enabled rule is about this operation on paths.
    #[must_use]
    pub fn governs_paths(&self, operation: Operation) -> bool {
        self.layers.iter().any(|layer| !layer.set(operation).is_empty())
    }

    /// The rule, in the order of the document, that a path runs into by its text alone.
    pub(crate) fn lexical(&self, operation: Operation, path: &Path) -> Option<Match> {
        self.find(operation, path, Form::Lexical)
    }

    /// The same for a path that the kernel gave.
    pub(crate) fn real(&self, operation: Operation, path: &Path) -> Option<Match> {
        self.find(operation, path, Form::Real)
    }

    fn find(&self, operation: Operation, path: &Path, form: fn(PathBuf) -> Form) -> Option<Match> {
        self.layers.iter().find_map(|layer| {
            let rule = layer.rules.get(layer.set(operation).find(operation, path)?)?;
            Some(rule.matched(form(path.to_owned())))
        })
    }

    /// Judges a path in both forms, and by its other names if the file has any.
    pub(crate) fn path(&self, operation: Operation, path: &Path, links: &LinkIndex) -> Option<PathFinding> {
        if !self.governs_paths(operation) {
            return None;
        }
        let plain = crate::lexical(path);
        if let Some(matched) = self.lexical(operation, &plain) {
            return Some(PathFinding::Rule(matched));
        }
        self.followed(operation, &plain, find(path), links)
    }

    /// The same for a path that a process looks up which starts in one of these directories.
    fn path_of_process(
        &self,
        operation: Operation,
        path: &Path,
        cwds: &[PathBuf],
        links: &LinkIndex,
    ) -> Option<PathFinding> {
        if !self.governs_paths(operation) {
            return None;
        }
        let plain = crate::lexical(path);
        if let Some(matched) = self.lexical(operation, &plain) {
            return Some(PathFinding::Rule(matched));
        }
        for cwd in cwds {
            let (found, depends) = find_for_process(path, cwd);
            let found = self.followed(operation, &plain, found, links);
            if found.is_some() || !depends {
                return found;
            }
        }
        None
    }

    /// Judges what a path's links lead to.
    fn followed(&self, operation: Operation, plain: &Path, found: Found, links: &LinkIndex) -> Option<PathFinding> {
        let real = match found.resolved {
            Resolved::Unresolvable => return Some(PathFinding::Unresolvable),
            Resolved::Path(real) => real,
        };
        if real != plain
            && let Some(matched) = self.real(operation, &real)
        {
            return Some(PathFinding::Rule(matched));
        }
        found.node.and_then(|node| self.linked(operation, &real, node, links))
    }

    /// Judges a file by its other names, if it has any.
    pub(crate) fn linked(
        &self,
        operation: Operation,
        real: &Path,
        node: FileId,
        links: &LinkIndex,
    ) -> Option<PathFinding> {
        if !node.has_other_names() || !self.governs_paths(operation) {
            return None;
        }
        match links.rule_of(self, operation, node) {
            Ok(None) => None,
            Ok(Some((layer, index))) => {
                let rule = self.layers.get(layer)?.rules.get(index)?;
                Some(PathFinding::Rule(rule.matched(Form::HardLink(real.to_owned()))))
            }
            Err(_) => Some(PathFinding::Unindexed),
        }
    }

    /// Judges a command that was analysed.
    pub(crate) fn command(&self, analysis: &Analysis) -> Option<CommandFinding> {
        self.layers.iter().find_map(|layer| {
            Some(match layer.commands.find(analysis)? {
                commands::Found::Rule(index, text) => {
                    CommandFinding::Rule(layer.rules.get(index)?.matched(Form::Command(text)))
                }
                commands::Found::MayRun(index, text, program) => {
                    let program = program.unwrap_or_else(|| "a program".to_owned());
                    let form = Form::Command(format!("{text} (which {program} may run)"));
                    CommandFinding::MayRun(layer.rules.get(index)?.matched(form))
                }
                commands::Found::NotAnalyzable(why) => CommandFinding::NotAnalyzable(why),
            })
        })
    }

    /// What a command's paths and file name patterns run into, as the file system is now; and its programs, which a
    /// shell finds in these directories.
    pub(crate) fn command_paths(&self, analysis: &Analysis, links: &LinkIndex, search: &[PathBuf]) -> Vec<PathFinding> {
        let cwds = analysis.directories();
        let one = |operation, path: &Path| self.path_of_process(operation, path, cwds, links);
        let mut found: Vec<PathFinding> =
            analysis.paths().iter().filter_map(|effect| one(effect.operation, &effect.path)).collect();
        if self.governs_paths(Operation::Execute) {
            let programs = analysis.programs().flat_map(|name| analysis.found_as(name, search));
            found.extend(programs.filter_map(|program| one(Operation::Execute, &program)));
        }
        let mut left = MAX_ENTRIES;
        for effect in analysis.patterns().iter().filter(|effect| self.governs_paths(effect.operation)) {
            match expand(&effect.base, &effect.pattern, &mut left) {
                Some(paths) => found.extend(paths.iter().filter_map(|path| one(effect.operation, path))),
                None => found.push(PathFinding::Unindexed),
            }
        }
        if analysis.has_too_many_paths() && Operations::ALL.into_iter().any(|operation| self.governs_paths(operation)) {
            found.push(PathFinding::Unindexed);
        }
        found
    }

    /// Which rule would forbid the operation on a path, for an operator who asks. A relative path is
    /// taken under `base`; links are followed as they are now.
    #[must_use]
    pub fn test_path(&self, operation: Operation, path: &str, base: &Base) -> Verdict {
        self.path(operation, &base.absolute(path), &LinkIndex::new(&base.workdir)).into()
    }

    /// Which rule would forbid a command text. The paths that it names are judged as well.
    #[must_use]
    pub fn test_command(&self, text: &str, base: &Base) -> Verdict {
        let analysis = Analysis::of_text(text, &base.workdir, &base.home);
        match self.command(&analysis) {
            Some(CommandFinding::Rule(matched) | CommandFinding::MayRun(matched)) => Verdict::Blocked(matched),
            Some(CommandFinding::NotAnalyzable(why)) => Verdict::Unclear(why),
            None => {
                let links = LinkIndex::new(&base.workdir);
                self.command_paths(&analysis, &links, &base.search).into_iter().next().into()
            }
        }
    }

    pub(crate) fn blocks_example(&self, target: &str) -> bool {
        self.layers.iter().any(|layer| {
            layer.rules.iter().any(|rule| match rule.subject {
                Subject::Path => {
                    let path = layer.base.absolute(target);
                    rule.operations.iter().any(|operation| layer.set(operation).find(operation, &path).is_some())
                }
                Subject::Command => {
                    let analysis = Analysis::of_text(target, &layer.base.workdir, &layer.base.home);
                    layer.commands.find(&analysis).is_some()
                }
            })
        })
    }

    pub(crate) fn layers(&self) -> &[Arc<Layer>] {
        &self.layers
    }
}

/// What the rules say to an operator who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No rule matches.
    Allowed,
    /// A rule matches.
    Blocked(Match),
    /// It would be blocked because it cannot be understood; the text says what about it.
    Unclear(&'static str),
}

impl From<Option<PathFinding>> for Verdict {
    fn from(finding: Option<PathFinding>) -> Self {
        match finding {
            None => Self::Allowed,
            Some(PathFinding::Rule(matched)) => Self::Blocked(matched),
            Some(PathFinding::Unresolvable) => Self::Unclear(crate::review::UNRESOLVABLE),
            Some(PathFinding::Unindexed) => Self::Unclear(crate::review::UNINDEXED),
        }
    }
}

impl Layer {
    fn new(document: &Document, base: &Base, resolve: bool) -> Result<Self, Unreadable> {
        let rules = document.rules().to_vec();
        let enabled = || rules.iter().enumerate().filter(|(_, rule)| rule.enabled);
        let mut paths: [PathSet; 5] = Default::default();
        for (set, operation) in paths.iter_mut().zip(Operations::ALL) {
            let about = enabled().filter(|(_, rule)| rule.subject == Subject::Path && rule.operations.has(operation));
            *set = PathSet::new(about, base, resolve)?;
        }
        let about =
            enabled().filter(|(_, rule)| rule.subject == Subject::Command && rule.operations.has(Operation::Execute));
        let commands = CommandSet::new(about)?;
        Ok(Self { rules, base: base.clone(), paths, commands })
    }

    pub(crate) fn rule(&self, index: usize) -> Option<&HardBlock> {
        self.rules.get(index)
    }

    /// The rules about paths that are in force, each once.
    pub(crate) fn path_rules(&self) -> impl Iterator<Item = &HardBlock> {
        self.rules.iter().filter(|rule| rule.enabled && rule.subject == Subject::Path)
    }

    /// The rules about paths of one operation.
    #[expect(clippy::indexing_slicing, reason = "there is a set for each of the five operations, in their order")]
    pub(crate) fn set(&self, operation: Operation) -> &PathSet {
        &self.paths[operation as usize]
    }
}

impl HardBlock {
    fn matched(&self, form: Form) -> Match {
        Match { id: Arc::clone(&self.id), reason: self.reason.clone(), form }
    }
}
