//! Services that a call's processes reach with a credential that they never hold.
//!
//! A process gets an address in a variable of its environment. What stands behind the address, and the
//! credential, are somebody else's: a tool only says where the address is, which is in the process's own network
//! where it has one, and when it ends, which is with the process tree.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// A service behind a gateway, for the session.
pub trait Gateway: Debug + Send + Sync {
    /// What will stand at this address for one process tree.
    ///
    /// # Errors
    /// When the system has no randomness for it.
    fn reserve(&self, address: SocketAddr) -> io::Result<Box<dyn ReservedGateway>>;
}

/// A gateway at which nothing listens yet.
pub trait ReservedGateway: Send + Sync {
    /// What a process uses in place of the service's own address.
    fn url(&self) -> &str;

    /// Answers at a socket that listens at the address, until what this gives is dropped, on the tokio runtime that
    /// it is called on.
    ///
    /// # Errors
    /// When the system does not let it.
    fn serve(self: Box<Self>, listener: TcpListener) -> io::Result<OpenGateway>;
}

/// Whatever answers at an address, as long as it is kept.
pub type OpenGateway = Box<dyn Send + Sync>;

/// A gateway, and the variables in which processes find its address.
#[derive(Debug, Clone)]
pub struct GatewayGrant {
    /// The variables' names.
    pub variables: Vec<String>,
    /// The service.
    pub gateway: Arc<dyn Gateway>,
}

impl GatewayGrant {
    /// Reserves the address and puts it into the environment, in place of variables of these names.
    pub(crate) fn reserve(
        &self,
        address: SocketAddr,
        env: &mut Vec<(OsString, OsString)>,
    ) -> io::Result<Box<dyn ReservedGateway>> {
        let reserved = self.gateway.reserve(address)?;
        for variable in &self.variables {
            env.retain(|(name, _)| *name != **variable);
            env.push((variable.into(), reserved.url().into()));
        }
        Ok(reserved)
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> &str {
        self.variables.first().map_or("", String::as_str)
    }
}
