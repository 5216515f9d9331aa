//! Why a change is not made: each refusal with its status, its code and its sentence.

use record::Error as RecordError;

/// Why a change is not made. The sentence is the whole answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlRefusal {
    /// The setting is not declared.
    #[error("`{0}` is not a setting that this capsule lets a controller change")]
    UndeclaredSetting(String),
    /// The secret is not declared.
    #[error("`{0}` is not a secret that this capsule lets a controller inject")]
    UndeclaredSecret(String),
    /// The value does not fit.
    #[error("{0}")]
    InvalidValue(&'static str),
    /// A cap that leaves a choice no room for input.
    #[error(
        "inference.max_tokens of {max_tokens} leaves driver choice '{choice}' no input budget: its context window is {window}"
    )]
    NoInputBudget {
        /// The cap that was asked for.
        max_tokens: u32,
        /// The first choice that it leaves no room.
        choice: String,
        /// That choice's context window.
        window: u64,
    },
    /// The value names no choice.
    #[error("inference.driver takes the name of a declared driver choice: {}", choices.join(", "))]
    UndeclaredDriver {
        /// All that are declared.
        choices: Vec<String>,
    },
    /// The choice's credential can produce no value now.
    #[error("driver choice '{choice}' cannot be used: its credential `{credential}` {why}")]
    CredentialUnresolvable {
        /// The choice.
        choice: String,
        /// Its credential.
        credential: String,
        /// Why there is no value.
        why: &'static str,
    },
    /// The secret keys the choice in use.
    #[error("`{secret}` keys the driver choice in use, '{choice}': switch to another choice first")]
    InUse {
        /// The secret.
        secret: String,
        /// The choice.
        choice: String,
    },
    /// The change cannot be put on record, so it was not made.
    #[error("the change cannot be put on record, so it was not made: {0}")]
    Record(#[from] RecordError),
}

impl ControlRefusal {
    /// The HTTP status of the refusal.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::UndeclaredSetting(_) | Self::UndeclaredSecret(_) => 404,
            Self::InvalidValue(_) | Self::NoInputBudget { .. } | Self::UndeclaredDriver { .. } => 422,
            Self::CredentialUnresolvable { .. } | Self::InUse { .. } => 409,
            Self::Record(_) => 500,
        }
    }

    /// The reason in the trace.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UndeclaredSetting(_) => "undeclared_setting",
            Self::UndeclaredSecret(_) => "undeclared_secret",
            Self::InvalidValue(_) => "invalid_value",
            Self::NoInputBudget { .. } => "no_input_budget",
            Self::UndeclaredDriver { .. } => "undeclared_driver",
            Self::CredentialUnresolvable { .. } => "credential_unresolvable",
            Self::InUse { .. } => "in_use",
            Self::Record(_) => "not_recorded",
        }
    }
}

/// A refusal as the trace tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Why, as a code.
    pub reason: &'a str,
    /// `setting` or `secret`, and its name, where the request named one.
    pub named: Option<(&'a str, &'a str)>,
}
