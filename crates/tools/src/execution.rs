//! From a proposal to an outcome: the common frame of every tool's work.
//!
//! Work that waits for a process is a future; file work blocks, so it runs on the blocking pool. A call
//! that is told to stop before it begins does nothing; longer work looks at the signal itself.

use std::future::Future;

use fence::RuntimeWords;
use policy::{Cancel, Denial, Execution, Facts, Outcome, Permit, RawResult};
use vocab::BoxFuture;

use crate::ToolError;

/// Why a tool's work ended early.
#[derive(Debug)]
pub(crate) enum Stop<E = ToolError> {
    /// The second review said no.
    Denied(Denial),
    /// It failed.
    Failed(E),
}

impl<E> From<Denial> for Stop<E> {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl<E: Into<ToolError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A failure that the model is told.
pub(crate) trait Failure: Send + 'static {
    /// The sentence and its hint, as the model reads them.
    fn for_model(&self) -> String;
}

/// What becomes of a call whose work ended early.
pub(crate) fn ended_early<E: Failure>(stop: Stop<E>) -> Outcome {
    match stop {
        Stop::Denied(denial) => Outcome::Refused(denial),
        Stop::Failed(error) => Outcome::Ran(RawResult::error(error.for_model())),
    }
}

struct Waiting<F>(F);

impl<F, W, O, E> Execution for Waiting<F>
where
    F: FnOnce(Permit, Cancel) -> W + Send + 'static,
    W: Future<Output = Result<O, Stop<E>>> + Send + 'static,
    O: Into<Outcome>,
    E: Failure,
{
    fn run(self: Box<Self>, permit: Permit, cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            if cancel.is_canceled() {
                return Outcome::NotRun(RuntimeWords::new("the call was canceled before it began"));
            }
            (self.0)(permit, cancel).await.map_or_else(ended_early, Into::into)
        })
    }
}

/// An execution that waits.
pub(crate) fn waiting<F, W, O, E>(work: F) -> Box<dyn Execution>
where
    F: FnOnce(Permit, Cancel) -> W + Send + 'static,
    W: Future<Output = Result<O, Stop<E>>> + Send + 'static,
    O: Into<Outcome>,
    E: Failure,
{
    Box::new(Waiting(work))
}

/// An execution that does its work on the blocking pool.
pub(crate) fn blocking<F>(work: F) -> Box<dyn Execution>
where
    F: FnOnce(&Permit, &Cancel) -> Result<RawResult, Stop> + Send + 'static,
{
    waiting(async move |permit, cancel| {
        let done = tokio::task::spawn_blocking(move || work(&permit, &cancel)).await;
        done.unwrap_or_else(|_| {
            Ok(RawResult::error("the tool broke off on an internal error; part of its work may be done"))
        })
    })
}

/// A result that is perhaps not all that there is.
pub(crate) fn partial(text: String, truncated: bool) -> RawResult {
    RawResult::ok(text).with_facts(Facts { truncated, ..Facts::default() })
}
