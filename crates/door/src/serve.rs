//! Connections: taken up to a number, each read and answered within its limits, all ended when the
//! door closes.
//!
//! The accept loop is our own because the limits on heads and the lingering end of a connection are not to be
//! had from a framework. A connection is half-closed when an answer left some of the request unread, and
//! read for a while longer: closing at once would reset it, and the answer might never be seen. A client that
//! ended its own half may still wait for its answer, so one that closed its connection keeps its place until the task
//! that it waits for has ended, and one that watches until the next heartbeat; one whose connection was reset is let go
//! at once. The reserve is there for those whom that would keep out.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket::Socket;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::ahead::Ahead;
use crate::alarm::Alarm;
use crate::places::Room;
use crate::refusal::Refusal;
use crate::service::{self, Line};
use crate::site::Site;

/// Bytes of a head that are kept; hyper takes a little more before it refuses.
const HEAD: usize = 64 << 10;
/// Header lines of a head.
const HEADERS: usize = 64;
/// How much of what a client still sends is read after its answer.
const LINGER_BYTES: u64 = 1 << 20;

/// Takes connections until the door closes, then waits for those that are open.
pub(crate) async fn run(listener: TcpListener, site: Arc<Site>) {
    let refused = Arc::new(Semaphore::new(site.limits.farewells));
    // Each connection holds a sender until it is over.
    let (open, mut over) = mpsc::channel::<Infallible>(1);
    let mut closing = site.closing.clone();
    loop {
        let (tcp, peer) = tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => break,
            accepted = socket::accept(&listener) => accepted,
        };
        let Some(room) = site.places.take() else {
            refuse(tcp, &refused, site.limits.linger);
            continue;
        };
        let (site, open, refused) = (Arc::clone(&site), open.clone(), Arc::clone(&refused));
        tokio::spawn(async move {
            connection((tcp, peer), site, &room, &refused).await;
            drop((room, open));
        });
    }
    drop((listener, open));
    let _ = timeout(site.limits.close, over.recv()).await;
}

/// Tells a client that there is no room; one whose request is not read is lost without a farewell when
/// too many of them come.
fn refuse(tcp: TcpStream, refused: &Arc<Semaphore>, linger: Duration) {
    let _ = tcp.try_write(&Refusal::Overloaded.raw());
    if let Ok(place) = Arc::clone(refused).try_acquire_owned() {
        tokio::spawn(async move {
            see_off(Socket::new(tcp, linger), linger).await;
            drop(place);
        });
    }
}

async fn connection((tcp, peer): (TcpStream, SocketAddr), site: Arc<Site>, room: &Room, refused: &Arc<Semaphore>) {
    let limits = site.limits;
    // Whether an answer left some of its request unread.
    let left = Arc::new(AtomicBool::new(false));
    let mut closing = site.closing.clone();
    let line = Line { site, peer, left: Arc::clone(&left), seat: room.seat.clone() };
    let service = service_fn(move |request| Box::pin(service::answer(line.clone(), request)));
    let mut connection = http1::Builder::new()
        .half_close(true)
        .timer(Alarm::default())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD)
        // Frames are small: copying one costs less than a write in three pieces.
        .writev(false)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(Ahead::new(Socket::new(tcp, limits.stall))), service);
    let mut told = false;
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break Some(outcome),
            _ = closing.wait_for(|closing| *closing), if !told => {
                told = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
            }
            () = lost(room) => break None,
        }
    };
    let parts = connection.into_parts();
    let mut socket = parts.io.into_inner().into_inner();
    let Some(outcome) = outcome else { return refuse_late(socket, refused, limits.linger).await };
    let left = left.load(Ordering::Relaxed);
    // What hyper ends without a word: a head that began and did not come to its end.
    let begun = !left && !parts.read_buf.is_empty();
    let word = match &outcome {
        Err(error) if begun && error.is_timeout() => Some(Refusal::Slow),
        Err(error) if begun && error.is_incomplete_message() => Some(Refusal::Broken),
        _ => None,
    };
    match (word, outcome) {
        (Some(word), _) => {
            if socket.write_all(&word.raw()).await.is_ok() {
                see_off(socket, limits.linger).await;
            }
        }
        (None, Ok(())) if !left => drop(socket.shutdown().await),
        (None, Ok(())) => see_off(socket, limits.linger).await,
        (None, Err(error)) if error.is_parse() => see_off(socket, limits.linger).await,
        (None, Err(_)) => {}
    }
}

/// Waits until another has this connection's place.
async fn lost(room: &Room) {
    match &room.seat {
        Some(seat) => seat.lost().await,
        None => std::future::pending().await,
    }
}

/// Tells a client that its place went to another before it showed that it may have one.
async fn refuse_late(mut socket: Socket, refused: &Arc<Semaphore>, linger: Duration) {
    if let Ok(_place) = Arc::clone(refused).try_acquire_owned()
        && socket.write_all(&Refusal::Overloaded.raw()).await.is_ok()
    {
        see_off(socket, linger).await;
    }
}

/// Says that nothing more comes, and reads what the client still sends, for a while.
async fn see_off(mut socket: Socket, linger: Duration) {
    if socket.shutdown().await.is_err() {
        return;
    }
    let mut rest = socket.take(LINGER_BYTES);
    let mut buffer = [0; 4096];
    let _ = timeout(linger, async { while !matches!(rest.read(&mut buffer).await, Ok(0) | Err(_)) {} }).await;
}
