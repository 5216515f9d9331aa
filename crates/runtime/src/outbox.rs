//! The one place where what happened becomes a trace line, a frame and the message that the model reads.
//!
//! Each result is built once and handed to all three, so no surface can have another copy. A line that
//! cannot be written is an error that stops the task: a session without its record does not go on. The
//! door writes here as well as the loop, so each line goes out under a lock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use policy::{Action, Denial, Facts, Phase, Shown, Target};
use record::{
    ActionReview, Body, CallDenied, CallId, CallStatus, Error as RecordError, Event, McpCall, ReviewPhase,
    ReviewTarget, SessionEnd, Shell, SkillCall, TargetOf, ToolCallEvent, TraceKey, TraceWriter, Verdict,
};
use secrets::Redactor;
use vocab::{Arguments, ContextId, EventId, Message, Part, StateEffect, TaskId, ToolCall, TraceContext};

use crate::stream::{Stream, StreamArtifact, StreamEvent};
use crate::telemetry::{Span, Telemetry};
use crate::{Artifact, Frame, Observer};

/// The trace and the watchers of one session.
pub(crate) struct Outbox {
    trace: Mutex<TraceWriter>,
    observer: Mutex<Box<dyn Observer>>,
    stream: Stream,
    telemetry: Option<Arc<dyn Telemetry>>,
    redactor: Redactor,
}

/// Where in a session something happens: what its lines and frames refer to.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) task: TaskId,
    pub(crate) context: ContextId,
    pub(crate) turn: u32,
    /// The task's span; the spans of what happens in it are its children.
    pub(crate) span: TraceContext,
    /// The line under which what happens now is filed.
    pub(crate) parent: EventId,
}

/// How a call got its result.
pub(crate) enum Ending<'a> {
    /// It ran: as what, and for how long.
    Ran { effect: StateEffect, skill: bool, duration: Duration },
    /// It did not: why, as a code.
    Denied { reason: &'static str, denial: Option<&'a Denial> },
}

