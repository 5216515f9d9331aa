//! Every text is redacted, and nothing but text: no secret's value can break a record.

use fence::{ModelText, RuntimeWords, Source, Unfenced};
use record::{
    Body, CallId, Capture, ConversationReader, ConversationWriter, Event, ToolCallEvent, TraceWriter, VerifyStatus,
    verify,
};
use serde_json::json;
use vocab::{Arguments, ContextId, Message, Part, TaskId, Thinking, ToolCall};

use crate::support::{Scene, end, knowing, start, tool_call};

const SECRET: &str = "hunter2-\"hunter2\"";

#[test]
fn secrets_stay_out_of_the_trace() {
    for capture in [Capture::Content, Capture::Meta, Capture::None] {
        let scene = Scene::new();
        let mut writer =
            TraceWriter::create(&scene.path(), scene.options_with(capture, knowing(&[SECRET, "31337313"]))).unwrap();
        let task = TaskId::new();
        let input = json!({"a": [format!("x{SECRET}y")], (SECRET): {"n": 31337313, "m": 1}});
        let output = format!("it is\n{SECRET}");
        writer.append(None, start()).unwrap();
        let model = Some(SECRET);
        writer.append(None, record::Inference { model, ..crate::support::inference(&task, 0) }).unwrap();
        writer.append(None, tool_call(&task, &input, &output)).unwrap();
        writer.finish(&end(), None).unwrap();
        let text = std::fs::read_to_string(scene.path()).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("31337313"), "{text}");
        let lines = scene.lines();
        assert_eq!(lines[1]["model"], "[redacted]");
        if capture == Capture::Content {
            let input = json!({"a": ["x[redacted]y"], "[redacted]": {"n": "[redacted]", "m": 1}});
            assert_eq!((&lines[2]["input"], &lines[2]["output"]), (&input, &json!("it is\n[redacted]")));
        }
        // A hash of the raw text would let anybody try values.
        if capture == Capture::Meta {
            let expected = record::Digest::of(b"it is\n[redacted]").to_string();
            assert_eq!(lines[2]["output_sha256"], json!(expected));
        }
        assert_eq!(lines[2]["output_bytes"], json!("it is\n[redacted]".len()));
    }
}

#[test]
fn a_value_that_is_a_word_of_ours_breaks_nothing() {
    let words = ["tool_call", "event_type", "session_start", "timestamp", "signature", "ed25519", "call_1", "content"];
    let scene = Scene::new();
    let redactor = knowing(&words);
    redactor.learn(&secrets::Secret::new(scene.session.to_string()));
    let mut writer = TraceWriter::create(&scene.path(), scene.options_with(Capture::Content, redactor)).unwrap();
    let (task, input) = (TaskId::new(), json!({"tool_call": 1}));
    let session = writer.append(None, start()).unwrap();
    let event: Event<'_> = ToolCallEvent {
        tool_name: "tool_call",
        tool_call_id: CallId("call_1"),
        ..tool_call(&task, &input, "a tool_call")
    }
    .into();
    writer.append(Some(&session), event).unwrap();
    writer.finish(&end(), Some(&scene.key())).unwrap();
    let report = verify(&scene.path(), Some(&scene.session), Some(&scene.key().public())).unwrap();
    assert_eq!(report.status, VerifyStatus::Verified);
    let call = &scene.lines()[1];
    assert_eq!(call["event_type"], "tool_call");
    assert_eq!(call["tool_call_id"], "call_1");
    assert_eq!(call["session_id"], scene.session.as_str());
    assert_eq!(call["tool_name"], "[redacted]");
    assert_eq!(call["input"], json!({"[redacted]": 1}));
    assert_eq!(call["output"], "a [redacted]");
}

fn recorded(values: &[&str], message: &Message) -> (String, Message) {
    let scene = Scene::new();
    let context = ContextId::new();
    let mut writer = ConversationWriter::open(&scene.home, &context, knowing(values)).unwrap().writer;
    writer.append(message).unwrap();
    let text = std::fs::read_to_string(writer.path()).unwrap();
    let read = ConversationReader::open(writer.path()).unwrap().next().unwrap().unwrap();
    (text, read)
}

