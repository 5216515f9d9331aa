//! What the host can back, and what is kept of it.

use sandbox::{Class, Host};

#[test]
fn a_try_is_kept_and_a_spoiled_one_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::probe(Some(folder.path()));
    assert_eq!(Host::probe(None), host);
    assert_eq!(Host::probe(Some(folder.path())), host);

    // It is the file that answers: a line of it is changed.
    let file = folder.path().join("sandbox-host");
    let text = std::fs::read_to_string(&file).unwrap();
    let forged = text.replace(&format!("strongest {}", host.strongest), "strongest advisory");
    std::fs::write(&file, &forged).unwrap();
    assert_eq!(Host::probe(Some(folder.path())), Host { strongest: Class::Advisory, ..host.clone() });

    for spoiled in ["", "\n", text.get(1..).unwrap(), text.trim_end(), &format!("{text}more\n")] {
        std::fs::write(&file, spoiled).unwrap();
        assert_eq!(Host::probe(Some(folder.path())), host, "{spoiled:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "it is put right");
    }
    std::fs::write(&file, b"\xff\xfe").unwrap();
    assert_eq!(Host::probe(Some(folder.path())), host);
}

#[test]
fn a_cache_that_cannot_be_kept_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::probe(None);
    std::fs::create_dir(folder.path().join("sandbox-host")).unwrap();
    assert_eq!(Host::probe(Some(folder.path())), host);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written is left");
    assert_eq!(Host::probe(Some(&folder.path().join("missing"))), host);
}

#[test]
fn what_is_missing_fits_what_is_strongest() {
    let host = Host::probe(None);
    for class in Class::ALL {
        assert_eq!(host.missing(class).is_empty(), class <= host.strongest, "{class} {host:?}");
    }
}
