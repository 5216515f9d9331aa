//! The manifest as the rest of the program sees it: typed, resolved, without places in a file.
//!
//! `declaration` mirrors the file key by key; what stands here is what it means. The two are apart so
//! that no reader has to ask again whether a driver exists or which of two exclusive keys was given.

mod artifact;
mod capabilities;
pub(crate) mod declaration;
mod gateway;
mod inference;
mod net;
mod settings;
mod words;

pub use artifact::{Artifact, ArtifactBody, HookPackage, ModPackage, Program, SkillPackage, ToolPackage};
pub use capabilities::{
    ArtifactCapabilities, ArtifactFilesystem, Capabilities, Env, Filesystem, Network, Peer, PeerFetch, ReadGrant,
    Resources, Shell, ShellGateway, Spawn, UpstreamAuth,
};
pub(crate) use gateway::{ApiKey, GatewayDeclaration};
pub use gateway::{Credential, Gateway, Literal};
pub use inference::{Choice, Engine, Inference, ModelLimits};
pub(crate) use net::is_address;
pub use net::{Endpoint, Host, NetworkEntry, Scheme};
pub use settings::{
    Authentication, Compaction, Control, Exports, Lifecycle, Listener, Observability, PeerFiles, Retry, Share, Trace,
};
pub use words::{
    AfterTask, AgentSetting, ArtifactName, ArtifactRuntime, AuthenticationScheme, BuiltinDriver, BuiltinTool,
    CapsuleName, Capture, ChoiceName, CommandLine, Containment, ControlSetting, ConversationMode, EnvName, EnvPattern,
    ExecutionMode, HeaderName, HeaderTemplate, HookEvent, Implementation, ModelId, RESERVED_HEADERS, RelativePath,
    SecretName, ShellName, StateEffect, TaskAcceptance, TransportKind, Version,
};

pub use crate::decode::FilePath;

/// A validated `murmur.yaml`: what it declares, with defaults filled in and references resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The agent's identity.
    pub name: CapsuleName,
    /// Its version.
    pub version: Version,
    /// What it is for.
    pub description: Option<String>,
    /// Drivers, tools, skills, hooks and mods.
    pub artifacts: Vec<Artifact>,
    /// Which model answers, and how.
    pub inference: Inference,
    /// What the agent may do.
    pub capabilities: Capabilities,
    /// What may be changed while a session runs.
    pub control: Control,
    /// How a session takes tasks and when it ends.
    pub lifecycle: Lifecycle,
    /// Context documents that join the system prompt, in order.
    pub profile: Vec<ContextDocument>,
    /// Commands that count as a verification for the commit gate.
    pub verify: Vec<CommandLine>,
    /// Where measurements go.
    pub observability: Observability,
    /// The address of a running session.
    pub network: Listener,
    /// What other capsules may fetch.
    pub exports: Exports,
    /// What the trace keeps.
    pub trace: Trace,
}

impl Manifest {
    /// The artifact of that name.
    #[must_use]
    pub fn artifact(&self, name: &str) -> Option<&Artifact> {
        self.artifacts.iter().find(|artifact| artifact.name.as_str() == name)
    }

    /// The tool artifacts.
    pub fn tools(&self) -> impl Iterator<Item = (&Artifact, &ToolPackage)> {
        self.artifacts.iter().filter_map(|artifact| match &artifact.body {
            ArtifactBody::Tool(tool) => Some((artifact, tool)),
            _ => None,
        })
    }

    /// The skills.
    pub fn skills(&self) -> impl Iterator<Item = (&Artifact, &SkillPackage)> {
        self.artifacts.iter().filter_map(|artifact| match &artifact.body {
            ArtifactBody::Skill(skill) => Some((artifact, skill)),
            _ => None,
        })
    }

    /// The files and directories that the capsule is made of, beside the manifest itself: what the agent must
    /// not change, because a later call or launch would obey it.
    pub fn made_of(&self) -> impl Iterator<Item = &std::path::Path> {
        let artifacts = self.artifacts.iter().filter_map(|artifact| match &artifact.body {
            ArtifactBody::Driver(_) => None,
            ArtifactBody::Tool(package) => Some(package.dir.as_path()),
            ArtifactBody::Skill(skill) => Some(skill.file.as_path()),
            ArtifactBody::Hook(package) => Some(package.dir.as_path()),
            ArtifactBody::Mod(package) => Some(package.dir.as_path()),
        });
        let scripts = self.inference.choices().filter_map(|choice| choice.script.as_ref());
        let files =
            scripts.chain(&self.inference.system_prompt_file).chain(self.profile.iter().map(|document| &document.path));
        artifacts.chain(files.map(|file| file.absolute.as_path()))
    }

    /// Whether a built-in tool is granted.
    #[must_use]
    pub fn grants(&self, tool: BuiltinTool) -> bool {
        self.capabilities.tools.contains(&tool)
    }
}

/// A context document: identity, rules, orientation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextDocument {
    /// The path in the manifest and where it leads.
    pub path: FilePath,
    /// The whole text.
    pub text: String,
}
