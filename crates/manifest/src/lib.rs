//! `murmur.yaml`, read strictly: from text to a validated [`Manifest`], or to every reason why not.
//!
//! Nothing is coerced, nothing unknown is let pass, and nothing is launched on a guess. Each key is
//! declared once, in `model`; the decoder, the JSON Schema and the reference page come from there.
//! This crate reads files and decides nothing about hosts: no network, no environment but `HOME`.

mod decode;
mod diagnostic;
mod limits;
mod load;
mod model;
mod publisher;
mod resolve;
mod scaffold;
#[cfg(feature = "schema")]
mod schema;
mod source;
mod table;
mod unsupported;
mod yaml;

pub use diagnostic::{Code, CodeInfo, Diagnostic, Rejected, codes};
pub use load::{FILE_NAME, Loaded, Place, load, parse};
pub use model::{
    AfterTask, AgentSetting, Artifact, ArtifactBody, ArtifactCapabilities, ArtifactFilesystem, ArtifactName,
    ArtifactRuntime, Authentication, AuthenticationScheme, BuiltinDriver, BuiltinTool, Capabilities, CapsuleName,
    Capture, Choice, ChoiceName, CommandLine, Compaction, Containment, ContextDocument, Control, ControlSetting,
    ConversationMode, Credential, Endpoint, Engine, Env, EnvName, EnvPattern, ExecutionMode, Exports, FilePath,
    Filesystem, Gateway, HeaderName, HeaderTemplate, HookEvent, HookPackage, Host, Inference, Lifecycle, Listener,
    Literal, Manifest, ModPackage, ModelId, ModelLimits, Network, NetworkEntry, Observability, Peer, PeerFetch,
    PeerFiles, Program, ReadGrant, RelativePath, Resources, Retry, Scheme, SecretName, Share, Shell, ShellGateway,
    ShellName, SkillPackage, Spawn, StateEffect, TaskAcceptance, ToolPackage, Trace, TransportKind, UpstreamAuth,
    Version,
};
pub use publisher::{MAX_DESCRIPTION, fold_description};
pub use scaffold::scaffold;
#[cfg(feature = "schema")]
pub use schema::{artifact_json_schema, json_schema, reference_markdown};
pub use unsupported::unsupported;
