//! One task under way: what the loop decides, carried out.
//!
//! The conversation is the run's own; the trace and the stream are shared with whoever else writes to
//! them. A stop is raced with whatever is being waited for: an answer is given up, tools are told and waited for.

use std::collections::VecDeque;
use std::time::Instant;

use policy::cancel_pair;
use record::{Body, ConversationWriter, Decision, Error as RecordError, Inference, TaskEnd};
use vocab::{CallParams, EndStatus, EventId, Message, MessageId, Reply, Role, Wire};

use crate::Frame;
use crate::board::Said;
use crate::control::Snapshot;
use crate::dispatch::{Desk, run_group};
use crate::engine::{Fixed, Tally, TaskReport};
use crate::handle::Shared;
use crate::outbox::{Place, millis};
use crate::relay::{Relay, redacted};
use crate::scrub::scrub;
use crate::session::{Effect, End, Event, Group, TaskLoop};
use crate::stop::StopSignal;
use crate::telemetry::Span;

/// Bytes of a request per token before the first reply has said better; low, so that the estimate errs high.
const FIRST_GUESS: f64 = 3.0;

/// One task under way.
pub(crate) struct Run<'s> {
    fixed: &'s Fixed,
    shared: &'s Shared,
    talk: Talk,
    place: Place,
    start: EventId,
    state: TaskLoop,
    tally: Tally,
    began: Instant,
    /// What the coming call uses of the settings.
    settings: Snapshot,
    /// Bytes of a request per token, of each choice.
    bytes_per_token: Vec<f64>,
}

/// A conversation: its record, and its form for the provider.
pub(crate) struct Talk {
    record: ConversationWriter,
    /// The messages themselves, where another driver may have to be given them.
    history: Option<Vec<Message>>,
    /// The form for each driver choice that was used, and how far it has got.
    wires: Vec<Option<Box<dyn Wire>>>,
    choice: usize,
    /// Messages that entered since the last inference line.
    fresh: Vec<MessageId>,
}

impl Talk {
    /// A conversation that goes on after `history`, with the choice that is in use.
    pub(crate) fn new(fixed: &Fixed, record: ConversationWriter, history: Vec<Message>, choice: usize) -> Self {
        let mut wires: Vec<Option<Box<dyn Wire>>> = fixed.control.choices().iter().map(|_| None).collect();
        if let Some(place) = wires.get_mut(choice) {
            *place = fixed.open_with(choice, &history);
        }
        let history = (wires.len() > 1).then_some(history);
        Self { record, history, wires, choice, fresh: Vec::new() }
    }

    /// The form for the choice in use.
    fn wire(&self) -> Option<&dyn Wire> {
        self.wires.get(self.choice)?.as_deref()
    }

    /// Turns to another choice: its driver is given what it has not seen yet.
    fn turn_to(&mut self, fixed: &Fixed, choice: usize) {
        self.choice = choice;
        if let (Some(place @ None), Some(history)) = (self.wires.get_mut(choice), &self.history) {
            *place = fixed.open_with(choice, history);
        }
    }

    pub(crate) fn append(&mut self, message: &Message) -> Result<(), RecordError> {
        self.record.append(message)?;
        for wire in self.wires.iter_mut().flatten() {
            wire.push(message);
        }
        if let Some(history) = &mut self.history {
            history.push(message.clone());
        }
        // An answer is named by its own inference line.
        if message.role != Role::Assistant {
            self.fresh.push(message.id.clone());
        }
        Ok(())
    }
}

