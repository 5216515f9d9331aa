//! Each event writes exactly the keys that the table lists, in each capture mode.

use record::{
    ActionReview, Body, CallDenied, CallId, CallStatus, Capture, Compaction, ControlApplied, ControlChange,
    ControlRefused, Decision, EVENTS, Event, GatewayCredential, Inference, InferenceError, InputReceived,
    InputRequired, KeySpec, McpCall, RequestRouted, ReviewPhase, ReviewTarget, SessionEnd, SessionStart, Shell,
    SkillCall, SubagentEnd, SubagentStart, SubagentStatus, TargetOf, TaskEnd, TaskReceived, TaskStart, ToolCallEvent,
    TraceWriter, Verdict, reference_markdown,
};
use secrets::Redactor;
use serde_json::{Map, Value, json};
use vocab::{
    ContextId, DriverErrorKind, EndStatus, EventId, Lane, MessageId, Origin, Part, SessionId, StateEffect, StopReason,
    TaskId, TaskSource, Trust,
};

use crate::support::{self, Scene};

const ENVELOPE: [&str; 5] = ["event_type", "event_id", "parent_id", "session_id", "timestamp"];

fn some<T>(full: bool, value: T) -> Option<T> {
    full.then_some(value)
}

/// Writes one line of each event, with every optional field or with none.
fn write_each(writer: &mut TraceWriter, full: bool, key: Option<&record::TraceKey>) {
    let task_id = TaskId::new();
    write_beginning(writer, full, &task_id);
    write_calls(writer, full, &task_id);
    write_control(writer, full, &task_id);
    let task_end = TaskEnd {
        status: EndStatus::Failed,
        error_code: some(full, "E-RUN-001"),
        error: some(full, "it broke"),
        reply: some(full, Body::Text("done")),
        text: some(full, Body::Text("say hello")),
        ..support::task_end(&task_id)
    };
    writer.append(None, task_end).unwrap();
    writer.finish(&SessionEnd { error: some(full, "it broke"), ..support::end() }, key).unwrap();
}

