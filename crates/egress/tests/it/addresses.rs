//! What a name stands for: every address is judged for itself, and the one that was judged is connected.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use egress::{Egress, Lookup, Range, Reason, Refusal, Resolve};
use manifest::Scheme::{Http, Https};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::support::{list, listen, names, parse, raw, rest, serve, tunnel, watched};

/// The addresses that may be connected at port 443, or the reason in a word.
type Judged = Result<Vec<String>, String>;

async fn judged(entries: &[&str], name: &str, found: Vec<&'static str>) -> Judged {
    let mut egress = Egress::new(list(entries));
    egress.resolver = names(move |_, _| found.clone());
    match egress.check(Https, name, 443).await {
        Ok(addresses) => Ok(addresses.iter().map(SocketAddr::to_string).collect()),
        Err(refusal) => Err(refusal.code().to_owned()),
    }
}

#[tokio::test]
async fn a_listed_name_does_not_list_what_it_stands_for() {
    let ok = |addresses: &[&str]| Ok(addresses.iter().map(|&address| address.to_owned()).collect::<Vec<_>>());
    let refused = || Err("address_not_listed".to_owned());
    let cases: Vec<(&[&str], Vec<&'static str>, Judged)> = vec![
        (&["x.example"], vec!["8.8.8.8"], ok(&["8.8.8.8:443"])),
        (&["x.example"], vec!["8.8.8.8", "2606:4700::1"], ok(&["8.8.8.8:443", "[2606:4700::1]:443"])),
        (&["x.example"], vec!["10.1.2.3"], refused()),
        (&["x.example"], vec!["127.0.0.1"], refused()),
        (&["x.example"], vec!["::1"], refused()),
        (&["x.example"], vec!["::ffff:127.0.0.1"], refused()),
        (&["x.example"], vec!["169.254.169.254"], refused()),
        (&["x.example"], vec!["64:ff9b::a9fe:a9fe"], refused()),
        (&["x.example"], vec!["0.0.0.0"], refused()),
        (&["x.example"], vec!["fd00::1", "192.168.0.1"], refused()),
        (&["*.x.example"], vec!["10.1.2.3"], Err("not_listed".to_owned())),
        (&["x.example"], vec![], Err("unresolved".to_owned())),
        // What is public among them remains, in its order.
        (&["x.example"], vec!["10.1.2.3", "9.9.9.9", "::1", "8.8.8.8"], ok(&["9.9.9.9:443", "8.8.8.8:443"])),
        // An entry for the address makes it pass, for the port and the scheme that the entry has.
        (&["x.example", "10.1.2.3"], vec!["10.1.2.3"], ok(&["10.1.2.3:443"])),
        (&["x.example", "10.1.2.3:443"], vec!["10.1.2.3"], ok(&["10.1.2.3:443"])),
        (&["x.example", "https://10.1.2.3"], vec!["10.1.2.3"], ok(&["10.1.2.3:443"])),
        (&["x.example", "10.1.2.3"], vec!["::ffff:10.1.2.3"], ok(&["10.1.2.3:443"])),
        (&["x.example", "[::1]"], vec!["::1"], ok(&["[::1]:443"])),
        (&["x.example", "10.1.2.3:80"], vec!["10.1.2.3"], refused()),
        (&["x.example", "http://10.1.2.3:443"], vec!["10.1.2.3"], refused()),
        (&["x.example", "10.1.2.4"], vec!["10.1.2.3"], refused()),
        (&["x.example", "10.1.2.3"], vec!["64:ff9b::10.1.2.3"], refused()),
        (&["x.example", "localhost"], vec!["127.0.0.1"], refused()),
    ];
    for (entries, found, expected) in cases {
        assert_eq!(judged(entries, "x.example", found.clone()).await, expected, "{entries:?} {found:?}");
    }
}

