//! Credentials that are read at each use: rotation, injection, what the redactor knows, what faults say.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use secrets::{Error, LiveCredential, Lookup, Redactor, Secret, Source, Vault};
use tempfile::TempDir;

fn write(home: &Path, text: &str) {
    let path = home.join("config.yaml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Replaces the file by another one, as an editor does.
fn replace(home: &Path, text: &str) {
    let new = home.join("config.new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&new, home.join("config.yaml")).unwrap();
}

struct Stage {
    home: TempDir,
    environment: Arc<Mutex<Option<&'static str>>>,
    lookup: Arc<Lookup>,
    vault: Arc<Vault>,
    redactor: Redactor,
}

impl Stage {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let environment = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&environment);
        let lookup = Lookup::open(home.path(), move |name| {
            if name.ends_with("KEY") { seen.lock().unwrap().map(OsString::from) } else { None }
        });
        let vault = Arc::new(Vault::new(["INJECTED_KEY".to_owned()]));
        Self { home, environment, lookup: Arc::new(lookup), vault, redactor: Redactor::new() }
    }

    fn named(&self, name: &str) -> LiveCredential {
        LiveCredential::named(name, &self.lookup, &self.vault, &self.redactor)
    }

    fn shown(&self, error: &Error) -> String {
        error.to_string().replace(&self.home.path().display().to_string(), "HOME")
    }
}

fn secret(text: &str) -> Option<Secret> {
    Some(Secret::new(text.to_owned()))
}

#[test]
fn each_read_gives_the_value_of_now() {
    let stage = Stage::new();
    let key = stage.named("KEY");
    assert_eq!(key.source(), Source::None);
    *stage.environment.lock().unwrap() = Some("from-env");
    assert_eq!((key.read().unwrap(), key.source()), (secret("from-env"), Source::Environment));
    write(stage.home.path(), "credentials: {KEY: one}");
    assert_eq!((key.read().unwrap(), key.source()), (secret("one"), Source::Config));
    // The same length, at once, in place and by a new file.
    write(stage.home.path(), "credentials: {KEY: two}");
    assert_eq!(key.read().unwrap(), secret("two"));
    replace(stage.home.path(), "credentials: {KEY: six}");
    assert_eq!(key.read().unwrap(), secret("six"));
    replace(stage.home.path(), "credentials: {OTHER: six}");
    assert_eq!(key.read().unwrap(), secret("from-env"));
    fs::remove_file(stage.home.path().join("config.yaml")).unwrap();
    *stage.environment.lock().unwrap() = Some("env-again");
    assert_eq!((key.read().unwrap(), key.source()), (secret("env-again"), Source::Environment));
}

#[test]
fn a_file_whose_times_are_set_back_is_seen_to_have_changed() {
    let stage = Stage::new();
    let key = stage.named("KEY");
    let path = stage.home.path().join("config.yaml");
    let old = SystemTime::now() - Duration::from_secs(3600);
    for value in ["one", "two", "six"] {
        write(stage.home.path(), &format!("credentials: {{KEY: {value}}}"));
        fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        assert_eq!(key.read().unwrap(), secret(value));
        assert_eq!(key.reread().unwrap(), secret(value));
    }
}

#[test]
fn a_file_that_becomes_unsafe_is_a_fault_that_names_the_credential() {
    let stage = Stage::new();
    let key = stage.named("KEY");
    write(stage.home.path(), "credentials: {KEY: hunter2}");
    assert_eq!(key.read().unwrap(), secret("hunter2"));
    let path = stage.home.path().join("config.yaml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = key.read().unwrap_err();
    assert_eq!(
        stage.shown(&error),
        "credential `KEY` cannot be read: `HOME/config.yaml` has mode 0644: others can read or change it"
    );
    assert_eq!((error.code(), error.hint().starts_with("run: chmod 600 ")), ("E-RUN-004", true));
    write(stage.home.path(), "credentials: {KEY: [hunter2]}");
    let error = key.read().unwrap_err();
    assert!(stage.shown(&error).starts_with("credential `KEY` cannot be read: `HOME/config.yaml` line 1"), "{error}");
    assert!(!format!("{error} {error:?} {}", error.hint()).contains("hunter2"));
    write(stage.home.path(), "credentials: {KEY: hunter3}");
    assert_eq!(key.read().unwrap(), secret("hunter3"));
}

#[test]
fn a_name_found_nowhere_is_named() {
    let stage = Stage::new();
    let error = stage.named("KEY").read().unwrap_err();
    assert_eq!(stage.shown(&error), "credential `KEY` is neither in `HOME/config.yaml` nor in the environment");
}

#[test]
fn an_injected_name_is_never_looked_up() {
    let stage = Stage::new();
    write(stage.home.path(), "credentials: {INJECTED_KEY: from-config}");
    *stage.environment.lock().unwrap() = Some("from-env");
    let injected = stage.named("INJECTED_KEY");
    assert_eq!(injected.source(), Source::Injected);
    let faults = |period| Error::NotInjected { name: "INJECTED_KEY".to_owned(), period }.to_string();
    let missing = |expected: u64| match injected.read().unwrap_err() {
        Error::NotInjected { name, period } => assert_eq!((name.as_str(), period), ("INJECTED_KEY", expected)),
        other => panic!("{other}"),
    };
    assert_eq!(faults(0), "credential `INJECTED_KEY` has not been injected");
    missing(0);
    missing(0);
    stage.vault.set("INJECTED_KEY", Secret::new("first-value".to_owned()));
    assert_eq!(injected.read().unwrap(), secret("first-value"));
    stage.vault.set("INJECTED_KEY", Secret::new("second-value".to_owned()));
    assert_eq!(injected.reread().unwrap(), secret("second-value"));
    stage.vault.forget("INJECTED_KEY");
    missing(2);
    // Its nearest neighbour is looked up.
    assert_eq!(stage.named("KEY").read().unwrap(), secret("from-env"));
}

#[test]
fn what_is_read_is_known_to_the_redactor_also_when_it_is_gone() {
    let stage = Stage::new();
    let key = stage.named("KEY");
    write(stage.home.path(), "credentials: {KEY: first-value}");
    assert!(stage.redactor.is_clean("first-value second-value"));
    let _ = key.read().unwrap();
    replace(stage.home.path(), "credentials: {KEY: second-value}");
    let _ = key.read().unwrap();
    assert_eq!(stage.redactor.redact("first-value second-value").as_str(), "[redacted] [redacted]");
    let literal = LiveCredential::literal(Secret::new("third-value".to_owned()), &stage.redactor);
    assert_eq!((literal.read().unwrap(), literal.source()), (secret("third-value"), Source::Manifest));
    assert_eq!(stage.redactor.redact("third-value").as_str(), "[redacted]");
}

#[test]
fn keyless_has_no_value_and_a_bad_literal_is_refused() {
    let keyless = LiveCredential::keyless();
    assert_eq!((keyless.read().unwrap(), keyless.source(), keyless.name()), (None, Source::Keyless, None));
    for (text, what) in [("", "no character"), ("two\nlines", "a line break")] {
        let literal = LiveCredential::literal(Secret::new(text.to_owned()), &Redactor::new());
        let message = literal.read().unwrap_err().to_string();
        assert_eq!(message, format!("credential `api_key` from the manifest holds {what}"));
    }
}

#[test]
fn no_credential_shows_its_value() {
    let stage = Stage::new();
    let literal = LiveCredential::literal(Secret::new("hunter2-hunter2".to_owned()), &stage.redactor);
    let shown = format!("{literal:?} {:?} {:?}", stage.named("KEY"), stage.named("INJECTED_KEY"));
    assert_eq!(shown, "LiveCredential(literal) LiveCredential(${KEY}) LiveCredential(${INJECTED_KEY}, injected)");
}
