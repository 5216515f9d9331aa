//! A transcript instead of a model: for demos and tests, offline.
//!
//! Each call plays the script's next turn, whatever conversation it belongs to, since a run asks its
//! driver strictly in order; the place is kept by the driver, not read from the history, so that a
//! shortened history plays on. Of the conversation it reads only the tool results since the last
//! answer, and only to notice that a run has left its script. Tokens are those that the script states.

mod script;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use vocab::{
    BoxFuture, CallParams, Delta, DeltaSink, Driver, DriverError, DriverErrorKind as Kind, Message, Part, Reply, Role,
    StopReason, Thinking, ToolSpec, Wire,
};

use crate::config::{BuildError, Config, Retry};
use crate::failure::{Fault, Who, printable};
use crate::reply::{self, Calls, settle};
use crate::retry::{Attempt, with_retries};
use crate::wire::joined_text;

use script::{Call, Turn};

/// About as much text as a model sends at once, in bytes.
const STEP: usize = 24;

pub(crate) struct Scripted {
    model: String,
    turns: Vec<Turn>,
    next: AtomicUsize,
    who: Who,
    retry: Retry,
}

impl Scripted {
    pub(crate) fn new(config: Config) -> Result<Self, BuildError> {
        let path = config.script.ok_or(BuildError::NoScript)?;
        let host =
            path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
        Ok(Self {
            model: config.model,
            turns: script::read(&path)?,
            next: AtomicUsize::new(0),
            who: Who::new("scripted", host),
            retry: config.retry,
        })
    }

    /// Plays the next turn against the tool results that came since the last answer.
    fn play(&self, results: &[String], sink: &mut dyn DeltaSink) -> Result<Reply, Fault> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        let number = place.saturating_add(1);
        let Some(turn) = self.turns.get(place) else {
            let detail = format!("has {} turns and was asked for turn {number}: the script is over", self.turns.len());
            return Err(Fault::new(Kind::Script, detail));
        };
        for expected in &turn.expect {
            if !results.iter().any(|result| result.contains(expected.as_str())) {
                let got = printable(&results.join(" | "), 160);
                let detail = format!(
                    "expects `{}` in the tool results before turn {number}, which are `{got}`: the run has left its script",
                    printable(expected, 80)
                );
                return Err(Fault::new(Kind::Script, detail));
            }
        }
        self.answer(turn, number, sink)
    }

    fn answer(&self, turn: &Turn, number: usize, sink: &mut dyn DeltaSink) -> Result<Reply, Fault> {
        let mut content = Vec::new();
        if let Some(text) = &turn.thinking {
            stream(text, &mut |piece| sink.delta(Delta::Thinking(piece)));
            let author = format!("scripted/{}", self.model);
            content.push(Part::Thinking(Thinking { text: text.clone(), signature: None, redacted: None, author }));
        }
        if let Some(text) = &turn.text {
            stream(text, &mut |piece| sink.delta(Delta::Text(piece)));
            content.extend(reply::text(text.clone()));
        }
        let mut calls = Calls::default();
        for Call { id, name, arguments } in &turn.tool_calls {
            let id = id.clone().unwrap_or_else(|| format!("call_{}", uuid::Uuid::now_v7().simple()));
            calls.admit(&id, name)?;
            sink.delta(Delta::ToolCallStarted { id: &id, name });
            let text = match arguments {
                // A text instead of an object plays a model that writes malformed arguments.
                Some(Value::String(text)) => text.clone(),
                Some(object) => object.to_string(),
                None => String::new(),
            };
            content.push(reply::call(id, name.clone(), &text));
        }
        if let Some(error) = &turn.error {
            let words = error.message.as_deref().unwrap_or("no message");
            let mut fault =
                Fault::new(error.kind, format!("plays a failure in turn {number} ({}): {words}", error.kind.as_str()));
            fault.retry_after = error.retry_after_ms.map(std::time::Duration::from_millis);
            return Err(fault);
        }
        let stop = settle(&mut content, turn.stop.unwrap_or(StopReason::EndTurn));
        Ok(Reply { content, stop, usage: turn.usage.into(), provider_id: None, attempts: 1 })
    }
}

fn stream(text: &str, send: &mut dyn FnMut(&str)) {
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at_checked(rest.ceil_char_boundary(STEP)).unwrap_or((rest, ""));
        send(piece);
        rest = after;
    }
}

impl Driver for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn open(&self, system: &str, _tools: &[ToolSpec]) -> Box<dyn Wire> {
        Box::new(ScriptedWire { results: Vec::new(), bytes: system.len(), messages: 0 })
    }

    fn call<'a>(
        &'a self,
        wire: &'a dyn Wire,
        params: CallParams,
        sink: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Reply, DriverError>> {
        Box::pin(async move {
            let results = serde_json::from_slice(&wire.body(params, Vec::new())).unwrap_or_default();
            with_retries(&self.retry, &Play { driver: self, results }, sink).await
        })
    }
}

struct Play<'a> {
    driver: &'a Scripted,
    results: Vec<String>,
}

impl Attempt for Play<'_> {
    fn attempt<'a>(&'a self, sink: &'a mut dyn DeltaSink) -> BoxFuture<'a, Result<Reply, DriverError>> {
        let outcome = self.driver.play(&self.results, sink);
        Box::pin(async move { outcome.map_err(|fault| self.driver.who.error(fault)) })
    }
}

/// The tool results since the last answer; of the rest, its size.
struct ScriptedWire {
    results: Vec<String>,
    bytes: usize,
    messages: usize,
}

impl Wire for ScriptedWire {
    fn push(&mut self, message: &Message) {
        self.messages += 1;
        self.bytes += message.content.iter().map(size).sum::<usize>();
        match message.role {
            Role::Assistant => self.results.clear(),
            Role::Tool => self.results.push(joined_text(&message.content)),
            Role::User => {}
        }
    }

    fn body(&self, _params: CallParams, _buffer: Vec<u8>) -> Vec<u8> {
        serde_json::to_vec(&self.results).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.bytes
    }

    fn is_empty(&self) -> bool {
        self.messages == 0
    }
}

fn size(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.as_str().len(),
        Part::Thinking(thinking) => thinking.text.len(),
        Part::ToolCall(call) => call.name.len() + crate::wire::arguments(call).to_string().len(),
        Part::Image { data, .. } => data.len(),
    }
}
