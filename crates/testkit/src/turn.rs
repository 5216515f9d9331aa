//! One scripted answer: what the model says, or how the provider fails.
//!
//! A turn is written once and rendered in the wire of the request that asks for it, so that one
//! script tests both drivers. A fault is part of the turn, because faults are tested in order too.

use bytes::Bytes;
use serde_json::Value;

use crate::Gate;

/// Token counts of one answer, as the vendors' usage blocks carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Input tokens that no cache was involved in.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cached: u64,
    /// Input tokens written to the cache; only the Anthropic wire tells.
    pub cache_write: u64,
    /// Output tokens spent on reasoning; only the OpenAI wire tells.
    pub thinking: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Say {
    Text(String),
    Thinking { text: String, signature: String },
    Redacted(String),
    Tool { id: Option<String>, name: String, arguments: String },
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// The model's words, streamed in the wire's own form.
    Model,
    /// A status with the vendor's error form, or with this body.
    Status { code: u16, kind: Option<String>, message: String },
    /// Exactly these bytes.
    Raw { code: u16, content_type: Option<String>, body: Bytes },
    /// The connection is closed without an answer.
    HangUp,
}

#[derive(Debug, Clone)]
pub(crate) enum Ending {
    Whole,
    /// The body ends, properly framed, after so many bytes.
    CutAt(usize),
    /// The connection breaks after so many bytes.
    ResetAt(usize),
    /// The words come, then the wire's error event instead of its end.
    Error {
        kind: String,
        message: String,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Split {
    Never,
    Every(usize),
    At(Vec<usize>),
}

/// One answer of a [`ModelServer`](crate::ModelServer).
#[derive(Debug, Clone)]
pub struct Turn {
    pub(crate) says: Vec<Say>,
    pub(crate) stop: Option<String>,
    pub(crate) tokens: Tokens,
    pub(crate) answer: Answer,
    pub(crate) ending: Ending,
    pub(crate) split: Split,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) before: Option<Gate>,
    pub(crate) midway: Option<(usize, Gate)>,
}

impl Turn {
    /// An answer that says nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            says: Vec::new(),
            stop: None,
            tokens: Tokens::default(),
            answer: Answer::Model,
            ending: Ending::Whole,
            split: Split::Never,
            headers: Vec::new(),
            before: None,
            midway: None,
        }
    }

    /// A failure with this HTTP status, in the error form of the request's wire.
    #[must_use]
    pub fn status(code: u16, message: impl Into<String>) -> Self {
        Self { answer: Answer::Status { code, kind: None, message: message.into() }, ..Self::new() }
    }

    /// Exactly this answer, whatever the wire.
    #[must_use]
    pub fn raw(code: u16, content_type: Option<&str>, body: impl Into<Bytes>) -> Self {
        let content_type = content_type.map(str::to_owned);
        Self { answer: Answer::Raw { code, content_type, body: body.into() }, ..Self::new() }
    }

    /// A 200 event stream of exactly these bytes.
    #[must_use]
    pub fn sse(body: impl Into<Bytes>) -> Self {
        Self::raw(200, Some("text/event-stream"), body)
    }

    /// The connection closes without an answer.
    #[must_use]
    pub fn hang_up() -> Self {
        Self { answer: Answer::HangUp, ..Self::new() }
    }

    /// The vendor's own error type (`overloaded_error`) or code of a [`Turn::status`].
    #[must_use]
    pub fn error_kind(mut self, name: impl Into<String>) -> Self {
        if let Answer::Status { kind, .. } = &mut self.answer {
            *kind = Some(name.into());
        }
        self
    }

    /// Says text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.say(Say::Text(text.into()))
    }

    /// Shows reasoning; the signature exists on the Anthropic wire alone.
    #[must_use]
    pub fn thinking(self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        self.say(Say::Thinking { text: text.into(), signature: signature.into() })
    }

    /// Reasoning in the opaque form; the OpenAI wire has none and leaves it out.
    #[must_use]
    pub fn redacted_thinking(self, data: impl Into<String>) -> Self {
        self.say(Say::Redacted(data.into()))
    }

    /// Asks for a tool, under an id that the server makes.
    #[must_use]
    pub fn tool(self, name: impl Into<String>, arguments: Value) -> Self {
        self.say(Say::Tool { id: None, name: name.into(), arguments: arguments.to_string() })
    }

    /// Asks for a tool under this id, with these bytes as arguments, be they JSON or not.
    #[must_use]
    pub fn tool_raw(self, id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.say(Say::Tool { id: Some(id.into()), name: name.into(), arguments: arguments.into() })
    }

    /// What the answer cost; zero unless said.
    #[must_use]
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// The stop or finish reason in the wire's own word, instead of the fitting one.
    #[must_use]
    pub fn stop(mut self, reason: impl Into<String>) -> Self {
        self.stop = Some(reason.into());
        self
    }

    /// A response header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Ends the body properly after `bytes` bytes, in the middle of whatever stands there.
    #[must_use]
    pub fn cut_at(mut self, bytes: usize) -> Self {
        self.ending = Ending::CutAt(bytes);
        self
    }

    /// Breaks the connection after `bytes` bytes of the body.
    #[must_use]
    pub fn reset_at(mut self, bytes: usize) -> Self {
        self.ending = Ending::ResetAt(bytes);
        self
    }

    /// Says its words, then the wire's error event instead of an end.
    #[must_use]
    pub fn then_error(mut self, kind: impl Into<String>, message: impl Into<String>) -> Self {
        self.ending = Ending::Error { kind: kind.into(), message: message.into() };
        self
    }

    /// Sends the body in pieces of `bytes` bytes, wherever that cuts.
    #[must_use]
    pub fn split_every(mut self, bytes: usize) -> Self {
        self.split = Split::Every(bytes.max(1));
        self
    }

    /// Sends the body in pieces that end at these byte positions.
    #[must_use]
    pub fn split_at(mut self, positions: impl IntoIterator<Item = usize>) -> Self {
        let mut positions: Vec<usize> = positions.into_iter().collect();
        positions.sort_unstable();
        positions.dedup();
        self.split = Split::At(positions);
        self
    }

    /// Sends nothing, no status either, before the gate opens.
    #[must_use]
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.before = Some(gate.clone());
        self
    }

    /// Stops after `bytes` bytes of the body until the gate opens.
    #[must_use]
    pub fn gate_at(mut self, bytes: usize, gate: &Gate) -> Self {
        self.midway = Some((bytes, gate.clone()));
        self
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.says.iter().any(|say| matches!(say, Say::Tool { .. }))
    }

    fn say(mut self, say: Say) -> Self {
        self.says.push(say);
        self
    }
}

impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}
