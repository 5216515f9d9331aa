//! Tools, hooks and mods: their own `murmur.yaml`, read as strictly as the capsule's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Check;
use super::artifacts::{bad_source, source};
use crate::decode::{Step, at};
use crate::diagnostic::{Rejected, shown};
use crate::load::{Document, FILE_NAME, decode};
use crate::model::declaration::{ArtifactEntry, PackageFile};
use crate::model::{
    ArtifactBody, ArtifactRuntime, ExecutionMode, HookPackage, Implementation, ModPackage, Program, ToolPackage,
};
use crate::publisher::fold_description;
use crate::source::Source;
use crate::yaml;

/// What the artifact at `index` says of itself.
pub(super) fn read(check: &mut Check<'_>, index: usize, entry: &ArtifactEntry) -> Option<ArtifactBody> {
    let declared = source(check, index, entry)?;
    let dir = &declared.absolute;
    if !dir.is_dir() {
        let message = if dir.exists() { "is a file, not a directory" } else { "no such directory" };
        bad_source(check, index, declared, message);
        return None;
    }
    if !dir.join(FILE_NAME).exists() {
        bad_source(check, index, declared, "holds no `murmur.yaml`");
        return None;
    }
    let shown_as = check.shown_path(declared).join(FILE_NAME);
    let (document, file) = match open(&dir.join(FILE_NAME), &shown_as, dir) {
        Ok(opened) => opened,
        Err(rejected) => {
            check.found.extend(rejected.into_diagnostics());
            return None;
        }
    };
    let mut own = Check { document: &document, found: Vec::new(), warnings: Vec::new() };
    agree(&mut own, entry, &file);
    let body = body(&mut own, &file, dir);
    let accepted = own.found.is_empty();
    check.found.append(&mut own.found);
    if let (ArtifactRuntime::Tool, Some(gateway)) = (file.runtime, &entry.gateway)
        && gateway.api_key.is_some()
        && file.upstream_auth.is_none()
    {
        check.refuse(
            at!["artifacts", index, "gateway"],
            format!("the tool `{}` does not say how its credential is sent", entry.name),
            "its own `murmur.yaml` needs `upstream_auth: {header, value}`, or the gateway `keyless: true`",
        );
    }
    body.filter(|_| accepted)
}

type Opened = (Document, PackageFile);

fn open(path: &Path, shown_as: &Path, dir: &Path) -> Result<Opened, Rejected> {
    let source = Source::read(path, shown_as)?;
    let root = yaml::parse(&source)?;
    // A publisher's paths know no home of the operator.
    let file = decode(&source, &root, dir, None)?;
    Ok((Document { source, root, dir: dir.to_path_buf() }, file))
}

/// The entry and the artifact's own file name the same thing.
fn agree(own: &mut Check<'_>, entry: &ArtifactEntry, file: &PackageFile) {
    if file.name != entry.name {
        own.refuse(
            at!["name"],
            format!("the artifact is named `{}`, the capsule's entry `{}`", file.name, entry.name),
            "the two names must be the same",
        );
    }
    if file.runtime != entry.runtime {
        own.refuse(
            at!["runtime"],
            format!("the artifact is a `{}`, the capsule's entry a `{}`", file.runtime, entry.runtime),
            "the two kinds must be the same",
        );
    }
}

fn body(own: &mut Check<'_>, file: &PackageFile, dir: &Path) -> Option<ArtifactBody> {
    stray_keys(own, file);
    let program = program(own, file, dir);
    let dir = dir.to_path_buf();
    let version = file.version.clone();
    match file.runtime {
        ArtifactRuntime::Tool => {
            let description = fold_description(file.description.as_deref().unwrap_or_default());
            if description.is_empty() {
                own.refuse(
                    at![],
                    "`description` is missing",
                    "say in a sentence what the tool does; the model reads it",
                );
            }
            let input_schema = match &file.input_schema {
                Some(schema) => {
                    input_schema(own, schema);
                    schema.clone()
                }
                None => serde_json::Map::from_iter([("type".to_owned(), "object".into())]),
            };
            Some(ArtifactBody::Tool(ToolPackage {
                version,
                description,
                input_schema,
                program: program?,
                upstream_auth: file.upstream_auth.clone(),
                state_effect: file.state_effect,
                dir,
            }))
        }
        ArtifactRuntime::Hook => {
            if file.events.is_empty() {
                own.refuse(at![], "`events` is missing", "list the events that the hook is bound to");
            }
            own.unique(at!["events"], &file.events);
            Some(ArtifactBody::Hook(HookPackage {
                version,
                events: file.events.clone(),
                execution_mode: file.execution_mode.unwrap_or(ExecutionMode::Blocking),
                program: program?,
                dir,
            }))
        }
        ArtifactRuntime::Mod => match program? {
            Program::Native { argv } => Some(ArtifactBody::Mod(ModPackage { version, argv, dir })),
            Program::Component { .. } => {
                own.refuse(at!["implementation"], "a mod is a native program", "it speaks MCP over stdio");
                None
            }
        },
        ArtifactRuntime::Driver | ArtifactRuntime::Skill => {
            own.refuse(
                at!["runtime"],
                format!("a `murmur.yaml` of its own is for tools, hooks and mods, not for a `{}`", file.runtime),
                "",
            );
            None
        }
    }
}

