//! A driver whose model is the session above's.
//!
//! The conversation crosses whole at each call: the session above keeps none of it, so that what it redacts and what
//! it spends rests on the very request that it sends.

use std::sync::Arc;
use std::time::Duration;

use record::message_line;
use secrets::Redactor;
use serde_json::value::RawValue;
use vocab::{
    BoxFuture, CallParams, Delta, DeltaSink, Driver, DriverError, DriverErrorKind, Message, Reply, ToolSpec, Wire,
};

use super::link::{Answer, Shared};
use super::wire::{FromChild, ModelSpec, RequestSpec};

pub(super) struct RemoteDriver {
    link: Arc<Shared>,
    name: String,
    model: String,
    /// The choice to ask for; whatever the session above uses when absent.
    choice: Option<String>,
}

impl RemoteDriver {
    pub(super) fn new(link: Arc<Shared>, spec: &ModelSpec) -> Self {
        let choice = spec.fixed.then(|| spec.choice.clone());
        Self { link, name: spec.driver.clone(), model: spec.model.clone(), choice }
    }
}

/// Takes its question back when it is dropped before the answer.
struct Asked<'a>(&'a Shared, u64);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.0.forget(self.1) {
            self.0.say(&FromChild::GiveUp { id: self.1 });
        }
    }
}

impl Driver for RemoteDriver {
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn open(&self, system: &str, tools: &[ToolSpec]) -> Box<dyn Wire> {
        let system = serde_json::to_string(system).unwrap_or_default();
        let tools = serde_json::to_string(tools).unwrap_or_default();
        let head = format!(r#"{{"system":{system},"tools":{tools},"messages":["#);
        Box::new(RemoteWire { begun: head.len(), body: head.into_bytes() })
    }

    fn call<'a>(
        &'a self,
        wire: &'a dyn Wire,
        params: CallParams,
        sink: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Reply, DriverError>> {
        Box::pin(async move {
            let body = String::from_utf8(wire.body(params, Vec::new())).ok();
            let body = body.and_then(|body| RawValue::from_string(body).ok());
            let body = body.ok_or_else(|| fault("the conversation cannot be told to the session above"))?;
            let request = RequestSpec {
                choice: self.choice.clone(),
                max_tokens: params.max_tokens,
                traceparent: params.traceparent.map(|span| span.to_string()),
                body,
            };
            let (id, mut answers) = self.link.ask(|id| FromChild::Infer { id, request });
            let _asked = Asked(&self.link, id);
            loop {
                match answers.recv().await {
                    Some(Answer::Restarted { error, delay_ms, attempt }) => {
                        let (error, delay) = (error.into(), Duration::from_millis(delay_ms));
                        sink.delta(Delta::Restarted { error: &error, delay, attempt });
                    }
                    Some(Answer::Reply(reply)) => {
                        return reply
                            .read()
                            .ok_or_else(|| fault("the session above sent an answer that cannot be read"));
                    }
                    Some(Answer::NoReply(error)) => return Err(error.into()),
                    Some(Answer::Boundaries(_)) | None => return Err(fault("the session above is gone")),
                }
            }
        })
    }
}

fn fault(message: &str) -> DriverError {
    let kind = DriverErrorKind::Network;
    DriverError { kind, status: None, message: message.to_owned(), retry_after: None, retryable: false }
}

/// A conversation as it crosses, but for its end.
struct RemoteWire {
    body: Vec<u8>,
    /// Where the messages begin.
    begun: usize,
}

impl Wire for RemoteWire {
    fn push(&mut self, message: &Message) {
        if !self.is_empty() {
            self.body.push(b',');
        }
        // What it keeps secret was taken out before.
        self.body.append(&mut message_line(message, &Redactor::new()));
    }

    fn body(&self, _params: CallParams, mut buffer: Vec<u8>) -> Vec<u8> {
        buffer.clear();
        buffer.extend_from_slice(&self.body);
        buffer.extend_from_slice(b"]}");
        buffer
    }

    fn len(&self) -> usize {
        self.body.len()
    }

    fn is_empty(&self) -> bool {
        self.body.len() == self.begun
    }
}
