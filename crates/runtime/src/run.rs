//! One task under way: what the loop decides, carried out.
//!
//! The conversation is the run's own; the trace and the stream are shared with whoever else writes to
//! them. A stop is raced with whatever is being waited for: an answer is given up, tools are told and waited for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use policy::{Policy, cancel_pair};
use record::{Body, Decision, Error as RecordError, Inference, TaskEnd};
use vocab::{CallParams, DriverErrorKind, EndStatus, EventId, MessageId, Reply, Trust};

use crate::Frame;
use crate::board::Said;
use crate::control::Snapshot;
use crate::dispatch::{Desk, run_group};
use crate::engine::{Fixed, Meter, Tally, TaskReport};
use crate::handle::Shared;
use crate::outbox::{Place, millis};
use crate::relay::{Relay, redacted};
use crate::scrub::scrub;
use crate::session::{Effect, End, Event, Group, TaskLoop};
use crate::stop::StopSignal;
use crate::subagent::Reported;
use crate::summarise::Pending;
use crate::talk::Talk;
use crate::telemetry::Span;

/// One task under way.
pub(crate) struct Run<'s> {
    pub(crate) fixed: &'s Fixed,
    pub(crate) shared: &'s Arc<Shared>,
    pub(crate) talk: Talk,
    /// What its calls may do, with the gates of this task.
    policy: Policy,
    /// The task's class.
    trust: Trust,
    /// The word for what the task is for.
    pub(crate) action: Option<String>,
    pub(crate) place: Place,
    pub(crate) start: EventId,
    /// The task's own message.
    pub(crate) message: MessageId,
    pub(crate) state: TaskLoop,
    pub(crate) tally: Tally,
    began: Instant,
    /// What the coming call uses of the settings.
    pub(crate) settings: Snapshot,
    pub(crate) meter: &'s mut Meter,
    pub(crate) summary: Pending,
}

impl<'s> Run<'s> {
    /// A task that begins at `place`, under the line of its start, with a message that is in the conversation.
    pub(crate) fn new(
        fixed: &'s Fixed,
        shared: &'s Arc<Shared>,
        (talk, policy): (Talk, Policy),
        (place, message, trust): (Place, MessageId, Trust),
        meter: &'s mut Meter,
    ) -> Self {
        Self {
            fixed,
            shared,
            talk,
            policy,
            trust,
            action: None,
            start: place.parent.clone(),
            place,
            message,
            state: TaskLoop::new(fixed.limits, meter.spent).closing(fixed.closing()),
            tally: Tally::default(),
            began: Instant::now(),
            settings: fixed.control.snapshot(),
            meter,
            summary: Pending::default(),
        }
    }
}

