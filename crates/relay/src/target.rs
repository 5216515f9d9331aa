//! Which URL a request is for, and that it lies beneath the endpoint.
//!
//! A server behind the endpoint may decode a path more than once, take `\` for `/`, or cut a segment at `;`
//! before it resolves `..`. So a path is decoded until nothing is left to decode, and refused when any of
//! these readings holds a dot segment. An encoded slash alone is allowed: services use it within names.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use reqwest::Url;

use crate::Error;
use crate::refusal::Refusal;

/// How often a path may be encoded.
const LEVELS: usize = 4;

/// A declared endpoint.
#[derive(Debug)]
pub(crate) struct Target {
    endpoint: Url,
    /// `https://host[:port]`.
    origin: String,
    /// The endpoint's path, without a slash at its end.
    path: String,
}

impl Target {
    pub(crate) fn new(text: &str) -> Result<Self, Error> {
        let refuse = |reason| Err(Error::Endpoint { reason });
        let Ok(endpoint) = Url::parse(text) else { return refuse("is not a URL") };
        if !matches!(endpoint.scheme(), "http" | "https") {
            return refuse("is neither http nor https");
        }
        if !endpoint.username().is_empty() || endpoint.password().is_some() {
            return refuse("holds a user or password");
        }
        if endpoint.query().is_some() || endpoint.fragment().is_some() {
            return refuse("has a query or a fragment");
        }
        let path = endpoint.path().trim_end_matches('/').to_owned();
        if !path.is_empty() && !is_plain(&path) {
            return refuse("has a path that is not plain");
        }
        let origin = endpoint.origin().ascii_serialization();
        Ok(Self { endpoint, origin, path })
    }

    pub(crate) fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    /// The URL of `rest`, which is empty or begins with a slash, beneath the endpoint.
    pub(crate) fn url(&self, rest: &str, query: Option<&str>) -> Result<Url, Refusal> {
        let beneath = rest.is_empty() || rest.starts_with('/');
        if !beneath || !is_plain(rest) {
            return Err(Refusal::Path);
        }
        let path = format!("{}{rest}", self.path);
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let url = Url::parse(&format!("{}{path}{query}", self.origin)).map_err(|_| Refusal::Path)?;
        // A URL parser resolves and strips. What it made of the path must still be what was checked.
        let same_path = decoded(url.path()) == decoded(if path.is_empty() { "/" } else { &path });
        if !same_path || url.origin() != self.endpoint.origin() || url.fragment().is_some() {
            return Err(Refusal::Path);
        }
        Ok(url)
    }
}

fn decoded(text: &str) -> Cow<'_, [u8]> {
    percent_decode(text.as_bytes()).into()
}

/// Whether no reading of the path leaves it.
fn is_plain(path: &str) -> bool {
    if !escapes_are_whole(path) {
        return false;
    }
    let mut text = path.to_owned();
    for _ in 0..=LEVELS {
        if text.chars().any(char::is_control) || text.split(['/', '\\']).any(is_dots) {
            return false;
        }
        // Bytes that are no UTF-8 are how a dot or a slash hides from all but the oldest decoders.
        let Ok(decoded) = percent_decode(text.as_bytes()).decode_utf8() else { return false };
        if decoded == text {
            return true;
        }
        text = decoded.into_owned();
    }
    false
}

/// `.` and `..`, also with what some servers cut off.
fn is_dots(segment: &str) -> bool {
    let name = segment.split([';', '?', '#']).next().unwrap_or_default().trim();
    matches!(name, "." | "..")
}

/// Whether each `%` begins an escape.
fn escapes_are_whole(path: &str) -> bool {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    path.split('%').skip(1).all(|after| is_hex(after.as_bytes().first()) && is_hex(after.as_bytes().get(1)))
}

#[cfg(test)]
mod tests;
