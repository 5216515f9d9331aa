//! From a manifest and a command line to a session's setup.
//!
//! The order is the point: read and check everything, resolve the credential, and only then make
//! directories and records. A declared thing is honoured or the launch is refused. `mur check` takes the
//! same steps as far as they make nothing.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manifest::{BuiltinDriver, BuiltinTool, Capture, Loaded, Manifest, TaskAcceptance};
use policy::{Boundaries, Joined, Policy, Rules, Tool};
use record::{Home, TraceKey};
use runtime::{
    Acceptance, AfterTask, Compaction, ContextDocument, ControlDeclared, Delegation, Guidance, Lifecycle, Limits,
    Observer, ParentLink, Registry, Setup, SkillEntry, system_prompt,
};
use secrets::Redactor;
use store::StoreConfig;

use tools::{Hub, HubSettings, ModSpec, Processes};
use vocab::{ContextId, SessionId, SystemClock};

use crate::address::Address;
use crate::args::RunArgs;
use crate::boundary::Boundary;
use crate::choices::{self, Choices};
use crate::connect::{self, LateConnectors, Sealed};
use crate::credentials::{self, Credentials};
use crate::equip::{self, Equipment, equip, missing_grant, scratch, try_tools};
use crate::export::Export;
use crate::failure::Failure;
use crate::place::{Belongings, given_workdir, made_workdir, real};
use crate::resume::Earlier;
use crate::scope::Scope;
use crate::settings::{self, LateBoundaries};
use crate::subagent::{self, Inherited};

/// A session that is ready to start.
pub(crate) struct Launch {
    loaded: Loaded,
    session: SessionId,
    home: Home,
    workdir: PathBuf,
    /// Where the session, or the one at the top of those above it, answers.
    own: Vec<SocketAddr>,
    export: Option<Export>,
    earlier: Option<Earlier>,
    context: Option<ContextId>,
    choices: Choices,
    redactor: Redactor,
    tools: Vec<Arc<dyn Tool>>,
    processes: Option<Arc<Processes>>,
    mods: Vec<ModSpec>,
    rules: Rules,
    store: StoreConfig,
    system: String,
    guidance: Guidance,
    belongings: Belongings,
    warnings: Vec<String>,
    boundary: Boundary,
    /// The session that it is a subagent of.
    parent: Option<ParentLink>,
}

/// What a session has around it.
pub(crate) struct Surroundings {
    pub(crate) export: Option<Export>,
    pub(crate) belongings: Belongings,
    /// The servers of connections and mods; nothing for a capsule that may call none.
    pub(crate) hub: Option<Arc<Hub>>,
}

