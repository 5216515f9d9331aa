//! How a credential is written into a request: one header, one value with `{key}` in it.

use http::header::{ACCEPT_ENCODING, HeaderName, HeaderValue};
use manifest::RESERVED_HEADERS;
use secrets::Secret;

use crate::Error;

const PLACE: &str = "{key}";

/// The header that carries the credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamAuth {
    header: HeaderName,
    before: String,
    after: String,
}

impl UpstreamAuth {
    /// `value` holds `{key}` exactly once: `Bearer {key}`.
    ///
    /// # Errors
    /// [`Error::AuthHeader`], [`Error::AuthValue`].
    pub fn new(header: &str, value: &str) -> Result<Self, Error> {
        let header = header
            .parse::<HeaderName>()
            .map_err(|_| Error::AuthHeader { reason: "is not the name of an HTTP header" })?;
        let taken = RESERVED_HEADERS.contains(&header.as_str()) || header == ACCEPT_ENCODING;
        if taken || header.as_str().starts_with("proxy-") {
            return Err(Error::AuthHeader { reason: "names a header that has another meaning" });
        }
        let Some((before, after)) = value.split_once(PLACE) else {
            return Err(Error::AuthValue { reason: "does not hold `{key}`" });
        };
        if after.contains(PLACE) {
            return Err(Error::AuthValue { reason: "holds `{key}` more than once" });
        }
        if !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err(Error::AuthValue { reason: "holds something else than visible ASCII characters and blanks" });
        }
        Ok(Self { header, before: before.to_owned(), after: after.to_owned() })
    }

    /// The header's name.
    #[must_use]
    pub fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The value with this key in it; nothing when no header may hold the key.
    pub(crate) fn render(&self, key: &Secret) -> Option<HeaderValue> {
        let text = Secret::new([&self.before, key.expose(), &self.after].concat());
        let mut value = HeaderValue::from_str(text.expose()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use secrets::Secret;

    use super::{RESERVED_HEADERS, UpstreamAuth};

    #[test]
    fn a_template_is_rendered_and_shown_to_nobody() {
        let auth = UpstreamAuth::new("X-Api-Key", "Token {key};v=1").unwrap();
        assert_eq!(auth.header().as_str(), "x-api-key");
        let value = auth.render(&Secret::new("hunter2".to_owned())).unwrap();
        assert_eq!(value.as_bytes(), b"Token hunter2;v=1");
        assert_eq!(format!("{value:?}"), "Sensitive");
        assert_eq!(auth.render(&Secret::new("two\nlines".to_owned())), None);
    }

    #[test]
    fn headers_of_another_meaning_and_broken_templates_are_refused() {
        for header in
            RESERVED_HEADERS.iter().copied().chain(["accept-encoding", "Proxy-Authorization", "a b", "", "x:", "Host"])
        {
            assert!(UpstreamAuth::new(header, "{key}").is_err(), "{header}");
        }
        for value in ["", "key", "{key}{key}", "{KEY}", "a\n{key}", "{key}é", "\t{key}"] {
            assert!(UpstreamAuth::new("authorization", value).is_err(), "{value}");
        }
        for value in ["{key}", "Bearer {key}", "{{key}}"] {
            assert!(UpstreamAuth::new("authorization", value).is_ok(), "{value}");
        }
    }
}
