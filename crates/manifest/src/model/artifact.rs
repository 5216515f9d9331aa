//! An artifact as the capsule's entry and the artifact's own files describe it.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use super::capabilities::{ArtifactCapabilities, UpstreamAuth};
use super::gateway::Gateway;
use super::words::{ArtifactName, BuiltinDriver, ExecutionMode, HookEvent, StateEffect, Version};

/// An artifact of a capsule.
#[derive(Debug, Clone, PartialEq)]
pub struct Artifact {
    /// The name of the entry; for a tool, the name that the model calls.
    pub name: ArtifactName,
    /// Its service and credential, from the capsule's entry alone.
    pub gateway: Option<Gateway>,
    /// What it may do, from the capsule's entry alone.
    pub capabilities: ArtifactCapabilities,
    /// What it is.
    pub body: ArtifactBody,
}

/// What an artifact is.
#[derive(Debug, Clone, PartialEq)]
pub enum ArtifactBody {
    /// A model provider.
    Driver(BuiltinDriver),
    /// A tool.
    Tool(ToolPackage),
    /// Instructions.
    Skill(SkillPackage),
    /// A hook.
    Hook(HookPackage),
    /// A local program that registers tools over MCP.
    Mod(ModPackage),
}

/// A tool, as its own `murmur.yaml` describes it. Nothing here grants anything.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPackage {
    /// Its version.
    pub version: Version,
    /// What it does, for the model: one line, capped.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Map<String, Json>,
    /// What is started.
    pub program: Program,
    /// The header with which its credential is sent.
    pub upstream_auth: Option<UpstreamAuth>,
    /// Whether it changes anything; `mutate` unless it says otherwise.
    pub state_effect: StateEffect,
    /// Its directory, absolute.
    pub dir: PathBuf,
}

/// What is started for a tool or a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments. Elements that begin with `./` are absolute paths into the
    /// artifact's directory; a first element without `/` is looked up in `PATH`.
    Native {
        /// Program and arguments; at least one element.
        argv: Vec<OsString>,
    },
    /// A WebAssembly component.
    Component {
        /// The file, absolute.
        path: PathBuf,
    },
}

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillPackage {
    /// What it is for, from its front matter: one line, capped; empty when it has none.
    pub description: String,
    /// `skill.md`, absolute.
    pub file: PathBuf,
    /// The whole text of `skill.md`, as it goes to the model.
    pub text: String,
}

/// A hook, as its own `murmur.yaml` describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct HookPackage {
    /// Its version.
    pub version: Version,
    /// When it is called; at least one event.
    pub events: Vec<HookEvent>,
    /// Whether the session waits for it.
    pub execution_mode: ExecutionMode,
    /// What is started.
    pub program: Program,
    /// Its directory, absolute.
    pub dir: PathBuf,
}

/// A mod, as its own `murmur.yaml` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModPackage {
    /// Its version.
    pub version: Version,
    /// The program that speaks MCP over stdio, and its arguments, as in [`Program::Native`].
    pub argv: Vec<OsString>,
    /// Its directory, absolute.
    pub dir: PathBuf,
}
