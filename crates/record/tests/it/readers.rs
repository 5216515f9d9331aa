//! Reading while writing, and what lists and steps are made of.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use record::{
    Compaction, ConversationReader, ConversationWriter, Ending, Error, Inference, LineFault, Step, StepKind,
    TraceReader, TraceSummary, Unsafe, verify,
};
use secrets::Redactor;
use vocab::{ContextId, Message, MessageId, SessionId, TaskId};

use crate::support::{Scene, end, inference, received, record_task, start, task_start};

#[test]
fn readers_see_whole_lines_while_a_writer_is_at_it() {
    const TURNS: u32 = 400;
    let scene = Scene::new();
    let mut writer = scene.writer();
    let context = ContextId::new();
    let mut conversation = ConversationWriter::open(&scene.home, &context, Redactor::new()).unwrap().writer;
    let conversation_path = conversation.path().to_owned();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = (0, 0);
                while !done.load(Ordering::Acquire) {
                    let lines = TraceReader::open(&scene.path()).unwrap().map(Result::unwrap).count();
                    let messages = ConversationReader::open(&conversation_path).unwrap().map(Result::unwrap).count();
                    assert!(lines >= seen.0 && messages >= seen.1);
                    seen = (lines, messages);
                }
            });
        }
        writer.append(None, start()).unwrap();
        let task = TaskId::new();
        for turn in 0..TURNS {
            writer.append(None, inference(&task, turn)).unwrap();
            let text = fence::ModelText::unfenced(fence::Unfenced::Operator, "x".repeat(turn as usize * 20));
            conversation.append(&Message::user(text)).unwrap();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(TraceReader::open(&scene.path()).unwrap().count(), TURNS as usize + 1);
    assert_eq!(ConversationReader::open(&conversation_path).unwrap().count(), TURNS as usize);
}

#[test]
fn a_bad_line_is_named_and_ends_the_reading() {
    let scene = Scene::new();
    let text = String::from_utf8(scene.recorded()).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = r#"{"event_type":"inference"}"#;
    std::fs::write(scene.path(), lines.join("\n") + "\n{\"event").unwrap();
    let mut reader = TraceReader::open(&scene.path()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().event_type, "session_start");
    assert_eq!(reader.next().unwrap().unwrap().number, 2);
    let error = reader.next().unwrap().unwrap_err();
    let expected = LineFault::Form("`event_id` is missing".into());
    assert!(matches!(&error, Error::BadLine { line: 3, fault, .. } if *fault == expected), "{error}");
    assert!(reader.next().is_none());
}

#[test]
fn a_torn_line_is_counted_not_read() {
    let scene = Scene::new();
    let bytes = scene.recorded();
    std::fs::write(scene.path(), &bytes[..bytes.len() - 1]).unwrap();
    let mut reader = TraceReader::open(&scene.path()).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 5);
    let last = bytes.split(|&byte| byte == b'\n').nth(5).unwrap();
    assert_eq!(reader.torn_bytes(), last.len() as u64);
}

#[test]
fn a_summary_is_the_same_from_totals_and_from_lines_but_for_the_end() {
    let scene = Scene::new();
    let mut writer = scene.writer();
    assert_eq!(TraceSummary::read(&scene.path()).unwrap(), None);
    record_task(&mut writer).unwrap();
    let expected = TraceSummary {
        session_id: scene.session.clone(),
        started_ms: 1_700_000_000_000,
        capsule: "demo".into(),
        capsule_version: "1.2.3".into(),
        driver: "scripted".into(),
        model: "script".into(),
        scripted: true,
        parent: None,
        ended: None,
        tasks: 1,
        contexts: contexts(&scene.path()),
        more_contexts: false,
        turns: 1,
        tool_calls: 1,
        input_tokens: 100,
        output_tokens: 10,
        duration_ms: 4,
    };
    assert_eq!(TraceSummary::read(&scene.path()).unwrap().as_ref(), Some(&expected));
    writer.finish(&end(), None).unwrap();
    let ended = Some(Ending { status: "ok".into(), error: None });
    let expected = TraceSummary { ended, duration_ms: 25, ..expected };
    assert_eq!(TraceSummary::read(&scene.path()).unwrap(), Some(expected));
}

/// The conversations of all tasks on record, by their starts.
fn contexts(path: &Path) -> Vec<ContextId> {
    let lines = TraceReader::open(path).unwrap().map(Result::unwrap);
    lines
        .filter(|line| line.event_type == "task_start")
        .map(|l| l.str("context_id").unwrap().parse().unwrap())
        .collect()
}

