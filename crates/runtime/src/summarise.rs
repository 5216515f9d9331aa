//! The input budget of the coming request, and the summary of older turns when it runs out.
//!
//! The summary is one call of the primary choice with the manifest's cap, whatever is set now: settings are
//! the agent loop's. Its failure costs the task nothing as long as the next request still fits.

use std::time::Instant;

use record::{Body, CallStatus, Compaction as Line, Error as RecordError};
use vocab::{CallParams, DriverError, Message, MessageId, Reply, StopReason, TraceContext, Usage, Wire};

use crate::Frame;
use crate::compaction::{Bounds, Plan, plan, request, summary, transcript};
use crate::engine::Tally;
use crate::gauge::{Gauge, Size};
use crate::outbox::millis;
use crate::relay::{Relay, redacted};
use crate::run::Run;
use crate::scrub::scrub;
use crate::session::{Effect, Estimate, Event, StopCause, Summary};
use crate::stop::StopSignal;
use crate::telemetry::Span;

/// The choice that summarises.
const PRIMARY: usize = 0;
/// What the summarising request holds besides the system prompt and the turns, in bytes.
const AROUND: usize = 500;
/// How often a request is made shorter until it fits.
const ATTEMPTS: u32 = 6;

/// A summary that is due.
#[derive(Default)]
pub(crate) struct Pending {
    plan: Option<Plan>,
    /// Below this occupancy no summary is thought of, unless nothing else helps: the last one failed, or
    /// would have gained too little.
    rest_until: u64,
}

/// How the summarising call went.
enum Asked {
    Stopped(StopCause),
    Answered(Reply),
    Failed(String),
}

