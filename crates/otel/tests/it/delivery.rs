//! What receivers do, and what a session notices of it: nothing, but for the report at its end.

use std::net::TcpListener;

use otel::{Error, Exporter, Report};
use vocab::{EndStatus, StopReason};

use crate::play::{Play, SECRET, redactor};
use crate::receiver::{Answer, Receiver, gate};

/// A short session, exported.
fn exported(endpoint: &str) -> Report {
    let (play, exporter) = Play::start(endpoint);
    play.short();
    exporter.finish()
}

/// The figures of a report, and its error in words.
fn said(report: &Report) -> (u64, u64, Option<String>) {
    (report.sent, report.dropped, report.error.as_ref().map(ToString::to_string))
}

#[test]
fn a_request_is_the_protocols() {
    let receiver = Receiver::start(Vec::new());
    assert_eq!(said(&exported(&format!("{}/otlp/", receiver.url()))), (4, 0, None));
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].path, "/otlp/v1/traces");
    assert_eq!(requests[0].header("content-type"), Some("application/x-protobuf"));
    assert_eq!(requests[0].header("user-agent"), Some("mur/0.1.0"));
    assert_eq!(requests[0].spans().len(), 4);
}

#[test]
fn a_session_without_spans_contacts_nobody() {
    let receiver = Receiver::start(Vec::new());
    let (_, exporter) = Play::quiet(receiver.url());
    assert_eq!(said(&exporter.finish()), (0, 0, None));
    assert_eq!(receiver.requests().len(), 0);
}

#[test]
fn spans_leave_while_the_session_lives() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    play.answered(&task, 0, StopReason::ToolUse, play.span_of(&task, 1));
    receiver.next();
    assert_eq!(receiver.spans().len(), 1);
    play.task_ended(&task, EndStatus::Ok, None);
    play.ended(EndStatus::Ok);
    assert_eq!(said(&exporter.finish()), (4, 0, None));
    assert_eq!(receiver.spans().len(), 4);
}

#[test]
fn a_receiver_that_asks_for_a_second_try_gets_one() {
    for answer in [
        Answer::Refuse(503, "retry-after: 0\r\n"),
        Answer::Refuse(429, "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
        Answer::Refuse(502, "retry-after: 0\r\n"),
        Answer::Refuse(504, ""),
    ] {
        let receiver = Receiver::start(vec![answer]);
        assert_eq!(said(&exported(receiver.url())), (4, 0, None));
        let requests = receiver.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].raw, requests[1].raw, "the same spans, with the same ids");
    }
}

#[test]
fn a_receiver_that_refuses_for_good_is_asked_once() {
    for status in [400, 401, 404, 413, 500, 307] {
        let receiver = Receiver::start(vec![Answer::Refuse(status, "location: /elsewhere\r\n")]);
        let error = format!("`{}` answered {status}", receiver.host());
        assert_eq!(said(&exported(receiver.url())), (0, 4, Some(error)));
        assert_eq!(receiver.requests().len(), 1);
    }
}

#[test]
fn a_receiver_that_stays_busy_is_asked_four_times() {
    let busy = || Answer::Refuse(503, "retry-after: 0\r\n");
    let receiver = Receiver::start(vec![busy(), busy(), busy(), busy()]);
    assert_eq!(said(&exported(receiver.url())), (0, 4, Some(format!("`{}` answered 503", receiver.host()))));
    assert_eq!(receiver.requests().len(), 4);
}

#[test]
fn a_receiver_that_asks_for_too_long_a_delay_is_not_waited_for() {
    let receiver = Receiver::start(vec![Answer::Refuse(503, "retry-after: 31\r\n")]);
    assert_eq!(said(&exported(receiver.url())), (0, 4, Some(format!("`{}` answered 503", receiver.host()))));
    assert_eq!(receiver.requests().len(), 1);
}

#[test]
fn a_receiver_that_is_down_is_only_a_line_in_the_report() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    let report = exported(&format!("http://{host}"));
    assert_eq!((report.sent, report.dropped), (0, 4));
    let error = report.error.unwrap();
    assert!(matches!(&error, Error::Unreachable { receiver, .. } if *receiver == host), "{error}");
    assert!(error.to_string().contains("onnection refused"), "{error}");
}