impl Outbox {
    pub(crate) fn new(
        trace: TraceWriter,
        observer: Box<dyn Observer>,
        telemetry: Option<Arc<dyn Telemetry>>,
        redactor: Redactor,
    ) -> Self {
        let stream = Stream::new(redactor.clone());
        Self { trace: Mutex::new(trace), observer: Mutex::new(observer), stream, telemetry, redactor }
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) fn event<'e>(
        &self,
        parent: Option<&EventId>,
        event: impl Into<Event<'e>>,
    ) -> Result<EventId, RecordError> {
        self.measured(parent, event, None)
    }

    /// As [`event`](Self::event), for one that a span is about.
    pub(crate) fn measured<'e>(
        &self,
        parent: Option<&EventId>,
        event: impl Into<Event<'e>>,
        span: Option<Span>,
    ) -> Result<EventId, RecordError> {
        let event = event.into();
        let id = self.trace.lock().unwrap_or_else(PoisonError::into_inner).append(parent, event)?;
        if let Some(telemetry) = &self.telemetry {
            telemetry.event(&event, span);
        }
        Ok(id)
    }

    /// Tells whoever measures of an inference call that got no answer because the task was stopped.
    pub(crate) fn given_up(&self, place: &Place, span: Span) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.given_up(&place.task, place.turn, span);
        }
    }

    /// Writes the last line, signed if there is a key.
    pub(crate) fn finish(&self, end: &SessionEnd<'_>, key: Option<&TraceKey>) -> Result<(), RecordError> {
        let written = self.trace.lock().unwrap_or_else(PoisonError::into_inner).finish(end, key).map(drop);
        if let Some(telemetry) = &self.telemetry {
            telemetry.end(end);
        }
        written
    }

    /// Shows something that happened, here and at the session's address. Where a task stands is not told
    /// this way: the board tells it.
    pub(crate) fn frame(&self, place: &Place, frame: &Frame<'_>) {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner).frame(&place.task, frame);
        let event = match *frame {
            Frame::Text(text) => StreamEvent::Text { text: text.to_owned(), last: false },
            Frame::Thinking(text) => StreamEvent::Thinking { text: text.to_owned(), last: false },
            Frame::ToolCallStarted { tool_name, tool_call_id } => {
                StreamEvent::ToolCallStarted { tool_name: tool_name.to_owned(), tool_call_id: tool_call_id.to_owned() }
            }
            Frame::Artifact(Artifact { tool_name, tool_call_id, fence_source, shown, duration }) => {
                StreamEvent::Artifact(Box::new(StreamArtifact {
                    tool_name: tool_name.to_owned(),
                    tool_call_id: tool_call_id.to_owned(),
                    content: shown.parts.clone(),
                    fence_source: fence_source.map(str::to_owned),
                    is_error: shown.is_error,
                    duration,
                    exit_code: shown.facts.exit_code,
                    truncated: shown.facts.truncated,
                }))
            }
            Frame::Retrying { error, delay, attempt } => working(format!(
                "the model's answer failed and what it had said in this turn is void: {}; attempt {attempt} in {} ms",
                error.message,
                millis(delay)
            )),
            Frame::Summarising => working("older turns of the conversation are being summarised".to_owned()),
            Frame::Subagent(progress) => StreamEvent::Subagent(Box::new(progress.clone())),
            Frame::Warning { code, text } => working(format!("{code}: {text}")),
            Frame::Working
            | Frame::ToolRunning { .. }
            | Frame::InputRequired { .. }
            | Frame::TurnEnded { .. }
            | Frame::Ended { .. } => return,
        };
        self.stream.publish(Some((place.task.clone(), place.context.clone())), event);
    }

    /// Tells those who watch that the turn has no more text, or reasoning.
    pub(crate) fn text_ended(&self, place: &Place, thinking: bool) {
        let (text, last) = (String::new(), true);
        let event = if thinking { StreamEvent::Thinking { text, last } } else { StreamEvent::Text { text, last } };
        self.stream.publish(Some((place.task.clone(), place.context.clone())), event);
    }

    /// Records what a review found before dispatch.
    pub(crate) fn reviewed(
        &self,
        place: &Place,
        action: &Action,
        denial: Option<&Denial>,
        took: Duration,
    ) -> Result<(), RecordError> {
        let targets: Vec<ReviewTarget<'_>> = action
            .effects()
            .iter()
            .map(|effect| ReviewTarget {
                operation: effect.operation.as_str(),
                of: match &effect.target {
                    Target::Path(path) => TargetOf::Path(path),
                    Target::Command(text) => TargetOf::Command(text),
                    Target::Argv(argv) => TargetOf::Argv(argv),
                    Target::Connected { provider, tool } => TargetOf::Connected { provider, tool },
                },
            })
            .collect();
        let blockers = codes(denial);
        let event = ActionReview {
            turn: place.turn,
            task_id: &place.task,
            tool_call_id: CallId(action.call_id()),
            tool: action.tool(),
            action: action.kind().as_str(),
            targets: &targets,
            verdict: if denial.is_none() { Verdict::Allowed } else { Verdict::Denied },
            blockers: &blockers,
            rule_ids: &rule_ids(denial),
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            phase: ReviewPhase::Propose,
        };
        self.event(Some(&place.parent), event).map(drop)
    }

    /// Records a call's result, shows it to the watcher, and makes the message that the model reads.
    pub(crate) fn result(
        &self,
        place: &Place,
        call: &ToolCall,
        shown: Shown,
        ending: &Ending<'_>,
    ) -> Result<Message, RecordError> {
        self.told(place, call, shown, ending).map(|(message, _)| message)
    }

    /// As [`result`](Self::result), with the line that was written.
    pub(crate) fn told(
        &self,
        place: &Place,
        call: &ToolCall,
        shown: Shown,
        ending: &Ending<'_>,
    ) -> Result<(Message, EventId), RecordError> {
        let line = match ending {
            Ending::Ran { effect, skill, duration } => self.ran(place, call, &shown, (*effect, *skill, *duration))?,
            Ending::Denied { reason, denial } => self.denied(place, call, &shown, reason, *denial)?,
        };
        let duration = match ending {
            Ending::Ran { duration, .. } => Some(*duration),
            Ending::Denied { .. } => None,
        };
        let fence_source = shown.fence();
        let artifact =
            Artifact { tool_name: &call.name, tool_call_id: &call.id, fence_source, shown: &shown, duration };
        self.frame(place, &Frame::Artifact(artifact));
        Ok((Message::tool_result(&call.id, shown.is_error, shown.parts), line))
    }

    fn ran(
        &self,
        place: &Place,
        call: &ToolCall,
        shown: &Shown,
        (effect, skill, duration): (StateEffect, bool, Duration),
    ) -> Result<EventId, RecordError> {
        let status = if shown.is_error { CallStatus::Error } else { CallStatus::Ok };
        let duration_ms = millis(duration);
        let (turn, task_id, tool_call_id) = (place.turn, &place.task, CallId(&call.id));
        let (input, output) = (input(call), Body::Parts(&shown.parts));
        let span = Some(Span { context: place.span.child(), parent: None, took: duration });
        if skill {
            let tool_name = &call.name;
            let event = SkillCall { turn, task_id, tool_name, tool_call_id, input, output, duration_ms, status };
            return self.measured(Some(&place.parent), event, span);
        }
        let line = self.measured(
            Some(&place.parent),
            ToolCallEvent {
                turn,
                task_id,
                tool_name: &call.name,
                tool_call_id,
                input,
                output,
                duration_ms,
                status,
                state_effect: effect,
                exit_code: shown.facts.exit_code,
                truncated: shown.facts.truncated.then_some(true),
                detached: shown.facts.detached.then_some(true),
                fence_lookalikes: lookalikes(&shown.parts),
            },
            span,
        )?;
        let place = Place { parent: line, ..place.clone() };
        self.process_ended(&place, call, &shown.facts, duration)?;
        if let Some(mcp) = &shown.facts.mcp {
            let event = McpCall {
                turn,
                task_id,
                tool_call_id,
                connection: &mcp.connection,
                connection_name: &mcp.name,
                tool: &mcp.tool,
                transport: mcp.transport,
                starts: u64::try_from(mcp.started).unwrap_or(u64::MAX),
                protected: u64::try_from(shown.facts.protected).unwrap_or(u64::MAX),
                duration_ms: u64::try_from(mcp.took.as_millis()).unwrap_or(u64::MAX),
            };
            self.event(Some(&place.parent), event)?;
        }
        Ok(place.parent)
    }

    /// Records the end of a call's process, if it had one.
    pub(crate) fn process_ended(
        &self,
        place: &Place,
        call: &ToolCall,
        facts: &Facts,
        duration: Duration,
    ) -> Result<(), RecordError> {
        let Some(shell) = &facts.shell else { return Ok(()) };
        let unmasked: Vec<&str> = shell.unmasked.iter().map(String::as_str).collect();
        let event = Shell {
            turn: place.turn,
            task_id: &place.task,
            tool_call_id: CallId(&call.id),
            binary: &shell.binary,
            command: Body::Text(&shell.command),
            exit_code: facts.exit_code,
            bytes: shell.bytes,
            containment: shell.containment,
            enforcement: shell.enforcement(),
            unmasked_rules: Some(unmasked.as_slice()).filter(|rules| !rules.is_empty()),
            duration_ms: millis(duration),
        };
        self.event(Some(&place.parent), event).map(drop)
    }

    fn denied(
        &self,
        place: &Place,
        call: &ToolCall,
        shown: &Shown,
        reason: &str,
        denial: Option<&Denial>,
    ) -> Result<EventId, RecordError> {
        let phase = match denial.map(Denial::phase) {
            Some(Phase::Execute) => ReviewPhase::Execute,
            Some(Phase::Propose) | None => ReviewPhase::Propose,
        };
        let blockers = codes(denial);
        let event = CallDenied {
            turn: place.turn,
            task_id: &place.task,
            tool_call_id: CallId(&call.id),
            tool: &call.name,
            reason,
            blockers: &blockers,
            rule_ids: &rule_ids(denial),
            phase,
            input: input(call),
            output: Body::Parts(&shown.parts),
        };
        self.event(Some(&place.parent), event)
    }
}

fn working(message: String) -> StreamEvent {
    StreamEvent::Status { state: vocab::TaskState::Working, message: Some(message), response: None }
}

fn codes(denial: Option<&Denial>) -> Vec<&'static str> {
    denial.into_iter().flat_map(Denial::blockers).map(|blocker| blocker.code).collect()
}

fn rule_ids(denial: Option<&Denial>) -> Vec<&str> {
    denial.into_iter().flat_map(Denial::rule_ids).collect()
}

fn input(call: &ToolCall) -> Body<'_> {
    match &call.arguments {
        Arguments::Object(map) => Body::Object(map),
        Arguments::Malformed { raw, .. } => Body::Text(raw),
    }
}

/// How many look-alikes of a marker the text holds; `None` for none, so that the key is absent.
pub(crate) fn lookalikes(parts: &[Part]) -> Option<u64> {
    let count: usize = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => fence::count_lookalikes(text.as_str()),
            Part::Thinking(_) | Part::ToolCall(_) | Part::Image { .. } => 0,
        })
        .sum();
    (count > 0).then(|| u64::try_from(count).unwrap_or(u64::MAX))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