fn write_beginning(writer: &mut TraceWriter, full: bool, task_id: &TaskId) {
    let (context_id, message_id, session) = (&ContextId::new(), &MessageId::new(), SessionId::new());
    let (source, origin, trust, lane) = (TaskSource::Cli, Origin::Event, Trust::Untrusted, Lane::Background);
    let grants = json!({"tools": ["files_read"]});
    let ids = [message_id.clone()];
    let events: [Event<'_>; 6] = [
        SessionStart {
            scripted: some(full, true),
            resumed_from: some(full, &session),
            parent: some(full, &grants),
            control: some(full, &grants),
            inference_choices: some(full, &grants),
            effective_grants: some(full, &grants),
            ..support::start()
        }
        .into(),
        TaskReceived {
            task_id,
            context_id,
            source,
            origin,
            trust,
            lane,
            bytes: 5,
            from_task_id: some(full, task_id),
            from_tool_call_id: some(full, CallId("toolu_1")),
        }
        .into(),
        TaskStart {
            source,
            origin,
            trust,
            lane,
            traceparent: some(full, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            fence_lookalikes: some(full, 2),
            from_task_id: some(full, task_id),
            from_tool_call_id: some(full, CallId("toolu_1")),
            ..support::task_start(task_id, context_id, message_id)
        }
        .into(),
        RequestRouted { task_id, action: some(full, "commit"), skills: &["house-style"], documents: &[] }.into(),
        Inference {
            driver_choice: some(full, "primary"),
            model: some(full, "m"),
            cached_tokens: some(full, 1),
            cache_write_tokens: some(full, 1),
            thinking_tokens: some(full, 1),
            decision: Decision::Reply,
            stop_reason: StopReason::EndTurn,
            tool_name: some(full, "files_read"),
            provider_id: some(full, "resp_1"),
            message_ids: &ids,
            ..support::inference(task_id, 0)
        }
        .into(),
        InferenceError {
            turn: 0,
            task_id,
            attempt: 1,
            kind: DriverErrorKind::RateLimit,
            http_status: some(full, 429),
            message: "slow down",
            retry_in_ms: some(full, 500),
        }
        .into(),
    ];
    for event in events {
        writer.append(None, event).unwrap();
    }
}

fn write_calls(writer: &mut TraceWriter, full: bool, task_id: &TaskId) {
    let (turn, tool_call_id, tool, tool_name) = (0, CallId("call_1"), "files_read", "style");
    let (input, output) = (json!({"filePath": "a.txt"}), Body::Text("out"));
    let argv = ["git".to_owned(), "status".to_owned()];
    let targets = [
        ReviewTarget { operation: "read", of: TargetOf::Path("/srv/a".as_ref()) },
        ReviewTarget { operation: "execute", of: TargetOf::Command("ls -l") },
        ReviewTarget { operation: "execute", of: TargetOf::Argv(&argv) },
    ];
    let (action, verdict, micros, rule_ids) = ("files_read", Verdict::Denied, 4, &["r1"][..]);
    let (blockers, reason, status, duration_ms) = (&["outside_scope"][..], "blocked", CallStatus::Ok, 2);
    let (phase, input) = (ReviewPhase::Propose, Body::Json(&input));
    let input_value = json!({"filePath": "a.txt"});
    let events: [Event<'_>; 8] = [
        ActionReview {
            turn,
            task_id,
            tool_call_id,
            tool,
            action,
            targets: &targets,
            verdict,
            blockers,
            rule_ids,
            micros,
            phase,
        }
        .into(),
        CallDenied { turn, task_id, tool_call_id, tool, reason, blockers, rule_ids, phase, input, output }.into(),
        ToolCallEvent {
            exit_code: some(full, -1),
            truncated: some(full, true),
            detached: some(full, true),
            fence_lookalikes: some(full, 1),
            status: CallStatus::Error,
            state_effect: StateEffect::Mutate,
            ..support::tool_call(task_id, &input_value, "out")
        }
        .into(),
        SkillCall { turn, task_id, tool_name, tool_call_id, input, output, duration_ms, status }.into(),
        Shell {
            turn,
            task_id,
            tool_call_id,
            binary: "/bin/sh",
            command: Body::Text("ls"),
            exit_code: some(full, 0),
            bytes: 9,
            containment: some(full, "sealed"),
            enforcement: some(full, "partial"),
            unmasked_rules: some(full, &["keys"][..]),
            duration_ms,
        }
        .into(),
        McpCall {
            turn,
            task_id,
            tool_call_id,
            connection: "c1",
            connection_name: "Tickets",
            tool,
            transport: "stdio",
            starts: 1,
            protected: 2,
            duration_ms,
        }
        .into(),
        InputRequired { turn, task_id, tool_call_id, tool, prompt: Body::Text("which?") }.into(),
        InputReceived {
            turn,
            task_id,
            tool_call_id,
            answered: full,
            trust: some(full, Trust::Untrusted),
            answer: some(full, Body::Text("that")),
            waited_ms: 3,
        }
        .into(),
    ];
    events.into_iter().for_each(|event| drop(writer.append(None, event).unwrap()));
    write_subagent(writer, full, task_id);
}

fn write_subagent(writer: &mut TraceWriter, full: bool, task_id: &TaskId) {
    let (turn, tool_call_id, subagent) = (0, CallId("call_1"), &SessionId::new());
    let start = SubagentStart {
        turn,
        task_id,
        tool_call_id,
        subagent,
        label: some(full, "tests"),
        root: "/srv/a".as_ref(),
        model: some(full, "cheap"),
        depth: 1,
        queued_ms: 3,
    };
    let end = SubagentEnd {
        turn,
        task_id,
        tool_call_id,
        subagent,
        status: SubagentStatus::TimedOut,
        error: some(full, "its time was up"),
        turns: 2,
        input_tokens: 10,
        output_tokens: 5,
        duration_ms: 7,
    };
    writer.append(None, start).unwrap();
    writer.append(None, end).unwrap();
}

fn write_control(writer: &mut TraceWriter, full: bool, task_id: &TaskId) {
    let (turn, input_value, change_id) = (0, json!({"filePath": "a.txt"}), EventId::new());
    let message_id = MessageId::new();
    let events: [Event<'_>; 5] = [
        Compaction {
            turn,
            task_id,
            choice: "cheap",
            driver_choice: "primary",
            model: "m",
            status: if full { CallStatus::Ok } else { CallStatus::Error },
            error: some(full, "no text"),
            before_tokens: 900,
            after_tokens: 300,
            messages_replaced: 4,
            message_id: some(full, &message_id),
            summary: some(full, Body::Text("what was said")),
            input_tokens: 800,
            output_tokens: 20,
            cached_tokens: some(full, 5),
            attempts: some(full, 1),
            duration_ms: 6,
        }
        .into(),
        ControlChange {
            principal: "controller",
            token_id: some(full, "0123456789abcdef"),
            kind: "setting",
            name: "inference.max_tokens",
            action: "set",
            previous: some(full, &input_value),
            value: some(full, &input_value),
            applies_from: some(full, "next_inference_call"),
            replaced: some(full, true),
        }
        .into(),
        ControlRefused {
            principal: "agent",
            token_id: some(full, "0123456789abcdef"),
            status: 422,
            reason: "invalid_value",
            kind: some(full, "setting"),
            name: some(full, "inference.max_tokens"),
        }
        .into(),
        ControlApplied {
            turn,
            task_id,
            name: "inference.max_tokens",
            value: &input_value,
            change_id: some(full, &change_id),
        }
        .into(),
        GatewayCredential {
            artifact: "crm",
            source: "injected",
            credential: some(full, "CRM_KEY"),
            change: "unreadable",
            reason: some(full, "not_injected"),
        }
        .into(),
    ];
    for event in events {
        writer.append(None, event).unwrap();
    }
}

fn is_of(value: &Value, json: &str) -> bool {
    match json {
        "integer" => value.is_u64() || value.is_i64(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array of strings" => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
        "array of objects" => value.as_array().is_some_and(|items| items.iter().all(Value::is_object)),
        "any" => true,
        _ => false,
    }
}

#[test]
fn every_event_writes_the_tables_keys() {
    for capture in [Capture::None, Capture::Meta, Capture::Content] {
        for full in [true, false] {
            let scene = Scene::new();
            let options = scene.options_with(capture, Redactor::new());
            let key = scene.key();
            write_each(&mut TraceWriter::create(&scene.path(), options).unwrap(), full, full.then_some(&key));
            let lines = scene.lines();
            let names: Vec<&str> = lines.iter().map(|line| line["event_type"].as_str().unwrap()).collect();
            assert_eq!(names, EVENTS.iter().map(|event| event.name).collect::<Vec<_>>());
            for (line, event) in lines.iter().zip(EVENTS) {
                let keys: Vec<KeySpec> =
                    event.keys().into_iter().filter(|key| key.rule.holds(capture) && (full || !key.optional)).collect();
                let expected: Vec<&str> =
                    ENVELOPE.into_iter().chain(keys.iter().map(|key| key.name.as_str())).chain(["prev"]).collect();
                assert_eq!(line.keys().collect::<Vec<_>>(), expected, "{} {capture} {full}", event.name);
                for key in keys {
                    assert!(is_of(&line[&key.name], key.json), "{}.{}: {}", event.name, key.name, line[&key.name]);
                }
            }
        }
    }
}

fn call_under(capture: Capture, output: Body<'_>) -> Map<String, Value> {
    let scene = Scene::new();
    let mut writer = TraceWriter::create(&scene.path(), scene.options_with(capture, Redactor::new())).unwrap();
    let (task_id, input) = (TaskId::new(), json!({"b": 1, "a": "\u{e9}"}));
    writer.append(None, ToolCallEvent { output, ..support::tool_call(&task_id, &input, "") }).unwrap();
    let mut line = scene.lines().remove(0);
    line.retain(|key, _| key.starts_with("input") || key.starts_with("output"));
    line
}

#[test]
fn capture_governs_bodies() {
    let output = || Body::Text("h\u{e9}llo");
    let sha = |bytes: &[u8]| record::Digest::of(bytes).to_string();
    assert_eq!(
        Value::Object(call_under(Capture::Content, output())),
        json!({"input": {"b": 1, "a": "\u{e9}"}, "input_bytes": 16, "output": "h\u{e9}llo", "output_bytes": 6}),
    );
    assert_eq!(
        Value::Object(call_under(Capture::Meta, output())),
        json!({
            "input_sha256": sha("{\"b\":1,\"a\":\"\u{e9}\"}".as_bytes()), "input_bytes": 16,
            "output_sha256": sha("h\u{e9}llo".as_bytes()), "output_bytes": 6,
        }),
    );
    assert_eq!(Value::Object(call_under(Capture::None, output())), json!({"input_bytes": 16, "output_bytes": 6}),);
}

#[test]
fn outputs_are_one_text_unless_there_are_images() {
    let source = fence::Source::tool("shot");
    let (opener, closer) = fence::ModelText::fenced_around(&source, "a cat");
    let image = Part::Image { media_type: "image/png".into(), data: "aGk=".into() };
    let texts = [Part::Text(opener.clone()), Part::Text(closer.clone())];
    let whole = format!("{}{}", opener.as_str(), closer.as_str());
    assert_eq!(call_under(Capture::Content, Body::Parts(&texts))["output"], json!(whole));
    assert_eq!(call_under(Capture::Content, Body::Parts(&texts))["output_bytes"], json!(whole.len()));
    let parts = [texts[0].clone(), image, texts[1].clone()];
    assert_eq!(
        call_under(Capture::Content, Body::Parts(&parts))["output"],
        json!([
            {"type": "text", "text": opener.as_str()},
            {"type": "image", "media_type": "image/png", "data": "aGk="},
            {"type": "text", "text": closer.as_str()},
        ]),
    );
}

#[test]
fn commands_are_withheld_from_reviews_but_paths_are_not() {
    let targets = |capture| {
        let scene = Scene::new();
        let mut writer = TraceWriter::create(&scene.path(), scene.options_with(capture, Redactor::new())).unwrap();
        write_each(&mut writer, false, None);
        let line = scene.lines().into_iter().find(|line| line["event_type"] == "action_review").unwrap();
        line["targets"].clone()
    };
    assert_eq!(
        targets(Capture::Content),
        json!([
            {"operation": "read", "path": "/srv/a"},
            {"operation": "execute", "command": "ls -l"},
            {"operation": "execute", "argv": ["git", "status"]},
        ]),
    );
    let bare = json!([{"operation": "read", "path": "/srv/a"}, {"operation": "execute"}, {"operation": "execute"}]);
    assert_eq!(targets(Capture::Meta), bare);
    assert_eq!(targets(Capture::None), bare);
}

#[test]
fn parents_are_earlier_lines_and_the_sessions_start_by_default() {
    let scene = Scene::new();
    scene.recorded();
    let lines = scene.lines();
    let id = |at: usize| lines[at]["event_id"].clone();
    let parents: Vec<Value> = lines.iter().map(|line| line["parent_id"].clone()).collect();
    assert_eq!(parents, [Value::Null, id(0), id(1), id(2), id(1), id(0)]);
}

#[test]
fn the_reference_page_names_every_key() {
    let page = reference_markdown();
    for event in EVENTS {
        let (_, section) = page.split_once(&format!("\n## `{}`\n", event.name)).unwrap();
        let section = section.split("\n## ").next().unwrap();
        for key in event.keys() {
            assert!(section.contains(&format!("| `{}` | {} |", key.name, key.json)), "{}.{}", event.name, key.name);
        }
    }
}
