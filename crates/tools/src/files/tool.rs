//! What all file tools have in common: a tool is the type of its arguments.
//!
//! From its arguments it names the paths that the call is about, for the first review; then it leaves
//! the work, which is handed a [`Site`] once that review has passed. Nothing is touched before.

use std::sync::Arc;

use policy::{Action, BadInput, Effect, Operation, Proposal, RawResult, Tool};
use serde::de::DeserializeOwned;

use super::{Given, Root, Site};
use crate::definition::{About, Definition};
use crate::execution::{Stop, blocking};

/// A file tool, as the arguments of one call.
pub(crate) trait FileTool: DeserializeOwned {
    /// What it says of itself.
    fn about() -> About<'static>;

    /// Names the paths and leaves the work.
    ///
    /// # Errors
    /// When the arguments are wrong in a way that no schema tells.
    fn propose(self, draft: Draft) -> Result<Proposal, BadInput>;
}

/// The tool of that type under a root.
pub(crate) fn file_tool<T: FileTool>(root: &Arc<Root>) -> Arc<dyn Tool> {
    let root = Arc::clone(root);
    Definition::new(T::about())
        .typed(move |action, input: T| input.propose(Draft { root: Arc::clone(&root), action, effects: Vec::new() }))
}

/// A call that is being proposed.
pub(crate) struct Draft {
    root: Arc<Root>,
    action: Action,
    effects: Vec<Effect>,
}

impl Draft {
    /// Takes the path in an input's `field`, for these operations.
    ///
    /// # Errors
    /// When no file can have that path.
    pub(crate) fn path(
        &mut self,
        field: &'static str,
        text: &str,
        operations: &[Operation],
    ) -> Result<Given, BadInput> {
        let given = Given::new(&self.root, field, text)?;
        operations.iter().for_each(|&operation| self.names(operation, &given));
        Ok(given)
    }

    /// Adds an operation on a path.
    pub(crate) fn names(&mut self, operation: Operation, given: &Given) {
        self.effects.push(Effect::path(operation, given.absolute()));
    }

    /// Where its paths are taken.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// The proposal to do this work.
    pub(crate) fn runs<F>(self, work: F) -> Proposal
    where
        F: FnOnce(Site<'_>) -> Result<RawResult, Stop> + Send + 'static,
    {
        let root = self.root;
        let execution = blocking(move |permit, cancel| work(Site { root: &root, permit, cancel }));
        Proposal { action: self.effects.into_iter().fold(self.action, Action::with), execution }
    }
}