impl<'s> Run<'s> {
    /// A task that begins at `place`, under the line of its start; `spent` is what the session has used
    /// before, in tokens.
    pub(crate) fn new(fixed: &'s Fixed, shared: &'s Shared, talk: Talk, place: Place, spent: u64) -> Self {
        Self {
            fixed,
            shared,
            talk,
            start: place.parent.clone(),
            place,
            state: TaskLoop::new(fixed.limits, spent),
            tally: Tally::default(),
            began: Instant::now(),
            settings: fixed.control.snapshot(),
            bytes_per_token: vec![FIRST_GUESS; fixed.control.choices().len()],
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
                    let event = stop.now().map_or_else(|| Event::Estimated(self.estimate()), Event::Stop);
                    queue.extend(self.step(event));
                }
                Effect::Infer { turn } => queue.extend(self.infer(turn, stop).await?),
                Effect::RunTools(groups) => queue.extend(self.run_tools(&groups, stop).await?),
                Effect::WarnCut => {
                    let text = "the reply was cut at the output cap (`inference.max_tokens`)";
                    self.shared.outbox.frame(&self.place, &Frame::Warning { code: "W-RUN-001", text });
                }
                // Comes while tools run, and is carried out there.
                Effect::CancelTools => {}
                Effect::End(end) => return Ok(end),
            }
        }
        // Every path of the loop leads to an end; without one there is nothing left to wait for.
        Ok(End { status: EndStatus::Failed, reply: String::new(), reason: Some("the agent loop stopped".to_owned()) })
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let registry = &self.fixed.registry;
        self.state.step(event, &|name| registry.effect_of(name))
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    fn estimate(&self) -> u64 {
        let bytes = self.talk.wire().map_or(0, Wire::len) as f64;
        (bytes / self.bytes_per_token.get(self.settings.choice).unwrap_or(&FIRST_GUESS)).ceil() as u64
    }

    async fn infer(&mut self, turn: u32, stop: &mut StopSignal) -> Result<Vec<Effect>, RecordError> {
        self.place.turn = turn;
        self.place.parent = self.start.clone();
        let began = Instant::now();
        let span = self.place.span.child();
        let traceparent = self.fixed.measured.then_some(span);
        let params = CallParams { max_tokens: self.settings.max_tokens, traceparent };
        self.fixed.control.applied(&self.place, &self.settings)?;
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
                Ok(self.step(Event::InferenceFailed(sentence)))
            }
            Ok(Ok(reply)) => self.answered(reply, Span { context: span, parent: None, took: began.elapsed() }),
        }
    }

    fn answered(&mut self, mut reply: Reply, span: Span) -> Result<Vec<Effect>, RecordError> {
        self.learn_ratio(reply.usage.input_tokens);
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
        let mut message_ids = std::mem::take(&mut self.talk.fresh);
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

    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn learn_ratio(&mut self, input_tokens: u64) {
        if input_tokens > 0 {
            let seen = self.talk.wire().map_or(0, Wire::len) as f64 / input_tokens as f64;
            if let Some(ratio) = self.bytes_per_token.get_mut(self.settings.choice) {
                // A provider that counts nothing useful must not make every request look free.
                *ratio = seen.clamp(1.0, 8.0);
            }
        }
    }

    async fn run_tools(&mut self, groups: &[Group], stop: &mut StopSignal) -> Result<Vec<Effect>, RecordError> {
        let (canceler, cancel) = cancel_pair();
        let mut results = Vec::new();
        for Group(calls) in groups {
            let desk = Desk { registry: &self.fixed.registry, policy: &self.fixed.policy, shared: self.shared };
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
        Ok(self.step(Event::ToolsDone(results)))
    }

    /// Writes the task's last line; gives the report and the tokens that the session has used now.
    pub(crate) fn finish(self, end: End) -> Result<(TaskReport, u64), RecordError> {
        let line = TaskEnd {
            task_id: &self.place.task,
            status: end.status,
            error_code: None,
            error: end.reason.as_deref(),
            reply: Some(Body::Text(&end.reply)),
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
        let spent = self.state.spent();
        Ok((TaskReport { task, context, end, tally: self.tally }, spent))
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
            Effect::Append(_) | Effect::WarnCut | Effect::CancelTools => {}
        }
    }
    Decision::Stop
}
