//! From events to spans: session, task, turn, inference, tool.
//!
//! The runtime mints the ids of all but the turns, which exist for whoever reads the tree alone. A span
//! leaves when it is over; what is still open when the session's end never came leaves as interrupted.
//! A caller that says its trace is not sampled does not hide its task from the operator: everything is exported.

mod open;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use record::{
    CallDenied, CallStatus, Compaction, Event, Inference, InferenceError, SessionEnd, SessionStart, TaskEnd, TaskStart,
};
use runtime::{Span, Telemetry};
use secrets::Redactor;
use tokio::sync::mpsc;
use vocab::{EndStatus, StateEffect, TaskId, TraceContext};

use crate::attribute::{self as key, Attributes, clean};
use crate::timeline::{Timeline, nanos};
use crate::wire;
use open::{Origin, begin, end, fail, happened, link};

/// Makes the spans of one session and puts them into the exporter's queue.
pub(crate) struct Recorder {
    redactor: Redactor,
    session: String,
    time: Timeline,
    state: Mutex<State>,
    queue: mpsc::Sender<wire::Span>,
    made: AtomicU64,
}

/// What is under way.
#[derive(Default)]
struct State {
    session: Option<OpenSession>,
    tasks: HashMap<TaskId, OpenTask>,
}

struct OpenSession {
    span: wire::Span,
    context: TraceContext,
    agent: String,
    version: String,
    provider: String,
    model: String,
}

struct OpenTask {
    span: wire::Span,
    context: TraceContext,
    conversation: String,
    turn: Option<OpenTurn>,
}

struct OpenTurn {
    number: u32,
    span: wire::Span,
    context: TraceContext,
    /// What the turn's call has met with so far; it leaves with the call.
    faults: Vec<wire::Event>,
}

/// A tool call or the reading of a skill, whichever of the two events tells of it.
struct Called<'e> {
    task: &'e TaskId,
    turn: u32,
    tool: &'e str,
    call: &'e str,
    failed: bool,
    effect: Option<StateEffect>,
    exit_code: Option<i32>,
    truncated: bool,
}

impl Recorder {
    pub(crate) fn new(redactor: Redactor, session: String, queue: mpsc::Sender<wire::Span>) -> Self {
        Self { redactor, session, time: Timeline::start(), state: Mutex::default(), queue, made: AtomicU64::new(0) }
    }