impl Run<'_> {
    pub(crate) async fn drive(&mut self, stop: &mut StopSignal) -> Result<End, RecordError> {
        self.shared.outbox.frame(&self.place, &Frame::Working);
        let mut queue = VecDeque::from(self.step(Event::Started));
        while let Some(effect) = queue.pop_front() {
            match effect {
                Effect::Append(message) => self.talk.append(&message)?,
                Effect::Estimate => {
                    // Once for each call, so that no call mixes two values.
                    self.settings = self.fixed.control.snapshot();
                    self.state.set_max_tokens(self.settings.max_tokens);
                    self.talk.turn_to(self.fixed, self.settings.choice);
                    let event = match stop.now() {
                        Some(cause) => Event::Stop(cause),
                        None => Event::Estimated(self.estimate()),
                    };
                    queue.extend(self.step(event));
                }
                Effect::Summarise => queue.extend(self.summarise(stop).await?),
                Effect::Infer { turn } => queue.extend(self.infer(turn, stop).await?),
                Effect::RunTools(groups) => queue.extend(self.run_tools(&groups, stop).await?),
                Effect::WarnCut => {
                    let cap = self.settings.max_tokens;
                    let text = format!("the reply was cut at the output cap of {cap} tokens (`inference.max_tokens`)");
                    self.shared.outbox.frame(&self.place, &Frame::Warning { code: "W-RUN-001", text: &text });
                }
                // Comes while tools run, and is carried out there.
                Effect::CancelTools => {}
                Effect::End(end) => return Ok(end),
            }
        }
        // Every path of the loop leads to an end; without one there is nothing left to wait for.
        Ok(End { status: EndStatus::Failed, reply: String::new(), reason: Some("the agent loop stopped".to_owned()) })
    }

    pub(crate) fn step(&mut self, event: Event) -> Vec<Effect> {
        let registry = &self.fixed.registry;
        self.state.step(event, &|name| registry.effect_of(name))
    }

    async fn infer(&mut self, turn: u32, stop: &mut StopSignal) -> Result<Vec<Effect>, RecordError> {
        self.place.turn = turn;
        self.place.parent = self.start.clone();
        let began = Instant::now();
        let span = self.place.span.child();
        let traceparent = self.fixed.measured.then_some(span);
        let params = CallParams { max_tokens: self.settings.max_tokens, traceparent };
        self.fixed.control.applied(&self.place, &self.settings)?;
        // A secret may have been injected since the estimate.
        self.talk.turn_to(self.fixed, self.settings.choice);
        let Some((driver, wire)) = self.fixed.driver(self.settings.choice).zip(self.talk.wire()) else {
            return Ok(self.step(Event::InferenceFailed("the driver choice in use has no driver".to_owned())));
        };
        let mut relay = Relay::new(&self.shared.outbox, &self.place, span);
        let answer = tokio::select! {
            biased;
            cause = stop.stopped() => Err(cause),
            answer = driver.call(wire, params, &mut relay) => Ok(answer),
        };
        relay.finish(answer.as_ref().ok().and_then(|answer| answer.as_ref().err()))?;
        match answer {
            Err(cause) => {
                let span = Span { context: span, parent: None, took: began.elapsed() };
                self.shared.outbox.given_up(&self.place, span);
                Ok(self.step(Event::Stop(cause)))
            }
            Ok(Err(error)) => {
                let error = redacted(error, self.shared.outbox.redactor());
                let sentence = format!("{error}; {}", error.hint());
                Ok(self.step(match error.kind {
                    DriverErrorKind::SpendCeiling => Event::OverCeiling(sentence),
                    _ => Event::InferenceFailed(sentence),
                }))
            }
            Ok(Ok(reply)) => self.answered(reply, Span { context: span, parent: None, took: began.elapsed() }),
        }
    }

    fn answered(&mut self, mut reply: Reply, span: Span) -> Result<Vec<Effect>, RecordError> {
        if let Some(gauge) = self.meter.gauges.get_mut(self.settings.choice) {
            self.talk.told(gauge, reply.usage.input_tokens);
        }
        reply.content = scrub(reply.content, self.shared.outbox.redactor());
        let (stop_reason, usage, attempts, provider_id) =
            (reply.stop, reply.usage, reply.attempts, reply.provider_id.clone());
        let effects = self.step(Event::Replied(reply));
        let message = effects.iter().find_map(|effect| match effect {
            Effect::Append(message) => Some(message),
            _ => None,
        });
        let calls = message.map_or(0, |message| u32::try_from(message.tool_calls().count()).unwrap_or(u32::MAX));
        self.tally.add(Tally {
            turns: 1,
            tool_calls: calls,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
        });
        let mut message_ids = self.talk.take_fresh();
        message_ids.extend(message.map(|message| message.id.clone()));
        let choice = self.fixed.control.choices().get(self.settings.choice).filter(|_| self.fixed.has_alternates());
        let line = Inference {
            turn: self.place.turn,
            task_id: &self.place.task,
            driver_choice: choice.map(|choice| choice.name.as_str()),
            model: choice.map(|choice| choice.driver.model()),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            thinking_tokens: usage.thinking_tokens,
            decision: decision(&effects),
            stop_reason,
            tool_name: message.and_then(|message| message.tool_calls().next()).map(|call| call.name.as_str()),
            tool_calls: calls,
            provider_id: provider_id.as_deref(),
            attempts,
            duration_ms: millis(span.took),
            system_sha: self.fixed.system_sha,
            tools_sha: self.fixed.tools_sha,
            message_ids: &message_ids,
        };
        self.place.parent = self.shared.outbox.measured(Some(&self.start), line, Some(span))?;
        self.shared.outbox.frame(&self.place, &Frame::TurnEnded { tool_calls: calls });
        Ok(effects)
    }

    async fn run_tools(&mut self, groups: &[Group], stop: &mut StopSignal) -> Result<Vec<Effect>, RecordError> {
        let (canceler, cancel) = cancel_pair();
        let mut results = Vec::new();
        if let Some(family) = &self.fixed.family {
            family.begin(&self.place, self.trust, self.state.spent());
        }
        if let Some(finish) = &self.fixed.finish {
            finish.turn_of(groups.iter().map(|Group(calls)| calls.len()).sum());
        }
        for Group(calls) in groups {
            let (registry, action) = (&self.fixed.registry, self.action.as_deref());
            let desk = Desk { registry, policy: &self.policy, shared: self.shared, action };
            let group = run_group(desk, &self.place, calls, &cancel);
            tokio::pin!(group);
            let done = loop {
                tokio::select! {
                    biased;
                    done = &mut group => break done,
                    cause = stop.stopped(), if !cancel.is_canceled() => {
                        let registry = &self.fixed.registry;
                        let told = self.state.step(Event::Stop(cause), &|name| registry.effect_of(name));
                        if told.contains(&Effect::CancelTools) {
                            canceler.cancel();
                        }
                    }
                }
            };
            results.extend(done?);
        }
        if let Some(family) = &self.fixed.family {
            self.state.charge(family.spent());
        }
        Ok(self.step(match self.fixed.finish.as_ref().and_then(|finish| finish.report()) {
            Some(Reported { succeeded, summary, .. }) => Event::Reported { results, summary, succeeded },
            None => Event::ToolsDone(results),
        }))
    }

    /// Writes the task's last line and hands on what the session has used now.
    pub(crate) fn finish(self, mut end: End) -> Result<TaskReport, RecordError> {
        // It may be the text of an earlier turn, and more may be known to be secret by now.
        end.reply = self.shared.outbox.redactor().redact_owned(end.reply).into_string();
        let line = TaskEnd {
            task_id: &self.place.task,
            status: end.status,
            error_code: None,
            error: end.reason.as_deref(),
            reply: Some(Body::Text(&end.reply)),
            text: None,
            turns: self.tally.turns,
            tool_calls: self.tally.tool_calls,
            input_tokens: self.tally.input_tokens,
            output_tokens: self.tally.output_tokens,
            duration_ms: millis(self.began.elapsed()),
        };
        self.shared.outbox.event(Some(&self.start), line)?;
        let Place { task, context, .. } = self.place.clone();
        let frame = Frame::Ended { status: end.status, reply: &end.reply, reason: end.reason.as_deref() };
        self.shared.outbox.frame(&self.place, &frame);
        let response = Some(end.reply.as_str()).filter(|reply| !reply.is_empty() || end.status == EndStatus::Ok);
        self.shared.state(&task, end.status.into(), Said { message: end.reason.as_deref(), response });
        self.meter.spent = self.state.spent();
        Ok(TaskReport { task, context, end, tally: self.tally })
    }
}

/// What the loop does after a reply, in the trace's words.
fn decision(effects: &[Effect]) -> Decision {
    for effect in effects {
        match effect {
            Effect::RunTools(_) => return Decision::ToolCall,
            Effect::Estimate | Effect::Infer { .. } => return Decision::Continue,
            Effect::End(end) if end.status == EndStatus::Ok => return Decision::Reply,
            Effect::End(_) => return Decision::Stop,
            Effect::Append(_) | Effect::Summarise | Effect::WarnCut | Effect::CancelTools => {}
        }
    }
    Decision::Stop
}
