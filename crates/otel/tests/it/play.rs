//! A session's events, told as the runtime tells them.

use std::sync::Arc;
use std::time::Duration;

use otel::{Exporter, Resource};
use record::{
    Body, CallDenied, CallId, CallStatus, Capture, Compaction, Decision, Digest, Inference, InferenceError,
    ReviewPhase, SessionEnd, SessionStart, SkillCall, TaskEnd, TaskStart, ToolCallEvent,
};
use runtime::{Span, Telemetry};
use secrets::{Redactor, Secret};
use vocab::{
    ContextId, DriverErrorKind, EndStatus, Lane, MessageId, Origin, SessionId, StateEffect, StopReason, TaskId,
    TaskSource, TraceContext, Trust,
};

/// A value that the session's redactor knows.
pub(crate) const SECRET: &str = "s3cr3t-v4lue-of-the-operator";
/// What nobody may find in an export: prompts, inputs, outputs.
pub(crate) const BODY: &str = "a body that stays at home";

pub(crate) struct Play {
    telemetry: Arc<dyn Telemetry>,
    pub(crate) session: SessionId,
    pub(crate) span: TraceContext,
}

/// A task that has started.
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) conversation: ContextId,
    pub(crate) span: TraceContext,
}

pub(crate) fn redactor() -> Redactor {
    let redactor = Redactor::new();
    redactor.learn(&Secret::new(SECRET.to_owned()));
    redactor
}

impl Play {
    /// A session that has started, exported to `endpoint`.
    pub(crate) fn start(endpoint: &str) -> (Self, Exporter) {
        let (play, exporter) = Self::quiet(endpoint);
        let line = SessionStart {
            mur_version: "0.1.0",
            capsule: "demo",
            capsule_version: "1.2.3",
            pid: 42,
            workdir: "/srv/agent".as_ref(),
            driver: "anthropic",
            model: "model-1",
            scripted: None,
            capture: Capture::Meta,
            tools: &["files_read"],
            resumed_from: None,
            parent: None,
            control: None,
            inference_choices: None,
            effective_grants: None,
        };
        play.tell(line, Some(Span { context: play.span, parent: None, took: Duration::ZERO }));
        (play, exporter)
    }

    /// An exporter whose session has not started.
    pub(crate) fn quiet(endpoint: &str) -> (Self, Exporter) {
        let session = SessionId::new();
        let resource = Resource {
            session: session.clone(),
            capsule: "demo".to_owned(),
            capsule_version: "1.2.3".to_owned(),
            mur_version: "0.1.0".to_owned(),
        };
        let (telemetry, exporter) = Exporter::start(endpoint, &resource, redactor()).unwrap();
        (Self { telemetry, session, span: TraceContext::fresh() }, exporter)
    }

