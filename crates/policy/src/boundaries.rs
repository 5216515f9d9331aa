//! Where the rules in force come from.
//!
//! They are fetched anew for each review and once more right before the effect, so a change of the store
//! holds at the next action. A source that cannot say what holds blocks every action with an effect:
//! nothing is cached here to fall back on.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use vocab::BoxFuture;

use crate::Compiled;

/// A source of rules: the settings store, a parent session, or a value held in memory.
pub trait Boundaries: fmt::Debug + Send + Sync {
    /// The rules that hold now. An implementation answers within its own time limit.
    fn current(&self) -> BoxFuture<'_, Result<Arc<Compiled>, Unreadable>>;
}

/// What holds cannot be said: the record is malformed, of an unknown version, or out of reach.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what the operator stored cannot be read: {why}")]
pub struct Unreadable {
    why: String,
}

impl Unreadable {
    /// With what is wrong, in one line for the operator. The model is not told it.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }

    /// What is wrong.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "`mur policy show` and `mur mcp list` say what is wrong"
    }
}

/// Rules held in memory: for a session without a store, and for tests.
#[derive(Debug)]
pub struct InMemory {
    now: Mutex<Result<Arc<Compiled>, Unreadable>>,
}

impl InMemory {
    /// These rules.
    #[must_use]
    pub fn new(compiled: Compiled) -> Self {
        Self { now: Mutex::new(Ok(Arc::new(compiled))) }
    }

    /// No rules.
    #[must_use]
    pub fn empty() -> Self {
        Self::new(Compiled::empty())
    }

    /// Replaces what holds, from the next action on.
    pub fn set(&self, now: Result<Compiled, Unreadable>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now.map(Arc::new);
    }
}

impl Boundaries for InMemory {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Compiled>, Unreadable>> {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(std::future::ready(now))
    }
}

/// What any of several sources forbids: a subagent's own and its ancestors'.
#[derive(Debug)]
pub struct Joined(Vec<Arc<dyn Boundaries>>);

impl Joined {
    /// All of these.
    #[must_use]
    pub fn new(all: Vec<Arc<dyn Boundaries>>) -> Self {
        Self(all)
    }
}

impl Boundaries for Joined {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Compiled>, Unreadable>> {
        Box::pin(async move {
            let mut all = Vec::with_capacity(self.0.len());
            for source in &self.0 {
                all.push(source.current().await?);
            }
            Ok(Arc::new(Compiled::join(all.iter().map(AsRef::as_ref))))
        })
    }
}
