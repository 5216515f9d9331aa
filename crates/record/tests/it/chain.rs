//! What `verify` finds: every byte changed, every way to move lines, every place to cut.

use std::path::Path;

use record::{BreakReason, Error, PublicKey, TraceKey, TraceWriter, Unsigned, VerifyReport, VerifyStatus, verify};
use vocab::SessionId;

use crate::support::{Scene, end, inference, record_task};

const LINES: u64 = 6;

fn check(scene: &Scene, bytes: &[u8]) -> VerifyReport {
    std::fs::write(scene.path(), bytes).unwrap();
    check_file(&scene.path(), &scene.session, &scene.key().public())
}

fn check_file(path: &Path, session: &SessionId, key: &PublicKey) -> VerifyReport {
    verify(path, Some(session), Some(key)).unwrap()
}

fn broken(line: u64, reason: BreakReason) -> VerifyStatus {
    VerifyStatus::Broken { line, reason }
}

fn join(lines: &[&[u8]]) -> Vec<u8> {
    lines.iter().flat_map(|line| [*line, b"\n"].concat()).collect()
}

fn split(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.strip_suffix(b"\n").unwrap().split(|&byte| byte == b'\n').collect()
}

#[test]
fn a_whole_trace_is_verified() {
    let scene = Scene::new();
    let bytes = scene.recorded();
    let expected = VerifyReport {
        lines: LINES,
        torn_bytes: 0,
        session: Some(scene.session.clone()),
        status: VerifyStatus::Verified,
    };
    assert_eq!(check(&scene, &bytes), expected);
}

#[test]
fn every_changed_byte_is_found_on_its_line() {
    let scene = Scene::new();
    let key = scene.key();
    let mut writer = scene.writer();
    writer.append(None, crate::support::start()).unwrap();
    writer.append(None, crate::support::task_end(&vocab::TaskId::new())).unwrap();
    writer.finish(&end(), Some(&key)).unwrap();
    let bytes = std::fs::read(scene.path()).unwrap();
    let public = key.public();
    let mut number = 1;
    for at in 0..bytes.len() {
        // A newline might pass for other space, a digit or a letter for its other case.
        let masks = if bytes[at] == b'\n' { (1..=255).collect() } else { vec![0x01, 0x20] };
        for mask in masks {
            let mut changed = bytes.clone();
            changed[at] ^= mask;
            std::fs::write(scene.path(), &changed).unwrap();
            let report = check_file(&scene.path(), &scene.session, &public);
            let VerifyStatus::Broken { line, .. } = report.status else {
                panic!("byte {at} ^ {mask:#04x} on line {number}: {:?}", report.status)
            };
            assert_eq!(line, number, "byte {at} ^ {mask:#04x}: {:?}", report.status);
        }
        if bytes[at] == b'\n' {
            number += 1;
        }
    }
    assert_eq!(check(&scene, &bytes).status, VerifyStatus::Verified);
}

#[test]
fn moved_lines_are_named() {
    let scene = Scene::new();
    let bytes = scene.recorded();
    let l = split(&bytes);
    let cases: &[(&str, Vec<&[u8]>, VerifyStatus)] = &[
        ("untouched", l.clone(), VerifyStatus::Verified),
        ("first dropped", vec![l[1], l[2], l[3], l[4], l[5]], broken(1, BreakReason::NotTheStart)),
        ("third dropped", vec![l[0], l[1], l[3], l[4], l[5]], broken(2, BreakReason::NotContinued)),
        ("fifth dropped", vec![l[0], l[1], l[2], l[3], l[5]], broken(4, BreakReason::NotContinued)),
        ("doubled", vec![l[0], l[1], l[2], l[2], l[3], l[4], l[5]], broken(4, BreakReason::Repeated)),
        ("doubled later", vec![l[0], l[1], l[2], l[3], l[1], l[4], l[5]], broken(5, BreakReason::PutIn)),
        ("swapped", vec![l[0], l[1], l[3], l[2], l[4], l[5]], broken(3, BreakReason::PutIn)),
        ("end doubled", vec![l[0], l[1], l[2], l[3], l[4], l[5], l[5]], broken(7, BreakReason::Repeated)),
        ("after the end", vec![l[0], l[1], l[2], l[3], l[4], l[5], l[1]], broken(7, BreakReason::AfterEnd)),
        ("only the end", vec![l[5]], broken(1, BreakReason::NotTheStart)),
        ("an empty line", vec![l[0], b"", l[1], l[2], l[3], l[4], l[5]], broken(2, BreakReason::NotALine)),
        ("no end", vec![l[0], l[1], l[2], l[3], l[4]], VerifyStatus::Unsigned(Unsigned::NoEnd)),
        ("nothing", vec![], VerifyStatus::Unsigned(Unsigned::NoEnd)),
    ];
    for (name, lines, expected) in cases {
        assert_eq!(check(&scene, &join(lines)).status, *expected, "{name}");
    }
}

