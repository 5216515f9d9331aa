//! The Chat Completions event stream, in the variations that real servers send.
//!
//! The rule for what is one tool call: a known `index` goes on with its call unless a different id
//! comes with it; without an index, a new id or a new name begins a call, and the rest belongs to the
//! last one. An answer is whole once a `finish_reason` or `[DONE]` came; usage follows, or does not.

use serde::Deserialize;
use serde_json::{Number, Value};
use vocab::{Delta, DeltaSink, Part, Reply, StopReason, Usage};

use crate::exchange::{Decoder, Step};
use crate::failure::Fault;
use crate::reply::{self, Calls, count, settle};
use crate::sse::Event;

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Counts>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Change>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Change {
    content: Option<Content>,
    reasoning_content: Option<String>,
    reasoning: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallChange>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
struct ContentPart {
    text: Option<String>,
}

#[derive(Deserialize)]
struct CallChange {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Counts {
    prompt_tokens: Option<Number>,
    completion_tokens: Option<Number>,
    prompt_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
    prompt_cache_hit_tokens: Option<Number>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<Number>,
    reasoning_tokens: Option<Number>,
}

enum Piece {
    Text(String),
    Thinking(String),
    Call(Call),
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    /// The provider's id, or ours where it gives none.
    id: String,
    name: String,
    arguments: String,
    announced: bool,
}

impl Call {
    fn is_complete(&self) -> bool {
        serde_json::from_str::<serde_json::Map<String, Value>>(&self.arguments).is_ok()
    }
}

pub(super) struct OpenAiDecoder {
    author: String,
    id: Option<String>,
    pieces: Vec<Piece>,
    calls: Calls,
    stop: Option<StopReason>,
    refused: bool,
    usage: Option<Usage>,
    done: bool,
}

impl OpenAiDecoder {
    pub(super) fn new(author: &str) -> Self {
        Self {
            author: author.to_owned(),
            id: None,
            pieces: Vec::new(),
            calls: Calls::default(),
            stop: None,
            refused: false,
            usage: None,
            done: false,
        }
    }

    fn change(&mut self, change: Change, sink: &mut dyn DeltaSink) -> Result<(), Fault> {
        let reasoning = change.reasoning_content.or(match change.reasoning {
            Some(Value::String(text)) => Some(text),
            _ => None,
        });
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            sink.delta(Delta::Thinking(&text));
            match self.pieces.last_mut() {
                Some(Piece::Thinking(before)) => before.push_str(&text),
                _ => self.pieces.push(Piece::Thinking(text)),
            }
        }
        let content = match change.content {
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).collect(),
            None => String::new(),
        };
        self.text(content, sink);
        if let Some(refusal) = change.refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            self.text(refusal, sink);
        }
        for call in change.tool_calls.unwrap_or_default() {
            self.call(call, sink)?;
        }
        Ok(())
    }

    fn text(&mut self, text: String, sink: &mut dyn DeltaSink) {
        if text.is_empty() {
            return;
        }
        sink.delta(Delta::Text(&text));
        match self.pieces.last_mut() {
            Some(Piece::Text(before)) => before.push_str(&text),
            _ => self.pieces.push(Piece::Text(text)),
        }
    }

    fn call(&mut self, change: CallChange, sink: &mut dyn DeltaSink) -> Result<(), Fault> {
        let id = change.id.filter(|id| !id.is_empty());
        let (name, arguments) = match change.function {
            Some(function) => (function.name.filter(|name| !name.is_empty()), function.arguments),
            None => (None, None),
        };
        // Whole calls under one index and without ids: a name comes again though the input is complete.
        let whole = name.is_some() && arguments.as_ref().is_some_and(|value| value.as_str() != Some(""));
        let open = self.pieces.iter_mut().rev().filter_map(|piece| match piece {
            Piece::Call(call) => Some(call),
            Piece::Text(_) | Piece::Thinking(_) => None,
        });
        let known = open.take(64).find(|call| match (change.index, &id) {
            (Some(index), Some(id)) => call.index == Some(index) && (!call.announced || *id == call.id),
            (Some(index), None) => call.index == Some(index) && !(whole && call.is_complete()),
            (None, Some(id)) => *id == call.id,
            (None, None) => name.is_none() || call.name.is_empty(),
        });
        let call = match known {
            Some(call) => call,
            None => {
                self.pieces.push(Piece::Call(Call { index: change.index, ..Call::default() }));
                match self.pieces.last_mut() {
                    Some(Piece::Call(call)) => call,
                    _ => return Ok(()),
                }
            }
        };
        if call.announced {
            // Some servers repeat the name with every fragment; a call has one.
            if name.is_some_and(|name| name != call.name) {
                return Err(Fault::bad("changed the name of the tool call `").quoting(call.id.as_str(), 40, "`"));
            }
        } else {
            call.id = id.unwrap_or_else(|| std::mem::take(&mut call.id));
            call.name = name.unwrap_or_else(|| std::mem::take(&mut call.name));
            if !call.name.is_empty() {
                if call.id.is_empty() {
                    call.id = format!("call_{}", uuid::Uuid::now_v7().simple());
                }
                self.calls.admit(&call.id, &call.name)?;
                sink.delta(Delta::ToolCallStarted { id: &call.id, name: &call.name });
                call.announced = true;
            }
        }
        match arguments {
            Some(Value::String(fragment)) => call.arguments.push_str(&fragment),
            Some(Value::Null) | None => {}
            Some(whole) => call.arguments.push_str(&whole.to_string()),
        }
        Ok(())
    }

    fn counts(&mut self, counts: &Counts) -> Result<(), Fault> {
        let detail =
            |details: &Option<Details>, pick: fn(&Details) -> Option<&Number>| count(details.as_ref().and_then(pick));
        let cached = detail(&counts.prompt_tokens_details, |details| details.cached_tokens.as_ref())?;
        self.usage = Some(Usage {
            input_tokens: count(counts.prompt_tokens.as_ref())?.unwrap_or(0),
            output_tokens: count(counts.completion_tokens.as_ref())?.unwrap_or(0),
            cached_tokens: cached.or(count(counts.prompt_cache_hit_tokens.as_ref())?),
            cache_write_tokens: None,
            thinking_tokens: detail(&counts.completion_tokens_details, |details| details.reasoning_tokens.as_ref())?,
        });
        Ok(())
    }
}

