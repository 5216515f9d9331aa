//! Where a request goes, read from its own words: a host as the manifest writes one, and a port.
//!
//! Nothing is guessed. What a resolver would read as an address although it is not written as one
//! (`127.1`, `0x7f.1`, `2130706433`, `010.0.0.1`) is no host here, since two readers would differ over it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use manifest::{Host, Scheme};

/// A host and a port, and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) scheme: Scheme,
    /// A name, or an address in its canonical form; never a wildcard.
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl Target {
    /// Reads `host[:port]`; without a `default`, the port must be there.
    pub(crate) fn of_authority(scheme: Scheme, text: &str, default: Option<u16>) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((_, after)) if after.ends_with(']') => (text, default?),
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port.parse().ok()?),
            Some(_) => return None,
            None => (text, default?),
        };
        (port > 0).then_some(Self { scheme, host: host_of(host)?, port })
    }

    /// Takes a host by itself, where an IPv6 address may stand without its brackets.
    pub(crate) fn of_parts(scheme: Scheme, host: &str, port: u16) -> Option<Self> {
        let host = match host.parse::<Ipv6Addr>() {
            Ok(address) => Host::Address(IpAddr::V6(address).to_canonical()),
            Err(_) => host_of(host)?,
        };
        (port > 0).then_some(Self { scheme, host, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

fn host_of(text: &str) -> Option<Host> {
    if let Some(inner) = text.strip_prefix('[') {
        let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
        return Some(Host::Address(IpAddr::V6(address).to_canonical()));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(Host::Address(IpAddr::V4(address)));
    }
    name(text).map(Host::Name)
}

/// A DNS name as a manifest may have it, lower-case, without the dot at its end.
fn name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_label = |label: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(legal)
    };
    let last = text.rsplit('.').next()?;
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (text.len() <= 253 && !is_number && text.split('.').all(is_label)).then_some(text)
}
