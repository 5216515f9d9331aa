//! What a manifest declares of control: settings, secrets, driver choices.

use std::sync::Arc;

use vocab::Driver;

/// A setting that can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// The output cap of each call.
    MaxTokens,
    /// The driver choice.
    Driver,
}

impl Setting {
    /// The setting as the manifest names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "inference.max_tokens",
            Self::Driver => "inference.driver",
        }
    }
}

/// What `control:` of the manifest declares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControlDeclared {
    /// What a controller may change.
    pub settings: Vec<Setting>,
    /// The secrets that a controller may inject.
    pub secrets: Vec<String>,
    /// What the agent may change of itself.
    pub agent_settings: Vec<Setting>,
}

/// A model behind a driver, by the name that a setting gives it.
pub struct DriverChoice {
    /// `primary`, or the alternate's name.
    pub name: String,
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// Tokens of a whole request and its reply.
    pub context_window: u64,
    /// Its credential.
    pub credential: ChoiceCredential,
}

/// Whether a choice's credential can produce a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChoiceCredential {
    /// It was there at launch: from `config`, `environment` or `manifest`, or none is needed (`keyless`).
    Resolved(&'static str),
    /// It was found nowhere.
    Missing {
        /// Its name.
        name: String,
    },
    /// A controller injects it.
    Injected {
        /// Its name.
        name: String,
    },
}
