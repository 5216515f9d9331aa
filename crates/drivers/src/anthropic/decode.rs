//! The Messages API's event stream.
//!
//! Events and blocks of unknown types are left out, as the API's versioning rules ask; what is known
//! must be in its form. An answer is whole only with `message_stop`.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Number, Value};
use vocab::{Delta, DeltaSink, Part, Reply, StopReason, Thinking, Usage};

use crate::exchange::{Decoder, Step};
use crate::failure::Fault;
use crate::reply::{self, Calls, count, settle};
use crate::sse::Event;

#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Start>,
    index: Option<u64>,
    content_block: Option<Block>,
    delta: Option<Change>,
    usage: Option<Counts>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Start {
    id: Option<String>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Change {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Counts {
    input_tokens: Option<Number>,
    output_tokens: Option<Number>,
    cache_read_input_tokens: Option<Number>,
    cache_creation_input_tokens: Option<Number>,
}

enum Building {
    Text(String),
    Thinking { text: String, signature: String },
    Redacted(String),
    Tool { id: String, name: String, input: Map<String, Value>, json: String },
    Unknown,
}

#[derive(Default)]
struct Tokens {
    input: u64,
    output: u64,
    read: Option<u64>,
    written: Option<u64>,
}

pub(super) struct AnthropicDecoder {
    author: String,
    id: Option<String>,
    blocks: Vec<Building>,
    places: HashMap<u64, usize>,
    calls: Calls,
    stop: Option<StopReason>,
    tokens: Tokens,
    stopped: bool,
}

impl AnthropicDecoder {
    pub(super) fn new(author: &str) -> Self {
        Self {
            author: author.to_owned(),
            id: None,
            blocks: Vec::new(),
            places: HashMap::new(),
            calls: Calls::default(),
            stop: None,
            tokens: Tokens::default(),
            stopped: false,
        }
    }

    fn usage(&mut self, counts: &Counts) -> Result<(), Fault> {
        let tokens = &mut self.tokens;
        // Later counts are totals, not differences, and may leave fields out.
        tokens.input = count(counts.input_tokens.as_ref())?.unwrap_or(tokens.input);
        tokens.output = count(counts.output_tokens.as_ref())?.unwrap_or(tokens.output);
        tokens.read = count(counts.cache_read_input_tokens.as_ref())?.or(tokens.read);
        tokens.written = count(counts.cache_creation_input_tokens.as_ref())?.or(tokens.written);
        Ok(())
    }

    fn start_block(&mut self, index: u64, block: Block, sink: &mut dyn DeltaSink) -> Result<(), Fault> {
        let building = match block.kind.as_str() {
            "text" => {
                let text = block.text.unwrap_or_default();
                if !text.is_empty() {
                    sink.delta(Delta::Text(&text));
                }
                Building::Text(text)
            }
            "thinking" => {
                let text = block.thinking.unwrap_or_default();
                if !text.is_empty() {
                    sink.delta(Delta::Thinking(&text));
                }
                Building::Thinking { text, signature: block.signature.unwrap_or_default() }
            }
            "redacted_thinking" => Building::Redacted(block.data.unwrap_or_default()),
            "tool_use" => {
                let (id, name) = (block.id.unwrap_or_default(), block.name.unwrap_or_default());
                self.calls.admit(&id, &name)?;
                sink.delta(Delta::ToolCallStarted { id: &id, name: &name });
                Building::Tool { id, name, input: block.input.unwrap_or_default(), json: String::new() }
            }
            _ => Building::Unknown,
        };
        if self.places.insert(index, self.blocks.len()).is_some() {
            return Err(Fault::bad(format!("began content block {index} twice")));
        }
        self.blocks.push(building);
        Ok(())
    }

    fn change_block(&mut self, index: u64, change: Change, sink: &mut dyn DeltaSink) -> Result<(), Fault> {
        let place = self.places.get(&index).and_then(|place| self.blocks.get_mut(*place));
        let Some(block) = place else {
            return Err(Fault::bad(format!("went on with content block {index}, which it never began")));
        };
        match (block, change.kind.as_deref().unwrap_or_default()) {
            (Building::Text(text), "text_delta") => {
                let more = change.text.unwrap_or_default();
                sink.delta(Delta::Text(&more));
                text.push_str(&more);
            }
            (Building::Thinking { text, .. }, "thinking_delta") => {
                let more = change.thinking.unwrap_or_default();
                sink.delta(Delta::Thinking(&more));
                text.push_str(&more);
            }
            (Building::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(&change.signature.unwrap_or_default())
            }
            (Building::Tool { json, .. }, "input_json_delta") => {
                json.push_str(&change.partial_json.unwrap_or_default())
            }
            (_, "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta") => {
                return Err(Fault::bad(format!("mixed two kinds of content in block {index}")));
            }
            _ => {}
        }
        Ok(())
    }
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        "pause_turn" => StopReason::PauseTurn,
        _ => StopReason::EndTurn,
    }
}

impl Decoder for AnthropicDecoder {
    fn event(&mut self, event: &Event<'_>, sink: &mut dyn DeltaSink) -> Result<Step, Fault> {
        let frame: Frame = serde_json::from_str(event.data).map_err(|error| {
            Fault::bad("sent an event that is not in its form: ").quoting(error.to_string(), 120, "")
        })?;
        let missing =
            |what: &str| Fault::bad("sent a `").quoting(frame.kind.as_str(), 40, format!("` event without its {what}"));
        match frame.kind.as_str() {
            "message_start" => {
                let start = frame.message.ok_or_else(|| missing("message"))?;
                self.id = start.id;
                self.usage(&start.usage.unwrap_or_default())?;
            }
            "content_block_start" => {
                let index = frame.index.ok_or_else(|| missing("index"))?;
                let block = frame.content_block.ok_or_else(|| missing("block"))?;
                self.start_block(index, block, sink)?;
            }
            "content_block_delta" => {
                let index = frame.index.ok_or_else(|| missing("index"))?;
                let change = frame.delta.ok_or_else(|| missing("delta"))?;
                self.change_block(index, change, sink)?;
            }
            "message_delta" => {
                let stop = frame.delta.and_then(|delta| delta.stop_reason);
                self.stop = stop.as_deref().map(stop_reason).or(self.stop);
                self.usage(&frame.usage.unwrap_or_default())?;
            }
            "message_stop" => {
                self.stopped = true;
                return Ok(Step::Whole);
            }
            "error" => return Err(Fault::of_error(&frame.error.unwrap_or(Value::Null))),
            // A ping, or an event of tomorrow.
            _ => return Ok(Step::Nothing),
        }
        Ok(Step::Part)
    }

    fn may_end(&self) -> bool {
        self.stopped
    }

    fn finish(self: Box<Self>) -> Result<Reply, Fault> {
        let author = self.author;
        let mut content: Vec<Part> = self
            .blocks
            .into_iter()
            .filter_map(|block| match block {
                Building::Text(text) => reply::text(text),
                Building::Thinking { text, signature } => {
                    reply::thinking(text, Some(signature).filter(|signature| !signature.is_empty()), &author)
                }
                Building::Redacted(data) => Some(Part::Thinking(Thinking {
                    text: String::new(),
                    signature: None,
                    redacted: Some(data),
                    author: author.clone(),
                })),
                Building::Tool { id, name, input, json } => {
                    // Some compatible servers give the whole input with the block's start.
                    let whole =
                        if json.is_empty() && !input.is_empty() { Value::Object(input).to_string() } else { json };
                    Some(reply::call(id, name, &whole))
                }
                Building::Unknown => None,
            })
            .collect();
        if content.is_empty() && self.stop.is_none() {
            return Err(reply::none());
        }
        let tokens = self.tokens;
        let stop = settle(&mut content, self.stop.unwrap_or(StopReason::EndTurn));
        Ok(Reply {
            content,
            stop,
            usage: Usage {
                input_tokens: tokens
                    .input
                    .saturating_add(tokens.read.unwrap_or(0))
                    .saturating_add(tokens.written.unwrap_or(0)),
                output_tokens: tokens.output,
                cached_tokens: tokens.read,
                cache_write_tokens: tokens.written,
                thinking_tokens: None,
            },
            provider_id: self.id,
            attempts: 1,
        })
    }
}