#[tokio::test]
async fn a_loopback_name_is_this_host_whatever_a_resolver_says() {
    for (entry, name) in
        [("localhost", "LOCALHOST."), ("app.localhost", "app.localhost"), ("*.localhost", "a.localhost")]
    {
        let found = judged(&[entry], name, vec!["8.8.8.8"]).await;
        assert_eq!(found, Ok(vec!["127.0.0.1:443".to_owned(), "[::1]:443".to_owned()]), "{entry}");
    }
    assert_eq!(judged(&["localhost"], "localhost.example", vec!["127.0.0.1"]).await, Err("not_listed".to_owned()));
    let near = judged(&["localhost.example"], "localhost.example", vec!["127.0.0.1"]).await;
    assert_eq!(near, Err("address_not_listed".to_owned()));
}

#[tokio::test]
async fn a_listed_address_is_reached_whatever_it_is() {
    let egress = Egress::new(list(&["169.254.169.254:80", "0.0.0.0", "[fe80::1]"]));
    for (host, port) in [("169.254.169.254", 80), ("0.0.0.0", 1), ("fe80::1", 1)] {
        let address = SocketAddr::new(host.parse().unwrap(), port);
        assert_eq!(egress.check(Http, host, port).await, Ok(vec![address]));
    }
    assert_eq!(egress.check(Http, "169.254.169.254", 81).await.unwrap_err().reason, Reason::NotListed);
}

#[tokio::test]
async fn a_refusal_says_what_to_list() {
    let mut egress = Egress::new(list(&["internal.example.com"]));
    egress.resolver = names(|_, _| vec!["fd00::7", "10.0.0.7"]);
    let refusal = egress.check(Https, "Internal.example.com", 8443).await.unwrap_err();
    let reason = Reason::Address { address: "fd00::7".parse().unwrap(), range: Range::Private };
    let expected = Refusal { scheme: Https, host: "internal.example.com".to_owned(), port: 8443, reason };
    assert_eq!(refusal, expected);
    assert!(refusal.is_forbidden());
    assert_eq!(
        (refusal.to_string().as_str(), refusal.hint().as_str()),
        (
            "`internal.example.com:8443` stands for `fd00::7`, a private address that is not listed itself",
            "add `[fd00::7]:8443` to `capabilities.network.allow` as well if it may be reached"
        )
    );
    let refusal = egress.check(Https, "other.example.com", 443).await.unwrap_err();
    assert_eq!(
        (refusal.to_string().as_str(), refusal.hint().as_str()),
        (
            "`other.example.com:443` is not listed in `capabilities.network.allow`",
            "add `other.example.com:443` to `capabilities.network.allow` if it may be reached"
        )
    );
}

#[tokio::test]
async fn no_name_is_looked_up_that_is_not_listed() {
    let resolver = names(|_, _| vec!["8.8.8.8"]);
    let mut egress = Egress::new(list(&["x.example:443", "9.9.9.9", "localhost"]));
    egress.resolver = resolver.clone();
    for (host, port) in [("secret.evil.net", 443), ("x.example", 80), ("9.9.9.9", 1), ("localhost", 1), ("1.1.1.1", 1)]
    {
        let _ = egress.check(Https, host, port).await;
    }
    assert_eq!(resolver.asked(), 0);
    assert!(egress.check(Https, "x.example", 443).await.is_ok());
    assert_eq!(resolver.asked(), 1);
}

/// Two servers at one port of two addresses; each says which it is.
async fn twins() -> u16 {
    loop {
        let (first, port) = listen().await;
        let Ok(second) = TcpListener::bind(("127.0.0.3", port)).await else { continue };
        for (listener, word) in [(first, "first"), (second, "second")] {
            tokio::spawn(async move {
                loop {
                    let (mut tcp, _) = listener.accept().await.unwrap();
                    let _ = tcp.write_all(word.as_bytes()).await;
                }
            });
        }
        return port;
    }
}

