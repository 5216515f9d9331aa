//! Whole sessions as trees of spans.

use vocab::{EndStatus, StopReason, TraceContext};

use crate::play::{BODY, Play, SECRET};
use crate::receiver::Receiver;
use crate::show::{named, outline, tree};

fn names<'n>(play: &'n Play, task: &'n crate::play::Task) -> [(&'n str, &'n str); 3] {
    [(play.session.as_str(), "<session>"), (task.id.as_str(), "<task>"), (task.conversation.as_str(), "<conversation>")]
}

#[test]
fn a_whole_session() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    let first = play.span_of(&task, 50);
    play.answered(&task, 0, StopReason::ToolUse, first);
    let read = play.tool(&task, 0, "files_read", None);
    play.tool(&task, 0, "shell", Some(2));
    play.skill(&task, 0);
    play.denied(&task, 0);
    play.answered(&task, 1, StopReason::EndTurn, play.span_of(&task, 20));
    play.task_ended(&task, EndStatus::Ok, None);
    play.ended(EndStatus::Ok);
    let report = exporter.finish();
    assert_eq!((report.sent, report.dropped, report.error.is_none()), (9, 0, true));

    let spans = receiver.spans();
    insta::assert_snapshot!(tree(&spans, &names(&play, &task)));

    let (chat, tool) = (&spans[0], named(&spans, "execute_tool files_read"));
    assert_eq!(chat.span_id, first.context.span_id, "a span is the one that the call passed on");
    assert_eq!(chat.end_time_unix_nano - chat.start_time_unix_nano, 50_000);
    assert_eq!((&*tool.span_id, &*tool.trace_id), (&read.context.span_id[..], &play.span.trace_id[..]));
    assert_eq!(tool.end_time_unix_nano - tool.start_time_unix_nano, 3_000);
    let turns: Vec<_> = spans.iter().filter(|span| span.name == "turn").collect();
    assert_eq!(turns[0].start_time_unix_nano, chat.start_time_unix_nano, "a turn begins with its call");
    assert_eq!(turns[0].end_time_unix_nano, turns[1].start_time_unix_nano, "and ends with the next one");

    let resource = receiver.requests()[0].body.resource_spans[0].resource.clone().unwrap();
    let about: Vec<String> = resource.attributes.iter().map(|attribute| attribute.key.clone()).collect();
    assert_eq!(
        about,
        [
            "service.name",
            "service.version",
            "service.instance.id",
            "telemetry.sdk.name",
            "telemetry.sdk.language",
            "telemetry.sdk.version",
            "process.pid"
        ]
    );
}

#[test]
fn no_secret_and_no_body_leaves() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    play.failed(&task, 0, 1, Some(7), play.span_of(&task, 1));
    play.answered(&task, 0, StopReason::ToolUse, play.span_of(&task, 1));
    play.denied(&task, 0);
    play.tool(&task, 0, SECRET, None);
    let error = format!("the session may not say {SECRET}");
    play.task_ended(&task, EndStatus::Failed, Some(&error));
    play.ended(EndStatus::Failed);
    assert_eq!(exporter.finish().sent, 5);
    let raw: Vec<u8> = receiver.requests().into_iter().flat_map(|request| request.raw).collect();
    let holds = |text: &str| raw.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!holds(SECRET) && !holds(BODY));
    assert!(holds("the session may not say [redacted]") && holds("execute_tool [redacted]"));
}

#[test]
fn a_call_that_failed_twice_and_for_good() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    let call = play.span_of(&task, 30);
    play.failed(&task, 0, 1, Some(7), call);
    let took = call.took + play.span_of(&task, 40).took;
    play.failed(&task, 0, 2, None, runtime::Span { took, ..call });
    play.task_ended(&task, EndStatus::Failed, Some("the provider is overloaded"));
    play.ended(EndStatus::Failed);
    assert_eq!(exporter.finish().sent, 4);
    insta::assert_snapshot!(tree(&receiver.spans(), &names(&play, &task)));
}