#[test]
fn a_summary_names_each_conversation_once_up_to_a_number_also_of_tasks_that_never_started() {
    for ends in [false, true] {
        let scene = Scene::new();
        let mut writer = scene.writer();
        record_task(&mut writer).unwrap();
        let mut expected = contexts(&scene.path());
        let (task, message) = (TaskId::new(), MessageId::new());
        let never = ContextId::new();
        writer.append(None, received(&task, &never)).unwrap();
        expected.push(never);
        for context in [expected[1].clone(), expected[0].clone(), ContextId::new()] {
            writer.append(None, task_start(&task, &context, &message)).unwrap();
            expected.extend((!expected.contains(&context)).then_some(context));
        }
        if ends {
            writer.finish(&end(), None).unwrap();
        }
        let summary = TraceSummary::read(&scene.path()).unwrap().unwrap();
        assert_eq!((summary.contexts, summary.more_contexts, summary.ended.is_some()), (expected, false, ends));
    }
}

#[test]
fn a_summary_of_very_many_conversations_is_bounded_and_says_so() {
    let scene = Scene::new();
    let mut writer = scene.writer();
    writer.append(None, start()).unwrap();
    let ids: Vec<ContextId> = (0..1001).map(|number| format!("c{number}").parse().unwrap()).collect();
    for id in &ids[..1000] {
        writer.append(None, received(&TaskId::new(), id)).unwrap();
    }
    let read = || TraceSummary::read(&scene.path()).unwrap().unwrap();
    assert_eq!((read().contexts.as_slice(), read().more_contexts), (&ids[..1000], false));
    writer.append(None, received(&TaskId::new(), &ids[1000])).unwrap();
    assert_eq!((read().contexts.as_slice(), read().more_contexts), (&ids[..1000], true));
}

#[test]
fn a_damaged_line_takes_nothing_from_the_summary_of_a_session_that_ended() {
    let scene = Scene::new();
    let text = String::from_utf8(scene.recorded()).unwrap();
    let whole = TraceSummary::read(&scene.path()).unwrap().unwrap();
    let damaged = text.replacen("{\"event_type\":\"task_start\",", "{\"event_type\":\"task_start\";", 1);
    assert_ne!(damaged, text);
    std::fs::write(scene.path(), damaged).unwrap();
    let expected = TraceSummary { contexts: Vec::new(), more_contexts: true, ..whole };
    assert_eq!(TraceSummary::read(&scene.path()).unwrap(), Some(expected));
}

#[test]
fn counts_in_a_file_that_are_too_large_to_add_up_stop_at_the_largest_number() {
    let scene = Scene::new();
    let mut writer = scene.writer();
    writer.append(None, start()).unwrap();
    let task = TaskId::new();
    for turn in 0..2 {
        let huge = Inference { input_tokens: u64::MAX, output_tokens: u64::MAX, ..inference(&task, turn) };
        writer.append(None, huge).unwrap();
    }
    drop(writer);
    let summary = TraceSummary::read(&scene.path()).unwrap().unwrap();
    assert_eq!((summary.turns, summary.input_tokens, summary.output_tokens), (2, u64::MAX, u64::MAX));
}

#[test]
fn a_summary_of_turns_is_a_step_and_its_tokens_count() {
    let scene = Scene::new();
    let mut writer = scene.writer();
    writer.append(None, start()).unwrap();
    let task = TaskId::new();
    let line = Compaction {
        turn: 3,
        task_id: &task,
        choice: "primary",
        driver_choice: "primary",
        model: "m",
        status: record::CallStatus::Ok,
        error: None,
        before_tokens: 900,
        after_tokens: 300,
        messages_replaced: 4,
        message_id: None,
        summary: None,
        input_tokens: 800,
        output_tokens: 20,
        cached_tokens: None,
        attempts: Some(1),
        duration_ms: 6,
    };
    writer.append(None, line).unwrap();
    drop(writer);
    let summary = TraceSummary::read(&scene.path()).unwrap().unwrap();
    assert_eq!((summary.turns, summary.input_tokens, summary.output_tokens), (0, 800, 20));
    let steps: Vec<Step> =
        TraceReader::open(&scene.path()).unwrap().filter_map(|line| Step::of(&line.unwrap())).collect();
    assert_eq!(steps.len(), 1);
    assert_eq!((steps[0].turn, steps[0].task_id.as_deref()), (Some(3), Some(task.as_str())));
    let (messages_replaced, before_tokens, after_tokens, duration_ms) = (4, 900, 300, 6);
    let expected =
        StepKind::Compaction { status: "ok".into(), messages_replaced, before_tokens, after_tokens, duration_ms };
    assert_eq!(steps[0].kind, expected);
}

