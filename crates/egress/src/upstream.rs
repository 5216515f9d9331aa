//! A connection to a target that counts its bytes, and who is told of it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use manifest::Scheme;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::Refusal;
use crate::target::Target;

/// What became of a request: decided once for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'a> {
    /// `https` for a tunnel.
    pub scheme: Scheme,
    /// The host, IPv6 in brackets; empty when the request names none.
    pub host: &'a str,
    /// The port; 0 when the request names none.
    pub port: u16,
    /// The address that is connected, or why there is none.
    pub outcome: Result<SocketAddr, &'a Refusal>,
}

/// A connection that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// `https` for a tunnel.
    pub scheme: Scheme,
    /// The host, IPv6 in brackets.
    pub host: &'a str,
    /// The port.
    pub port: u16,
    /// The address that was connected.
    pub address: SocketAddr,
    /// Bytes that went to it, an HTTP request's head included.
    pub sent: u64,
    /// Bytes that came from it.
    pub received: u64,
}

/// Is told of every request and of every connection's end. It is called between the bytes of connections, so
/// it must not block.
pub trait Observer: Send + Sync {
    /// A request was decided.
    fn decided(&self, decision: &Decision<'_>);

    /// A connection ended, in whatever way.
    fn ended(&self, transfer: &Transfer<'_>);
}

/// Tells nobody.
impl Observer for () {
    fn decided(&self, _: &Decision<'_>) {}

    fn ended(&self, _: &Transfer<'_>) {}
}

/// The connection. Its observer learns of its end when it is dropped.
pub struct Upstream {
    tcp: TcpStream,
    target: Target,
    host: String,
    address: SocketAddr,
    sent: u64,
    received: u64,
    observer: Arc<dyn Observer>,
}

impl Upstream {
    pub(crate) fn new(tcp: TcpStream, address: SocketAddr, target: Target, observer: Arc<dyn Observer>) -> Self {
        // Whoever is at either end decides about the size of packets.
        let _ = tcp.set_nodelay(true);
        let host = target.host.to_string();
        observer.decided(&Decision { scheme: target.scheme, host: &host, port: target.port, outcome: Ok(address) });
        Self { tcp, target, host, address, sent: 0, received: 0, observer }
    }

    /// The address at the other end: the one that was checked.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes the end of this connection a reset, which nobody can take for a regular end.
    pub(crate) fn reset(&self) {
        let _ = self.tcp.set_zero_linger();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.observer.ended(&Transfer {
            scheme: self.target.scheme,
            host: &self.host,
            port: self.target.port,
            address: self.address,
            sent: self.sent,
            received: self.received,
        });
    }
}

impl AsyncRead for Upstream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.tcp).poll_read(cx, buffer))?;
        this.received += (buffer.filled().len() - before) as u64;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upstream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.tcp).poll_write(cx, bytes))?;
        this.sent += written as u64;
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.tcp).poll_write_vectored(cx, slices))?;
        this.sent += written as u64;
        Poll::Ready(Ok(written))
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
