//! What the manifest lists, and whether a target is among it. No name is looked up here.

use std::net::IpAddr;

use manifest::{Host, NetworkEntry, Scheme};

use crate::target::Target;

/// The entries of `capabilities.network.allow`.
///
/// An entry without a scheme covers both. One with `http` covers requests that are sent in plain and never
/// a tunnel, whose content is not known; one with `https` covers tunnels (`CONNECT`) and never a plain
/// request. An address is covered by an equal address alone; IPv4 within IPv6 (`::ffff:a.b.c.d`) counts as
/// IPv4.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(Vec<NetworkEntry>);

impl AllowList {
    /// The list of these entries. Names count in lower case, without a dot at their end.
    #[must_use]
    pub fn new(entries: &[NetworkEntry]) -> Self {
        let plain = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let entries = entries.iter().map(|entry| NetworkEntry {
            scheme: entry.scheme,
            host: match &entry.host {
                Host::Name(name) => Host::Name(plain(name)),
                Host::Below(name) => Host::Below(plain(name)),
                Host::Address(address) => Host::Address(address.to_canonical()),
            },
            port: entry.port,
        });
        Self(entries.collect())
    }

    /// Whether the host itself is listed, whatever its name stands for. `host` is a name or an address, IPv6
    /// with or without brackets.
    #[must_use]
    pub fn covers(&self, scheme: Scheme, host: &str, port: u16) -> bool {
        Target::of_parts(scheme, host, port).is_some_and(|target| self.has(&target))
    }

    pub(crate) fn has(&self, target: &Target) -> bool {
        self.matching(target).next().is_some()
    }

    /// Whether this very address is listed for what the target is.
    pub(crate) fn has_address(&self, target: &Target, address: IpAddr) -> bool {
        self.has(&Target { host: Host::Address(address.to_canonical()), ..*target })
    }

    /// Whether an entry names the target with its port.
    pub(crate) fn has_with_port(&self, target: &Target) -> bool {
        self.matching(target).any(|entry| entry.port.is_some())
    }

    fn matching<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = &'a NetworkEntry> {
        self.0.iter().filter(|entry| {
            entry.scheme.is_none_or(|scheme| scheme == target.scheme)
                && entry.port.is_none_or(|port| port == target.port)
                && is_covered(&entry.host, &target.host)
        })
    }
}

fn is_covered(entry: &Host, host: &Host) -> bool {
    match (entry, host) {
        (Host::Name(entry), Host::Name(name)) => entry == name,
        (Host::Below(entry), Host::Name(name)) => {
            // A target's name has no empty part, so something stands before the dot.
            name.strip_suffix(entry.as_str()).is_some_and(|front| front.ends_with('.'))
        }
        (Host::Address(entry), Host::Address(address)) => entry == address,
        _ => false,
    }
}
