//! The execution of a parsed diff: check all, prepare all, rename all, or put everything back.
//!
//! Sections are keyed by the path that their names lead to once links are resolved, so two names for one
//! file cannot slip past the check for sections that collide. All sources are read before anything is
//! written; that is git's own meaning of a copy, and it makes swaps of two names work.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use policy::{Operation, Permit, RawResult};

use super::apply::Applied;
use super::{FileChange, FileDiff, PatchError};
use crate::execution::Stop;
use crate::files::{Access, Done, Given, Node, Place, Reach, Root, Site, Staged, read_whole};
use crate::{ToolError, show};

/// Bytes of all sources together.
const MAX_TOTAL: u64 = 128 * 1024 * 1024;

/// A section with its paths as they stand below the root.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) source: Option<Given>,
    pub(super) target: Option<Given>,
    pub(super) diff: FileDiff,
}

impl Item {
    pub(super) fn new(root: &Root, diff: FileDiff) -> Self {
        let given = |path: Option<&Path>| path.map(|path| Given::path(root, path));
        Self { source: given(diff.change.source()), target: given(diff.change.target()), diff }
    }

    /// What it does to which path. The source is read, because what is told about a hunk that does not
    /// fit shows its lines.
    pub(super) fn effects(&self) -> impl Iterator<Item = (Operation, &Given)> {
        let removed = self.source.iter().filter(|_| self.diff.change.removes());
        let read = self.source.iter().map(|given| (Operation::Read, given));
        let delete = removed.map(|given| (Operation::Delete, given));
        read.chain(delete).chain(self.target.iter().map(|given| (Operation::Write, given)))
    }
}

/// A source, held and read.
struct Source {
    place: Place,
    content: Vec<u8>,
}

/// A file to be written.
struct Output<'a> {
    item: &'a Item,
    given: &'a Given,
    /// Whose owner and mode it gets: the key of a source.
    like: Option<PathBuf>,
    applied: Applied,
}

/// All that a diff does, checked; nothing is done yet.
#[derive(Default)]
struct Plan<'a> {
    sources: BTreeMap<PathBuf, Source>,
    outputs: BTreeMap<PathBuf, Output<'a>>,
    /// Files that are gone afterwards, unless they are written as well.
    removed: BTreeMap<PathBuf, &'a Given>,
    total: u64,
}

pub(super) fn run(site: Site<'_>, items: &[Item]) -> Result<RawResult, Stop> {
    let mut plan = Plan::default();
    for item in items {
        plan.add(site, item)?;
    }
    plan.check(site)?;
    if site.cancel.is_canceled() {
        return Err(ToolError::Canceled.into());
    }
    let mut made = Vec::new();
    let done = plan.stage(site, &mut made).and_then(|staged| commit(staged, site.permit));
    match done {
        Ok(done) => {
            done.into_iter().for_each(|change| change.finish(site.permit));
            made.iter_mut().for_each(Place::keep);
            Ok(RawResult::ok(tell(items, &plan)))
        }
        Err(stop) => {
            // The last one first: a directory may have been made in one that was made before.
            while made.pop().is_some() {}
            Err(stop)
        }
    }
}

impl<'a> Plan<'a> {
    /// Reads a section's source, applies its hunks and notes what it does.
    fn add(&mut self, site: Site<'_>, item: &'a Item) -> Result<(), Stop> {
        let source = match &item.source {
            Some(given) => Some(self.source(site, given)?),
            None => None,
        };
        let before = source.as_ref().and_then(|key| self.sources.get(key)).map_or(&[][..], |source| &source.content);
        let applied = item.diff.applied(before)?;
        let twice = |given: &Given| PatchError::Twice { path: given.shown() };
        if let (true, Some(given), Some(key)) = (item.diff.change.removes(), &item.source, &source)
            && self.removed.insert(key.clone(), given).is_some()
        {
            return Err(twice(given).into());
        }
        match &item.target {
            Some(given) => {
                let key = site.target(given)?;
                let output = Output { item, given, like: source, applied };
                if self.outputs.insert(key, output).is_some() {
                    return Err(twice(given).into());
                }
            }
            None if !applied.content.is_empty() => {
                let path = item.source.as_ref().map(Given::shown).unwrap_or_default();
                return Err(PatchError::DeletionLeavesLines { path }.into());
            }
            None => {}
        }
        Ok(())
    }

    /// Holds and reads a source once.
    fn source(&mut self, site: Site<'_>, given: &Given) -> Result<PathBuf, Stop> {
        let place = site.place(given, Operation::Read, Reach { make: false, follow: false })?;
        let node = place.file()?;
        let cleared = node.clear(site.permit)?;
        let key = node.real().to_owned();
        if !self.sources.contains_key(&key) {
            let content = read_whole(&mut node.open(&cleared)?, node.size(), given.written())?;
            self.total += content.len() as u64;
            if self.total > MAX_TOTAL {
                return Err(PatchError::TooLarge { limit: MAX_TOTAL }.into());
            }
            self.sources.insert(key.clone(), Source { place, content });
        }
        Ok(key)
    }

