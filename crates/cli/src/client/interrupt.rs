//! Ctrl-C ends a client at once, also while it waits for somebody who does not read its output.

use std::sync::mpsc;

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Failure, INTERRUPTED};

/// From now on SIGINT ends the process with status 130, after it has said what there is to say.
///
/// It is waited for in a thread of its own: the others may be held by a write.
pub(crate) fn on_interrupt(say: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let (ready, wait) = mpsc::channel();
    std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        let made = tokio::runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            let signal = {
                let _inside = runtime.enter();
                signal(SignalKind::interrupt())?
            };
            Ok((runtime, signal))
        });
        let (runtime, mut signal) = match made {
            Ok(made) => made,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        if runtime.block_on(signal.recv()).is_some() {
            say();
            std::process::exit(i32::from(INTERRUPTED));
        }
    })?;
    // A thread that is gone without a word took no signal over: the system's own way stays.
    wait.recv().unwrap_or(Ok(()))?;
    Ok(())
}
