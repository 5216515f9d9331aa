//! Where the home is, who may have it, and how a person names a session in it.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use record::{Error, Home, Unsafe};
use vocab::SessionId;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn fault(result: Result<(), Error>) -> Option<Unsafe> {
    match result {
        Ok(()) => None,
        Err(Error::UnsafeDirectory { fault, .. }) => Some(fault),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_environment_names_it() {
    let var = |text: &str| Some(OsString::from(text));
    let path = |murmur, home| Home::from_vars(murmur, home).map(|home| home.path().to_owned());
    assert_eq!(path(var("/m"), var("/h")).unwrap(), Path::new("/m"));
    assert_eq!(path(None, var("/h")).unwrap(), Path::new("/h/.murmur"));
    assert_eq!(path(var(""), var("/h")).unwrap(), Path::new("/h/.murmur"));
    assert!(path(var("m"), None).unwrap().is_absolute());
    let error = path(None, var("")).unwrap_err();
    assert_eq!((error.code(), matches!(error, Error::NoHome)), ("E-REC-001", true));
}

#[test]
fn what_is_made_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("a/b/home")).unwrap();
    assert!(home.sessions().unwrap().is_empty());
    let session = SessionId::new();
    let records = home.create_session_dir(&session).unwrap();
    for path in [home.path(), &home.path().join("sessions"), &records, &home.running_dir().unwrap()] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    assert!(matches!(home.create_session_dir(&session), Err(Error::Io { .. })));
    assert_eq!(home.sessions().unwrap(), [session]);
}

#[test]
fn one_that_others_may_read_is_closed_and_one_that_they_may_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home");
    let home = Home::at(&path).unwrap();
    home.ensure().unwrap();
    set_mode(&path, 0o755);
    assert_eq!(fault(home.ensure()), None);
    assert_eq!(mode(&path), 0o700);
    for open in [0o775, 0o707, 0o1777] {
        set_mode(&path, open);
        assert_eq!(fault(home.ensure()), Some(Unsafe::WritableByOthers(open)));
        assert_eq!(mode(&path), open);
    }
}

#[test]
fn one_of_somebody_else_is_refused_also_behind_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (mine, theirs) = (dir.path().join("mine"), dir.path().join("theirs"));
    std::fs::create_dir(&mine).unwrap();
    let (theirs, owner) = if rustix::process::geteuid().is_root() {
        std::fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(12345), None).unwrap();
        (theirs, 12345)
    } else {
        ("/".into(), 0)
    };
    let link = dir.path().join("link");
    symlink(&mine, &link).unwrap();
    assert_eq!(fault(Home::at(&link).unwrap().ensure()), None);
    std::fs::remove_file(&link).unwrap();
    symlink(&theirs, &link).unwrap();
    assert_eq!(fault(Home::at(&link).unwrap().ensure()), Some(Unsafe::Owner(owner)));
    assert_eq!(fault(Home::at(&theirs).unwrap().ensure()), Some(Unsafe::Owner(owner)));
}

#[test]
fn nothing_below_it_is_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("home")).unwrap();
    home.ensure().unwrap();
    symlink(dir.path(), home.path().join("sessions")).unwrap();
    let error = home.create_session_dir(&SessionId::new()).map(|_| ());
    assert_eq!(fault(error), Some(Unsafe::Symlink));
    std::fs::remove_file(home.path().join("sessions")).unwrap();
    assert!(home.create_session_dir(&SessionId::new()).is_ok());
}

#[test]
fn a_file_in_its_place_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home");
    std::fs::write(&path, "").unwrap();
    assert_eq!(fault(Home::at(&path).unwrap().ensure()), Some(Unsafe::NotADirectory));
}

#[test]
fn sessions_are_found_by_rank_id_or_suffix() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path()).unwrap();
    assert!(matches!(home.find_session("@1"), Err(Error::NoSessions { .. })));
    let id = |time: u32, end: &str| -> SessionId { format!("ses_{time:012x}{:0>20}", end).parse().unwrap() };
    let (old, middle, new) = (id(1, "aaaa1111"), id(2, "bbbb1111"), id(3, "cccc2222"));
    for session in [&middle, &new, &old] {
        home.create_session_dir(session).unwrap();
    }
    std::fs::write(home.path().join("sessions/.stray"), "").unwrap();
    assert_eq!(home.sessions().unwrap(), [new.clone(), middle.clone(), old.clone()]);

    for (text, found) in [("@1", &new), ("@3", &old), (middle.as_str(), &middle), ("2222", &new), ("b1111", &middle)] {
        assert_eq!(home.find_session(text).unwrap(), *found, "{text}");
    }
    let error = home.find_session("1111").unwrap_err();
    assert_eq!(error.to_string(), format!("`1111` fits 2 sessions: {middle}, {old}"));
    for text in ["@4", "3333", "ses_00000000000000000000000000000000"] {
        assert!(matches!(home.find_session(text), Err(Error::SessionNotFound { .. })), "{text}");
    }
    for text in ["@0", "@x", "222", "", "../../etc", "@-1"] {
        let error = home.find_session(text).unwrap_err();
        assert!(matches!(error, Error::BadSessionName { .. }), "{text}: {error}");
        assert_eq!(error.code(), "E-REC-006");
    }
}
