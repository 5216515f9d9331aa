//! The proxy's connections: so many at a time, the others wait to be taken; all of them end with the proxy.
//!
//! A connection is one task with all that belongs to it, its tunnel included; what drives a request to a
//! service belongs to the request's answer. So nothing outlives the connection, and a client that goes away
//! ends its request at the service, too. Whatever holds a connection to a service holds a sender of a channel
//! on which nothing is sent: once the channel is closed, all are gone.

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
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::exchange::{self, Client, HEAD};
use crate::{Egress, Upstream};

/// Header lines of a head.
const HEADERS: usize = 100;
/// What a tunnel holds of each direction.
const BUFFER: usize = 16 << 10;
/// How much, and how long, what a client still sends is read after its answer.
const LINGER_BYTES: u64 = 1 << 20;
const LINGER: Duration = Duration::from_secs(2);

/// A proxy, which serves until this is dropped: then its listener and every connection end.
#[must_use = "the proxy ends with it"]
pub struct Proxy {
    task: AbortHandle,
    over: Receiver<()>,
}

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
        let (alive, over) = channel(1);
        Ok(Self { task: tokio::spawn(run(listener, egress, alive)).abort_handle(), over })
    }

    /// Ends the proxy, and waits until its observer has been told of every connection's end.
    pub async fn close(mut self) {
        self.task.abort();
        self.over.recv().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proxy")
    }
}

async fn run(listener: TcpListener, egress: Arc<Egress>, alive: Sender<()>) {
    let places = Arc::new(Semaphore::new(egress.limits.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let mut open = JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while open.try_join_next().is_some() {}
        let (tcp, _) = socket::accept(&listener).await;
        let client = Client { egress: Arc::clone(&egress), slot: Mutex::new(None), alive: alive.clone() };
        open.spawn(connection(tcp, Arc::new(client), place));
    }
}

async fn connection(tcp: TcpStream, client: Arc<Client>, _place: OwnedSemaphorePermit) {
    let head = client.egress.limits.head;
    let answering = Arc::clone(&client);
    let service = service_fn(move |request| {
        let client = Arc::clone(&answering);
        Box::pin(async move { Ok::<_, Infallible>(exchange::answer(&client, request).await) })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(tcp), service);
    let outcome = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    let upstream = client.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
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