#[test]
fn a_line_put_in_with_a_right_link_is_named() {
    let scene = Scene::new();
    let bytes = scene.recorded();
    let l = split(&bytes);
    // A forged line that continues line 3 by the book.
    let text = String::from_utf8(l[3].to_vec()).unwrap();
    let forged = text.replace("hello", "howdy");
    let lines = [l[0], l[1], l[2], forged.as_bytes(), l[3], l[4], l[5]];
    assert_eq!(check(&scene, &join(&lines)).status, broken(4, BreakReason::PutIn));
}

#[test]
fn a_rewritten_file_with_a_right_chain_is_found() {
    let scene = Scene::new();
    let bytes = scene.recorded();
    // The attacker edits a line, links all later ones anew and keeps the signature.
    let mut prev = None;
    let mut forged = Vec::new();
    for line in split(&bytes) {
        let text = String::from_utf8(line.to_vec()).unwrap().replace("hello", "howdy");
        let (own, _) = text.rsplit_once(",\"prev\":").unwrap();
        let (mut own, head) = (own.to_owned(), prev.map_or("null".to_owned(), |prev| format!("\"{prev}\"")));
        if let Some((before, after)) = own.split_once("\"head\":\"") {
            own = format!("{before}\"head\":{head}{}", &after[65..]);
        }
        let line = format!("{own},\"prev\":{head}}}");
        prev = Some(record::Digest::of(line.as_bytes()));
        forged.extend_from_slice(line.as_bytes());
        forged.push(b'\n');
    }
    assert_eq!(check(&scene, &forged).status, broken(LINES, BreakReason::WrongSignature));
}

#[test]
fn a_trace_of_another_session_or_key_is_not_this_ones() {
    let (scene, other) = (Scene::new(), Scene::new());
    scene.recorded();
    let key = scene.key().public();
    let status = |session, key| verify(&scene.path(), session, Some(&key)).unwrap().status;
    assert_eq!(status(Some(&scene.session), key), VerifyStatus::Verified);
    assert_eq!(status(None, key), VerifyStatus::Verified);
    assert_eq!(status(Some(&other.session), key), broken(1, BreakReason::OtherSession));
    let expected = broken(LINES, BreakReason::OtherKey { key: key.to_string() });
    assert_eq!(status(Some(&scene.session), other.key().public()), expected);
}

#[test]
fn without_a_key_all_but_the_signature_is_checked() {
    let scene = Scene::new();
    let written = scene.recorded();
    let status = || verify(&scene.path(), Some(&scene.session), None).unwrap().status;
    assert_eq!(status(), VerifyStatus::Unchecked);
    let mut changed = written.clone();
    let at = written.len() / 2;
    changed[at] ^= 1;
    std::fs::write(scene.path(), changed).unwrap();
    assert!(matches!(status(), VerifyStatus::Broken { .. }));
    let whole = written.iter().take(written.len() - 1).rposition(|&byte| byte == b'\n').unwrap() + 1;
    std::fs::write(scene.path(), &written[..whole]).unwrap();
    assert_eq!(status(), VerifyStatus::Unsigned(record::Unsigned::NoEnd));
}

#[test]
fn a_public_key_alone_is_enough() {
    let scene = Scene::new();
    scene.recorded();
    let printed = scene.key().public().to_string();
    let key: PublicKey = format!("{printed}\n").parse().unwrap();
    assert_eq!(check_file(&scene.path(), &scene.session, &key).status, VerifyStatus::Verified);
    assert_eq!(printed.len(), "ed25519:".len() + 44);
    for wrong in ["", "ed25519:", printed.strip_prefix("ed25519:").unwrap(), &printed[..printed.len() - 1]] {
        assert!(matches!(wrong.parse::<PublicKey>(), Err(Error::BadPublicKey { .. })), "{wrong}");
    }
}

#[test]
fn a_session_without_a_key_ends_unsigned() {
    let scene = Scene::new();
    let mut writer = scene.writer();
    record_task(&mut writer).unwrap();
    writer.finish(&end(), None).unwrap();
    let report = check_file(&scene.path(), &scene.session, &scene.key().public());
    assert_eq!((report.lines, report.status), (LINES, VerifyStatus::Unsigned(Unsigned::NoSignature)));
}

#[test]
fn a_signature_without_its_key_is_no_end() {
    let scene = Scene::new();
    let text = String::from_utf8(scene.recorded()).unwrap();
    let (before, after) = text.split_once(",\"public_key\":").unwrap();
    let (_, after) = after.split_once(",\"signature\":").unwrap();
    let stripped = format!("{before},\"signature\":{after}");
    assert_eq!(check(&scene, stripped.as_bytes()).status, broken(LINES, BreakReason::BadSeal));
}

#[test]
fn bytes_after_the_end_are_found() {
    let scene = Scene::new();
    let bytes = scene.recorded();
    for tail in [&b"{"[..], b" ", b"\0", b"{\"event_type\":\"session_start\""] {
        let status = check(&scene, &[&bytes[..], tail].concat()).status;
        assert_eq!(status, broken(LINES, BreakReason::Garbage), "{tail:?}");
    }
}

