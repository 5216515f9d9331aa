//! Secrets at rest: what opens, what does not, and which file may hold the key.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use ::store::{FileFault, KeyFault, Seal, SealFault, StoreError};
use proptest::prelude::*;
use secrets::Secret;
use tempfile::TempDir;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn secret(value: &str) -> Secret {
    Secret::new(value.to_owned())
}

fn write(path: &Path, content: impl AsRef<[u8]>, mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A directory with a key file, and what seals with it.
fn keyed() -> (TempDir, PathBuf, Seal) {
    let home = TempDir::new().unwrap();
    let file = home.path().join("store.key");
    write(&file, format!("{KEY}\n"), 0o600);
    let seal = Seal::in_home(home.path());
    (home, file, seal)
}

fn fault(opened: Result<Secret, StoreError>) -> SealFault {
    match opened {
        Err(StoreError::Sealed { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_secret_makes_the_key_and_the_next_ones_use_it() {
    let home = TempDir::new().unwrap();
    let (file, seal) = (home.path().join("store.key"), Seal::in_home(home.path()));
    let one = seal.seal("c1", "bearer", &secret("one")).unwrap();
    let (key, made) = (fs::read_to_string(&file).unwrap(), fs::metadata(&file).unwrap());
    assert_eq!((made.mode() & 0o7777, made.nlink(), key.len(), key.ends_with("=\n")), (0o600, 1, 45, true));
    let two = seal.seal("c1", "bearer", &secret("one")).unwrap();
    assert_ne!(one, two);
    let again = Seal::with_key_file(file.clone());
    for sealed in [one, two] {
        assert_eq!(again.open("c1", "bearer", &sealed).unwrap().expose(), "one");
    }
    assert_eq!((fs::read_to_string(&file).unwrap(), fs::metadata(&file).unwrap().ino()), (key, made.ino()));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn sixteen_that_make_the_key_at_once_make_one() {
    for _ in 0..20 {
        let (home, barrier) = (TempDir::new().unwrap(), Barrier::new(16));
        let sealed: Vec<String> = std::thread::scope(|scope| {
            let seal = || {
                barrier.wait();
                Seal::in_home(home.path()).seal("c1", "bearer", &secret("one")).unwrap()
            };
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(seal)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for one in sealed {
            assert_eq!(Seal::in_home(home.path()).open("c1", "bearer", &one).unwrap().expose(), "one");
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_value_opens_in_its_own_place_with_its_own_key() {
    let (_home, file, seal) = keyed();
    let sealed = seal.seal("c1", "env.KEY", &secret("one")).unwrap();
    assert_eq!(seal.open("c1", "env.KEY", &sealed).unwrap().expose(), "one");
    for (connection, name) in
        [("c2", "env.KEY"), ("c1", "env.KEy"), ("c1e", "nv.KEY"), ("", "c1env.KEY"), ("c1env.KEY", "")]
    {
        assert_eq!(fault(seal.open(connection, name, &sealed)), SealFault::Altered, "{connection} {name}");
    }
    write(&file, format!("{}\n", KEY.replace('A', "B")), 0o600);
    let error = seal.open("c1", "env.KEY", &sealed).unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.code()),
        ("the secret `env.KEY` of the connection `c1` cannot be opened: it was sealed with another key", "E-STO-016")
    );
    assert!(error.hint().contains("MURMUR_STORE_KEY_FILE"));
    // A key of which the name was changed to this one's opens nothing either.
    let other = seal.seal("c1", "env.KEY", &secret("two")).unwrap();
    let name = |sealed: &str| sealed.split('.').nth(1).unwrap().to_owned();
    let renamed = sealed.replace(&name(&sealed), &name(&other));
    assert_eq!(fault(seal.open("c1", "env.KEY", &renamed)), SealFault::Altered);
}

#[test]
fn what_was_changed_anywhere_does_not_open() {
    let (_home, _file, seal) = keyed();
    let sealed = seal.seal("c1", "bearer", &secret("s3cret")).unwrap();
    for at in 0..sealed.len() {
        for flip in [1, 2, 4, 0x20, 0x40] {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] ^= flip;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            fault(seal.open("c1", "bearer", &text));
        }
        let (before, after) = sealed.split_at(at);
        fault(seal.open("c1", "bearer", before));
        fault(seal.open("c1", "bearer", &format!("{before}A{after}")));
    }
    let newer = sealed.replacen('1', "2", 1);
    for text in ["", "s3cret", "1", "1.2", &newer, &format!("{sealed}.")] {
        assert_eq!(fault(seal.open("c1", "bearer", text)), SealFault::Form, "{text}");
    }
    let key = sealed.split('.').nth(1).unwrap();
    for text in [format!("1.{key}."), format!("1.{key}.AAAA"), format!("1.{key}.{}", "A".repeat(16))] {
        assert_eq!(fault(seal.open("c1", "bearer", &text)), SealFault::Altered, "{text}");
    }
}

#[test]
fn a_lost_key_is_not_made_again_to_open_with_nor_a_shared_one_to_seal_with() {
    let (home, file, seal) = keyed();
    let sealed = seal.seal("c1", "bearer", &secret("one")).unwrap();
    fs::remove_file(&file).unwrap();
    let shared = Seal::with_key_file(file.clone());
    for error in [
        seal.open("c1", "bearer", &sealed).unwrap_err(),
        shared.open("c1", "bearer", &sealed).unwrap_err(),
        shared.seal("c1", "bearer", &secret("two")).unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::KeyFile { fault: KeyFault::Missing, path } if *path == file), "{error}");
        assert_eq!(error.code(), "E-STO-015");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    seal.seal("c1", "bearer", &secret("two")).unwrap();
    assert_eq!(fault(seal.open("c1", "bearer", &sealed)), SealFault::OtherKey);
}

#[test]
fn a_key_file_that_others_reach_is_refused() {
    let (_home, file, seal) = keyed();
    let sealed = seal.seal("c1", "bearer", &secret("one")).unwrap();
    let refused = |seal: &Seal| {
        let errors = [seal.open("c1", "bearer", &sealed).unwrap_err(), seal.seal("c1", "x", &secret("a")).unwrap_err()];
        errors.map(|error| match error {
            StoreError::UnsafeFile { fault, .. } => fault,
            other => panic!("{other}"),
        })
    };
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o666, 0o644, 0o4610] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        assert_eq!(refused(&seal), [FileFault::Exposed(mode); 2], "{mode:o}");
    }
    for mode in [0o600, 0o400, 0o700] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        assert_eq!(seal.open("c1", "bearer", &sealed).unwrap().expose(), "one", "{mode:o}");
    }
    if rustix::process::geteuid().is_root() {
        chown(&file, Some(4711), None).unwrap();
        assert_eq!(refused(&seal), [FileFault::Owner(4711); 2]);
        chown(&file, Some(0), None).unwrap();
    }

    let other = TempDir::new().unwrap();
    let place = other.path().join("store.key");
    let seal = Seal::in_home(other.path());
    symlink(&file, &place).unwrap();
    assert_eq!(refused(&seal), [FileFault::Link; 2]);
    fs::remove_file(&place).unwrap();
    symlink(other.path().join("nowhere"), &place).unwrap();
    assert_eq!(refused(&seal), [FileFault::Link; 2]);
    fs::remove_file(&place).unwrap();
    fs::create_dir(&place).unwrap();
    assert_eq!(refused(&seal), [FileFault::NotAFile; 2]);
    fs::remove_dir(&place).unwrap();
    let _socket = UnixListener::bind(&place).unwrap();
    assert_eq!(refused(&seal), [FileFault::NotAFile; 2]);
    fs::remove_file(&place).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &place,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(refused(&seal), [FileFault::NotAFile; 2]);
    // By a home that is a link, the file itself is none.
    let link = other.path().join("home");
    symlink(file.parent().unwrap(), &link).unwrap();
    assert_eq!(Seal::in_home(&link).open("c1", "bearer", &sealed).unwrap().expose(), "one");
}

#[test]
fn a_key_file_without_a_key_is_refused_and_nothing_of_it_is_told() {
    let (_home, file, seal) = keyed();
    let sealed = seal.seal("c1", "bearer", &secret("one")).unwrap();
    let contents: [&[u8]; 12] = [
        b"",
        b"\n",
        &KEY.as_bytes()[..43],
        &KEY.as_bytes()[..40],
        b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIj",
        b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==",
        b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=",
        b" AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n",
        b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\r\n",
        &[0xff; 32],
        &[b'A'; 1 << 16],
    ];
    for content in contents {
        write(&file, content, 0o600);
        for error in [seal.open("c1", "bearer", &sealed).unwrap_err(), seal.seal("c1", "x", &secret("a")).unwrap_err()]
        {
            assert!(matches!(error, StoreError::KeyFile { fault: KeyFault::Form, .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("AAEC"));
        }
        assert_eq!(fs::read(&file).unwrap(), content, "it is not replaced");
    }
    // As a person may write it.
    write(&file, KEY, 0o600);
    assert_eq!(seal.open("c1", "bearer", &sealed).unwrap().expose(), "one");
}

#[test]
fn a_home_that_cannot_be_written_makes_no_key() {
    let home = TempDir::new().unwrap();
    let nowhere = Seal::in_home(&home.path().join("missing"));
    let error = nowhere.seal("c1", "bearer", &secret("one")).unwrap_err();
    assert!(matches!(error, StoreError::Io { action: "make", .. }), "{error}");
}

proptest! {
    #[test]
    fn what_is_sealed_is_opened_and_shows_nothing(value in ".{8,200}", connection in ".{0,20}", name in ".{0,20}") {
        let (_home, _file, seal) = keyed();
        let sealed = seal.seal(&connection, &name, &secret(&value)).unwrap();
        prop_assert!(!sealed.contains(&value));
        let opened = seal.open(&connection, &name, &sealed).unwrap();
        prop_assert_eq!(opened.expose(), value);
    }
}
