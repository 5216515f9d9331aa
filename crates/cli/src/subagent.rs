//! A subagent's launch: what it takes over from its parent's, and how its process is started.
//!
//! It takes over the manifest as its parent read it, not as it lies on disk by now; the directory is one that was reviewed,
//! and is the same still when it is opened. What narrows the parent narrows it: nothing here widens anything.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use manifest::{Credential, Gateway, Loaded, Manifest};
use policy::{Cleared, Rules};
use record::Home;
use runtime::{ChildFault, ChildProcess, ChildSpec, Children};
use sandbox::Class;
use secrets::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tools::Subagent;
use vocab::BoxFuture;

use crate::args;
use crate::boundary::Held;
use crate::failure::Failure;
use crate::place::{apart, changed};

/// What a subagent's launch takes over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Inherited {
    manifest_path: PathBuf,
    manifest: String,
    /// What neither its parent nor any above may change.
    pub(crate) read_only: Vec<PathBuf>,
    /// How its parent's processes are held; nothing where it starts none.
    containment: Option<String>,
    /// Where the session at the top answers: not for processes.
    pub(crate) own: Vec<SocketAddr>,
}

impl Inherited {
    pub(crate) fn of(loaded: &Loaded, rules: &Rules, held: Option<&Held>, own: &[SocketAddr]) -> Self {
        Self {
            manifest_path: loaded.path.clone(),
            manifest: loaded.text().to_owned(),
            read_only: rules.read_only_paths().to_vec(),
            containment: held.map(|held| held.class.name().to_owned()),
            own: own.to_vec(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(crate) fn read(value: &Value) -> Result<Self, Failure> {
        serde_json::from_value(value.clone()).map_err(|error| refused(format!("what the subagent inherits: {error}")))
    }

    /// The manifest, with the directory itself as its scope: what its parent's `scope` and `read_only` name is relative to
    /// another one, and holds by the paths that it takes over.
    pub(crate) fn manifest(&self) -> Result<Loaded, Failure> {
        let mut loaded = manifest::parse(self.manifest.as_bytes(), &self.manifest_path)
            .map_err(|rejected| Failure::findings(rejected.diagnostics(), rejected.render()))?;
        let files = &mut loaded.manifest.capabilities.filesystem;
        files.scope = None;
        files.read_only.clear();
        let lifecycle = &mut loaded.manifest.lifecycle;
        lifecycle.task_acceptance = manifest::TaskAcceptance::None;
        lifecycle.after_task = manifest::AfterTask::Exit;
        // Nobody is there whom a tool could ask.
        lifecycle.input_timeout_secs = 0;
        // Its one task ends with a report, after which there is nobody whom the end of a command could be told.
        lifecycle.shell_grace_secs = 0;
        Ok(loaded)
    }

    /// The weakest class that is good enough: its parent's own.
    pub(crate) fn class(&self) -> Option<args::Class> {
        let all = [
            (Class::Advisory, args::Class::Advisory),
            (Class::Scoped, args::Class::Scoped),
            (Class::Sealed, args::Class::Sealed),
        ];
        let name = self.containment.as_deref()?;
        // A word that is none is taken for the strongest.
        Some(all.into_iter().find(|(class, _)| class.name() == name).map_or(args::Class::Sealed, |(_, class)| class))
    }
}

/// The directory that was reviewed, if it is that one still.
pub(crate) fn workdir(spec: &ChildSpec, home: &Home) -> Result<PathBuf, Failure> {
    let found = spec.root.canonicalize().and_then(|real| real.metadata().map(|metadata| (real, metadata)));
    let (real, metadata) =
        found.map_err(|error| refused(format!("`{}` cannot be used: {error}", spec.root.display())))?;
    if real != spec.root || (metadata.dev(), metadata.ino()) != spec.root_node || !metadata.is_dir() {
        return Err(changed(&spec.root));
    }
    apart(&real, home)?;
    Ok(real)
}

fn refused(message: String) -> Failure {
    Failure::unusable(message).code("E-RUN-002")
}

/// What the model is told that it is.
pub(crate) fn prompt(spec: &ChildSpec) -> String {
    let root = spec.root.display();
    format!(
        "You are a subagent of the agent `{}`: it gave you one task, and you work on it alone, with tools of your own, in \
         the directory `{root}`. Nobody answers questions; decide yourself, and stay within the task. When it is done, or \
         cannot be done, call `finish_subagent`, alone in its turn, with a summary that says what you did, what you found \
         and what is left: it is all that reaches the agent that gave you the task.",
        spec.agent
    )
}

/// Starts subagents: this program once more.
pub(crate) struct Starter {
    redactor: Redactor,
    /// Variables that hold the keys of models: only the session at the top spends those.
    keys: Vec<String>,
}

impl Starter {
    pub(crate) fn new(manifest: &Manifest, redactor: &Redactor) -> Self {
        let name = |gateway: &Gateway| match &gateway.credential {
            Credential::Reference(name) => Some(name.as_str().to_owned()),
            _ => None,
        };
        let shell = manifest.capabilities.shell.gateways();
        let of_tools = manifest.tools().filter_map(|(artifact, _)| artifact.gateway.as_ref());
        let others: Vec<String> =
            of_tools.chain(shell.iter().map(|declared| &declared.gateway)).filter_map(name).collect();
        let models = manifest.inference.choices().filter_map(|choice| choice.gateway.as_ref());
        let keys = models.filter_map(name).filter(|name| !others.contains(name)).collect();
        Self { redactor: redactor.clone(), keys }
    }
}

impl Children for Starter {
    fn start(&self, cleared: Cleared) -> BoxFuture<'_, Result<ChildProcess, ChildFault>> {
        Box::pin(async move {
            let started = tools::start_subagent(cleared, &["subagent"], &self.keys, &self.redactor).await;
            let Subagent { stdin, stdout, last_words, keeper } = started.map_err(ChildFault::new)?;
            Ok(ChildProcess { stdin, stdout, last_words, keeper })
        })
    }
}
