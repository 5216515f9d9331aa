//! The host: the program, the kernel, and the programs that tools need.
//!
//! What of the kernel can hold processes is found by trying it, as a launch does.

use std::path::PathBuf;

use rustix::fs::{Access, access};
use sandbox::{Cgroup, Class, Host, Layer};

use super::Row;

pub(super) fn rows() -> Vec<Row> {
    // Not what an earlier launch remembers: somebody asks who has changed something.
    let host = Host::probe(None);
    let mut rows = vec![
        Row::ok("mur", format!("version {} for {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)),
        kernel(&host),
        account(rustix::process::geteuid().is_root()),
        containment(&host),
    ];
    rows.extend(Layer::ALL.map(|layer| found(&host, layer)));
    rows.extend([cgroup(host.cgroup), shell(&find("bash"), &find("sh")), git(&find("git"))]);
    rows
}

fn kernel(host: &Host) -> Row {
    if host.kernel.is_empty() {
        return Row::warn("kernel", "unknown: `/proc` cannot be read", "mount `/proc`");
    }
    Row::ok("kernel", format!("{} {}", std::env::consts::OS, host.kernel))
}

/// Whose rights the runtime has, and processes that nothing holds.
fn account(is_root: bool) -> Row {
    if is_root {
        let hint = "use an account of its own: what the kernel does not hold processes to, root can do";
        return Row::warn("account", "root", hint);
    }
    Row::ok("account", "an ordinary user")
}

/// What processes of an agent are held by here.
fn containment(host: &Host) -> Row {
    let class = host.strongest;
    match class {
        Class::Sealed => Row::ok("containment", class.name()),
        Class::Scoped => Row::warn(
            "containment",
            "scoped: no file tree, processes or network of their own, or not all of these",
            "see the rows below; capsules that declare `network` run as `advisory` where the row `network` fails",
        ),
        Class::Advisory => Row::warn(
            "containment",
            "advisory: processes of an agent can do what your account can",
            "see the rows below, or run only capsules whose tools you would run yourself",
        ),
    }
}

/// One layer, as the probe found it.
fn found(host: &Host, layer: Layer) -> Row {
    let name = layer.name();
    let missing = |layer| host.missing.iter().find(|missing| missing.layer == layer);
    if let Some(missing) = missing(layer) {
        return Row::warn(name, format!("missing: {}", missing.reason), layer.remedy());
    }
    // What was not reached, because something that comes before it was refused.
    let before: &[Layer] = match layer {
        Layer::Landlock | Layer::Namespaces => &[],
        Layer::Seccomp => &[Layer::Landlock],
        Layer::Network => &[Layer::Namespaces],
        Layer::Processes => &[Layer::Namespaces, Layer::Network],
    };
    if before.iter().any(|layer| missing(*layer).is_some()) {
        return Row::warn(name, "not tried: something that it builds on is missing", "see the other rows");
    }
    match (layer, host.landlock_abi) {
        (Layer::Landlock, Some(version)) => Row::ok(name, format!("version {version} of its rights")),
        _ => Row::ok(name, "available"),
    }
}

fn cgroup(found: Cgroup) -> Row {
    match found {
        Cgroup::None => Row::warn(
            "cgroup",
            "none that this account may use: limits hold for each process, not for the tree",
            "delegate a cgroup, for example with `systemd-run --user --scope -p Delegate=yes mur run …`",
        ),
        usable => Row::ok("cgroup", format!("{usable}: limits hold for whole process trees")),
    }
}

fn shell(bash: &Option<PathBuf>, sh: &Option<PathBuf>) -> Row {
    match (bash, sh) {
        (Some(bash), Some(sh)) => Row::ok("shell", format!("`{}` and `{}`", bash.display(), sh.display())),
        (Some(shell), None) => Row::warn("shell", format!("`{}`, no `sh`", shell.display()), "install `sh`"),
        (None, Some(shell)) => {
            Row::warn("shell", format!("`{}`, no `bash`", shell.display()), "install `bash` for capsules that allow it")
        }
        (None, None) => Row::warn("shell", "none in `PATH`", "install `bash` and `sh` for capsules that use a shell"),
    }
}

fn git(git: &Option<PathBuf>) -> Row {
    match git {
        Some(git) => Row::ok("git", format!("`{}`", git.display())),
        None => Row::warn("git", "not in `PATH`", "install `git` for capsules that use it"),
    }
}

/// The first program of this name in `PATH`; relative directories in it mean nothing here.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use sandbox::{Cgroup, Class, Host, Layer, Missing};

    use super::super::Status;
    use super::{cgroup, containment, found};

    #[test]
    fn what_the_probe_found_is_told_layer_by_layer() {
        let host = |strongest, layers: &[Layer]| Host {
            kernel: "6.1".into(),
            landlock_abi: Some(3),
            strongest,
            missing: layers.iter().map(|layer| Missing { layer: *layer, reason: "no".into() }).collect(),
            cgroup: Cgroup::None,
        };
        let told = |host: &Host| Layer::ALL.map(|layer| found(host, layer).finding);
        let all = "version 3 of its rights";
        let sealed = host(Class::Sealed, &[]);
        assert_eq!(told(&sealed), [all, "available", "available", "available", "available"]);
        assert_eq!(containment(&sealed).status, Status::Ok);
        let scoped = host(Class::Scoped, &[Layer::Network]);
        let untried = "not tried: something that it builds on is missing";
        assert_eq!(told(&scoped), [all, "available", "available", untried, "missing: no"]);
        assert_eq!((containment(&scoped).status, cgroup(Cgroup::None).status), (Status::Warn, Status::Warn));
    }
}
