//! Sessions on record, written by the record's own writer with ids and times that stand still.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fence::Source;
use record::{
    Body, CallDenied, CallId, CallStatus, Capture, Decision, Digest, Home, Inference, InferenceError, ReviewPhase,
    SessionEnd, SessionStart, TaskEnd, TaskReceived, TaskStart, ToolCallEvent, TraceKey, TraceOptions, TraceWriter,
};
use secrets::Redactor;
use serde_json::{Value, json};
use vocab::{
    Clock, ContextId, DriverErrorKind, EndStatus, EventId, MessageId, Origin, SessionId, StateEffect, StopReason,
    TaskId, TaskSource,
};

use crate::binary::Mur;

/// A quarter of a second passes at each look.
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now_ms(&self) -> u64 {
        self.0.fetch_add(250, Ordering::Relaxed)
    }
}

/// One session's trace while it is written.
pub(crate) struct Session {
    pub(crate) writer: TraceWriter,
    pub(crate) task: TaskId,
    root: Option<EventId>,
}

pub(crate) fn id(number: u64) -> SessionId {
    format!("ses_0190a1b2c3d47e5f8a9b0c1d{number:08x}").parse().expect("the form of an id")
}

fn task_id() -> TaskId {
    "task_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b".parse().expect("the form of an id")
}

pub(crate) fn key(mur: &Mur) -> TraceKey {
    TraceKey::load_or_create(&home(mur)).expect("a key can be made")
}

pub(crate) fn home(mur: &Mur) -> Home {
    Home::at(&mur.home.home()).expect("an absolute path")
}

impl Session {
    /// A session that began.
    pub(crate) fn begin(mur: &Mur, number: u64, capture: Capture) -> Self {
        let (home, session) = (home(mur), id(number));
        home.create_session_dir(&session).expect("a fresh session");
        let clock = Arc::new(Ticks(AtomicU64::new(1_796_023_700_000 + number * 1_000)));
        let options = TraceOptions { session: session.clone(), capture, redactor: Redactor::new(), clock };
        let mut writer = TraceWriter::create(&home.trace_path(&session), options).expect("a fresh trace");
        let start = SessionStart {
            mur_version: "0.1.0",
            capsule: "bug-hunt",
            capsule_version: "1.2.3",
            pid: 42,
            workdir: Path::new("/srv/agent"),
            driver: "scripted",
            model: "script",
            scripted: Some(true),
            capture,
            tools: &["files_read", "shell_exec"],
            resumed_from: None,
            parent: None,
            control: None,
            inference_choices: None,
            effective_grants: None,
        };
        writer.append(None, start).expect("a line");
        Self { writer, task: task_id(), root: None }
    }

    /// A task came in, and started.
    pub(crate) fn task(&mut self, origin: Origin, text: &str) {
        let (context, message): (ContextId, MessageId) = ("a-thread".parse().expect("a context"), MessageId::new());
        let (task_id, source, trust, lane) = (&self.task, TaskSource::Cli, origin.trust(None), origin.lane());
        let bytes = text.len() as u64;
        let received = TaskReceived {
            task_id,
            context_id: &context,
            source,
            origin,
            trust,
            lane,
            bytes,
            from_task_id: None,
            from_tool_call_id: None,
        };
        self.writer.append(None, received).expect("a line");
        let (context_id, message_id, text, fence_lookalikes) = (&context, &message, Body::Text(text), None);
        let start = TaskStart {
            task_id,
            context_id,
            source,
            origin,
            trust,
            lane,
            message_id,
            text,
            traceparent: None,
            fence_lookalikes,
            from_task_id: None,
            from_tool_call_id: None,
        };
        self.root = Some(self.writer.append(None, start).expect("a line"));
    }

    /// A turn in which the model asked for one call, or none.
    pub(crate) fn turn(&mut self, turn: u32, tool: Option<&str>) {
        self.answered(turn, tool, None);
    }

    fn answered(&mut self, turn: u32, tool: Option<&str>, choice: Option<&str>) {
        let inference = Inference {
            turn,
            task_id: &self.task,
            driver_choice: choice,
            model: choice.map(|_| "a-model"),
            input_tokens: 1_000,
            output_tokens: 20,
            cached_tokens: None,
            cache_write_tokens: None,
            thinking_tokens: None,
            decision: if tool.is_some() { Decision::ToolCall } else { Decision::Reply },
            stop_reason: if tool.is_some() { StopReason::ToolUse } else { StopReason::EndTurn },
            tool_name: tool,
            tool_calls: u32::from(tool.is_some()),
            provider_id: None,
            attempts: 1 + turn,
            duration_ms: 1_234,
            system_sha: Digest::of(b"system"),
            tools_sha: Digest::of(b"tools"),
            message_ids: &[],
        };
        self.writer.append(self.root.as_ref(), inference).expect("a line");
    }

