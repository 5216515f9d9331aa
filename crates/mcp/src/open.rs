//! From a way to a server to an open connection: start or reach it, agree on a version.
//!
//! Two eras of the protocol differ in their first message. The newer one is tried first, unless the server is
//! known to speak the older one alone. Most old servers refuse what they do not know and go on; some end, fall
//! silent or answer nonsense, so that a failed first attempt is followed by one in the older manner, on stdio
//! with a new process, if one more may be started. Which one it was is told to whoever opens the next connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, Peer, RunningService, Subscription};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use tokio::time::timeout;

use crate::client::Asked;
use crate::error::{Error, Step};
use crate::lines::Lines;
use crate::sieve::Sieve;
use crate::signals::Signals;
use crate::transport::Remains;
use crate::watch::Watch;
use crate::wire::Wire;
use crate::{Connection, HttpConfig, Limits, Start, Transport, trouble};

/// In which manner to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// The newer one, and the older one where the server wants that.
    Unknown,
    /// The older one.
    Older,
}

impl Connection {
    /// Opens a connection: starts or reaches the server and agrees on a version of the protocol.
    ///
    /// # Errors
    /// When the server does not start, cannot be reached, refuses the credential, or does not complete the
    /// handshake in time.
    pub async fn open(transport: &Transport, limits: &Limits) -> Result<Self, Error> {
        open(transport, limits, Era::Unknown, &Restarts::default()).await
    }

    /// The manner in which the next connection to the same server should begin.
    pub(crate) fn era(&self) -> Era {
        if self.info().protocol.as_str() < ProtocolVersion::NO_INITIALIZE.as_str() { Era::Older } else { Era::Unknown }
    }
}

/// How often a process that did not do may be replaced by a new one: once for a call, however it came to it.
#[derive(Debug)]
pub(crate) struct Restarts(AtomicUsize);

impl Default for Restarts {
    fn default() -> Self {
        Self(AtomicUsize::new(1))
    }
}

impl Restarts {
    /// Whether one more may be started, which is counted.
    pub(crate) fn take(&self) -> bool {
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    /// The same for a way to a server on which an address is only asked again.
    pub(crate) fn take_for(&self, transport: &Transport) -> bool {
        matches!(transport, Transport::Http(_)) || self.take()
    }
}

/// Opens a connection, beginning as an earlier one ended up.
pub(crate) async fn open(
    transport: &Transport,
    limits: &Limits,
    era: Era,
    restarts: &Restarts,
) -> Result<Connection, Error> {
    let unreadable = Arc::new(AtomicU64::new(0));
    let opening = async {
        match begin(transport, limits, era, &unreadable).await {
            Err(Error::Ended { .. } | Error::Malformed { .. } | Error::Http { .. })
                if era == Era::Unknown && restarts.take_for(transport) =>
            {
                begin(transport, limits, Era::Older, &unreadable).await
            }
            other => other,
        }
    };
    timeout(limits.open, opening).await.unwrap_or_else(|_| {
        let unreadable = unreadable.load(Ordering::SeqCst);
        Err(Error::TimedOut { step: Step::Open, after: limits.open, unreadable })
    })
}

async fn begin(
    transport: &Transport,
    limits: &Limits,
    era: Era,
    unreadable: &Arc<AtomicU64>,
) -> Result<Connection, Error> {
    match transport {
        Transport::Stdio(start) => stdio(start.as_ref(), limits, era, Signals::counting(unreadable)).await,
        Transport::Http(config) => http(config, limits, era).await,
    }
}

async fn stdio(start: &dyn Start, limits: &Limits, era: Era, signals: Arc<Signals>) -> Result<Connection, Error> {
    let pipes = start.start().await.map_err(Error::Start)?;
    let mut stdout = Sieve::new(pipes.stdout, limits.message_bytes, limits.noise_bytes, Arc::clone(&signals));
    let remains = Remains { _keeper: pipes.keeper, stdout: stdout.rest() };
    let lines = Lines::new(stdout, pipes.stdin, Arc::clone(&signals));
    let served = Asked.serve_with_lifecycle(Watch::new(lines, Arc::clone(&signals)), lifecycle(era)).await;
    finish(served.map_err(Box::new), Some(remains), signals, limits).await
}

async fn http(config: &HttpConfig, limits: &Limits, era: Era) -> Result<Connection, Error> {
    let signals = Arc::new(Signals::default());
    let wire = Wire::new(config.client()?, config.token().cloned(), Arc::clone(&signals));
    let mut backoff = ExponentialBackoff::default();
    backoff.max_times = Some(5);
    backoff.max_delay = Some(limits.close);
    let mut settings = StreamableHttpClientTransportConfig::with_uri(config.url())
        .custom_headers(config.extra_headers())
        .max_json_response_size(limits.message_bytes)
        .max_sse_event_size(limits.message_bytes)
        // A new session may define its tools anew: whoever checked a definition has to do so again.
        .reinit_on_expired_session(false);
    settings.retry_config = Arc::new(backoff);
    let transport = StreamableHttpClientTransport::with_client(wire, settings);
    let served = Asked.serve_with_lifecycle(Watch::new(transport, Arc::clone(&signals)), lifecycle(era)).await;
    finish(served.map_err(Box::new), None, signals, limits).await
}

fn lifecycle(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Older => ClientLifecycleMode::Initialize,
        Era::Unknown => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    }
}

/// Judges the handshake and asks to be told of changes.
async fn finish(
    served: Result<RunningService<RoleClient, Asked>, Box<rmcp::service::ClientInitializeError>>,
    remains: Option<Remains>,
    signals: Arc<Signals>,
    limits: &Limits,
) -> Result<Connection, Error> {
    let running = match served {
        Ok(running) => running,
        Err(error) => {
            let fault = trouble::fault(&signals, Step::Open, limits);
            return Err(fault.unwrap_or_else(|| trouble::handshake(*error)));
        }
    };
    let version = running.peer().peer_info().map(|info| info.protocol_version.clone());
    if let Some(unknown) = version.filter(|version| !ProtocolVersion::KNOWN_VERSIONS.contains(version)) {
        return Err(Error::Version { offered: manifest::fold_description(unknown.as_str()) });
    }
    let changes = listen(running.peer(), limits).await;
    Ok(Connection::new(running, remains, changes, signals, limits.clone()))
}

/// In the newer protocol a server tells of changes only to those who ask. One that does not take the question
/// is looked at again every so often, as is one that keeps silent.
async fn listen(peer: &Peer<RoleClient>, limits: &Limits) -> Option<Subscription> {
    let info = peer.peer_info()?;
    let tells = info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
    if info.protocol_version.has_initialize() || !tells {
        return None;
    }
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    timeout(limits.close, peer.listen(filter)).await.ok()?.ok()
}
