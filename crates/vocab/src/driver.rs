//! What a model provider's driver promises.
//!
//! A driver is two things: a [`Wire`], which keeps one conversation in the provider's own serialized
//! form and grows by one message at a time (so that a turn costs no more than copying bytes), and the
//! call itself, which streams [`Delta`]s and ends in one [`Reply`] or one typed [`DriverError`].
//! Retries are inside the call; a driver never sees a tool run, so a retry repeats no effect.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Message, Part, ToolSpec, TraceContext};

/// A boxed future, so that the traits here can be made into objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A model provider.
pub trait Driver: Send + Sync {
    /// The driver's name, as in the manifest and the trace: `anthropic`, `openai`, `scripted`.
    fn name(&self) -> &str;

    /// The model that answers.
    fn model(&self) -> &str;

    /// An empty conversation in this provider's form, under this system prompt and these tools.
    fn open(&self, system: &str, tools: &[ToolSpec]) -> Box<dyn Wire>;

    /// Sends the conversation and streams the answer. Dropping the future cancels the call.
    fn call<'a>(
        &'a self,
        wire: &'a dyn Wire,
        params: CallParams,
        sink: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Reply, DriverError>>;
}

/// One conversation in a provider's own serialized form.
pub trait Wire: Send + Sync {
    /// Appends a message. Every tool call of an earlier message must have its result before the
    /// next call; the runtime's history guarantees it.
    fn push(&mut self, message: &Message);

    /// The whole request body for these parameters. It stands in `buffer`, whose content is dropped and whose
    /// memory is used again: a long conversation's body is large, and new for each call.
    fn body(&self, params: CallParams, buffer: Vec<u8>) -> Vec<u8>;

    /// Bytes of the request without its parameters, for estimating its tokens: no body is built.
    fn len(&self) -> usize;

    /// Whether no message was pushed yet.
    fn is_empty(&self) -> bool;
}

/// What may differ from call to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallParams {
    /// Output cap of this call, in tokens.
    pub max_tokens: u32,
    /// The span that the call is, to be passed on with the request; nothing when nobody measures.
    pub traceparent: Option<TraceContext>,
}

/// A piece of an answer, as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// Text of the reply.
    Text(&'a str),
    /// Reasoning that the provider shows.
    Thinking(&'a str),
    /// The model begins to ask for a tool.
    ToolCallStarted {
        /// The provider's id of the call.
        id: &'a str,
        /// The tool's name.
        name: &'a str,
    },
    /// An attempt failed and the call starts over: what came before is void.
    Restarted {
        /// Why the attempt failed.
        error: &'a DriverError,
        /// How long the driver waits before the next one.
        delay: Duration,
        /// The number of the attempt that follows, from 2.
        attempt: u32,
    },
}

/// Where deltas go. It must not block: a slow reader is the reader's problem.
pub trait DeltaSink: Send {
    /// Takes one piece.
    fn delta(&mut self, delta: Delta<'_>);
}

impl<F: FnMut(Delta<'_>) + Send> DeltaSink for F {
    fn delta(&mut self, delta: Delta<'_>) {
        self(delta);
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It said all it had to say.
    EndTurn,
    /// It waits for tool results.
    ToolUse,
    /// It reached the output cap.
    MaxTokens,
    /// It met a stop sequence.
    StopSequence,
    /// The provider's model refused to answer.
    Refusal,
    /// The provider paused a long turn; the same history is sent again to go on.
    PauseTurn,
}

impl StopReason {
    /// The reason as it stands in the trace.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::PauseTurn => "pause_turn",
        }
    }
}

/// Tokens, as the provider counts them. `None`: the provider did not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input_tokens: u64,
    /// All output tokens, thinking included.
    pub output_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    pub cached_tokens: Option<u64>,
    /// Input tokens that were written to the provider's cache.
    pub cache_write_tokens: Option<u64>,
    /// Output tokens that were spent on reasoning.
    pub thinking_tokens: Option<u64>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Text, thinking and tool calls, in the model's order.
    pub content: Vec<Part>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it cost.
    pub usage: Usage,
    /// The provider's id of the answer, where it gives one.
    pub provider_id: Option<String>,
    /// How many attempts it took, from 1.
    pub attempts: u32,
}

/// The kinds of failure that a caller tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverErrorKind {
    /// The credential was refused.
    Auth,
    /// Too many requests.
    RateLimit,
    /// The provider is overloaded.
    Overloaded,
    /// The provider refused the request as it stands.
    InvalidRequest,
    /// The conversation no longer fits the model's window.
    ContextTooLong,
    /// The connection failed.
    Network,
    /// The answer is not in the provider's own form.
    BadResponse,
    /// The answer broke off.
    CutStream,
    /// The provider failed by its own account (5xx).
    Server,
    /// The scripted driver alone: the run has left its script.
    Script,
    /// A subagent alone: what the call could cost would pass the spend ceiling of a session above it.
    SpendCeiling,
}

impl DriverErrorKind {
    /// The kind as it stands in the trace.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::InvalidRequest => "invalid_request",
            Self::ContextTooLong => "context_too_long",
            Self::Network => "network",
            Self::BadResponse => "bad_response",
            Self::CutStream => "cut_stream",
            Self::Server => "server",
            Self::Script => "script",
            Self::SpendCeiling => "spend_ceiling",
        }
    }
}

/// A call that failed for good, or one attempt of it that did.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DriverError {
    /// What kind of failure.
    pub kind: DriverErrorKind,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// One sentence, lower-case; what the provider said is cut and made printable.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl DriverError {
    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self.kind {
            DriverErrorKind::Auth => "check the credential that the driver's `gateway.api_key` names",
            DriverErrorKind::RateLimit | DriverErrorKind::Overloaded | DriverErrorKind::Server => {
                "try again later, or raise `inference.retry.max_retries`"
            }
            DriverErrorKind::InvalidRequest => {
                "check `inference.model` and `inference.max_tokens` against the provider's documentation"
            }
            DriverErrorKind::ContextTooLong => {
                "start a new conversation, or choose a model with a larger context window"
            }
            DriverErrorKind::Network => {
                "is the server running at that base URL (`gateway.endpoint`), and can this host reach it?"
            }
            DriverErrorKind::BadResponse => "check that `gateway.endpoint` speaks the driver's protocol",
            DriverErrorKind::Script => "correct the script, or run it in the workdir that it was written for",
            DriverErrorKind::SpendCeiling => "raise `inference.max_session_tokens`, or give the subagent less to do",
            DriverErrorKind::CutStream => "the provider broke the answer off each time; try again later",
        }
    }
}
