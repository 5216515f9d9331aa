//! What the host can back, and what is kept of it.

use std::process::Command;

use sandbox::{Class, Host, Layer};

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
fn only_a_file_of_a_likely_size_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sandbox-host");
    let host = Host::probe(Some(folder.path()));
    let text = std::fs::read_to_string(&file).unwrap();
    let forged = text.replace(&format!("strongest {}", host.strongest), "strongest advisory");
    let elsewhere = folder.path().join("elsewhere");
    std::fs::write(&elsewhere, &forged).unwrap();
    let put = |make: &dyn Fn()| {
        std::fs::remove_file(&file).unwrap();
        make();
        assert_eq!(Host::probe(Some(folder.path())), host);
        assert_eq!(std::fs::symlink_metadata(&file).unwrap().len(), text.len() as u64, "it is put right");
    };
    put(&|| std::os::unix::fs::symlink(&elsewhere, &file).unwrap());
    put(&|| std::os::unix::fs::symlink("/dev/zero", &file).unwrap());
    put(&|| {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &file,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
    });
    put(&|| std::fs::File::create(&file).unwrap().set_len(1 << 40).unwrap());
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), forged);
    // The neighbour: as a file the same text is believed.
    std::fs::write(&file, &forged).unwrap();
    assert_eq!(Host::probe(Some(folder.path())).strongest, Class::Advisory);
}

#[test]
fn what_is_missing_fits_what_is_strongest() {
    let host = Host::probe(None);
    for class in Class::ALL {
        assert_eq!(host.missing(class).is_empty(), class <= host.strongest, "{class} {host:?}");
    }
}

/// What the host must have, as whoever runs the suite says: names of layers, with commas between.
#[test]
fn the_host_has_what_is_said_of_it() {
    let said = std::env::var("MUR_TEST_HOST").unwrap_or_default();
    let host = Host::probe(None);
    for name in said.split(',').filter(|name| !name.is_empty()) {
        let layer = Layer::ALL.into_iter().find(|layer| layer.name() == name);
        let layer = layer.unwrap_or_else(|| panic!("`{name}` is no layer"));
        assert!(host.missing.iter().all(|missing| missing.layer != layer), "{host:?}");
    }
}

fn told(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sandbox-runtime")).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_layer_that_the_kernel_refuses_is_named() {
    if Host::probe(None).strongest < Class::Sealed {
        // Something is missing as it is, and `escapes` asserts what.
        return;
    }
    for (layer, strongest, scoped, sealed) in [
        ("landlock", "advisory", "[Landlock]", "[Landlock]"),
        ("seccomp", "advisory", "[Seccomp]", "[Seccomp]"),
        ("namespaces", "scoped", "[]", "[Namespaces]"),
        ("network", "scoped", "[]", "[Network]"),
    ] {
        let expected = format!("{strongest} [(\"advisory\", []), (\"scoped\", {scoped}), (\"sealed\", {sealed})]\n");
        assert_eq!(told(&["without", layer, "probe"]), expected);
    }
}

#[test]
fn a_masked_proc_is_named() {
    if Host::probe(None).strongest < Class::Sealed {
        return;
    }
    // As containers have it: something lies on top of a part of /proc, and who is inside cannot take it away.
    let script = "mount -t tmpfs none /proc/fs && exec \"$0\" probe";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_sandbox-runtime")])
        .output()
        .unwrap();
    let expected = "scoped [(\"advisory\", []), (\"scoped\", []), (\"sealed\", [Processes])]\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn what_is_missing_says_what_to_do() {
    for layer in Layer::ALL {
        let text = layer.to_string();
        assert!(text.ends_with(layer.remedy()) && !text.contains('\n'), "{text}");
        assert!(text.contains("missing") || text.contains("cannot"), "{text}");
    }
}
