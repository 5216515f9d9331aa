//! The HTTP client of whoever calls out, made once at the first call.
//!
//! TLS trusts the roots that are compiled in, not the system's: reading those costs more than the
//! rest of a launch, and a container often has none. Roots of one's own come from a PEM file. Redirects
//! are not followed: what is sent is for the address that the operator named.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use reqwest::{Client, Url, redirect};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};

use crate::config::BuildError;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// What a client is made from.
#[derive(Debug)]
pub struct ClientSetup {
    user_agent: HeaderValue,
    extra_roots: Option<PathBuf>,
    // A proxy from the environment is for the outside, never for this host.
    local: bool,
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of further roots cannot be read.
    #[error("the certificates in `{}` cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: pem::Error,
    },
    /// It holds something that is no PEM.
    #[error("the certificates in `{}` are not PEM: {error}", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// Why.
        error: pem::Error,
    },
    /// It holds a certificate that is none.
    #[error("the certificates in `{}` are not valid: {error}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Why.
        error: rustls::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The client itself cannot be made.
    #[error(transparent)]
    Client(#[from] reqwest::Error),
}

impl ClientSetup {
    /// For calls to `url`. `extra_roots` is a PEM file of certificates that are trusted besides those
    /// compiled in. Nothing is read yet.
    ///
    /// # Errors
    /// [`BuildError::Header`] when the user agent cannot stand in a header.
    pub fn new(url: &Url, user_agent: &str, extra_roots: Option<PathBuf>) -> Result<Self, BuildError> {
        let user_agent = HeaderValue::from_str(user_agent).map_err(|_| BuildError::Header { what: "user agent" })?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        Ok(Self { user_agent, extra_roots, local })
    }

    /// The file that `SSL_CERT_FILE` names, where it is set.
    #[must_use]
    pub fn roots_from_env() -> Option<PathBuf> {
        std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    /// Goes to the address itself, whatever proxy the environment names; as calls to this host do anyway.
    #[must_use]
    pub fn direct(self) -> Self {
        Self { local: true, ..self }
    }

    /// Makes the client.
    ///
    /// # Errors
    /// When the certificates cannot be had or TLS cannot be set up.
    pub fn client(&self) -> Result<Client, ClientError> {
        let mut builder = Client::builder()
            .tls_backend_preconfigured(self.tls()?)
            .user_agent(self.user_agent.clone())
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT);
        if self.local {
            builder = builder.no_proxy();
        }
        Ok(builder.build()?)
    }

    fn tls(&self) -> Result<ClientConfig, ClientError> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = &self.extra_roots {
            let path = || path.clone();
            let certificates = CertificateDer::pem_file_iter(path())
                .map_err(|error| ClientError::Unreadable { path: path(), error })?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| ClientError::NotPem { path: path(), error })?;
                roots.add(certificate).map_err(|error| ClientError::Invalid { path: path(), error })?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}
