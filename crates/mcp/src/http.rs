//! A server behind an address: what is configured, and the client that speaks to it.
//!
//! The address is the operator's own configuration: it is called as it stands, over https, or over plain
//! HTTP to this host or where the configuration says so. Redirects are followed within the same origin and
//! only when they keep the message. The bearer token is read for each request, so that a rotated one counts
//! from the next on. TLS trusts the roots that are compiled in and those of a file, not the system's.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Client, Url, redirect};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use secrets::Keyring;

use crate::Error;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// Redirects that one request follows.
const MAX_REDIRECTS: usize = 5;

/// Headers that are the protocol's or the client's own.
const RESERVED: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
    "upgrade",
];

/// An MCP server's address and what is sent along.
#[derive(Clone)]
pub struct HttpConfig {
    url: Url,
    bearer: Option<Keyring>,
    headers: HashMap<HeaderName, HeaderValue>,
    extra_roots: Option<PathBuf>,
}

impl HttpConfig {
    /// A server at `url`: `https`, or `http` to this host.
    ///
    /// # Errors
    /// [`Error::Config`] when the address is no such, or holds a credential or a fragment.
    pub fn new(url: &str) -> Result<Self, Error> {
        let config = Self::plain(url)?;
        if config.url.scheme() == "http" && !is_local(&config.url) {
            return Err(bad("url", "is plain HTTP to another host"));
        }
        Ok(config)
    }

    /// A server at `url`, `http` to another host included: what is sent and answered, the bearer token too,
    /// can be read and changed on the way.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn plain(url: &str) -> Result<Self, Error> {
        let url = Url::parse(url).map_err(|_| bad("url", "is no address"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(bad("url", "is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("url", "holds a credential"));
        }
        if url.fragment().is_some() {
            return Err(bad("url", "has a fragment"));
        }
        Ok(Self { url, bearer: None, headers: HashMap::new(), extra_roots: None })
    }

    /// Sends `Authorization: Bearer` with the token of the moment, in the place of any other such header.
    #[must_use]
    pub fn bearer(mut self, token: Keyring) -> Self {
        self.headers.remove(&header::AUTHORIZATION);
        Self { bearer: Some(token), ..self }
    }

    /// Sends a further header, whose value is kept out of debug output.
    ///
    /// # Errors
    /// [`Error::Config`] when it is no header or one that the protocol needs itself.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let name = HeaderName::try_from(name).map_err(|_| bad("header", "has a name that is none"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad("header", "has a value that cannot be sent"))?;
        if RESERVED.contains(&name.as_str()) || (name == header::AUTHORIZATION && self.bearer.is_some()) {
            return Err(bad("header", "is set by the protocol"));
        }
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Trusts the certificates in a PEM file besides those compiled in.
    #[must_use]
    pub fn extra_roots(self, file: PathBuf) -> Self {
        Self { extra_roots: Some(file), ..self }
    }

    /// The address.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) fn token(&self) -> Option<&Keyring> {
        self.bearer.as_ref()
    }

    pub(crate) fn extra_headers(&self) -> HashMap<HeaderName, HeaderValue> {
        self.headers.clone()
    }

    /// Makes the client.
    pub(crate) fn client(&self) -> Result<Client, Error> {
        let mut builder = Client::builder()
            .tls_backend_preconfigured(self.tls()?)
            .user_agent(concat!("mur/", env!("CARGO_PKG_VERSION")))
            .redirect(same_origin())
            .referer(false)
            .connect_timeout(CONNECT);
        if is_local(&self.url) {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| Error::Client { reason: error.to_string() })
    }

    fn tls(&self) -> Result<ClientConfig, Error> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = &self.extra_roots {
            let refuse = |reason: String| Error::Roots { path: path.clone(), reason };
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refuse(error.to_string()))? {
                let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
                roots.add(certificate).map_err(|error| refuse(error.to_string()))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Client { reason: error.to_string() })?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConfig")
            .field("url", &self.url.as_str())
            .field("bearer", &self.bearer)
            .field("headers", &self.headers.keys())
            .field("extra_roots", &self.extra_roots)
            .finish()
    }
}

fn bad(what: &'static str, reason: &'static str) -> Error {
    Error::Config { what, reason }
}

/// Whether an address is this host's own.
fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// 307 and 308 within the origin. Another status would lose the message, another origin would be given the
/// session and the headers: such a redirect is the answer, and so an error.
fn same_origin() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let keeps = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if keeps && same && attempt.previous().len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_https_or_this_host_unless_plain_was_asked_for() {
        for url in ["https://mcp.example.com/mcp", "http://127.0.0.1:3901/mcp", "http://[::1]/mcp", "http://localhost/"]
        {
            assert!(HttpConfig::new(url).is_ok(), "{url}");
        }
        for url in [
            "http://mcp.example.com/mcp",
            "http://localhost.example.com/",
            "ftp://127.0.0.1/",
            "/mcp",
            "https://",
            "https://user@mcp.example.com/",
            "https://:word@mcp.example.com/",
            "https://mcp.example.com/#part",
        ] {
            assert!(matches!(HttpConfig::new(url), Err(Error::Config { what: "url", .. })), "{url}");
        }
        assert!(HttpConfig::plain("http://mcp.example.com/mcp").is_ok());
    }

    #[test]
    fn a_header_of_the_protocol_cannot_be_set_and_no_value_is_shown() {
        let config = || HttpConfig::new("https://mcp.example.com/mcp").unwrap();
        for name in ["Mcp-Session-Id", "host", "Content-Type", "no header", ""] {
            assert!(matches!(config().header(name, "x"), Err(Error::Config { what: "header", .. })), "{name}");
        }
        assert!(config().header("X-Api-Key", "a\nb").is_err());
        let config = config().header("X-Api-Key", "hunter2-hunter2").unwrap();
        assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    }

    #[test]
    fn roots_that_cannot_be_read_are_an_error() {
        let config = HttpConfig::new("https://mcp.example.com/mcp").unwrap().extra_roots("/nowhere/roots.pem".into());
        assert!(matches!(config.client(), Err(Error::Roots { .. })));
    }
}
