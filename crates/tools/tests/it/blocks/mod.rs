//! The operator's hard blocks in front of every tool, on real files and real processes.
//!
//! `matrix` goes through operations, ways of matching, spellings and tools; `patches` through the headers of a
//! diff; `commands` through the spellings of a command, each proved to run without the rule; `race` swaps what is
//! judged; `leaks` looks for what a refusal or a list could tell.

mod commands;
mod leaks;
mod matrix;
mod patches;
mod race;

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fence::Source;
use policy::{Base, Compiled, Denial, Document, InMemory, Outcome, Policy, Review, Rules, Tool, cancel_pair};
use sandbox::Limits;
use secrets::Redactor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tools::{
    BUILTIN_TOOLS, Containment, Directories, Environment, EnvironmentGrant, ProcessEnvironment, Processes,
    builtin_tools,
};
use vocab::Part;

const HARD_BLOCK: &str = "hard_policy_block:user_configured_hard_block";
/// Stands in every file that a rule covers; must never be seen.
const BLOCKED: &str = "blocked-bytes";
/// Stands in their neighbours.
const OPEN: &str = "open-bytes";

/// A session's directories under hard blocks; `work` is the root.
struct Ward {
    dir: TempDir,
    environment: Environment,
    processes: Arc<Processes>,
    tools: Vec<Arc<dyn Tool>>,
    runtime: tokio::runtime::Runtime,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
enum Got {
    /// It ran: its text.
    Ok(String),
    /// It ran and failed: its text.
    Failed(String),
    /// A review said no.
    Denied { codes: Vec<&'static str>, rules: Vec<String>, words: String },
    /// The input did not fit.
    BadInput(String),
}

impl Got {
    fn is_blocked(&self) -> bool {
        matches!(self, Self::Denied { codes, .. } if codes.contains(&HARD_BLOCK))
    }

    fn is_denied(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }

    fn text(&self) -> &str {
        match self {
            Self::Ok(text) | Self::Failed(text) | Self::BadInput(text) => text,
            Self::Denied { words, .. } => words,
        }
    }
}

impl Ward {
    fn new() -> Self {
        // In memory where the host allows it: the tools write through to the disk.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["work", "home", "tmp"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        let (work, home, tmp) = (base.join("work"), base.join("home"), base.join("tmp"));
        let directories = Directories { root: &work, home: &home, tmp: &tmp };
        let path = std::env::var_os("PATH").unwrap();
        let host = std::iter::once((OsString::from("PATH"), path));
        let redactor = Redactor::new();
        let environment = ProcessEnvironment::new(host, &EnvironmentGrant::default(), directories, &redactor);
        let processes = Arc::new(Processes {
            workdir: work.clone(),
            environment,
            limits: Limits::default(),
            containment: Containment::advisory(),
            gateways: Vec::new(),
            timeout: Duration::from_secs(50),
            grace: None,
            redactor,
        });
        let environment = Environment::open(&work).unwrap();
        let files = BUILTIN_TOOLS.iter().copied().filter(|name| name.starts_with("files_"));
        let mut tools = builtin_tools(files, &environment).unwrap();
        tools.push(tools::shell_exec(&environment, &processes, &["bash".to_owned()]));
        tools.push(tools::git_status(&environment, &processes));
        tools.push(tools::git_diff(&environment, &processes));
        for name in ["cat", "tee", "rm", "true", "sh"] {
            tools.push(tools::shell_binary(name, &environment, &processes));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { dir, environment, processes, tools, runtime }
    }

    fn root(&self) -> &Path {
        self.environment.root()
    }

    /// A path beside the root.
    fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.root().join(name)).unwrap();
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root().join(path)).ok()
    }

    /// Makes the root empty.
    fn clear(&self) {
        for entry in std::fs::read_dir(self.root()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                std::fs::remove_dir_all(entry.path()).unwrap();
            } else {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }

    /// All that is below the root: names, kinds and contents.
    fn tree(&self) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        let mut pending = vec![self.root().to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let kind = path.symlink_metadata().unwrap().file_type();
                let content = if kind.is_symlink() {
                    format!("-> {}", path.read_link().unwrap().display())
                } else if kind.is_file() {
                    std::fs::read_to_string(&path).unwrap()
                } else {
                    "directory".to_owned()
                };
                if kind.is_dir() {
                    pending.push(path.clone());
                }
                found.push((path, content));
            }
        }
        found.sort();
        found
    }

    /// A policy with these rules, given as the objects of the document's array.
    fn policy(&self, rules: &[Value]) -> Policy {
        let rules = json!({"version": 1, "hardBlocks": rules}).to_string();
        let base = Base::new(self.root(), self.beside("operator"));
        let document = Document::parse(&rules, &base).unwrap_or_else(|faults| panic!("{faults:?} in {rules}"));
        let compiled = Compiled::new(&document, &base).unwrap();
        let fixed = Rules::new(self.root().to_owned()).home(self.beside("operator"));
        Policy::with_boundaries(fixed, Arc::new(InMemory::new(compiled)))
    }

    fn tool(&self, name: &str) -> &Arc<dyn Tool> {
        self.tools.iter().find(|tool| tool.spec().name == name).unwrap()
    }

    fn call(&self, policy: &Policy, tool: &str, input: &Value) -> Got {
        self.call_tool(policy, self.tool(tool), input)
    }

    fn call_tool(&self, policy: &Policy, tool: &Arc<dyn Tool>, input: &Value) -> Got {
        let name = tool.spec().name.clone();
        let proposal = match tool.propose("call_1", input.as_object().unwrap()) {
            Ok(proposal) => proposal,
            Err(bad) => return Got::BadInput(bad.0.into_string()),
        };
        let outcome = self.runtime.block_on(async {
            let approved = match policy.review(proposal.action).await {
                Review::Allowed(approved) => approved,
                Review::Denied(_, denial) => return Outcome::Refused(denial),
            };
            let (_canceler, cancel) = cancel_pair();
            match approved.renew().await {
                Ok(permit) => proposal.execution.run(permit, cancel).await,
                Err(denial) => Outcome::Refused(denial),
            }
        });
        match outcome {
            Outcome::Ran(raw) => {
                let shown = raw
                    .protect(&policy::ProtectedValues::default())
                    .redact(&self.processes.redactor)
                    .fence(&Source::tool("t"));
                let parts = shown.parts.iter().map(|part| match part {
                    Part::Text(text) => text.as_str(),
                    other => panic!("no text: {other:?}"),
                });
                let whole: String = parts.collect();
                let text = fence::parse(&whole).block.map_or(whole.clone(), |block| block.content.to_owned());
                if shown.is_error { Got::Failed(text) } else { Got::Ok(text) }
            }
            Outcome::Refused(denial) => denied(&denial, &name),
            other => panic!("neither ran nor refused: {other:?}"),
        }
    }
}

fn denied(denial: &Denial, tool: &str) -> Got {
    Got::Denied {
        codes: denial.blockers().iter().map(|blocker| blocker.code).collect(),
        rules: denial.rule_ids().map(str::to_owned).collect(),
        words: denial.words(tool).into_string(),
    }
}

/// A rule about paths.
fn path_rule(matching: &str, pattern: &str, operations: &[&str]) -> Value {
    json!({"id": "r", "type": "path", "match": matching, "pattern": pattern, "operations": operations})
}

/// A rule about commands.
fn command_rule(matching: &str, pattern: &str) -> Value {
    json!({"id": "r", "type": "command", "match": matching, "pattern": pattern, "operations": ["execute"]})
}
