//! What every request of one door shares.

use std::net::SocketAddr;
use std::sync::Arc;

use runtime::SessionHandle;
use tokio::sync::{Semaphore, watch};

use crate::TokenKey;
use crate::limits::Limits;

/// One door.
pub(crate) struct Site {
    pub(crate) session: SessionHandle,
    pub(crate) key: Arc<TokenKey>,
    pub(crate) authentication: bool,
    /// Name and description of each skill that the card lists.
    pub(crate) skills: Vec<(String, String)>,
    pub(crate) limits: Limits,
    /// Where it listens, with the real port.
    pub(crate) local: SocketAddr,
    /// Bytes of bodies that may still be taken.
    pub(crate) bodies: Arc<Semaphore>,
    /// Turns true when the door closes.
    pub(crate) closing: watch::Receiver<bool>,
}
