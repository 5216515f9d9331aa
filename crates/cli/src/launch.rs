//! From a manifest and a command line to a session's setup.
//!
//! The order is the point: read and check everything, resolve the credential, and only then make
//! directories and records. A declared thing is honoured or the launch is refused. `mur check` takes the
//! same steps as far as they make nothing.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manifest::{BuiltinDriver, Capture, Choice, Containment, Credential, Loaded, Manifest, TaskAcceptance};
use policy::{Policy, Rules, Tool};
use record::{Home, TraceKey};
use runtime::{
    Acceptance, AfterTask, ContextDocument, Lifecycle, Limits, Observer, Registry, Setup, SkillEntry, system_prompt,
};
use secrets::{Lookup, Redactor, Reference, Secret};
use vocab::{ContextId, Driver, SessionId, SystemClock};

use crate::address::Address;
use crate::args::{Class, RunArgs};
use crate::equip::{equip, missing_grant, scratch, try_tools};
use crate::export::Export;
use crate::failure::Failure;
use crate::place::{Belongings, given_workdir, made_workdir};
use crate::resume::Earlier;

/// The longest task text.
const TASK_MAX: u64 = 4 << 20;

/// A session that is ready to start.
pub(crate) struct Launch {
    loaded: Loaded,
    session: SessionId,
    home: Home,
    workdir: PathBuf,
    address: Address,
    export: Option<Export>,
    earlier: Option<Earlier>,
    context: Option<ContextId>,
    driver: Box<dyn Driver>,
    redactor: Redactor,
    tools: Vec<Arc<dyn Tool>>,
    rules: Rules,
    system: String,
    belongings: Belongings,
    warnings: Vec<String>,
}

/// What a session has around it.
pub(crate) struct Surroundings {
    pub(crate) address: Address,
    pub(crate) export: Option<Export>,
    pub(crate) belongings: Belongings,
}

