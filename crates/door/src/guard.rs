//! The checks that come before everything: for whom a request is meant, and whose page sent it.
//!
//! A page in a browser can make its visitor's machine send requests here, under the page's own name (DNS
//! rebinding) or from its own origin. On a loopback bind only loopback names and the bound address are
//! answered, with any port, since a forwarded port is another one. Elsewhere there are names that nobody here knows,
//! of a host or a proxy. A session that asks for tokens answers to all of them: a page has none. One that does not
//! answers to addresses and to names without a dot, such as those of hosts and containers in a network of their own:
//! no page comes from one. A name that is not ours is 421, as HTTP has
//! it for a request that came to the wrong server; none or two of them are 400, an origin that is not
//! this very address is 403.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;

use crate::refusal::Refusal;

/// Lets a request through that is meant for this address and comes from no foreign page. `authentication` says
/// whether a request needs a token.
pub(crate) fn check(local: SocketAddr, authentication: bool, head: &Parts) -> Result<(), Refusal> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Refusal::NoHost) };
    let host = Authority::try_from(host.as_bytes()).map_err(|_| Refusal::NoHost)?;
    if host.as_str().contains('@') || host.host().is_empty() {
        return Err(Refusal::NoHost);
    }
    // A target with a host of its own overrides the header.
    let host = head.uri.authority().unwrap_or(&host);
    if local.ip().to_canonical().is_loopback() {
        if !is_ours(local, host.host()) {
            return Err(Refusal::ForeignHost);
        }
    } else if !authentication && !is_no_page(host.host()) {
        return Err(Refusal::NamedHost);
    }
    let mut origins = head.headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => Ok(()),
        (Some(origin), None) if is_same(origin.as_bytes(), host) => Ok(()),
        (Some(_), _) => Err(Refusal::ForeignOrigin),
    }
}

fn is_ours(local: SocketAddr, host: &str) -> bool {
    let loopback = |address: IpAddr| address.to_canonical().is_loopback() || address == local.ip();
    host.eq_ignore_ascii_case("localhost") || literal(host).is_some_and(loopback)
}

/// Whether this is no name that a page's owner could point here: an address, or one label.
fn is_no_page(host: &str) -> bool {
    literal(host).is_some() || !host.contains('.')
}

fn literal(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).parse().ok()
}

fn is_same(origin: &[u8], host: &Authority) -> bool {
    origin.strip_prefix(b"http://").is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::check;
    use crate::refusal::Refusal;

    fn ask(local: &str, target: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        ask_with(false, local, target, headers)
    }

    fn ask_with(tokens: bool, local: &str, target: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(local.parse().unwrap(), tokens, &request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn on_loopback_only_loopback_names_and_the_address_are_answered() {
        for (host, expected) in [
            ("localhost", Ok(())),
            ("LocalHost:1", Ok(())),
            ("127.0.0.1:80", Ok(())),
            ("127.9.9.9", Ok(())),
            ("[::1]:80", Ok(())),
            ("[::ffff:127.0.0.1]", Ok(())),
            ("evil.example", Err(Refusal::ForeignHost)),
            ("localhost.evil.example", Err(Refusal::ForeignHost)),
            ("localhost.", Err(Refusal::ForeignHost)),
            ("10.0.0.1:80", Err(Refusal::ForeignHost)),
            ("0.0.0.0", Err(Refusal::ForeignHost)),
            ("2130706433", Err(Refusal::ForeignHost)),
            ("", Err(Refusal::NoHost)),
            ("a@localhost", Err(Refusal::NoHost)),
            ("local host", Err(Refusal::NoHost)),
            ("127.0.0.1/x", Err(Refusal::NoHost)),
        ] {
            assert_eq!(ask("127.0.0.1:80", "/", &[("host", host)]), expected, "{host}");
        }
        assert_eq!(ask("127.0.0.1:80", "/", &[]), Err(Refusal::NoHost));
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(ask("127.0.0.1:80", "/", &twice), Err(Refusal::NoHost));
        let absolute = "http://evil.example/";
        assert_eq!(ask("127.0.0.1:80", absolute, &[("host", "localhost")]), Err(Refusal::ForeignHost));
    }

    #[test]
    fn elsewhere_only_a_session_that_asks_for_tokens_answers_to_any_name() {
        for local in ["0.0.0.0:80", "[::]:80", "10.0.0.1:80"] {
            for (host, without) in [
                ("10.0.0.1:80", Ok(())),
                ("192.0.2.7", Ok(())),
                ("[2001:db8::1]:80", Ok(())),
                ("127.0.0.1", Ok(())),
                ("localhost:80", Ok(())),
                ("agent:80", Ok(())),
                ("agent.example:80", Err(Refusal::NamedHost)),
                ("10.0.0.1.evil.example", Err(Refusal::NamedHost)),
                ("evil.", Err(Refusal::NamedHost)),
            ] {
                assert_eq!(ask(local, "/", &[("host", host)]), without, "{host}");
                assert_eq!(ask_with(true, local, "/", &[("host", host)]), Ok(()), "{host}");
            }
            assert_eq!(ask_with(true, local, "/", &[]), Err(Refusal::NoHost));
        }
        assert_eq!(ask_with(true, "127.0.0.1:80", "/", &[("host", "agent")]), Err(Refusal::ForeignHost));
    }

    #[test]
    fn elsewhere_the_origin_is_checked_all_the_same() {
        let page = |origin| ask_with(true, "0.0.0.0:80", "/", &[("host", "agent.example:80"), ("origin", origin)]);
        assert_eq!(page("http://agent.example:80"), Ok(()));
        assert_eq!(page("http://Agent.Example:80"), Ok(()));
        for foreign in ["http://agent.example", "https://agent.example:80", "null", "http://evil.example", ""] {
            assert_eq!(page(foreign), Err(Refusal::ForeignOrigin), "{foreign}");
        }
    }
}
