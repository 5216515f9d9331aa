//! What a task has seen, changed and verified, and what follows from it.
//!
//! These are safeguards of the work, not of the host: they keep a whole file from being replaced unseen
//! and unverified work from being committed. A shell can get around them, and hard blocks are what
//! forbids. Everything here is data about one task; nothing is read from the file system.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::Blocker;
use crate::background::Background;

/// What a task is for, by the word that started it. It decides about commits alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StructuralAction {
    /// Any other work.
    #[default]
    Other,
    /// Work that ends in a commit.
    Factory,
    /// The commit itself.
    Commit,
}

impl StructuralAction {
    /// From `--action` or a message's metadata; an unknown word is other work.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "factory" => Self::Factory,
            "commit" => Self::Commit,
            _ => Self::Other,
        }
    }
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The device's number.
    pub device: u64,
    /// The inode's number.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Seconds and nanoseconds since the epoch.
    pub modified: (i64, u64),
}

/// What the helper says about a task: why something is closed, or nothing when it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionPolicy {
    /// Whether the task may change anything.
    pub mutation: Option<Blocker>,
    /// Whether it may commit.
    pub commit: Option<Blocker>,
}

/// What one task has done so far.
#[derive(Debug, Default)]
pub struct Gates {
    action: StructuralAction,
    verify: Vec<String>,
    seen: HashMap<PathBuf, Stamp>,
    /// Files that its tools, or those of its subagents, wrote or removed.
    changed: BTreeSet<PathBuf>,
    /// Whether a verification succeeded and nothing has changed since.
    verified: bool,
    /// The session's commands at large.
    background: Background,
    /// How quiet it was when something last ran.
    quiet: Option<u64>,
}

impl Gates {
    /// A task that has done nothing. `verify` are the manifest's verification commands.
    #[must_use]
    pub fn new(action: StructuralAction, verify: Vec<String>) -> Self {
        Self { action, verify, ..Self::default() }.within(Background::default())
    }

    /// The same in a session with these commands at large.
    pub(crate) fn within(self, background: Background) -> Self {
        Self { quiet: background.quiet(), background, ..self }
    }

    /// The task read this file, as it was then.
    pub fn read(&mut self, real: &Path, stamp: Stamp) {
        self.seen.insert(real.to_owned(), stamp);
    }

    /// The task wrote this file, which is now so.
    pub fn wrote(&mut self, real: &Path, stamp: Stamp) {
        self.seen.insert(real.to_owned(), stamp);
        self.changed(real);
    }

    /// A file was written or removed, by a tool or by a subagent's.
    pub fn changed(&mut self, real: &Path) {
        self.changed.insert(real.to_owned());
        self.verified = false;
    }

    /// The files that were, in the order of their names.
    pub fn changed_files(&self) -> impl Iterator<Item = &Path> {
        self.changed.iter().map(PathBuf::as_path)
    }

    /// The task changed something else: it deleted or moved a file, or ran a program that may have.
    pub fn mutated(&mut self) {
        self.verified = false;
        self.quiet = self.background.quiet();
    }

    /// Whether a shell command is one of the verification commands.
    #[must_use]
    pub fn is_verification(&self, command: &str) -> bool {
        self.verify.iter().any(|verify| verify.trim() == command.trim())
    }

    /// The task ran a shell command to its end. Whether it was a verification is known here.
    pub fn ran(&mut self, command: &str, succeeded: bool) {
        self.verified = self.is_verification(command) && succeeded;
    }

    /// Whether an existing file may be replaced whole.
    ///
    /// # Errors
    /// The reason against it: the task has not seen the file, or it has changed since.
    pub fn may_overwrite(&self, real: &Path, now: Stamp) -> Result<(), Blocker> {
        match self.seen.get(real) {
            Some(seen) if *seen == now => Ok(()),
            Some(_) => Err(Blocker::new(
                "mutation_gate:changed_since_seen",
                "the file has changed since this task read or wrote it; read it again before it is replaced",
            )),
            None => Err(Blocker::new(
                "mutation_gate:not_seen",
                "the file exists and this task has not read it; read it before it is replaced, or edit a passage",
            )),
        }
    }