    /// How many spans there were so far, sent or not.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Ends what is open still, because no event will.
    pub(crate) fn close(&self) {
        let now = self.time.now();
        let mut state = self.lock();
        let interrupted = EndStatus::Interrupted;
        let tasks: Vec<OpenTask> = state.tasks.drain().map(|(_, task)| task).collect();
        for mut task in tasks {
            task.span.attributes.extend(self.attributes().text(key::STATUS, interrupted.as_str()).into_list());
            self.end_task(task, now);
        }
        if let Some(mut session) = state.session.take() {
            session.span.attributes.extend(self.attributes().text(key::STATUS, interrupted.as_str()).into_list());
            self.push(end(session.span, now));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes::new(&self.redactor)
    }

    fn clean(&self, text: &str) -> String {
        clean(&self.redactor, text)
    }

    /// Puts a span that is over into the queue; when that is full, it is lost, and counted.
    fn push(&self, span: wire::Span) {
        self.made.fetch_add(1, Ordering::Relaxed);
        let _ = self.queue.try_send(span);
    }

    fn session_start(&self, event: &SessionStart<'_>, span: Span, now: u64) {
        let origin = Origin { context: span.context, parent: span.parent, remote: false };
        let mut opened = begin(origin, now, self.clean(&format!("session {}", event.capsule)));
        opened.attributes = self
            .attributes()
            .text(key::AGENT_NAME, event.capsule)
            .text(key::AGENT_VERSION, event.capsule_version)
            .text(key::SESSION_ID, &self.session)
            .text_if(key::RESUMED_FROM, event.resumed_from.map(vocab::SessionId::as_str))
            .text(key::CAPTURE, event.capture.as_str())
            .into_list();
        self.lock().session = Some(OpenSession {
            span: opened,
            context: span.context,
            agent: event.capsule.to_owned(),
            version: event.capsule_version.to_owned(),
            provider: event.driver.to_owned(),
            model: event.model.to_owned(),
        });
    }

    fn task_start(&self, event: &TaskStart<'_>, span: Span, now: u64) {
        let mut state = self.lock();
        let Some(session) = &state.session else { return };
        let remote = span.context.trace_id != session.context.trace_id;
        let origin = Origin { context: span.context, parent: span.parent, remote };
        let mut opened = begin(origin, now, self.clean(&format!("invoke_agent {}", session.agent)));
        opened.attributes = self
            .attributes()
            .text(key::OPERATION, "invoke_agent")
            .text(key::PROVIDER, &session.provider)
            .text(key::MODEL, &session.model)
            .text(key::AGENT_NAME, &session.agent)
            .text(key::AGENT_VERSION, &session.version)
            .text(key::CONVERSATION, event.context_id.as_str())
            .text(key::SESSION_ID, &self.session)
            .text(key::TASK_ID, event.task_id.as_str())
            .text(key::ORIGIN, event.origin.as_str())
            .text(key::TRUST, event.trust.as_str())
            .into_list();
        if remote {
            opened.links.push(link(session.context));
        }
        let conversation = event.context_id.as_str().to_owned();
        let task = OpenTask { span: opened, context: span.context, conversation, turn: None };
        if let Some(earlier) = state.tasks.insert(event.task_id.clone(), task) {
            self.end_task(earlier, now);
        }
    }

    /// The turn of this number; the one before it ends where it begins.
    fn turn<'t>(&self, id: &TaskId, task: &'t mut OpenTask, number: u32, start: u64) -> &'t mut OpenTurn {
        if let Some(before) = task.turn.take_if(|turn| turn.number != number) {
            self.push(end(before.span, start));
        }
        task.turn.get_or_insert_with(|| {
            let context = task.context.child();
            let origin = Origin { context, parent: Some(task.context.span_id), remote: false };
            let mut span = begin(origin, start, "turn".to_owned());
            span.attributes = self.attributes().text(key::TASK_ID, id.as_str()).int(key::TURN, number).into_list();
            OpenTurn { number, span, context, faults: Vec::new() }
        })
    }

    /// A call to the model that took until now, as far as every end of one is told alike; its turn
    /// begins with it.
    fn call(&self, (id, number): (&TaskId, u32), model: Option<&str>, span: Span, now: u64) -> Option<wire::Span> {
        let mut state = self.lock();
        let State { session, tasks } = &mut *state;
        let (session, task) = (session.as_ref()?, tasks.get_mut(id)?);
        let model = model.unwrap_or(&session.model);
        let start = now.saturating_sub(nanos(span.took));
        let turn = self.turn(id, task, number, start);
        // What was told of the call before has set its beginning, and each telling comes a little late.
        let began = turn.span.start_time_unix_nano;
        let start = if turn.faults.is_empty() { start.max(began) } else { began };
        let origin = Origin { context: span.context, parent: Some(turn.context.span_id), remote: false };
        let mut call = end(begin(origin, start, self.clean(&format!("chat {model}"))), now);
        call.kind = wire::Kind::Client.into();
        call.events = std::mem::take(&mut turn.faults);
        call.attributes = self
            .attributes()
            .text(key::OPERATION, "chat")
            .text(key::PROVIDER, &session.provider)
            .text(key::MODEL, model)
            .text(key::CONVERSATION, &task.conversation)
            .text(key::TASK_ID, id.as_str())
            .int(key::TURN, number)
            .into_list();
        Some(call)
    }

    fn inference(&self, event: &Inference<'_>, span: Span, now: u64) {
        let Some(mut call) = self.call((event.task_id, event.turn), event.model, span, now) else { return };
        let more = self
            .attributes()
            .text_if(key::DRIVER_CHOICE, event.driver_choice)
            .int(key::INPUT_TOKENS, event.input_tokens)
            .int(key::OUTPUT_TOKENS, event.output_tokens)
            .int_if(key::CACHE_READ, event.cached_tokens)
            .int_if(key::CACHE_WRITE, event.cache_write_tokens)
            .int_if(key::REASONING, event.thinking_tokens)
            .texts(key::FINISH_REASONS, &[event.stop_reason.as_str()])
            .text_if(key::RESPONSE_ID, event.provider_id)
            .text(key::DECISION, event.decision.as_str())
            .int(key::ATTEMPTS, event.attempts);
        call.attributes.extend(more.into_list());
        self.push(call);
    }

    /// A summary's call stands in the turn that it makes room for. One that got no answer is told by its last
    /// attempt.
    fn compaction(&self, event: &Compaction<'_>, span: Span, now: u64) {
        let Some(attempts) = event.attempts else { return };
        let Some(mut call) = self.call((event.task_id, event.turn), Some(event.model), span, now) else { return };
        let more = self
            .attributes()
            .text(key::DRIVER_CHOICE, event.driver_choice)
            .int(key::INPUT_TOKENS, event.input_tokens)
            .int(key::OUTPUT_TOKENS, event.output_tokens)
            .int_if(key::CACHE_READ, event.cached_tokens)
            .int(key::ATTEMPTS, attempts)
            .text(key::DECISION, "compaction");
        call.attributes.extend(more.into_list());
        self.push(call);
    }

    /// An attempt that failed is an event of its call; the last one ends it.
    fn inference_error(&self, event: &InferenceError<'_>, span: Span, now: u64) {
        let fault = self
            .attributes()
            .text(key::EXCEPTION_TYPE, event.kind.as_str())
            .text(key::EXCEPTION_MESSAGE, event.message)
            .int_if(key::HTTP_STATUS, event.http_status)
            .int(key::ATTEMPT, event.attempt)
            .int_if(key::RETRY_IN, event.retry_in_ms);
        let fault = happened(now, "exception", fault);
        if event.retry_in_ms.is_some() {
            if let Some(task) = self.lock().tasks.get_mut(event.task_id) {
                let start = now.saturating_sub(nanos(span.took));
                self.turn(event.task_id, task, event.turn, start).faults.push(fault);
            }
            return;
        }
        let Some(mut call) = self.call((event.task_id, event.turn), None, span, now) else { return };
        call.events.push(fault);
        call.attributes.extend(self.attributes().int(key::ATTEMPTS, event.attempt).into_list());
        self.push(fail(call, self.attributes(), event.kind.as_str(), self.clean(event.message)));
    }

    fn called(&self, called: &Called<'_>, span: Span, now: u64) {
        let mut state = self.lock();
        let Some(task) = state.tasks.get_mut(called.task) else { return };
        let start = now.saturating_sub(nanos(span.took));
        let turn = self.turn(called.task, task, called.turn, start);
        let origin = Origin { context: span.context, parent: Some(turn.context.span_id), remote: false };
        let mut tool = end(begin(origin, start, self.clean(&format!("execute_tool {}", called.tool))), now);
        tool.attributes = self
            .attributes()
            .text(key::OPERATION, "execute_tool")
            .text(key::TOOL_NAME, called.tool)
            .text(key::TOOL_TYPE, "function")
            .text(key::TOOL_CALL, called.call)
            .text(key::CONVERSATION, &task.conversation)
            .text(key::TASK_ID, called.task.as_str())
            .int(key::TURN, called.turn)
            .text_if(key::STATE_EFFECT, called.effect.map(StateEffect::as_str))
            .int_if(key::EXIT_CODE, called.exit_code)
            .flag(key::TRUNCATED, called.truncated)
            .flag(key::SKILL, called.effect.is_none())
            .into_list();
        if called.failed {
            tool = fail(tool, self.attributes(), "tool_error", String::new());
        }
        drop(state);
        self.push(tool);
    }

    /// A call that did not run took no time: it is an event of its turn.
    fn denied(&self, event: &CallDenied<'_>, now: u64) {
        let mut state = self.lock();
        let Some(task) = state.tasks.get_mut(event.task_id) else { return };
        let told = self
            .attributes()
            .text(key::TOOL_NAME, event.tool)
            .text(key::TOOL_CALL, event.tool_call_id.0)
            .text(key::REASON, event.reason)
            .texts(key::BLOCKERS, event.blockers);
        let turn = self.turn(event.task_id, task, event.turn, now);
        turn.span.events.push(happened(now, "murmur.call_denied", told));
    }

    fn task_end(&self, event: &TaskEnd<'_>, now: u64) {
        let Some(mut task) = self.lock().tasks.remove(event.task_id) else { return };
        let more = self
            .attributes()
            .int(key::INPUT_TOKENS, event.input_tokens)
            .int(key::OUTPUT_TOKENS, event.output_tokens)
            .int(key::TURNS, event.turns)
            .int(key::TOOL_CALLS, event.tool_calls)
            .text(key::STATUS, event.status.as_str())
            .text_if(key::ERROR_CODE, event.error_code);
        task.span.attributes.extend(more.into_list());
        task.span = self.judged(task.span, event.status, event.error);
        self.end_task(task, now);
    }

    fn end_task(&self, task: OpenTask, now: u64) {
        if let Some(turn) = task.turn {
            self.push(end(turn.span, now));
        }
        self.push(end(task.span, now));
    }

    /// Marks what did not end well. That somebody stopped it is no error.
    fn judged(&self, span: wire::Span, status: EndStatus, error: Option<&str>) -> wire::Span {
        match status {
            EndStatus::Ok | EndStatus::Canceled | EndStatus::Interrupted => span,
            EndStatus::Failed | EndStatus::Rejected | EndStatus::SpendCeilingReached | EndStatus::MaxTurnsReached => {
                fail(span, self.attributes(), status.as_str(), self.clean(error.unwrap_or_default()))
            }
        }
    }
}

