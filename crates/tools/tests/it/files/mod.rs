//! The file tools on real files, each call the whole way: propose, review, run, redact, fence.

mod gate;
mod links;
mod patch;
mod pieces;
mod read;
mod trees;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fence::Source;
use policy::{Facts, Gates, Outcome, Policy, ProtectedValues, Review, Rules, TaskIdentity, Tool, cancel_pair};
use secrets::{Redactor, Secret};
use serde_json::Value;
use tempfile::TempDir;
use tools::{BUILTIN_TOOLS, Environment, builtin_tools};
use vocab::Part;

/// Stands in every file outside; must never be seen.
pub(crate) const SECRET: &str = "outside-secret";

/// A root with the file tools, and a directory beside it that they must not reach.
pub(crate) struct Desk {
    dir: TempDir,
    tools: Vec<Arc<dyn Tool>>,
    policy: Policy,
    redactor: Redactor,
    runtime: tokio::runtime::Runtime,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ended {
    /// It ran and succeeded: the text, and whether it says that there is more.
    Ok(String, bool),
    /// It ran and failed.
    Failed(String),
    /// A review said no: the first blocker's code.
    Denied(&'static str),
    /// The input did not fit.
    BadInput(String),
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::with(|rules| rules)
    }

    /// A root with further rules.
    pub(crate) fn with(rules: impl FnOnce(Rules) -> Rules) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["root", "outside"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        std::fs::write(base.join("outside/secret.txt"), SECRET).unwrap();
        let environment = Environment::open(base.join("root")).unwrap();
        let tools =
            builtin_tools(BUILTIN_TOOLS.iter().copied().filter(|name| name.starts_with("files_")), &environment);
        let redactor = Redactor::new();
        let values = ProtectedValues::new(TaskIdentity::default(), redactor.clone());
        let policy = Policy::new(rules(Rules::new(environment.root().to_owned())));
        let policy = policy.for_task(Gates::default()).with_values(values);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { dir, tools: tools.unwrap(), policy, redactor, runtime }
    }

    /// Makes this a value that the session knows to be secret.
    pub(crate) fn learn(&self, value: &str) {
        self.redactor.learn(&Secret::new(value.to_owned()));
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("root")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("outside")
    }

    /// Writes a file below the root, with its directories.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, name: &str) {
        let path = self.root().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.root().join(path)).unwrap()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path)).unwrap()
    }

    /// All paths below the root, sorted; directories end in `/`.
    pub(crate) fn tree(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut pending = vec![self.root()];
        while let Some(directory) = pending.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let name = entry.path().strip_prefix(self.root()).unwrap().to_string_lossy().into_owned();
                if entry.file_type().unwrap().is_dir() {
                    pending.push(entry.path());
                    paths.push(format!("{name}/"));
                } else {
                    paths.push(name);
                }
            }
        }
        paths.sort();
        paths
    }

    pub(crate) fn call(&self, tool: &str, input: Value) -> Ended {
        let tool = self.tools.iter().find(|one| one.spec().name == tool).unwrap();
        let Value::Object(input) = input else { panic!("an input is an object") };
        let proposal = match tool.propose("call_1", &input) {
            Ok(proposal) => proposal,
            Err(bad) => return Ended::BadInput(bad.0.into_string()),
        };
        let denied = |denial: &policy::Denial| Ended::Denied(denial.blockers().first().unwrap().code);
        let approved = match self.runtime.block_on(self.policy.review(proposal.action)) {
            Review::Allowed(approved) => approved,
            Review::Denied(_, denial) => return denied(&denial),
        };
        let permit = match self.runtime.block_on(approved.renew()) {
            Ok(permit) => permit,
            Err(denial) => return denied(&denial),
        };
        let (_canceler, cancel) = cancel_pair();
        match self.runtime.block_on(proposal.execution.run(permit, cancel)) {
            Outcome::Ran(raw) => {
                let shown = raw.protect(self.policy.values()).redact(&self.redactor).fence(&Source::tool("files"));
                let Some(Part::Text(whole)) = shown.parts.first() else { panic!("no text: {shown:?}") };
                let text = fence::parse(whole.as_str()).block.unwrap().content.to_owned();
                let Facts { truncated, .. } = shown.facts;
                if shown.is_error { Ended::Failed(text) } else { Ended::Ok(text, truncated) }
            }
            Outcome::Refused(denial) => Ended::Denied(denial.blockers().first().unwrap().code),
            other => panic!("neither ran nor refused: {other:?}"),
        }
    }

    /// The text of a call that succeeds.
    pub(crate) fn ok(&self, tool: &str, input: Value) -> String {
        match self.call(tool, input) {
            Ended::Ok(text, _) => text,
            other => panic!("{tool}: {other:?}"),
        }
    }

    /// The text of a call that runs and fails.
    pub(crate) fn failed(&self, tool: &str, input: Value) -> String {
        match self.call(tool, input) {
            Ended::Failed(text) => text,
            other => panic!("{tool}: {other:?}"),
        }
    }
}
