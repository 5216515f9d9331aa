//! The ways out of a process's network that the runtime itself serves: gateways, and the way to allowed hosts.
//!
//! Where a process has a network of its own, they listen inside it: its helper makes the sockets, and a program that is
//! quicker than the runtime finds its connection waiting. Else they listen on the host's loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use sandbox::{Confinement, Network};

use super::ProcessError;
use crate::gateway::{GatewayGrant, OpenGateway, ReservedGateway};

/// The first port inside a process's own network: above those that the system gives out by itself.
const FIRST_PORT: u16 = 61_001;

/// Ways that nobody serves yet, in the order of their ports.
pub(super) struct Ways(Vec<Way>);

struct Way {
    name: String,
    reserved: Box<dyn ReservedGateway>,
    /// On the host, where the process has no network of its own.
    listener: Option<TcpListener>,
}

impl Ways {
    /// Finds an address for each way and puts it into the process's environment.
    pub(super) fn reserve<'g>(
        grants: impl IntoIterator<Item = &'g GatewayGrant>,
        confinement: &mut Confinement,
    ) -> Result<Self, ProcessError> {
        let mut ways = Vec::new();
        for (grant, port) in grants.into_iter().zip(FIRST_PORT..) {
            let name = grant.name().to_owned();
            let failed = |source| ProcessError::Gateway { variable: name.clone(), source };
            let inside = confinement.network == Network::Loopback;
            let listener = if inside {
                confinement.listen.push(port);
                None
            } else {
                Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?)
            };
            let address = match &listener {
                Some(listener) => listener.local_addr().map_err(failed)?,
                None => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            };
            let reserved = grant.reserve(address, &mut confinement.env).map_err(failed)?;
            ways.push(Way { name, reserved, listener });
        }
        Ok(Self(ways))
    }

    /// Serves them until what this gives is dropped. `inside` are the sockets in the process's own network.
    pub(super) fn serve(self, inside: Vec<TcpListener>) -> Result<Vec<OpenGateway>, ProcessError> {
        let mut inside = inside.into_iter();
        let mut open = Vec::with_capacity(self.0.len());
        for Way { name, reserved, listener } in self.0 {
            let listener = listener.or_else(|| inside.next()).ok_or_else(|| std::io::ErrorKind::NotFound.into());
            let served = listener.and_then(|listener| reserved.serve(listener));
            open.push(served.map_err(|source| ProcessError::Gateway { variable: name, source })?);
        }
        Ok(open)
    }
}
