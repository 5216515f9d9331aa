//! What a subagent asks of the session above: what holds, and answers of a model.
//!
//! Each call goes out by this session's own driver, in the settings and with the credential of that moment, and is
//! admitted to this session's spend ceiling. What is secret here is taken out of it first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use policy::Compiled;
use secrets::Secret;
use tokio::task::AbortHandle;
use vocab::{CallParams, Delta, DriverError, DriverErrorKind, Message, Part, Reply};

use super::family::Family;
use super::lines::Sender;
use super::wire::{self, Conversation, FaultSpec, LayerSpec, Now, ReplySpec, RequestSpec, ToChild, exposed, span};
use crate::gauge::{Gauge, Size};
use crate::outbox::millis;
use crate::relay::redacted;
use crate::scrub;

/// The session above, as it serves one subagent.
pub(super) struct Served {
    family: Arc<Family>,
    sender: Sender,
    told: Mutex<ToldState>,
    calls: Mutex<HashMap<u64, AbortHandle>>,
    /// Answers of a model that it and those below it got.
    pub(super) turns: AtomicU32,
    pub(super) tokens: Mutex<(u64, u64)>,
}

/// What the subagent was told already.
pub(super) struct ToldState {
    pub(super) secrets: usize,
    pub(super) injected: Vec<(String, Option<Secret>)>,
    pub(super) layers: Arc<Compiled>,
}

impl Served {
    /// `told` is what it was told at its start.
    pub(super) fn new(family: &Arc<Family>, sender: Sender, told: ToldState) -> Self {
        Self {
            family: Arc::clone(family),
            sender,
            told: Mutex::new(told),
            calls: Mutex::default(),
            turns: AtomicU32::new(0),
            tokens: Mutex::default(),
        }
    }

    fn told(&self) -> MutexGuard<'_, ToldState> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something, after what is to be hidden of it.
    fn say(&self, what: &ToChild) {
        let mut told = self.told();
        self.say_under(&mut told, what);
    }

    fn say_under(&self, told: &mut ToldState, what: &ToChild) {
        self.share(told);
        self.sender.send(what);
    }

    /// Tells what is to be hidden and was not told yet.
    fn share(&self, told: &mut ToldState) {
        let redactor = self.family.outbox.redactor();
        // What is injected is to be hidden first.
        let injected = self.family.control.vault().values();
        if redactor.known() > told.secrets {
            let fresh = redactor.learned_after(told.secrets);
            told.secrets += fresh.len();
            self.sender.send(&ToChild::Secrets(exposed(&fresh)));
        }
        if injected != told.injected {
            self.sender.send(&ToChild::Injected(wire::injected(&injected)));
            told.injected = injected;
        }
    }

    /// The same, while nothing is asked: a command of the subagent may run for long.
    pub(super) fn refresh(&self) {
        self.share(&mut self.told());
    }

    /// Says what holds now.
    pub(super) async fn boundaries(&self, id: u64) {
        let current = self.family.delegation.boundaries.current().await;
        let mut told = self.told();
        let now = match current {
            Err(unreadable) => Now::Unreadable(unreadable.why().to_owned()),
            Ok(layers) if layers.is_same(&told.layers) => Now::Same,
            Ok(layers) => {
                let all = LayerSpec::all(&layers);
                told.layers = layers;
                Now::Layers(all)
            }
        };
        self.say_under(&mut told, &ToChild::Boundaries { id, now });
    }

    /// A call is under way.
    pub(super) fn under_way(&self, id: u64, call: AbortHandle) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|_, call| !call.is_finished());
        calls.insert(id, call);
    }

    /// Its answer is not wanted any more.
    pub(super) fn give_up(&self, id: u64) {
        if let Some(call) = self.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&id) {
            call.abort();
        }
    }

    /// Has a model answer.
    pub(super) async fn infer(&self, id: u64, request: RequestSpec) {
        let redactor = self.family.outbox.redactor();
        let no_reply = |error: &DriverError| ToChild::NoReply { id, error: FaultSpec::from(error) };
        match self.answer(id, request).await {
            Ok(reply) => {
                self.turns.fetch_add(1, Ordering::Relaxed);
                let reply = ReplySpec::new(reply, redactor).map(|reply| ToChild::Reply { id, reply });
                self.say(&reply.unwrap_or_else(|| no_reply(&unreadable("the answer cannot be told to the subagent"))));
            }
            Err(error) => self.say(&no_reply(&redacted(error, redactor))),
        }
    }

    async fn answer(&self, id: u64, request: RequestSpec) -> Result<Reply, DriverError> {
        let family = &self.family;
        let redactor = family.outbox.redactor();
        let read = || {
            let Conversation { system, tools, messages } = serde_json::from_str(request.body.get()).ok()?;
            let conversation = Conversation { system: String::new(), tools: Vec::new(), messages };
            Some((system, tools, conversation.read()?))
        };
        let (system, tools, mut messages) =
            read().ok_or_else(|| unreadable("the subagent's request cannot be read"))?;
        scrub::history(&mut messages, redactor);
        let driver = family.driver(request.choice.as_deref());
        let driver = driver.ok_or_else(|| unreadable("the subagent asks for a driver choice that there is none of"))?;
        let mut wire = driver.open(redactor.redact(&system).as_str(), &tools);
        messages.iter().for_each(|message| wire.push(message));
        let input = Gauge::default().tokens(size(wire.len(), &messages), None);
        // A controller's cap holds for subagents as well.
        let max_tokens = request.max_tokens.min(family.control.snapshot().max_tokens);
        let admitted = family.spend.admit(input, max_tokens)?;
        let traceparent = span(request.traceparent.as_deref());
        let mut sink = |delta: Delta<'_>| {
            if let Delta::Restarted { error, delay, attempt } = delta {
                let error = FaultSpec::from(&redacted(error.clone(), redactor));
                self.say(&ToChild::Restarted { id, error, delay_ms: millis(delay), attempt });
            }
        };
        let answer = driver.call(wire.as_ref(), CallParams { max_tokens, traceparent }, &mut sink).await;
        let mut reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                admitted.failed();
                return Err(error);
            }
        };
        admitted.cost(reply.usage);
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.0 = tokens.0.saturating_add(reply.usage.input_tokens);
        tokens.1 = tokens.1.saturating_add(reply.usage.output_tokens);
        drop(tokens);
        reply.content = scrub::scrub(reply.content, redactor);
        Ok(reply)
    }
}

fn unreadable(message: &str) -> DriverError {
    let kind = DriverErrorKind::BadResponse;
    DriverError { kind, status: None, message: message.to_owned(), retry_after: None, retryable: false }
}

/// What the request weighs, its images apart.
fn size(bytes: usize, messages: &[Message]) -> Size {
    let parts = messages.iter().flat_map(|message| &message.content);
    let images = parts.filter_map(|part| match part {
        Part::Image { data, .. } => Some(data.len()),
        Part::Text(_) | Part::Thinking(_) | Part::ToolCall(_) => None,
    });
    let (count, of_images) = images.fold((0, 0_usize), |(count, sum), bytes| (count + 1, sum.saturating_add(bytes)));
    Size { bytes: bytes.saturating_sub(of_images), images: count }
}
