//! The files key by key: `murmur.yaml` of a capsule, and of a tool, hook or mod.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::FilePath;
use super::capabilities::{ArtifactCapabilities, Capabilities, UpstreamAuth};
use super::gateway::GatewayDeclaration;
use super::inference::ModelLimits;
use super::settings::{Compaction, Control, Exports, Lifecycle, Listener, Observability, Retry, Trace};
use super::words::{
    ArtifactName, ArtifactRuntime, CapsuleName, ChoiceName, CommandLine, EnvName, ExecutionMode, HookEvent,
    Implementation, ModelId, StateEffect, TransportKind, Version,
};
use crate::table::mapping;

mapping! {
    /// An agent: its model, its tools, what it may do and how it runs.
    pub(crate) struct CapsuleFile {
        /// The agent's identity: lower-case letters, digits and hyphens, 1 to 100.
        pub(crate) name: CapsuleName;
        /// The capsule's version.
        pub(crate) version: Version;
        /// What the capsule is for.
        pub(crate) description: Option<String>;
        /// Drivers, tools, skills, hooks and mods.
        pub(crate) artifacts: Vec<ArtifactEntry>;
        /// Which model answers, and how.
        pub(crate) inference: InferenceDeclaration;
        /// What the agent may do. Everything is off until it stands here.
        pub(crate) capabilities: Capabilities;
        /// What may be changed while a session runs.
        pub(crate) control: Control;
        /// How a session takes tasks and when it ends.
        pub(crate) lifecycle: Lifecycle;
        /// Context documents (identity, rules, orientation) that join the system prompt, in order.
        pub(crate) profile: Vec<FilePath>;
        /// Commands that count as a verification for the commit gate.
        pub(crate) verify: Vec<CommandLine>;
        /// Where measurements go.
        pub(crate) observability: Observability;
        /// The address of a running session.
        pub(crate) network: Listener;
        /// What other capsules may fetch.
        pub(crate) exports: Exports;
        /// What the trace keeps.
        pub(crate) trace: Trace;
    }
}

mapping! {
    /// An artifact that the capsule uses, and what it may do.
    pub(crate) struct ArtifactEntry {
        /// Its name; a tool is called by it, a built-in driver is chosen by it.
        pub(crate) name: ArtifactName;
        /// Its directory, or a skill's file, relative to this manifest. Built-in drivers have none.
        pub(crate) source: Option<FilePath>;
        /// What it is.
        pub(crate) runtime: ArtifactRuntime = ArtifactRuntime::Tool;
        /// Its service and credential.
        pub(crate) gateway: Option<GatewayDeclaration>;
        /// Limits of models by their id, for drivers; the well-known ones need none.
        pub(crate) models: BTreeMap<String, ModelLimits>;
        /// What it may do, at most what the capsule may.
        pub(crate) capabilities: ArtifactCapabilities;
    }
}

mapping! {
    /// Which model answers, and how.
    pub(crate) struct InferenceDeclaration {
        /// How the model is reached.
        pub(crate) transport: TransportKind = TransportKind::Http;
        /// The model, as its provider spells it.
        pub(crate) model: Option<ModelId>;
        /// Output cap of each call, in tokens.
        pub(crate) max_tokens: u32 = 4096, in 1 ..= 4294967295;
        /// Turns that one task may take.
        pub(crate) max_turns: u32 = 50, in 1 ..= 4294967295;
        /// Tokens that a session may spend in all. Absent: no ceiling.
        pub(crate) max_session_tokens: Option<u64>, in 1 ..= 18446744073709551615;
        /// The driver, with `transport: http`.
        pub(crate) driver: Option<DriverDeclaration>;
        /// Other choices of driver and model that a running session can be switched to.
        pub(crate) alternates: Vec<AlternateDeclaration>;
        /// How failed calls are repeated.
        pub(crate) retry: Retry;
        /// Summarising of older turns when the context fills up. Absent: none.
        pub(crate) compaction: Option<Compaction>;
        /// The operator's system prompt.
        pub(crate) system_prompt: Option<String>;
        /// A file that holds the operator's system prompt, relative to this manifest.
        pub(crate) system_prompt_file: Option<FilePath>;
        /// The coding CLI, with `transport: process`.
        pub(crate) command: Option<CommandLine>;
        /// Credentials that the coding CLI gets, by name, with `transport: process`.
        pub(crate) env: Vec<EnvName>;
    }
}

mapping! {
    /// A driver artifact and its options.
    pub(crate) struct DriverDeclaration {
        /// The name of an artifact with `runtime: driver`.
        pub(crate) artifact: ArtifactName;
        /// For the scripted driver `script`, its transcript; for the others further keys of each request, such as `temperature`.
        pub(crate) config: Map<String, Json>;
    }
}

mapping! {
    /// Another choice of driver and model.
    pub(crate) struct AlternateDeclaration {
        /// Its name; never `primary`.
        pub(crate) name: ChoiceName;
        /// The model, as its provider spells it.
        pub(crate) model: ModelId;
        /// The driver.
        pub(crate) driver: AlternateDriver;
    }
}

mapping! {
    /// The driver of an alternate; it has no options of its own.
    pub(crate) struct AlternateDriver {
        /// The name of an artifact with `runtime: driver`.
        pub(crate) artifact: ArtifactName;
    }
}

mapping! {
    /// A tool, hook or mod, as its publisher describes it. Nothing here grants anything.
    pub(crate) struct PackageFile {
        /// Its name; the capsule's entry has the same.
        pub(crate) name: ArtifactName;
        /// Its version.
        pub(crate) version: Version;
        /// What it is: `tool`, `hook` or `mod`.
        pub(crate) runtime: ArtifactRuntime = ArtifactRuntime::Tool;
        /// What it is made of.
        pub(crate) implementation: Implementation = Implementation::Native;
        /// What it does, for the model.
        pub(crate) description: Option<String>;
        /// JSON Schema of a tool's input. Absent: any object.
        pub(crate) input_schema: Option<Map<String, Json>>;
        /// Program and arguments, with `implementation: native`; `./` begins a path in the artifact's directory.
        pub(crate) command: Vec<String>;
        /// The component, with `implementation: wasm`.
        pub(crate) component: Option<FilePath>;
        /// The header with which a tool's credential is sent.
        pub(crate) upstream_auth: Option<UpstreamAuth>;
        /// Whether a tool changes anything.
        pub(crate) state_effect: StateEffect = StateEffect::Mutate;
        /// When a hook is called.
        pub(crate) events: Vec<HookEvent>;
        /// Whether the session waits for a hook. Absent: it does.
        pub(crate) execution_mode: Option<ExecutionMode>;
    }
}