#[test]
fn a_trace_cut_at_any_byte_is_unsigned_and_can_go_on() {
    let scene = Scene::new();
    let bytes = scene.recorded();
    let key = scene.key();
    let ends: Vec<usize> = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    for cut in 0..bytes.len() {
        std::fs::write(scene.path(), &bytes[..cut]).unwrap();
        let whole = ends.iter().rfind(|&&end| end <= cut).copied().unwrap_or(0);
        let lines = ends.iter().filter(|&&end| end <= cut).count() as u64;
        let torn_bytes = (cut - whole) as u64;
        let report = check_file(&scene.path(), &scene.session, &key.public());
        let expected = VerifyReport {
            lines,
            torn_bytes,
            session: (lines > 0).then(|| scene.session.clone()),
            status: VerifyStatus::Unsigned(Unsigned::NoEnd),
        };
        assert_eq!(report, expected, "cut at {cut}");

        let (mut writer, found) = TraceWriter::reopen(&scene.path(), scene.options()).unwrap();
        assert_eq!((found.lines, found.cut_bytes), (lines, torn_bytes));
        assert_eq!(std::fs::read(scene.path()).unwrap(), &bytes[..whole]);
        if cut % 50 == 0 {
            if lines == 0 {
                record_task(&mut writer).unwrap();
            } else {
                writer.append(None, inference(&vocab::TaskId::new(), 1)).unwrap();
            }
            writer.finish(&end(), Some(&key)).unwrap();
            assert_eq!(check_file(&scene.path(), &scene.session, &key.public()).status, VerifyStatus::Verified);
        }
    }
}

#[test]
fn a_power_loss_leaves_zeros_that_count_as_torn() {
    let scene = Scene::new();
    let bytes = scene.recorded();
    let report = check(&scene, &[&bytes[..700], &[0; 40]].concat());
    assert_eq!(report.status, VerifyStatus::Unsigned(Unsigned::NoEnd));
    let (writer, _) = TraceWriter::reopen(&scene.path(), scene.options()).unwrap();
    assert_eq!(writer.lines(), report.lines);
}

#[test]
fn only_one_writer_and_none_after_the_end() {
    let scene = Scene::new();
    let mut writer = scene.writer();
    record_task(&mut writer).unwrap();
    let create = TraceWriter::create(&scene.path(), scene.options()).map(|_| ()).unwrap_err();
    assert!(matches!(&create, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists));
    let reopen = |scene: &Scene| TraceWriter::reopen(&scene.path(), scene.options()).map(|_| ());
    assert!(matches!(reopen(&scene), Err(Error::Locked { .. })));
    drop(writer);
    assert!(reopen(&scene).is_ok());

    let (mut writer, _) = TraceWriter::reopen(&scene.path(), scene.options()).unwrap();
    writer.finish(&end(), Some(&scene.key())).unwrap();
    let after = writer.append(None, inference(&vocab::TaskId::new(), 1)).unwrap_err();
    assert!(matches!(after, Error::Ended { .. }));
    drop(writer);
    assert!(matches!(reopen(&scene), Err(Error::Ended { .. })));
}

#[test]
fn a_broken_trace_or_anothers_is_not_continued() {
    let scene = Scene::new();
    record_task(&mut scene.writer()).unwrap();
    let text = std::fs::read_to_string(scene.path()).unwrap();
    std::fs::write(scene.path(), text.replace("files_read", "files_rm")).unwrap();
    let Err(error) = TraceWriter::reopen(&scene.path(), scene.options()) else { panic!("it is broken") };
    assert!(matches!(error, Error::BrokenChain { line: 1, reason: BreakReason::NotContinued, .. }), "{error}");

    std::fs::write(scene.path(), text).unwrap();
    let mut options = scene.options();
    options.session = SessionId::new();
    let Err(error) = TraceWriter::reopen(&scene.path(), options) else { panic!("it is another's") };
    assert!(matches!(error, Error::BrokenChain { line: 1, reason: BreakReason::OtherSession, .. }), "{error}");
    assert!(TraceWriter::reopen(&scene.path(), scene.options()).is_ok());
}

#[test]
fn a_deeply_nested_line_is_verified() {
    let scene = Scene::new();
    let task = vocab::TaskId::new();
    let mut writer = scene.writer();
    writer.append(None, crate::support::start()).unwrap();
    let input = crate::conversation::nested(126);
    writer.append(None, crate::support::tool_call(&task, &input, "")).unwrap();
    writer.finish(&end(), Some(&TraceKey::load_or_create(&scene.home).unwrap())).unwrap();
    let report = check_file(&scene.path(), &scene.session, &scene.key().public());
    assert_eq!(report.status, VerifyStatus::Verified);
    let lines: Vec<_> = record::TraceReader::open(&scene.path()).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(lines[1].fields.get("input"), Some(&input));
}
