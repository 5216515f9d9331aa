//! A conversation in the Chat Completions form.
//!
//! A tool message holds text alone, so images that tools return follow in one user message after the
//! last of them. Until then they wait outside the stored bytes, because every tool message must stand
//! directly behind its assistant message.

use serde_json::{Map, Value, json};
use vocab::{CallParams, Message, Part, Role, ToolSpec, Wire};

use crate::wire::{CallIds, Json, arguments, extras, joined_text, text_of, word};

const LONGEST_ID: usize = 40;
const LONGEST_NAME: usize = 64;

pub(super) struct OpenAiWire {
    cap: &'static str,
    prefix: Json,
    /// Every message with a comma before it, unless it is the first of the request.
    history: Json,
    /// Whether the prefix holds a system message.
    system: bool,
    /// Parts of the user message that will carry images of tool results.
    images: Vec<Value>,
    ids: CallIds,
}

impl OpenAiWire {
    pub(super) fn new(
        model: &str,
        request: &Map<String, Value>,
        cap: &'static str,
        system: &str,
        tools: &[ToolSpec],
    ) -> Self {
        let mut prefix = Json::default();
        prefix.raw("{\"model\":").value(model);
        prefix.raw(",\"stream\":true,\"stream_options\":{\"include_usage\":true},");
        extras(&mut prefix, request);
        if !tools.is_empty() {
            let functions: Vec<Value> = tools
                .iter()
                .map(|tool| {
                    json!({"type": "function", "function":
                        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}})
                })
                .collect();
            prefix.raw("\"tools\":").value(&functions).raw(",");
        }
        prefix.raw("\"messages\":[");
        let system = if system.trim().is_empty() {
            false
        } else {
            prefix.value(&json!({"role": "system", "content": system}));
            true
        };
        Self { cap, prefix, history: Json::default(), system, images: Vec::new(), ids: CallIds::new(LONGEST_ID) }
    }

    fn message(&mut self, message: &Value) {
        if self.system || self.history.len() > 0 {
            self.history.raw(",");
        }
        self.history.value(message);
    }

    fn tool(&mut self, message: &Message) {
        let call = message.tool_call_id.as_deref().unwrap_or_default();
        let id = self.ids.result(call);
        self.message(&json!({"role": "tool", "tool_call_id": id, "content": joined_text(&message.content)}));
        let images: Vec<Value> = message.content.iter().filter_map(image).collect();
        if !images.is_empty() {
            self.images.push(json!({"type": "text", "text": format!("Returned by the tool call {id}:")}));
            self.images.extend(images);
        }
    }

    fn user(&mut self, message: &Message) {
        if message.content.iter().any(|part| matches!(part, Part::Image { .. })) {
            let parts: Vec<Value> = message
                .content
                .iter()
                .filter_map(|part| {
                    image(part).or_else(|| text_of(part).map(|text| json!({"type": "text", "text": text})))
                })
                .collect();
            self.message(&json!({"role": "user", "content": parts}));
        } else {
            // A plain string, because some servers' templates take nothing else.
            self.message(&json!({"role": "user", "content": joined_text(&message.content)}));
        }
    }

    fn assistant(&mut self, message: &Message) {
        let text = joined_text(&message.content);
        let calls: Vec<Value> = message
            .tool_calls()
            .map(|call| {
                json!({"id": self.ids.call(&call.id), "type": "function", "function":
                    {"name": word(&call.name, LONGEST_NAME), "arguments": arguments(call).to_string()}})
            })
            .collect();
        match (text.is_empty(), calls.is_empty()) {
            // An answer without a word is refused by some servers and tells the model nothing.
            (true, true) => {}
            (_, true) => self.message(&json!({"role": "assistant", "content": text})),
            (true, false) => self.message(&json!({"role": "assistant", "content": null, "tool_calls": calls})),
            (false, false) => self.message(&json!({"role": "assistant", "content": text, "tool_calls": calls})),
        }
    }

    fn waiting(&self) -> Option<Value> {
        (!self.images.is_empty()).then(|| json!({"role": "user", "content": self.images}))
    }
}

fn image(part: &Part) -> Option<Value> {
    match part {
        Part::Image { media_type, data } => {
            Some(json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{data}")}}))
        }
        Part::Text(_) | Part::Thinking(_) | Part::ToolCall(_) => None,
    }
}

impl Wire for OpenAiWire {
    fn push(&mut self, message: &Message) {
        if message.role != Role::Tool
            && let Some(images) = self.waiting()
        {
            self.message(&images);
            self.images.clear();
        }
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
        body.extend_from_slice(self.history.bytes());
        if let Some(images) = self.waiting() {
            // Images follow tool messages, so this is never the first message.
            body.extend_from_slice(b",");
            body.extend_from_slice(images.to_string().as_bytes());
        }
        body.extend_from_slice(format!("],\"{}\":{}}}", self.cap, params.max_tokens).as_bytes());
        body
    }

    fn len(&self) -> usize {
        self.prefix.len() + self.history.len() + self.waiting().map_or(0, |images| images.to_string().len())
    }

    fn is_empty(&self) -> bool {
        self.history.len() == 0
    }
}
