//! Keys that change while a driver lives: each request carries the key of its moment.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use drivers::build;
use secrets::{LiveCredential, Lookup, Redactor, Secret, Vault};
use testkit::{ModelServer, TempHome, Turn};
use vocab::{Driver, DriverError, DriverErrorKind as Kind, Reply};

use crate::support::{WIRES, asked, call, config};

type Keys = Arc<Mutex<Vec<String>>>;

/// A home whose config file holds `KEY`.
struct Home {
    dir: TempHome,
    lookup: Arc<Lookup>,
}

impl Home {
    fn new(key: &str) -> Self {
        let dir = TempHome::new();
        put(&path(&dir), key);
        let lookup = Arc::new(Lookup::open(dir.root(), |_| None));
        Self { dir, lookup }
    }

    fn credential(&self) -> LiveCredential {
        LiveCredential::named("KEY", &self.lookup, &Arc::new(Vault::default()), &Redactor::new())
    }
}

fn path(dir: &TempHome) -> PathBuf {
    dir.root().join("config.yaml")
}

fn put(path: &Path, key: &str) {
    std::fs::write(path, format!("credentials: {{KEY: {key}}}")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A server that notes the key of each request and answers as `script` says.
async fn server(script: impl Fn(usize, &str) -> Turn + Send + Sync + 'static) -> (ModelServer, Keys) {
    let keys = Keys::default();
    let noted = Arc::clone(&keys);
    let server = ModelServer::answering(move |number, request| {
        let header = |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let bearer = || header("authorization").map(|value| value.strip_prefix("Bearer ").unwrap().to_owned());
        let key = header("x-api-key").or_else(bearer).unwrap_or_default();
        noted.lock().unwrap().push(key.clone());
        script(number, &key)
    });
    (server.unchecked().start().await, keys)
}

fn driver(name: &str, server: &ModelServer, credential: LiveCredential) -> Box<dyn Driver> {
    let mut config = config(&server.url());
    config.api_key = credential.into();
    build(name, config).unwrap()
}

async fn ask(driver: &dyn Driver) -> (Result<Reply, DriverError>, Vec<String>) {
    call(driver, asked(driver).as_ref()).await
}

fn noted(keys: &Keys) -> Vec<String> {
    keys.lock().unwrap().clone()
}

fn fine() -> Turn {
    Turn::new().text("Fine.")
}

#[tokio::test]
async fn a_key_changed_in_the_config_file_counts_from_the_next_request() {
    for name in WIRES {
        let (server, keys) = server(|_, _| fine()).await;
        let home = Home::new("first-key");
        let driver = driver(name, &server, home.credential());
        for key in ["first-key", "second-key", "third-key"] {
            put(&path(&home.dir), key);
            assert_eq!(ask(driver.as_ref()).await.0.unwrap().attempts, 1);
        }
        assert_eq!(noted(&keys), ["first-key", "second-key", "third-key"], "{name}");
    }
}

#[tokio::test]
async fn a_retry_carries_the_key_of_its_own_moment() {
    let home = Home::new("first-key");
    let file = path(&home.dir);
    let (server, keys) = server(move |number, _| {
        put(&file, "second-key");
        if number == 0 { Turn::status(503, "busy") } else { fine() }
    })
    .await;
    let driver = driver("openai", &server, home.credential());
    assert_eq!(ask(driver.as_ref()).await.0.unwrap().attempts, 2);
    assert_eq!(noted(&keys), ["first-key", "second-key"]);
}

#[tokio::test]
async fn a_refused_key_is_read_again_and_the_request_sent_once_more_if_it_changed() {
    for name in WIRES {
        let home = Home::new("old-key");
        let file = path(&home.dir);
        let (server, keys) = server(move |_, key| {
            put(&file, "new-key");
            if key == "new-key" { fine() } else { Turn::status(401, "expired") }
        })
        .await;
        let driver = driver(name, &server, home.credential());
        let (reply, seen) = ask(driver.as_ref()).await;
        assert_eq!((reply.unwrap().attempts, seen), (1, vec!["text Fine.".to_owned()]), "{name}");
        assert_eq!(noted(&keys), ["old-key", "new-key"], "{name}");
    }
}

#[tokio::test]
async fn a_refused_request_is_sent_once_more_and_never_twice() {
    for name in WIRES {
        let home = Home::new("key-number-none");
        let file = path(&home.dir);
        let (server, keys) = server(move |number, key| {
            put(&file, &format!("key-number-{number}"));
            Turn::status(401, format!("neither key-number-none nor {key}"))
        })
        .await;
        let driver = driver(name, &server, home.credential());
        let error = ask(driver.as_ref()).await.0.unwrap_err();
        assert_eq!((error.kind, error.status, error.retryable), (Kind::Auth, Some(401), false));
        assert!(error.message.ends_with(" refused the credential (401): neither [redacted] nor [redacted]"), "{error}");
        assert_eq!(noted(&keys), ["key-number-none", "key-number-0"], "{name}");
    }
}

#[tokio::test]
async fn a_refused_key_that_is_the_same_or_gone_is_the_providers_own_refusal() {
    for gone in [false, true] {
        let home = Home::new("only-key");
        let file = path(&home.dir);
        let (server, keys) = server(move |_, _| {
            if gone {
                std::fs::remove_file(&file).unwrap();
            }
            Turn::status(401, "bad key")
        })
        .await;
        let driver = driver("anthropic", &server, home.credential());
        let error = ask(driver.as_ref()).await.0.unwrap_err();
        assert_eq!((error.kind, error.status), (Kind::Auth, Some(401)), "{gone}");
        assert!(error.message.ends_with(" refused the credential (401): bad key"), "{error}");
        assert_eq!(noted(&keys), ["only-key"], "{gone}");
    }
}

#[tokio::test]
async fn another_refusal_than_401_sends_nothing_again() {
    let home = Home::new("first-key");
    let file = path(&home.dir);
    let (server, keys) = server(move |_, _| {
        put(&file, "second-key");
        Turn::status(403, "not yours")
    })
    .await;
    let driver = driver("openai", &server, home.credential());
    assert_eq!(ask(driver.as_ref()).await.0.unwrap_err().status, Some(403));
    assert_eq!(noted(&keys), ["first-key"]);
}

#[tokio::test]
async fn an_injected_key_is_the_one_of_now_and_without_one_nothing_is_sent() {
    for name in WIRES {
        let (server, keys) = server(|_, _| fine()).await;
        let home = Home::new("never-this");
        let vault = Arc::new(Vault::new(["KEY".to_owned()]));
        let credential = LiveCredential::named("KEY", &home.lookup, &vault, &Redactor::new());
        let driver = driver(name, &server, credential);
        let missing = format!("{name} at {} was not called: credential `KEY` has not been injected", server.address());
        let refused = async || {
            let (outcome, seen) = ask(driver.as_ref()).await;
            let error = outcome.unwrap_err();
            assert_eq!((error.kind, error.status, error.retryable), (Kind::Auth, None, false));
            assert_eq!((error.message, seen), (missing.clone(), Vec::new()));
        };
        refused().await;
        for key in ["first-key", "second-key"] {
            vault.set("KEY", Secret::new(key.to_owned()));
            ask(driver.as_ref()).await.0.unwrap();
        }
        vault.forget("KEY");
        refused().await;
        vault.set("KEY", Secret::new("third-key".to_owned()));
        ask(driver.as_ref()).await.0.unwrap();
        assert_eq!(noted(&keys), ["first-key", "second-key", "third-key"], "{name}");
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_read_or_sent_fails_the_call_and_says_why() {
    let (server, keys) = server(|_, _| fine()).await;
    let home = Home::new("good-key");
    let driver = driver("openai", &server, home.credential());
    ask(driver.as_ref()).await.0.unwrap();
    let refused = async |why: &str| {
        let error = ask(driver.as_ref()).await.0.unwrap_err();
        assert_eq!((error.kind, error.status, error.retryable), (Kind::Auth, None, false));
        assert!(error.message.contains(why), "{error}");
    };
    std::fs::set_permissions(path(&home.dir), std::fs::Permissions::from_mode(0o644)).unwrap();
    refused("was not called: credential `KEY` cannot be read: ").await;
    std::fs::remove_file(path(&home.dir)).unwrap();
    refused("was not called: credential `KEY` is neither in ").await;
    put(&path(&home.dir), "good-key");
    ask(driver.as_ref()).await.0.unwrap();
    put(&path(&home.dir), "\"two\\nlines\"");
    refused("was not called: credential `KEY` from `").await;
    assert_eq!(noted(&keys), ["good-key", "good-key"]);
}

#[tokio::test]
async fn an_injected_value_that_no_header_may_hold_fails_the_call() {
    let (server, keys) = server(|_, _| fine()).await;
    let home = Home::new("never-this");
    let vault = Arc::new(Vault::new(["KEY".to_owned()]));
    let credential = LiveCredential::named("KEY", &home.lookup, &vault, &Redactor::new());
    let driver = driver("anthropic", &server, credential);
    vault.set("KEY", Secret::new("two\nlines".to_owned()));
    let error = ask(driver.as_ref()).await.0.unwrap_err();
    assert_eq!(error.kind, Kind::Auth);
    let why = " was not called: the API key holds a character that no HTTP header may hold";
    assert!(error.message.ends_with(why), "{error}");
    vault.set("KEY", Secret::new("two-lines".to_owned()));
    ask(driver.as_ref()).await.0.unwrap();
    assert_eq!(noted(&keys), ["two-lines"]);
}