#[test]
fn secrets_stay_out_of_the_conversation() {
    let call = ToolCall {
        id: "call_1".into(),
        name: "shell_exec".into(),
        arguments: Arguments::Object(json!({"command": format!("echo {SECRET}")}).as_object().unwrap().clone()),
    };
    let broken = ToolCall {
        id: "call_2".into(),
        name: "shell_exec".into(),
        arguments: Arguments::Malformed { raw: format!("{{{SECRET}"), reason: format!("near {SECRET}") },
    };
    let thinking = |text: &str| {
        Part::Thinking(Thinking {
            text: text.into(),
            signature: Some("c2ln".into()),
            redacted: None,
            author: "a/m".into(),
        })
    };
    let message = Message::assistant(vec![
        Part::Text(ModelText::unfenced(Unfenced::Model, format!("say {SECRET}"))),
        thinking(SECRET),
        thinking("clean"),
        Part::ToolCall(call.clone()),
        Part::ToolCall(broken.clone()),
    ]);
    let (text, read) = recorded(&[SECRET], &message);
    assert!(!text.contains("hunter2"), "{text}");
    let clean = |thinking: Thinking| Part::Thinking(thinking);
    let expected = vec![
        Part::Text(ModelText::unfenced(Unfenced::Model, "say [redacted]")),
        // A signature over another text is worth nothing.
        clean(Thinking { text: "[redacted]".into(), signature: None, redacted: None, author: "a/m".into() }),
        thinking("clean"),
        Part::ToolCall(ToolCall {
            arguments: Arguments::Object(json!({"command": "echo [redacted]"}).as_object().unwrap().clone()),
            ..call
        }),
        Part::ToolCall(ToolCall {
            arguments: Arguments::Malformed { raw: "{[redacted]".into(), reason: "near [redacted]".into() },
            ..broken
        }),
    ];
    assert_eq!(read.content, expected);
}

#[test]
fn a_value_that_is_a_marker_leaves_the_fence_standing() {
    let source = Source::tool("web-fetch");
    let note = RuntimeWords::new("cut by web-fetch");
    let values = ["untrusted-content", "web-fetch", "source=tool"];
    let whole = ModelText::fenced_with_note(&source, "from web-fetch", &note);
    let (_, read) = recorded(&values, &Message::tool_result("c", false, vec![Part::Text(whole)]));
    let expected =
        "<untrusted-content source=tool:web-fetch>\nfrom [redacted]\n</untrusted-content>\ncut by [redacted]";
    let [Part::Text(text)] = &read.content[..] else { panic!("{read:?}") };
    assert_eq!((text.as_str(), text.source()), (expected, Some("tool:web-fetch")));

    let (opener, closer) = ModelText::fenced_around_with_note(&source, "from web-fetch", &note);
    let image = Part::Image { media_type: "image/png".into(), data: "aGk=".into() };
    let parts = vec![Part::Text(opener), image, Part::Text(closer)];
    let (_, read) = recorded(&values, &Message::tool_result("c", false, parts));
    let [Part::Text(opener), Part::Image { .. }, Part::Text(closer)] = &read.content[..] else { panic!("{read:?}") };
    assert_eq!(opener.as_str(), "<untrusted-content source=tool:web-fetch>\nfrom [redacted]\n");
    assert_eq!(closer.as_str(), "</untrusted-content>\ncut by [redacted]");
}

#[test]
fn a_value_learned_later_is_hidden_from_then_on() {
    let scene = Scene::new();
    let redactor = secrets::Redactor::new();
    let mut writer =
        TraceWriter::create(&scene.path(), scene.options_with(Capture::Content, redactor.clone())).unwrap();
    let (task, input) = (TaskId::new(), json!({}));
    writer.append(None, tool_call(&task, &input, "rotated-value")).unwrap();
    redactor.learn(&secrets::Secret::new("rotated-value".into()));
    let output = Body::Text("rotated-value");
    writer.append(None, ToolCallEvent { output, ..tool_call(&task, &input, "") }).unwrap();
    let outputs: Vec<_> = scene.lines().iter().map(|line| line["output"].clone()).collect();
    assert_eq!(outputs, [json!("rotated-value"), json!("[redacted]")]);
}
