//! From a proposal to an outcome: the common frame of every tool's work.
//!
//! File work blocks, so it runs on the blocking pool. A call that is told to stop before it begins does
//! nothing; longer work looks at the signal itself.

use fence::RuntimeWords;
use policy::{Cancel, Denial, Execution, Outcome, Permit, RawResult};
use vocab::BoxFuture;

use crate::ToolError;

/// Why a tool's work ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The second review said no.
    Denied(Denial),
    /// It failed.
    Failed(ToolError),
}

impl From<Denial> for Stop {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl From<ToolError> for Stop {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

/// The outcome of a tool's work.
pub(crate) fn outcome(result: Result<RawResult, Stop>) -> Outcome {
    match result {
        Ok(result) => Outcome::Ran(result),
        Err(Stop::Denied(denial)) => Outcome::Refused(denial),
        Err(Stop::Failed(error)) => Outcome::Ran(RawResult::error(error.for_model())),
    }
}

struct Blocking<F>(F);

impl<F> Execution for Blocking<F>
where
    F: FnOnce(&Permit, &Cancel) -> Result<RawResult, Stop> + Send + 'static,
{
    fn run(self: Box<Self>, permit: Permit, cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            if cancel.is_canceled() {
                return Outcome::NotRun(RuntimeWords::new("the call was canceled before it began"));
            }
            let work = tokio::task::spawn_blocking(move || outcome((self.0)(&permit, &cancel)));
            work.await.unwrap_or_else(|_| {
                Outcome::Ran(RawResult::error("the tool broke off on an internal error; part of its work may be done"))
            })
        })
    }
}

/// An execution that does its work on the blocking pool.
pub(crate) fn blocking<F>(work: F) -> Box<dyn Execution>
where
    F: FnOnce(&Permit, &Cancel) -> Result<RawResult, Stop> + Send + 'static,
{
    Box::new(Blocking(work))
}