#[test]
fn steps_tell_the_story() {
    let scene = Scene::new();
    scene.recorded();
    let lines: Vec<_> = TraceReader::open(&scene.path()).unwrap().map(Result::unwrap).collect();
    let kinds: Vec<StepKind> = lines.iter().filter_map(Step::of).map(|step| step.kind).collect();
    assert_eq!(
        kinds,
        [
            StepKind::Task { trust: "trusted".into(), text: Some("read \"a.txt\"\n".into()) },
            StepKind::Inference {
                decision: "tool_call".into(),
                tool_calls: 1,
                input_tokens: 100,
                output_tokens: 10,
                duration_ms: 7
            },
            StepKind::ToolCall { tool: "files_read".into(), status: "ok".into(), output_bytes: 8, duration_ms: 3 },
            StepKind::TaskEnd { status: "ok".into(), error: None, duration_ms: 20 },
        ]
    );
    let call = Step::of(&lines[3]).unwrap();
    assert_eq!((call.turn, call.task_id.as_deref()), (Some(0), lines[3].str("task_id")));
}

/// What every reader says of what stands at `path`, which is in a record's place.
fn refused(path: &Path, session: &SessionId) -> Vec<Unsafe> {
    let found = [
        TraceReader::open(path).err(),
        TraceSummary::read(path).err(),
        ConversationReader::open(path).err(),
        verify(path, Some(session), None).err(),
    ];
    let fault = |error| match error {
        Some(Error::UnsafeRecord { fault, .. }) => Some(fault),
        _ => None,
    };
    found.into_iter().filter_map(fault).collect()
}

#[test]
fn only_a_regular_file_is_read_and_nothing_is_waited_for() {
    let scene = Scene::new();
    scene.recorded();
    let path = scene.path();
    let kept = path.with_file_name("kept.jsonl");
    std::fs::rename(&path, &kept).unwrap();
    let refused = || refused(&path, &scene.session);

    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    assert_eq!(refused(), [Unsafe::NotAFile; 4]);
    assert!(matches!(verify(&path, None, None), Err(Error::UnsafeRecord { .. })));
    std::fs::remove_file(&path).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert_eq!(refused(), [Unsafe::NotAFile; 4]);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(refused(), [Unsafe::NotAFile; 4]);
    std::fs::remove_dir(&path).unwrap();
    for target in [kept.as_path(), Path::new("/dev/zero"), Path::new("nowhere")] {
        std::os::unix::fs::symlink(target, &path).unwrap();
        assert_eq!(refused(), [Unsafe::Symlink; 4]);
        std::fs::remove_file(&path).unwrap();
    }
    assert!(matches!(verify(Path::new("/dev/zero"), None, None), Err(Error::UnsafeRecord { .. })));

    // A link that the operator names leads on; the file itself is read as before.
    std::os::unix::fs::symlink(&kept, &path).unwrap();
    assert!(verify(&path, None, None).is_ok());
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&kept, &path).unwrap();
    assert_eq!(refused(), []);
}

#[test]
fn a_trace_that_was_replaced_or_cut_while_it_was_written_does_not_end_well() {
    for (tamper, ends_well) in [("nothing", true), ("replace", false), ("remove", false), ("cut", false)] {
        let scene = Scene::new();
        let mut writer = scene.writer();
        record_task(&mut writer).unwrap();
        let path = scene.path();
        match tamper {
            "replace" => {
                let copy = path.with_extension("copy");
                std::fs::copy(&path, &copy).unwrap();
                std::fs::rename(&copy, &path).unwrap();
            }
            "remove" => std::fs::remove_file(&path).unwrap(),
            "cut" => std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap(),
            _ => {}
        }
        match writer.finish(&end(), None) {
            Ok(_) => assert!(ends_well, "{tamper}"),
            Err(error) => assert!(!ends_well && matches!(error, Error::Replaced { .. }), "{tamper}: {error}"),
        }
    }
}
