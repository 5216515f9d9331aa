//! Services that a call's processes reach with a credential that they never hold.
//!
//! A process gets an address in a variable of its environment. What stands behind the address, and the
//! credential, are somebody else's: a tool only says when the address begins and ends, which is with the
//! process tree.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use crate::proc::ProcessError;

/// A service behind a gateway, for the session.
pub trait Gateway: Debug + Send + Sync {
    /// Opens an address for one process tree, on the tokio runtime that this is called on.
    ///
    /// # Errors
    /// When the system gives no address.
    fn open(&self) -> io::Result<Box<dyn OpenGateway>>;
}

/// An address that ends when this is dropped.
pub trait OpenGateway: Send + Sync {
    /// What a process uses in place of the service's own address.
    fn url(&self) -> &str;
}

/// A gateway, and the variable in which processes find its address.
#[derive(Debug, Clone)]
pub struct GatewayGrant {
    /// The variable's name.
    pub variable: String,
    /// The service.
    pub gateway: Arc<dyn Gateway>,
}

/// Opens an address for each grant and puts it into the environment, in place of a variable of that name.
pub(crate) fn open_all(
    grants: &[GatewayGrant],
    env: &mut Vec<(OsString, OsString)>,
) -> Result<Vec<Box<dyn OpenGateway>>, ProcessError> {
    let mut open = Vec::with_capacity(grants.len());
    for grant in grants {
        let gateway = grant
            .gateway
            .open()
            .map_err(|source| ProcessError::Gateway { variable: grant.variable.clone(), source })?;
        env.retain(|(name, _)| *name != *grant.variable);
        env.push((grant.variable.clone().into(), gateway.url().into()));
        open.push(gateway);
    }
    Ok(open)
}
