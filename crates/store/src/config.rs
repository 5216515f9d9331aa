//! Which store is used, and how a PostgreSQL server is spoken to.
//!
//! Clear text is never fallen back to: a URL without `sslmode` means TLS with a checked certificate, unless every
//! host is a socket or loopback. `require` checks the certificate as `verify-full` does, which is more than other
//! clients do; the modes that promise less are refused. Reading `MURMUR_STORE` and `config.yaml` is the caller's.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use percent_encoding::percent_decode_str;
use secrets::Secret;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::{Place, UrlFault};
use crate::{CONNECT_LIMIT, StoreError};

/// The file's name in the home.
const FILE: &str = "settings.db";

/// Which store is used.
#[derive(Debug, Clone)]
pub enum StoreConfig {
    /// An SQLite file, made at the first change.
    Sqlite {
        /// Where it is. Its directory must be there already, and be the user's alone.
        path: PathBuf,
    },
    /// A PostgreSQL database.
    Postgres(PostgresConfig),
}

impl StoreConfig {
    /// The store that a home has unless another is configured: `<home>/settings.db`.
    #[must_use]
    pub fn in_home(home: &Path) -> Self {
        Self::Sqlite { path: home.join(FILE) }
    }

    /// A `postgres://` URL, as `MURMUR_STORE` and `store:` in `config.yaml` hold it.
    ///
    /// ```
    /// use store::StoreConfig;
    /// assert!(StoreConfig::from_url("postgres://mur:pass@db.example/settings?sslmode=verify-full").is_ok());
    /// let error = StoreConfig::from_url("postgres://mur:pass@db.example/settings?sslmode=prefer").unwrap_err();
    /// assert_eq!(error.code(), "E-STO-001");
    /// assert!(!error.to_string().contains("pass@"));
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Url`], which quotes nothing of the URL.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        PostgresConfig::parse(url).map(Self::Postgres).map_err(StoreError::Url)
    }

    /// The password in the URL, for a redactor to learn.
    #[must_use]
    pub fn password(&self) -> Option<Secret> {
        match self {
            Self::Sqlite { .. } => None,
            Self::Postgres(config) => {
                config.client.get_password().map(|bytes| Secret::new(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
    }
}

/// How a PostgreSQL server is reached. Its `Debug` shows no password.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) client: Box<Config>,
    pub(crate) tls: Option<Roots>,
    pub(crate) place: Place,
}

/// Who may vouch for the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Roots {
    /// The public certificate authorities, compiled in.
    Public,
    /// Those in a PEM file alone.
    File(PathBuf),
}

impl PostgresConfig {
    fn parse(url: &str) -> Result<Self, UrlFault> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        if rest.is_none() {
            return Err(UrlFault::Scheme);
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        if query.contains('@') {
            // A password with a `?` of its own: what follows is no option, and must not be taken for one.
            return Err(UrlFault::Syntax);
        }
        let (mut mode, mut roots, mut others) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(decode(value)?),
                Some(("sslrootcert", value)) => roots = Some(PathBuf::from(decode(value)?)),
                // Left to the client library, which would end in clear text for some of its values.
                Some(("sslnegotiation", _)) | None => return Err(UrlFault::Syntax),
                Some(_) => others.push(pair),
            }
        }
        // The library's own message may quote a piece of the URL.
        let mut client = Config::from_str(&format!("{base}?{}", others.join("&"))).map_err(|_| UrlFault::Syntax)?;
        let hosts = client.get_hosts();
        if hosts.is_empty() && client.get_hostaddrs().is_empty() {
            return Err(UrlFault::NoHost);
        }
        let near = hosts.iter().all(is_near) && client.get_hostaddrs().iter().all(IpAddr::is_loopback);
        let tls = match mode.as_deref() {
            None if near && roots.is_none() => None,
            Some("disable") if roots.is_some() => return Err(UrlFault::RootWithoutTls),
            Some("disable") => None,
            None | Some("require" | "verify-full") => Some(roots.map_or(Roots::Public, Roots::File)),
            Some("allow") => return Err(UrlFault::WeakTls("allow")),
            Some("prefer") => return Err(UrlFault::WeakTls("prefer")),
            Some("verify-ca") => return Err(UrlFault::WeakTls("verify-ca")),
            Some(_) => return Err(UrlFault::UnknownTls),
        };
        client.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        client.connect_timeout(CONNECT_LIMIT);
        if client.get_application_name().is_none() {
            client.application_name("mur");
        }
        let place = Place::Server(name(&client));
        Ok(Self { client: Box::new(client), tls, place })
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig").field("place", &self.place).field("tls", &self.tls).finish_non_exhaustive()
    }
}

fn decode(value: &str) -> Result<String, UrlFault> {
    percent_decode_str(value).decode_utf8().map(std::borrow::Cow::into_owned).map_err(|_| UrlFault::Syntax)
}

fn is_near(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address = name.trim_matches(['[', ']']);
            name == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

/// `host:port/database`, each host with its port.
fn name(client: &Config) -> String {
    let ports = client.get_ports();
    let hosts: Vec<String> = client
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(at, host)| {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(directory) => format!("{}:{port}", directory.display()),
            }
        })
        .collect();
    let database = client.get_dbname().or(client.get_user()).unwrap_or("postgres");
    let shown: String = format!("{}/{database}", hosts.join(",")).chars().filter(|c| !c.is_control()).collect();
    shown
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{PostgresConfig, Roots, StoreConfig};
    use crate::error::{Place, UrlFault};

    fn parse(url: &str) -> Result<(Option<Roots>, String), UrlFault> {
        let config = PostgresConfig::parse(url)?;
        let Place::Server(name) = config.place else { panic!("a server has no path") };
        Ok((config.tls, name))
    }

    #[test]
    fn tls_is_what_the_host_and_the_mode_make_of_it() {
        let file = || Some(Roots::File(PathBuf::from("/etc/ca.pem")));
        let public = Some(Roots::Public);
        for (url, tls) in [
            ("postgres://u:p@db.example/s", Ok(public.clone())),
            ("postgres://u:p@db.example/s?sslmode=require", Ok(public.clone())),
            ("postgres://u:p@db.example/s?sslmode=verify-full", Ok(public.clone())),
            ("postgres://u:p@db.example/s?sslmode=disable", Ok(None)),
            ("postgres://u:p@localhost/s", Ok(None)),
            ("postgres://u:p@127.0.0.1/s", Ok(None)),
            ("postgres://u:p@[::1]:5433/s", Ok(None)),
            ("postgres://u:p@%2Frun%2Fpg/s", Ok(None)),
            ("postgres://u:p@localhost,db.example/s", Ok(public.clone())),
            ("postgres://u:p@localhost/s?hostaddr=203.0.113.7", Ok(public.clone())),
            ("postgres://u:p@localhost/s?sslmode=require", Ok(public)),
            ("postgres://u:p@localhost/s?sslrootcert=%2Fetc%2Fca.pem", Ok(file())),
            ("postgres://u:p@db.example/s?sslrootcert=/etc/ca.pem&sslmode=verify-full", Ok(file())),
            ("postgres://u:p@db.example/s?sslrootcert=/etc/ca.pem&sslmode=disable", Err(UrlFault::RootWithoutTls)),
            ("postgres://u:p@db.example/s?sslmode=prefer", Err(UrlFault::WeakTls("prefer"))),
            ("postgres://u:p@db.example/s?sslmode=allow", Err(UrlFault::WeakTls("allow"))),
            ("postgres://u:p@db.example/s?sslmode=verify-ca", Err(UrlFault::WeakTls("verify-ca"))),
            ("postgres://u:p@db.example/s?sslmode=Require", Err(UrlFault::UnknownTls)),
            ("postgres://u:p@db.example/s?sslnegotiation=direct", Err(UrlFault::Syntax)),
            ("postgres:///s", Err(UrlFault::NoHost)),
            ("mysql://u:p@db.example/s", Err(UrlFault::Scheme)),
            ("/tmp/settings.db", Err(UrlFault::Scheme)),
            ("postgres://u:p@db.example:port/s", Err(UrlFault::Syntax)),
            ("postgres://u:p?w=x@db.example/s", Err(UrlFault::Syntax)),
        ] {
            assert_eq!(parse(url).map(|(tls, _)| tls), tls, "{url}");
        }
    }

    #[test]
    fn nothing_shows_the_password_but_the_redactor_learns_it() {
        let config = StoreConfig::from_url("postgres://mur:s3cr%20et@db.example:5433/settings").unwrap();
        assert_eq!(format!("{config:?}").matches("s3cr").count(), 0);
        assert_eq!(config.password().unwrap().expose(), "s3cr et");
        let StoreConfig::Postgres(config) = config else { panic!("a URL is a server") };
        assert_eq!(config.place, Place::Server("db.example:5433/settings".to_owned()));
        assert_eq!(StoreConfig::in_home("/home/a/.murmur".as_ref()).password(), None);
    }
}
