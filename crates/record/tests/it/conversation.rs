//! The conversation record: its form to the letter, and the very messages back.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

use fence::{ModelText, RuntimeWords, Source, Unfenced};
use proptest::prelude::*;
use record::{ConversationReader, ConversationWriter, Error, LineFault, compact, pair_up};
use secrets::Redactor;
use serde_json::{Map, Value, json};
use vocab::{Arguments, ContextId, Message, MessageId, Part, Role, Thinking, ToolCall};

use crate::support::Scene;

fn operator(text: &str) -> Part {
    Part::Text(ModelText::unfenced(Unfenced::Operator, text))
}

fn call(id: &str) -> Part {
    Part::ToolCall(ToolCall::new(id, "files_read", "{}"))
}

fn result(id: &str) -> Message {
    Message::tool_result(id, false, vec![operator("ok")])
}

fn open(scene: &Scene, context: &ContextId) -> record::Reopened {
    ConversationWriter::open(&scene.home, context, Redactor::new()).unwrap()
}

pub(crate) fn nested(depth: usize) -> Value {
    (1..depth).fold(json!({}), |inner, _| json!({"a": inner}))
}

#[test]
fn lines_have_the_documents_form() {
    let scene = Scene::new();
    let context = ContextId::new();
    let mut writer = open(&scene, &context).writer;
    let id: MessageId = "msg_01a00000000000000000000000000000".parse().unwrap();
    let fenced = ModelText::fenced(&Source::tool("web-fetch"), "{\"status\":200}");
    let author = || "anthropic/m".to_owned();
    let messages = [
        Message { id: id.clone(), ..Message::tool_result("toolu_1", false, vec![Part::Text(fenced)]) },
        Message { id: id.clone(), ..Message::assistant(vec![operator("Fetched it.")]) },
        Message {
            id: id.clone(),
            ..Message::assistant(vec![
                Part::Thinking(Thinking {
                    text: "hm".into(),
                    signature: Some("c2ln".into()),
                    redacted: None,
                    author: author(),
                }),
                Part::Thinking(Thinking {
                    text: String::new(),
                    signature: None,
                    redacted: Some("b3Bh".into()),
                    author: author(),
                }),
                Part::ToolCall(ToolCall::new("toolu_2", "web-fetch", "{\"b\":1,\"a\":\"\\u2028\"}")),
                Part::ToolCall(ToolCall::new("toolu_3", "web-fetch", "[1]")),
            ])
        },
        Message {
            id: id.clone(),
            ..Message::tool_result(
                "toolu_2",
                true,
                vec![operator("no"), Part::Image { media_type: "image/png".into(), data: "aGk=".into() }],
            )
        },
    ];
    for message in &messages {
        writer.append(message).unwrap();
    }
    let text = std::fs::read_to_string(writer.path()).unwrap();
    let id = "\"id\":\"msg_01a00000000000000000000000000000\"";
    let expected = [
        format!(r#"{{"role":"tool","tool_call_id":"toolu_1","is_error":false,"content":[{{"type":"text","text":"<untrusted-content source=tool:web-fetch>\n{{\"status\":200}}\n</untrusted-content>"}}],{id},"fence":"tool:web-fetch"}}"#),
        format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"Fetched it."}}],{id}}}"#),
        format!(
            "{{\"role\":\"assistant\",\"content\":[{}],{id}}}",
            [
                r#"{"type":"thinking","text":"hm","signature":"c2ln","author":"anthropic/m"}"#.to_owned(),
                r#"{"type":"redacted_thinking","data":"b3Bh","author":"anthropic/m"}"#.to_owned(),
                "{\"type\":\"tool_call\",\"id\":\"toolu_2\",\"name\":\"web-fetch\",\"arguments\":{\"b\":1,\"a\":\"\u{2028}\"}}".to_owned(),
                r#"{"type":"tool_call","id":"toolu_3","name":"web-fetch","raw":"[1]","reason":"the input must be a JSON object, not an array"}"#.to_owned(),
            ]
            .join(",")
        ),
        format!(r#"{{"role":"tool","tool_call_id":"toolu_2","is_error":true,"content":[{{"type":"text","text":"no"}},{{"type":"image","media_type":"image/png","data":"aGk="}}],{id}}}"#),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    let read: Vec<Message> = ConversationReader::open(writer.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, messages);
}

