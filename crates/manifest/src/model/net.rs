//! Addresses in the manifest: endpoints that are called, and hosts that may be reached.
//!
//! One reader of `host[:port]` serves both. It takes names, IPv4 in four parts and IPv6 in brackets and
//! nothing else: no ranges, no numbers that a resolver would read as an address, no user names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::decode::{Context, Fault, Value};
use crate::diagnostic::shown;
use crate::private::cover_addresses;
use crate::yaml::Node;

/// `http` or `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// The scheme as it stands in a URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port that a URL without one means.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A host, lower-case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name.
    Name(String),
    /// Every name that ends with a dot and this one; the name itself not.
    Below(String),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// Whether this is `localhost` or a loopback address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Self::Below(name) => name == "localhost",
            Self::Address(address) => address.is_loopback(),
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// The base of a service: `http(s)://host[:port][/path]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    text: String,
    scheme: Scheme,
    host: Host,
    port: u16,
    path: String,
}

impl Endpoint {
    /// The endpoint as the manifest has it, without a slash at the end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `http` or `https`.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host; never a wildcard.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The port, the scheme's own when none is written.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The path without a slash at its end; empty when there is none.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let refuse = |why: &str| {
            Err(Fault::new(why)
                .found(format!("`{}`", shown(&cover_addresses(text))))
                .hint("for example `https://api.example.com` or `http://127.0.0.1:8080/v1`"))
        };
        let Some((scheme, rest)) = split_scheme(text) else {
            return refuse("must be a URL that begins with `http://` or `https://`");
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, path.trim_end_matches('/')),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(Fault::new("must not hold a user name or password").hint("a credential goes into `api_key`"));
        }
        let legal = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}?#".contains(c);
        if !path.chars().all(legal) || path.split('/').any(|part| matches!(part, "." | "..")) {
            return refuse("must have a plain path, without `?`, `#`, `.` or `..`");
        }
        let Some((host, port)) = split_port(authority).and_then(|(host, port)| Some((parse_host(host, false)?, port)))
        else {
            return refuse("must name a host and, if need be, a port");
        };
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        let shown_port = port.map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self {
            text: format!("{}://{host}{shown_port}{path}", scheme.as_str()),
            scheme,
            host,
            port: port.unwrap_or(scheme.default_port()),
            path,
        })
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Value for Endpoint {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let text = cx.text(node)?;
        Self::parse(text).map_or_else(|fault| cx.fault(node, fault), Some)
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::Text { pattern: Some("^https?://[^/?#@\\s]+(/[^?#\\s]*)?$") }
    }
}

/// A host that may be reached: `host`, `host:port` or `scheme://host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NetworkEntry {
    /// Only this scheme, when one is written.
    pub scheme: Option<Scheme>,
    /// The host; a leading `*.` covers the names below it.
    pub host: Host,
    /// Only this port, when one is written or the scheme implies one; else any.
    pub port: Option<u16>,
}

impl NetworkEntry {
    fn parse(text: &str) -> Result<Self, Fault> {
        let refuse = |why: &str| {
            Err(Fault::new(why)
                .found(format!("`{}`", shown(&cover_addresses(text))))
                .hint("accepted are `host`, `host:port` and `scheme://host[:port]`, with `*.` only at the front"))
        };
        let (scheme, rest) = match split_scheme(text) {
            Some((scheme, rest)) => (Some(scheme), rest),
            None if text.contains("://") => return refuse("must use `http://` or `https://`"),
            None => (None, text),
        };
        let rest = if scheme.is_some() { rest.strip_suffix('/').unwrap_or(rest) } else { rest };
        if rest.contains('/') {
            return refuse("must name one host, without a path or an address range");
        }
        let Some((host, port)) = split_port(rest).and_then(|(host, port)| Some((parse_host(host, true)?, port))) else {
            return refuse("must name a host and, if need be, a port");
        };
        Ok(Self { scheme, host, port: port.or(scheme.map(Scheme::default_port)) })
    }
}

impl std::fmt::Display for NetworkEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(scheme) = self.scheme {
            write!(f, "{}://", scheme.as_str())?;
        }
        self.host.fmt(f)?;
        match self.port {
            Some(port) if self.scheme.is_none_or(|scheme| scheme.default_port() != port) => {
                write!(f, ":{port}")
            }
            _ => Ok(()),
        }
    }
}

