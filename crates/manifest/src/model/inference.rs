//! Which model answers, and how: resolved from `inference` and the driver artifacts it names.

use serde_json::{Map, Value as Json};

use super::FilePath;
use super::gateway::Gateway;
use super::settings::{Compaction, Retry};
use super::words::{ArtifactName, BuiltinDriver, ChoiceName, EnvName, ModelId};
use crate::table::mapping;

mapping! {
    /// What a model takes and gives, in tokens.
    pub struct ModelLimits {
        /// Tokens of a whole request and its reply.
        pub context_window: u64, in 1 ..= 4294967295;
        /// Tokens of one reply.
        pub max_output_tokens: u64, in 1 ..= 4294967295;
    }
}

/// How the agent thinks.
#[derive(Debug, Clone, PartialEq)]
pub struct Inference {
    /// Who runs the loop.
    pub engine: Engine,
    /// Output cap of each call, in tokens. Below the context window of every choice.
    pub max_tokens: u32,
    /// Turns that one task may take.
    pub max_turns: u32,
    /// Tokens that a session may spend in all.
    pub max_session_tokens: Option<u64>,
    /// How failed calls are repeated.
    pub retry: Retry,
    /// Summarising of older turns; absent: none.
    pub compaction: Option<Compaction>,
    /// The operator's system prompt, from `system_prompt` or the file that `system_prompt_file` names.
    pub system_prompt: Option<String>,
    /// That file, when it came from one.
    pub system_prompt_file: Option<FilePath>,
}

impl Inference {
    /// The driver choices, primary first. Empty with `transport: process`.
    pub fn choices(&self) -> impl Iterator<Item = &Choice> {
        let (primary, alternates) = match &self.engine {
            Engine::Http { primary, alternates } => (Some(primary), alternates.as_slice()),
            Engine::Process { .. } => (None, [].as_slice()),
        };
        primary.into_iter().chain(alternates)
    }

    /// The primary driver choice. Absent with `transport: process`.
    #[must_use]
    pub fn primary(&self) -> Option<&Choice> {
        self.choices().next()
    }
}

/// Who runs the loop.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a session has one of these")]
pub enum Engine {
    /// The runtime, over HTTP.
    Http {
        /// The choice that a session starts with; its name is `primary`.
        primary: Choice,
        /// Choices that it can be switched to.
        alternates: Vec<Choice>,
    },
    /// A coding CLI.
    Process {
        /// The program.
        command: String,
        /// The model to ask it for.
        model: Option<ModelId>,
        /// Credentials that the program gets, by name.
        env: Vec<EnvName>,
    },
}

/// A model behind a driver.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// `primary`, or the alternate's own name.
    pub name: ChoiceName,
    /// The driver artifact.
    pub artifact: ArtifactName,
    /// The driver that it is.
    pub driver: BuiltinDriver,
    /// The model as the provider spells it.
    pub model: ModelId,
    /// What the model takes and gives.
    pub limits: ModelLimits,
    /// The provider's address and credential; absent for the scripted driver alone.
    pub gateway: Option<Gateway>,
    /// `driver.config` as declared.
    pub config: Map<String, Json>,
    /// The scripted driver's transcript; present exactly for that driver.
    pub script: Option<FilePath>,
}
