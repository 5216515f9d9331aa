//! What the door answers when a request does not come in: a status, a word for it and a sentence.
//!
//! The body has the form of A2A's HTTP+JSON errors, so one reader of errors does for every address. A
//! request that speaks JSON-RPC and is let in gets its errors as [`Fault`](crate::fault::Fault)s.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde_json::json;

use crate::payload::Payload;

/// Why a request was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("a request has exactly one `Host` header, with a host and a port")]
    NoHost,
    #[error("this address answers to loopback names and to itself alone")]
    ForeignHost,
    #[error(
        "without `network.authentication` this address answers to addresses and to names without a dot, so that no page \
         reaches it under a name of its own"
    )]
    NamedHost,
    #[error("pages of another origin are not served")]
    ForeignOrigin,
    #[error("there is nothing here")]
    NotFound,
    /// With the methods that there are.
    #[error("this address takes {0}")]
    Method(&'static str),
    #[error("a bearer token of this session is needed, in one `Authorization` header")]
    Unauthorized,
    #[error("this token does not open this")]
    Forbidden,
    #[error("the body must be JSON: `content-type: application/json`, without a content encoding")]
    MediaType,
    /// With the number of bytes that it may have.
    #[error("the body is longer than {0} bytes")]
    TooLarge(usize),
    #[error("the request did not come in time")]
    Slow,
    #[error("the body may come in chunks and have no other transfer coding")]
    Coding,
    #[error("the request ended early or is not framed as HTTP wants it")]
    Broken,
    #[error("too much is under way here; try again later")]
    Overloaded,
}

impl Refusal {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::NoHost | Self::Broken => StatusCode::BAD_REQUEST,
            Self::ForeignHost | Self::NamedHost => StatusCode::MISDIRECTED_REQUEST,
            Self::ForeignOrigin | Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Coding => StatusCode::NOT_IMPLEMENTED,
            Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The status in the words of the JSON body.
    fn word(self) -> &'static str {
        match self {
            Self::NoHost | Self::ForeignHost | Self::NamedHost | Self::MediaType | Self::Broken => "INVALID_ARGUMENT",
            Self::ForeignOrigin | Self::Forbidden => "PERMISSION_DENIED",
            Self::NotFound => "NOT_FOUND",
            Self::Method(_) | Self::Coding => "UNIMPLEMENTED",
            Self::Unauthorized => "UNAUTHENTICATED",
            Self::TooLarge(_) => "OUT_OF_RANGE",
            Self::Slow => "DEADLINE_EXCEEDED",
            Self::Overloaded => "UNAVAILABLE",
        }
    }

    pub(crate) fn response(self) -> Response<Payload> {
        let status = self.status();
        let body = json!({"error": {"code": status.as_u16(), "status": self.word(), "message": self.to_string()}});
        let mut response = Response::new(Payload::json(&body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self {
            Self::Method(allow) => drop(headers.insert(ALLOW, HeaderValue::from_static(allow))),
            Self::Unauthorized => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            Self::Slow | Self::Broken => drop(headers.insert(CONNECTION, HeaderValue::from_static("close"))),
            _ => {}
        }
        response
    }

    /// The answer as bytes, for a connection that no request was read from.
    pub(crate) fn raw(self) -> Bytes {
        let status = self.status();
        let reason = status.canonical_reason().unwrap_or_default();
        let (code, word) = (status.as_u16(), self.word());
        let body = json!({"error": {"code": code, "status": word, "message": self.to_string()}}).to_string();
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {code} {reason}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        Bytes::from(text)
    }
}
