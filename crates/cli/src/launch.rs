//! From a manifest and a command line to a session's setup.
//!
//! The order is the point: read and check everything, resolve the credential, and only then make
//! directories and records. A declared thing is honoured or the launch is refused.

use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manifest::{BuiltinDriver, BuiltinTool, Capture, Choice, Containment, Credential, Loaded, Manifest};
use policy::{Policy, Rules, Tool};
use record::Home;
use runtime::{ContextDocument, Limits, Observer, Registry, Setup, SkillEntry, system_prompt};
use secrets::{Lookup, Redactor, Reference, Secret};
use tempfile::TempDir;
use tools::{Directories, Environment, EnvironmentGrant, ProcessEnvironment, Processes};
use vocab::{Driver, SessionId, SystemClock};

use crate::args::{Class, RunArgs};
use crate::failure::Failure;

/// The longest task text.
const TASK_MAX: u64 = 4 << 20;

/// A session that is ready to start.
pub(crate) struct Launch {
    loaded: Loaded,
    session: SessionId,
    home: Home,
    workdir: PathBuf,
    driver: Box<dyn Driver>,
    redactor: Redactor,
    tools: Vec<Arc<dyn Tool>>,
    rules: Rules,
    system: String,
    belongings: Belongings,
    warnings: Vec<String>,
}

