//! `mur run`: launch a capsule, run its tasks, say how they ended.
//!
//! Everything that can be wrong is found before anything is made or started. The session's address opens
//! before the first task begins and closes after the last line of the record.

mod telling;

use std::io::IsTerminal as _;

use record::Home;
use runtime::{Caller, NewTask, RequestError, Session, SessionHandle};
use tokio::signal::unix::{SignalKind, signal};
use vocab::{EndStatus, TaskSource};

use crate::address::{Address, Opened};
use crate::args::RunArgs;
use crate::export::Export;
use crate::failure::{FAILED, Failure, INTERRUPTED};
use crate::launch::{self, Launch, Surroundings};
use crate::progress::Progress;
use crate::scope;
use crate::task;
use telling::{Telling, json_line};

pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let refused = |failure| refused(args, failure);
    let task = args.task.as_deref().map(task::read).transpose().map_err(refused)?;
    if args.explain_scope {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        scope::print(&runtime.block_on(launch::explain(args))?, args.json)?;
        return Ok(0);
    }
    let (launch, address) = Launch::prepare(args).map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(session(args, launch, address, task));
    // A blocking read that hangs on a dead mount must not keep the process.
    runtime.shutdown_background();
    status
}

async fn session(args: &RunArgs, launch: Launch, address: Address, task: Option<String>) -> Result<u8, Failure> {
    let live = !args.json && std::io::stdout().is_terminal();
    let mut telling = Telling::of(&launch, address.url(), args, live);
    let sleeps = launch.sleeps();
    let context = launch.context().cloned();
    let progress = Progress::new(launch.session().clone(), launch.patience(), args.quiet, live);
    let scope = launch.scope().await;
    let (setup, surroundings) = launch.into_setup(Box::new(progress), scope);
    let Surroundings { export, mut belongings, hub } = surroundings;
    let (home, workdir, redactor) = (setup.home.clone(), setup.workdir.clone(), setup.redactor.clone());
    let mut session = Session::start(setup).map_err(|error| refused(args, launch::record_failure(&error)))?;
    belongings.settle();
    let handle = session.handle();
    let opened = listen(handle.clone()).and_then(|()| address.open(&handle, &home, &workdir, &redactor));
    let opened = match opened {
        Ok(opened) => opened,
        Err(failure) => return Err(give_up(session, None, refused(args, failure))),
    };
    if let Err(error) = telling.started(task.is_none()) {
        return Err(give_up(session, Some((opened, &home)), error.into()));
    }
    let served = match submit(&handle, task, context, args.action.clone()) {
        Ok(()) => session.serve(&mut |report| telling.task_ended(report)).await,
        Err(RequestError::Record(error)) => Err(error),
        Err(error) => {
            let failure = Failure::unusable(error.to_string()).code("E-RUN-001");
            return Err(give_up(session, Some((opened, &home)), failure));
        }
    };
    if let Some(hub) = hub {
        hub.close().await;
    }
    drop(belongings);
    let reason = served.as_ref().err().map(ToString::to_string);
    let ended = session.finish(reason.as_deref());
    opened.close(&home);
    if let Some(warning) = export.and_then(Export::finish) {
        telling.warn(&warning);
    }
    match (served, ended) {
        (Err(error), _) => {
            telling.broke_off(&error.to_string())?;
            Err(launch::record_failure(&error).on_the_way())
        }
        (Ok(()), Err(error)) => {
            telling.ended(sleeps, Some(&error.to_string()), &redactor)?;
            Err(launch::record_failure(&error).on_the_way())
        }
        (Ok(()), Ok(())) => {
            telling.ended(sleeps, None, &redactor)?;
            Ok(status(telling.last_status(), sleeps))
        }
    }
}

fn submit(
    session: &SessionHandle,
    task: Option<String>,
    context: Option<vocab::ContextId>,
    action: Option<String>,
) -> Result<(), RequestError> {
    let Some(text) = task else { return Ok(()) };
    let (source, claim, traceparent, message_id) = (TaskSource::Cli, None, None, None);
    let task = NewTask { text, source, claim, context, traceparent, message_id, action };
    session.submit(Caller::Operator, task).map(drop)
}

/// Ends a session that did not come to work. Its end may fail as well: the first failure is what counts.
fn give_up(session: Session, opened: Option<(Opened, &Home)>, failure: Failure) -> Failure {
    let _ = session.finish(Some(failure.message()));
    if let Some((opened, home)) = opened {
        opened.close(home);
    }
    failure
}

/// A session that waits for tasks did well when it was ended between two of them.
fn status(last: Option<EndStatus>, sleeps: bool) -> u8 {
    match last {
        None | Some(EndStatus::Ok) => 0,
        Some(EndStatus::Interrupted) => INTERRUPTED,
        Some(
            EndStatus::Failed
            | EndStatus::Canceled
            | EndStatus::Rejected
            | EndStatus::SpendCeilingReached
            | EndStatus::MaxTurnsReached,
        ) => {
            if sleeps {
                0
            } else {
                FAILED
            }
        }
    }
}

/// A launch that could not be: a program gets the reason as one line of JSON, and people get it as ever.
fn refused(args: &RunArgs, failure: Failure) -> Failure {
    if args.json {
        // If nobody takes it, the reason is still told on stderr.
        let _ = json_line(&failure.event());
    }
    failure
}

/// The first signal ends the session cleanly; the second ends the process at once.
fn listen(session: SessionHandle) -> Result<(), Failure> {
    let (mut int, mut term, mut hup) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    tokio::spawn(async move {
        loop {
            tokio::select! { _ = int.recv() => {}, _ = term.recv() => {}, _ = hup.recv() => {} }
            if !session.stop() {
                // Helpers see the runtime gone and end what they hold.
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    });
    Ok(())
}
