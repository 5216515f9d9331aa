use reqwest::Url;
use serde_json::Map;

use super::OpenAi;
use crate::exchange::Protocol as _;

fn url(endpoint: &str) -> String {
    OpenAi::url(Url::parse(endpoint).unwrap()).to_string()
}

#[test]
fn a_bare_endpoint_gets_the_version_and_a_path_stays() {
    assert_eq!(url("https://api.openai.com"), "https://api.openai.com/v1/chat/completions");
    assert_eq!(url("https://api.openai.com/"), "https://api.openai.com/v1/chat/completions");
    assert_eq!(url("http://127.0.0.1:11434/v1/"), "http://127.0.0.1:11434/v1/chat/completions");
    assert_eq!(url("https://example.com/api/v3"), "https://example.com/api/v3/chat/completions");
    assert_eq!(url("https://example.com/d/x?api-version=1"), "https://example.com/d/x/chat/completions?api-version=1");
}

#[test]
fn only_its_own_hosts_get_the_newer_name_of_the_cap() {
    let cap = |endpoint: &str| OpenAi::new("m", &Url::parse(endpoint).unwrap(), Map::new()).unwrap().cap;
    assert_eq!(cap("https://api.openai.com/v1"), "max_completion_tokens");
    assert_eq!(cap("https://eu.api.openai.com/v1"), "max_completion_tokens");
    assert_eq!(cap("https://me.openai.azure.com/openai/v1"), "max_completion_tokens");
    assert_eq!(cap("https://api.openai.com.example.org/v1"), "max_tokens");
    assert_eq!(cap("http://localhost:8000/v1"), "max_tokens");
}
