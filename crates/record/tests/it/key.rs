//! The signing key's file.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use record::{Error, Home, PublicKey, TraceKey, Unsafe};

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("home")).unwrap();
    (dir, home)
}

#[test]
fn it_is_made_once_for_the_owner_alone() {
    let (_dir, home) = home();
    assert!(TraceKey::load(&home).unwrap().is_none());
    let first = TraceKey::load_or_create(&home).unwrap().public();
    let metadata = std::fs::metadata(home.trace_key_path()).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.nlink()), (0o600, 1));
    assert_eq!(TraceKey::load_or_create(&home).unwrap().public(), first);
    assert_eq!(TraceKey::load(&home).unwrap().unwrap().public(), first);
    let names: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["trace.key"]);
}

#[test]
fn makers_at_the_same_time_agree() {
    let (_dir, home) = home();
    let keys: Vec<PublicKey> = std::thread::scope(|scope| {
        let makers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| TraceKey::load_or_create(&home).unwrap().public())).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn one_that_others_can_reach_is_refused() {
    let (dir, home) = home();
    TraceKey::load_or_create(&home).unwrap();
    let path = home.trace_key_path();
    for (mode, fault) in [
        (0o644, Unsafe::ReadableByOthers(0o644)),
        (0o640, Unsafe::ReadableByOthers(0o640)),
        (0o622, Unsafe::WritableByOthers(0o622)),
    ] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = TraceKey::load_or_create(&home).unwrap_err();
        assert!(matches!(&error, Error::UnsafeFile { fault: found, .. } if *found == fault), "{error}");
        assert_eq!(error.code(), "E-REC-005");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(TraceKey::load_or_create(&home).is_ok());

    let elsewhere = dir.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    let error = TraceKey::load_or_create(&home).unwrap_err();
    assert!(matches!(error, Error::UnsafeFile { fault: Unsafe::Symlink, .. }), "{error}");
}

#[test]
fn a_file_that_is_no_key_is_left_alone() {
    let (_dir, home) = home();
    TraceKey::load_or_create(&home).unwrap();
    for content in [&b""[..], b"secret", &[0x30; 83]] {
        std::fs::write(home.trace_key_path(), content).unwrap();
        assert!(matches!(TraceKey::load_or_create(&home), Err(Error::BadKey { .. })));
        assert_eq!(std::fs::read(home.trace_key_path()).unwrap(), content);
    }
}

#[test]
fn it_does_not_print_itself() {
    let (_dir, home) = home();
    let key = TraceKey::load_or_create(&home).unwrap();
    assert_eq!(format!("{key:?}"), format!("TraceKey({})", key.public()));
}