#[tokio::test]
async fn the_address_that_was_judged_is_connected_and_not_what_the_name_stands_for_next() {
    let port = twins().await;
    // 127.0.0.1 is what is meant; the name's owner turns it to another service of this host.
    let resolver = names(|_, asked| vec![if asked == 0 { "127.0.0.1" } else { "127.0.0.3" }]);
    let (mut egress, mut told) = watched(list(&["x.example".to_owned(), format!("127.0.0.1:{port}")]));
    egress.resolver = resolver.clone();
    let (_proxy, proxy) = serve(egress);
    let target = format!("x.example:{port}");
    let mut tcp = tunnel(proxy, &target).await;
    tcp.shutdown().await.unwrap();
    assert_eq!((rest(&mut tcp).await.as_str(), resolver.asked()), ("first", 1));
    assert_eq!(told.next().await, format!("https {target} connected 127.0.0.1:{port}"));
    assert_eq!(told.next().await, format!("https {target} ended 127.0.0.1:{port} 0 5"));
    let answer = raw(proxy, format!("CONNECT {target} HTTP/1.1\r\n\r\n")).await;
    let line = format!(
        "`{target}` stands for `127.0.0.3`, a loopback address that is not listed itself; add `127.0.0.3:{port}` to \
         `capabilities.network.allow` as well if it may be reached\n"
    );
    assert_eq!((parse(&answer), resolver.asked()), ((403, line.as_str()), 2));
    assert_eq!(told.next().await, format!("https {target} address_not_listed"));
}

#[tokio::test]
async fn an_address_that_takes_no_connection_gives_way_to_the_next() {
    let (listener, port) = listen().await;
    let entries = ["x.example".to_owned(), "127.0.0.4".to_owned(), "127.0.0.1".to_owned()];
    let (mut egress, mut told) = watched(list(&entries));
    egress.resolver = names(|_, _| vec!["10.0.0.1", "127.0.0.4", "127.0.0.1"]);
    let upstream = egress.connect(Http, "x.example", port).await.unwrap();
    assert_eq!(upstream.address(), listener.local_addr().unwrap());
    drop(listener);
    let refusal = egress.connect(Http, "x.example", port).await.err().unwrap();
    assert_eq!(refusal.reason, Reason::Unreachable { kind: std::io::ErrorKind::ConnectionRefused });
    drop(upstream);
    let told = told.so_far();
    let prefix = format!("http x.example:{port}");
    let expected = ["connected 127.0.0.1:", "unreachable", "ended 127.0.0.1:"];
    for (line, expected) in told.iter().zip(expected) {
        assert!(line.starts_with(&format!("{prefix} {expected}")), "{told:?}");
    }
    assert_eq!(told.len(), 3);
}

#[tokio::test]
async fn the_runtimes_own_sockets_are_reached_only_by_an_entry_with_their_port() {
    let (port, other) = (9555, 9556);
    let here = ["127.0.0.1", "127.0.0.2", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]"];
    let hosts = here.into_iter().chain(["localhost", "10.0.0.7"]);
    for (own, host) in hosts.flat_map(|host| here.map(|own| (own, host))) {
        let mut egress = Egress::new(list(&[host]));
        egress.own = vec![format!("{own}:{port}").parse().unwrap()];
        let found = egress.check(Http, host, port).await.map_err(|refusal| refusal.code());
        let expected = if host == "10.0.0.7" { Ok(vec![([10, 0, 0, 7], port).into()]) } else { Err("own_address") };
        assert_eq!(found, expected, "{own} {host}");
        assert!(egress.check(Http, host, other).await.is_ok(), "{own} {host}");
        egress.allow = list(&[format!("{host}:{port}")]);
        assert!(egress.check(Http, host, port).await.is_ok(), "{own} {host}");
    }
    // One on a network's address is that alone.
    let mut egress = Egress::new(list(&here));
    egress.own = vec![([10, 0, 0, 7], port).into()];
    for host in here {
        assert!(egress.check(Http, host, port).await.is_ok(), "{host}");
    }
    egress.allow = list(&["10.0.0.7"]);
    assert_eq!(egress.check(Http, "10.0.0.7", port).await.unwrap_err().code(), "own_address");
}

