//! `murmur.yaml`, read strictly: from text to a validated [`Manifest`], or to every reason why not.
//!
//! Nothing is coerced, nothing unknown is let pass, and nothing is launched on a guess. Each key is
//! declared once, in `model`; the decoder, the JSON Schema and the reference page come from there.
//! This crate reads files and decides nothing about hosts: no network, no environment but `HOME`.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("murmur.yaml");
//! std::fs::write(&path, manifest::scaffold("reviewer"))?;
//! let loaded = manifest::load(&path)?;
//! assert_eq!(loaded.manifest.name.as_str(), "reviewer");
//! assert!(manifest::unsupported(&loaded).is_empty());
//!
//! std::fs::write(&path, manifest::scaffold("reviewer").replace("max_turns", "max_turn"))?;
//! let rejected = manifest::load(&path).unwrap_err();
//! assert_eq!(rejected.diagnostics()[0].field, "inference.max_turn");
//! assert_eq!(rejected.diagnostics()[0].suggestion.as_deref(), Some("max_turns"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files: `source` and `yaml` turn bytes into a tree with places; `table` and `decode` the tree into the
//! types of `model`; `resolve` follows references and keeps the rules between fields; `load` is the way
//! in; `unsupported` names what is declared and not done yet; `schema` describes it all.

mod decode;
mod diagnostic;
mod limits;
mod load;
mod model;
mod private;
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
    Filesystem, Gateway, HeaderName, HeaderTemplate, HookEvent, HookPackage, Host, Implementation, Inference,
    Lifecycle, Listener, Literal, Manifest, ModPackage, ModelId, ModelLimits, Network, NetworkEntry, Observability,
    Peer, PeerFetch, PeerFiles, Program, RESERVED_HEADERS, ReadGrant, RelativePath, Resources, Retry, Scheme,
    SecretName, Share, Shell, ShellGateway, ShellName, SkillPackage, Spawn, StateEffect, TaskAcceptance, ToolPackage,
    Trace, TransportKind, UpstreamAuth, Version,
};
pub use publisher::{MAX_DESCRIPTION, fold_description, fold_to};
pub use scaffold::{scaffold, scaffold_name};
#[cfg(feature = "schema")]
pub use schema::{artifact_json_schema, json_schema, reference_markdown};
pub use unsupported::unsupported;
