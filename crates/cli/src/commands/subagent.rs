//! `mur subagent`: the process of a subagent. It speaks with its parent over stdin and stdout, and with nobody else.
//!
//! What is told on stderr reaches the parent when the process ends badly.

use std::io;

use runtime::{ParentLink, RequestError, Session};
use secrets::Redactor;

use crate::export::Export;
use crate::failure::Failure;
use crate::launch::{self, Launch, Surroundings};

pub(crate) fn run() -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(serve());
    runtime.shutdown_background();
    status.map(|()| 0)
}

async fn serve() -> Result<(), Failure> {
    let redactor = Redactor::new();
    let (stdin, stdout) = pipes()?;
    let opened = ParentLink::open(stdin, stdout, &redactor).await;
    let parent = opened.map_err(|gone| Failure::unusable(gone.to_string()).code("E-RUN-001").hint(gone.hint()))?;
    let launch = Launch::of_subagent(parent.clone(), redactor)?;
    let scope = launch.scope().await;
    let (setup, Surroundings { export, belongings, hub }) = launch.into_setup(parent.observer(), scope);
    let session = Session::start(setup).map_err(|error| launch::record_failure(&error))?;
    let ended = session.delegated().await;
    if let Some(hub) = hub {
        hub.close().await;
    }
    drop(belongings);
    export.and_then(Export::finish);
    ended.map_err(|error| match error {
        RequestError::Record(error) => launch::record_failure(&error),
        other => Failure::failed(other.to_string()),
    })
}

/// Both are pipes: a runtime of one thread must not wait for either.
fn pipes() -> io::Result<(tokio::net::unix::pipe::Receiver, tokio::net::unix::pipe::Sender)> {
    use std::os::fd::AsFd as _;
    let receiver = tokio::net::unix::pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let sender = tokio::net::unix::pipe::Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
    Ok((receiver, sender))
}
