//! Review before dispatch, and review again at the point of effect.
//!
//! The permit carries the reviewed action itself, so an executor can only do what was reviewed; it is
//! consumed by the execution and cannot be kept. Each concrete target is judged anew, by the same
//! rules, on what the kernel says it is: a swap between the two reviews gains nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fence::RuntimeWords;

use crate::{Action, Operation, Rules, Target};

/// Which of the two reviews spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before dispatch.
    Propose,
    /// At the point of effect.
    Execute,
}

/// One reason against an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// A stable code.
    pub code: &'static str,
    /// A sentence for the model and the operator.
    pub reason: &'static str,
}

impl Blocker {
    pub(crate) fn new(code: &'static str, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

/// A no, with every reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    phase: Phase,
    blockers: Vec<Blocker>,
}

impl Denial {
    /// Which review said no.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Why.
    #[must_use]
    pub fn blockers(&self) -> &[Blocker] {
        &self.blockers
    }

    /// What the model is told.
    pub fn words(&self, tool: &str) -> RuntimeWords {
        let mut words = RuntimeWords::new("the call to `").echo(tool).text("` was blocked: ");
        for (index, blocker) in self.blockers.iter().enumerate() {
            if index > 0 {
                words = words.text("; ");
            }
            words = words.text(blocker.reason).text(" [").text(blocker.code).text("]");
        }
        match self.phase {
            Phase::Propose => words.text(". Nothing ran."),
            Phase::Execute => words.text(". The blocked step did not run."),
        }
    }
}

/// The policy of one session.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Arc<Rules>,
}

/// What a review found.
#[derive(Debug)]
#[must_use]
pub enum Review {
    /// The action may be tried.
    Allowed(Permit),
    /// It may not; the action comes back for the record.
    Denied(Action, Denial),
}

impl Policy {
    /// A policy of these rules.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules: Arc::new(rules) }
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Judges an action before anything of it is done.
    pub fn review(&self, action: Action) -> Review {
        let blockers: Vec<Blocker> = action
            .effects
            .iter()
            .filter_map(|effect| match &effect.target {
                Target::Path(path) => self.rules.judge(effect.operation, path),
                // Commands have no rules of their own yet; their directory is an effect beside them.
                Target::Command(_) | Target::Argv(_) => None,
            })
            .collect();
        if blockers.is_empty() {
            Review::Allowed(Permit { action, rules: Arc::clone(&self.rules) })
        } else {
            Review::Denied(action, Denial { phase: Phase::Propose, blockers })
        }
    }
}

/// The right to try one reviewed action, once. Neither cloneable nor loadable.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    action: Action,
    rules: Arc<Rules>,
}

/// The right to one concrete effect. The primitives that touch files or start processes demand it.
#[derive(Debug)]
pub struct Cleared {
    operation: Operation,
    path: PathBuf,
}

impl Cleared {
    /// What may be done.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The real path to which it may be done: for a process, its program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

const NOT_REVIEWED: &str = "the step is not part of what was reviewed";

impl Permit {
    /// What was reviewed.
    #[must_use]
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// The directory under which relative paths are taken.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.rules.root()
    }

    /// Judges an operation on a path as the kernel knows it, all links resolved.
    ///
    /// # Errors
    /// The denial, when a rule forbids it or the reviewed action holds no such operation.
    pub fn confirm_path(&self, operation: Operation, real: &Path) -> Result<Cleared, Denial> {
        let reviewed = self
            .action
            .effects
            .iter()
            .any(|effect| effect.operation == operation && matches!(effect.target, Target::Path(_)));
        let blocker =
            if reviewed { self.rules.judge(operation, real) } else { Some(Blocker::new("not_reviewed", NOT_REVIEWED)) };
        match blocker {
            None => Ok(Cleared { operation, path: real.to_owned() }),
            Some(blocker) => Err(Denial { phase: Phase::Execute, blockers: vec![blocker] }),
        }
    }

    /// Judges the start of a program: its resolved path and its real working directory.
    ///
    /// # Errors
    /// The denial, when a rule forbids it or the reviewed action starts no process.
    pub fn confirm_process(&self, program: &Path, cwd: &Path) -> Result<Cleared, Denial> {
        let reviewed =
            self.action.effects.iter().any(|effect| matches!(effect.target, Target::Command(_) | Target::Argv(_)));
        let blocker = if reviewed {
            self.rules.judge(Operation::Read, cwd)
        } else {
            Some(Blocker::new("not_reviewed", NOT_REVIEWED))
        };
        match blocker {
            None => Ok(Cleared { operation: Operation::Execute, path: program.to_owned() }),
            Some(blocker) => Err(Denial { phase: Phase::Execute, blockers: vec![blocker] }),
        }
    }
}
