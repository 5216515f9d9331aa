//! What the gateway itself answers: a status and one sentence, as `{"error": "<sentence>"}`.
//!
//! The sentence goes to the tool, so it names the credential and never a value or a place of the
//! operator's. The connection ends with it: what is left of the request is not read.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use crate::download::Answer;

/// Why a request was not sent, or got no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not this gateway's address.
    Unknown,
    /// A path that leaves the endpoint, or a target that is no path.
    Path,
    /// A method that would show a request to its sender, or make a tunnel.
    Method,
    /// A controller gave no value, or took it back.
    NotInjected { credential: String },
    /// The credential has no value that can be sent.
    Unreadable { credential: Option<String> },
    /// The tool broke its request off.
    Broken,
    /// The tool stopped sending its request.
    Stalled,
    /// The client cannot be made.
    Client,
    /// The service cannot be reached.
    Unreachable { why: String },
    /// It was reached and gave no answer.
    Unanswered { why: String },
    /// It answered with something that cannot be passed on.
    Upgrade,
    /// It compressed an answer that was asked for as it is, so the key cannot be kept out of it.
    Encoded,
    /// It sent nothing in time.
    Slow,
    /// The call is over.
    Closed,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Path | Self::Broken => StatusCode::BAD_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Stalled => StatusCode::REQUEST_TIMEOUT,
            Self::NotInjected { .. } | Self::Closed => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreadable { .. }
            | Self::Client
            | Self::Unreachable { .. }
            | Self::Unanswered { .. }
            | Self::Encoded
            | Self::Upgrade => StatusCode::BAD_GATEWAY,
            Self::Slow => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Unknown => "there is no such address".to_owned(),
            Self::Path => "the path does not lie plainly beneath the endpoint".to_owned(),
            Self::Method => "this method is not passed on".to_owned(),
            Self::NotInjected { credential } => format!("credential `{credential}` has not been injected"),
            Self::Unreadable { credential: Some(name) } => format!("credential `{name}` cannot be read"),
            Self::Unreadable { credential: None } => "the service's credential cannot be used".to_owned(),
            Self::Broken => "the request broke off".to_owned(),
            Self::Stalled => "the request stopped before its end".to_owned(),
            Self::Client => "the connection to the service cannot be set up".to_owned(),
            Self::Unreachable { why } => format!("the service cannot be reached: {why}"),
            Self::Unanswered { why } => format!("the service gave no answer: {why}"),
            Self::Encoded => {
                "the service compresses its answer although it was asked not to; it is not passed on, because it cannot be \
                 searched for the credential"
                    .to_owned()
            }
            Self::Upgrade => "the service wants another protocol, which is not passed on".to_owned(),
            Self::Slow => "the service gave no answer in time".to_owned(),
            Self::Closed => "the call that this address belongs to is over".to_owned(),
        }
    }

    pub(crate) fn response(&self) -> Response<Answer> {
        let body = json!({"error": self.sentence()}).to_string();
        let mut response = Response::new(Answer::own(Bytes::from(body)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}
