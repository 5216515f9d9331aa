//! A task's gates, as the permits of its calls carry them.
//!
//! What a task has seen, changed and verified is told through a permit and asked through a permit, and
//! nothing else holds the gates: an execution can neither speak for a task that is not its own nor open a
//! gate for itself without a clearance for that very file. The task's protected values go the same way.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrets::Secret;

use super::{Cleared, Denial, Permit, Policy};
use crate::background::{AtLarge, Background};
use crate::protected::{BindingError, Bindings, ProtectedValues, Resolve};
use crate::{Blocker, ExecutionPolicy, Gates, Operation, Stamp};

/// What one task has of its own, shared by all its permits.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskGates {
    gates: Arc<Mutex<Gates>>,
    /// None are taken where there is no task.
    values: ProtectedValues,
    /// Who gives the values of managed references: the session's.
    resolver: Option<Arc<dyn Resolve>>,
    /// The session's commands at large.
    background: Background,
}

impl TaskGates {
    fn lock(&self) -> MutexGuard<'_, Gates> {
        // Each change is one assignment, so a panic elsewhere leaves nothing half done.
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy {
    /// This policy for one task: all its permits share these gates, and no other task's do. It takes no protected
    /// values yet: see [`Policy::with_values`].
    #[must_use]
    pub fn for_task(&self, gates: Gates) -> Self {
        let TaskGates { resolver, background, .. } = self.gates.clone();
        let gates = Arc::new(Mutex::new(gates.within(background.clone())));
        let gates = TaskGates { gates, values: ProtectedValues::default(), resolver, background };
        Self { rules: Arc::clone(&self.rules), sources: self.sources.clone(), gates }
    }

    /// The same with the registry in which the task's protected values are kept.
    #[must_use]
    pub fn with_values(mut self, values: ProtectedValues) -> Self {
        self.gates.values = values;
        self
    }

    /// The same with someone who asks the issuers of managed references for their values. Without, none is resolved.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.gates.resolver = Some(resolver);
        self
    }

    /// The files that the task's tools, and those of its subagents, wrote or removed.
    #[must_use]
    pub fn changed_files(&self) -> Vec<PathBuf> {
        self.gates.lock().changed_files().map(Path::to_owned).collect()
    }

    /// The task's protected values: what its results are protected with.
    #[must_use]
    pub fn values(&self) -> &ProtectedValues {
        &self.gates.values
    }
}

impl Permit {
    /// The task was shown content of a file that it may read, as the file was then.
    pub fn saw(&self, file: &Cleared, stamp: Stamp) {
        if file.operation == Operation::Read {
            self.case.gates.lock().read(&file.path, stamp);
        }
    }

    /// The task wrote a file, which is now so.
    pub fn wrote(&self, file: &Cleared, stamp: Stamp) {
        if file.operation == Operation::Write {
            self.case.gates.lock().wrote(&file.path, stamp);
        }
    }

    /// The task removed a file, or moved it away.
    pub fn removed(&self, file: &Cleared) {
        if file.operation == Operation::Delete {
            self.case.gates.lock().changed(&file.path);
        }
    }

    /// A subagent of the task says that it changed these files.
    pub fn delegated(&self, changed: &[PathBuf]) {
        let mut gates = self.case.gates.lock();
        gates.mutated();
        changed.iter().for_each(|path| gates.changed(path));
    }

    /// The task changes something else, or runs what may: told before it happens, so that no fault on the
    /// way leaves an old verification standing.
    pub fn mutated(&self) {
        self.case.gates.lock().mutated();
    }

    /// The task ran a shell command to its end, in the directory under which relative paths are taken.
    pub fn ran(&self, command: &str, succeeded: bool) {
        self.case.gates.lock().ran(command, succeeded);
    }

    /// Whether a command is one that verifies the task's work.
    #[must_use]
    pub fn is_verification(&self, command: &str) -> bool {
        self.case.gates.lock().is_verification(command)
    }

    /// The command that was reviewed goes on in the background, as long as what this gives is kept: until then no task of
    /// the session commits, and what was verified up to then counts no more.
    pub fn at_large(&self) -> AtLarge {
        self.case.gates.background.begin()
    }

    /// The registry in which the task's protected values are kept.
    #[must_use]
    pub fn values(&self) -> &ProtectedValues {
        &self.case.gates.values
    }

    /// The values for the environment of the process that was reviewed, as the task holds them now. Those of managed
    /// references are asked for at their issuers, when connection and grant still stand.
    ///
    /// # Errors
    /// The first that cannot be given.
    pub async fn bind(&self, bindings: &Bindings) -> Result<Vec<(String, Secret)>, BindingError> {
        let resolver = self.case.gates.resolver.as_deref();
        let sources = (self.sources.connectors.as_ref(), &self.sources.agent);
        bindings.resolved(&self.case.gates.values, resolver, sources).await
    }