    /// A setting or a secret was changed, or a call used what was: whatever lines of the control plane say.
    pub(crate) fn control<'e>(&mut self, event: impl Into<record::Event<'e>>) -> EventId {
        self.writer.append(None, event).expect("a line")
    }

    /// A turn that a driver choice served.
    pub(crate) fn served(&mut self, turn: u32, choice: &str) {
        self.answered(turn, None, Some(choice));
    }

    /// A tool ran; its result is fenced as the runtime fences it.
    pub(crate) fn call(&mut self, turn: u32, tool: &str, input: &Value, result: &str, failed: bool) {
        let output = fence::wrap(&Source::tool(tool), result);
        let call = ToolCallEvent {
            turn,
            task_id: &self.task,
            tool_name: tool,
            tool_call_id: CallId("call_1"),
            input: Body::Json(input),
            output: Body::Text(&output),
            duration_ms: 3,
            status: if failed { CallStatus::Error } else { CallStatus::Ok },
            state_effect: StateEffect::Read,
            exit_code: failed.then_some(101),
            truncated: failed.then_some(true),
            detached: None,
            fence_lookalikes: failed.then_some(2),
        };
        self.writer.append(self.root.as_ref(), call).expect("a line");
    }

    pub(crate) fn denied(&mut self, turn: u32) {
        let input = json!({"command": "rm -rf /"});
        let denied = CallDenied {
            turn,
            task_id: &self.task,
            tool_call_id: CallId("call_2"),
            tool: "shell_exec",
            reason: "blocked",
            blockers: &["workdir_only"],
            rule_ids: &["rule-7"],
            phase: ReviewPhase::Propose,
            input: Body::Json(&input),
            output: Body::Text("the call was blocked"),
        };
        self.writer.append(self.root.as_ref(), denied).expect("a line");
    }

    pub(crate) fn failed_attempt(&mut self, turn: u32, message: &str) {
        let failed = InferenceError {
            turn,
            task_id: &self.task,
            attempt: 1,
            kind: DriverErrorKind::RateLimit,
            http_status: Some(429),
            message,
            retry_in_ms: Some(500),
        };
        self.writer.append(self.root.as_ref(), failed).expect("a line");
    }

    pub(crate) fn task_end(&mut self, reply: &str) {
        let end = TaskEnd {
            task_id: &self.task,
            status: EndStatus::Ok,
            error_code: None,
            error: None,
            reply: Some(Body::Text(reply)),
            text: None,
            turns: 2,
            tool_calls: 1,
            input_tokens: 2_000,
            output_tokens: 40,
            duration_ms: 61_500,
        };
        self.writer.append(self.root.as_ref(), end).expect("a line");
    }

    /// Leaves the trace as kill -9 does. In a file of its own: a process that another test is just
    /// starting may still share the writer's descriptor, and with it the lock.
    pub(crate) fn kill(self) {
        let path = self.writer.path().to_owned();
        drop(self);
        let written = std::fs::read(&path).expect("the trace is there");
        std::fs::remove_file(&path).expect("its owner may remove it");
        std::fs::write(&path, written).expect("its owner may write it");
    }

    pub(crate) fn end(self, key: Option<&TraceKey>) {
        self.end_as(EndStatus::Ok, key);
    }

    pub(crate) fn end_as(mut self, status: EndStatus, key: Option<&TraceKey>) {
        let end = SessionEnd {
            status,
            error: None,
            tasks: 1,
            turns: 2,
            tool_calls: 1,
            input_tokens: 2_000,
            output_tokens: 40,
            duration_ms: 62_000,
        };
        self.writer.finish(&end, key).expect("a line");
    }
}

/// A session of one task that read a file, was refused a command, and replied.
pub(crate) fn whole(mur: &Mur, number: u64, capture: Capture) {
    let mut session = Session::begin(mur, number, capture);
    session.task(Origin::User, "Why do the tests fail?");
    session.failed_attempt(0, "too many requests");
    session.turn(0, Some("files_read"));
    session.call(0, "files_read", &json!({"filePath": "src/lib.rs"}), "fn main() {\n}\n", false);
    session.call(0, "cargo", &json!({"argv": ["test"]}), "error: 1 test failed", true);
    session.denied(0);
    session.turn(1, None);
    session.task_end("The loop ends\none too early: 漢字.");
    session.end(Some(&key(mur)));
}
