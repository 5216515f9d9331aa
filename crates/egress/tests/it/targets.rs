//! What a client may write as a target: through the proxy, by what its observer is told.

use crate::support::{list, names, parse, raw, serve, watched};

/// The first line without its version, and what is decided; `-` where it is no request at all.
const ROWS: &[(&str, &str)] = &[
    ("CONNECT api.example.com:443", "https api.example.com:443 listed"),
    ("CONNECT API.EXAMPLE.com:443", "https api.example.com:443 listed"),
    ("CONNECT api.example.com.:443", "https api.example.com:443 listed"),
    ("CONNECT api.example.com:0443", "https api.example.com:443 listed"),
    ("CONNECT 127.0.0.1:1", "https 127.0.0.1:1 listed"),
    ("CONNECT [::ffff:127.0.0.1]:1", "https 127.0.0.1:1 listed"),
    ("GET http://api.example.com/", "http api.example.com:80 listed"),
    ("GET http://api.example.com", "http api.example.com:80 listed"),
    ("GET http://api.example.com:8080/a?b", "http api.example.com:8080 listed"),
    ("GET HTTP://api.example.com/", "http api.example.com:80 listed"),
    ("OPTIONS http://127.0.0.1:1/", "http 127.0.0.1:1 listed"),
    // Understood, and not listed.
    ("CONNECT example.com:443", "https example.com:443 not_listed"),
    ("CONNECT api.example.com.evil.net:443", "https api.example.com.evil.net:443 not_listed"),
    ("CONNECT 127.0.0.2:443", "https 127.0.0.2:443 not_listed"),
    ("CONNECT [::1]:443", "https [::1]:443 not_listed"),
    ("CONNECT [fe80::1]:443", "https [fe80::1]:443 not_listed"),
    ("CONNECT localhost:443", "https localhost:443 not_listed"),
    ("GET http://169.254.169.254/latest/meta-data", "http 169.254.169.254:80 not_listed"),
    ("GET http://evil.net/?http://api.example.com", "http evil.net:80 not_listed"),
    ("GET http://evil.net/@api.example.com", "http evil.net:80 not_listed"),
    // Not a plain host and port.
    ("CONNECT api.example.com", "https :0 target"),
    ("CONNECT api.example.com:", "https :0 target"),
    ("CONNECT api.example.com:0", "https :0 target"),
    ("CONNECT api.example.com:65536", "https :0 target"),
    ("CONNECT api.example.com:443443443443443443443", "https :0 target"),
    ("CONNECT 127.1:443", "https :0 target"),
    ("CONNECT 0x7f.1:443", "https :0 target"),
    ("CONNECT 0x7f000001:443", "https :0 target"),
    ("CONNECT 0177.0.0.1:443", "https :0 target"),
    ("CONNECT 127.0.0.01:443", "https :0 target"),
    ("CONNECT 2130706433:443", "https :0 target"),
    ("CONNECT 127.0.0.1.:443", "https :0 target"),
    ("CONNECT *.example.com:443", "https :0 target"),
    ("CONNECT user@api.example.com:443", "https :0 target"),
    ("CONNECT api.example.com:443@evil.net:443", "https :0 target"),
    ("CONNECT evil.net:443@api.example.com:443", "https :0 target"),
    ("CONNECT http://api.example.com:443/", "https :0 target"),
    ("CONNECT /api.example.com:443", "https :0 target"),
    ("GET http://hunter2:hunter2@api.example.com/", "http :0 target"),
    ("GET http://api.example.com@evil.net/", "http :0 target"),
    ("GET http://api.example.com:0/", "http :0 target"),
    ("GET http://api.example.com:/", "http :0 target"),
    ("GET http://127.1/", "http :0 target"),
    ("GET http://2130706433/", "http :0 target"),
    ("GET http://0x7f.1/", "http :0 target"),
    ("GET http://api_.-.example.com/", "http :0 target"),
    ("CONNECT api.example.com:-1", "https :0 target"),
    ("CONNECT api.example.com:+443", "https :0 target"),
    ("CONNECT api.example.com:443x", "https :0 target"),
    ("CONNECT [::1%25lo]:443", "https :0 target"),
    // For the proxy itself, or by a way that it does not go.
    ("GET /", "http :0 form"),
    ("GET //api.example.com/", "http :0 form"),
    ("OPTIONS *", "http :0 form"),
    ("GET https://api.example.com/", "http :0 scheme"),
    ("GET ftp://api.example.com/", "http :0 scheme"),
    ("GET ws://api.example.com/", "http :0 scheme"),
    ("GET api.example.com:80", "http :0 scheme"),
    // No HTTP.
    ("CONNECT ::1:443", "-"),
    ("CONNECT [::1:443", "-"),
    ("CONNECT api.example.com\0:443", "-"),
    ("CONNECT api.example.com\0.evil.net:443", "-"),
    ("CONNECT api.example.com :443", "-"),
    ("CONNECT bücher.example:443", "-"),
    ("CONNECT api%2eexample.com:443", "-"),
    ("GET http://evil.net\\@api.example.com/", "-"),
    ("GET http:///api.example.com/", "-"),
    ("GET http://[::1/", "-"),
];

#[tokio::test]
async fn a_target_is_what_it_says_or_nothing() {
    for (line, expected) in ROWS {
        let (mut egress, mut told) = watched(list(&["api.example.com", "127.0.0.1:1"]));
        // A name that is listed gets so far and no further.
        egress.resolver = names(|_, _| vec!["10.0.0.1"]);
        let (_proxy, address) = serve(egress);
        let answer = raw(address, format!("{line} HTTP/1.1\r\nhost: api.example.com\r\n\r\n")).await;
        let told = told.so_far().join("\n");
        let decided = match told.rsplit_once(' ') {
            Some((target, "address_not_listed" | "unreachable")) => format!("{target} listed"),
            Some(_) => told.clone(),
            None => "-".to_owned(),
        };
        assert_eq!(decided, *expected, "{line}: {answer}");
        assert!(!format!("{told}{answer}").contains("hunter2"), "{line}: {answer}");
        let expected: &[u16] = match expected.rsplit(' ').next() {
            Some("listed") => &[403, 502],
            Some("not_listed") => &[403],
            _ => &[400],
        };
        assert!(expected.contains(&parse(&answer).0), "{line}: {answer}");
    }
}

#[tokio::test]
async fn a_target_that_is_overlong_is_none() {
    let (egress, mut told) = watched(list(&["*.example.com"]));
    let (_proxy, address) = serve(egress);
    let label = "a".repeat(63);
    let fits = format!("{label}.{label}.{label}.{}.example.com", "a".repeat(253 - 3 * 64 - 12));
    let cases = [
        (fits.clone(), 502, "unresolved"),
        (format!("a{fits}"), 400, "target"),
        (format!("{label}a.example.com"), 400, "target"),
        ("a.".repeat(20_000) + "example.com", 400, "target"),
    ];
    for (name, status, code) in cases {
        let answer = raw(address, format!("CONNECT {name}:443 HTTP/1.1\r\n\r\n")).await;
        let told = told.so_far();
        let decided = told.first().and_then(|line| line.rsplit(' ').next());
        assert_eq!((parse(&answer).0, decided), (status, Some(code)), "{} bytes: {answer}", name.len());
    }
    let answer = raw(address, format!("CONNECT {}example.com:443 HTTP/1.1\r\n\r\n", "a.".repeat(200_000))).await;
    assert!(matches!(parse(&answer).0, 414 | 431), "{answer}");
    assert_eq!(told.so_far(), Vec::<String>::new());
}