impl Value for NetworkEntry {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let text = cx.text(node)?;
        Self::parse(text).map_or_else(|fault| cx.fault(node, fault), Some)
    }

    #[cfg(feature = "schema")]
    fn shape() -> crate::schema::Shape {
        crate::schema::Shape::Text { pattern: Some("^(https?://)?(\\*\\.)?[A-Za-z0-9.:\\[\\]_-]+/?$") }
    }
}

/// Whether `text` is `http(s)://host[:port]` and nothing more.
pub(crate) fn is_address(text: &str) -> bool {
    split_scheme(text)
        .and_then(|(_, authority)| split_port(authority))
        .is_some_and(|(host, _)| parse_host(host, false).is_some())
}

fn split_scheme(text: &str) -> Option<(Scheme, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Some((Scheme::Http, rest)),
        "https" => Some((Scheme::Https, rest)),
        _ => None,
    }
}

/// `host[:port]`; a port is 1 to 65535 in decimal digits.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((_, after)) if after.ends_with(']') => (authority, None),
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let Some(port) = port else {
        return Some((host, None));
    };
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    port.parse().ok().filter(|&port: &u16| port > 0).map(|port| (host, Some(port)))
}

fn parse_host(text: &str, wildcard: bool) -> Option<Host> {
    if let Some(inner) = text.strip_prefix('[') {
        let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
        return Some(Host::Address(IpAddr::V6(address)));
    }
    if let Some(below) = text.strip_prefix("*.") {
        let below = name(below).filter(|_| wildcard)?;
        // `*.com` would be half of the net.
        return (below.contains('.') || below == "localhost").then_some(Host::Below(below));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(Host::Address(IpAddr::V4(address)));
    }
    name(text).map(Host::Name)
}

/// A DNS name, lower-case, without the dot at its end. The last label is not a number: resolvers read
/// `0x7f.1` and `2130706433` as addresses.
fn name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let last = text.rsplit('.').next()?;
    let numeric = last.bytes().all(|b| b.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    (text.len() <= 253 && !numeric && text.split('.').all(label)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, NetworkEntry};

    #[test]
    fn entries_are_shown_as_they_are_meant() {
        for (text, shown) in [
            ("api.example.com", Some("api.example.com")),
            ("API.Example.com.", Some("api.example.com")),
            ("localhost:9000", Some("localhost:9000")),
            ("https://api.example.com", Some("https://api.example.com")),
            ("https://api.example.com/", Some("https://api.example.com")),
            ("https://api.example.com:8443", Some("https://api.example.com:8443")),
            ("http://127.0.0.1:9000", Some("http://127.0.0.1:9000")),
            ("*.example.com", Some("*.example.com")),
            ("[::1]:80", Some("[::1]:80")),
            ("[::1]", Some("[::1]")),
            ("::1", None),
            ("*", None),
            ("*.com", None),
            ("a.*.com", None),
            ("*example.com", None),
            ("10.0.0.0/8", None),
            ("10.0.0", None),
            ("0177.0.0.1", None),
            ("2130706433", None),
            ("0x7f.0x1", None),
            ("0x", None),
            ("ftp://example.com", None),
            ("https://user@example.com", None),
            ("https://example.com/path", None),
            ("example.com:0", None),
            ("example.com:65536", None),
            ("example.com:+1", None),
            ("example.com:", None),
            ("exa mple.com", None),
            ("-a.com", None),
            ("", None),
        ] {
            let entry = NetworkEntry::parse(text).ok().map(|entry| entry.to_string());
            assert_eq!(entry.as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn endpoints_lose_only_the_slash_at_their_end() {
        for (text, shown) in [
            ("https://api.anthropic.com", Some("https://api.anthropic.com")),
            ("https://api.anthropic.com/", Some("https://api.anthropic.com")),
            ("HTTP://LocalHost:11434/v1/", Some("http://localhost:11434/v1")),
            ("http://[::1]:8080", Some("http://[::1]:8080")),
            ("api.anthropic.com", None),
            ("https://", None),
            ("https://*.example.com", None),
            ("https://k:v@example.com", None),
            ("https://example.com/a/../b", None),
            ("https://example.com/?q", None),
            ("https://example.com#f", None),
            ("file:///etc/passwd", None),
        ] {
            let endpoint = Endpoint::parse(text).ok().map(|endpoint| endpoint.to_string());
            assert_eq!(endpoint.as_deref(), shown, "{text}");
        }
    }
}
