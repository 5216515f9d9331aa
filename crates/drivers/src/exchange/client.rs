//! The HTTP client, made once per driver at its first call.
//!
//! TLS trusts the roots that are compiled in, not the system's: reading those costs more than the
//! rest of a launch, and a container often has none. Roots of one's own come from a PEM file.

use std::error::Error as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use reqwest::{Client, Url, redirect};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use vocab::DriverErrorKind as Kind;

use crate::config::BuildError;
use crate::failure::Fault;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// What the client is made from.
pub(super) struct Setup {
    user_agent: HeaderValue,
    extra_roots: Option<PathBuf>,
    // A proxy from the environment is for the outside, never for this host.
    local: bool,
}

impl Setup {
    pub(super) fn new(url: &Url, user_agent: &str, extra_roots: Option<PathBuf>) -> Result<Self, BuildError> {
        let user_agent = HeaderValue::from_str(user_agent).map_err(|_| BuildError::Header { what: "user agent" })?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        Ok(Self { user_agent, extra_roots, local })
    }

    pub(super) fn client(&self) -> Result<Client, Fault> {
        let mut builder = Client::builder()
            .tls_backend_preconfigured(self.tls()?)
            .user_agent(self.user_agent.clone())
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT);
        if self.local {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| fault(&error).for_good())
    }

    fn tls(&self) -> Result<ClientConfig, Fault> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = &self.extra_roots {
            let refuse = |why: String| {
                Fault::new(Kind::Network, format!("cannot be called: the certificates in `{}` {why}", path.display()))
                    .for_good()
            };
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| refuse(format!("are not PEM: {error}")))?;
                roots.add(certificate).map_err(|error| refuse(format!("are not valid: {error}")))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::new(Kind::Network, format!("cannot be called: {error}")).for_good())?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Why a request got no answer. A certificate that is refused now is refused later too.
pub(super) fn fault(error: &reqwest::Error) -> Fault {
    if error.is_connect() || error.is_builder() {
        let fault = because(Fault::new(Kind::Network, "cannot be reached: "), error);
        return if is_tls(error) || error.is_builder() { fault.for_good() } else { fault };
    }
    because(Fault::new(Kind::Network, "closed the connection without an answer: "), error)
}

/// Goes on with the innermost cause, which names the thing and no URL.
pub(super) fn because(fault: Fault, error: &reqwest::Error) -> Fault {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = if error.source().is_none() { "the request failed".to_owned() } else { cause.to_string() };
    fault.quoting(text, 200, "")
}

/// Whether TLS failed somewhere beneath. An I/O error hides what it wraps from `source`.
fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>() || wrapped.is_some_and(|wrapped| is_tls(wrapped)) || error.source().is_some_and(is_tls)
}