impl Launch {
    /// Reads, checks and resolves everything; makes the workdir last.
    pub(crate) fn prepare(args: &RunArgs) -> Result<Self, Failure> {
        let loaded = manifest::load(&args.path)
            .map_err(|rejected| Failure::findings(rejected.diagnostics(), rejected.render()))?;
        let unsupported = manifest::unsupported(&loaded);
        if !unsupported.is_empty() {
            let rendered: Vec<String> = unsupported.iter().map(manifest::Diagnostic::render).collect();
            return Err(Failure::findings(&unsupported, rendered.join("\n")));
        }
        floor(&loaded.manifest, args.containment)?;
        let home = Home::from_env().map_err(|error| record_failure(&error))?;
        let redactor = Redactor::new();
        let key = api_key(&loaded.manifest, &home)?;
        let driver = driver(&loaded.manifest, key, &redactor)?;
        if args.task.is_none() && loaded.manifest.lifecycle.task_acceptance == TaskAcceptance::None {
            return Err(no_task());
        }
        let earlier = args.resume.as_deref().map(|name| Earlier::find(&home, name)).transpose()?;
        let before = earlier.as_ref().and_then(|earlier| earlier.workdir.as_deref());
        let given = given_workdir(args.workdir.as_deref().or(before), &loaded, &home)?;
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
        let equipment = equip(&loaded, &home, &workdir, belongings.scratch.as_ref(), &redactor)?;
        let mut warnings: Vec<String> = loaded.warnings.iter().map(manifest::Diagnostic::render).collect();
        warnings.extend(equipment.warnings);
        warnings.extend(address.warning());
        let system = system(&loaded.manifest, args.system_prompt.as_deref());
        let (tools, rules) = (equipment.tools, equipment.rules);
        let export = Export::start(&loaded.manifest, &session, &redactor)?;
        let latest = earlier.as_ref().and_then(|earlier| earlier.contexts.last().cloned());
        let context = args.context.clone().or(latest);
        Ok(Self {
            loaded,
            session,
            home,
            workdir,
            address,
            export,
            earlier,
            context,
            driver,
            redactor,
            tools,
            rules,
            system,
            belongings,
            warnings,
        })
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    pub(crate) fn capsule(&self) -> (&str, &str) {
        (self.loaded.manifest.name.as_str(), self.loaded.manifest.version.as_str())
    }

    pub(crate) fn url(&self) -> String {
        self.address.url()
    }

    /// The conversation that the first task goes on with.
    pub(crate) fn context(&self) -> Option<&ContextId> {
        self.context.as_ref()
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
        format!("{} ({})", self.driver.model(), self.driver.name())
    }

    pub(crate) fn is_scripted(&self) -> bool {
        self.loaded.manifest.inference.primary().is_some_and(|choice| choice.driver == BuiltinDriver::Scripted)
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The setup, and what lives around the session as long as it does.
    pub(crate) fn into_setup(self, observer: Box<dyn Observer>) -> (Setup, Surroundings) {
        let inference = &self.loaded.manifest.inference;
        let limits = Limits {
            max_turns: inference.max_turns,
            max_tokens: inference.max_tokens,
            max_session_tokens: inference.max_session_tokens,
        };
        let (resumed_from, mut contexts) = self
            .earlier
            .as_ref()
            .map_or((None, Vec::new()), |earlier| (Some(earlier.session.clone()), earlier.contexts.clone()));
        contexts.extend(self.context.clone());
        let (name, version) = self.capsule();
        let setup = Setup {
            capsule: (name.to_owned(), version.to_owned()),
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
            driver: self.driver.into(),
            system: self.system,
            registry: Registry::new(self.tools, missing_grant),
            policy: Policy::new(self.rules),
            redactor: self.redactor,
            limits,
            clock: Arc::new(SystemClock),
            observer,
            telemetry: self.export.as_ref().map(Export::telemetry),
            description: self.loaded.manifest.description.clone(),
            lifecycle: lifecycle(&self.loaded.manifest),
            resumed_from,
            contexts,
        };
        (setup, Surroundings { address: self.address, export: self.export, belongings: self.belongings })
    }
}

/// What a launch on this host would refuse of a capsule whose manifest was accepted.
pub(crate) struct Trial {
    /// Whatever the task, the workdir and the home are.
    pub(crate) refused: Vec<Failure>,
    /// As the home and the environment are now.
    pub(crate) missing: Option<Failure>,
}

/// Takes a launch's own steps as far as they need no task, workdir or record, and goes on after a refusal.
/// Nothing is made, started or contacted.
pub(crate) fn attempt(loaded: &Loaded) -> Trial {
    let manifest = &loaded.manifest;
    let redactor = Redactor::new();
    let home = Home::from_env().map_err(|error| record_failure(&error));
    let (key, missing) = match home.and_then(|home| api_key(manifest, &home)) {
        Ok(key) => (key, None),
        Err(failure) => (None, Some(failure.code("W-RUN-005"))),
    };
    let steps =
        [floor(manifest, None).err(), driver(manifest, key, &redactor).err(), try_tools(loaded, &redactor).err()];
    Trial { refused: steps.into_iter().flatten().collect(), missing }
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

/// The task's text: the argument itself, or what the file that it names holds.
pub(crate) fn task(argument: &str) -> Result<String, Failure> {
    let bad = |message: String| Failure::unusable(message).code("E-RUN-001");
    let unread = |place: &str, why: &str| {
        bad(format!("cannot read the task from {place}: {why}"))
            .hint(format!("a task is UTF-8 text of at most {} MiB", TASK_MAX >> 20))
    };
    let text = if argument == "-" {
        read_text(std::io::stdin().lock()).map_err(|why| unread("standard input", &why))?
    } else if Path::new(argument).exists() {
        std::fs::File::open(argument)
            .map_err(|error| error.to_string())
            .and_then(read_text)
            .map_err(|why| unread(&format!("`{argument}`"), &why))?
    } else if names_a_file(argument) {
        return Err(bad(format!("there is no file `{argument}`")).hint("a single word with a `/`, or that ends in `.md` or `.txt`, is taken as a file; write a task in more than one word"));
    } else {
        argument.to_owned()
    };
    if text.trim().is_empty() {
        return Err(bad("the task is empty".to_owned()).hint("say what the agent is to do"));
    }
    Ok(text)
}

/// One word that looks like a path: a mistyped file name must not go to a model as a task.
fn names_a_file(argument: &str) -> bool {
    let one_word = !argument.contains(char::is_whitespace);
    let ending = Path::new(argument).extension().is_some_and(|ending| ending == "md" || ending == "txt");
    one_word && (argument.contains('/') || ending)
}

fn read_text(reader: impl std::io::Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    reader.take(TASK_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > TASK_MAX {
        return Err(format!("it is longer than {} MiB", TASK_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
}

/// A record that cannot be written or read.
pub(crate) fn record_failure(error: &record::Error) -> Failure {
    Failure::unusable(error.to_string()).code(error.code()).hint(error.hint())
}

/// This version enforces no kernel boundary, so any stronger floor is not met.
fn floor(manifest: &Manifest, wanted: Option<Class>) -> Result<(), Failure> {
    let declared = manifest.capabilities.containment.unwrap_or(Containment::Advisory);
    let asked = match wanted {
        None | Some(Class::Advisory) => Containment::Advisory,
        Some(Class::Scoped) => Containment::Scoped,
        Some(Class::Sealed) => Containment::Sealed,
    };
    let floor = declared.max(asked);
    if floor == Containment::Advisory {
        return Ok(());
    }
    let message = format!(
        "the containment floor `{}` is not met: this version reaches `advisory`; the file, network and system call \
         boundaries of the kernel are missing",
        floor.as_str()
    );
    let hint = "lower `capabilities.containment` or `--containment` only if the agent may do what your account may do";
    Err(Failure::unusable(message).code("E-CAP-003").hint(hint))
}

fn driver(manifest: &Manifest, key: Option<Secret>, redactor: &Redactor) -> Result<Box<dyn Driver>, Failure> {
    let Some(choice) = manifest.inference.primary() else {
        return Err(Failure::unusable("the manifest names no driver").code("E-MAN-003"));
    };
    let mut config = drivers::Config::new(endpoint(choice), choice.model.as_str());
    config.request.clone_from(&choice.config);
    config.request.remove("script");
    config.script = choice.script.as_ref().map(|script| script.absolute.clone());
    if let Some(key) = &key {
        redactor.learn(key);
    }
    config.api_key = key;
    let retry = &manifest.inference.retry;
    config.retry = drivers::Retry {
        max_retries: retry.max_retries,
        initial_delay: Duration::from_millis(retry.initial_delay_ms),
        max_delay: Duration::from_millis(retry.max_delay_ms),
    };
    drivers::build(choice.driver.as_str(), config)
        .map_err(|error| Failure::unusable(error.to_string()).code(error.code()).hint(error.hint()))
}

fn endpoint(choice: &Choice) -> &str {
    choice.gateway.as_ref().map_or("", |gateway| gateway.endpoint.as_str())
}

fn api_key(manifest: &Manifest, home: &Home) -> Result<Option<Secret>, Failure> {
    let gateway = manifest.inference.primary().and_then(|choice| choice.gateway.as_ref());
    let reference = match gateway.map(|gateway| &gateway.credential) {
        None | Some(Credential::Keyless) => return Ok(None),
        Some(Credential::Reference(name)) => Reference::Name(name.as_str().to_owned()),
        Some(Credential::Literal(literal)) => Reference::Literal(Secret::new(literal.expose().to_owned())),
    };
    let lookup = Lookup::open(home.path(), |name| std::env::var_os(name));
    lookup
        .resolve(&reference)
        .map(|credential| Some(credential.into_secret()))
        .map_err(|error| Failure::unusable(error.to_string()).code(error.code()).hint(error.hint()))
}

fn system(manifest: &Manifest, given: Option<&str>) -> String {
    let documents: Vec<ContextDocument> = manifest
        .profile
        .iter()
        .map(|document| ContextDocument { name: document.path.declared.clone(), text: document.text.clone() })
        .collect();
    let skills: Vec<SkillEntry> = manifest
        .skills()
        .map(|(artifact, skill)| SkillEntry {
            name: artifact.name.as_str().to_owned(),
            description: skill.description.clone(),
        })
        .collect();
    system_prompt(given.or(manifest.inference.system_prompt.as_deref()), &documents, &skills)
}
