//! The environment of a process: what is listed, and nothing else.
//!
//! The runtime's own environment may hold every credential of its operator, so it is never passed on.
//! A variable that is listed and holds a value which the session knows to be secret is left out too:
//! binding a credential to a process is a deliberate act of its own, not a side effect of a list.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobSet, GlobSetBuilder};
use manifest::Capabilities;
use secrets::{Redactor, Secret};

/// Where programs are looked for when the runtime's own `PATH` names no usable directory.
const USUAL_DIRS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// Set by the runtime, whatever the lists say.
const FIXED: [&str; 3] = ["PATH", "HOME", "TMPDIR"];

/// What the manifest says about environments.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentGrant {
    /// Names that the agent's processes inherit: `capabilities.shell.baseline_env`.
    pub baseline: Vec<String>,
    /// Globs over names that they never get: `capabilities.shell.strip_env`.
    pub strip: Vec<String>,
    /// Names that are granted one by one: `capabilities.env.allow`.
    pub allow: Vec<String>,
}

impl From<&Capabilities> for EnvironmentGrant {
    fn from(capabilities: &Capabilities) -> Self {
        fn owned(names: &[impl AsRef<str>]) -> Vec<String> {
            names.iter().map(|name| name.as_ref().to_owned()).collect()
        }
        Self {
            baseline: owned(&capabilities.shell.baseline_env),
            strip: owned(&capabilities.shell.strip_env),
            allow: owned(&capabilities.env.allow),
        }
    }
}

/// The environment that every process of a session starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnvironment {
    variables: BTreeMap<OsString, OsString>,
    withheld: Vec<String>,
    search: Vec<PathBuf>,
    tmp: PathBuf,
}

impl ProcessEnvironment {
    /// Builds it from the runtime's own environment `host`.
    ///
    #[must_use]
    pub fn new(
        host: impl IntoIterator<Item = (OsString, OsString)>,
        grant: &EnvironmentGrant,
        directories: Directories<'_>,
        redactor: &Redactor,
    ) -> Self {
        let host: BTreeMap<OsString, OsString> = host.into_iter().collect();
        let strip = globs(&grant.strip);
        let mut withheld = Vec::new();
        let mut variables = BTreeMap::from([("LANG".into(), OsString::from("C.UTF-8"))]);
        let inherited = ["LANG"].into_iter().chain(grant.baseline.iter().chain(&grant.allow).map(String::as_str));
        for name in inherited.filter(|name| !FIXED.contains(name)) {
            let Some(value) = host.get(std::ffi::OsStr::new(name)) else { continue };
            if redactor.is_clean(&value.to_string_lossy()) {
                variables.insert(name.into(), value.clone());
            } else {
                withheld.push(name.to_owned());
            }
        }
        variables.retain(|name, _| !strip.is_match(Path::new(name)));
        let path: Vec<PathBuf> = host
            .get(std::ffi::OsStr::new("PATH"))
            .map(|path| std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect())
            .filter(|dirs: &Vec<PathBuf>| !dirs.is_empty())
            .unwrap_or_else(|| USUAL_DIRS.iter().map(PathBuf::from).collect());
        variables.insert("PATH".into(), joined(&path));
        variables.insert("HOME".into(), directories.home.into());
        variables.insert("TMPDIR".into(), directories.tmp.into());
        let search = path.into_iter().filter(|dir| !inside(directories.root, dir)).collect();
        Self { variables, withheld, search, tmp: directories.tmp.to_owned() }
    }

    /// The variables, by name.
    pub fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> + '_ {
        self.variables.iter().map(|(name, value)| (name.clone(), value.clone()))
    }

    /// The variables of one process that gets these values as well.
    pub(crate) fn with_values(&self, bound: &[(String, Secret)]) -> Vec<(OsString, OsString)> {
        let mut variables = self.variables.clone();
        variables.extend(bound.iter().map(|(name, value)| (name.into(), value.expose().into())));
        variables.into_iter().collect()
    }

    /// Names that were listed but hold a value that the session knows to be secret.
    #[must_use]
    pub fn withheld(&self) -> &[String] {
        &self.withheld
    }

    /// The directories in which the programs of tools are looked for: those of `PATH` that the agent
    /// cannot write to.
    #[must_use]
    pub fn search(&self) -> &[PathBuf] {
        &self.search
    }

    /// The program of this name, under the name by which it is found: that may be a link.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        super::find(name, &self.search).ok()?;
        self.search.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
    }

    /// The directory for temporary files.
    pub(crate) fn tmp(&self) -> &Path {
        &self.tmp
    }

    /// The search directories as a `PATH`.
    pub(crate) fn search_path(&self) -> OsString {
        joined(&self.search)
    }
}

