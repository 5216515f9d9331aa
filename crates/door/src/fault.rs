//! What A2A answers when a request cannot be carried out: one table of kinds, told in the form of each binding.
//!
//! JSON-RPC has the code, with an `ErrorInfo` in `data` under 1.0; HTTP+JSON has the status and the same
//! `ErrorInfo` in `details`. Codes are JSON-RPC's and A2A's own where they have one. Two are ours, outside of what
//! those keep for themselves: -31003, the caller may see the task and not do this (403), and -31029, there is no
//! room for the answer (503).

use http::{Response, StatusCode};
use runtime::RequestError;
use serde_json::{Value, json};

use crate::payload::{self, Payload};
use crate::refusal::Refusal;

/// What kind of fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    TaskNotFound,
    NotCancelable,
    PushNotSupported,
    Unsupported,
    ContentType,
    CardNotConfigured,
    Version,
    /// The caller may see the task and not do this.
    Forbidden,
    /// There is no room for the answer.
    Overloaded,
}

/// A request that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

/// How a kind is told: JSON-RPC's code, HTTP's status, its word, and the reason that clients tell it by.
type Told = (i32, StatusCode, &'static str, &'static str);

impl Kind {
    fn told(self) -> Told {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        const ARGUMENT: &str = "INVALID_ARGUMENT";
        const PRECONDITION: &str = "FAILED_PRECONDITION";
        match self {
            Self::Parse => (-32700, BAD, ARGUMENT, "INVALID_JSON"),
            Self::InvalidRequest => (-32600, BAD, ARGUMENT, "INVALID_REQUEST"),
            Self::MethodNotFound => (-32601, StatusCode::NOT_FOUND, "NOT_FOUND", "METHOD_NOT_FOUND"),
            Self::InvalidParams => (-32602, BAD, ARGUMENT, "INVALID_PARAMS"),
            Self::Internal => (-32603, StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "INTERNAL_ERROR"),
            Self::TaskNotFound => (-32001, StatusCode::NOT_FOUND, "NOT_FOUND", "TASK_NOT_FOUND"),
            Self::NotCancelable => (-32002, BAD, PRECONDITION, "TASK_NOT_CANCELABLE"),
            Self::PushNotSupported => (-32003, BAD, PRECONDITION, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
            Self::Unsupported => (-32004, BAD, PRECONDITION, "UNSUPPORTED_OPERATION"),
            Self::ContentType => (-32005, BAD, ARGUMENT, "CONTENT_TYPE_NOT_SUPPORTED"),
            Self::CardNotConfigured => (-32007, BAD, PRECONDITION, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
            Self::Version => (-32009, BAD, PRECONDITION, "VERSION_NOT_SUPPORTED"),
            Self::Forbidden => (-31003, StatusCode::FORBIDDEN, "PERMISSION_DENIED", "CALLER_NOT_ALLOWED"),
            Self::Overloaded => (-31029, StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", "OVERLOADED"),
        }
    }
}

impl Fault {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidParams, message)
    }

    fn info(&self) -> Value {
        let (_, _, _, reason) = self.kind.told();
        json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "a2a-protocol.org",
            "metadata": {},
        })
    }

    /// The `error` member of a JSON-RPC answer.
    pub(crate) fn rpc(&self, detailed: bool) -> Value {
        let (code, ..) = self.kind.told();
        if detailed {
            json!({"code": code, "message": self.message, "data": [self.info()]})
        } else {
            json!({"code": code, "message": self.message})
        }
    }

    /// The answer of the HTTP+JSON binding.
    pub(crate) fn http(&self) -> Response<Payload> {
        let (_, status, word, _) = self.kind.told();
        let error = json!({"code": status.as_u16(), "status": word, "message": self.message, "details": [self.info()]});
        payload::json(status, "application/a2a+json", &json!({"error": error}))
    }
}

/// What was asked of a task that has ended depends on what it was: this is all but a cancel.
impl From<RequestError> for Fault {
    fn from(error: RequestError) -> Self {
        let kind = match &error {
            RequestError::UnknownTask(_) => Kind::TaskNotFound,
            RequestError::UnknownContext(_) => Kind::InvalidParams,
            RequestError::Ended { .. } | RequestError::NotWaiting(_) => Kind::Unsupported,
            RequestError::OperatorsTask(_) | RequestError::ReadOnly => Kind::Forbidden,
            RequestError::Record(_) => Kind::Internal,
        };
        let message = match &error {
            // Where the record is, and what the disk said, is the operator's to know.
            RequestError::Record(_) => {
                "it cannot be put on record, so it was not done, and the session ends".to_owned()
            }
            error => error.to_string(),
        };
        Self::new(kind, message)
    }
}

/// An answer is refused for the lack of room alone.
impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::new(Kind::Overloaded, refusal.to_string())
    }
}
