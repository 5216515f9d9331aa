//! The Messages API's event stream.

use serde_json::{Value, json};

use super::fragments;
use crate::turn::{Ending, Say, Turn};

pub(super) fn stream(turn: &Turn, model: &str, serial: usize) -> String {
    let mut out = String::new();
    let tokens = turn.tokens;
    event(
        &mut out,
        &json!({"type": "message_start", "message": {
        "id": format!("msg_{serial}"), "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": tokens.input, "cache_creation_input_tokens": tokens.cache_write,
                  "cache_read_input_tokens": tokens.cached, "output_tokens": 1}}}),
    );
    for (index, say) in turn.says.iter().enumerate() {
        block(&mut out, index, say, serial);
        if index == 0 {
            event(&mut out, &json!({"type": "ping"}));
        }
    }
    if let Ending::Error { kind, message } = &turn.ending {
        event(&mut out, &json!({"type": "error", "error": {"type": kind, "message": message}}));
        return out;
    }
    let stop = turn.stop.as_deref().unwrap_or(if turn.has_tools() { "tool_use" } else { "end_turn" });
    event(
        &mut out,
        &json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": tokens.output}}),
    );
    event(&mut out, &json!({"type": "message_stop"}));
    out
}

fn block(out: &mut String, index: usize, say: &Say, serial: usize) {
    let (start, deltas) = match say {
        Say::Text(text) => (
            json!({"type": "text", "text": ""}),
            fragments(text, 7).into_iter().map(|text| json!({"type": "text_delta", "text": text})).collect(),
        ),
        Say::Thinking { text, signature } => {
            let mut deltas: Vec<Value> = fragments(text, 7)
                .into_iter()
                .map(|thinking| json!({"type": "thinking_delta", "thinking": thinking}))
                .collect();
            deltas.push(json!({"type": "signature_delta", "signature": signature}));
            (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
        }
        Say::Redacted(data) => (json!({"type": "redacted_thinking", "data": data}), Vec::new()),
        Say::Tool { id, name, arguments } => {
            let id = id.clone().unwrap_or_else(|| format!("toolu_{serial}_{index}"));
            (
                json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                fragments(arguments, 5)
                    .into_iter()
                    .map(|json| json!({"type": "input_json_delta", "partial_json": json}))
                    .collect::<Vec<_>>(),
            )
        }
    };
    event(out, &json!({"type": "content_block_start", "index": index, "content_block": start}));
    for delta in deltas {
        event(out, &json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }
    event(out, &json!({"type": "content_block_stop", "index": index}));
}

fn event(out: &mut String, data: &Value) {
    out.push_str("event: ");
    out.push_str(data.get("type").and_then(Value::as_str).unwrap_or_default());
    out.push_str("\ndata: ");
    out.push_str(&data.to_string());
    out.push_str("\n\n");
}