impl Launch {
    /// Reads, checks and resolves everything; makes the workdir last.
    pub(crate) fn prepare(args: &RunArgs) -> Result<(Self, Address), Failure> {
        let loaded = load(&args.path)?;
        let home = Home::from_env().map_err(|error| record_failure(&error))?;
        let boundary = Boundary::find(&loaded.manifest, args.containment, Some(home.path()));
        boundary.require()?;
        let redactor = Redactor::new();
        let choices = Choices::prepare(&loaded.manifest, &home, &redactor)?;
        let store = settings::config(&home)?;
        store.password().iter().for_each(|password| redactor.learn(password));
        let gateways = choices.credentials.gateways(&loaded.manifest)?;
        if args.task.is_none() && loaded.manifest.lifecycle.task_acceptance == TaskAcceptance::None {
            return Err(no_task());
        }
        let earlier = args.resume.as_deref().map(|name| Earlier::find(&home, name)).transpose()?;
        let workdir = match (&args.workdir, &earlier) {
            (None, Some(earlier)) => earlier.workdir()?,
            (given, _) => given.as_deref(),
        };
        let given = given_workdir(workdir, &loaded, &home)?;
        let address = Address::bind(&loaded.manifest, args)?;
        home.ensure().map_err(|error| record_failure(&error))?;
        // A key that cannot be used is told now, not when the task is done.
        TraceKey::load(&home).map_err(|error| record_failure(&error))?;
        let session = SessionId::new();
        let mut belongings = Belongings::default();
        let workdir = match given {
            Some(workdir) => workdir,
            None => made_workdir(&loaded, &session, &home, &mut belongings)?,
        };
        belongings.scratch = scratch(&loaded.manifest)?;
        let own = vec![address.socket()];
        let shared = equip::Session {
            home: &real(&home),
            redactor: &redactor,
            gateways: &gateways,
            boundary: &boundary,
            own: &own,
            pinned: None,
        };
        let equipment = equip(&loaded, &home, &workdir, belongings.scratch.as_ref(), &shared)?;
        let mut warnings: Vec<String> = loaded.warnings.iter().map(manifest::Diagnostic::render).collect();
        warnings.extend(choices.warnings.iter().cloned());
        warnings.extend(equipment.warnings);
        warnings.extend(address.warning());
        warnings.extend(boundary.warning(&loaded.manifest));
        warnings.extend(earlier.as_ref().and_then(|earlier| earlier.warning(loaded.manifest.name.as_str())));
        let guidance = guidance(&loaded.manifest);
        let operator = args.system_prompt.as_deref().or(loaded.manifest.inference.system_prompt.as_deref());
        let system = system_prompt(operator, &guidance.documents, &guidance.skills);
        let Equipment { tools, processes, rules, .. } = equipment;
        let mods = connect::mods(&loaded)?;
        let export = Export::start(&loaded.manifest, &session, &redactor)?;
        let latest = earlier.as_ref().and_then(|earlier| earlier.contexts.last().cloned());
        let context = args.context.clone().or(latest);
        let launch = Self {
            loaded,
            session,
            home,
            workdir,
            own,
            export,
            earlier,
            context,
            choices,
            redactor,
            tools,
            processes,
            mods,
            rules,
            store,
            system,
            guidance,
            belongings,
            warnings,
            boundary,
            parent: None,
        };
        Ok((launch, address))
    }

    /// The same for a subagent: what its parent had declared at its own launch, in the directory and within the bounds
    /// that it was given. It asks its parent for answers and for what holds, and has no address and no controller.
    pub(crate) fn of_subagent(parent: ParentLink, redactor: Redactor) -> Result<Self, Failure> {
        let spec = parent.spec();
        let inherited = Inherited::read(&spec.inherited)?;
        let loaded = inherited.manifest()?;
        let home = Home::from_env().map_err(|error| record_failure(&error))?;
        let boundary = Boundary::find(&loaded.manifest, inherited.class(), Some(home.path()));
        boundary.require()?;
        let store = settings::config(&home)?;
        store.password().iter().for_each(|password| redactor.learn(password));
        let declared = loaded.manifest.control.secrets.iter().map(|name| name.as_str().to_owned()).collect();
        let credentials = Credentials::open(&home, declared, &redactor);
        parent.fill(&credentials.vault);
        let gateways = credentials.gateways(&loaded.manifest)?;
        let workdir = subagent::workdir(spec, &home)?;
        let mut belongings = Belongings::default();
        belongings.scratch = scratch(&loaded.manifest)?;
        let shared = equip::Session {
            home: &real(&home),
            redactor: &redactor,
            gateways: &gateways,
            boundary: &boundary,
            own: &inherited.own,
            pinned: Some(spec.root_node),
        };
        let Equipment { tools, processes, rules, .. } =
            equip(&loaded, &home, &workdir, belongings.scratch.as_ref(), &shared)?;
        let rules = inherited.read_only.iter().fold(rules, |rules, path| rules.read_only(path));
        let guidance = guidance(&loaded.manifest);
        let system = system_prompt(Some(&subagent::prompt(spec)), &guidance.documents, &guidance.skills);
        let choices = Choices {
            all: vec![parent.choice()],
            declared: ControlDeclared::default(),
            credentials,
            warnings: Vec::new(),
        };
        let mods = connect::mods(&loaded)?;
        let session = spec.session.clone();
        let export = Export::start(&loaded.manifest, &session, &redactor)?;
        Ok(Self {
            session,
            own: inherited.own,
            earlier: None,
            context: None,
            warnings: Vec::new(),
            parent: Some(parent),
            loaded,
            home,
            workdir,
            export,
            choices,
            redactor,
            tools,
            processes,
            mods,
            rules,
            store,
            system,
            guidance,
            belongings,
            boundary,
        })
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    pub(crate) fn capsule(&self) -> (&str, &str) {
        (self.loaded.manifest.name.as_str(), self.loaded.manifest.version.as_str())
    }

    /// The conversation that the first task goes on with.
    pub(crate) fn context(&self) -> Option<&ContextId> {
        self.context.as_ref()
    }

    /// The session whose conversations it takes over, and how many there are.
    pub(crate) fn resumes(&self) -> Option<(&SessionId, usize)> {
        self.earlier.as_ref().map(|earlier| (&earlier.session, earlier.contexts.len()))
    }

    /// How long a tool's question waits for its answer.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.loaded.manifest.lifecycle.input_timeout_secs)
    }

