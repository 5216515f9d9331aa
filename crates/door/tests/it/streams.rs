//! Streams: every frame once, whatever becomes of the connection; what a watcher that is slow or
//! comes from elsewhere is told; how all of them end.

use std::time::Duration;

use door::Limits;
use proptest::collection::vec;
use proptest::prelude::*;
use runtime::{Caller, NewTask};
use serde_json::{Value, json};
use vocab::TaskSource;

use crate::client::{Client, Event, Events};
use crate::stage::{Setting, Stage};

fn submit(stage: &Stage, text: &str) -> vocab::TaskId {
    let new = NewTask {
        text: text.into(),
        source: TaskSource::A2a,
        claim: None,
        context: None,
        traceparent: None,
        message_id: None,
        action: None,
    };
    stage.session.submit(Caller::Operator, new).unwrap().id
}

fn watch(client: Client, seen: Option<u64>) -> Events {
    match seen {
        None => client.stream("stream/watch", &json!({}), &[]),
        Some(seen) => client.stream("stream/watch", &json!({}), &[("Last-Event-ID", &seen.to_string())]),
    }
}

/// Whether this is the last frame of a task.
fn is_end(event: &Event) -> bool {
    event.name == "status" && event.json()["final"] == true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]

    #[test]
    fn who_comes_back_a_hundred_times_sees_every_frame_once(takes in vec(1_usize..14, 100)) {
        comes_back(&takes);
    }
}

/// A task has 120 words: with the two states before them, their end and the state after, 124 frames.
fn comes_back(takes: &[usize]) {
    let stage = Stage::open();
    let mut pieces: Vec<Event> = Vec::new();
    for (round, take) in takes.iter().enumerate() {
        if round % 10 == 0 {
            submit(&stage, "count 120");
        }
        let seen = pieces.last().and_then(|event| event.id).unwrap_or(0);
        let mut events = watch(stage.client(), Some(seen));
        assert_eq!(events.next().unwrap().name, "connection-ack");
        pieces.extend(events.by_ref().take(*take));
    }
    let rest = |seen: Option<u64>, tasks: usize| -> Vec<Event> {
        let mut events = watch(stage.client(), seen.or(Some(0)));
        events.next();
        (0..tasks).flat_map(|_| events.until(is_end)).collect()
    };
    let ended = pieces.iter().filter(|event| is_end(event)).count();
    pieces.extend(rest(pieces.last().and_then(|event| event.id), 10 - ended));
    let ids: Vec<u64> = pieces.iter().map(|event| event.id.unwrap()).collect();
    assert_eq!(ids, (1..=10 * 124).collect::<Vec<u64>>());
    assert_eq!(pieces, rest(None, 10));
}

/// Those who keep up are at one place and get the same pieces; others are elsewhere at the same time.
#[test]
fn whoever_watches_sees_the_same_from_where_they_are() {
    let stage = Stage::open();
    let at = |seen: u64| {
        let mut events = watch(stage.client(), Some(seen));
        assert_eq!(events.next().unwrap().name, "connection-ack");
        events
    };
    let mut early = [at(0), at(0), at(0)];
    submit(&stage, "count 120");
    let whole = early[0].until(is_end);
    assert_eq!(whole.iter().map(|event| event.id.unwrap()).collect::<Vec<u64>>(), (1..=124).collect::<Vec<u64>>());
    let mut late = [1, 60, 123].map(|seen| (seen, at(seen)));
    submit(&stage, "count 3");
    let next = early[0].until(is_end);
    for events in &mut early[1..] {
        assert_eq!((events.until(is_end), events.until(is_end)), (whole.clone(), next.clone()));
    }
    for (seen, events) in &mut late {
        let missing = &whole[usize::try_from(*seen).unwrap()..];
        assert_eq!((events.until(is_end), events.until(is_end)), (missing.to_vec(), next.clone()));
    }
}

#[test]
fn a_task_s_own_stream_holds_its_frames_alone() {
    let stage = Stage::open();
    let mut watched = watch(stage.client(), None);
    watched.next();
    let params = json!({"message": {"parts": [{"text": "say a\nwait g"}]}});
    let own = stage.client().stream("message/stream", &params, &[]);
    let other = submit(&stage, "say b");
    stage.gates.open("g");
    let own: Vec<Event> = own.collect();
    let mut all = watched.until(is_end);
    all.extend(watched.until(is_end));
    let of = |task: &Value| all.iter().filter(|event| event.json()["id"] == *task).cloned().collect::<Vec<Event>>();
    let task = own[0].json()["id"].clone();
    assert_eq!(own, of(&task));
    assert_eq!(of(&json!(other)).len() + own.len(), all.len());
}

#[test]
fn an_id_that_is_gone_or_of_another_session_is_told_as_a_gap() {
    let stage = Stage::open();
    submit(&stage, "say a");
    let mut frames = watch(stage.client(), Some(0));
    frames.next();
    let frames = frames.until(is_end);
    let gap =
        |first: u64| Event { id: None, name: "gap".into(), data: json!({"first_available_id": first}).to_string() };
    for foreign in ["99", "18446744073709551615", "18446744073709551616", "-1", "x"] {
        let mut events = stage.client().stream("stream/watch", &json!({}), &[("Last-Event-ID", foreign)]);
        assert_eq!(events.next().unwrap().name, "connection-ack");
        let mut expected = vec![gap(1)];
        expected.extend(frames.iter().cloned());
        assert_eq!(events.until(is_end), expected, "{foreign}");
    }
    let last = frames.last().and_then(|frame| frame.id).unwrap();
    let mut events = watch(stage.client(), Some(last));
    events.next();
    // More frames than are kept: the first of them are gone for whoever was away.
    submit(&stage, "count 4500");
    let newest = events.until(is_end).last().and_then(|event| event.id).unwrap();
    let mut late = watch(stage.client(), Some(3));
    late.next();
    let late = late.until(is_end);
    assert_eq!(late[0], gap(newest - 4095));
    assert_eq!(late.len(), 1 + 4096);
    assert_eq!(late[1].id, Some(newest - 4095));
}