    /// What the task may do, given the hard blockers that stand against it.
    #[must_use]
    pub fn execution_policy(&self, blockers: &[Blocker]) -> ExecutionPolicy {
        let hard = blockers.iter().find(|blocker| blocker.code.starts_with("hard_policy_block:"));
        let mutation = hard.cloned();
        let commit = mutation.clone().or_else(|| self.commit_blocker());
        ExecutionPolicy { mutation, commit }
    }

    fn commit_blocker(&self) -> Option<Blocker> {
        let (code, reason) = if self.action == StructuralAction::Other {
            ("commit_gate:action", "only a task that was started with the action `factory` or `commit` may commit")
        } else if self.verify.is_empty() {
            ("commit_gate:no_verification", "the manifest's `verify` names no command that could verify the work")
        } else if self.background.is_busy() {
            (
                "commit_gate:background",
                "a command still runs in the background and may change what was verified; its end comes as a task of its own",
            )
        } else if !self.verified || self.quiet != self.background.quiet() {
            (
                "commit_gate:not_verified",
                "no command of the manifest's `verify` has succeeded since something was last changed; run one first",
            )
        } else {
            return None;
        };
        Some(Blocker::new(code, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { device: 1, inode: 2, size: 3, modified: (4, 5) };

    fn overwrite(gates: &Gates, stamp: Stamp) -> Option<&'static str> {
        gates.may_overwrite(Path::new("/w/a"), stamp).err().map(|blocker| blocker.code)
    }

    #[test]
    fn a_file_is_replaced_only_as_it_was_seen() {
        let mut gates = Gates::default();
        assert_eq!(overwrite(&gates, STAMP), Some("mutation_gate:not_seen"));
        gates.read(Path::new("/w/b"), STAMP);
        assert_eq!(overwrite(&gates, STAMP), Some("mutation_gate:not_seen"));
        gates.read(Path::new("/w/a"), STAMP);
        assert_eq!(overwrite(&gates, STAMP), None);
        let later = Stamp { modified: (4, 6), ..STAMP };
        assert_eq!(overwrite(&gates, later), Some("mutation_gate:changed_since_seen"));
        gates.wrote(Path::new("/w/a"), later);
        assert_eq!(overwrite(&gates, later), None);
    }

    #[test]
    fn a_commit_wants_its_action_and_a_verification_after_the_last_change() {
        let commit = |gates: &Gates| gates.execution_policy(&[]).commit.map(|blocker| blocker.code);
        let verify = vec!["cargo test".to_owned()];
        let mut other = Gates::new(StructuralAction::named("chat"), verify.clone());
        other.ran("cargo test", true);
        assert_eq!(commit(&other), Some("commit_gate:action"));
        let mut none = Gates::new(StructuralAction::named("commit"), Vec::new());
        none.ran("cargo test", true);
        assert_eq!(commit(&none), Some("commit_gate:no_verification"));
        let mut gates = Gates::new(StructuralAction::named("factory"), verify);
        let mut step = |change: &dyn Fn(&mut Gates)| {
            change(&mut gates);
            commit(&gates)
        };
        let closed = Some("commit_gate:not_verified");
        assert_eq!(step(&|_| ()), closed);
        assert_eq!(step(&|gates| gates.ran("cargo test", false)), closed);
        assert_eq!(step(&|gates| gates.ran(" cargo test\n", true)), None);
        assert_eq!(step(&|gates| gates.read(Path::new("/w/a"), STAMP)), None);
        assert_eq!(step(&|gates| gates.wrote(Path::new("/w/a"), STAMP)), closed);
        assert_eq!(step(&|gates| gates.ran("cargo test", true)), None);
        assert_eq!(step(&|gates| gates.ran("sed -i s/a/b/ x", true)), closed);
        assert_eq!(step(&|gates| gates.ran("cargo test", true)), None);
        assert_eq!(step(&Gates::mutated), closed);
    }

    #[test]
    fn a_hard_blocker_closes_both_gates_and_another_closes_neither() {
        let mut gates = Gates::new(StructuralAction::Commit, vec!["v".to_owned()]);
        gates.ran("v", true);
        let hard = Blocker::new("hard_policy_block:boundaries_unreadable", "x");
        let both = ExecutionPolicy { mutation: Some(hard.clone()), commit: Some(hard.clone()) };
        assert_eq!(gates.execution_policy(&[hard]), both);
        let other = Blocker::new("read_only_path", "x");
        assert_eq!(gates.execution_policy(&[other]), ExecutionPolicy { mutation: None, commit: None });
    }
}