fn ids(messages: &[&Message]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id.clone()).collect()
}

#[test]
fn a_summary_stands_in_the_history_for_what_it_replaces_and_everything_stays_on_record() {
    let scene = Scene::new();
    let context = ContextId::new();
    let mut writer = open(&scene, &context).writer;
    let said = [
        Message::user(ModelText::unfenced(Unfenced::Operator, "look")),
        Message::assistant(vec![call("a")]),
        result("a"),
        Message::user(ModelText::unfenced(Unfenced::Operator, "and here")),
        Message::assistant(vec![call("b")]),
        result("b"),
    ];
    for message in &said {
        writer.append(message).unwrap();
    }
    let summary = Message::user(ModelText::fenced(&Source::compaction(), "they looked"));
    writer.append_summary(&summary, &ids(&[&said[1], &said[2]])).unwrap();
    let last = std::fs::read_to_string(writer.path()).unwrap().lines().last().unwrap().to_owned();
    let [one, two] = [&said[1].id, &said[2].id];
    assert!(last.ends_with(&format!(r#""fence":"runtime:compaction","replaces":["{one}","{two}"]}}"#)), "{last}");
    drop(writer);
    let mut opened = open(&scene, &context);
    let [look, _, _, here, b, b_result] = said.clone();
    assert_eq!(opened.messages, [look.clone(), summary.clone(), here.clone(), b.clone(), b_result.clone()]);
    // A later one takes the first in; what it names may stand anywhere before it.
    let later = Message::user(ModelText::fenced(&Source::compaction(), "they looked twice"));
    opened.writer.append_summary(&later, &ids(&[&summary, &b, &b_result])).unwrap();
    let path = opened.writer.path().to_owned();
    drop(opened);
    assert_eq!(open(&scene, &context).messages, [look, here, later.clone()]);
    let all: Vec<Message> = ConversationReader::open(&path).unwrap().map(Result::unwrap).collect();
    assert_eq!(all, [said.as_slice(), &[summary, later]].concat());
}

#[test]
fn a_record_whose_summary_names_what_is_not_there_is_damaged() {
    for wrong in [vec![MessageId::new()], vec![MessageId::new(), MessageId::new()]] {
        let scene = Scene::new();
        let context = ContextId::new();
        let mut writer = open(&scene, &context).writer;
        let first = Message::user(ModelText::unfenced(Unfenced::Operator, "look"));
        writer.append(&first).unwrap();
        writer.append_summary(&result("x"), &[ids(&[&first]), wrong].concat()).unwrap();
        drop(writer);
        let Err(error) = ConversationWriter::open(&scene.home, &context, Redactor::new()) else { panic!("it opened") };
        let expected = LineFault::Form("`replaces` names a message that does not stand before it".into());
        assert!(matches!(&error, Error::BadLine { line: 2, fault, .. } if *fault == expected), "{error}");
    }
    let mut history = vec![result("a")];
    assert!(!compact(&mut history, result("b"), &[]));
    assert!(!compact(&mut history, result("b"), &[MessageId::new()]));
    assert_eq!(history.len(), 1, "nothing is changed");
}

#[test]
fn the_record_is_its_owners_alone_and_has_one_writer() {
    let scene = Scene::new();
    let (context, other) = (ContextId::new(), "client-chosen_1".parse::<ContextId>().unwrap());
    let first = open(&scene, &context);
    let path = scene.home.conversation_path(&context);
    assert_eq!(first.writer.path(), path);
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o7777, 0o700);
    let second = ConversationWriter::open(&scene.home, &context, Redactor::new()).map(|_| ());
    assert!(matches!(second, Err(Error::Locked { .. })));
    open(&scene, &other);
    drop(first);
    open(&scene, &context);
}

#[test]
fn a_torn_line_is_cut_at_any_byte_and_costs_no_other() {
    let scene = Scene::new();
    let context = ContextId::new();
    let messages =
        [Message::user(ModelText::unfenced(Unfenced::Operator, "do")), Message::assistant(vec![operator("\u{e9}")])];
    let mut writer = open(&scene, &context).writer;
    let path = writer.path().to_owned();
    for message in &messages {
        writer.append(message).unwrap();
    }
    drop(writer);
    let bytes = std::fs::read(&path).unwrap();
    let first = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for cut in 0..=bytes.len() {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let whole = if cut == bytes.len() { 2 } else { usize::from(cut >= first) };
        let start = [0, first, cut][whole];
        let mut opened = open(&scene, &context);
        assert_eq!((opened.messages.as_slice(), opened.cut_bytes), (&messages[..whole], (cut - start) as u64));
        opened.writer.append(&messages[1]).unwrap();
        let read: Vec<Message> = ConversationReader::open(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, [&messages[..whole], &messages[1..]].concat());
    }
}

#[test]
fn a_bad_line_is_named() {
    let scene = Scene::new();
    let context = ContextId::new();
    let mut writer = open(&scene, &context).writer;
    let path = writer.path().to_owned();
    writer.append(&result("c")).unwrap();
    drop(writer);
    let good = std::fs::read_to_string(&path).unwrap();
    let faults = [
        "nonsense".to_owned(),
        String::new(),
        "[]".to_owned(),
        good.trim().replace("\"tool\"", "\"system\""),
        good.trim().replace("\"tool_call_id\":\"c\",", ""),
        good.trim().replace("\"text\":", "\"txt\":"),
        good.trim().replace("msg_", "evt_"),
        good.trim()
            .replace("{\"type\":\"text\",\"text\":\"ok\"}", "{\"type\":\"tool_call\",\"id\":\"c\",\"name\":\"n\"}"),
    ];
    for fault in &faults {
        std::fs::write(&path, format!("{good}{fault}\n{good}")).unwrap();
        let Err(error) = ConversationWriter::open(&scene.home, &context, Redactor::new()) else { panic!("{fault}") };
        assert!(matches!(error, Error::BadLine { line: 2, .. }), "{fault}: {error}");
        assert_eq!(error.code(), "E-REC-003");
    }
    std::fs::write(&path, good.replace("\"id\":\"msg_", "\"later\":[{}],\"id\":\"msg_")).unwrap();
    assert_eq!(open(&scene, &context).messages.len(), 1);
}

#[test]
fn missing_results_are_completed_on_opening() {
    let scene = Scene::new();
    let context = ContextId::new();
    let asked = Message::assistant(vec![call("a"), call("b"), call("c")]);
    let mut writer = open(&scene, &context).writer;
    let path = writer.path().to_owned();
    writer.append(&asked).unwrap();
    writer.append(&result("a")).unwrap();
    drop(writer);
    // The crash came in the middle of b's result.
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"role\":\"tool\",\"tool_ca").unwrap();

    let opened = open(&scene, &context);
    let ids: Vec<_> = opened.messages[1..].iter().map(|message| message.tool_call_id.as_deref().unwrap()).collect();
    assert_eq!((ids, opened.completed, opened.cut_bytes), (vec!["a", "b", "c"], 2, 23));
    assert!(opened.messages[2].is_error && opened.messages[2].text().starts_with("interrupted before a result"));
    assert_eq!(opened.messages[2].fence(), None);
    drop(opened);
    let again = open(&scene, &context);
    assert_eq!((again.messages.len(), again.completed, again.cut_bytes), (4, 0, 0));
}

#[test]
fn pairing_adds_exactly_what_is_missing() {
    let missing = |history: &[Message]| -> Vec<String> {
        pair_up(history).into_iter().filter_map(|message| message.tool_call_id).collect()
    };
    let user = || Message::user(ModelText::unfenced(Unfenced::Operator, "go"));
    let asked = |ids: &[&str]| Message::assistant(ids.iter().map(|id| call(id)).collect());
    assert_eq!(missing(&[]), [""; 0]);
    assert_eq!(missing(&[user()]), [""; 0]);
    assert_eq!(missing(&[user(), asked(&[])]), [""; 0]);
    assert_eq!(missing(&[user(), asked(&["a", "b"])]), ["a", "b"]);
    assert_eq!(missing(&[user(), asked(&["a", "b"]), result("b")]), ["a"]);
    assert_eq!(missing(&[user(), asked(&["a", "b"]), result("a"), result("b")]), [""; 0]);
    // A provider that gives two calls the same id gets two results.
    assert_eq!(missing(&[user(), asked(&["a", "a"]), result("a")]), ["a"]);
    assert_eq!(missing(&[asked(&["a"]), result("a"), asked(&["b"])]), ["b"]);
}

#[test]
fn arguments_as_deep_as_json_is_read_come_back() {
    let scene = Scene::new();
    let context = ContextId::new();
    let mut writer = open(&scene, &context).writer;
    for depth in [1, 120, 127, 128, 5000] {
        let text = format!("{}{}", "{\"a\":".repeat(depth) + "1", "}".repeat(depth));
        let call = ToolCall::new("c", "n", &text);
        assert_eq!(matches!(call.arguments, Arguments::Object(_)), depth < 128);
        let message = Message::assistant(vec![Part::ToolCall(call)]);
        writer.append(&message).unwrap();
        let last = ConversationReader::open(writer.path()).unwrap().last().unwrap().unwrap();
        assert_eq!(last, message);
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[\\x00-\\x7f]{0,20}",
        "[\u{2028}\u{2029}\u{feff}\u{200b}\"\\\\/\u{10ffff}\n\r\t]{0,8}",
        Just("</untrusted-content>".to_owned()),
        Just("<untrusted-content source=tool:x>\n".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            object(inner).prop_map(Value::from)
        ]
    })
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((text(), value), 0..4).prop_map(|entries| entries.into_iter().collect())
}

