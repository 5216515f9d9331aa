//! The Chat Completions event stream.

use serde_json::{Value, json};

use super::fragments;
use crate::turn::{Ending, Say, Turn};

pub(super) fn stream(turn: &Turn, model: &str, serial: usize) -> String {
    let mut out = String::new();
    let chunk = |choices: Value, usage: Value| {
        json!({"id": format!("chatcmpl-{serial}"), "object": "chat.completion.chunk", "created": 1_700_000_000,
               "model": model, "choices": choices, "usage": usage})
    };
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null);

    event(&mut out, &delta(json!({"role": "assistant", "content": ""})));
    let mut call = 0_usize;
    for say in &turn.says {
        match say {
            Say::Text(text) => {
                for text in fragments(text, 7) {
                    event(&mut out, &delta(json!({"content": text})));
                }
            }
            Say::Thinking { text, .. } => {
                for text in fragments(text, 7) {
                    event(&mut out, &delta(json!({"reasoning_content": text})));
                }
            }
            Say::Redacted(_) => {}
            Say::Tool { id, name, arguments } => {
                let id = id.clone().unwrap_or_else(|| format!("call_{serial}_{call}"));
                event(
                    &mut out,
                    &delta(json!({"tool_calls": [{"index": call, "id": id, "type": "function",
                    "function": {"name": name, "arguments": ""}}]})),
                );
                for arguments in fragments(arguments, 5) {
                    event(
                        &mut out,
                        &delta(json!({"tool_calls": [{"index": call, "function": {"arguments": arguments}}]})),
                    );
                }
                call += 1;
            }
        }
    }
    if let Ending::Error { kind, message } = &turn.ending {
        event(&mut out, &json!({"error": {"message": message, "type": kind, "param": null, "code": null}}));
        return out;
    }
    let finish = turn.stop.as_deref().unwrap_or(if turn.has_tools() { "tool_calls" } else { "stop" });
    event(&mut out, &chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), Value::Null));
    let tokens = turn.tokens;
    let prompt = tokens.input + tokens.cached + tokens.cache_write;
    event(
        &mut out,
        &chunk(
            json!([]),
            json!({"prompt_tokens": prompt, "completion_tokens": tokens.output,
        "total_tokens": prompt + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.thinking}}),
        ),
    );
    out.push_str("data: [DONE]\n\n");
    out
}

fn event(out: &mut String, data: &Value) {
    out.push_str("data: ");
    out.push_str(&data.to_string());
    out.push_str("\n\n");
}
