//! An address, bound before anything runs, so that a taken port stops a launch and not a session.

use std::net::{SocketAddr, TcpListener};

use rustix::net::sockopt::set_socket_send_buffer_size;

use crate::DoorError;

/// Connections that may wait to be taken, if the system allows as many: one that finds no room is not refused but tries
/// again after a second, which a crowd that comes at once, or while the thread is busy with another, would feel.
const BACKLOG: i32 = 4096;
/// How much the system holds for a client that does not read; its own choice would be megabytes for each.
const SEND_BUFFER: usize = 256 << 10;

/// An address that connections can already be made to; they wait until the door opens.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    local: SocketAddr,
}

impl Listening {
    /// Binds the address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`DoorError::Bind`].
    pub fn bind(address: SocketAddr) -> Result<Self, DoorError> {
        let fault = |source| DoorError::Bind { address, source };
        let listener = TcpListener::bind(address).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        rustix::net::listen(&listener, BACKLOG).map_err(|error| fault(error.into()))?;
        // Connections inherit it.
        set_socket_send_buffer_size(&listener, SEND_BUFFER).map_err(|error| fault(error.into()))?;
        let local = listener.local_addr().map_err(fault)?;
        Ok(Self { listener, local })
    }

    /// The address, with its real port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.local
    }

    /// Where a client on this machine reaches it: `http://127.0.0.1:8080`, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", reachable(self.local))
    }

    /// Whether only this machine can reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.local.ip().to_canonical().is_loopback()
    }

    pub(crate) fn into_parts(self) -> (TcpListener, SocketAddr) {
        (self.listener, self.local)
    }
}

/// An address that a client can connect to: the loopback one for a wildcard.
fn reachable(local: SocketAddr) -> SocketAddr {
    let mut address = local;
    if local.ip().is_unspecified() {
        let loopback = if local.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        address.set_ip(loopback);
    }
    address
}

#[cfg(test)]
mod tests {
    use super::{Listening, reachable};
    use crate::DoorError;

    #[test]
    fn a_free_port_is_taken_and_taken_once() {
        let first = Listening::bind(([127, 0, 0, 1], 0).into()).unwrap();
        assert!(first.is_loopback() && first.address().port() != 0);
        assert_eq!(first.url(), format!("http://127.0.0.1:{}", first.address().port()));
        let error = Listening::bind(first.address()).unwrap_err();
        assert!(matches!(error, DoorError::Bind { address, .. } if address == first.address()), "{error}");
    }

    #[test]
    fn a_wildcard_is_reached_at_loopback() {
        for (bound, url) in [("0.0.0.0:7", "127.0.0.1:7"), ("[::]:7", "[::1]:7"), ("10.1.2.3:7", "10.1.2.3:7")] {
            assert_eq!(reachable(bound.parse().unwrap()).to_string(), url);
        }
    }
}
