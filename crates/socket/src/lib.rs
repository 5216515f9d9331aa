//! What every server here does with TCP: take connections whatever happens to one of them, and give one up when the
//! other side takes nothing of what is written to it.
//!
//! Reads are bounded elsewhere, by what they are for: a head, a body, a connection's end.
//!
//! ```no_run
//! # async fn serve(tcp: tokio::net::TcpStream) {
//! let connection = socket::Socket::new(tcp, std::time::Duration::from_secs(60));
//! # drop(connection);
//! # }
//! ```

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};

/// How long nothing is accepted after the system could not.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes the next connection, which sends what is written at once. One that failed before it was taken is passed over;
/// where the system is out of descriptors or memory, what is open goes on and the rest waits in the backlog.
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    loop {
        match listener.accept().await {
            Ok((tcp, peer)) => {
                let _ = tcp.set_nodelay(true);
                return (tcp, peer);
            }
            Err(error)
                if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) => {}
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// The connection. A write that stalls for too long fails with [`io::ErrorKind::TimedOut`].
pub struct Socket {
    tcp: TcpStream,
    stall: Duration,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    /// Takes a connection over; `stall` is how long a write may make no progress.
    #[must_use]
    pub fn new(tcp: TcpStream, stall: Duration) -> Self {
        Self { tcp, stall, timer: None }
    }

    fn written(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if outcome.is_ready() {
            self.timer = None;
            return outcome;
        }
        let stall = self.stall;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(stall)));
        timer.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.tcp).poll_write(cx, bytes);
        this.written(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.tcp).poll_write_vectored(cx, slices);
        this.written(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(cx)
    }
}