    /// That the sections agree with each other and with what is there.
    fn check(&self, site: Site<'_>) -> Result<(), Stop> {
        for (key, output) in &self.outputs {
            let modifies = matches!(output.item.diff.change, FileChange::Modify(_));
            let removed = self.removed.contains_key(key);
            if modifies && removed {
                return Err(PatchError::Twice { path: output.given.shown() }.into());
            }
            let place = site.place(output.given, Operation::Write, Reach { make: false, follow: false });
            let exists = match place {
                Ok(place) => {
                    place.require_writable()?;
                    place.existing().is_some()
                }
                // Its directory is missing and will be made.
                Err(Stop::Failed(ToolError::NotFound { .. })) => false,
                Err(stop) => return Err(stop),
            };
            if exists && !modifies && !removed {
                return Err(PatchError::Exists { path: output.given.shown() }.into());
            }
            if let Some((_, other)) = key.ancestors().skip(1).find_map(|above| self.outputs.get_key_value(above)) {
                let (file, below) = (other.given.shown(), output.given.shown());
                return Err(PatchError::FileAndDirectory { file, below }.into());
            }
        }
        for (key, given) in &self.removed {
            let source = self.sources.get(key).ok_or_else(|| ToolError::NotFound { path: given.shown() })?;
            source.place.clear(site.permit, Operation::Delete)?;
        }
        Ok(())
    }

    fn applied(&self, item: &Item) -> Option<&Applied> {
        self.outputs.values().find(|output| std::ptr::eq(output.item, item)).map(|output| &output.applied)
    }

    /// Writes all new content beside its place. The places are kept in `made`, for the directories that
    /// were made for them.
    fn stage(&self, site: Site<'_>, made: &mut Vec<Place>) -> Result<Vec<Staged>, Stop> {
        let mut staged = Vec::new();
        for (key, output) in &self.outputs {
            made.push(site.place(output.given, Operation::Write, Reach { make: true, follow: false })?);
            let Some(place) = made.last() else { continue };
            let read = self.sources.get(key).and_then(|source| source.place.existing());
            // What was read must be what is replaced.
            if place.existing().map(Node::identity) != read.map(Node::identity) {
                return Err(ToolError::Conflict { path: output.given.shown() }.into());
            }
            let cleared = place.clear(site.permit, Operation::Write)?;
            let like =
                output.like.as_ref().and_then(|key| self.sources.get(key)).and_then(|source| source.place.existing());
            let access = Access { like, executable: output.item.diff.executable };
            staged.push(Staged::write(place, &output.applied.content, access, &cleared)?);
        }
        for (key, _) in self.removed.iter().filter(|(key, _)| !self.outputs.contains_key(*key)) {
            if let Some(source) = self.sources.get(key) {
                staged.push(Staged::remove(&source.place, &source.place.clear(site.permit, Operation::Delete)?)?);
            }
        }
        Ok(staged)
    }
}

/// Changes the names, one after another; on a failure those that are changed are changed back.
fn commit(staged: Vec<Staged>, permit: &Permit) -> Result<Vec<Done>, Stop> {
    permit.mutated();
    let mut done: Vec<Done> = Vec::with_capacity(staged.len());
    for change in staged {
        let next = change.clear(permit).and_then(|cleared| Ok(change.commit(&cleared)?));
        match next {
            Ok(next) => done.push(next),
            Err(stop) => {
                let stuck = done.into_iter().rev().filter_map(|change| change.undo().err()).count();
                return Err(if stuck == 0 { stop } else { ToolError::PartlyUndone { files: stuck }.into() });
            }
        }
    }
    Ok(done)
}

fn tell(items: &[Item], plan: &Plan<'_>) -> String {
    let mut text = format!("Applied to {}:\n", show::count(items.len() as u64, "file", "files"));
    for item in items {
        let name = |given: &Option<Given>| given.as_ref().map(Given::shown).unwrap_or_default();
        let (source, target) = (name(&item.source), name(&item.target));
        let (added, removed) = item.diff.counts();
        // Writing to a string cannot fail.
        let _ = match &item.diff.change {
            FileChange::Create(_) => write!(text, "created `{target}`: {}", show::count(added as u64, "line", "lines")),
            FileChange::Modify(_) => write!(text, "changed `{target}`: +{added} -{removed}"),
            FileChange::Delete(_) => write!(text, "deleted `{source}`"),
            FileChange::Rename { .. } => write!(text, "renamed `{source}` to `{target}`: +{added} -{removed}"),
            FileChange::Copy { .. } => write!(text, "copied `{source}` to `{target}`: +{added} -{removed}"),
        };
        text.push_str(match (&item.diff.change, item.diff.executable) {
            (FileChange::Delete(_), _) | (_, None) | (FileChange::Create(_), Some(false)) => "",
            (_, Some(true)) => ", executable",
            (_, Some(false)) => ", not executable any more",
        });
        if let Some(applied) = plan.applied(item) {
            for (hunk, lines) in &applied.moved {
                let way = if *lines > 0 { "below" } else { "above" };
                let lines = show::count(lines.unsigned_abs() as u64, "line", "lines");
                let _ = write!(text, "; hunk {hunk} stood {lines} {way} where its header says");
            }
            if applied.as_crlf {
                text.push_str("; the file's CRLF line endings were kept");
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