    fn tell<'e>(&self, event: impl Into<record::Event<'e>>, span: Option<Span>) {
        self.telemetry.event(&event.into(), span);
    }

    pub(crate) fn task(&self, came_with: Option<TraceContext>) -> Task {
        let (id, conversation, message) = (TaskId::new(), ContextId::new(), MessageId::new());
        let above = came_with.unwrap_or(self.span);
        let span = Span { context: above.child(), parent: Some(above.span_id), took: Duration::ZERO };
        let (origin, trust) = match came_with {
            Some(_) => (Origin::Event, Trust::Untrusted),
            None => (Origin::User, Trust::Trusted),
        };
        let traceparent = came_with.map(|context| context.to_string());
        let line = TaskStart {
            task_id: &id,
            context_id: &conversation,
            source: TaskSource::Cli,
            origin,
            trust,
            lane: Lane::User,
            message_id: &message,
            text: Body::Text(BODY),
            traceparent: traceparent.as_deref(),
            fence_lookalikes: None,
            from_task_id: None,
            from_tool_call_id: None,
        };
        self.tell(line, Some(span));
        Task { id, conversation, span: span.context }
    }

    pub(crate) fn answered(&self, task: &Task, turn: u32, stop_reason: StopReason, span: Span) {
        let line = Inference {
            turn,
            task_id: &task.id,
            driver_choice: None,
            model: None,
            input_tokens: 100,
            output_tokens: 10,
            cached_tokens: Some(80),
            cache_write_tokens: None,
            thinking_tokens: Some(4),
            decision: if stop_reason == StopReason::ToolUse { Decision::ToolCall } else { Decision::Reply },
            stop_reason,
            tool_name: None,
            tool_calls: 0,
            provider_id: Some("msg_1"),
            attempts: 1,
            duration_ms: 0,
            system_sha: Digest::of(b"system"),
            tools_sha: Digest::of(b"tools"),
            message_ids: &[],
        };
        self.tell(line, Some(span));
    }

    pub(crate) fn failed(&self, task: &Task, turn: u32, attempt: u32, retry_in_ms: Option<u64>, span: Span) {
        let line = InferenceError {
            turn,
            task_id: &task.id,
            attempt,
            kind: DriverErrorKind::Overloaded,
            http_status: Some(529),
            message: &format!("the provider is overloaded and repeats {SECRET}"),
            retry_in_ms,
        };
        self.tell(line, Some(span));
    }

    /// A summary of older turns, by another choice's model; an error is told by its last attempt.
    pub(crate) fn summarised(&self, task: &Task, turn: u32, attempts: Option<u32>, span: Span) {
        let line = Compaction {
            turn,
            task_id: &task.id,
            choice: "cheap",
            driver_choice: "primary",
            model: "model-1",
            status: if attempts.is_some() { CallStatus::Ok } else { CallStatus::Error },
            error: None,
            before_tokens: 900,
            after_tokens: 300,
            messages_replaced: 4,
            message_id: None,
            summary: Some(Body::Text(BODY)),
            input_tokens: 800,
            output_tokens: 20,
            cached_tokens: Some(600),
            attempts,
            duration_ms: 6,
        };
        self.tell(line, Some(span));
    }

    pub(crate) fn given_up(&self, task: &Task, turn: u32, span: Span) {
        self.telemetry.given_up(&task.id, turn, span);
    }

    pub(crate) fn tool(&self, task: &Task, turn: u32, name: &str, exit_code: Option<i32>) -> Span {
        let span = self.span_of(task, 3);
        let failed = exit_code.is_some_and(|code| code != 0);
        let line = ToolCallEvent {
            turn,
            task_id: &task.id,
            tool_name: name,
            tool_call_id: CallId("call_1"),
            input: Body::Text(BODY),
            output: Body::Text(BODY),
            duration_ms: 3,
            status: if failed { CallStatus::Error } else { CallStatus::Ok },
            state_effect: if exit_code.is_some() { StateEffect::Mutate } else { StateEffect::Read },
            exit_code,
            truncated: exit_code.map(|_| true),
            detached: None,
            fence_lookalikes: None,
        };
        self.tell(line, Some(span));
        span
    }

    pub(crate) fn skill(&self, task: &Task, turn: u32) {
        let line = SkillCall {
            turn,
            task_id: &task.id,
            tool_name: "how-we-write",
            tool_call_id: CallId("call_2"),
            input: Body::Text(BODY),
            output: Body::Text(BODY),
            duration_ms: 0,
            status: CallStatus::Ok,
        };
        self.tell(line, Some(self.span_of(task, 0)));
    }

    pub(crate) fn denied(&self, task: &Task, turn: u32) {
        let line = CallDenied {
            turn,
            task_id: &task.id,
            tool_call_id: CallId("call_3"),
            tool: SECRET,
            reason: "unknown_tool",
            blockers: &["not_declared"],
            rule_ids: &[],
            phase: ReviewPhase::Propose,
            input: Body::Text(BODY),
            output: Body::Text(BODY),
        };
        self.tell(line, None);
    }

    pub(crate) fn task_ended(&self, task: &Task, status: EndStatus, error: Option<&str>) {
        let line = TaskEnd {
            task_id: &task.id,
            status,
            error_code: error.map(|_| "E-RUN-009"),
            error,
            reply: Some(Body::Text(BODY)),
            text: None,
            turns: 2,
            tool_calls: 3,
            input_tokens: 200,
            output_tokens: 20,
            duration_ms: 0,
        };
        self.tell(line, None);
    }

    pub(crate) fn ended(&self, status: EndStatus) {
        let end = SessionEnd {
            status,
            error: None,
            tasks: 1,
            turns: 2,
            tool_calls: 3,
            input_tokens: 200,
            output_tokens: 20,
            duration_ms: 0,
        };
        self.telemetry.end(&end);
    }

    /// A span below a task that took so many microseconds. They have passed: a span is never longer ago
    /// than its task.
    pub(crate) fn span_of(&self, task: &Task, micros: u64) -> Span {
        let took = Duration::from_micros(micros);
        let began = std::time::Instant::now();
        while began.elapsed() < took {
            std::hint::spin_loop();
        }
        Span { context: task.span.child(), parent: None, took }
    }

    /// A whole session of one task with one turn: four spans.
    pub(crate) fn short(&self) {
        let task = self.task(None);
        self.answered(&task, 0, StopReason::EndTurn, self.span_of(&task, 1));
        self.task_ended(&task, EndStatus::Ok, None);
        self.ended(EndStatus::Ok);
    }
}
