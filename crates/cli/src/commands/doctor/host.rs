//! The host: the program, the kernel, and the programs that tools need.
//!
//! Everything comes from files that the kernel shows. What it does not show there is said to be unknown.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::Row;

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::ok("mur", format!("version {} for {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)),
        kernel(line("sys/kernel/osrelease")),
        Row::warn(
            "containment",
            "advisory (this version enforces no kernel boundary)",
            "run only capsules whose tools you would run yourself, or run `mur` in a container",
        ),
        landlock(fs::read_to_string("/sys/kernel/security/lsm").ok()),
        user_namespaces(
            line("sys/user/max_user_namespaces"),
            line("sys/kernel/unprivileged_userns_clone"),
            line("sys/kernel/apparmor_restrict_unprivileged_userns"),
        ),
        seccomp(fs::read_to_string("/proc/self/status").ok()),
        cgroup(Path::new("/sys/fs/cgroup/cgroup.controllers").exists(), Path::new("/proc/cgroups").exists()),
        shell(&find("bash"), &find("sh")),
        git(&find("git")),
    ]
}

/// A file below `/proc` that holds one line.
fn line(name: &str) -> Option<String> {
    fs::read_to_string(Path::new("/proc").join(name)).ok().map(|text| text.trim().to_owned())
}

fn kernel(release: Option<String>) -> Row {
    match release {
        Some(release) => Row::ok("kernel", format!("{} {release}", std::env::consts::OS)),
        None => Row::warn("kernel", "unknown: `/proc` cannot be read", "mount `/proc`"),
    }
}

fn landlock(lsm: Option<String>) -> Row {
    match lsm {
        Some(lsm) if lsm.trim().split(',').any(|module| module == "landlock") => Row::ok("landlock", "active"),
        Some(_) => Row::warn("landlock", "not active", "add `landlock` to the kernel's `lsm=` list"),
        None => Row::warn(
            "landlock",
            "unknown: `/sys/kernel/security/lsm` cannot be read",
            "mount securityfs at `/sys/kernel/security`, or ask outside this container",
        ),
    }
}

/// The kernel's limit and the two switches that distributions add to it.
fn user_namespaces(limit: Option<String>, debian: Option<String>, apparmor: Option<String>) -> Row {
    const NAME: &str = "user namespaces";
    let is_root = rustix::process::geteuid().is_root();
    match limit.as_deref() {
        None => Row::warn(NAME, "unknown: the kernel has none, or `/proc` cannot be read", "mount `/proc`"),
        Some("0") => Row::warn(NAME, "switched off", "set the sysctl `user.max_user_namespaces` above 0"),
        Some(_) if !is_root && debian.as_deref() == Some("0") => {
            Row::warn(NAME, "for root alone", "set the sysctl `kernel.unprivileged_userns_clone` to 1")
        }
        Some(_) if !is_root && apparmor.as_deref() == Some("1") => Row::warn(
            NAME,
            "restricted by AppArmor",
            "allow `mur` in an AppArmor profile, or set the sysctl `kernel.apparmor_restrict_unprivileged_userns` to 0",
        ),
        Some(limit) => Row::ok(NAME, format!("available, at most {limit}")),
    }
}

fn seccomp(status: Option<String>) -> Row {
    let mode = status
        .as_deref()
        .and_then(|status| status.lines().find_map(|line| line.strip_prefix("Seccomp:")))
        .map(str::trim);
    match mode {
        Some("0") => Row::ok("seccomp", "available"),
        Some(_) => Row::ok("seccomp", "available; this process is filtered already"),
        None => Row::warn("seccomp", "not available", "use a kernel with `CONFIG_SECCOMP_FILTER`"),
    }
}

fn cgroup(unified: bool, any: bool) -> Row {
    match (unified, any) {
        (true, _) => Row::ok("cgroup", "version 2"),
        (false, true) => {
            Row::warn("cgroup", "version 1, or not mounted", "boot with `systemd.unified_cgroup_hierarchy=1`")
        }
        (false, false) => Row::warn("cgroup", "none", "mount cgroup2 at `/sys/fs/cgroup`"),
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
    use super::super::Status;
    use super::{cgroup, landlock, seccomp, user_namespaces};

    #[test]
    fn what_the_kernel_shows_is_told_as_it_is() {
        let told = |row: super::Row| (row.status, row.finding);
        assert_eq!(told(landlock(Some("lockdown,yama,landlock\n".into()))), (Status::Ok, "active".into()));
        assert_eq!(told(landlock(Some("lockdown,notlandlock".into()))), (Status::Warn, "not active".into()));
        assert_eq!(landlock(None).status, Status::Warn);
        assert_eq!(told(seccomp(Some("Name:\tmur\nSeccomp:\t0\n".into()))), (Status::Ok, "available".into()));
        assert_eq!(seccomp(Some("Name:\tSeccomp:\t0\n".into())).status, Status::Warn);
        assert_eq!(user_namespaces(Some("0".into()), None, None).status, Status::Warn);
        let many = user_namespaces(Some("7".into()), Some("1".into()), Some("0".into()));
        assert_eq!(told(many), (Status::Ok, "available, at most 7".into()));
        assert_eq!([cgroup(true, true), cgroup(false, true)].map(|row| row.status), [Status::Ok, Status::Warn]);
    }
}
