//! What the kernel is to keep from a process of what the rules forbid.
//!
//! A review judges what a command says; what its processes do then, only the kernel sees. So each rule about
//! paths becomes a mask over what exists when the process starts: hidden, read-only or not to be executed. A
//! mask covers at least what its rule covers of that file and never a file that no rule covers. What exists and
//! cannot be masked so is told by the rule's id: a directory that is named without what is below it, or more names
//! than can be looked through. Names that do not exist yet, and a link's own name, are for the reviews alone.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType};
use rustix::io::Errno;

use crate::compiled::{Compiled, Layer, PathSet};
use crate::links::{FileId, walk};
use crate::realpath::{Resolved, realpath};
use crate::tree::{Directory, Kind, Reach, Tree};
use crate::{Operation, Rules};

/// Masks of one process. Each is a mount.
const MAX_MASKS: usize = 1_000;
/// Entries below one masked directory that are looked through for files with other names.
const MAX_BELOW: usize = 20_000;
/// A name that no file has.
const PROBE: &str = "\u{1}mur";

/// How something is kept from a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Withheld {
    /// It cannot be read, changed or started.
    Hidden,
    /// It cannot be changed, removed or renamed.
    ReadOnly,
    /// It cannot be started as a program.
    NoExecute,
}

/// A path that exists, without links, and how it is kept from a process; with everything below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mask {
    /// Where.
    pub path: PathBuf,
    /// How.
    pub how: Withheld,
    /// The rule that asks for it; `None` for what the launch itself protects.
    pub rule: Option<Arc<str>>,
}

/// What the kernel is to keep from one process, and what it cannot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projection {
    /// What is to be masked; parents before what is below them.
    pub masks: Vec<Mask>,
    /// The ids of rules that cover something here which could not be masked.
    pub unmasked: BTreeSet<Arc<str>>,
}

/// Who wants a mask.
type Owner = Option<Arc<str>>;

/// Collects masks.
struct Gathering<'t> {
    tree: &'t Tree,
    masks: BTreeMap<(PathBuf, Withheld), Owner>,
    /// Files by device and inode: they may have other names.
    files: HashMap<(u64, u64), Vec<(Withheld, Owner)>>,
    unmasked: BTreeSet<Arc<str>>,
    /// The masks over what is named.
    named: HashSet<(PathBuf, Withheld)>,
}

impl Projection {
    pub(crate) fn new(rules: &Rules, compiled: &Compiled, tree: &mut Tree, roots: &[PathBuf]) -> Self {
        let mut all = Self::default();
        let named = named(rules, compiled, roots, &mut all.unmasked);
        let is_searched = sets(compiled).any(PathSet::has_patterns) || named.iter().any(Named::may_have_other_names);
        let places = if is_searched { places(&named, compiled, roots) } else { Vec::new() };
        let reach = if is_searched { tree.refresh(places.iter().map(PathBuf::as_path)) } else { Reach::default() };
        let (masks, files, unmasked) = (BTreeMap::new(), HashMap::new(), all.unmasked);
        let mut gathering = Gathering { tree, masks, files, unmasked, named: HashSet::new() };
        for named in named {
            gathering.name(named);
        }
        if is_searched {
            let tops = tops(&places);
            for layer in compiled.layers() {
                gathering.patterns(layer, &tops);
            }
            gathering.other_names();
        }
        // Nobody can say what is in there; whoever owns it could open it again while the process runs.
        for closed in reach.closed.into_iter().filter(|closed| !places.contains(closed)) {
            gathering.masks.entry((closed, Withheld::Hidden)).or_default();
        }
        if reach.is_cut {
            let rules = compiled.layers().iter().flat_map(|layer| layer.path_rules());
            gathering.unmasked.extend(rules.map(|rule| Arc::clone(&rule.id)));
        }
        gathering.finish()
    }
}

/// Where names are looked at: everywhere that the process can reach, below the masks, because what is masked may have
/// another name, and where patterns begin.
fn places(named: &[Named], compiled: &Compiled, roots: &[PathBuf]) -> Vec<PathBuf> {
    let directories = named.iter().filter(|named| named.is_directory).map(|named| named.mask.path.as_path());
    let literals = sets(compiled).flat_map(|set| set.literals());
    // Below what lies above a root, the root is all that can be reached.
    let literals = literals.filter(|place| !roots.iter().any(|root| root.starts_with(place)));
    let all: BTreeSet<&Path> = roots.iter().map(PathBuf::as_path).chain(directories).chain(literals).collect();
    all.into_iter().map(Path::to_owned).collect()
}

