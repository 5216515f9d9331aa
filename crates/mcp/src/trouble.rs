//! From the protocol engine's errors to this crate's own.
//!
//! The engine's texts can hold what a server wrote, and addresses: none of them is passed on but the words of
//! an error of the protocol, folded to one line.

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use manifest::fold_description;
use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::Limits;
use crate::error::{Error, Step};
use crate::signals::{Fault, Signals};
use crate::wire::{WireError, status};

/// What the reading end found out, when it cut the stream.
pub(crate) fn fault(signals: &Signals, step: Step, limits: &Limits) -> Option<Error> {
    let bytes = |limit: usize| u64::try_from(limit).unwrap_or(u64::MAX);
    Some(match signals.fault()? {
        Fault::MessageTooLarge => {
            Error::TooLarge { step, what: "a message in bytes", limit: bytes(limits.message_bytes) }
        }
        Fault::Noise => Error::TooLarge { step, what: "what is no message, in bytes,", limit: limits.noise_bytes },
        Fault::Flood => Error::Flood { step },
        Fault::Garbled => Error::Malformed { step, what: "it is no message of the protocol" },
    })
}

/// Why a request that was handed to the engine has no answer.
pub(crate) fn request(error: ServiceError, step: Step) -> Error {
    match error {
        ServiceError::McpError(data) => refused(&data, step),
        ServiceError::TransportSend(error) => transport(&error, step),
        ServiceError::UnexpectedResponse => Error::Malformed { step, what: "it is of another kind" },
        // The engine ended while the request was its own: it may have been sent.
        _ => Error::Ended { step, sent: true },
    }
}

/// Why there was no handshake.
pub(crate) fn handshake(error: ClientInitializeError) -> Error {
    let step = Step::Open;
    match error {
        ClientInitializeError::JsonRpcError(data) => refused(&data, step),
        ClientInitializeError::TransportError { error, .. } => transport(&error, step),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake(*fallback),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<&str> = server_supported.iter().map(|version| version.as_str()).collect();
            Error::Version { offered: fold_description(&versions.join(", ")) }
        }
        ClientInitializeError::ConnectionClosed(_) => Error::Ended { step, sent: true },
        ClientInitializeError::ConflictInitResponseId(..) | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            Error::Malformed { step, what: "it answers another request" }
        }
        _ => Error::Malformed { step, what: "it is no answer to the handshake" },
    }
}

fn refused(data: &ErrorData, step: Step) -> Error {
    Error::Refused { step, code: data.code.0, said: fold_description(&data.message) }
}

fn transport(error: &DynamicTransportError, step: Step) -> Error {
    match error.error.downcast_ref::<WireError>() {
        Some(error) => wire(error, step),
        // The pipe took less than the whole line, so that the server cannot have read a request.
        None => Error::Ended { step, sent: false },
    }
}

fn wire(error: &WireError, step: Step) -> Error {
    if let Some(status) = status(error) {
        return match status {
            401 | 403 => Error::Unauthorized { status },
            status => Error::Http { status, step },
        };
    }
    match error {
        StreamableHttpError::SessionExpired => Error::SessionExpired,
        StreamableHttpError::Client(error) if error.is_connect() => Error::Unreachable { reason: innermost(error) },
        StreamableHttpError::Io(error) => credential(error).unwrap_or(Error::Ended { step, sent: true }),
        StreamableHttpError::ResponseBodyTooLarge { max_size } => {
            let limit = u64::try_from(*max_size).unwrap_or(u64::MAX);
            Error::TooLarge { step, what: "a message in bytes", limit }
        }
        StreamableHttpError::UnexpectedContentType(_) => {
            Error::Malformed { step, what: "it is neither JSON nor a stream of events" }
        }
        StreamableHttpError::UnexpectedServerResponse(_) | StreamableHttpError::Deserialize(_) => {
            Error::Malformed { step, what: "it is no message of the protocol" }
        }
        _ => Error::Ended { step, sent: true },
    }
}

/// A token that could not be had travels as this.
fn credential(error: &io::Error) -> Option<Error> {
    let error = error.get_ref()?.downcast_ref::<Arc<secrets::Error>>()?;
    Some(Error::Credential(Arc::clone(error)))
}

/// The last cause alone: what stands before it names the address.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(next) = cause.and_then(|cause| cause.source()) {
        cause = Some(next);
    }
    cause.map_or_else(|| "no connection".to_owned(), ToString::to_string)
}
