//! Laws of the list, for any entry and any target.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use egress::{AllowList, Egress, Lookup, Resolve};
use manifest::Scheme::{Http, Https};
use manifest::{Host, NetworkEntry};
use proptest::prelude::*;

use crate::support::read;

fn entry(host: Host, port: Option<u16>) -> AllowList {
    AllowList::new(&[NetworkEntry { scheme: None, host, port }])
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
        any::<u32>().prop_map(|bits| IpAddr::V6(Ipv4Addr::from_bits(bits).to_ipv6_mapped())),
        (any::<u16>(), any::<u16>())
            .prop_map(|(high, low)| IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low))),
        (0_u8..4, any::<u16>()).prop_map(|(net, host)| {
            let [high, low] = host.to_be_bytes();
            let [a, b] = [[10, 0], [127, 0], [169, 254], [192, 168]][usize::from(net)];
            IpAddr::V4(Ipv4Addr::new(a, b, high, low))
        }),
    ]
}

/// Finds these addresses.
struct Found(Vec<IpAddr>);

impl Resolve for Found {
    fn resolve<'a>(&'a self, _: &'a str) -> Lookup<'a> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

proptest! {
    #[test]
    fn a_name_covers_itself_in_any_case_and_no_other(
        name in "[a-z][a-z0-9-]{0,9}[a-z](\\.[a-z]{1,9}){1,3}",
        other in "[a-z]{1,5}(\\.[a-z]{1,5}){1,3}",
        upper in any::<Vec<bool>>(),
        dot in any::<bool>(),
        (port, wrong) in (1_u16.., 1_u16..),
    ) {
        let allow = entry(Host::Name(name.to_uppercase() + "."), Some(port));
        let mut written: String = name
            .chars()
            .zip(upper.iter().copied().chain(std::iter::repeat(false)))
            .map(|(c, upper)| if upper { c.to_ascii_uppercase() } else { c })
            .collect();
        if dot {
            written.push('.');
        }
        prop_assert!(allow.covers(Http, &written, port) && allow.covers(Https, &written, port));
        prop_assert_eq!(allow.covers(Https, &written, wrong), port == wrong);
        prop_assert_eq!(allow.covers(Https, &other, port), name == other);
        for longer in [format!("{other}.{name}"), format!("{name}.{other}")] {
            prop_assert!(!allow.covers(Https, &longer, port), "{}", longer);
        }
    }

    #[test]
    fn a_wildcard_covers_what_ends_with_a_dot_and_its_name(
        base in "[a-z]{1,5}\\.[a-z]{1,5}",
        front in "[a-z]{1,3}(\\.[a-z]{1,3}){0,3}",
    ) {
        let allow = entry(Host::Below(base.to_uppercase() + "."), None);
        let below = format!("{front}.{base}");
        prop_assert!(allow.covers(Https, &below, 443), "{}", below);
        for other in [base.clone(), format!("{front}{base}"), format!(".{base}"), format!("{front}..{base}")] {
            prop_assert!(!allow.covers(Https, &other, 443), "{}", other);
        }
    }

    #[test]
    fn an_address_covers_the_same_address(listed in address(), other in address(), port in 1_u16..) {
        let allow = entry(Host::Address(listed), None);
        prop_assert!(allow.covers(Https, &listed.to_string(), port));
        prop_assert!(allow.covers(Https, &listed.to_canonical().to_string(), port));
        prop_assert_eq!(allow.covers(Https, &other.to_string(), port), listed.to_canonical() == other.to_canonical());
    }

    #[test]
    fn what_the_manifest_takes_as_a_host_is_a_target_and_nothing_else_is(
        text in prop_oneof![
            "[a-zA-Z0-9._-]{1,12}",
            "[0-9x.]{1,10}",
            "\\[[0-9a-f:.]{2,12}\\]",
            "[a-z.@:/*%#\\[\\]-]{1,10}",
        ]
    ) {
        let read = read(&[&text]);
        let plain = read.as_ref().is_some_and(|entries| {
            matches!(&entries[..], [NetworkEntry { scheme: None, host: Host::Name(_) | Host::Address(_), port: None }])
        });
        // Everything that is a host at all is covered by one of these.
        let mut entries = read.unwrap_or_default();
        entries.extend(text.parse().ok().map(|address| NetworkEntry { scheme: None, host: Host::Address(address), port: None }));
        let bare = text.parse::<Ipv6Addr>().is_ok();
        prop_assert_eq!(AllowList::new(&entries).covers(Https, &text, 443), plain || bare, "{}", text);
    }

    #[test]
    fn a_name_alone_never_leads_to_an_address_that_is_not_public(found in prop::collection::vec(address(), 1..20)) {
        let mut egress = Egress::new(entry(Host::Name("x.example".to_owned()), None));
        egress.resolver = std::sync::Arc::new(Found(found.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let permitted = runtime.block_on(egress.check(Https, "x.example", 443)).unwrap_or_default();
        for address in permitted {
            prop_assert!(found.iter().any(|found| found.to_canonical() == address.ip()));
            let v4 = match address.ip() {
                IpAddr::V4(v4) => v4,
                IpAddr::V6(v6) => match v6.segments() {
                    [0x64, .., high, low] => Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)),
                    [first, ..] => {
                        prop_assert_eq!(first >> 13, 1, "{}", v6);
                        continue;
                    }
                },
            };
            let special = v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified()
                || v4.is_multicast() || v4.is_broadcast() || v4.is_documentation();
            prop_assert!(!special, "{}", v4);
        }
    }
}
