//! A command that goes on after its call has its result.
//!
//! The tool says that it has and hands over the rest; whoever ran the call decides what becomes of that: it waits for the end,
//! or goes on with the task and tells of the end later. While such a command is at large, and after it, no
//! verification of before counts: what it changes, nothing can have looked at.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fence::RuntimeWords;
use vocab::BoxFuture;

use crate::{Cancel, RawResult};

/// A call whose command has not ended.
pub struct Detached {
    /// What there is of it by now.
    pub so_far: RawResult,
    /// Its end.
    pub rest: Box<dyn Rest>,
}

impl std::fmt::Debug for Detached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Detached").field("so_far", &self.so_far).finish_non_exhaustive()
    }
}

/// The rest of a call whose command goes on. Dropping it, or what it gives, ends the command.
pub trait Rest: Send {
    /// Follows the command to its end, or ends it when it is told to.
    fn finish(self: Box<Self>, cancel: Cancel) -> BoxFuture<'static, Completed>;
}

/// What a command that went on came to.
#[derive(Debug)]
pub struct Completed {
    /// How it ended, as the end of a sentence: `exit code 0`.
    pub how: RuntimeWords,
    /// What ran, for a reader who knows nothing of the call: data, as its result is.
    pub command: String,
    /// Its result, as if it had been waited for.
    pub result: RawResult,
}

/// The commands of a session that are at large.
#[derive(Debug, Clone, Default)]
pub(crate) struct Background(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// How many have begun to be at large or have ended.
    steps: u64,
}

/// Says that a command is at large, as long as it is kept.
#[derive(Debug)]
#[must_use]
pub struct AtLarge(Background);

impl Background {
    pub(crate) fn begin(&self) -> AtLarge {
        let mut state = self.lock();
        state.running += 1;
        state.steps += 1;
        AtLarge(self.clone())
    }

    /// Whether any is.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().running > 0
    }

    /// A number that stays the same as long as none is, and that no later time has.
    pub(crate) fn quiet(&self) -> Option<u64> {
        let state = self.lock();
        (state.running == 0).then_some(state.steps)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AtLarge {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running -= 1;
        state.steps += 1;
    }
}
