//! Artifacts: names, sources, and which keys go with which kind.

use super::{Check, package, skill};
use crate::decode::at;
use crate::diagnostic::{Code, Diagnostic, shown};
use crate::model::declaration::{ArtifactEntry, CapsuleFile};
use crate::model::{Artifact, ArtifactBody, ArtifactRuntime, BuiltinDriver, BuiltinTool, FilePath};

/// Names that the runtime gives to tools of its own besides [`BuiltinTool`].
const RUNTIME_TOOLS: &[&str] = &[
    "switch-driver",
    "share-file",
    "fetch-peer-file",
    "list_skills",
    "load_skill",
    "finish_subagent",
    "mcp_providers",
    "mcp_capabilities",
    "mcp_call",
];

/// Whether the runtime has a tool of that name, granted or not.
pub(super) fn is_reserved(name: &str) -> bool {
    BuiltinTool::ALL.iter().any(|tool| tool.as_str() == name) || RUNTIME_TOOLS.contains(&name)
}

pub(super) fn resolve(check: &mut Check<'_>, declared: &CapsuleFile) -> Option<Vec<Artifact>> {
    let mut artifacts = Some(Vec::with_capacity(declared.artifacts.len()));
    for (index, entry) in declared.artifacts.iter().enumerate() {
        name(check, declared, index, entry);
        keys(check, index, entry);
        let body = match entry.runtime {
            ArtifactRuntime::Driver => driver(check, index, entry).map(ArtifactBody::Driver),
            ArtifactRuntime::Skill => skill::read(check, index, entry).map(ArtifactBody::Skill),
            ArtifactRuntime::Tool | ArtifactRuntime::Hook | ArtifactRuntime::Mod => package::read(check, index, entry),
        };
        match (body, &mut artifacts) {
            (Some(body), Some(artifacts)) => artifacts.push(Artifact {
                name: entry.name.clone(),
                gateway: entry.gateway.as_ref().and_then(|gateway| gateway.resolve()),
                capabilities: entry.capabilities.clone(),
                body,
            }),
            (None, _) => artifacts = None,
            (Some(_), None) => {}
        }
    }
    artifacts
}

/// Names are unique, and no tool hides another.
fn name(check: &mut Check<'_>, declared: &CapsuleFile, index: usize, entry: &ArtifactEntry) {
    let path = at!["artifacts", index, "name"];
    let name = entry.name.as_str();
    if let Some(before) = declared.artifacts.iter().take(index).position(|other| other.name == entry.name) {
        check.refuse(
            path,
            format!("the name `{name}` is taken by `artifacts[{before}]`"),
            "give each artifact a name of its own",
        );
    }
    if is_reserved(name) {
        check.refuse(
            path,
            format!("`{name}` is the name of a built-in tool"),
            "choose another name; a built-in tool is granted in `capabilities.tools`",
        );
    }
    let is_shell_tool = declared.capabilities.shell.allow.iter().any(|tool| tool.as_str() == name);
    if is_shell_tool && entry.runtime != ArtifactRuntime::Driver {
        check.refuse(
            path,
            format!("the name `{name}` is taken by a program in `capabilities.shell.allow`"),
            "two tools may not share a name",
        );
    }
}

/// Keys that mean nothing for the kind of artifact are errors: they would be silently ignored.
fn keys(check: &mut Check<'_>, index: usize, entry: &ArtifactEntry) {
    let kind = entry.runtime;
    let limited = check.document.get(at!["artifacts", index, "capabilities"]).is_some();
    let mut stray = |key: &'static str, present: bool, hint: &str| {
        if present {
            let message = format!("`{key}` has no meaning for an artifact with `runtime: {kind}`");
            check.refuse(at!["artifacts", index, key], message, hint);
        }
    };
    let is_driver = kind == ArtifactRuntime::Driver;
    stray("models", !is_driver && !entry.models.is_empty(), "limits of models belong to a driver");
    stray("source", is_driver && entry.source.is_some(), "drivers are built in; remove the key");
    let powerless = matches!(kind, ArtifactRuntime::Driver | ArtifactRuntime::Skill);
    stray("capabilities", powerless && limited, "remove the key");
    let keyed = matches!(kind, ArtifactRuntime::Driver | ArtifactRuntime::Tool);
    stray("gateway", !keyed && entry.gateway.is_some(), "remove the key");
    if let Some(gateway) = &entry.gateway {
        check.gateway(at!["artifacts", index, "gateway"], gateway);
    }
    let hook_grants = entry.capabilities.task_io.read || entry.capabilities.conversation.read;
    if hook_grants && kind != ArtifactRuntime::Hook {
        check.refuse(
            at!["artifacts", index, "capabilities"],
            format!("`task_io` and `conversation` have no meaning for an artifact with `runtime: {kind}`"),
            "they are grants for hooks",
        );
    }
}

fn driver(check: &mut Check<'_>, index: usize, entry: &ArtifactEntry) -> Option<BuiltinDriver> {
    let driver = builtin(entry);
    if driver.is_none() {
        let name = entry.name.as_str();
        let path = at!["artifacts", index, "name"];
        let message = format!("there is no driver `{name}`");
        let diagnostic: Diagnostic = check.document.diagnostic(Code::Field, path, message);
        let words = BuiltinDriver::ALL.iter().map(|driver| driver.as_str());
        check.found.push(
            diagnostic
                .accepted(words)
                .suggest(name)
                .with_hint("a driver artifact is named after the driver that it is"),
        );
    }
    driver
}

/// The built-in driver that an entry names.
pub(super) fn builtin(entry: &ArtifactEntry) -> Option<BuiltinDriver> {
    let named = |driver: &&BuiltinDriver| driver.as_str() == entry.name.as_str();
    BuiltinDriver::ALL.iter().find(named).copied().filter(|_| entry.runtime == ArtifactRuntime::Driver)
}

/// The source of an artifact that must have one.
pub(super) fn source<'e>(check: &mut Check<'_>, index: usize, entry: &'e ArtifactEntry) -> Option<&'e FilePath> {
    if entry.source.is_none() {
        check.refuse(
            at!["artifacts", index],
            format!("`artifacts[{index}].source` is missing"),
            "an artifact that is not a driver names the directory that it lies in",
        );
    }
    entry.source.as_ref()
}

/// Notes that a source does not lead to what it should.
pub(super) fn bad_source(check: &mut Check<'_>, index: usize, source: &FilePath, message: &str) {
    check.refuse(
        at!["artifacts", index, "source"],
        format!("`{}`: {message}", shown(&source.declared)),
        "the path is relative to the directory of this manifest",
    );
}
