//! A disk that fills up in the middle of a line: an error that stops, a file that stays whole, and a
//! way on for the very same line.
//!
//! The limit on file sizes stands in for the full disk: it cuts a write short in the same way, for an
//! ordinary user as well as for root. It is set in a child process, with its signal ignored.

use std::path::PathBuf;
use std::process::Command;

use record::{
    ConversationReader, ConversationWriter, Error, Home, TraceOptions, TraceReader, TraceWriter, VerifyStatus, verify,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use secrets::Redactor;
use vocab::{ContextId, Message, SessionId, TaskId};

use crate::support::{Scene, Ticks, end, inference, start};

const DIR: &str = "RECORD_TEST_FULL_DISK";
const SESSION: &str = "ses_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b";

fn in_child(test: &str) {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn limit(bytes: Option<u64>) {
    let hard = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(hard), maximum: hard }).unwrap();
}

fn home() -> Home {
    let dir = PathBuf::from(std::env::var_os(DIR).expect("started by the test that sets the limit"));
    Home::at(&dir.join("home")).unwrap()
}

#[test]
fn a_full_disk_stops_the_trace() {
    in_child("full_disk::trace_child");
}

#[test]
#[ignore = "started by a_full_disk_stops_the_trace"]
fn trace_child() {
    let home = home();
    let session: SessionId = SESSION.parse().unwrap();
    home.create_session_dir(&session).unwrap();
    let key = record::TraceKey::load_or_create(&home).unwrap();
    let path = home.trace_path(&session);
    let options = TraceOptions {
        session: session.clone(),
        capture: record::Capture::Content,
        redactor: Redactor::new(),
        clock: std::sync::Arc::new(Ticks::default()),
    };
    let mut writer = TraceWriter::create(&path, options).unwrap();
    limit(Some(5000));
    writer.append(None, start()).unwrap();
    let task = TaskId::new();
    let (failed_turn, error) =
        (0..).find_map(|turn| writer.append(None, inference(&task, turn)).err().map(|error| (turn, error))).unwrap();
    assert!(error.is_disk_full(), "{error}");
    assert!(failed_turn > 1);

    // The file ends with a whole line, and nothing passes the one that is missing.
    let whole = std::fs::read(&path).unwrap();
    assert_eq!((whole.last(), whole.len() < 5000), (Some(&b'\n'), true));
    assert_eq!(TraceReader::open(&path).unwrap().filter_map(Result::ok).count() as u64, writer.lines());
    let stopped = writer.append(None, inference(&task, 99)).unwrap_err();
    assert!(matches!(&stopped, Error::Stopped { why, .. } if error.to_string().ends_with(why.as_str())), "{stopped}");
    assert!(matches!(writer.finish(&end(), Some(&key)), Err(Error::Stopped { .. })));
    assert!(writer.retry().unwrap_err().is_disk_full());
    assert_eq!(std::fs::read(&path).unwrap(), whole);

    // With room again the very line goes in, and the rest after it.
    limit(None);
    assert!(writer.retry().unwrap().is_some());
    assert!(writer.retry().unwrap().is_none());
    writer.append(None, inference(&task, failed_turn + 1)).unwrap();
    writer.finish(&end(), Some(&key)).unwrap();
    let turns: Vec<u64> = TraceReader::open(&path).unwrap().filter_map(|line| line.unwrap().u64("turn")).collect();
    assert_eq!(turns, (0..=u64::from(failed_turn) + 1).collect::<Vec<_>>());
    assert_eq!(verify(&path, Some(&session), Some(&key.public())).unwrap().status, VerifyStatus::Verified);
}

#[test]
fn a_full_disk_stops_the_conversation() {
    in_child("full_disk::conversation_child");
}

#[test]
#[ignore = "started by a_full_disk_stops_the_conversation"]
fn conversation_child() {
    let home = home();
    let context = ContextId::new();
    let mut opened = ConversationWriter::open(&home, &context, Redactor::new()).unwrap();
    let path = opened.writer.path().to_owned();
    let message = || Message::user(fence::ModelText::unfenced(fence::Unfenced::Operator, "x".repeat(500)));
    limit(Some(2000));
    let mut written = Vec::new();
    let error = loop {
        let message = message();
        let result = opened.writer.append(&message);
        written.push(message);
        if let Err(error) = result {
            break error;
        }
    };
    assert!(error.is_disk_full(), "{error}");
    assert!(matches!(opened.writer.append(&message()), Err(Error::Stopped { .. })));
    let read = || ConversationReader::open(&path).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(read(), written[..written.len() - 1]);
    limit(None);
    assert!(opened.writer.retry().unwrap());
    assert_eq!(read(), written);
}

#[test]
fn a_line_that_no_reader_would_take_is_refused_and_the_file_goes_on() {
    let scene = Scene::new();
    let mut writer = scene.writer();
    writer.append(None, start()).unwrap();
    let (task, input, output) = (TaskId::new(), serde_json::json!({}), "x".repeat(record::MAX_LINE));
    let error = writer.append(None, crate::support::tool_call(&task, &input, &output)).unwrap_err();
    assert!(matches!(error, Error::LineTooLong { .. }), "{error}");
    writer.append(None, crate::support::tool_call(&task, &input, "x")).unwrap();
    writer.finish(&end(), Some(&scene.key())).unwrap();
    let report = verify(&scene.path(), None, Some(&scene.key().public())).unwrap();
    assert_eq!((report.lines, report.status), (3, VerifyStatus::Verified));
}