/// Directories of a session that its processes know. They must exist when a process starts.
#[derive(Debug, Clone, Copy)]
pub struct Directories<'a> {
    /// What the agent can write, as a real path.
    pub root: &'a Path,
    /// Becomes `HOME`.
    pub home: &'a Path,
    /// Becomes `TMPDIR`.
    pub tmp: &'a Path,
}

/// A pattern that is no glob matches its own text: it must not fail open.
fn globs(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern).or_else(|_| Glob::new(&globset::escape(pattern)));
        if let Ok(glob) = glob {
            set.add(glob);
        }
    }
    set.build().unwrap_or_default()
}

/// Joined by hand: a directory with a colon in its name cannot stand in a `PATH`, so it is left out.
fn joined(dirs: &[PathBuf]) -> OsString {
    let usable = dirs.iter().filter(|dir| !dir.as_os_str().as_bytes().contains(&b':'));
    std::env::join_paths(usable).unwrap_or_default()
}

fn inside(root: &Path, dir: &Path) -> bool {
    let real = dir.canonicalize().unwrap_or_else(|_| policy::lexical(dir));
    real.starts_with(root) || policy::lexical(dir).starts_with(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(host: &[(&str, &str)], grant: &EnvironmentGrant, redactor: &Redactor) -> ProcessEnvironment {
        let directories =
            Directories { root: Path::new("/srv/agent"), home: Path::new("/srv/home"), tmp: Path::new("/srv/tmp") };
        let host = host.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        ProcessEnvironment::new(host, grant, directories, redactor)
    }

    fn shown(environment: &ProcessEnvironment) -> Vec<String> {
        environment.variables().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
    }

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn nothing_is_inherited_that_is_not_listed() {
        let host =
            [("PATH", "/bin:/usr/bin"), ("HOME", "/root"), ("TOKEN", "t"), ("LD_PRELOAD", "/x.so"), ("TMPDIR", "/tmp")];
        let environment = built(&host, &EnvironmentGrant::default(), &Redactor::new());
        assert_eq!(shown(&environment), ["HOME=/srv/home", "LANG=C.UTF-8", "PATH=/bin:/usr/bin", "TMPDIR=/srv/tmp"]);
    }

    #[test]
    fn listed_names_pass_stripped_ones_do_not_and_the_fixed_ones_stand() {
        let host =
            [("LANG", "de_DE.UTF-8"), ("AWS_REGION", "r"), ("EDITOR", "vi"), ("REGION", "eu"), ("HOME", "/root")];
        let grant = EnvironmentGrant {
            baseline: list(&["AWS_REGION", "EDITOR", "HOME"]),
            strip: list(&["AWS_*", "PATH"]),
            allow: list(&["REGION", "UNSET"]),
        };
        let environment = built(&host, &grant, &Redactor::new());
        assert_eq!(
            shown(&environment),
            [
                "EDITOR=vi",
                "HOME=/srv/home",
                "LANG=de_DE.UTF-8",
                "PATH=/usr/local/bin:/usr/bin:/bin",
                "REGION=eu",
                "TMPDIR=/srv/tmp"
            ]
        );
    }

    #[test]
    fn a_known_secret_is_withheld_and_named_and_its_neighbour_passes() {
        let redactor = Redactor::new();
        redactor.learn(&Secret::new("hunter2-hunter2".to_owned()));
        let host = [("A", "x hunter2-hunter2 y"), ("B", "hunter3-hunter3"), ("PATH", "/bin")];
        let grant = EnvironmentGrant { allow: list(&["A", "B"]), ..EnvironmentGrant::default() };
        let environment = built(&host, &grant, &redactor);
        assert_eq!(
            shown(&environment),
            ["B=hunter3-hunter3", "HOME=/srv/home", "LANG=C.UTF-8", "PATH=/bin", "TMPDIR=/srv/tmp"]
        );
        assert_eq!(environment.withheld(), ["A"]);
    }

    #[test]
    fn programs_are_not_looked_for_where_the_agent_writes() {
        let host = [("PATH", "/srv/agent/bin:.::/srv/agents:/srv/x/../agent:/bin")];
        let environment = built(&host, &EnvironmentGrant::default(), &Redactor::new());
        assert_eq!(environment.search(), ["/srv/agents", "/bin"].map(PathBuf::from));
        assert!(shown(&environment).contains(&"PATH=/srv/agent/bin:/srv/agents:/srv/x/../agent:/bin".to_owned()));
    }
}
