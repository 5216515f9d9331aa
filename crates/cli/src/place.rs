//! The directories of a session: where the agent works, and what is made for it and goes with it.
//!
//! The records lie outside every workdir and no workdir lies among them, also through links; a launch
//! that is refused leaves no directory behind.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use manifest::Loaded;
use record::Home;
use tempfile::TempDir;
use vocab::SessionId;

use crate::failure::Failure;

/// What a session has for itself on disk, and loses with its end.
#[derive(Debug, Default)]
pub(crate) struct Belongings {
    /// HOME and TMPDIR of the agent's processes.
    pub(crate) scratch: Option<TempDir>,
    /// Directories that this launch made for the agent, outermost first.
    fresh: Vec<PathBuf>,
}

impl Belongings {
    /// The session runs: what was made for the agent stays.
    pub(crate) fn settle(&mut self) {
        self.fresh.clear();
    }
}

/// What the name of a session's directory for temporary files begins with; the process id follows.
pub(crate) const SCRATCH: &str = "mur-";

/// Removes directories of sessions that were killed before they could do it themselves.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(SCRATCH)).and_then(|rest| rest.split('-').next());
        let Some(pid) = pid.filter(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit())) else {
            continue;
        };
        let ours =
            entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw());
        if ours && !Path::new("/proc").join(pid).exists() {
            // Somebody else may have been quicker.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Belongings {
    fn drop(&mut self) {
        if self.scratch.is_some() {
            sweep();
        }
        for dir in self.fresh.iter().rev() {
            // A directory that is not empty is somebody's, and stays.
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// Where the operator's git configuration stands, the file that counts first before the others.
pub(crate) fn git_configs() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = variable("GIT_CONFIG_GLOBAL") {
        return vec![named];
    }
    let home = variable("HOME");
    let config = variable("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let files = [home.map(|home| home.join(".gitconfig")), config.map(|config| config.join("git/config"))];
    files.into_iter().flatten().filter(|path| path.is_absolute()).collect()
}

fn unusable_workdir(message: String) -> Failure {
    Failure::unusable(message).code("E-RUN-002")
}

/// A subagent's directory that is another than was reviewed.
pub(crate) fn changed(path: &Path) -> Failure {
    unusable_workdir(format!("`{}` is not the directory any more that was reviewed", path.display()))
        .hint("something else was put in its place; start the subagent again")
}

/// The directory that the operator gave, as a real path; `None` when one is to be made.
pub(crate) fn given_workdir(given: Option<&Path>, loaded: &Loaded, home: &Home) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = given else { return Ok(None) };
    let real = path.canonicalize().map_err(|error| {
        unusable_workdir(format!("the workdir `{}` cannot be used: {error}", path.display()))
            .hint("make it first, or leave `--workdir` out")
    })?;
    if !real.is_dir() {
        return Err(unusable_workdir(format!("the workdir `{}` is not a directory", path.display()))
            .hint("name a directory, or leave `--workdir` out"));
    }
    apart(&real, home)?;
    if let Some(scope) = &loaded.manifest.capabilities.filesystem.scope {
        let place = real.join(scope.as_str());
        let within = place.canonicalize().is_ok_and(|place| place.starts_with(&real) && place.is_dir());
        if !within {
            let message =
                format!("`capabilities.filesystem.scope`: `{}` is no directory in the workdir", scope.as_str());
            return Err(unusable_workdir(message).hint(format!("make `{}` first", place.display())));
        }
    }
    Ok(Some(real))
}

/// Makes the session's own workdir beside the manifest, and the manifest's scope in it.
pub(crate) fn made_workdir(
    loaded: &Loaded,
    session: &SessionId,
    home: &Home,
    belongings: &mut Belongings,
) -> Result<PathBuf, Failure> {
    let all = loaded.dir.join("workdir");
    apart(&all, home)?;
    let workdir = all.join(session.as_str());
    let scope = loaded.manifest.capabilities.filesystem.scope.as_ref();
    let mut wanted = vec![all, workdir.clone()];
    if let Some(scope) = scope {
        let mut place = workdir.clone();
        for step in Path::new(scope.as_str()).components() {
            place.push(step);
            wanted.push(place.clone());
        }
    }
    for dir in wanted {
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => belongings.fresh.push(dir),
            Err(_) if dir.is_dir() => {}
            Err(error) => {
                let message = format!("cannot make the workdir `{}`: {error}", workdir.display());
                return Err(unusable_workdir(message).hint("give one with `--workdir`"));
            }
        }
    }
    let real = workdir
        .canonicalize()
        .map_err(|error| unusable_workdir(format!("the workdir `{}` cannot be used: {error}", workdir.display())))?;
    apart(&real, home)?;
    Ok(real)
}

/// The records lie outside every workdir, and no workdir lies among them.
pub(crate) fn apart(workdir: &Path, home: &Home) -> Result<(), Failure> {
    let home = real(home);
    let (inner, outer, hint) = if workdir.starts_with(&home) {
        ("the workdir", "the runtime's own home", "choose another `--workdir`")
    } else if home.starts_with(workdir) {
        (
            "the runtime's own home",
            "the workdir",
            "choose a smaller `--workdir`, or set `MURMUR_HOME` to a place outside",
        )
    } else {
        return Ok(());
    };
    let (workdir, home) = (workdir.display(), home.display());
    let message = format!("{inner} lies in {outer}: the workdir is `{workdir}`, the home `{home}`");
    Err(unusable_workdir(message).hint(format!("the agent must not reach its own records: {hint}")))
}

/// The home with its links resolved, as far as it exists.
pub(crate) fn real(home: &Home) -> PathBuf {
    let mut missing = Vec::new();
    let mut path = home.path();
    loop {
        if let Ok(real) = path.canonicalize() {
            return missing.iter().rev().fold(real, |real, name| real.join(name));
        }
        match (path.file_name(), path.parent()) {
            (Some(name), Some(parent)) => {
                missing.push(name);
                path = parent;
            }
            _ => return home.path().to_owned(),
        }
    }
}
