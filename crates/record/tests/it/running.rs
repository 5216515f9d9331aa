//! Running sessions: what is there while one lives, and nothing after it, however it went.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use record::{Error, Home, Running, RunningSession, TokenKind, process_start};
use secrets::Secret;
use vocab::SessionId;

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("home")).unwrap();
    (dir, home)
}

fn session() -> RunningSession {
    let session_id = SessionId::new();
    RunningSession {
        records: format!("/records/{session_id}"),
        session_id,
        url: "http://127.0.0.1:40001".into(),
        pid: std::process::id(),
        process_start: process_start(),
        capsule: "bug-hunt".into(),
        version: "0.1.0".into(),
        workdir: "/w".into(),
        started_ms: 7,
    }
}

fn names(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.path().join("running")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_session_is_found_while_it_lives_and_leaves_nothing() {
    let (_dir, home) = home();
    assert_eq!(home.running().unwrap(), []);
    let (first, second) = (session(), session());
    let token = Secret::new("door1.a.b".to_owned());
    let held = Running::announce(&home, &first, &[(TokenKind::Operator, &token)]).unwrap();
    let other = Running::announce(&home, &second, &[(TokenKind::Peer, &token)]).unwrap();
    assert_eq!(home.running().unwrap(), [second.clone(), first.clone()]);
    assert_eq!(home.find_running("@1").unwrap(), second);
    assert_eq!(home.find_running(first.session_id.as_str()).unwrap(), first);
    assert_eq!(home.token(&first.session_id, TokenKind::Operator).unwrap().expose(), "door1.a.b");
    for path in [held.token_path(TokenKind::Operator), home.path().join(format!("running/{}.json", first.session_id))] {
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600, "{}", path.display());
    }
    drop(held);
    assert_eq!(home.running().unwrap(), std::slice::from_ref(&second));
    assert_eq!(names(&home), [format!("{}.json", second.session_id), format!("{}.peer", second.session_id)]);
    let gone = home.find_running(first.session_id.as_str()).unwrap_err();
    assert!(matches!(gone, Error::NotRunning { .. }), "{gone}");
    drop(other);
    assert!(matches!(home.find_running("@1"), Err(Error::NoneRunning { .. })));
    assert!(names(&home).is_empty());
}

#[test]
fn what_a_killed_session_left_is_removed_at_every_stage_of_its_life() {
    let (_dir, home) = home();
    let lives = session();
    let held = Running::announce(&home, &lives, &[]).unwrap();
    let dir = home.running_dir().unwrap();
    for leftovers in [
        &["json", "door", "diag"][..],
        &["tmp"],
        &["tmp", "door"],
        &["door", "peer"],
        &["json", "control"],
        &["control"],
    ] {
        let id = SessionId::new();
        for ending in leftovers {
            let dot = if *ending == "tmp" { "." } else { "" };
            std::fs::write(dir.join(format!("{dot}{id}.{ending}")), "{}").unwrap();
        }
        assert_eq!(home.running().unwrap(), std::slice::from_ref(&lives), "{leftovers:?}");
        assert_eq!(names(&home), [format!("{}.json", lives.session_id)], "{leftovers:?}");
    }
    drop(held);
}

#[test]
fn readers_of_an_abandoned_record_do_not_take_each_other_for_its_session() {
    let (_dir, home) = home();
    let gone = session();
    drop(Running::announce(&home, &gone, &[]).unwrap());
    let path = home.running_dir().unwrap().join(format!("{}.json", gone.session_id));
    std::fs::write(&path, serde_json::to_vec(&gone).unwrap()).unwrap();
    let reader = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&reader, rustix::fs::FlockOperation::NonBlockingLockShared).unwrap();
    assert_eq!(home.running().unwrap(), []);
    assert!(names(&home).is_empty());
}

#[test]
fn a_token_file_that_is_there_already_is_refused_and_nothing_is_left() {
    let (dir, home) = home();
    let session = session();
    let token = Secret::new("door1.a.b".to_owned());
    let place = home.running_dir().unwrap().join(format!("{}.diag", session.session_id));
    let target = dir.path().join("target");
    symlink(&target, &place).unwrap();
    let refused =
        Running::announce(&home, &session, &[(TokenKind::Operator, &token), (TokenKind::Diagnostics, &token)]);
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::TokenFile { .. }), "{error}");
    assert_eq!(error.code(), "E-RUN-041");
    assert!(!target.exists(), "the link was followed");
    assert!(names(&home).is_empty(), "{:?}", names(&home));
}

#[test]
fn a_token_that_others_could_read_is_not_used() {
    let (_dir, home) = home();
    let session = session();
    let token = Secret::new("door1.a.b".to_owned());
    let held = Running::announce(&home, &session, &[(TokenKind::Operator, &token)]).unwrap();
    let path = held.token_path(TokenKind::Operator);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = home.token(&session.session_id, TokenKind::Operator).unwrap_err();
    assert!(matches!(error, Error::UnsafeFile { .. }), "{error}");
}
