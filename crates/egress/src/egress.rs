//! From a target to a connection: listed, looked up, each address judged, and one of them connected.
//!
//! A name that is listed does not list what it stands for: whoever answers for a public name can make it
//! stand for an address of this host or of its network. So every address is judged for itself, and the
//! connection is made to an address that was judged, never to a name.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use manifest::{Host, Scheme};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::refusal::{Reason, Refusal};
use crate::resolve::{Resolve, SystemResolver};
use crate::target::Target;
use crate::upstream::{Decision, Observer, Upstream};
use crate::{AllowList, range};

/// Addresses of one name that are tried.
const TRIES: usize = 8;

/// What bounds a proxy. A head may have 100 lines and 64 KiB; a body and a tunnel have no bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections of clients at a time; more wait to be taken.
    pub connections: usize,
    /// How long a connection may take to send a head, the time before its first byte included.
    pub head: Duration,
    /// How long a name may take to be looked up.
    pub lookup: Duration,
    /// How long one address may take to accept a connection.
    pub connect: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (head, lookup, connect) = (Duration::from_secs(60), Duration::from_secs(10), Duration::from_secs(10));
        Self { connections: 256, head, lookup, connect }
    }
}

/// What may be reached, and how.
#[derive(Clone)]
pub struct Egress {
    /// What is listed.
    pub allow: AllowList,
    /// Looks names up; the system's resolver unless another is put here.
    pub resolver: Arc<dyn Resolve>,
    /// Is told of every request; nobody unless somebody is put here.
    pub observer: Arc<dyn Observer>,
    /// Sockets on which the runtime itself listens. They are reached only through an entry that names the
    /// port: `localhost` alone does not mean them. For one on a loopback or unspecified address all of these
    /// addresses are it, of both families.
    pub own: Vec<SocketAddr>,
    /// Limits.
    pub limits: Limits,
}

impl Egress {
    /// What `allow` lists, with defaults for all else.
    #[must_use]
    pub fn new(allow: AllowList) -> Self {
        let (resolver, observer) = (Arc::new(SystemResolver::default()), Arc::new(()));
        Self { allow, resolver, observer, own: Vec::new(), limits: Limits::default() }
    }

    /// The addresses that may be connected for this target, in the order to try them; never empty. `host` is
    /// a name or an address, IPv6 with or without brackets; `scheme` is `https` for anything that is not
    /// plain HTTP. The observer is not told: a caller that connects by itself does that.
    ///
    /// Judge anew for each connection, also for one that a redirect asks for, and connect to no other address.
    ///
    /// # Errors
    /// A [`Refusal`] with [`Reason::Target`], [`NotListed`](Reason::NotListed), [`Address`](Reason::Address),
    /// [`Own`](Reason::Own), [`Unresolved`](Reason::Unresolved) or [`TimedOut`](Reason::TimedOut).
    pub async fn check(&self, scheme: Scheme, host: &str, port: u16) -> Result<Vec<SocketAddr>, Refusal> {
        let target = Target::of_parts(scheme, host, port).ok_or_else(|| Refusal::nameless(scheme, Reason::Target))?;
        self.judge(&target).await.map_err(|reason| Refusal::new(&target, reason))
    }

    /// Checks and connects; tells the observer. Arguments as for [`check`](Self::check).
    ///
    /// # Errors
    /// As [`check`](Self::check), and a [`Refusal`] with [`Reason::Unreachable`].
    pub async fn connect(&self, scheme: Scheme, host: &str, port: u16) -> Result<Upstream, Refusal> {
        match Target::of_parts(scheme, host, port) {
            Some(target) => self.open(target).await,
            None => Err(self.refuse(Refusal::nameless(scheme, Reason::Target))),
        }
    }

    pub(crate) async fn open(&self, target: Target) -> Result<Upstream, Refusal> {
        let connected = match self.judge(&target).await {
            Ok(addresses) => self.dial(&addresses).await,
            Err(reason) => Err(reason),
        };
        match connected {
            Ok((tcp, address)) => Ok(Upstream::new(tcp, address, target, Arc::clone(&self.observer))),
            Err(reason) => Err(self.refuse(Refusal::new(&target, reason))),
        }
    }

    /// Tells the observer of a refusal.
    pub(crate) fn refuse(&self, refusal: Refusal) -> Refusal {
        let Refusal { scheme, ref host, port, .. } = refusal;
        self.observer.decided(&Decision { scheme, host, port, outcome: Err(&refusal) });
        refusal
    }

    async fn judge(&self, target: &Target) -> Result<Vec<SocketAddr>, Reason> {
        if !self.allow.has(target) {
            return Err(Reason::NotListed);
        }
        let mut permitted = Vec::new();
        let mut refused = None;
        for address in self.addresses(&target.host).await? {
            match self.judge_address(target, address) {
                Ok(address) => permitted.push(address),
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        permitted.truncate(TRIES);
        if permitted.is_empty() { Err(refused.unwrap_or(Reason::Unresolved)) } else { Ok(permitted) }
    }

    async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, Reason> {
        match host {
            Host::Address(address) => Ok(vec![*address]),
            // These names mean this host and are nobody's to answer for.
            Host::Name(_) if host.is_loopback() => Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]),
            Host::Name(name) => match timeout(self.limits.lookup, self.resolver.resolve(name)).await {
                Ok(found) => found.map_err(|_| Reason::Unresolved),
                Err(_) => Err(Reason::TimedOut),
            },
            Host::Below(_) => Err(Reason::Target),
        }
    }

    fn judge_address(&self, target: &Target, address: IpAddr) -> Result<SocketAddr, Reason> {
        let address = address.to_canonical();
        let named = matches!(target.host, Host::Name(_)) && target.host.is_loopback();
        if !named
            && !self.allow.has_address(target, address)
            && let Some(range) = range::of(address)
        {
            return Err(Reason::Address { address, range });
        }
        let socket = SocketAddr::new(address, target.port);
        if self.is_own(socket) && !self.allow.has_with_port(target) {
            return Err(Reason::Own { address: socket });
        }
        Ok(socket)
    }

    fn is_own(&self, socket: SocketAddr) -> bool {
        self.own.iter().any(|own| {
            let address = own.ip().to_canonical();
            own.port() == socket.port()
                && (address == socket.ip() || (is_this_host(address) && is_this_host(socket.ip())))
        })
    }

    /// Connects the first address that takes a connection.
    async fn dial(&self, addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Reason> {
        let mut last = Reason::Unresolved;
        for &address in addresses {
            last = match timeout(self.limits.connect, TcpStream::connect(address)).await {
                Ok(Ok(tcp)) => return Ok((tcp, address)),
                Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => Reason::TimedOut,
                Ok(Err(error)) => Reason::Unreachable { kind: error.kind() },
                Err(_) => Reason::TimedOut,
            };
        }
        Err(last)
    }
}

/// Whether a canonical address means this host whatever networks it is in. A connection to an unspecified
/// address goes to loopback, and a listener on one is there as well. Of `0.0.0.0/8` only `0.0.0.0` is one.
fn is_this_host(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}
