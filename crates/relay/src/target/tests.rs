//! Paths that stay beneath an endpoint, and every way out of it.

use proptest::prelude::*;

use super::Target;

fn target() -> Target {
    Target::new("https://api.example.com/v1/").unwrap()
}

fn url(rest: &str, query: Option<&str>) -> Option<String> {
    target().url(rest, query).ok().map(|url| url.to_string())
}

#[test]
fn what_lies_beneath_the_endpoint_is_reached_as_it_is_written() {
    let cases = [
        ("", None, "https://api.example.com/v1"),
        ("/", None, "https://api.example.com/v1/"),
        ("/users", Some("a=1&b=%2e%2e/.."), "https://api.example.com/v1/users?a=1&b=%2e%2e/.."),
        ("/users/", Some(""), "https://api.example.com/v1/users/?"),
        ("/group%2Fproject/file.txt", None, "https://api.example.com/v1/group%2Fproject/file.txt"),
        ("/a..b/.well-known/...", None, "https://api.example.com/v1/a..b/.well-known/..."),
        ("/100%25", None, "https://api.example.com/v1/100%25"),
        ("/%C3%BC", None, "https://api.example.com/v1/%C3%BC"),
        ("//elsewhere.example/x", None, "https://api.example.com/v1//elsewhere.example/x"),
        ("/@elsewhere.example", None, "https://api.example.com/v1/@elsewhere.example"),
        ("/http://elsewhere.example/", None, "https://api.example.com/v1/http://elsewhere.example/"),
        ("/{id}", None, "https://api.example.com/v1/%7Bid%7D"),
    ];
    for (rest, query, expected) in cases {
        assert_eq!(url(rest, query).as_deref(), Some(expected), "{rest}");
    }
}

#[test]
fn no_path_leaves_the_endpoint() {
    let cases = [
        "/..",
        "/../admin",
        "/a/../../admin",
        "/.",
        "/./a",
        "/a/..",
        "/%2e%2e/admin",
        "/%2E./admin",
        "/.%2e/admin",
        "/%252e%252e/admin",
        "/%25252e%25252e/admin",
        "/..%2fadmin",
        "/a%2f..%2f..%2fadmin",
        "/..%5cadmin",
        "/..\\admin",
        "/a\\..\\admin",
        "/..;/admin",
        "/..;x=1/admin",
        "/%2e%2e%3b/admin",
        "/..%3fx",
        "/..%23x",
        "/..%20/admin",
        "/%20../admin",
        "/a%00",
        "/a%0d%0aHost:x",
        "/a%7f",
        "/%",
        "/%2",
        "/%zz",
        "/%u002e%u002e/admin",
        "/%c0%ae%c0%ae/admin",
        "/%ff",
        "/%252525252525252e",
        "@elsewhere.example/",
        ":80/",
        ".elsewhere.example/",
    ];
    for rest in cases {
        assert_eq!(url(rest, None), None, "{rest}");
    }
}

#[test]
fn an_endpoint_without_a_path_keeps_its_host() {
    let target = Target::new("http://127.0.0.1:8080").unwrap();
    let url = |rest| target.url(rest, None).ok().map(|url| url.to_string());
    assert_eq!(url("").as_deref(), Some("http://127.0.0.1:8080/"));
    assert_eq!(url("//elsewhere.example/x").as_deref(), Some("http://127.0.0.1:8080//elsewhere.example/x"));
    assert_eq!(url("@elsewhere.example"), None);
    assert_eq!(url("80/x"), None);
}

#[test]
fn an_endpoint_is_a_plain_http_url() {
    for text in [
        "",
        "api.example.com",
        "ftp://example.com",
        "https://me@example.com",
        "https://me:pw@example.com",
        "https://example.com/?a",
        "https://example.com/#a",
        "https://example.com/a%252f..%252fb",
    ] {
        assert!(Target::new(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn whatever_is_asked_the_url_stays_beneath_the_endpoint(
        rest in "(/|\\.|%2e|%2E|%2f|%5c|%25|%c0|\\\\|;|a|@|:|\\?|#|%00| ){0,12}",
        query in proptest::option::of("[a-z/.%#?]{0,8}"),
    ) {
        if let Ok(url) = target().url(&rest, query.as_deref()) {
            prop_assert_eq!(url.host_str(), Some("api.example.com"));
            prop_assert_eq!(url.port_or_known_default(), Some(443));
            let beneath = url.path() == "/v1" || url.path().starts_with("/v1/");
            prop_assert!(beneath, "{}", url);
            prop_assert_eq!(url.path().len() >= 3 + rest.len(), true, "{} shrank", rest);
        }
    }
}
