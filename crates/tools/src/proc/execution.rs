//! From a permit to an outcome, for tools that wait for processes instead of doing the work themselves.

use std::future::Future;
use std::path::{Path, PathBuf};

use fence::RuntimeWords;
use policy::{Cancel, Execution, Outcome, Permit, RawResult};
use vocab::BoxFuture;

use super::{Halt, ProcessError};

struct Waiting<F>(F);

impl<F, W> Execution for Waiting<F>
where
    F: FnOnce(Permit, Cancel) -> W + Send + 'static,
    W: Future<Output = Result<RawResult, Halt>> + Send + 'static,
{
    fn run(self: Box<Self>, permit: Permit, cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            if cancel.is_canceled() {
                return Outcome::NotRun(RuntimeWords::new("the call was canceled before it began"));
            }
            match (self.0)(permit, cancel).await {
                Ok(result) => Outcome::Ran(result),
                Err(Halt::Denied(denial)) => Outcome::Refused(denial),
                Err(Halt::Failed(error)) => Outcome::Ran(RawResult::error(error.for_model())),
            }
        })
    }
}

/// An execution that waits.
pub(crate) fn waiting<F, W>(work: F) -> Box<dyn Execution>
where
    F: FnOnce(Permit, Cancel) -> W + Send + 'static,
    W: Future<Output = Result<RawResult, Halt>> + Send + 'static,
{
    Box::new(Waiting(work))
}

/// The real path of a directory that the agent named; whether it may be used is the permit's to say.
pub(crate) fn directory(root: &Path, given: &str) -> Result<PathBuf, ProcessError> {
    let real = root.join(given).canonicalize().ok().filter(|real| real.is_dir());
    real.ok_or_else(|| ProcessError::Directory { path: crate::show::path(Path::new(given)) })
}
