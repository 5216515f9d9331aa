//! A tool that asks whoever sent the task, and what becomes of its question.
//!
//! The task waits in `input-required` until a message answers it, the time is up or somebody stops it.
//! The question is the tool's text and goes to people, never to the model; the answer goes to the tool.

use std::time::{Duration, Instant};

use policy::{Cancel, Outcome, Question, RawResult};
use record::{Body, CallId, Error as RecordError, InputReceived, InputRequired};
use tokio::time::timeout;
use vocab::{TaskState, ToolCall, Trust};

use crate::Frame;
use crate::board::Said;
use crate::dispatch::broken;
use crate::handle::Shared;
use crate::outbox::{Place, millis};

/// Waits for an answer and gives what the tool makes of it, with the time that the tool itself took.
pub(crate) async fn inquire(
    shared: &Shared,
    place: &Place,
    call: &ToolCall,
    question: Question,
    cancel: &Cancel,
) -> Result<(Outcome, Duration), RecordError> {
    let outbox = &shared.outbox;
    let prompt = outbox.redactor().redact_owned(question.prompt).into_string();
    let (turn, task_id, tool_call_id) = (place.turn, &place.task, CallId(&call.id));
    let line = InputRequired { turn, task_id, tool_call_id, tool: &call.name, prompt: Body::Text(&prompt) };
    let asked = outbox.event(Some(&place.parent), line)?;
    outbox.frame(place, &Frame::InputRequired { prompt: &prompt });
    let began = Instant::now();
    let mut canceled = cancel.clone();
    let answer = tokio::select! {
        biased;
        () = canceled.canceled() => Err("the task was stopped while the tool waited for an answer"),
        answer = timeout(shared.patience(), shared.ask(&place.task, &prompt)) => match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err("nobody answered the tool's question in time"),
        },
    };
    let trust: Option<Trust> = answer.as_ref().ok().map(|answer| answer.trust);
    let line = InputReceived {
        turn,
        task_id,
        tool_call_id,
        answered: answer.is_ok(),
        trust,
        answer: answer.as_ref().ok().map(|answer| Body::Text(&answer.text)),
        waited_ms: millis(began.elapsed()),
    };
    outbox.event(Some(&asked), line)?;
    match answer {
        Err(why) => {
            shared.state(&place.task, TaskState::Working, Said::default());
            Ok((Outcome::Ran(RawResult::error(why)), Duration::ZERO))
        }
        Ok(answer) => {
            let began = Instant::now();
            let outcome = tokio::spawn(question.resume.answer(answer.text)).await.unwrap_or_else(|_| broken());
            Ok((outcome, began.elapsed()))
        }
    }
}