#[test]
fn a_summary_is_a_call_of_the_turn_that_it_makes_room_for() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    play.summarised(&task, 0, Some(2), play.span_of(&task, 30));
    play.answered(&task, 0, StopReason::EndTurn, play.span_of(&task, 40));
    // One that failed has been told by its last attempt.
    play.failed(&task, 1, 1, None, play.span_of(&task, 50));
    play.summarised(&task, 1, None, play.span_of(&task, 50));
    play.task_ended(&task, EndStatus::Ok, None);
    play.ended(EndStatus::Ok);
    assert_eq!(exporter.finish().sent, 7);
    insta::assert_snapshot!(tree(&receiver.spans(), &names(&play, &task)));
}

#[test]
fn a_caller_that_measures_is_above_the_task_and_cannot_hide_it() {
    for caller in [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
    ] {
        let caller = TraceContext::parse(caller).unwrap();
        let receiver = Receiver::start(Vec::new());
        let (play, exporter) = Play::start(receiver.url());
        let task = play.task(Some(caller));
        play.answered(&task, 0, StopReason::EndTurn, play.span_of(&task, 1));
        play.task_ended(&task, EndStatus::Ok, None);
        play.ended(EndStatus::Ok);
        assert_eq!(exporter.finish().sent, 4);
        let spans = receiver.spans();
        let span = named(&spans, "invoke_agent demo");
        assert_eq!((&*span.trace_id, &*span.parent_span_id), (&caller.trace_id[..], &caller.span_id[..]));
        assert_eq!(span.flags, 0x300 | u32::from(caller.sampled));
        assert_eq!(span.links[0].span_id, play.span.span_id, "the session's own trace is a link away");
        assert_eq!(
            outline(&spans),
            "* invoke_agent demo (internal) remote parent\n  * turn (internal)\n    * chat model-1 (client)\n\
             * session demo (internal)\n"
        );
    }
}

#[test]
fn what_was_stopped_is_no_error() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    play.given_up(&task, 0, play.span_of(&task, 5));
    play.task_ended(&task, EndStatus::Canceled, Some("somebody canceled it"));
    play.ended(EndStatus::Ok);
    assert_eq!(exporter.finish().sent, 4);
    let spans = receiver.spans();
    assert!(spans.iter().all(|span| span.status.is_none()));
    let shown = tree(&spans, &[]);
    assert!(shown.contains("murmur.given_up = true") && shown.contains("murmur.status = canceled"), "{shown}");
}

#[test]
fn what_a_session_without_an_end_left_open_is_interrupted() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    play.answered(&task, 0, StopReason::ToolUse, play.span_of(&task, 1));
    assert_eq!(exporter.finish().sent, 4);
    let shown = tree(&receiver.spans(), &[]);
    assert_eq!(shown.matches("murmur.status = interrupted").count(), 2, "{shown}");
}

#[test]
fn an_event_of_a_task_that_never_started_is_nothing() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    play.task_ended(&task, EndStatus::Ok, None);
    play.task_ended(&task, EndStatus::Rejected, Some("the queue is full"));
    play.answered(&task, 0, StopReason::EndTurn, play.span_of(&task, 1));
    play.given_up(&task, 0, play.span_of(&task, 1));
    play.tool(&task, 0, "files_read", None);
    play.denied(&task, 0);
    play.failed(&task, 0, 1, None, play.span_of(&task, 1));
    play.failed(&task, 0, 1, Some(1), play.span_of(&task, 1));
    play.ended(EndStatus::Ok);
    assert_eq!(exporter.finish().sent, 2);
    assert_eq!(outline(&receiver.spans()), "* session demo (internal)\n  * invoke_agent demo (internal)\n");
}

#[test]
fn a_turn_keeps_so_many_events_and_counts_the_rest() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    play.answered(&task, 0, StopReason::ToolUse, play.span_of(&task, 1));
    (0..130).for_each(|_| play.denied(&task, 0));
    play.task_ended(&task, EndStatus::Ok, None);
    play.ended(EndStatus::Ok);
    assert_eq!(exporter.finish().sent, 4);
    let spans = receiver.spans();
    let turn = named(&spans, "turn");
    assert_eq!((turn.events.len(), turn.dropped_events_count), (128, 2));
}
