//! Entries and targets, without a network.

use egress::AllowList;
use manifest::Scheme::{self, Http, Https};

use crate::support::list;

const BOTH: &[Scheme] = &[Http, Https];

/// Entry, target's host and port, and the schemes that are covered.
const ROWS: &[(&str, &str, u16, &[Scheme])] = &[
    // A name: itself, however it is written.
    ("api.example.com", "api.example.com", 443, BOTH),
    ("api.example.com", "api.example.com", 1, BOTH),
    ("api.example.com", "api.example.com", 65535, BOTH),
    ("api.example.com", "API.Example.COM", 443, BOTH),
    ("api.example.com", "api.example.com.", 443, BOTH),
    ("API.example.com.", "api.example.com", 443, BOTH),
    ("api.example.com", "api.example.com..", 443, &[]),
    ("api.example.com", ".api.example.com", 443, &[]),
    ("api.example.com", "example.com", 443, &[]),
    ("api.example.com", "v2.api.example.com", 443, &[]),
    ("api.example.com", "xapi.example.com", 443, &[]),
    ("api.example.com", "api.example.com.evil.net", 443, &[]),
    ("api.example.com", "api-example.com", 443, &[]),
    ("api.example.com", "api.example.com ", 443, &[]),
    ("api.example.com", " api.example.com", 443, &[]),
    ("api.example.com", "api.example.com\0", 443, &[]),
    ("api.example.com", "api.example.com\0.evil.net", 443, &[]),
    ("api.example.com", "api.example.com\r\n", 443, &[]),
    ("api.example.com", "api.example.com:443", 443, &[]),
    ("api.example.com", "api.example.com/", 443, &[]),
    ("api.example.com", "api.example.com#", 443, &[]),
    ("api.example.com", "api.example.com@evil.net", 443, &[]),
    ("api.example.com", "evil.net@api.example.com", 443, &[]),
    ("api.example.com", "[api.example.com]", 443, &[]),
    ("api.example.com", "api%2eexample.com", 443, &[]),
    ("api.example.com", "api。example.com", 443, &[]),
    ("api.example.com", "ａpi.example.com", 443, &[]),
    ("api.example.com", "", 443, &[]),
    ("api.example.com", "api.example.com", 0, &[]),
    // Names of other scripts are what they are in ASCII, and nothing else.
    ("xn--bcher-kva.example", "xn--bcher-kva.example", 443, BOTH),
    ("xn--bcher-kva.example", "XN--BCHER-KVA.example", 443, BOTH),
    ("xn--bcher-kva.example", "bücher.example", 443, &[]),
    ("bucher.example", "xn--bcher-kva.example", 443, &[]),
    // A port.
    ("api.example.com:8443", "api.example.com", 8443, BOTH),
    ("api.example.com:8443", "api.example.com", 443, &[]),
    ("api.example.com:8443", "api.example.com", 844, &[]),
    ("localhost:9000", "localhost", 9000, BOTH),
    ("localhost:9000", "localhost", 9001, &[]),
    // A scheme: its own port unless another is written.
    ("https://api.example.com", "api.example.com", 443, &[Https]),
    ("https://api.example.com", "api.example.com", 80, &[]),
    ("https://api.example.com", "api.example.com", 8443, &[]),
    ("https://api.example.com:8443", "api.example.com", 8443, &[Https]),
    ("https://api.example.com:8443", "api.example.com", 443, &[]),
    ("http://api.example.com", "api.example.com", 80, &[Http]),
    ("http://api.example.com", "api.example.com", 443, &[]),
    ("http://api.example.com:81", "api.example.com", 81, &[Http]),
    ("http://api.example.com:81", "api.example.com", 80, &[]),
    // All below, and not the name itself.
    ("*.example.com", "api.example.com", 443, BOTH),
    ("*.example.com", "a.b.example.com", 443, BOTH),
    ("*.example.com", "API.EXAMPLE.COM.", 443, BOTH),
    ("*.example.com", "example.com", 443, &[]),
    ("*.example.com", ".example.com", 443, &[]),
    ("*.example.com", "xexample.com", 443, &[]),
    ("*.example.com", "api.example.com.evil.net", 443, &[]),
    ("*.example.com", "*.example.com", 443, &[]),
    ("*.example.com", "-.example.com", 443, &[]),
    ("*.example.com:8443", "api.example.com", 8443, BOTH),
    ("*.example.com:8443", "api.example.com", 443, &[]),
    ("https://*.example.com", "api.example.com", 443, &[Https]),
    ("*.localhost", "app.localhost", 3000, BOTH),
    ("*.localhost", "localhost", 3000, &[]),
    // An address: the very same.
    ("10.1.2.3", "10.1.2.3", 5432, BOTH),
    ("10.1.2.3:5432", "10.1.2.3", 5433, &[]),
    ("10.1.2.3", "10.1.2.4", 5432, &[]),
    ("10.1.2.3", "10.1.2.3.", 5432, &[]),
    ("10.1.2.3", "010.1.2.3", 5432, &[]),
    ("10.1.2.3", "10.1.515", 5432, &[]),
    ("10.1.2.3", "167838211", 5432, &[]),
    ("10.1.2.3", "0xa.1.2.3", 5432, &[]),
    ("10.1.2.3", "0x0a010203", 5432, &[]),
    ("10.1.2.3", "::ffff:10.1.2.3", 5432, BOTH),
    ("10.1.2.3", "[::ffff:a01:203]", 5432, BOTH),
    ("10.1.2.3", "[::10.1.2.3]", 5432, &[]),
    ("10.1.2.3", "[64:ff9b::10.1.2.3]", 5432, &[]),
    ("[::ffff:10.1.2.3]", "10.1.2.3", 5432, BOTH),
    ("127.0.0.1", "127.1", 80, &[]),
    ("127.0.0.1", "127.0.0.2", 80, &[]),
    ("127.0.0.1", "0x7f.1", 80, &[]),
    ("127.0.0.1", "0177.0.0.1", 80, &[]),
    ("127.0.0.1", "2130706433", 80, &[]),
    ("127.0.0.1", "localhost", 80, &[]),
    ("localhost", "127.0.0.1", 80, &[]),
    ("localhost", "[::1]", 80, &[]),
    ("[::1]", "::1", 80, BOTH),
    ("[::1]", "[::1]", 80, BOTH),
    ("[::1]", "[0:0:0:0:0:0:0:1]", 80, BOTH),
    ("[::1]", "[::1%lo]", 80, &[]),
    ("[::1]", "[::1", 80, &[]),
    ("[::1]", "::1]", 80, &[]),
    ("[::1]", "127.0.0.1", 80, &[]),
    ("0.0.0.0", "10.1.2.3", 80, &[]),
    ("[2001:db8::1]:443", "[2001:DB8::1]", 443, BOTH),
];

#[test]
fn an_entry_covers_what_it_says_and_nothing_else() {
    for (entry, host, port, covered) in ROWS {
        let allow = list(&[entry]);
        let schemes: Vec<Scheme> = BOTH.iter().copied().filter(|scheme| allow.covers(*scheme, host, *port)).collect();
        assert_eq!(schemes, *covered, "`{entry}` and `{host}` port {port}");
    }
}

#[test]
fn an_empty_list_covers_nothing_and_a_long_one_each_of_its_entries() {
    let none = AllowList::new(&[]);
    let allow = list(&["a.example:1", "https://b.example", "*.c.example"]);
    for (host, port) in [("a.example", 1), ("b.example", 443), ("x.c.example", 9)] {
        assert_eq!((none.covers(Https, host, port), allow.covers(Https, host, port)), (false, true), "{host}");
    }
    assert!(!allow.covers(Https, "b.example", 1));
}
