//! A task's gates, as the permits of its calls carry them.
//!
//! What a task has seen, changed and verified is told through a permit and asked through a permit, and
//! nothing else holds the gates: an execution can neither speak for a task that is not its own nor open a
//! gate for itself without a clearance for that very file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Cleared, Denial, Permit, Policy};
use crate::{Blocker, ExecutionPolicy, Gates, Operation, Stamp};

/// The gates of one task, shared by all its permits.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskGates(Arc<Mutex<Gates>>);

impl TaskGates {
    fn lock(&self) -> MutexGuard<'_, Gates> {
        // Each change is one assignment, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy {
    /// This policy for one task: all its permits share these gates, and no other task's do.
    #[must_use]
    pub fn for_task(&self, gates: Gates) -> Self {
        let gates = TaskGates(Arc::new(Mutex::new(gates)));
        Self { rules: Arc::clone(&self.rules), sources: self.sources.clone(), gates }
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

    /// The task changes something else, or runs what may: told before it happens, so that no fault on the
    /// way leaves an old verification standing.
    pub fn mutated(&self) {
        self.case.gates.lock().mutated();
    }

    /// The task ran a shell command to its end, in the directory under which relative paths are taken.
    pub fn ran(&self, command: &str, succeeded: bool) {
        self.case.gates.lock().ran(command, succeeded);
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