/// Those that lie below no other. They are in order, so what is below one comes right behind it.
fn tops(places: &[PathBuf]) -> Vec<&Path> {
    let mut tops: Vec<&Path> = Vec::new();
    for place in places {
        if !tops.last().is_some_and(|top| place.starts_with(top)) {
            tops.push(place);
        }
    }
    tops
}

fn sets(compiled: &Compiled) -> impl Iterator<Item = &PathSet> {
    compiled.layers().iter().flat_map(|layer| OPERATIONS.iter().map(|(operation, _)| layer.set(*operation)))
}

/// What each operation becomes. Delegation is not a process's to do.
const OPERATIONS: [(Operation, Withheld); 4] = [
    (Operation::Read, Withheld::Hidden),
    (Operation::Write, Withheld::ReadOnly),
    (Operation::Delete, Withheld::ReadOnly),
    (Operation::Execute, Withheld::NoExecute),
];

/// Something that a rule names and that exists.
struct Named {
    mask: Mask,
    file: FileId,
    is_directory: bool,
}

impl Named {
    /// Whether it, or a file below it, is known by another name somewhere. Looking through it costs less than looking
    /// through everything that the process can reach, which most often is not needed then.
    fn may_have_other_names(&self) -> bool {
        if !self.is_directory {
            return self.file.has_other_names();
        }
        // Of the launch's own, only the runtime's records are hidden, and those it makes itself.
        if self.mask.rule.is_none() && self.mask.how == Withheld::Hidden {
            return false;
        }
        let (mut left, mut found) = (MAX_BELOW, false);
        let walked = walk(&self.mask.path, &mut left, |_, file| found |= file.has_other_names());
        found || walked.is_err()
    }
}

/// What the launch's rules and the operator's name.
fn named(rules: &Rules, compiled: &Compiled, roots: &[PathBuf], unmasked: &mut BTreeSet<Arc<str>>) -> Vec<Named> {
    let mut found = Vec::new();
    let hidden = rules.hidden_paths().iter().map(|path| (path, Withheld::Hidden));
    let fixed = hidden.chain(rules.read_only_paths().iter().map(|path| (path, Withheld::ReadOnly)));
    for (path, how) in fixed {
        found.extend(existing(path, how, None, roots));
    }
    for layer in compiled.layers() {
        for (operation, how) in OPERATIONS {
            for (path, exact, prefix) in layer.set(operation).named() {
                let owner = |rule: usize| layer.rule(rule).map(|rule| Arc::clone(&rule.id));
                let here = prefix.or(exact).and_then(|rule| existing(path, how, owner(rule), roots));
                match here {
                    Some(here) if prefix.is_none() && here.is_directory => unmasked.extend(here.mask.rule),
                    here => found.extend(here),
                }
            }
        }
    }
    found
}

fn existing(path: &Path, how: Withheld, rule: Owner, roots: &[PathBuf]) -> Option<Named> {
    let Resolved::Path(real) = realpath(path) else { return None };
    // The root of everything cannot be taken away from a process that is to run.
    if real == Path::new("/") {
        return None;
    }
    match rustix::fs::statat(CWD, &real, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            Some(Named { mask: Mask { path: real, how, rule }, file: FileId::from_stat(&stat), is_directory })
        }
        Err(Errno::NOENT | Errno::NOTDIR) => None,
        // A directory on the way was closed, and can be opened again by its owner: then all of it goes.
        Err(_) => {
            let below_root = |path: &Path| roots.iter().any(|root| path != root && path.starts_with(root));
            let mut above = real.ancestors().skip(1).filter(|above| below_root(above));
            let closed = above.find_map(|above| Some((above, FileId::of(above)?)));
            closed.map(|(above, file)| {
                let mask = Mask { path: above.to_owned(), how: Withheld::Hidden, rule };
                // Nobody can look below it, and nobody has to.
                Named { mask, file, is_directory: false }
            })
        }
    }
}

