//! What one capsule's own manifest says, beside the operator's rules, which hold for every capsule.
//!
//! The bounds are made as a launch makes them, and asked as a call asks them: by the path as it is written and by what
//! its links lead to. They are those of the file tools; what holds a capsule's programs is shown by `mur run --explain-scope`.

use std::path::{Path, PathBuf};

use manifest::{BuiltinTool, Loaded};
use policy::{Action, ActionKind, Blocker, Effect, Operation, Policy, Review};
use record::Home;

use crate::equip;
use crate::failure::Failure;
use crate::launch;
use crate::place::given_workdir;

/// Links that are followed to nothing; a kernel follows as many.
const MAX_LINKS: usize = 40;

/// A capsule in a workdir.
pub(super) struct Agent {
    loaded: Loaded,
    policy: Policy,
    /// What relative patterns of rules are taken under.
    pub(super) workdir: PathBuf,
    /// What relative paths of its calls are taken under: the workdir, or its scope.
    pub(super) root: PathBuf,
}

/// What the manifest says.
pub(super) struct Own {
    pub(super) agent: String,
    /// The tools that it grants for this. Empty when it grants none.
    pub(super) tools: Vec<String>,
    /// Why its file tools refuse the path.
    pub(super) blockers: Vec<Blocker>,
}

impl Own {
    pub(super) fn is_allowed(&self) -> bool {
        !self.tools.is_empty() && self.blockers.is_empty()
    }
}

impl Agent {
    /// The capsule of this manifest in this workdir.
    pub(super) fn load(manifest: &Path, home: &Home, workdir: &Path) -> Result<Self, Failure> {
        let loaded = launch::load(manifest)?;
        let workdir = given_workdir(Some(workdir), &loaded, home)?.unwrap_or_else(|| workdir.to_owned());
        let scope = loaded.manifest.capabilities.filesystem.scope.as_ref();
        let root = scope.map_or_else(|| workdir.clone(), |scope| workdir.join(scope.as_str()));
        // As a launch does, it is held to what the scope's links lead to.
        let root = root.canonicalize().unwrap_or(root);
        let rules = equip::rules(&loaded, home, &workdir, &root, &mut Vec::new());
        Ok(Self { loaded, policy: Policy::new(rules), workdir, root })
    }

    /// Whether its tools may do this to a path.
    pub(super) async fn path(&self, operation: Operation, path: &Path) -> Own {
        let mut tools: Vec<String> = file_tools(operation).iter().filter_map(|tool| self.granted(*tool)).collect();
        let bounded = !tools.is_empty();
        if operation != Operation::Delegate {
            tools.extend(self.programs());
        }
        // What no file tool does, its bounds are not asked about.
        let blockers = if bounded { self.bounds(operation, path).await } else { Vec::new() };
        Own { agent: self.name(), tools, blockers }
    }

    /// Whether it may run commands.
    pub(super) fn command(&self) -> Own {
        Own { agent: self.name(), tools: self.programs(), blockers: Vec::new() }
    }

    async fn bounds(&self, operation: Operation, path: &Path) -> Vec<Blocker> {
        let refused = |denial: policy::Denial| denial.blockers().to_vec();
        let action = Action::new("test", "", ActionKind::FilesInspect).with(Effect::path(operation, path));
        match self.policy.review(action).await {
            Review::Denied(_, denial) => refused(denial),
            Review::Allowed(approved) => match approved.renew().await {
                Ok(permit) => permit.confirm_path(operation, &real(path)).err().map(refused).unwrap_or_default(),
                Err(denial) => refused(denial),
            },
        }
    }

    fn name(&self) -> String {
        self.loaded.manifest.name.to_string()
    }

    fn granted(&self, tool: BuiltinTool) -> Option<String> {
        self.loaded.manifest.grants(tool).then(|| tool.as_str().to_owned())
    }

    /// The tools that start programs of the agent's choice, or of their own.
    fn programs(&self) -> Vec<String> {
        let manifest = &self.loaded.manifest;
        let allowed = manifest.capabilities.shell.allow.iter().map(|name| name.as_str().to_owned());
        let native = manifest.tools().map(|(artifact, _)| artifact.name.as_str().to_owned());
        self.granted(BuiltinTool::ShellExec).into_iter().chain(allowed).chain(native).collect()
    }
}

/// A path with its links followed, as far as it exists; a link to nothing is followed to where it would create.
fn real(path: &Path) -> PathBuf {
    let mut path = policy::lexical(path);
    for _ in 0..MAX_LINKS {
        let known =
            path.ancestors().find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)));
        let Some((real, rest)) = known else { break };
        let mut rest = rest.components();
        let next = rest.next().map(|name| real.join(name));
        path = match next.as_ref().and_then(|next| std::fs::read_link(next).ok()) {
            Some(target) => policy::lexical(&real.join(target).join(rest)),
            None => return next.map_or(real, |next| policy::lexical(&next.join(rest))),
        };
    }
    path
}

/// The tools whose calls do this to a path that they name.
fn file_tools(operation: Operation) -> &'static [BuiltinTool] {
    use BuiltinTool::{
        FilesEdit, FilesFind, FilesInspect, FilesList, FilesPatch, FilesRead, FilesSearch, FilesWrite, GitDiff,
        GitStatus, SpawnSubagent,
    };
    match operation {
        Operation::Read => &[FilesRead, FilesList, FilesFind, FilesInspect, FilesSearch, GitStatus, GitDiff],
        Operation::Write => &[FilesWrite, FilesEdit, FilesPatch],
        Operation::Delete => &[FilesPatch],
        Operation::Delegate => &[SpawnSubagent],
        Operation::Execute => &[],
    }
}
