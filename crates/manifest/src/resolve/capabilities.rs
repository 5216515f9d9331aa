//! Rules between the capabilities: no tool twice, gateways of the shell complete.

use super::Check;
use super::artifacts::is_reserved;
use crate::decode::at;
use crate::model::Capabilities;

pub(super) fn check(check: &mut Check<'_>, capabilities: &Capabilities) {
    check.unique(at!["capabilities", "tools"], &capabilities.tools);
    let shell = &capabilities.shell;
    check.unique(at!["capabilities", "shell", "allow"], &shell.allow);
    for (index, name) in shell.allow.iter().enumerate() {
        if is_reserved(name.as_str()) {
            check.refuse(
                at!["capabilities", "shell", "allow", index],
                format!("`{name}` is the name of a built-in tool"),
                "a built-in tool is granted in `capabilities.tools`",
            );
        }
    }
    for (index, gateway) in shell.gateways.iter().enumerate() {
        let path = at!["capabilities", "shell", "gateways", index];
        if shell.gateways.iter().take(index).any(|before| before.name == gateway.name) {
            check.refuse(path, format!("a gateway named `{}` stands before", gateway.name), "give it another name");
        }
        check.gateway(path, &gateway.gateway());
        match (&gateway.upstream_auth, gateway.keyless) {
            (None, false) => check.refuse(
                path,
                "the gateway does not say how its credential is sent",
                "add `upstream_auth: {header, value}`, for example `Authorization` and `Bearer {key}`",
            ),
            (Some(_), true) => {
                check.refuse(path, "`upstream_auth` has no meaning with `keyless: true`", "remove one of the two")
            }
            _ => {}
        }
    }
    if capabilities.spawn.is_none() && capabilities.tools.contains(&crate::BuiltinTool::SpawnSubagent) {
        check.refuse(
            at!["capabilities", "tools"],
            "`spawn_subagent` needs `capabilities.spawn`",
            "add `spawn: {max_depth: 2, max_children: 8}`",
        );
    }
}