impl Gathering<'_> {
    fn name(&mut self, named: Named) {
        let Named { mask: Mask { path, how, rule }, file, is_directory } = named;
        if !is_directory && file.has_other_names() {
            self.files.entry((file.device, file.inode)).or_default().push((how, rule.clone()));
        }
        self.named.insert((path.clone(), how));
        self.masks.entry((path, how)).or_insert(rule);
    }

    /// Tries the patterns of a document on every name.
    fn patterns(&mut self, layer: &Layer, tops: &[&Path]) {
        for (operation, how) in OPERATIONS {
            let set = layer.set(operation);
            if !set.has_patterns() {
                continue;
            }
            let mut matched = Vec::new();
            for directory in tops.iter().filter_map(|top| self.tree.directory(top)) {
                self.below(&directory, &|path| set.pattern(path), &mut matched);
            }
            for Matched { path, rule, node, is_covered } in matched {
                let owner = layer.rule(rule).map(|rule| Arc::clone(&rule.id));
                if !is_covered {
                    self.unmasked.extend(owner);
                    continue;
                }
                if let Some(node) = node {
                    self.files.entry(node).or_default().push((how, owner.clone()));
                }
                self.masks.entry((path, how)).or_insert(owner);
            }
        }
    }

    /// What matches in a directory and below it; whether that is all there is and could be.
    fn below(
        &self,
        directory: &Directory<'_>,
        find: &dyn Fn(&Path) -> Option<usize>,
        matched: &mut Vec<Matched>,
    ) -> bool {
        let start = matched.len();
        let own = find(directory.path);
        let probe = directory.path.join(PROBE);
        let mut whole = own.is_some() && find(&probe).is_some() && find(&probe.join(PROBE)).is_some();
        for entry in directory.entries {
            let path = directory.path.join(&entry.name);
            let below = (entry.kind == Kind::Directory).then(|| self.tree.directory(&path)).flatten();
            let covered = match (below, find(&path)) {
                (Some(below), _) => self.below(&below, find, matched),
                (None, Some(rule)) => {
                    match entry.kind {
                        // It could not be listed.
                        Kind::Directory => matched.push(Matched { path, rule, node: None, is_covered: false }),
                        // What it leads to has a name of its own.
                        Kind::Link => {}
                        Kind::Other => {
                            let node = Some((directory.device, entry.inode));
                            matched.push(Matched { path, rule, node, is_covered: true });
                        }
                    }
                    true
                }
                (None, None) => false,
            };
            whole &= covered;
        }
        if let Some(rule) = own {
            if whole {
                matched.truncate(start);
            }
            matched.push(Matched { path: directory.path.to_owned(), rule, node: None, is_covered: whole });
        }
        whole
    }

    /// Masks the other names of what is masked.
    fn other_names(&mut self) {
        let mut masked: HashMap<&Path, Vec<(Withheld, &Owner)>> = HashMap::new();
        for ((path, how), owner) in &self.masks {
            masked.entry(path).or_default().push((*how, owner));
        }
        for directory in self.tree.directories() {
            for (how, owner) in directory.path.ancestors().filter_map(|above| masked.get(above)).flatten() {
                for entry in directory.entries.iter().filter(|entry| entry.kind == Kind::Other) {
                    let wanted = self.files.entry((directory.device, entry.inode)).or_default();
                    if !wanted.iter().any(|(other, _)| other == how) {
                        wanted.push((*how, (*owner).clone()));
                    }
                }
            }
        }
        for directory in self.tree.directories() {
            for entry in directory.entries.iter().filter(|entry| entry.kind == Kind::Other) {
                for (how, owner) in self.files.get(&(directory.device, entry.inode)).into_iter().flatten() {
                    let path = directory.path.join(&entry.name);
                    self.masks.entry((path, *how)).or_insert_with(|| owner.clone());
                }
            }
        }
    }

    fn finish(self) -> Projection {
        let Self { masks, mut unmasked, named, .. } = self;
        let mut kept: Vec<Mask> = Vec::new();
        let mut covering: BTreeSet<(PathBuf, Withheld)> = BTreeSet::new();
        for ((path, how), rule) in masks {
            let covered = path.ancestors().any(|above| {
                let by = |how| covering.contains(&(above.to_owned(), how));
                by(Withheld::Hidden) || (above != path && by(how))
            });
            if !covered {
                covering.insert((path.clone(), how));
                kept.push(Mask { path, how, rule });
            }
        }
        if kept.len() > MAX_MASKS {
            // What is named comes first, then what is nearest to a root: nobody crowds it out by making more.
            kept.sort_by_cached_key(|mask| {
                let is_named = named.contains(&(mask.path.clone(), mask.how));
                (!is_named, mask.path.components().count(), mask.path.clone())
            });
            unmasked.extend(kept.split_off(MAX_MASKS).into_iter().filter_map(|mask| mask.rule));
            kept.sort();
        }
        Projection { masks: kept, unmasked }
    }
}

/// A name that a pattern matches.
struct Matched {
    path: PathBuf,
    rule: usize,
    /// By device and inode, where it may have other names.
    node: Option<(u64, u64)>,
    /// Whether a mask over it is what the rule asks for.
    is_covered: bool,
}