#[test]
fn a_receiver_that_hangs_up_takes_nothing_at_the_end() {
    let receiver = Receiver::start(vec![Answer::HangUp, Answer::HangUp, Answer::HangUp, Answer::HangUp]);
    let report = exported(receiver.url());
    assert_eq!((report.sent, report.dropped), (0, 4));
    assert!(matches!(report.error, Some(Error::Unreachable { .. })));
}

#[test]
fn a_receiver_that_hung_up_once_gets_the_spans_later() {
    let receiver = Receiver::start(vec![Answer::HangUp]);
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    play.answered(&task, 0, StopReason::ToolUse, play.span_of(&task, 1));
    receiver.next();
    receiver.next();
    play.task_ended(&task, EndStatus::Ok, None);
    play.ended(EndStatus::Ok);
    assert_eq!(said(&exporter.finish()), (4, 0, None));
}

#[test]
fn a_receiver_that_never_answers_is_left_behind() {
    let receiver = Receiver::start(vec![Answer::Silence]);
    let error = format!("`{}` had not taken all spans 3 s after the session's end", receiver.host());
    assert_eq!(said(&exported(receiver.url())), (0, 4, Some(error)));
}

#[test]
fn a_slow_receiver_loses_what_the_queue_cannot_hold_and_the_report_counts_it() {
    let (open, wait) = gate();
    let receiver = Receiver::start(vec![wait]);
    let (play, exporter) = Play::start(receiver.url());
    let task = play.task(None);
    play.answered(&task, 0, StopReason::ToolUse, play.span_of(&task, 1));
    // The first request is under way and will stay so.
    receiver.next();
    for _ in 0..4000 {
        play.tool(&task, 0, "files_read", None);
    }
    open.send(()).unwrap();
    play.task_ended(&task, EndStatus::Ok, None);
    play.ended(EndStatus::Ok);
    let report = exporter.finish();
    assert_eq!(report.sent + report.dropped, 4004);
    assert!((2049..=4003).contains(&report.sent) && report.dropped > 0, "{report:?}");
    assert!(matches!(report.error, Some(Error::Behind { .. })), "{report:?}");
    assert_eq!(receiver.spans().len(), usize::try_from(report.sent).unwrap());
}

#[test]
fn spans_that_a_receiver_rejects_are_dropped_ones_and_its_words_are_redacted() {
    let words: &'static str = format!("too many of {SECRET}").leak();
    let receiver = Receiver::start(vec![Answer::Partly(3, words)]);
    let error = format!("`{}` rejected 3 of the spans: too many of [redacted]", receiver.host());
    assert_eq!(said(&exported(receiver.url())), (1, 3, Some(error)));
    assert_eq!(receiver.requests().len(), 1);

    let receiver = Receiver::start(vec![Answer::Partly(0, "nearly too many")]);
    assert_eq!(said(&exported(receiver.url())), (4, 0, None), "a warning is no rejection");

    let receiver = Receiver::start(vec![Answer::Partly(i64::MAX, "all of them and more")]);
    let report = exported(receiver.url());
    assert_eq!((report.sent, report.dropped), (0, 4), "no more than there were");
}

#[test]
fn a_receiver_that_says_nonsense_took_the_spans() {
    let receiver = Receiver::start(vec![Answer::Nonsense]);
    assert_eq!(said(&exported(receiver.url())), (4, 0, None));
}

#[test]
fn what_comes_after_the_end_is_not_waited_for() {
    let receiver = Receiver::start(Vec::new());
    let (play, exporter) = Play::start(receiver.url());
    play.short();
    assert_eq!(said(&exporter.finish()), (4, 0, None));
    play.short();
    assert_eq!(receiver.spans().len(), 4);
}

#[test]
fn an_endpoint_that_is_none_is_refused() {
    let resource = otel::Resource {
        session: vocab::SessionId::new(),
        capsule: "demo".to_owned(),
        capsule_version: "1".to_owned(),
        mur_version: "0".to_owned(),
    };
    let error = Exporter::start("ftp://collector", &resource, redactor()).err().unwrap();
    assert_eq!(error.to_string(), "the endpoint `ftp://collector` is neither http nor https");
    assert_eq!(error.hint(), "write `observability.otlp_endpoint` as in `http://127.0.0.1:4318`");
}
