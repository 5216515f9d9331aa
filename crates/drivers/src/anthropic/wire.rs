//! A conversation in the Messages API's form.
//!
//! Messages of one side are grouped, since results of parallel calls must stand in one user message.
//! Cache breakpoints are the reason for the offsets: the last block of the newest user message and of
//! the one before it carry `cache_control`, and both move each turn. So they are no part of the stored
//! bytes but are spliced in while the body is copied; with system and tools that makes the four
//! that the API allows. The older of the two is where the last request wrote its cache, so that a turn
//! with many blocks still finds it.

use serde_json::{Map, Value, json};
use vocab::{CallParams, Message, Part, Role, Thinking, ToolSpec, Wire};

use crate::wire::{CallIds, Json, arguments, extras, joined_text, text_of, word};

const CACHE: &str = r#","cache_control":{"type":"ephemeral"}"#;
const LONGEST_ID: usize = 64;
const LONGEST_NAME: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    User,
    Assistant,
}

pub(super) struct AnthropicWire {
    author: String,
    prefix: Json,
    history: Json,
    /// The side whose message is still open at the end of `history`.
    open: Option<Side>,
    /// Where `cache_control` fits into the last block of the newest user message.
    newest: Option<usize>,
    /// The same of the user message before it.
    older: Option<usize>,
    ids: CallIds,
}

impl AnthropicWire {
    pub(super) fn new(
        model: &str,
        request: &Map<String, Value>,
        author: &str,
        system: &str,
        tools: &[ToolSpec],
    ) -> Self {
        let mut prefix = Json::default();
        prefix.raw("{\"model\":").value(model).raw(",\"stream\":true,");
        extras(&mut prefix, request);
        if let Some((last, others)) = tools.split_last() {
            prefix.raw("\"tools\":[");
            for tool in others {
                prefix.value(tool).raw(",");
            }
            // Declared fields only, in a fixed order: the prefix must be the same in each session.
            prefix.raw("{\"name\":").value(&last.name).raw(",\"description\":").value(&last.description);
            prefix.raw(",\"input_schema\":").value(&last.input_schema).raw(CACHE).raw("}],");
        }
        if !system.trim().is_empty() {
            prefix.raw("\"system\":[{\"type\":\"text\",\"text\":").value(system).raw(CACHE).raw("}],");
        }
        prefix.raw("\"messages\":[");
        Self {
            author: author.to_owned(),
            prefix,
            history: Json::default(),
            open: None,
            newest: None,
            older: None,
            ids: CallIds::new(LONGEST_ID),
        }
    }

    /// Appends one block to the message of this side, which is opened if the other side spoke last.
    fn block(&mut self, side: Side, block: &Value) {
        if self.open == Some(side) {
            self.history.raw(",");
        } else {
            if self.open.is_some() {
                self.history.raw("]},");
            }
            self.history.raw(match side {
                Side::User => "{\"role\":\"user\",\"content\":[",
                Side::Assistant => "{\"role\":\"assistant\",\"content\":[",
            });
            if side == Side::User {
                self.older = self.newest;
            }
            self.open = Some(side);
        }
        self.history.value(block);
        if side == Side::User {
            self.newest = Some(self.history.len().saturating_sub(1));
        }
    }

    fn user(&mut self, message: &Message) {
        let mut empty = true;
        for block in message.content.iter().filter_map(readable) {
            self.block(Side::User, &block);
            empty = false;
        }
        if empty {
            // The API takes no empty message, and the model should know that one came.
            self.block(Side::User, &json!({"type": "text", "text": "(empty message)"}));
        }
    }

    fn tool(&mut self, message: &Message) {
        let id = self.ids.result(message.tool_call_id.as_deref().unwrap_or_default());
        let images = message.content.iter().any(|part| matches!(part, Part::Image { .. }));
        let content = if images {
            Value::Array(message.content.iter().filter_map(readable).collect())
        } else {
            let text = joined_text(&message.content);
            // An error without a text is refused.
            Value::String(if message.is_error && text.trim().is_empty() { "(no output)".to_owned() } else { text })
        };
        let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
        if message.is_error
            && let Some(block) = block.as_object_mut()
        {
            block.insert("is_error".to_owned(), Value::Bool(true));
        }
        self.block(Side::User, &block);
    }

    fn assistant(&mut self, message: &Message) {
        for part in &message.content {
            let block = match part {
                Part::Text(_) | Part::Image { .. } => readable(part),
                Part::Thinking(thinking) => self.thinking(thinking),
                Part::ToolCall(call) => Some(json!({
                    "type": "tool_use", "id": self.ids.call(&call.id), "name": word(&call.name, LONGEST_NAME),
                    "input": arguments(call),
                })),
            };
            if let Some(block) = block {
                self.block(Side::Assistant, &block);
            }
        }
    }

    /// Reasoning goes back to its author alone, and only with the proof that it is the author's.
    fn thinking(&self, thinking: &Thinking) -> Option<Value> {
        if thinking.author != self.author {
            return None;
        }
        match (&thinking.redacted, &thinking.signature) {
            (Some(data), _) => Some(json!({"type": "redacted_thinking", "data": data})),
            (None, Some(signature)) => {
                Some(json!({"type": "thinking", "thinking": thinking.text, "signature": signature}))
            }
            (None, None) => None,
        }
    }
}

/// A text or image block; `None` for text without a visible character, which the API refuses.
fn readable(part: &Part) -> Option<Value> {
    match part {
        Part::Image { media_type, data } => {
            Some(json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}))
        }
        part => text_of(part).filter(|text| !text.trim().is_empty()).map(|text| json!({"type": "text", "text": text})),
    }
}

impl Wire for AnthropicWire {
    fn push(&mut self, message: &Message) {
        match message.role {
            Role::User => self.user(message),
            Role::Tool => self.tool(message),
            Role::Assistant => self.assistant(message),
        }
    }

    fn body(&self, params: CallParams, mut body: Vec<u8>) -> Vec<u8> {
        body.clear();
        body.reserve(self.prefix.len() + self.history.len() + 128);
        body.extend_from_slice(self.prefix.bytes());
        let mut rest = self.history.bytes();
        let mut copied = 0;
        for at in [self.older, self.newest].into_iter().flatten() {
            if let Some((before, after)) = rest.split_at_checked(at.saturating_sub(copied)) {
                body.extend_from_slice(before);
                body.extend_from_slice(CACHE.as_bytes());
                rest = after;
                copied = at;
            }
        }
        body.extend_from_slice(rest);
        body.extend_from_slice(if self.open.is_some() { b"]}]" } else { b"]" });
        body.extend_from_slice(format!(",\"max_tokens\":{}}}", params.max_tokens).as_bytes());
        body
    }

    fn len(&self) -> usize {
        self.prefix.len() + self.history.len()
    }

    fn is_empty(&self) -> bool {
        self.open.is_none()
    }
}