fn stray_keys(own: &mut Check<'_>, file: &PackageFile) {
    let (tool, hook) = (file.runtime == ArtifactRuntime::Tool, file.runtime == ArtifactRuntime::Hook);
    let wasm = file.implementation == Implementation::Wasm;
    for (key, stray) in [
        ("input_schema", !tool && file.input_schema.is_some()),
        ("upstream_auth", !tool && file.upstream_auth.is_some()),
        ("events", !hook && !file.events.is_empty()),
        ("execution_mode", !hook && file.execution_mode.is_some()),
    ] {
        if stray {
            let message = format!("`{key}` has no meaning for an artifact with `runtime: {}`", file.runtime);
            own.refuse(at![key], message, "remove the key");
        }
    }
    for (key, stray) in
        [("command", wasm && !file.command.is_empty()), ("component", !wasm && file.component.is_some())]
    {
        if stray {
            let message = format!("`{key}` has no meaning with `implementation: {}`", file.implementation);
            own.refuse(at![key], message, "remove the key");
        }
    }
}

/// A tool's input is a JSON object, so its schema must describe one.
fn input_schema(own: &mut Check<'_>, schema: &serde_json::Map<String, serde_json::Value>) {
    if schema.get("type").and_then(serde_json::Value::as_str) != Some("object") {
        own.refuse(at!["input_schema"], "`input_schema` must describe an object", "begin it with `type: object`");
    }
}

fn program(own: &mut Check<'_>, file: &PackageFile, dir: &Path) -> Option<Program> {
    match file.implementation {
        Implementation::Wasm => {
            let Some(component) = &file.component else {
                own.refuse(at![], "`component` is missing", "`implementation: wasm` needs the component's file");
                return None;
            };
            let path = inside(own, at!["component"], &component.declared, dir)?;
            is_file(own, at!["component"], &component.declared, &path).then_some(Program::Component { path })
        }
        Implementation::Native => {
            let Some((first, rest)) = file.command.split_first() else {
                own.refuse(
                    at![],
                    "`command` is missing",
                    "`implementation: native` needs a program, such as `[./run.sh]`",
                );
                return None;
            };
            let mut argv: Vec<OsString> = Vec::with_capacity(file.command.len());
            let path = at!["command", 0];
            if first.starts_with('/') {
                own.refuse(path, "the program must lie in the artifact's directory, or be looked up by name", "");
                return None;
            }
            if first.is_empty() {
                own.refuse(path, "the program must not be empty", "");
                return None;
            }
            if first.contains('/') {
                let program = inside(own, path, first, dir)?;
                if !is_file(own, path, first, &program) || !is_executable(own, path, first, &program) {
                    return None;
                }
                argv.push(program.into_os_string());
            } else {
                argv.push(first.into());
            }
            for (index, argument) in rest.iter().enumerate() {
                argv.push(if argument.starts_with("./") {
                    inside(own, at!["command", index + 1], argument, dir)?.into_os_string()
                } else {
                    argument.into()
                });
            }
            Some(Program::Native { argv })
        }
    }
}

/// A path in the artifact's directory; a publisher's file names nothing outside it.
fn inside(own: &mut Check<'_>, path: &[Step], declared: &str, dir: &Path) -> Option<PathBuf> {
    if declared.starts_with(['/', '~']) || declared.split('/').any(|part| part == "..") {
        own.refuse(path, format!("`{}` leads out of the artifact's directory", shown(declared)), "");
        return None;
    }
    Some(dir.join(declared.strip_prefix("./").unwrap_or(declared)))
}

fn is_file(own: &mut Check<'_>, path: &[Step], declared: &str, file: &Path) -> bool {
    let holds = file.is_file();
    if !holds {
        own.refuse(
            path,
            format!("`{}`: no such file", shown(declared)),
            "the path is relative to the artifact's directory",
        );
    }
    holds
}

fn is_executable(own: &mut Check<'_>, path: &[Step], declared: &str, file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let holds = file.metadata().is_ok_and(|of| of.permissions().mode() & 0o111 != 0);
    if !holds {
        own.refuse(path, format!("`{}` is not executable", shown(declared)), "make it so with `chmod +x`");
    }
    holds
}
