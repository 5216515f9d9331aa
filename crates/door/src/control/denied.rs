//! What the control surface answers when it does not do what was asked: a status, a code for the record and a
//! sentence.

use http::header::{ALLOW, CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use runtime::ControlRefusal;
use serde_json::json;

use crate::payload::{self, Payload};
use crate::refusal::Refusal;

/// Why it is not done. The sentence is the whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denied {
    #[error("this capsule has no control surface")]
    Absent,
    #[error("the control token of this session is needed, as a bearer token in one `Authorization` header")]
    Unauthenticated,
    #[error("there is no control resource at this path")]
    UnknownPath,
    /// With the methods that there are.
    #[error("this control resource takes {0}")]
    Method(&'static str),
    #[error("a secret is taken from this machine alone, over loopback, since this address has no TLS")]
    NotLoopback,
    /// With the number of bytes that it may have.
    #[error("the body is longer than {0} bytes")]
    TooLarge(usize),
    #[error("this needs a body")]
    MissingBody,
    #[error("the body of a setting is JSON: `content-type: application/json`, without a content encoding")]
    MediaType,
    #[error("the body ended early or is not framed as HTTP wants it")]
    Truncated,
    #[error("the body did not come in time")]
    Slow,
    /// What the session says.
    #[error(transparent)]
    Said(ControlRefusal),
    /// Where the record is, and what the disk said, is the operator's to know.
    #[error("it cannot be put on record, so it was not done, and the session ends")]
    NotRecorded,
}

impl From<ControlRefusal> for Denied {
    fn from(refusal: ControlRefusal) -> Self {
        if matches!(refusal, ControlRefusal::Record(_)) { Self::NotRecorded } else { Self::Said(refusal) }
    }
}

/// How a body was not read.
impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooLarge(most) => Self::TooLarge(most),
            Refusal::Slow => Self::Slow,
            _ => Self::Truncated,
        }
    }
}

impl Denied {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Absent | Self::UnknownPath => StatusCode::NOT_FOUND,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotLoopback => StatusCode::FORBIDDEN,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MissingBody => StatusCode::UNPROCESSABLE_ENTITY,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Truncated => StatusCode::BAD_REQUEST,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Said(refusal) => StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            Self::NotRecorded => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The code that the trace has for it; nothing for what does not go on record.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Absent | Self::NotRecorded => None,
            Self::Unauthenticated => Some("unauthenticated"),
            Self::UnknownPath => Some("unknown_path"),
            Self::Method(_) => Some("method_not_allowed"),
            Self::NotLoopback => Some("not_loopback"),
            Self::TooLarge(_) => Some("body_too_large"),
            Self::MissingBody => Some("missing_body"),
            Self::MediaType => Some("unsupported_media_type"),
            Self::Truncated | Self::Slow => Some("truncated_body"),
            Self::Said(refusal) => Some(refusal.reason()),
        }
    }

    pub(crate) fn response(&self) -> Response<Payload> {
        let mut response = payload::json(self.status(), "application/json", &json!({"error": self.to_string()}));
        let mut add = |name, value| drop(response.headers_mut().insert(name, HeaderValue::from_static(value)));
        match self {
            Self::Method(allow) => add(ALLOW, allow),
            Self::Unauthenticated => add(WWW_AUTHENTICATE, "Bearer realm=\"murmur-control\""),
            Self::TooLarge(_) | Self::Truncated | Self::Slow => add(CONNECTION, "close"),
            _ => {}
        }
        response
    }
}
