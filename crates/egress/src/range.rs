//! Which addresses lie in nobody's public network: loopback, private, link-local and the like.
//!
//! IPv6 is judged the other way round from IPv4: what is not known to be public is not, because most of that
//! space is unassigned, and a few prefixes carry an IPv4 address that a translator on the way unpacks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Range {
    /// `0.0.0.0/8` and `::`: this host, in most systems.
    Unspecified,
    /// `127.0.0.0/8` and `::1`.
    Loopback,
    /// The private networks, unique local and site-local addresses, and a provider's shared space.
    Private,
    /// `169.254.0.0/16`, where clouds keep their metadata, and `fe80::/10`.
    LinkLocal,
    /// Multicast and broadcast.
    Multicast,
    /// Set aside: for documents, benchmarks, protocols, or for nothing yet.
    Reserved,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
        })
    }
}

/// The range of an address that is not public; `None` for a public one.
pub(crate) fn of(address: IpAddr) -> Option<Range> {
    match address.to_canonical() {
        IpAddr::V4(address) => of_v4(address),
        IpAddr::V6(address) => of_v6(address),
    }
}

fn of_v4(address: Ipv4Addr) -> Option<Range> {
    Some(match address.octets() {
        [0, ..] => Range::Unspecified,
        [127, ..] => Range::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Range::Private,
        [169, 254, ..] => Range::LinkLocal,
        [224..=239, ..] | [255, 255, 255, 255] => Range::Multicast,
        // Protocols and the three networks of documents, a retired relay, benchmarks, the future.
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Range::Reserved,
        [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => Range::Reserved,
        _ => return None,
    })
}

fn of_v6(address: Ipv6Addr) -> Option<Range> {
    let embedded = |high: u16, low: u16| of_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Range::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Range::Loopback,
        // NAT64, and 6to4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => return embedded(high, low),
        // Teredo: the server, and the client with every bit turned round.
        [0x2001, 0, server_high, server_low, .., high, low] => {
            return embedded(server_high, server_low).or_else(|| embedded(!high, !low));
        }
        // A network's own NAT64, unique local, site-local.
        [0x64, 0xff9b, 1, ..] | [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Range::Private,
        [0xfe80..=0xfebf, ..] => Range::LinkLocal,
        [0xff00..=0xffff, ..] => Range::Multicast,
        // Protocols, documents.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Range::Reserved,
        [0x2000..=0x3fff, ..] => return None,
        _ => Range::Reserved,
    })
}

#[cfg(test)]
mod tests {
    use super::{Range, of};

    #[test]
    fn each_range_ends_where_it_ends() {
        use Range::{LinkLocal, Loopback, Multicast, Private, Reserved, Unspecified};
        for (address, range) in [
            ("0.0.0.0", Some(Unspecified)),
            ("0.255.255.255", Some(Unspecified)),
            ("1.0.0.0", None),
            ("9.255.255.255", None),
            ("10.0.0.0", Some(Private)),
            ("10.255.255.255", Some(Private)),
            ("11.0.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.0", Some(Private)),
            ("100.127.255.255", Some(Private)),
            ("100.128.0.0", None),
            ("126.255.255.255", None),
            ("127.0.0.0", Some(Loopback)),
            ("127.255.255.255", Some(Loopback)),
            ("128.0.0.0", None),
            ("169.253.255.255", None),
            ("169.254.169.254", Some(LinkLocal)),
            ("169.255.0.0", None),
            ("172.15.255.255", None),
            ("172.16.0.0", Some(Private)),
            ("172.31.255.255", Some(Private)),
            ("172.32.0.0", None),
            ("192.0.0.1", Some(Reserved)),
            ("192.0.1.1", None),
            ("192.0.2.1", Some(Reserved)),
            ("192.88.99.1", Some(Reserved)),
            ("192.168.0.0", Some(Private)),
            ("192.169.0.0", None),
            ("198.17.255.255", None),
            ("198.18.0.0", Some(Reserved)),
            ("198.19.255.255", Some(Reserved)),
            ("198.20.0.0", None),
            ("198.51.100.7", Some(Reserved)),
            ("203.0.113.7", Some(Reserved)),
            ("223.255.255.255", None),
            ("224.0.0.1", Some(Multicast)),
            ("239.255.255.255", Some(Multicast)),
            ("240.0.0.0", Some(Reserved)),
            ("255.255.255.255", Some(Multicast)),
            ("::", Some(Unspecified)),
            ("::1", Some(Loopback)),
            ("::2", Some(Reserved)),
            ("::8.8.8.8", Some(Reserved)),
            ("::ffff:8.8.8.8", None),
            ("::ffff:127.0.0.1", Some(Loopback)),
            ("::ffff:0:10.0.0.1", Some(Reserved)),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b::169.254.169.254", Some(LinkLocal)),
            ("64:ff9b:1::8.8.8.8", Some(Private)),
            ("100::1", Some(Reserved)),
            ("2001:0:808:808::f7f7:f7f7", None),
            ("2001:0:a00:1::f7f7:f7f7", Some(Private)),
            ("2001:0:808:808::80ff:fffe", Some(Loopback)),
            ("2001:2::1", Some(Reserved)),
            ("2001:1ff::1", Some(Reserved)),
            ("2001:200::1", None),
            ("2001:db8::1", Some(Reserved)),
            ("2001:4860:4860::8888", None),
            ("2002:808:808::1", None),
            ("2002:7f00:1::1", Some(Loopback)),
            ("2606:4700::1111", None),
            ("3fff:fff::1", Some(Reserved)),
            ("3fff:1000::1", None),
            ("4000::1", Some(Reserved)),
            ("5f00::1", Some(Reserved)),
            ("fbff::1", Some(Reserved)),
            ("fc00::1", Some(Private)),
            ("fdff::1", Some(Private)),
            ("fe80::1", Some(LinkLocal)),
            ("febf::1", Some(LinkLocal)),
            ("fec0::1", Some(Private)),
            ("ff02::1", Some(Multicast)),
        ] {
            assert_eq!(of(address.parse().unwrap()), range, "{address}");
        }
    }
}
