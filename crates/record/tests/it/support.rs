//! A home, a still clock, and a small session to record.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use record::{
    Body, CallId, CallStatus, Capture, Decision, Digest, Error, Event, Home, Inference, SessionEnd, SessionStart,
    TaskEnd, TaskReceived, TaskStart, ToolCallEvent, TraceKey, TraceOptions, TraceWriter,
};
use secrets::{Redactor, Secret};
use serde_json::{Map, Value};
use tempfile::TempDir;
use vocab::{
    Clock, ContextId, EndStatus, EventId, Lane, MessageId, Origin, SessionId, StateEffect, StopReason, TaskId,
    TaskSource, Trust,
};

/// One millisecond passes at each look.
#[derive(Debug, Default)]
pub(crate) struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed)
    }
}

pub(crate) struct Scene {
    pub(crate) home: Home,
    pub(crate) session: SessionId,
    _dir: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let home = Home::at(&dir.path().join("home")).unwrap();
        let session = SessionId::new();
        home.create_session_dir(&session).unwrap();
        Self { home, session, _dir: dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.home.trace_path(&self.session)
    }

    pub(crate) fn options(&self) -> TraceOptions {
        self.options_with(Capture::Content, Redactor::new())
    }

    pub(crate) fn options_with(&self, capture: Capture, redactor: Redactor) -> TraceOptions {
        TraceOptions { session: self.session.clone(), capture, redactor, clock: Arc::new(Ticks::default()) }
    }

    pub(crate) fn writer(&self) -> TraceWriter {
        TraceWriter::create(&self.path(), self.options()).unwrap()
    }

    pub(crate) fn key(&self) -> TraceKey {
        TraceKey::load_or_create(&self.home).unwrap()
    }

    /// A signed trace of one task with one tool call, and its bytes.
    pub(crate) fn recorded(&self) -> Vec<u8> {
        let mut writer = self.writer();
        record_task(&mut writer).unwrap();
        writer.finish(&end(), Some(&self.key())).unwrap();
        std::fs::read(self.path()).unwrap()
    }

    pub(crate) fn lines(&self) -> Vec<Map<String, Value>> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub(crate) fn knowing(values: &[&str]) -> Redactor {
    let redactor = Redactor::new();
    for value in values {
        redactor.learn(&Secret::new((*value).to_owned()));
    }
    redactor
}

pub(crate) fn start() -> SessionStart<'static> {
    SessionStart {
        mur_version: "0.1.0",
        capsule: "demo",
        capsule_version: "1.2.3",
        pid: 42,
        workdir: "/srv/agent".as_ref(),
        driver: "scripted",
        model: "script",
        scripted: Some(true),
        capture: Capture::Content,
        tools: &["files_read"],
        resumed_from: None,
        parent: None,
        control: None,
        inference_choices: None,
        effective_grants: None,
    }
}

pub(crate) fn task_start<'a>(
    task_id: &'a TaskId,
    context_id: &'a ContextId,
    message_id: &'a MessageId,
) -> TaskStart<'a> {
    TaskStart {
        task_id,
        context_id,
        source: TaskSource::Cli,
        origin: Origin::User,
        trust: Trust::Trusted,
        lane: Lane::User,
        message_id,
        text: Body::Text("read \"a.txt\"\n"),
        traceparent: None,
        fence_lookalikes: None,
        from_task_id: None,
        from_tool_call_id: None,
    }
}

pub(crate) fn inference<'a>(task_id: &'a TaskId, turn: u32) -> Inference<'a> {
    Inference {
        turn,
        task_id,
        driver_choice: None,
        model: None,
        input_tokens: 100,
        output_tokens: 10,
        cached_tokens: None,
        cache_write_tokens: None,
        thinking_tokens: None,
        decision: Decision::ToolCall,
        stop_reason: StopReason::ToolUse,
        tool_name: Some("files_read"),
        tool_calls: 1,
        provider_id: None,
        attempts: 1,
        duration_ms: 7,
        system_sha: Digest::of(b"system"),
        tools_sha: Digest::of(b"tools"),
        message_ids: &[],
    }
}

pub(crate) fn tool_call<'a>(task_id: &'a TaskId, input: &'a Value, output: &'a str) -> ToolCallEvent<'a> {
    ToolCallEvent {
        turn: 0,
        task_id,
        tool_name: "files_read",
        tool_call_id: CallId("call_1"),
        input: Body::Json(input),
        output: Body::Text(output),
        duration_ms: 3,
        status: CallStatus::Ok,
        state_effect: StateEffect::Read,
        exit_code: None,
        truncated: None,
        detached: None,
        fence_lookalikes: None,
    }
}

pub(crate) fn task_end(task_id: &TaskId) -> TaskEnd<'_> {
    TaskEnd {
        task_id,
        status: EndStatus::Ok,
        error_code: None,
        error: None,
        reply: Some(Body::Text("It says hello.")),
        text: None,
        turns: 1,
        tool_calls: 1,
        input_tokens: 100,
        output_tokens: 10,
        duration_ms: 20,
    }
}

pub(crate) fn end() -> SessionEnd<'static> {
    SessionEnd {
        status: EndStatus::Ok,
        error: None,
        tasks: 1,
        turns: 1,
        tool_calls: 1,
        input_tokens: 100,
        output_tokens: 10,
        duration_ms: 25,
    }
}

/// Five lines: session, task, turn, call, task's end.
pub(crate) fn record_task(writer: &mut TraceWriter) -> Result<(), Error> {
    let (task, context, message) = (TaskId::new(), ContextId::new(), MessageId::new());
    let mut add = |parent: Option<&EventId>, event: Event<'_>| writer.append(parent, event);
    add(None, start().into())?;
    let root = add(None, task_start(&task, &context, &message).into())?;
    let turn = add(Some(&root), inference(&task, 0).into())?;
    let input = serde_json::json!({"filePath": "a.txt"});
    add(Some(&turn), tool_call(&task, &input, "hello\u{2028}").into())?;
    add(Some(&root), task_end(&task).into())?;
    Ok(())
}

pub(crate) fn received<'a>(task_id: &'a TaskId, context_id: &'a ContextId) -> TaskReceived<'a> {
    TaskReceived {
        task_id,
        context_id,
        source: TaskSource::A2a,
        origin: Origin::Event,
        trust: Trust::Untrusted,
        lane: Lane::Background,
        bytes: 5,
        from_task_id: None,
        from_tool_call_id: None,
    }
}