#[tokio::test]
async fn no_name_of_this_host_leads_through_the_proxy_to_a_socket_of_the_runtimes() {
    let (listener, port) = listen().await;
    let (mut egress, _told) = watched(list(&["0.0.0.0", "x.example"]));
    egress.resolver = names(|_, _| vec!["0.0.0.0"]);
    let (_proxy, open) = serve(egress.clone());
    egress.own = vec![listener.local_addr().unwrap()];
    let (_proxy, closed) = serve(egress);
    for host in ["0.0.0.0", "x.example"] {
        let ask = || format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n");
        assert_eq!(parse(&raw(closed, ask()).await).0, 403, "{host}");
        // As if it were another's, it is reached so.
        let (answer, reached) = tokio::join!(raw(open, ask()), async { drop(listener.accept().await.unwrap()) });
        assert_eq!((parse(&answer).0, reached), (200, ()), "{host}");
    }
}

/// Never answers.
struct Mute;

impl Resolve for Mute {
    fn resolve<'a>(&'a self, _: &'a str) -> Lookup<'a> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_lookup_and_a_connection_have_their_time() {
    let (mut egress, mut told) = watched(list(&["x.example", "127.0.0.1"]));
    egress.resolver = Arc::new(Mute);
    egress.limits.lookup = Duration::from_millis(20);
    egress.limits.connect = Duration::from_millis(20);
    // A queue of one, and it is full: nobody accepts.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(0).unwrap();
    let full = listener.local_addr().unwrap();
    let _queued = TcpStream::connect(full).await.unwrap();
    let (_proxy, proxy) = serve(egress);
    for target in ["x.example:443".to_owned(), full.to_string()] {
        let answer = raw(proxy, format!("CONNECT {target} HTTP/1.1\r\n\r\n")).await;
        let line = format!("`{target}` was not reached in time; is the service up, and can this host reach it?\n");
        assert_eq!(parse(&answer), (504, line.as_str()));
        assert_eq!(told.next().await, format!("https {target} timed_out"));
    }
}

#[tokio::test]
async fn the_systems_resolver_knows_addresses_that_are_written_out() {
    // Offline there is no more to ask it.
    let resolver = egress::SystemResolver::default();
    assert_eq!(resolver.resolve("8.8.8.8").await.unwrap(), ["8.8.8.8".parse::<std::net::IpAddr>().unwrap()]);
    assert!(resolver.resolve("no name").await.is_err());
}

#[tokio::test]
async fn a_connection_of_ones_own_is_a_stream() {
    let port = crate::support::echo().await;
    let (egress, mut told) = watched(list(&["127.0.0.1"]));
    let mut upstream = egress.connect(Https, "127.0.0.1", port).await.unwrap();
    upstream.write_all(b"hello").await.unwrap();
    upstream.shutdown().await.unwrap();
    let mut back = String::new();
    upstream.read_to_string(&mut back).await.unwrap();
    drop(upstream);
    assert_eq!(back, "hello");
    assert_eq!(told.next().await, format!("https 127.0.0.1:{port} connected 127.0.0.1:{port}"));
    assert_eq!(told.next().await, format!("https 127.0.0.1:{port} ended 127.0.0.1:{port} 5 5"));
    assert_eq!(egress.connect(Https, "127.0.0.2", port).await.err().unwrap().reason, Reason::NotListed);
    assert_eq!(egress.connect(Https, "127.2", port).await.err().unwrap().reason, Reason::Target);
    assert_eq!(told.so_far(), [format!("https 127.0.0.2:{port} not_listed"), "https :0 target".to_owned()]);
}