    /// Judges the replacing of an existing file as a whole, given how it is now. The exchange must then
    /// make sure that it is this state that is replaced.
    ///
    /// # Errors
    /// The denial, when the clearance is not for writing, or the task has not seen the file as it is.
    pub fn confirm_overwrite(&self, file: &Cleared, now: Stamp) -> Result<(), Denial> {
        if file.operation != Operation::Write {
            return Err(Denial::execute(Blocker::new("not_reviewed", super::NOT_REVIEWED)));
        }
        self.case.gates.lock().may_overwrite(&file.path, now).map_err(Denial::execute)
    }

    /// Judges a commit by what the task is for and has verified.
    ///
    /// # Errors
    /// The denial, while the commit gate is closed.
    pub fn confirm_commit(&self) -> Result<(), Denial> {
        self.execution_policy().commit.map_or(Ok(()), |blocker| Err(Denial::execute(blocker)))
    }

    /// What the task may do as things stand. There is no hard blocker: else this permit would not exist.
    #[must_use]
    pub fn execution_policy(&self) -> ExecutionPolicy {
        self.case.gates.lock().execution_policy(&[])
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Action, ActionKind, Effect, Review, Rules, StructuralAction};

    const STAMP: Stamp = Stamp { device: 1, inode: 2, size: 3, modified: (4, 5) };

    async fn permit(policy: &Policy) -> Permit {
        let action = Action::new("call", "files_write", ActionKind::FilesWrite)
            .with(Effect::path(Operation::Write, "/w/a"))
            .with(Effect::path(Operation::Read, "/w/a"));
        let Review::Allowed(approved) = policy.review(action).await else { panic!("no rule covers it") };
        approved.renew().await.unwrap()
    }

    fn overwrite(permit: &Permit) -> Option<&'static str> {
        let cleared = permit.confirm_path(Operation::Write, Path::new("/w/a")).unwrap();
        let denial = permit.confirm_overwrite(&cleared, STAMP).err()?;
        denial.blockers().first().map(|blocker| blocker.code)
    }

    #[tokio::test]
    async fn permits_of_one_task_share_their_gates_and_another_tasks_do_not() {
        let session = Policy::new(Rules::new("/w".into()));
        let verify = || Gates::new(StructuralAction::Factory, vec!["v".to_owned()]);
        let (one, two) = (session.for_task(verify()), session.for_task(verify()));
        let (first, second, other) = (permit(&one).await, permit(&one).await, permit(&two).await);
        let read = first.confirm_path(Operation::Read, Path::new("/w/a")).unwrap();
        first.saw(&read, STAMP);
        first.ran("v", true);
        let renewed = second.renew().await.unwrap();
        assert_eq!((overwrite(&renewed), renewed.confirm_commit()), (None, Ok(())));
        assert_eq!(overwrite(&other), Some("mutation_gate:not_seen"));
        let denial = other.confirm_commit().unwrap_err();
        assert_eq!(denial.blockers().first().map(|blocker| blocker.code), Some("commit_gate:not_verified"));
        renewed.mutated();
        assert!(first.confirm_commit().is_err());
    }

    #[tokio::test]
    async fn nothing_is_verified_while_a_command_of_the_session_is_at_large_nor_by_what_began_before_its_end() {
        let session = Policy::new(Rules::new("/w".into()));
        let verify = || Gates::new(StructuralAction::Factory, vec!["v".to_owned()]);
        let (one, two) = (session.for_task(verify()), session.for_task(verify()));
        let (first, other) = (permit(&one).await, permit(&two).await);
        let code = |permit: &Permit| {
            let blockers = permit.confirm_commit().err()?.blockers().to_vec();
            blockers.first().map(|blocker| blocker.code)
        };
        let verified = |permit: &Permit| {
            permit.mutated();
            permit.ran("v", true);
        };
        verified(&first);
        verified(&other);
        assert_eq!((code(&first), code(&other)), (None, None));
        let at_large = first.at_large();
        verified(&other);
        assert_eq!((code(&first), code(&other)), (Some("commit_gate:background"), Some("commit_gate:background")));
        other.mutated();
        drop(at_large);
        other.ran("v", true);
        assert_eq!((code(&first), code(&other)), (Some("commit_gate:not_verified"), Some("commit_gate:not_verified")));
        verified(&other);
        assert_eq!((code(&first), code(&other)), (Some("commit_gate:not_verified"), None));
    }

    #[tokio::test]
    async fn a_clearance_for_one_thing_tells_nothing_of_another() {
        let policy = Policy::new(Rules::new("/w".into()));
        let permit = permit(&policy).await;
        let cleared = |operation| permit.confirm_path(operation, Path::new("/w/a")).unwrap();
        permit.saw(&cleared(Operation::Write), STAMP);
        permit.wrote(&cleared(Operation::Read), STAMP);
        assert_eq!(overwrite(&permit), Some("mutation_gate:not_seen"));
        assert!(permit.confirm_overwrite(&cleared(Operation::Read), STAMP).is_err());
        permit.wrote(&cleared(Operation::Write), STAMP);
        assert_eq!(overwrite(&permit), None);
    }
}