impl Launch {
    /// Reads, checks and resolves everything; makes the workdir last.
    pub(crate) fn prepare(args: &RunArgs) -> Result<Self, Failure> {
        let loaded = manifest::load(&args.path).map_err(|rejected| Failure::rendered(rejected.render()))?;
        let unsupported = manifest::unsupported(&loaded);
        if !unsupported.is_empty() {
            let rendered: Vec<String> = unsupported.iter().map(manifest::Diagnostic::render).collect();
            return Err(Failure::rendered(rendered.join("\n")));
        }
        floor(&loaded.manifest, args.containment)?;
        let home = Home::from_env().map_err(|error| record_failure(&error))?;
        let redactor = Redactor::new();
        let driver = driver(&loaded.manifest, &home, &redactor)?;
        let given = given_workdir(args.workdir.as_deref(), &loaded, &home)?;
        home.ensure().map_err(|error| record_failure(&error))?;
        let session = SessionId::new();
        let mut belongings = Belongings::default();
        let workdir = match given {
            Some(workdir) => workdir,
            None => made_workdir(&loaded, &session, &home, &mut belongings)?,
        };
        belongings.scratch = scratch(&loaded.manifest)?;
        let (tools, rules, withheld) = tools(&loaded, &home, &workdir, belongings.scratch.as_ref(), &redactor)?;
        let mut warnings: Vec<String> = loaded.warnings.iter().map(manifest::Diagnostic::render).collect();
        warnings.extend(withheld.iter().map(|name| {
            format!(
                "warning: `{name}` is granted to processes but holds a credential of this session; they do not get it\n"
            )
        }));
        let system = system(&loaded.manifest, args.system_prompt.as_deref());
        Ok(Self { loaded, session, home, workdir, driver, redactor, tools, rules, system, belongings, warnings })
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    pub(crate) fn capsule(&self) -> (&str, &str) {
        (self.loaded.manifest.name.as_str(), self.loaded.manifest.version.as_str())
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

    /// The setup, and what on disk lives as long as the session.
    pub(crate) fn into_setup(self, observer: Box<dyn Observer>) -> (Setup, Belongings) {
        let inference = &self.loaded.manifest.inference;
        let limits = Limits {
            max_turns: inference.max_turns,
            max_tokens: inference.max_tokens,
            max_session_tokens: inference.max_session_tokens,
        };
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
        };
        (setup, self.belongings)
    }
}

/// The task's text: the argument itself, or what the file that it names holds.
pub(crate) fn task(argument: Option<&str>) -> Result<String, Failure> {
    let bad = |message: String| Failure::unusable(message).code("E-RUN-001");
    let unread = |place: &str, why: &str| {
        bad(format!("cannot read the task from {place}: {why}"))
            .hint(format!("a task is UTF-8 text of at most {} MiB", TASK_MAX >> 20))
    };
    let argument = argument.ok_or_else(|| {
        bad("there is no task".to_owned())
            .hint("give one with `--task \"…\"`, `--task FILE`, or `--task -` for standard input")
    })?;
    let text = if argument == "-" {
        read_text(std::io::stdin().lock()).map_err(|why| unread("standard input", &why))?
    } else if Path::new(argument).is_file() {
        std::fs::File::open(argument)
            .map_err(|error| error.to_string())
            .and_then(read_text)
            .map_err(|why| unread(&format!("`{argument}`"), &why))?
    } else if names_a_file(argument) {
        return Err(bad(format!("there is no file `{argument}`")).hint("a task that is text has more than one word"));
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

fn driver(manifest: &Manifest, home: &Home, redactor: &Redactor) -> Result<Box<dyn Driver>, Failure> {
    let Some(choice) = manifest.inference.primary() else {
        return Err(Failure::unusable("the manifest names no driver").code("E-MAN-003"));
    };
    let mut config = drivers::Config::new(endpoint(choice), choice.model.as_str());
    config.request.clone_from(&choice.config);
    config.request.remove("script");
    config.script = choice.script.as_ref().map(|script| script.absolute.clone());
    config.api_key = api_key(choice, home)?;
    if let Some(key) = &config.api_key {
        redactor.learn(key);
    }
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

fn api_key(choice: &Choice, home: &Home) -> Result<Option<Secret>, Failure> {
    let reference = match choice.gateway.as_ref().map(|gateway| &gateway.credential) {
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

/// What a session has for itself on disk, and loses with its end.
#[derive(Debug, Default)]
pub(crate) struct Belongings {
    /// HOME and TMPDIR of the agent's processes.
    scratch: Option<TempDir>,
    /// Directories that this launch made for the agent, outermost first.
    fresh: Vec<PathBuf>,
}

impl Belongings {
    /// The session runs: what was made for the agent stays.
    pub(crate) fn settle(&mut self) {
        self.fresh.clear();
    }
}

impl Drop for Belongings {
    fn drop(&mut self) {
        for dir in self.fresh.iter().rev() {
            // A directory that is not empty is somebody's, and stays.
            let _ = std::fs::remove_dir(dir);
        }
    }
}

fn unusable_workdir(message: String) -> Failure {
    Failure::unusable(message).code("E-RUN-002")
}

/// The directory that the operator gave, as a real path; `None` when one is to be made.
fn given_workdir(given: Option<&Path>, loaded: &Loaded, home: &Home) -> Result<Option<PathBuf>, Failure> {
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
fn made_workdir(
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
fn apart(workdir: &Path, home: &Home) -> Result<(), Failure> {
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
fn real(home: &Home) -> PathBuf {
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

/// HOME and TMPDIR of the agent's processes: private to the session, gone with it. Absent when the
/// capsule can start no process.
fn scratch(manifest: &Manifest) -> Result<Option<TempDir>, Failure> {
    if !starts_processes(manifest) {
        return Ok(None);
    }
    let bad = |error: std::io::Error| {
        Failure::unusable(format!("cannot make a directory for temporary files: {error}"))
            .code("E-RUN-003")
            .hint("set `TMPDIR` to a directory that you can write")
    };
    let dir = tempfile::Builder::new().prefix("mur-").tempdir().map_err(bad)?;
    for name in ["home", "tmp"] {
        std::fs::DirBuilder::new().mode(0o700).create(dir.path().join(name)).map_err(bad)?;
    }
    Ok(Some(dir))
}

fn starts_processes(manifest: &Manifest) -> bool {
    use BuiltinTool::{GitCommit, GitDiff, GitStatus, ShellExec};
    let by_tool = [ShellExec, GitStatus, GitDiff, GitCommit].into_iter().any(|tool| manifest.grants(tool));
    by_tool || !manifest.capabilities.shell.allow.is_empty() || manifest.tools().next().is_some()
}

type Equipment = (Vec<Arc<dyn Tool>>, Rules, Vec<String>);

/// The tools that the manifest grants, the rules that bound them, and names of variables that processes
/// do not get after all.
fn tools(
    loaded: &Loaded,
    home: &Home,
    workdir: &Path,
    scratch: Option<&TempDir>,
    redactor: &Redactor,
) -> Result<Equipment, Failure> {
    let bad = |error: tools::ToolError| {
        let hint = match error {
            tools::ToolError::Schema { .. } => "correct `input_schema` in the tool's own `murmur.yaml`",
            _ => "check that the workdir can be opened",
        };
        Failure::unusable(error.to_string()).code("E-RUN-003").hint(hint)
    };
    let capabilities = &loaded.manifest.capabilities;
    let filesystem = &capabilities.filesystem;
    let root = filesystem.scope.as_ref().map_or_else(|| workdir.to_owned(), |scope| workdir.join(scope.as_str()));
    let environment = Environment::open(&root).map_err(bad)?;
    let mut rules = Rules::new(environment.root().to_owned()).hidden(real(home)).read_only(&loaded.path);
    for path in &filesystem.read_only {
        rules = rules.read_only(workdir.join(path.as_str()));
    }
    let processes =
        scratch.map(|scratch| Arc::new(processes(&loaded.manifest, workdir, &environment, scratch, redactor)));
    let withheld = processes.as_ref().map(|shared| shared.environment.withheld().to_vec()).unwrap_or_default();
    let mut made = Vec::new();
    for tool in &capabilities.tools {
        made.extend(builtin(*tool, &environment, processes.as_ref(), &loaded.manifest).map_err(bad)?);
    }
    if let Some(processes) = &processes {
        for name in &capabilities.shell.allow {
            made.push(tools::shell_binary(name.as_str(), &environment, processes));
        }
        for (artifact, package) in loaded.manifest.tools() {
            if let manifest::Program::Native { argv } = &package.program {
                made.push(
                    tools::native_tool(artifact.name.as_str(), package, argv, &environment, processes).map_err(bad)?,
                );
            }
        }
    }
    let skills = loaded.manifest.skills().map(|(artifact, skill)| (artifact.name.as_str(), skill));
    made.extend(tools::skill_tools(skills));
    Ok((made, rules, withheld))
}

fn builtin(
    tool: BuiltinTool,
    environment: &Environment,
    processes: Option<&Arc<Processes>>,
    manifest: &Manifest,
) -> Result<Vec<Arc<dyn Tool>>, tools::ToolError> {
    match (tool, processes) {
        (BuiltinTool::ShellExec, Some(processes)) => {
            let shells: Vec<String> =
                manifest.capabilities.shell.allow.iter().map(|name| name.as_str().to_owned()).collect();
            Ok(vec![tools::shell_exec(environment, processes, &shells)])
        }
        (BuiltinTool::GitStatus, Some(processes)) => Ok(vec![tools::git_status(environment, processes)]),
        (BuiltinTool::GitDiff, Some(processes)) => Ok(vec![tools::git_diff(environment, processes)]),
        _ => tools::builtin_tools([tool.as_str()], environment),
    }
}

fn processes(
    manifest: &Manifest,
    workdir: &Path,
    environment: &Environment,
    scratch: &TempDir,
    redactor: &Redactor,
) -> Processes {
    let grant = EnvironmentGrant::from(&manifest.capabilities);
    let (home, tmp) = (scratch.path().join("home"), scratch.path().join("tmp"));
    let directories = Directories { root: environment.root(), home: &home, tmp: &tmp };
    Processes {
        workdir: workdir.to_owned(),
        environment: ProcessEnvironment::new(std::env::vars_os(), &grant, directories, redactor),
        limits: tools::process_limits(&manifest.capabilities.resources),
        timeout: Duration::from_secs(manifest.capabilities.shell.timeout_secs),
        redactor: redactor.clone(),
    }
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

/// Which declaration a call's tool is missing from.
fn missing_grant(name: &str) -> &'static str {
    if BuiltinTool::ALL.iter().any(|tool| tool.as_str() == name) {
        "`capabilities.tools` in its manifest does not list it"
    } else {
        "neither `artifacts` nor `capabilities.shell.allow` in its manifest names it"
    }
}