/// The reason, or a failure that the server reports as one.
fn finish(word: &str) -> Result<StopReason, Fault> {
    Ok(match word {
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" | "max_tokens" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        "error" => return Err(Fault::new(vocab::DriverErrorKind::Server, "ended the answer with an error")),
        _ => StopReason::EndTurn,
    })
}

impl Decoder for OpenAiDecoder {
    fn event(&mut self, event: &Event<'_>, sink: &mut dyn DeltaSink) -> Result<Step, Fault> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Step::Whole);
        }
        if event.name == "error" {
            let error: Value =
                serde_json::from_str(event.data).unwrap_or_else(|_| Value::String(event.data.to_owned()));
            return Err(Fault::of_error(error.get("error").unwrap_or(&error)));
        }
        let chunk: Chunk = serde_json::from_str(event.data).map_err(|error| {
            Fault::bad("sent an event that is not in its form: ").quoting(error.to_string(), 120, "")
        })?;
        if let Some(error) = chunk.error {
            return Err(Fault::of_error(&error));
        }
        if self.id.is_none() {
            self.id = chunk.id.filter(|id| !id.is_empty());
        }
        let mut step = Step::Nothing;
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index != 0 {
                continue;
            }
            step = Step::Part;
            if let Some(change) = choice.delta {
                self.change(change, sink)?;
            }
            if let Some(word) = choice.finish_reason.filter(|word| !word.is_empty()) {
                self.stop = Some(finish(&word)?);
            }
        }
        if let Some(counts) = chunk.usage {
            step = Step::Part;
            self.counts(&counts)?;
        }
        Ok(step)
    }

    fn may_end(&self) -> bool {
        self.done || self.stop.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Reply, Fault> {
        let author = self.author;
        let mut content: Vec<Part> = Vec::new();
        for piece in self.pieces {
            match piece {
                Piece::Text(text) => content.extend(reply::text(text)),
                Piece::Thinking(text) => content.extend(reply::thinking(text, None, &author)),
                Piece::Call(call) if !call.announced => return Err(Fault::bad("asked for a tool without a name")),
                Piece::Call(call) => content.push(reply::call(call.id, call.name, &call.arguments)),
            }
        }
        if content.is_empty() && self.stop.is_none() {
            return Err(reply::none());
        }
        let stop = if self.refused { StopReason::Refusal } else { self.stop.unwrap_or(StopReason::EndTurn) };
        let stop = settle(&mut content, stop);
        Ok(Reply { content, stop, usage: self.usage.unwrap_or_default(), provider_id: self.id, attempts: 1 })
    }
}
