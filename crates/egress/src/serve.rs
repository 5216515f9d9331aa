//! The proxy's connections: so many at a time, the others wait to be taken; all of them end with the proxy.
//!
//! A connection is one task with all that belongs to it, its tunnel included, so that nothing outlives the
//! task. A client that goes away ends its request at the service, too.

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, Cursor};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional_with_sizes, join};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::exchange::{self, Slot};
use crate::{Egress, Upstream};

/// Bytes of a head that are kept; hyper takes a little more before it refuses.
const HEAD: usize = 64 << 10;
/// Header lines of a head.
const HEADERS: usize = 100;
/// What a tunnel holds of each direction.
const BUFFER: usize = 16 << 10;
/// How much, and how long, what a client still sends is read after its answer.
const LINGER_BYTES: u64 = 1 << 20;
const LINGER: Duration = Duration::from_secs(2);
/// How long nothing is accepted after the system could not.
const PAUSE: Duration = Duration::from_millis(100);

/// A proxy, which serves until this is dropped: then its listener and every connection end.
#[must_use = "the proxy ends with it"]
pub struct Proxy(AbortHandle);

impl Proxy {
    /// Serves HTTP/1.1 clients of `listener`, which may stand in another network namespace, on the runtime
    /// that this is called on; connections are made from this process's own namespace. Clients are not asked
    /// who they are: whoever reaches the listener reaches what is listed.
    ///
    /// # Errors
    /// The listener cannot be made non-blocking or registered.
    pub fn serve(listener: std::net::TcpListener, egress: Arc<Egress>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Self(tokio::spawn(run(listener, egress)).abort_handle()))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proxy")
    }
}

async fn run(listener: TcpListener, egress: Arc<Egress>) {
    let places = Arc::new(Semaphore::new(egress.limits.connections.max(1)));
    let mut open = JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while open.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((tcp, _)) => {
                // What passes is wanted at once.
                let _ = tcp.set_nodelay(true);
                open.spawn(connection(tcp, Arc::clone(&egress), place));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => sleep(PAUSE).await,
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

async fn connection(tcp: TcpStream, egress: Arc<Egress>, _place: OwnedSemaphorePermit) {
    let slot: Arc<Slot> = Arc::new(Mutex::new(None));
    let head = egress.limits.head;
    let kept = Arc::clone(&slot);
    let service = service_fn(move |request| {
        let (egress, slot) = (Arc::clone(&egress), Arc::clone(&kept));
        Box::pin(async move { Ok::<_, Infallible>(exchange::answer(&egress, request, &slot).await) })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(tcp), service);
    let outcome = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    let upstream = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (outcome, upstream) {
        (Ok(()), Some(upstream)) => {
            let parts = connection.into_parts();
            tunnel(parts.io.into_inner(), parts.read_buf, upstream).await;
        }
        (Ok(()), None) => see_off(connection.into_parts().io.into_inner()).await,
        (Err(error), None) if error.is_parse() => see_off(connection.into_parts().io.into_inner()).await,
        (Err(_), _) => {}
    }
}

/// Passes bytes both ways until both ends have said that nothing more comes. `early` is what the client sent
/// before it was answered. One end that breaks breaks the other: what was cut off must not look whole.
async fn tunnel(mut client: TcpStream, early: Bytes, mut upstream: Upstream) {
    let (read, write) = client.split();
    let mut ends = join(Cursor::new(early).chain(read), write);
    let passed = copy_bidirectional_with_sizes(&mut ends, &mut upstream, BUFFER, BUFFER).await;
    if passed.is_err() {
        let _ = client.set_zero_linger();
        upstream.reset();
    }
}

/// Says that nothing more comes, and reads what the client still sends, for a while: closing at once would
/// reset the connection, and a client that is still sending might never see its answer.
async fn see_off(mut tcp: TcpStream) {
    if tcp.shutdown().await.is_err() {
        return;
    }
    let mut rest = tcp.take(LINGER_BYTES);
    let mut buffer = [0; 4096];
    let _ = timeout(LINGER, async { while !matches!(rest.read(&mut buffer).await, Ok(0) | Err(_)) {} }).await;
}
