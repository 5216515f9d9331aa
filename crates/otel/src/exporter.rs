//! The exporter's life: its thread, its queue, its report.
//!
//! What a session tells is put into a bounded queue and never waits; a full queue loses the newest span.
//! The thread has a runtime of its own, so that neither the session's tasks nor a slow name lookup of the
//! receiver's host holds up the other.

use std::sync::Arc;
use std::thread::JoinHandle;

use runtime::Telemetry;
use secrets::Redactor;
use tokio::sync::{mpsc, watch};
use vocab::SessionId;

use crate::attribute::Attributes;
use crate::deliver::{Delivery, Outcome, Sender};
use crate::endpoint::traces_url;
use crate::spans::Recorder;
use crate::wire::Scope;
use crate::{Error, wire};

/// Spans that wait for the receiver.
const QUEUE: usize = 2048;

/// What all spans of a session have in common.
#[derive(Debug, Clone)]
pub struct Resource {
    /// The session's id.
    pub session: SessionId,
    /// The capsule's name.
    pub capsule: String,
    /// The capsule's version.
    pub capsule_version: String,
    /// The program's own version.
    pub mur_version: String,
}

/// How an export went.
#[derive(Debug)]
pub struct Report {
    /// Spans that the receiver took.
    pub sent: u64,
    /// Spans that it did not.
    pub dropped: u64,
    /// The last thing that went wrong, if something did.
    pub error: Option<Error>,
}

/// The export of one session's spans. Dropping it ends the export without waiting for it.
pub struct Exporter {
    recorder: Arc<Recorder>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<Outcome>,
    receiver: String,
}

impl Exporter {
    /// Starts the export to an endpoint; to it `/v1/traces` is added where it does not end so. Nothing
    /// is contacted before there is a span. `redactor` is the session's.
    ///
    /// # Errors
    /// [`Error::Endpoint`], [`Error::Thread`].
    pub fn start(endpoint: &str, resource: &Resource, redactor: Redactor) -> Result<(Arc<dyn Telemetry>, Self), Error> {
        let url = traces_url(endpoint)?;
        let version = resource.mur_version.as_str();
        let attributes = Attributes::new(&redactor)
            .text("service.name", &resource.capsule)
            .text("service.version", &resource.capsule_version)
            .text("service.instance.id", resource.session.as_str())
            .text("telemetry.sdk.name", "murmur")
            .text("telemetry.sdk.language", "rust")
            .text("telemetry.sdk.version", version)
            .int("process.pid", std::process::id())
            .into_list();
        let scope = Scope { name: "murmur".to_owned(), version: version.to_owned() };
        let sender = Sender::new(url, version, (wire::Resource { attributes }, scope), redactor.clone())?;
        let receiver = sender.receiver().to_owned();
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (stop, stopped) = watch::channel(false);
        let delivery = Delivery::new(waiting, stopped, sender);
        let thread = std::thread::Builder::new().name("otel".to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Thread)?;
        let work = move || {
            let outcome = runtime.block_on(delivery.run());
            // A name lookup that hangs must not hold the end of the program.
            runtime.shutdown_background();
            outcome
        };
        let thread = thread.spawn(work).map_err(Error::Thread)?;
        let recorder = Arc::new(Recorder::new(redactor, resource.session.as_str().to_owned(), queue));
        let telemetry: Arc<dyn Telemetry> = Arc::clone(&recorder) as Arc<dyn Telemetry>;
        Ok((telemetry, Self { recorder, stop, thread, receiver }))
    }

    /// Ends the export: what waits is sent, for three seconds at most. Spans of what the session left
    /// open go out as interrupted.
    #[must_use]
    pub fn finish(self) -> Report {
        let Self { recorder, stop, thread, receiver } = self;
        recorder.close();
        // Nobody listens any more only when the thread is gone, and then the join says so.
        let _ = stop.send(true);
        let Outcome { sent, error } =
            thread.join().unwrap_or_else(|_| Outcome { sent: 0, error: Some(Error::BrokeOff) });
        let dropped = recorder.made().saturating_sub(sent);
        let error = error.or_else(|| (dropped > 0).then_some(Error::Behind { receiver }));
        Report { sent, dropped, error }
    }
}
