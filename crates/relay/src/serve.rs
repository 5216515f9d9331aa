//! A gateway's connections: so many at a time, the others wait to be taken; all of them end with the gateway.
//!
//! A tool that closes its connection ends its request at the service, too. A connection that ends with an
//! answer is read for a moment longer: closing at once would reset it, and a tool that is still sending might
//! never see the answer.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket::Socket;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::exchange;
use crate::gateway::Site;

/// Bytes of a head that are kept; hyper takes a little more before it refuses.
const HEAD: usize = 64 << 10;
/// Header lines of a head.
const HEADERS: usize = 100;
/// How much, and how long, what a tool still sends is read after its answer.
const LINGER_BYTES: u64 = 1 << 20;
const LINGER: Duration = Duration::from_secs(2);

/// Takes connections until it is dropped, and they with it.
pub(crate) async fn run(listener: TcpListener, site: Arc<Site>) {
    let places = Arc::new(Semaphore::new(site.service.limits.connections.max(1)));
    let mut open = JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while open.try_join_next().is_some() {}
        let (tcp, _) = socket::accept(&listener).await;
        open.spawn(connection(tcp, Arc::clone(&site), place));
    }
}

async fn connection(tcp: TcpStream, site: Arc<Site>, _place: OwnedSemaphorePermit) {
    let limits = site.service.limits;
    let service = service_fn(move |request| {
        let site = Arc::clone(&site);
        Box::pin(async move { Ok::<_, Infallible>(exchange::answer(&site, request).await) })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(Socket::new(tcp, limits.idle)), service);
    let outcome = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    if outcome.as_ref().err().is_none_or(hyper::Error::is_parse) {
        see_off(connection.into_parts().io.into_inner()).await;
    }
}

/// Says that nothing more comes, and reads what the tool still sends, for a while.
async fn see_off(mut socket: Socket) {
    if socket.shutdown().await.is_err() {
        return;
    }
    let mut rest = socket.take(LINGER_BYTES);
    let mut buffer = [0; 4096];
    let _ = timeout(LINGER, async { while !matches!(rest.read(&mut buffer).await, Ok(0) | Err(_)) {} }).await;
}
