//! Which headers pass. What a connection says about itself ends at the gateway, in both directions.

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, REFERER,
};
use secrets::Redactor;

/// What is said about one connection alone, besides what its `connection` header names.
const HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// The tool's headers as the service gets them, before the credential is attached.
pub(crate) fn outgoing(mut headers: HeaderMap, credential: Option<&HeaderName>) -> HeaderMap {
    strip_hop(&mut headers);
    // The client sets host and length itself; origin and referer would name the gateway.
    for name in [HOST, CONTENT_LENGTH, EXPECT, ORIGIN, REFERER] {
        headers.remove(name);
    }
    if let Some(credential) = credential {
        // Many servers take `_` and `-` in a name for the same.
        let alike: Vec<HeaderName> = headers.keys().filter(|name| is_alike(name, credential)).cloned().collect();
        for name in alike {
            headers.remove(name);
        }
        // An answer that is compressed cannot be searched for the key.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    headers
}

/// The service's headers as the tool gets them, without the key in any form.
pub(crate) fn incoming(mut headers: HeaderMap, keep_length: bool, keys: &Redactor) -> HeaderMap {
    strip_hop(&mut headers);
    if !keep_length {
        headers.remove(CONTENT_LENGTH);
    }
    let spelt: Vec<HeaderName> = headers.keys().filter(|name| !keys.is_clean(name.as_str())).cloned().collect();
    for name in spelt {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        let clean = match keys.redact_bytes(value.as_bytes()) {
            std::borrow::Cow::Borrowed(_) => continue,
            std::borrow::Cow::Owned(clean) => HeaderValue::from_bytes(&clean),
        };
        *value = clean.unwrap_or(HeaderValue::from_static("[redacted]"));
    }
    headers
}

/// Whether the answer is encoded, so that it cannot be searched.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONTENT_ENCODING).iter();
    values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).any(|name| {
        let name = name.trim_ascii();
        !name.is_empty() && !name.eq_ignore_ascii_case(b"identity")
    })
}

fn strip_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP {
        headers.remove(name);
    }
}

fn is_alike(name: &HeaderName, other: &HeaderName) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    name.as_str().bytes().map(plain).eq(other.as_str().bytes().map(plain))
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderMap, HeaderName, HeaderValue};
    use secrets::{Redactor, Secret};

    use super::{incoming, outgoing};

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value))
        };
        lines.iter().map(pair).collect()
    }

    #[test]
    fn the_tools_own_credential_and_what_is_about_its_connection_do_not_pass() {
        let auth = HeaderName::from_static("x-api-key");
        let given = map(&[
            ("X-API-Key", "mine"),
            ("x-api-key", "again"),
            ("x_api_key", "alike"),
            ("X-Api_Key", "alike"),
            ("connection", "close, X-Mine"),
            ("connection", "x-too,,  accept ;"),
            ("x-mine", "1"),
            ("x-too", "1"),
            ("accept", "*/*"),
            ("host", "elsewhere.example"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("content-length", "7"),
            ("expect", "100-continue"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "x"),
            ("origin", "http://127.0.0.1:1"),
            ("referer", "http://127.0.0.1:1/x"),
            ("accept-encoding", "gzip, br"),
            ("content-type", "application/json"),
            ("x-api-keys", "another"),
        ]);
        let passed = map(&[
            ("accept", "*/*"),
            ("accept-encoding", "identity"),
            ("content-type", "application/json"),
            ("x-api-keys", "another"),
        ]);
        assert_eq!(outgoing(given, Some(&auth)), passed);
    }

    #[test]
    fn a_keyless_service_is_asked_as_the_tool_asks() {
        let given = map(&[("authorization", "mine"), ("accept-encoding", "gzip")]);
        assert_eq!(outgoing(given.clone(), None), given);
    }

    #[test]
    fn an_answers_headers_are_without_the_key() {
        let keys = Redactor::new();
        keys.learn(&Secret::new("hunter2-hunter2".to_owned()));
        let given = map(&[
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("content-length", "9"),
            ("location", "https://example.com/?key=hunter2-hunter2"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=hunter2-hunter2"),
        ]);
        let passed = [
            ("location", "https://example.com/?key=[redacted]"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=[redacted]"),
        ];
        assert_eq!(incoming(given.clone(), false, &keys), map(&passed));
        let with_length = [[("content-length", "9")].as_slice(), &passed].concat();
        assert_eq!(incoming(given, true, &keys), map(&with_length));
    }
}
