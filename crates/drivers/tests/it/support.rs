//! What the tests share: drivers for a test server, messages, a sink that keeps what it gets.

use std::time::Duration;

use drivers::{Config, Retry, build};
use fence::{ModelText, RuntimeWords, Source, Unfenced};
use secrets::{LiveCredential, Redactor, Secret};
use serde_json::json;
use testkit::{ModelServer, Turn};
use vocab::{CallParams, Delta, Driver, DriverError, Message, Part, Reply, ToolSpec, Wire};

pub(crate) const WIRES: [&str; 2] = ["anthropic", "openai"];
pub(crate) const PARAMS: CallParams = CallParams { max_tokens: 1024, traceparent: None };

/// No wait that a test would notice; one retry unless the test says more.
pub(crate) fn config(url: &str) -> Config {
    let mut config = Config::new(url, "test-model");
    config.retry =
        Retry { max_retries: 1, initial_delay: Duration::from_millis(1), max_delay: Duration::from_millis(20) };
    config.extra_roots = None;
    config
}

/// A key that stands in the manifest.
pub(crate) fn literal(key: impl Into<String>) -> LiveCredential {
    LiveCredential::literal(Secret::new(key.into()), &Redactor::new())
}

pub(crate) fn driver(name: &str, server: &ModelServer) -> Box<dyn Driver> {
    build(name, config(&server.url())).unwrap()
}

pub(crate) fn tools() -> Vec<ToolSpec> {
    ["files_read", "files_list"]
        .map(|name| ToolSpec {
            name: name.to_owned(),
            description: "Looks.".to_owned(),
            input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        })
        .to_vec()
}

pub(crate) fn user(text: &str) -> Message {
    Message::user(ModelText::unfenced(Unfenced::Operator, text))
}

pub(crate) fn result(id: &str, text: &str) -> Message {
    Message::tool_result(id, false, vec![Part::Text(ModelText::fenced(&Source::tool("files_read"), text))])
}

pub(crate) fn failure(id: &str) -> Message {
    Message::tool_result(id, true, vec![Part::Text(ModelText::runtime(RuntimeWords::new("no such file")))])
}

pub(crate) fn model_text(text: &str) -> Part {
    Part::Text(ModelText::unfenced(Unfenced::Model, text))
}

/// A conversation with one user message.
pub(crate) fn asked(driver: &dyn Driver) -> Box<dyn Wire> {
    let mut wire = driver.open("You are terse.", &tools());
    wire.push(&user("What is in a.txt?"));
    wire
}

pub(crate) async fn call(driver: &dyn Driver, wire: &dyn Wire) -> (Result<Reply, DriverError>, Vec<String>) {
    let mut seen = Vec::new();
    let mut sink = |delta: Delta<'_>| seen.push(show(delta));
    let outcome = driver.call(wire, PARAMS, &mut sink).await;
    (outcome, seen)
}

/// Asks one question of a server that plays these turns.
pub(crate) async fn ask(name: &str, turns: Vec<Turn>) -> (Result<Reply, DriverError>, Vec<String>) {
    let server = ModelServer::start(turns).await;
    let driver = driver(name, &server);
    let wire = asked(driver.as_ref());
    let outcome = call(driver.as_ref(), wire.as_ref()).await;
    assert_eq!(server.violations(), Vec::<String>::new());
    outcome
}

pub(crate) async fn error_of(name: &str, turns: Vec<Turn>) -> DriverError {
    ask(name, turns).await.0.unwrap_err()
}

fn show(delta: Delta<'_>) -> String {
    match delta {
        Delta::Text(text) => format!("text {text}"),
        Delta::Thinking(text) => format!("thinking {text}"),
        Delta::ToolCallStarted { id, name } => format!("call {id} {name}"),
        Delta::Restarted { error, attempt, .. } => format!("restart {attempt} {}", error.kind.as_str()),
    }
}

/// Deltas of one kind, joined.
pub(crate) fn joined(seen: &[String], kind: &str) -> String {
    seen.iter().filter_map(|delta| delta.strip_prefix(kind).and_then(|rest| rest.strip_prefix(' '))).collect()
}
