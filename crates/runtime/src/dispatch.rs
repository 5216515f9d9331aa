//! The one way of a tool call: propose → review → execute → protect → redact → fence → record.
//!
//! Every call of every transport comes through [`run_group`]. The calls of a group are proposed and
//! reviewed in order, may run at the same time, and are recorded in order. A tool that panics costs its
//! own call an error and nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fence::{RuntimeWords, Source};
use policy::{ActionKind, BadInput, Cancel, Denial, Outcome, Policy, RawResult, Review, Shown};
use record::Error as RecordError;
use tokio::task::JoinHandle;
use vocab::{Arguments, Message, StateEffect, ToolCall};

use crate::background::{self, Way};
use crate::handle::Shared;
use crate::inquiry::inquire;
use crate::outbox::{Ending, Place};
use crate::registry::Registry;
use crate::scrub::SECRET_INPUT;
use crate::{Frame, summary};

/// What every call of a session goes by.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) policy: &'a Policy,
    pub(crate) shared: &'a Arc<Shared>,
    /// The word for what the task is for.
    pub(crate) action: Option<&'a str>,
}

/// A call on its way.
enum Flight {
    /// It never ran; the result is known.
    Grounded { words: RuntimeWords, reason: &'static str, denial: Option<Denial> },
    /// It runs.
    Running { handle: JoinHandle<(Outcome, Duration)>, effect: StateEffect, skill: bool },
}

/// Runs the calls of one group and gives their results in the calls' order. After a cancel, what has
/// not begun never does.
pub(crate) async fn run_group(
    desk: Desk<'_>,
    place: &Place,
    calls: &[ToolCall],
    cancel: &Cancel,
) -> Result<Vec<Message>, RecordError> {
    let mut flights = Vec::with_capacity(calls.len());
    for call in calls {
        flights.push(take_off(desk, place, call, cancel).await?);
    }
    let mut results = Vec::with_capacity(calls.len());
    for (call, flight) in calls.iter().zip(flights) {
        results.push(land(desk, place, call, flight, cancel).await?);
    }
    Ok(results)
}

/// Propose and review; what is permitted starts.
async fn take_off(desk: Desk<'_>, place: &Place, call: &ToolCall, cancel: &Cancel) -> Result<Flight, RecordError> {
    let grounded = |words, reason| Ok(Flight::Grounded { words, reason, denial: None });
    let Some(tool) = desk.registry.get(&call.name) else {
        return grounded(desk.registry.unknown(&call.name), "unknown_tool");
    };
    if cancel.is_canceled() {
        return grounded(RuntimeWords::new("the task was stopped before this call began. Nothing ran."), "canceled");
    }
    let input = match &call.arguments {
        Arguments::Object(input) => input,
        Arguments::Malformed { reason, .. } => {
            let words = RuntimeWords::new("the call to `").echo(&call.name);
            if reason == SECRET_INPUT {
                let words = words.text("` did not run: ").echo(reason).text(". Nothing ran; leave the value out.");
                return grounded(words, "bad_arguments");
            }
            let words = words.text("` cannot be read: ").echo(reason);
            return grounded(words.text(". Nothing ran; send the call again with a JSON object."), "bad_arguments");
        }
    };
    let proposal = match tool.propose(&call.id, input) {
        Ok(proposal) => proposal,
        Err(BadInput(words)) => return grounded(words, "bad_arguments"),
    };
    let began = Instant::now();
    let review = desk.policy.review(proposal.action).await;
    let took = began.elapsed();
    let approved = match review {
        Review::Allowed(approved) => approved,
        Review::Denied(action, denial) => {
            desk.shared.outbox.reviewed(place, &action, Some(&denial), took)?;
            return Ok(Flight::Grounded { words: denial.words(&call.name), reason: "blocked", denial: Some(denial) });
        }
    };
    desk.shared.outbox.reviewed(place, approved.action(), None, took)?;
    let text = summary::of(input, desk.shared.outbox.redactor());
    let frame = Frame::ToolRunning { tool_name: &call.name, tool_call_id: &call.id, summary: &text };
    desk.shared.outbox.frame(place, &frame);
    let skill = approved.action().kind() == ActionKind::Skill;
    let effect = tool.state_effect();
    let (execution, cancel) = (proposal.execution, cancel.clone());
    let handle = tokio::spawn(async move {
        let began = Instant::now();
        // The second review stands directly before the execution, with the rules as they are then.
        let outcome = match approved.renew().await {
            Ok(permit) => execution.run(permit, cancel).await,
            Err(denial) => Outcome::Refused(denial),
        };
        (outcome, began.elapsed())
    });
    Ok(Flight::Running { handle, effect, skill })
}

/// Waits for a call's outcome and takes it to the model's text.
async fn land(
    desk: Desk<'_>,
    place: &Place,
    call: &ToolCall,
    flight: Flight,
    cancel: &Cancel,
) -> Result<Message, RecordError> {
    let redactor = desk.shared.outbox.redactor().clone();
    let (handle, effect, skill) = match flight {
        Flight::Grounded { words, reason, denial } => {
            let shown = Shown::runtime(words, &redactor);
            return desk.shared.outbox.result(place, call, shown, &Ending::Denied { reason, denial: denial.as_ref() });
        }
        Flight::Running { handle, effect, skill } => (handle, effect, skill),
    };
    let (mut outcome, mut duration) = handle.await.unwrap_or_else(|_| (broken(), Duration::ZERO));
    let outbox = &desk.shared.outbox;
    let shown = loop {
        match outcome {
            Outcome::Asks(question) => {
                let question = question.protect(desk.policy.values());
                let (next, took) = inquire(desk.shared, place, call, question, cancel).await?;
                (outcome, duration) = (next, duration.saturating_add(took));
            }
            Outcome::Detached(detached) => {
                let so_far = (effect, duration);
                match background::detach(desk, (place, call), *detached, so_far, cancel).await? {
                    Way::On(message) => return Ok(message),
                    Way::Waited(result, took) => (outcome, duration) = (Outcome::Ran(result), took),
                }
            }
            Outcome::Ran(raw) => {
                break raw.protect(desk.policy.values()).redact(&redactor).fence(&Source::tool(&call.name));
            }
            Outcome::Refused(denial) => {
                let shown = Shown::runtime(denial.words(&call.name), &redactor);
                let ending = Ending::Denied { reason: "blocked", denial: Some(&denial) };
                return outbox.result(place, call, shown, &ending);
            }
            Outcome::NotRun(words) => {
                let shown = Shown::runtime(words, &redactor);
                return outbox.result(place, call, shown, &Ending::Denied { reason: "not_run", denial: None });
            }
        }
    };
    outbox.result(place, call, shown, &Ending::Ran { effect, skill, duration })
}

/// What a call gets whose tool panicked.
pub(crate) fn broken() -> Outcome {
    Outcome::Ran(RawResult::error("the tool stopped on an internal fault; what it had done up to then may stand"))
}
