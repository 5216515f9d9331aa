//! The one place where what happened becomes a record line, a conversation line and a frame.
//!
//! Each result is built once and handed to all three, so no surface can have another copy. A line that
//! cannot be written is an error that stops the task: a session without its record does not go on.

use std::time::Duration;

use policy::{Action, Denial, Phase, Shown, Target};
use record::{
    ActionReview, Body, CallDenied, CallId, CallStatus, ConversationWriter, Error as RecordError, Event, ReviewPhase,
    ReviewTarget, SessionEnd, Shell, SkillCall, TargetOf, ToolCallEvent, TraceKey, TraceWriter, Verdict,
};
use secrets::Redactor;
use vocab::{Arguments, EventId, Message, MessageId, Part, Role, StateEffect, TaskId, ToolCall};

use crate::{Artifact, Frame, Observer};

/// The records and the watcher of one session.
pub(crate) struct Outbox {
    trace: TraceWriter,
    conversation: Option<ConversationWriter>,
    observer: Box<dyn Observer>,
    redactor: Redactor,
    /// Messages that entered since the last inference line.
    fresh: Vec<MessageId>,
}

/// Where in a session something happens: what its lines and frames refer to.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) task: TaskId,
    pub(crate) turn: u32,
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
    pub(crate) fn new(trace: TraceWriter, observer: Box<dyn Observer>, redactor: Redactor) -> Self {
        Self { trace, conversation: None, observer, redactor, fresh: Vec::new() }
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Turns to another conversation.
    pub(crate) fn converse(&mut self, conversation: ConversationWriter) {
        self.conversation = Some(conversation);
        self.fresh.clear();
    }

    pub(crate) fn event<'e>(
        &mut self,
        parent: Option<&EventId>,
        event: impl Into<Event<'e>>,
    ) -> Result<EventId, RecordError> {
        self.trace.append(parent, event)
    }

    /// Writes the last line, signed if there is a key.
    pub(crate) fn finish(mut self, end: &SessionEnd<'_>, key: Option<&TraceKey>) -> Result<(), RecordError> {
        self.trace.finish(end, key).map(drop)
    }

    pub(crate) fn frame(&mut self, task: &TaskId, frame: &Frame<'_>) {
        self.observer.frame(task, frame);
    }

    /// Puts a message at the end of the conversation record.
    pub(crate) fn append(&mut self, message: &Message) -> Result<(), RecordError> {
        if let Some(conversation) = &mut self.conversation {
            conversation.append(message)?;
        }
        // An answer is named by its own inference line.
        if message.role != Role::Assistant {
            self.fresh.push(message.id.clone());
        }
        Ok(())
    }

    /// The messages that entered since this was last asked.
    pub(crate) fn take_fresh(&mut self) -> Vec<MessageId> {
        std::mem::take(&mut self.fresh)
    }

    /// Records what a review found before dispatch.
    pub(crate) fn reviewed(
        &mut self,
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
            rule_ids: &[],
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            phase: ReviewPhase::Propose,
        };
        self.event(Some(&place.parent), event).map(drop)
    }

    /// Records a call's result, shows it to the watcher, and makes the message that the model reads.
    pub(crate) fn result(
        &mut self,
        place: &Place,
        call: &ToolCall,
        shown: Shown,
        ending: &Ending<'_>,
    ) -> Result<Message, RecordError> {
        match ending {
            Ending::Ran { effect, skill, duration } => self.ran(place, call, &shown, (*effect, *skill, *duration))?,
            Ending::Denied { reason, denial } => self.denied(place, call, &shown, reason, *denial)?,
        }
        let duration = match ending {
            Ending::Ran { duration, .. } => *duration,
            Ending::Denied { .. } => Duration::ZERO,
        };
        let fence_source = shown.fence();
        let artifact =
            Artifact { tool_name: &call.name, tool_call_id: &call.id, fence_source, shown: &shown, duration };
        self.observer.frame(&place.task, &Frame::Artifact(artifact));
        Ok(Message::tool_result(&call.id, shown.is_error, shown.parts))
    }

    fn ran(
        &mut self,
        place: &Place,
        call: &ToolCall,
        shown: &Shown,
        (effect, skill, duration): (StateEffect, bool, Duration),
    ) -> Result<(), RecordError> {
        let status = if shown.is_error { CallStatus::Error } else { CallStatus::Ok };
        let duration_ms = millis(duration);
        let (turn, task_id, tool_call_id) = (place.turn, &place.task, CallId(&call.id));
        let (input, output) = (input(call), Body::Parts(&shown.parts));
        if skill {
            let tool_name = &call.name;
            let event = SkillCall { turn, task_id, tool_name, tool_call_id, input, output, duration_ms, status };
            return self.event(Some(&place.parent), event).map(drop);
        }
        let line = self.event(
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
                fence_lookalikes: lookalikes(&shown.parts),
            },
        )?;
        if let Some(shell) = &shown.facts.shell {
            let event = Shell {
                turn,
                task_id,
                tool_call_id,
                binary: &shell.binary,
                command: Body::Text(&shell.command),
                exit_code: shown.facts.exit_code,
                bytes: shell.bytes,
                duration_ms,
            };
            self.event(Some(&line), event)?;
        }
        Ok(())
    }

    fn denied(
        &mut self,
        place: &Place,
        call: &ToolCall,
        shown: &Shown,
        reason: &str,
        denial: Option<&Denial>,
    ) -> Result<(), RecordError> {
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
            rule_ids: &[],
            phase,
            input: input(call),
            output: Body::Parts(&shown.parts),
        };
        self.event(Some(&place.parent), event).map(drop)
    }
}

fn codes(denial: Option<&Denial>) -> Vec<&'static str> {
    denial.into_iter().flat_map(Denial::blockers).map(|blocker| blocker.code).collect()
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