    /// Whether the session waits for more when a task has ended.
    pub(crate) fn sleeps(&self) -> bool {
        self.loaded.manifest.lifecycle.after_task == manifest::AfterTask::Sleep
    }

    pub(crate) fn workdir(&self) -> &Path {
        &self.workdir
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.home.session_dir(&self.session)
    }

    pub(crate) fn model(&self) -> String {
        let primary = self.choices.all.first().map(|choice| &choice.driver);
        primary.map_or_else(String::new, |driver| format!("{} ({})", driver.model(), driver.name()))
    }

    pub(crate) fn is_scripted(&self) -> bool {
        self.loaded.manifest.inference.primary().is_some_and(|choice| choice.driver == BuiltinDriver::Scripted)
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What the capsule may reach here, for the record.
    pub(crate) async fn scope(&self) -> serde_json::Value {
        let places = (self.workdir.as_path(), self.home.path());
        let scope = Scope::new(&self.loaded, &self.boundary, places, &self.store).await;
        let bound = self.parent.as_ref().map(|_| self.rules.read_only_paths());
        bound.into_iter().fold(scope, Scope::with_read_only).to_json()
    }

    /// The servers that the agent may have called, as this policy lets them start.
    fn hub(&self, policy: &Policy) -> Option<Arc<Hub>> {
        if !self.loaded.manifest.grants(BuiltinTool::Mcp) {
            return None;
        }
        Some(Hub::new(HubSettings {
            agent: self.capsule().0.to_owned(),
            policy: policy.clone(),
            processes: Arc::clone(self.processes.as_ref()?),
            stored: Arc::new(LateConnectors::new(self.store.clone(), &self.session)),
            unseal: Arc::new(Sealed::new(connect::seal(&self.home))),
            mods: self.mods.clone(),
            limits: mcp::Limits::default(),
            extra_roots: connect::extra_roots(),
        }))
    }

    /// The setup, and what lives around the session as long as it does.
    pub(crate) fn into_setup(mut self, observer: Box<dyn Observer>, scope: serde_json::Value) -> (Setup, Surroundings) {
        let inference = &self.loaded.manifest.inference;
        let limits = Limits {
            max_turns: inference.max_turns,
            max_tokens: inference.max_tokens,
            max_session_tokens: inference.max_session_tokens,
        };
        let compaction = inference.compaction.as_ref().map(|declared| Compaction {
            threshold: declared.threshold.get(),
            system_prompt: declared.system_prompt.clone(),
        });
        let (resumed_from, mut contexts) = self
            .earlier
            .as_ref()
            .map_or((None, Vec::new()), |earlier| (Some(earlier.session.clone()), earlier.contexts.clone()));
        contexts.extend(self.context.clone());
        let (name, version) = self.capsule();
        let (name, version) = (name.to_owned(), version.to_owned());
        let boundaries = self.boundaries();
        let mut policy = Policy::with_boundaries(self.rules.clone(), Arc::clone(&boundaries));
        let hub = self.hub(&policy);
        if let Some(hub) = &hub {
            policy = policy.with_connectors(&name, Arc::<Hub>::clone(hub)).with_resolver(Arc::<Hub>::clone(hub));
        }
        self.tools.extend(hub.iter().flat_map(tools::mcp_tools));
        let delegation = self.delegation(boundaries);
        let setup = Setup {
            capsule: (name, version),
            scripted: self.is_scripted(),
            capture: match self.loaded.manifest.trace.capture {
                Capture::None => record::Capture::None,
                Capture::Meta => record::Capture::Meta,
                Capture::Content => record::Capture::Content,
            },
            session: self.session,
            mur_version: env!("CARGO_PKG_VERSION"),
            workdir: self.workdir,
            home: self.home,
            choices: self.choices.all,
            control: self.choices.declared,
            vault: self.choices.credentials.vault,
            credentials: self.choices.credentials.trace,
            system: self.system,
            registry: Registry::new(self.tools, missing_grant),
            policy,
            verify: self.loaded.manifest.verify.iter().map(|command| command.as_str().to_owned()).collect(),
            guidance: self.guidance,
            redactor: self.redactor,
            limits,
            compaction,
            clock: Arc::new(SystemClock),
            observer,
            telemetry: self.export.as_ref().map(Export::telemetry),
            description: self.loaded.manifest.description.clone(),
            lifecycle: lifecycle(&self.loaded.manifest),
            effective_grants: Some(scope),
            resumed_from,
            contexts,
            delegation,
            parent: self.parent,
        };
        (setup, Surroundings { export: self.export, belongings: self.belongings, hub })
    }

    /// The hard blocks: the store's, and those of the sessions above.
    fn boundaries(&self) -> Arc<dyn Boundaries> {
        let own: Arc<dyn Boundaries> = Arc::new(LateBoundaries::new(self.store.clone(), &self.workdir));
        match &self.parent {
            None => own,
            Some(parent) => Arc::new(Joined::new(vec![own, parent.boundaries()])),
        }
    }

    /// What the session needs to have subagents, if it may have some.
    fn delegation(&self, boundaries: Arc<dyn Boundaries>) -> Option<Delegation> {
        let manifest = &self.loaded.manifest;
        let spawn = manifest.capabilities.spawn.as_ref().filter(|_| manifest.grants(BuiltinTool::SpawnSubagent))?;
        let inherited = Inherited::of(&self.loaded, &self.rules, self.boundary.held.as_ref(), &self.own);
        Some(Delegation {
            children: Arc::new(subagent::Starter::new(manifest, &self.redactor)),
            boundaries,
            max_depth: spawn.max_depth,
            max_children: spawn.max_children,
            timeout: Duration::from_secs(spawn.timeout_secs),
            inherited: inherited.to_json(),
        })
    }
}

/// Says what a launch with these arguments would give, and makes nothing.
pub(crate) async fn explain(args: &RunArgs) -> Result<Scope, Failure> {
    let loaded = load(&args.path)?;
    let home = Home::from_env().map_err(|error| record_failure(&error))?;
    let boundary = Boundary::find(&loaded.manifest, args.containment, None);
    let given = given_workdir(args.workdir.as_deref(), &loaded, &home)?;
    // One that is made at the launch has no name yet.
    let workdir = given.unwrap_or_else(|| loaded.dir.join("workdir").join("SESSION"));
    Ok(Scope::new(&loaded, &boundary, (&workdir, home.path()), &settings::config(&home)?).await)
}

/// A manifest that this version can honour whole.
pub(crate) fn load(path: &Path) -> Result<Loaded, Failure> {
    let loaded =
        manifest::load(path).map_err(|rejected| Failure::findings(rejected.diagnostics(), rejected.render()))?;
    let unsupported = manifest::unsupported(&loaded);
    if unsupported.is_empty() {
        return Ok(loaded);
    }
    let rendered: Vec<String> = unsupported.iter().map(manifest::Diagnostic::render).collect();
    Err(Failure::findings(&unsupported, rendered.join("\n")))
}

/// What a launch on this host would refuse of a capsule whose manifest was accepted.
pub(crate) struct Trial {
    /// Whatever the task, the workdir and the home are.
    pub(crate) refused: Vec<Failure>,
    /// As the home and the environment are now: credentials that do not resolve, and grants that give nothing.
    pub(crate) missing: Vec<Failure>,
}

/// Takes a launch's own steps as far as they need no task, workdir or record, and goes on after a refusal.
/// Nothing is made, started or contacted.
pub(crate) fn attempt(loaded: &Loaded) -> Trial {
    let manifest = &loaded.manifest;
    let redactor = Redactor::new();
    let mut refused: Vec<Failure> = Boundary::find(manifest, None, None).require().err().into_iter().collect();
    let home = Home::from_env();
    let missing = match &home {
        Ok(home) => credentials::missing(manifest, home),
        Err(error) => vec![record_failure(error)],
    };
    // A path that holds nothing and in which nothing lies.
    let home = home.map_or_else(|_| "/dev/null".into(), |home| real(&home));
    refused.extend(choices::faults(manifest));
    let mut idle = Vec::new();
    if manifest::unsupported(loaded).is_empty() {
        // A tool that this version does not have cannot be made, which is told already.
        match try_tools(loaded, &home, &redactor) {
            Ok(found) => idle = found,
            Err(failure) => refused.push(failure),
        }
    }
    let missing = missing.into_iter().map(|failure| failure.code("W-RUN-005")).chain(idle).collect();
    Trial { refused, missing }
}

fn lifecycle(manifest: &Manifest) -> Lifecycle {
    let declared = &manifest.lifecycle;
    Lifecycle {
        acceptance: match declared.task_acceptance {
            TaskAcceptance::None => Acceptance::None,
            TaskAcceptance::Single => Acceptance::Single,
            TaskAcceptance::Queue => Acceptance::Queue,
        },
        after_task: match declared.after_task {
            manifest::AfterTask::Exit => AfterTask::Exit,
            manifest::AfterTask::Sleep => AfterTask::Sleep,
        },
        queue_depth: usize::try_from(declared.queue_depth).unwrap_or(usize::MAX),
        threaded: declared.conversation == manifest::ConversationMode::Threaded,
        input_timeout: Duration::from_secs(declared.input_timeout_secs),
    }
}

fn no_task() -> Failure {
    let message = "there is no task, and the capsule takes none at its address (`lifecycle.task_acceptance: none`)";
    Failure::unusable(message)
        .code("E-RUN-001")
        .hint("give one with `--task \"…\"`, `--task FILE`, or `--task -` for standard input")
}

/// A record that cannot be written or read.
pub(crate) fn record_failure(error: &record::Error) -> Failure {
    Failure::unusable(error.to_string()).code(error.code()).hint(error.hint())
}

fn guidance(manifest: &Manifest) -> Guidance {
    let documents = manifest
        .profile
        .iter()
        .map(|document| ContextDocument { name: document.path.declared.clone(), text: document.text.clone() })
        .collect();
    let skills = manifest
        .skills()
        .map(|(artifact, skill)| SkillEntry {
            name: artifact.name.as_str().to_owned(),
            description: skill.description.clone(),
        })
        .collect();
    Guidance { skills, documents }
}
