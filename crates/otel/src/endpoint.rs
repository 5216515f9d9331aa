//! Where spans go: the declared endpoint, and the path that the protocol names.

use reqwest::Url;

use crate::Error;

/// The path of traces below an endpoint.
const TRACES: &str = "/v1/traces";

/// The URL for traces: the endpoint itself when it ends with the protocol's path, else with that added.
pub(crate) fn traces_url(endpoint: &str) -> Result<Url, Error> {
    let refuse = |reason| Error::Endpoint { endpoint: hidden(endpoint), reason };
    let mut url = Url::parse(endpoint).map_err(|_| refuse("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("holds a user or password"));
    }
    if url.fragment().is_some() {
        return Err(refuse("has a fragment"));
    }
    let path = url.path().trim_end_matches('/');
    let path = if path.ends_with(TRACES) { path.to_owned() } else { format!("{path}{TRACES}") };
    url.set_path(&path);
    Ok(url)
}

/// Host and port, as a message names the receiver.
pub(crate) fn name(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    }
}

/// A URL without what may stand before its `@`.
fn hidden(text: &str) -> String {
    text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, rest)| format!("[hidden]@{rest}"))
}

#[cfg(test)]
mod tests {
    use super::{name, traces_url};

    #[test]
    fn the_path_is_added_once() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://collector.example/otlp/", "https://collector.example/otlp/v1/traces"),
            ("https://collector.example/otlp/v1/traces", "https://collector.example/otlp/v1/traces"),
            ("https://collector.example/v1/traces/", "https://collector.example/v1/traces"),
            ("http://[::1]:4318?tenant=a", "http://[::1]:4318/v1/traces?tenant=a"),
        ] {
            assert_eq!(traces_url(endpoint).unwrap().as_str(), url);
        }
        assert_eq!(name(&traces_url("http://[::1]:4318").unwrap()), "[::1]:4318");
        assert_eq!(name(&traces_url("https://collector.example").unwrap()), "collector.example");
    }

    #[test]
    fn what_is_no_endpoint_is_refused_without_its_password() {
        for (endpoint, said) in [
            ("collector", "the endpoint `collector` is not a URL"),
            ("grpc://collector:4317", "the endpoint `grpc://collector:4317` is neither http nor https"),
            ("http://me:hunter2@collector", "the endpoint `[hidden]@collector` holds a user or password"),
            ("http://collector/#top", "the endpoint `http://collector/#top` has a fragment"),
        ] {
            assert_eq!(traces_url(endpoint).unwrap_err().to_string(), said);
        }
    }
}
