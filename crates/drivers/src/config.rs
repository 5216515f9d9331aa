//! What a driver needs to know, and the table of drivers by name.
//!
//! Plain values, so that the crate does not depend on the manifest: whoever reads the manifest fills
//! a [`Config`]. What can be wrong is found here, before the first request; nothing is contacted.

use std::path::PathBuf;
use std::time::Duration;

use secrets::{Keyring, LiveCredential};
use serde_json::{Map, Value};
use vocab::Driver;

use crate::anthropic::Anthropic;
use crate::client::ClientSetup;
use crate::exchange::HttpDriver;
use crate::openai::OpenAi;
use crate::scripted::Scripted;

/// The names that [`build`] knows.
pub const DRIVERS: [&str; 3] = ["anthropic", "openai", "scripted"];

/// How often and how long a failed call is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first one.
    pub max_retries: u32,
    /// Upper bound of the first delay; it doubles with each attempt. The delay itself is random
    /// between zero and the bound, so that many agents do not come back at the same moment.
    pub initial_delay: Duration,
    /// No delay is longer. A provider that asks for a longer one is not tried again.
    pub max_delay: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { max_retries: 6, initial_delay: Duration::from_secs(1), max_delay: Duration::from_secs(30) }
    }
}

/// One driver's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Base URL of the provider. `anthropic` adds `/v1/messages`, `openai` adds `/chat/completions`
    /// with `/v1` before it when the URL has no path. `scripted` does not read it.
    pub endpoint: String,
    /// Sent as `x-api-key` (anthropic) or as a bearer token (openai), with the value that it has when the
    /// request is sent.
    pub api_key: Keyring,
    /// The model's id, as the provider spells it.
    pub model: String,
    /// More keys of the request body, such as `temperature` or `thinking`, sent as they stand. Keys
    /// that the driver itself sets are refused.
    pub request: Map<String, Value>,
    /// Retries.
    pub retry: Retry,
    /// How long the provider may send nothing of an answer before the attempt counts as failed; comments
    /// and pings are nothing. There is no limit for the whole answer: a long one is not a failure.
    pub idle_timeout: Duration,
    /// The `user-agent` header.
    pub user_agent: String,
    /// A PEM file of certificates that are trusted besides the built-in roots.
    pub extra_roots: Option<PathBuf>,
    /// `scripted` alone: the transcript to play.
    pub script: Option<PathBuf>,
}

impl Config {
    /// A keyless configuration with default limits. `SSL_CERT_FILE`, where it is set, names the
    /// [`extra_roots`](Self::extra_roots).
    #[must_use]
    pub fn new(endpoint: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            api_key: LiveCredential::keyless().into(),
            model: model.into(),
            request: Map::new(),
            retry: Retry::default(),
            idle_timeout: Duration::from_secs(300),
            user_agent: concat!("mur/", env!("CARGO_PKG_VERSION")).to_owned(),
            extra_roots: ClientSetup::roots_from_env(),
            script: None,
        }
    }
}

/// A configuration that no driver can be made from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No driver has this name.
    #[error("there is no driver `{name}`")]
    UnknownDriver {
        /// The name as given.
        name: String,
    },
    /// The endpoint is not a usable URL.
    #[error("the endpoint `{endpoint}` {reason}")]
    Endpoint {
        /// The endpoint as given, without user and password.
        endpoint: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The model's id is empty.
    #[error("the model's id is empty")]
    NoModel,
    /// A value cannot stand in an HTTP header. The value itself is not shown: it may be a secret.
    #[error("the {what} holds a character that no HTTP header may hold")]
    Header {
        /// Which value.
        what: &'static str,
    },
    /// A key of [`Config::request`] belongs to the driver.
    #[error("the request key `{key}` is set by the driver")]
    RequestKey {
        /// The key.
        key: String,
    },
    /// `scripted` without a script.
    #[error("the scripted driver needs a script")]
    NoScript,
    /// The script cannot be read.
    #[error("cannot read the script `{}`: {error}", path.display())]
    ScriptUnreadable {
        /// The script.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The script is not in its form.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Script {
        /// The script.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: u64,
        /// What is wrong there.
        message: String,
    },
}

impl BuildError {
    /// A stable code for diagnostics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownDriver { .. } => "E-DRV-001",
            Self::Endpoint { .. } => "E-DRV-002",
            Self::NoModel => "E-DRV-003",
            Self::Header { .. } => "E-DRV-004",
            Self::RequestKey { .. } => "E-DRV-005",
            Self::NoScript => "E-DRV-006",
            Self::ScriptUnreadable { .. } => "E-DRV-007",
            Self::Script { .. } => "E-DRV-008",
        }
    }

    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::UnknownDriver { .. } => "the drivers are `anthropic`, `openai` and `scripted`",
            Self::Endpoint { .. } => {
                "write `gateway.endpoint` as in `https://api.example.com`; credentials belong in `gateway.api_key`"
            }
            Self::NoModel => "set `inference.model`",
            Self::Header { .. } => "look for a stray newline or blank in the value",
            Self::RequestKey { .. } => "remove the key; the manifest has its own field for it",
            Self::NoScript => "set `driver.config.script` to a YAML or JSONL transcript",
            Self::ScriptUnreadable { .. } => "check the path in `driver.config.script` and the file's mode",
            Self::Script { .. } => {
                "a turn has `thinking`, `text`, `tool_calls`, `usage`, `stop`, `expect` and `error`, each optional"
            }
        }
    }
}

/// Makes the driver of this name.
///
/// Nothing is contacted and no TLS is set up before the first call. `scripted` reads its script here.
///
/// # Errors
///
/// When the name is unknown or the configuration cannot work.
pub fn build(name: &str, config: Config) -> Result<Box<dyn Driver>, BuildError> {
    if config.model.trim().is_empty() {
        return Err(BuildError::NoModel);
    }
    match name {
        "anthropic" => Ok(Box::new(HttpDriver::<Anthropic>::new(config)?)),
        "openai" => Ok(Box::new(HttpDriver::<OpenAi>::new(config)?)),
        "scripted" => Ok(Box::new(Scripted::new(config)?)),
        _ => Err(BuildError::UnknownDriver { name: name.to_owned() }),
    }
}