fn arguments() -> impl Strategy<Value = Arguments> {
    prop_oneof![
        object(value()).prop_map(Arguments::Object),
        (text(), text()).prop_map(|(raw, reason)| Arguments::Malformed { raw, reason }),
    ]
}

fn thinking() -> impl Strategy<Value = Part> {
    (text(), prop::option::of(text()), prop::option::of(text()), text())
        .prop_map(|(text, signature, redacted, author)| Part::Thinking(Thinking { text, signature, redacted, author }))
}

fn assistant() -> impl Strategy<Value = Message> {
    let part = prop_oneof![
        text().prop_map(|text| Part::Text(ModelText::unfenced(Unfenced::Model, text))),
        thinking(),
        (text(), text(), arguments()).prop_map(|(id, name, arguments)| Part::ToolCall(ToolCall {
            id,
            name,
            arguments
        })),
    ];
    prop::collection::vec(part, 0..5).prop_map(Message::assistant)
}

fn user() -> impl Strategy<Value = Message> {
    (text(), prop::option::of(text())).prop_map(|(text, origin)| {
        Message::user(match origin {
            Some(origin) => ModelText::fenced(&Source::task(&origin), &text),
            None => ModelText::unfenced(Unfenced::Operator, text),
        })
    })
}

fn tool() -> impl Strategy<Value = Message> {
    let content = (text(), text(), any::<bool>(), any::<bool>()).prop_map(|(name, text, images, note)| {
        let (source, note) = (Source::tool(&name), note.then(|| RuntimeWords::new("a note")));
        if !images {
            let text = match note {
                Some(note) => ModelText::fenced_with_note(&source, &text, &note),
                None => ModelText::fenced(&source, &text),
            };
            return vec![Part::Text(text)];
        }
        let (opener, closer) = match note {
            Some(note) => ModelText::fenced_around_with_note(&source, &text, &note),
            None => ModelText::fenced_around(&source, &text),
        };
        let image = Part::Image { media_type: "image/png".into(), data: "aGk=".into() };
        vec![Part::Text(opener), image, Part::Text(closer)]
    });
    let content = prop_oneof![content, text().prop_map(|text| vec![operator(&text)])];
    (text(), any::<bool>(), content).prop_map(|(id, is_error, content)| Message::tool_result(id, is_error, content))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_resumed_context_is_the_very_same(mut messages in prop::collection::vec(prop_oneof![user(), assistant(), tool()], 0..6)) {
        let scene = Scene::new();
        let context = ContextId::new();
        let mut writer = open(&scene, &context).writer;
        for message in &messages {
            writer.append(message).unwrap();
        }
        drop(writer);
        let opened = open(&scene, &context);
        let completed = opened.messages.len() - messages.len();
        prop_assert_eq!(completed, opened.completed);
        messages.extend_from_slice(&opened.messages[messages.len()..]);
        prop_assert_eq!(&opened.messages, &messages);
        prop_assert!(pair_up(&messages).is_empty());
        prop_assert!(messages.iter().rev().take(completed).all(|message| message.role == Role::Tool && message.is_error));
    }
}
