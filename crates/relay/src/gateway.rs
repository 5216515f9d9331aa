//! A service for the session, and its address for one call.
//!
//! The two are apart because what is known of a credential, and the connections to the service, outlive a
//! call, while its address must not.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use drivers::ClientSetup;
use reqwest::Client;
use ring::rand::{SecureRandom as _, SystemRandom};
use secrets::{Keyring, Redactor};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::refusal::Refusal;
use crate::serve;
use crate::target::Target;
use crate::{Error, UpstreamAuth};

/// What bounds a gateway. A head may have 100 lines and 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections of the tool at a time; more wait to be taken.
    pub connections: usize,
    /// How long a connection may take to send a head, the time before its first byte included.
    pub head: Duration,
    /// How long a request may stand still: neither its body nor its answer moves.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 64, head: Duration::from_secs(60), idle: Duration::from_secs(300) }
    }
}

/// What an [`Upstream`] is made from.
#[derive(Clone)]
pub struct UpstreamConfig {
    /// `http(s)://host[:port][/path]`.
    pub endpoint: String,
    /// The credential and how it is written; `None` is keyless.
    pub key: Option<(Keyring, UpstreamAuth)>,
    /// Limits.
    pub limits: Limits,
    /// Sent where the tool sends no `user-agent` of its own.
    pub user_agent: String,
    /// A PEM file of certificates that are trusted besides the built-in roots.
    pub extra_roots: Option<PathBuf>,
}

impl UpstreamConfig {
    /// A keyless service with default limits. `SSL_CERT_FILE`, where it is set, names the
    /// [`extra_roots`](Self::extra_roots).
    #[must_use]
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            key: None,
            limits: Limits::default(),
            user_agent: concat!("mur/", env!("CARGO_PKG_VERSION")).to_owned(),
            extra_roots: ClientSetup::roots_from_env(),
        }
    }
}

/// One artifact's service. Clones are the same one.
#[derive(Clone)]
pub struct Upstream(Arc<Service>);

pub(crate) struct Service {
    pub(crate) target: Target,
    pub(crate) key: Option<(Keyring, UpstreamAuth)>,
    /// Knows every key that was sent.
    pub(crate) sent: Redactor,
    pub(crate) limits: Limits,
    setup: ClientSetup,
    // Made at the first request: TLS set-up is no part of a call that asks nothing.
    client: OnceLock<Option<Client>>,
}

impl Service {
    pub(crate) fn client(&self) -> Result<&Client, Refusal> {
        self.client.get_or_init(|| self.setup.client().ok()).as_ref().ok_or(Refusal::Client)
    }
}

impl Upstream {
    /// Checks the endpoint. Nothing is read or contacted.
    ///
    /// # Errors
    /// [`Error::Endpoint`], [`Error::Client`].
    pub fn new(config: UpstreamConfig) -> Result<Self, Error> {
        let target = Target::new(&config.endpoint)?;
        let setup = ClientSetup::new(target.endpoint(), &config.user_agent, config.extra_roots)?;
        let sent = Redactor::new();
        Ok(Self(Arc::new(Service {
            target,
            key: config.key,
            sent,
            limits: config.limits,
            setup,
            client: OnceLock::new(),
        })))
    }

    /// Opens an address of this host's own for one call, on the runtime that this is called on.
    ///
    /// # Errors
    /// [`Error::Listen`], [`Error::Randomness`].
    pub fn open(&self) -> Result<Gateway, Error> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::Listen)?;
        self.reserve(listener.local_addr().map_err(Error::Listen)?)?.serve(listener)
    }

    /// What will stand at `address` for one call. Nothing listens there yet: it may be in a network of which
    /// there is nothing so far.
    ///
    /// # Errors
    /// [`Error::Randomness`].
    pub fn reserve(&self, address: SocketAddr) -> Result<Reserved, Error> {
        let mut random = [0; 32];
        SystemRandom::new().fill(&mut random).map_err(|_| Error::Randomness)?;
        let token = BASE64.encode(random);
        Ok(Reserved { url: format!("http://{address}/{token}"), service: Arc::clone(&self.0), token })
    }
}

/// A gateway that does not listen yet.
pub struct Reserved {
    url: String,
    service: Arc<Service>,
    token: String,
}

impl Reserved {
    /// What the gateway's [`url`](Gateway::url) is going to be.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Answers at a socket that listens at the address, on the runtime that this is called on. The socket may belong
    /// to another network than this process.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn serve(self, listener: std::net::TcpListener) -> Result<Gateway, Error> {
        listener.set_nonblocking(true).map_err(Error::Listen)?;
        let listener = TcpListener::from_std(listener).map_err(Error::Listen)?;
        let Self { url, service, token } = self;
        let site = Arc::new(Site { service, token, closed: AtomicBool::new(false) });
        let task = tokio::spawn(serve::run(listener, Arc::clone(&site))).abort_handle();
        Ok(Gateway { url, site, task })
    }
}

impl fmt::Debug for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reserved")
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("endpoint", &self.0.target.endpoint().as_str()).finish_non_exhaustive()
    }
}

/// What one gateway's connections share.
pub(crate) struct Site {
    pub(crate) service: Arc<Service>,
    token: String,
    closed: AtomicBool,
}

impl Site {
    /// Whether this is the address's own secret; it takes the same time wherever the two differ.
    pub(crate) fn is_own(&self, token: &str) -> bool {
        let pairs = token.bytes().zip(self.token.bytes());
        token.len() == self.token.len() && pairs.fold(0, |all, (given, own)| all | (given ^ own)) == 0
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// An address of the service, alive until this is dropped: then no further request gets a key, and every
/// connection ends.
#[must_use = "the address ends with it"]
pub struct Gateway {
    url: String,
    site: Arc<Site>,
    task: AbortHandle,
}

impl Gateway {
    /// `http://127.0.0.1:<port>/<unguessable>`: what a tool puts in place of the endpoint. Whoever knows it
    /// can spend the credential.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.site.closed.store(true, Ordering::Release);
        self.task.abort();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gateway")
    }
}