impl Telemetry for Recorder {
    fn event(&self, event: &Event<'_>, span: Option<Span>) {
        let now = self.time.now();
        match (event, span) {
            (Event::SessionStart(event), Some(span)) => self.session_start(event, span, now),
            (Event::TaskStart(event), Some(span)) => self.task_start(event, span, now),
            (Event::Inference(event), Some(span)) => self.inference(event, span, now),
            (Event::Compaction(event), Some(span)) => self.compaction(event, span, now),
            (Event::InferenceError(event), Some(span)) => self.inference_error(event, span, now),
            (Event::ToolCall(event), Some(span)) => {
                let called = Called {
                    task: event.task_id,
                    turn: event.turn,
                    tool: event.tool_name,
                    call: event.tool_call_id.0,
                    failed: event.status == CallStatus::Error,
                    effect: Some(event.state_effect),
                    exit_code: event.exit_code,
                    truncated: event.truncated == Some(true),
                };
                self.called(&called, span, now);
            }
            (Event::SkillCall(event), Some(span)) => {
                let called = Called {
                    task: event.task_id,
                    turn: event.turn,
                    tool: event.tool_name,
                    call: event.tool_call_id.0,
                    failed: event.status == CallStatus::Error,
                    effect: None,
                    exit_code: None,
                    truncated: false,
                };
                self.called(&called, span, now);
            }
            (Event::CallDenied(event), _) => self.denied(event, now),
            (Event::TaskEnd(event), _) => self.task_end(event, now),
            _ => {}
        }
    }

    fn given_up(&self, task: &TaskId, turn: u32, span: Span) {
        let Some(mut call) = self.call((task, turn), None, span, self.time.now()) else { return };
        call.attributes.extend(self.attributes().flag(key::GIVEN_UP, true).into_list());
        self.push(call);
    }

    fn end(&self, event: &SessionEnd<'_>) {
        let now = self.time.now();
        let mut state = self.lock();
        let Some(OpenSession { mut span, .. }) = state.session.take() else { return };
        let more = self
            .attributes()
            .int(key::TASKS, event.tasks)
            .int(key::TURNS, event.turns)
            .int(key::TOOL_CALLS, event.tool_calls)
            .text(key::STATUS, event.status.as_str());
        span.attributes.extend(more.into_list());
        self.push(end(self.judged(span, event.status, event.error), now));
    }
}
