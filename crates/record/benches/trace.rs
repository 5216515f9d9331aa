//! One trace line written and chained, of about 500 bytes and 4 KB, with and without known secrets; and
//! one message of a conversation.
#![expect(clippy::unwrap_used, clippy::string_slice, reason = "a bench fails like a test")]

use std::sync::Arc;

use divan::Bencher;
use divan::counter::BytesCount;
use record::{Body, CallId, CallStatus, Capture, ConversationWriter, Home, ToolCallEvent, TraceOptions, TraceWriter};
use secrets::{Redactor, Secret};
use tempfile::TempDir;
use vocab::{ContextId, Message, SessionId, StateEffect, SystemClock, TaskId};

fn main() {
    divan::main();
}

fn redactor(values: usize) -> Redactor {
    let redactor = Redactor::new();
    for index in 0..values {
        redactor.learn(&Secret::new(format!("secret-value-number-{index:04}-0123456789")));
    }
    redactor
}

fn home() -> (TempDir, Home) {
    let dir = TempDir::new().unwrap();
    let home = Home::at(&dir.path().join("home")).unwrap();
    (dir, home)
}

fn output(bytes: usize) -> String {
    "a line of some output that a tool gave back, with \"quotes\" and so on\n".repeat(bytes / 70 + 1)[..bytes]
        .to_owned()
}

/// Bytes of the tool's output: 16 make a line of about 500 bytes, 3500 one of about 4 KB.
#[divan::bench(args = [(16, 0), (16, 10), (3500, 0), (3500, 10)])]
fn trace_line(bencher: Bencher<'_, '_>, (bytes, values): (usize, usize)) {
    let (_dir, home) = home();
    let session = SessionId::new();
    home.create_session_dir(&session).unwrap();
    let options = TraceOptions {
        session: session.clone(),
        capture: Capture::Content,
        redactor: redactor(values),
        clock: Arc::new(SystemClock),
    };
    let mut writer = TraceWriter::create(&home.trace_path(&session), options).unwrap();
    let (task, input, output) = (TaskId::new(), serde_json::json!({"filePath": "src/main.rs"}), output(bytes));
    let event = ToolCallEvent {
        turn: 7,
        task_id: &task,
        tool_name: "files_read",
        tool_call_id: CallId("toolu_01A09q90qw90lq917835lq9"),
        input: Body::Json(&input),
        output: Body::Text(&output),
        duration_ms: 3,
        status: CallStatus::Ok,
        state_effect: StateEffect::Read,
        exit_code: None,
        truncated: None,
        detached: None,
        fence_lookalikes: None,
    };
    bencher.counter(BytesCount::new(bytes)).bench_local(|| writer.append(None, event).unwrap());
}

#[divan::bench(args = [16, 3500])]
fn conversation_line(bencher: Bencher<'_, '_>, bytes: usize) {
    let (_dir, home) = home();
    let mut writer = ConversationWriter::open(&home, &ContextId::new(), redactor(10)).unwrap().writer;
    let text = fence::ModelText::fenced(&fence::Source::tool("files_read"), &output(bytes));
    let message = Message::tool_result("toolu_01A09q90qw90lq917835lq9", false, vec![vocab::Part::Text(text)]);
    bencher.counter(BytesCount::new(bytes)).bench_local(|| writer.append(&message).unwrap());
}
