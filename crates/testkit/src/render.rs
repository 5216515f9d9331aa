//! Turns in the vendors' own streaming forms.

mod anthropic;
mod openai;

use serde_json::{Value, json};

use crate::strict::WireForm;
use crate::turn::Turn;

/// The whole event stream of a turn; `serial` makes its ids unique on this server.
pub(crate) fn stream(wire: WireForm, turn: &Turn, model: &str, serial: usize) -> String {
    match wire {
        WireForm::Anthropic => anthropic::stream(turn, model, serial),
        WireForm::OpenAi => openai::stream(turn, model, serial),
    }
}

/// The vendor's error form for a status.
pub(crate) fn error(wire: WireForm, status: u16, kind: Option<&str>, message: &str) -> Value {
    match wire {
        WireForm::Anthropic => {
            let kind = kind.unwrap_or(match status {
                400 | 422 => "invalid_request_error",
                401 => "authentication_error",
                402 => "billing_error",
                403 => "permission_error",
                404 => "not_found_error",
                413 => "request_too_large",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                _ => "api_error",
            });
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
        }
        WireForm::OpenAi => {
            let class = match status {
                429 => "requests",
                500.. => "server_error",
                _ => "invalid_request_error",
            };
            json!({"error": {"message": message, "type": class, "param": null, "code": kind}})
        }
    }
}

/// Cuts text into pieces of about `size` bytes at character borders, as a model streams it.
fn fragments(text: &str, size: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for c in text.chars() {
        piece.push(c);
        if piece.len() >= size {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}