impl Run<'_> {
    /// What the coming request takes, with the settings that it is going to use.
    pub(crate) fn estimate(&mut self) -> Estimate {
        let input = self.occupancy();
        let choice = self.fixed.control.choices().get(self.settings.choice);
        let window = choice.map_or(0, |choice| choice.context_window);
        Estimate { input, window, summary: self.due(input, window) }
    }

    fn occupancy(&self) -> u64 {
        self.talk.tokens(&self.gauge(self.settings.choice))
    }

    fn gauge(&self, choice: usize) -> Gauge {
        self.meter.gauges.get(choice).cloned().unwrap_or_default()
    }

    fn budget(&self, window: u64) -> u64 {
        window.saturating_sub(u64::from(self.settings.max_tokens))
    }

    fn due(&mut self, input: u64, window: u64) -> Summary {
        self.summary.plan = None;
        let Some(compaction) = &self.fixed.compaction else { return Summary::Undeclared };
        let budget = self.budget(window);
        let excess = input.saturating_sub(budget);
        if input <= compaction.limit(budget) || (excess == 0 && input < self.summary.rest_until) {
            return Summary::Idle;
        }
        let gauge = self.gauge(self.settings.choice);
        let bounds = Bounds { budget: gauge.bytes(budget), excess: gauge.bytes(excess), image: gauge.image_bytes() };
        let Some(plan) = plan(self.talk.history(), &self.message, bounds) else {
            self.rest(input, budget);
            return Summary::Idle;
        };
        let around = compaction.system().len().saturating_add(AROUND);
        let size = Size { bytes: plan.bytes.saturating_add(around), images: 0 };
        let input = self.gauge(PRIMARY).tokens(size, None).min(self.room());
        self.summary.plan = Some(plan);
        Summary::Due { input }
    }

    fn rest(&mut self, input: u64, budget: u64) {
        self.summary.rest_until = input.saturating_add((budget / 8).max(1));
    }

    /// The input budget of the summarising call.
    fn room(&self) -> u64 {
        let window = self.fixed.control.choices().first().map_or(0, |choice| choice.context_window);
        window.saturating_sub(u64::from(self.fixed.limits.max_tokens))
    }

    /// Has the older turns summarised. A stop gives the call up.
    pub(crate) async fn summarise(&mut self, stop: &mut StopSignal) -> Result<Vec<Effect>, RecordError> {
        let Some(plan) = self.summary.plan.take() else {
            let fault = Some("there is nothing to summarise".to_owned());
            return Ok(self.step(Event::Summarised { usage: None, fault }));
        };
        self.place.turn = self.state.turn();
        self.place.parent = self.start.clone();
        self.shared.outbox.frame(&self.place, &Frame::Summarising);
        let (began, before) = (Instant::now(), self.occupancy());
        let context = self.place.span.child();
        let asked = self.ask(&plan, context, stop).await?;
        let span = Span { context, parent: None, took: began.elapsed() };
        let (usage, attempts, outcome) = match asked {
            Asked::Stopped(cause) => {
                self.shared.outbox.given_up(&self.place, span);
                return Ok(self.step(Event::Stop(cause)));
            }
            Asked::Failed(fault) => (None, None, Err(fault)),
            Asked::Answered(reply) => {
                let (usage, attempts) = (reply.usage, reply.attempts);
                (Some(usage), Some(attempts), self.written(reply, &plan))
            }
        };
        let ids = self.ids(&plan);
        if let Ok(summary) = &outcome {
            self.talk.compact(self.fixed, summary.clone(), &ids)?;
        }
        self.on_record(&outcome, ids.len(), before, (usage, attempts), span)?;
        let window = self.fixed.control.choices().get(self.settings.choice).map_or(0, |choice| choice.context_window);
        match &outcome {
            Ok(_) => self.summary.rest_until = 0,
            Err(_) => self.rest(before, self.budget(window)),
        }
        Ok(self.step(Event::Summarised { usage, fault: outcome.err() }))
    }

    fn ids(&self, plan: &Plan) -> Vec<MessageId> {
        self.replaced(plan).map(|message| message.id.clone()).collect()
    }

    fn replaced<'r>(&'r self, plan: &'r Plan) -> impl Iterator<Item = &'r Message> {
        plan.replaced.iter().filter_map(|&index| self.talk.history().get(index))
    }

    async fn ask(&self, plan: &Plan, span: TraceContext, stop: &mut StopSignal) -> Result<Asked, RecordError> {
        let Some((driver, wire)) = self.fixed.driver(PRIMARY).zip(self.request(plan)) else {
            let fault = "what is to be summarised does not fit the context window of the primary choice";
            return Ok(Asked::Failed(fault.to_owned()));
        };
        let traceparent = self.fixed.measured.then_some(span);
        let params = CallParams { max_tokens: self.fixed.limits.max_tokens, traceparent };
        let mut relay = Relay::quiet(&self.shared.outbox, &self.place, span);
        let answer: Result<Result<Reply, DriverError>, StopCause> = tokio::select! {
            biased;
            cause = stop.stopped() => Err(cause),
            answer = driver.call(wire.as_ref(), params, &mut relay) => Ok(answer),
        };
        relay.finish(answer.as_ref().ok().and_then(|answer| answer.as_ref().err()))?;
        Ok(match answer {
            Err(cause) => Asked::Stopped(cause),
            Ok(Ok(reply)) => Asked::Answered(reply),
            Ok(Err(error)) => {
                let error = redacted(error, self.shared.outbox.redactor());
                Asked::Failed(format!("{error}; {}", error.hint()))
            }
        })
    }

    /// The request in the primary's form, shortened until it fits.
    fn request(&self, plan: &Plan) -> Option<Box<dyn Wire>> {
        let compaction = self.fixed.compaction.as_ref()?;
        let system = self.shared.outbox.redactor().redact_owned(compaction.system()).into_string();
        let (gauge, room) = (self.gauge(PRIMARY), self.room());
        let words = (u64::from(self.fixed.limits.max_tokens).min(room / 8) / 2).max(50);
        let mut most = gauge.bytes(room);
        for _ in 0..ATTEMPTS {
            let mut wire = self.fixed.driver(PRIMARY)?.open(&system, &[]);
            wire.push(&request(&transcript(self.replaced(plan), most), words));
            let tokens = gauge.tokens(Size { bytes: wire.len(), images: 0 }, None);
            if tokens <= room {
                return Some(wire);
            }
            // In proportion, and some less: setting in costs bytes too.
            let share = u64::try_from(most).unwrap_or(u64::MAX).saturating_mul(room) / tokens / 10 * 9;
            most = usize::try_from(share).unwrap_or(usize::MAX);
        }
        None
    }

    /// The summary's message, if the answer can be one.
    fn written(&self, reply: Reply, plan: &Plan) -> Result<Message, String> {
        if reply.stop == StopReason::Refusal {
            return Err("the model refused to write the summary".to_owned());
        }
        let answer = Message::assistant(scrub(reply.content, self.shared.outbox.redactor()));
        let text = answer.text();
        let text = text.trim();
        if !text.chars().any(char::is_alphanumeric) {
            return Err("the model's answer holds no text".to_owned());
        }
        if text.len() >= plan.bytes {
            return Err("the summary is no shorter than what it stands for".to_owned());
        }
        Ok(summary(text))
    }

    fn on_record(
        &mut self,
        outcome: &Result<Message, String>,
        messages: usize,
        before_tokens: u64,
        (usage, attempts): (Option<Usage>, Option<u32>),
        span: Span,
    ) -> Result<(), RecordError> {
        let usage = usage.unwrap_or_default();
        let (input_tokens, output_tokens) = (usage.input_tokens, usage.output_tokens);
        self.tally.add(Tally { input_tokens, output_tokens, ..Tally::default() });
        let choices = self.fixed.control.choices();
        let (used, asked) = (choices.get(self.settings.choice), choices.get(PRIMARY));
        let summary = outcome.as_ref().ok();
        let line = Line {
            turn: self.place.turn,
            task_id: &self.place.task,
            choice: used.map_or("", |choice| choice.name.as_str()),
            driver_choice: asked.map_or("", |choice| choice.name.as_str()),
            model: asked.map_or("", |choice| choice.driver.model()),
            status: if summary.is_some() { CallStatus::Ok } else { CallStatus::Error },
            error: outcome.as_ref().err().map(String::as_str),
            before_tokens,
            after_tokens: self.occupancy(),
            messages_replaced: summary.map_or(0, |_| u64::try_from(messages).unwrap_or(u64::MAX)),
            message_id: summary.map(|summary| &summary.id),
            summary: summary.map(|summary| Body::Parts(&summary.content)),
            input_tokens,
            output_tokens,
            cached_tokens: usage.cached_tokens,
            attempts,
            duration_ms: millis(span.took),
        };
        self.shared.outbox.measured(Some(&self.start), line, Some(span)).map(drop)
    }
}
