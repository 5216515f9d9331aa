//! `mur trace verify`: green, red, and the warning between.

use insta::assert_snapshot;
use record::Capture;
use serde_json::json;
use vocab::Origin;

use crate::binary::Mur;
use crate::sessions::{Session, home, id, key, whole};

#[test]
fn a_whole_trace_is_verified_and_one_changed_byte_breaks_it() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    let path = home(&mur).trace_path(&id(1));
    let key = key(&mur).public().to_string();
    let shown = |ran| mur.shown(&ran).replace(&key, "[key]");
    assert_snapshot!(shown(mur.run(&["trace", "verify"])), @r#"
    exit 0
    --- stdout
    verified: `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000001/trace.jsonl`, 11 lines, signed by [key]
    "#);

    let written = std::fs::read(&path).unwrap();
    let at = written.windows(8).position(|window| window == b"fn main(").unwrap();
    let mut changed = written.clone();
    changed[at] ^= 1;
    std::fs::write(&path, &changed).unwrap();
    assert_snapshot!(shown(mur.run(&["trace", "verify"])), @r#"
    exit 1
    --- stderr
    error[E-REC-003]: `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000001/trace.jsonl` is broken: line 6 was edited, or lines after it were dropped or moved: the next line does not continue it
      hint: the file was changed after it was written; compare it with a copy
    "#);
    let document = mur.run(&["trace", "verify", "--json"]);
    assert_eq!(document.status, Some(1));
    let expected = json!({
        "path": path, "session_id": id(1), "status": "broken", "lines": 6, "torn_bytes": 0, "line": 6,
        "reason": "was edited, or lines after it were dropped or moved: the next line does not continue it",
        "public_key": key,
    });
    assert_eq!(document.json(), expected);

    std::fs::write(&path, &written).unwrap();
    let expected = json!({
        "path": path, "session_id": id(1), "status": "verified", "lines": 11, "torn_bytes": 0, "line": null,
        "reason": null, "public_key": key,
    });
    let document = mur.run(&["trace", "verify", "--json"]);
    assert_eq!((document.status, document.json()), (Some(0), expected));
}

#[test]
fn every_single_byte_counts() {
    let mur = Mur::new();
    let session = Session::begin(&mur, 1, Capture::None);
    session.end(Some(&key(&mur)));
    let written = std::fs::read(home(&mur).trace_path(&id(1))).unwrap();
    let step = written.len() / 12;
    for at in (0..written.len()).step_by(step) {
        let mut changed = written.clone();
        changed[at] ^= 1;
        let file = mur.home.write("changed.jsonl", &changed);
        let ran = mur.run(&["trace", "verify", "--file", file.to_str().unwrap()]);
        assert_eq!(ran.status, Some(1), "byte {at}: {ran:?}");
    }
    let file = mur.home.write("changed.jsonl", &written);
    assert_eq!(mur.run(&["trace", "verify", "--file", file.to_str().unwrap()]).status, Some(0));
}

#[test]
fn a_killed_session_is_unsigned_which_is_a_warning() {
    let mur = Mur::new();
    let mut session = Session::begin(&mur, 1, Capture::Content);
    session.task(Origin::User, "go on");
    session.kill();
    assert_snapshot!(mur.shown(&mur.run(&["trace", "verify"])), @r#"
    exit 0
    --- stdout
    unsigned: `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000001/trace.jsonl`, 3 lines, each continues the one before
    --- stderr
    warning: `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000001/trace.jsonl` is unsigned: the session did not end, or its end was cut off
    "#);
    let document = mur.run(&["trace", "verify", "--json"]);
    assert_eq!((document.status, &document.json()["status"]), (Some(0), &json!("unsigned")));
    assert!(document.stderr.contains("is unsigned"), "{document:?}");
}

#[test]
fn where_a_signature_is_required_nothing_less_will_do() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    let mut session = Session::begin(&mur, 2, Capture::Content);
    session.task(Origin::User, "go on");
    session.kill();
    // One that ended without a key to sign with.
    Session::begin(&mur, 3, Capture::Content).end(None);
    let verify = |args: &[&str]| mur.run(&[&["trace", "verify", "--require-signature"], args].concat());
    assert_eq!((verify(&["@3"]).status, verify(&["@3", "--json"]).status), (Some(0), Some(0)));
    assert_snapshot!(mur.shown(&verify(&["@2"])), @r"
    exit 1
    --- stdout
    unsigned: `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000002/trace.jsonl`, 3 lines, each continues the one before
    --- stderr
    error[E-REC-007]: a signature is required, and `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000002/trace.jsonl` is unsigned: the session did not end, or its end was cut off
      hint: a session that runs or was killed has no signed end; if it ended well, compare the file with a copy
    ");
    assert_snapshot!(mur.shown(&verify(&["@1"])), @r"
    exit 1
    --- stdout
    unsigned: `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000003/trace.jsonl`, 2 lines, each continues the one before
    --- stderr
    error[E-REC-007]: a signature is required, and `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000003/trace.jsonl` is unsigned: the session's end carries no signature
      hint: a session that runs or was killed has no signed end; if it ended well, compare the file with a copy
    ");
    let document = verify(&["@2", "--json"]);
    assert_eq!((document.status, &document.json()["status"]), (Some(1), &json!("unsigned")));
    assert!(document.stderr.starts_with("error[E-REC-007]: a signature is required"), "{document:?}");

    // Signed, but by whom nobody can say.
    std::fs::remove_file(home(&mur).trace_key_path()).unwrap();
    let unchecked = verify(&["@3"]);
    assert_eq!((unchecked.status, unchecked.stderr.contains("[E-REC-007]")), (Some(1), true), "{unchecked:?}");
}

#[test]
fn a_file_is_verified_with_a_public_key_alone() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    let path = home(&mur).trace_path(&id(1));
    let public = mur.run(&["trace", "key"]).stdout().trim().to_owned();
    let away = Mur::new();
    let verify = |key: &[&str]| {
        let args = [&["trace", "verify", "--file", path.to_str().unwrap()], key].concat();
        crate::binary::Ran::of(away.command(&args).env_remove("MURMUR_HOME"))
    };
    assert_eq!(verify(&["--public-key", &public]).status, Some(0));
    let other = key(&away).public().to_string();
    let refused = verify(&["--public-key", &other]);
    assert_eq!(refused.status, Some(1));
    assert!(refused.stderr.contains("line 11 is signed with another key"), "{refused:?}");
    assert!(refused.stderr.contains("--public-key"), "{refused:?}");
    let bad = verify(&["--public-key", "ed25519:AAAA"]);
    assert_eq!((bad.status, bad.stderr.contains("is not a public key")), (Some(2), true), "{bad:?}");
    // Without a home and without a key all but the signature is checked.
    let unchecked = verify(&[]);
    assert_eq!((unchecked.status, unchecked.stderr.contains("is signed, but")), (Some(0), true), "{unchecked:?}");
}

#[test]
fn a_signature_without_a_key_at_hand_is_not_called_good() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    let key_file = home(&mur).trace_key_path();
    std::fs::remove_file(&key_file).unwrap();
    assert_snapshot!(mur.shown(&mur.run(&["trace", "verify"])), @r#"
    exit 0
    --- stdout
    unchecked: `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000001/trace.jsonl`, 11 lines, each continues the one before
    --- stderr
    warning: `[home]/sessions/ses_0190a1b2c3d47e5f8a9b0c1d00000001/trace.jsonl` is signed, but there is no key to check its signature with
      hint: name the key of the home that wrote it with `--public-key`
    "#);
    let expected = json!({
        "path": home(&mur).trace_path(&id(1)), "session_id": id(1), "status": "unchecked", "lines": 11,
        "torn_bytes": 0, "line": null, "reason": "there is no key to check its signature with", "public_key": null,
    });
    let document = mur.run(&["trace", "verify", "--json"]);
    assert_eq!((document.status, document.json()), (Some(0), expected));
    assert!(!key_file.exists(), "verifying writes nothing");

    // A key that cannot be used fails the trace that needs it, and no other.
    std::fs::write(&key_file, "no key").unwrap();
    assert_eq!(mur.run(&["trace", "verify"]).status, Some(2));
    Session::begin(&mur, 2, Capture::Content).kill();
    let unsigned = mur.run(&["trace", "verify", "@1"]);
    assert_eq!((unsigned.status, unsigned.stderr.contains("is unsigned")), (Some(0), true), "{unsigned:?}");
}

#[test]
fn a_trace_of_another_session_in_its_place_is_broken() {
    let mur = Mur::new();
    whole(&mur, 1, Capture::Content);
    whole(&mur, 2, Capture::Content);
    std::fs::copy(home(&mur).trace_path(&id(1)), home(&mur).trace_path(&id(2))).unwrap();
    let ran = mur.run(&["trace", "verify", "@1"]);
    assert_eq!((ran.status, ran.stderr.contains("line 1 belongs to another session")), (Some(1), true), "{ran:?}");
    assert_eq!(mur.run(&["trace", "verify", "@2"]).status, Some(0));
}

#[test]
fn what_is_not_there_is_not_found() {
    let mur = Mur::new();
    assert_eq!(mur.run(&["trace", "verify"]).status, Some(2));
    assert_eq!(mur.run(&["trace", "verify", "--file", "nothing.jsonl"]).status, Some(2));
    assert_eq!(mur.run(&["trace", "verify", "@1", "--file", "nothing.jsonl"]).status, Some(2));
    whole(&mur, 1, Capture::Content);
    assert_eq!(mur.run(&["trace", "verify"]).status, Some(0));
    assert_eq!(mur.run(&["trace", "verify", "@2"]).status, Some(2));
}