#[test]
fn a_watcher_that_is_too_slow_learns_how_much_it_missed() {
    let stage = Stage::open();
    let mut slow = watch(stage.client(), None);
    slow.next();
    let padding = "x".repeat(2000);
    let mut quick = watch(stage.client(), None);
    quick.next();
    // More than the connection's buffers hold, and then more frames than are kept.
    for _ in 0..6 {
        submit(&stage, &format!("say {}", format!("{padding} ").repeat(300)));
        let seen = quick.until(is_end);
        assert!(seen.iter().all(|event| event.name != "lagged"), "one that reads misses nothing");
    }
    submit(&stage, "count 6000");
    quick.until(is_end);
    let last = stage.session.stream().last();
    let mut next = 1;
    let mut skipped = 0;
    for event in slow.by_ref() {
        match (event.name.as_str(), event.id) {
            ("lagged", None) => {
                let number = event.json()["skipped"].as_u64().unwrap();
                next += number;
                skipped += number;
            }
            (_, Some(id)) => {
                assert_eq!(id, next, "after {skipped} were skipped");
                next += 1;
            }
            other => panic!("{other:?}"),
        }
        if next > last {
            break;
        }
    }
    assert!(skipped > 0);
}

#[test]
fn a_task_stream_that_lost_its_end_is_told_it() {
    let stage = Stage::open();
    let mut quick = watch(stage.client(), None);
    quick.next();
    let long = format!("say {}", format!("{} ", "x".repeat(2000)).repeat(300));
    let text = format!("{long}\n{long}\n{long}\n{long}\n{long}\n{long}\nsay end");
    let params = json!({"message": {"messageId": "m", "parts": [{"text": text}]}});
    // Two that begin to listen and then do not until it is long over.
    let frames = stage.client().stream("message/stream", &params, &[]);
    let version = ("A2A-Version", "1.0");
    quick.until(is_end);
    let a2a = stage.client().stream("SendStreamingMessage", &params, &[version]);
    quick.until(is_end);
    submit(&stage, "count 6000");
    quick.until(is_end);
    let (frames, a2a): (Vec<Event>, Vec<Event>) = (frames.collect(), a2a.collect());
    assert!(frames.iter().any(|event| event.name == "lagged"));
    let end = frames.last().unwrap();
    assert!(is_end(end), "{end:?}");
    assert_eq!((end.id, end.json()["status"]["state"].as_str()), (None, Some("completed")));
    let [.., reply, end] = a2a.as_slice() else { panic!("{a2a:?}") };
    assert!(
        reply.json()["result"]["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str().unwrap().ends_with("end")
    );
    assert_eq!(
        (end.id, &end.json()["result"]["statusUpdate"]["status"]["state"]),
        (None, &json!("TASK_STATE_COMPLETED"))
    );
}

#[test]
fn a_quiet_stream_shows_that_it_is_there() {
    let limits = Limits { heartbeat: Duration::from_millis(5), ..Limits::default() };
    let stage = Stage::with(Setting { limits, ..Setting::default() });
    let mut events = watch(stage.client(), None);
    let names: Vec<String> = events.by_ref().take(3).map(|event| event.name + &event.data).collect();
    assert_eq!((names[1].as_str(), names[2].as_str()), (":heartbeat", ":heartbeat"));
}

#[test]
fn what_is_left_is_delivered_when_the_session_ends() {
    let mut stage = Stage::open();
    let mut open = watch(stage.client(), None);
    open.next();
    let mut asked = stage.client();
    let params = json!({"message": {"parts": [{"text": "wait for ever"}]}, "configuration": {"blocking": true}});
    asked.send(
        "POST",
        "/",
        &[],
        &json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}).to_string(),
    );
    open.until(|event| event.json()["status"]["state"] == "working");
    let waiting = submit(&stage, "say never");
    stage.end();
    stage.door.take().unwrap().close();
    let rest: Vec<Event> = open.collect();
    assert_eq!(rest.last().map(|event| event.name.as_str()), Some("capsule-closed"));
    let rejected = rest.iter().find(|event| is_end(event) && event.json()["id"] == json!(waiting)).unwrap().json();
    assert_eq!(rejected["status"], json!({"state": "rejected", "message": "the session ended before the task began"}));
    let answer = asked.answer();
    assert_eq!(answer.result()["status"]["state"], "failed");
    assert!(asked.is_closed());
}

#[test]
fn a_door_that_closes_does_not_wait_for_a_session_that_goes_on() {
    let limits = Limits { close: Duration::from_millis(50), ..Limits::default() };
    let mut stage = Stage::with(Setting { limits, ..Setting::default() });
    let mut open = watch(stage.client(), None);
    assert_eq!(open.next().unwrap().name, "connection-ack");
    let address = stage.door.as_ref().unwrap().address();
    stage.door.take().unwrap().close();
    assert_eq!(open.next(), None);
    assert!(std::net::TcpStream::connect(address).is_err());
    submit(&stage, "say on");
}
