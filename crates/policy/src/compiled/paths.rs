//! Path rules of one operation.
//!
//! Exact, prefix and `literal/**` rules stand in one table by their path; a target looks up itself and
//! each directory above it, so the cost is the depth of the path, not the number of rules.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::text::{Patterns, TextSet};
use crate::boundaries::Unreadable;
use crate::document::{Base, Matching, NormalGlob, glob_set_pattern, normal_glob};
use crate::realpath::{Resolved, realpath};
use crate::{HardBlock, Operation};

/// The path rules of one operation.
#[derive(Debug, Default)]
pub(crate) struct PathSet {
    /// By path: the first rule that is about the path alone, and the first that covers what is below.
    named: HashMap<Box<[u8]>, Named>,
    /// The same paths with a `/` behind them, in order, to find those below a directory.
    ordered: BTreeMap<Box<[u8]>, usize>,
    text: TextSet,
    /// Where globs begin, for the search of hard links.
    literals: Vec<PathBuf>,
    /// Whether a pattern may match anywhere.
    anywhere: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Named {
    exact: Option<usize>,
    prefix: Option<usize>,
}

impl PathSet {
    pub(super) fn new<'a>(
        rules: impl Iterator<Item = (usize, &'a HardBlock)>,
        base: &Base,
        resolve: bool,
    ) -> Result<Self, Unreadable> {
        let mut set = Self::default();
        let mut patterns = Patterns::default();
        for (index, rule) in rules {
            let broken = || Unreadable::new(format!("the pattern of the rule `{}` cannot be placed", rule.id));
            match rule.matching {
                Matching::Exact => set.name(index, &base.absolute(&rule.pattern), true, resolve),
                Matching::Prefix => set.name(index, &base.absolute(&rule.pattern), false, resolve),
                Matching::Glob => {
                    let normal = normal_glob(&rule.pattern, base).ok_or_else(broken)?;
                    set.glob(index, &normal, &mut patterns, resolve).map_err(|_| broken())?;
                }
                Matching::Regex => {
                    patterns.regexes.push((index, rule.pattern.clone()));
                    set.anywhere = true;
                }
                Matching::Contains => {
                    patterns.texts.push((index, rule.pattern.clone()));
                    set.anywhere = true;
                }
            }
        }
        set.text = TextSet::new(patterns, false)?;
        Ok(set)
    }

    /// Adds a path, and what its links lead to.
    fn name(&mut self, rule: usize, path: &Path, exact: bool, resolve: bool) {
        self.insert(rule, path, exact);
        if resolve
            && let Resolved::Path(real) = realpath(path)
            && real != path
        {
            self.insert(rule, &real, exact);
        }
    }

    fn insert(&mut self, rule: usize, path: &Path, exact: bool) {
        let bytes = path.as_os_str().as_bytes();
        let named = self.named.entry(bytes.into()).or_default();
        let slot = if exact { &mut named.exact } else { &mut named.prefix };
        *slot = Some(slot.map_or(rule, |other| other.min(rule)));
        let below = [bytes, b"/"].concat().into_boxed_slice();
        let first = self.ordered.entry(below).or_insert(rule);
        *first = (*first).min(rule);
    }

    fn glob(
        &mut self,
        rule: usize,
        normal: &NormalGlob,
        patterns: &mut Patterns,
        resolve: bool,
    ) -> Result<(), globset::Error> {
        let own = normal.itself.as_deref().unwrap_or(&normal.whole);
        let is_literal =
            globset::escape(&normal.literal.to_string_lossy()) == own || normal.literal.to_str() == Some(own);
        if is_literal {
            self.name(rule, &normal.literal, normal.itself.is_none(), resolve);
            return Ok(());
        }
        self.literals.push(normal.literal.clone());
        self.anywhere |= normal.literal == Path::new("/");
        let mut add = |pattern: &str| glob_set_pattern(pattern, true).map(|glob| patterns.globs.push((rule, glob)));
        add(&normal.whole)?;
        normal.itself.iter().try_for_each(|own| add(own))?;
        // The directory in which the wildcards begin may be reached through a link.
        if resolve
            && let Resolved::Path(real) = realpath(&normal.literal)
            && real != normal.literal
            && let Some(real) = real.to_str()
        {
            let depth = normal.literal.components().count();
            let tail = |glob: &str| glob.split('/').skip(depth).collect::<Vec<_>>().join("/");
            let place = globset::escape(real);
            add(&format!("{}/{}", place.trim_end_matches('/'), tail(&normal.whole)))?;
            if let Some(own) = &normal.itself {
                add(&format!("{}/{}", place.trim_end_matches('/'), tail(own)))?;
            }
            self.literals.push(PathBuf::from(real));
        }
        Ok(())
    }

    /// The paths that rules name: the rule about the path alone, and the one that covers what is below.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&Path, Option<usize>, Option<usize>)> {
        self.named
            .iter()
            .map(|(bytes, named)| (Path::new(std::ffi::OsStr::from_bytes(bytes)), named.exact, named.prefix))
    }

    /// Whether a rule has a pattern.
    pub(crate) fn has_patterns(&self) -> bool {
        !self.text.is_empty()
    }

    /// The first rule whose pattern matches the path.
    pub(crate) fn pattern(&self, path: &Path) -> Option<usize> {
        self.text.find(path.as_os_str().as_bytes())
    }

    /// The directories in which globs begin.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &Path> {
        self.literals.iter().map(PathBuf::as_path)
    }

    /// Whether no rule is about the operation.
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.text.is_empty()
    }

    /// The first rule that covers the path.
    pub(crate) fn find(&self, operation: Operation, path: &Path) -> Option<usize> {
        let bytes = path.as_os_str().as_bytes();
        let delete = operation == Operation::Delete;
        let mut first: Option<usize> = None;
        let mut note = |rule: Option<usize>| first = first.into_iter().chain(rule).min();
        if !self.named.is_empty() {
            let mut end = bytes.len();
            loop {
                let ancestor = bytes.get(..end).unwrap_or_default();
                let key = if ancestor.is_empty() { b"/" } else { ancestor };
                if let Some(named) = self.named.get(key) {
                    note(named.prefix);
                    // What is deleted below a named directory is taken from that directory.
                    if delete || end == bytes.len() {
                        note(named.exact);
                    }
                }
                if key == b"/" {
                    break;
                }
                end = ancestor.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            }
            if delete {
                note(self.below(bytes));
            }
        }
        if !self.text.is_empty() {
            note(self.text.find(bytes));
        }
        first
    }

    /// A rule about something below the directory, which would go with it.
    fn below(&self, directory: &[u8]) -> Option<usize> {
        let start = if directory == b"/" { directory.to_vec() } else { [directory, b"/"].concat() };
        let mut from = self.ordered.range(start.clone().into_boxed_slice()..);
        from.next().filter(|(path, _)| path.starts_with(&start)).map(|(_, rule)| *rule)
    }

    /// The paths that rules name, and the directories in which their globs begin.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Path> {
        let named = self.named.keys().map(|bytes| Path::new(std::ffi::OsStr::from_bytes(bytes)));
        named.chain(self.literals.iter().map(PathBuf::as_path)).filter(|place| *place != Path::new("/"))
    }

    /// Whether a pattern may match below any directory.
    pub(crate) fn is_anywhere(&self) -> bool {
        self.anywhere
    }
}
