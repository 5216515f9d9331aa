//! Rules of `control:`: what may be changed while a session runs must be there to be changed.

use super::Check;
use crate::decode::at;
use crate::model::declaration::CapsuleFile;
use crate::model::{ApiKey, ArtifactRuntime, BuiltinTool, ControlSetting, SecretName, TransportKind};

pub(super) fn check(check: &mut Check<'_>, declared: &CapsuleFile) {
    let control = &declared.control;
    check.unique(at!["control", "settings"], &control.settings);
    check.unique(at!["control", "secrets"], &control.secrets);
    check.unique(at!["control", "agent_settings"], &control.agent_settings);
    let process = declared.inference.transport == TransportKind::Process;
    let no_alternates = declared.inference.alternates.is_empty();
    for (index, setting) in control.settings.iter().enumerate() {
        let path = at!["control", "settings", index];
        if process {
            check.refuse(path, format!("`{setting}` needs `inference.transport: http`"), "");
        } else if *setting == ControlSetting::Driver && no_alternates {
            needs_alternates(check, path);
        }
    }
    for index in 0..control.agent_settings.len() {
        let path = at!["control", "agent_settings", index];
        if process {
            check.refuse(path, "`inference.driver` needs `inference.transport: http`", "");
        } else if no_alternates {
            needs_alternates(check, path);
        }
    }
    let delegates = declared.capabilities.tools.contains(&BuiltinTool::SpawnSubagent);
    let selectable =
        control.settings.contains(&ControlSetting::Driver) || !control.agent_settings.is_empty() || delegates;
    if !no_alternates && !selectable && !process {
        check.refuse(
            at!["inference", "alternates"],
            "nothing could ever select these alternates",
            "list `inference.driver` in `control.settings` or `control.agent_settings`, or `spawn_subagent` in `capabilities.tools`",
        );
    }
    for (index, secret) in control.secrets.iter().enumerate() {
        secret_is_used(check, declared, index, secret);
    }
}

fn needs_alternates(check: &mut Check<'_>, path: &[crate::decode::Step]) {
    check.refuse(
        path,
        "`inference.driver` needs at least one entry in `inference.alternates`",
        "declare the choices that it can be switched to",
    );
}

fn secret_is_used(check: &mut Check<'_>, declared: &CapsuleFile, index: usize, secret: &SecretName) {
    let path = at!["control", "secrets", index];
    let keyed_by = |key: &Option<ApiKey>| matches!(key, Some(ApiKey::Reference(name)) if name == secret);
    let primary = declared.inference.driver.as_ref().map(|driver| &driver.artifact);
    let mut used = declared.capabilities.shell.gateways.iter().any(|gateway| keyed_by(&gateway.api_key));
    for entry in &declared.artifacts {
        let Some(gateway) = &entry.gateway else { continue };
        if !keyed_by(&gateway.api_key) {
            continue;
        }
        used = true;
        if Some(&entry.name) == primary && entry.runtime == ArtifactRuntime::Driver {
            check.refuse(
                path,
                format!("`{secret}` keys the gateway of the primary driver `{}`", entry.name),
                "the primary's credential must be there at launch; an alternate's may be injected",
            );
        }
    }
    if !used {
        check.refuse(
            path,
            format!("no gateway refers to `{secret}`"),
            "use it as `api_key: ${NAME}` of an artifact or a shell gateway, or remove it",
        );
    }
}
