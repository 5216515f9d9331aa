//! Configurations that cannot work are refused before anything is contacted.

use drivers::{BuildError, Config, DRIVERS, build};
use serde_json::json;

use crate::support::{config, literal};

fn refusal(name: &str, config: Config) -> BuildError {
    match build(name, config) {
        Ok(driver) => panic!("`{}` was built", driver.name()),
        Err(error) => error,
    }
}

#[test]
fn every_listed_driver_is_known() {
    for name in DRIVERS {
        match build(name, config("https://api.example.com")) {
            Ok(driver) => assert_eq!(driver.name(), name),
            Err(error) => assert!(matches!(error, BuildError::NoScript), "{name}: {error}"),
        }
    }
    assert_eq!(refusal("gemini", config("https://x")).to_string(), "there is no driver `gemini`");
}

#[test]
fn endpoints_are_http_urls_without_credentials() {
    let cases = [
        ("not a url", "the endpoint `not a url` is not a URL"),
        ("ftp://example.com", "the endpoint `ftp://example.com/` is neither http nor https"),
        ("https://me:secret@example.com/v1", "the endpoint `https://[hidden]@example.com/v1` holds a user or password"),
        ("https://example.com/#top", "the endpoint `https://example.com/#top` has a fragment"),
    ];
    for (endpoint, message) in cases {
        assert_eq!(refusal("openai", config(endpoint)).to_string(), message);
        assert_eq!(refusal("anthropic", config(endpoint)).code(), "E-DRV-002");
    }
}

#[test]
fn header_values_and_request_keys_are_checked() {
    let mut keyed = config("https://example.com");
    keyed.api_key = literal("two\nlines").into();
    let error = refusal("openai", keyed);
    assert_eq!(error.to_string(), "the API key holds a character that no HTTP header may hold");

    let mut extra = config("https://example.com");
    extra.request = json!({"temperature": 1, "messages": []}).as_object().cloned().unwrap();
    assert_eq!(refusal("anthropic", extra).to_string(), "the request key `messages` is set by the driver");

    let mut nameless = config("https://example.com");
    nameless.model = " ".to_owned();
    assert_eq!(refusal("anthropic", nameless).code(), "E-DRV-003");
}
