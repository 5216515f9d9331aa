//! What an agent works with: its tools, the rules that bound them, the surroundings of its processes.
//!
//! A tool is made because the manifest declares it, and for no other reason.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manifest::{BuiltinTool, Loaded, Manifest};
use policy::{Rules, Tool};
use record::Home;
use secrets::Redactor;
use tempfile::TempDir;
use tools::{Directories, Environment, EnvironmentGrant, ProcessEnvironment, Processes, ToolError};

use crate::boundary::{Boundary, idle_grants, starts_processes};
use crate::credentials::Gateways;
use crate::failure::Failure;
use crate::place::{self, real};
use crate::settings;

/// HOME and TMPDIR of the agent's processes: private to the session, gone with it. Absent when the
/// capsule can start no process.
pub(crate) fn scratch(manifest: &Manifest) -> Result<Option<TempDir>, Failure> {
    if !starts_processes(manifest) {
        return Ok(None);
    }
    let bad = |error: std::io::Error| {
        Failure::unusable(format!("cannot make a directory for temporary files: {error}"))
            .code("E-RUN-003")
            .hint("set `TMPDIR` to a directory that you can write")
    };
    let prefix = format!("{}{}-", place::SCRATCH, std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).tempdir().map_err(bad)?;
    for name in ["home", "tmp"] {
        std::fs::DirBuilder::new().mode(0o700).create(dir.path().join(name)).map_err(bad)?;
    }
    Ok(Some(dir))
}

/// What a session's agent works with.
pub(crate) struct Equipment {
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// How processes start; nothing when the capsule can start none.
    pub(crate) processes: Option<Arc<Processes>>,
    pub(crate) rules: Rules,
    /// What the operator should know before it starts.
    pub(crate) warnings: Vec<String>,
}

/// What the tools of one session share beside its directories.
pub(crate) struct Session<'a> {
    /// The runtime's home, as a real path.
    pub(crate) home: &'a Path,
    pub(crate) redactor: &'a Redactor,
    pub(crate) gateways: &'a Gateways,
    pub(crate) boundary: &'a Boundary,
    /// Where the session itself answers.
    pub(crate) own: &'a [SocketAddr],
    /// What the directory is, by device and inode, where others write beside it.
    pub(crate) pinned: Option<(u64, u64)>,
}

/// The tools that the manifest grants, and the rules that bound them.
pub(crate) fn equip(
    loaded: &Loaded,
    home: &Home,
    workdir: &Path,
    scratch: Option<&TempDir>,
    session: &Session<'_>,
) -> Result<Equipment, Failure> {
    let capabilities = &loaded.manifest.capabilities;
    let root =
        capabilities.filesystem.scope.as_ref().map_or_else(|| workdir.to_owned(), |scope| workdir.join(scope.as_str()));
    let environment = Environment::open(&root).map_err(|error| unusable(&error))?;
    if session.pinned.is_some_and(|node| environment.node().is_none_or(|opened| opened != node)) {
        return Err(place::changed(&root));
    }
    let mut warnings = Vec::new();
    let mut rules = rules(loaded, home, workdir, environment.root(), &mut warnings);
    let processes = scratch.map(|scratch| Arc::new(processes(loaded, workdir, &environment, scratch.path(), session)));
    for name in processes.iter().flat_map(|shared| shared.environment.withheld()) {
        warnings.push(format!(
            "warning: `{name}` is granted to processes but holds a credential of this session; they do not get it\n"
        ));
    }
    if let Some(processes) = &processes {
        rules = rules.search(processes.environment.search().iter().cloned());
        let finds = |name: &str| processes.environment.program(name).is_some();
        let idle = idle_grants(&loaded.manifest, (environment.root(), session.home), finds);
        warnings.extend(idle.iter().map(Failure::warning_line));
    }
    let tools = tools(loaded, &environment, processes.as_ref(), session.gateways).map_err(|error| unusable(&error))?;
    Ok(Equipment { tools, processes, rules, warnings })
}

/// Makes the capsule's tools as a launch does, in the manifest's own directory, and drops them: finds what a
/// launch would refuse of them. Gives what is listed for nothing.
pub(crate) fn try_tools(loaded: &Loaded, home: &Path, redactor: &Redactor) -> Result<Vec<Failure>, Failure> {
    let dir = &loaded.dir;
    let (gateways, boundary) = (Gateways::default(), Boundary::none());
    let session = Session { home, redactor, gateways: &gateways, boundary: &boundary, own: &[], pinned: None };
    let trial = || {
        let environment = Environment::open(dir)?;
        // Nothing is started, so no directory has to be there for it.
        let processes =
            starts_processes(&loaded.manifest).then(|| Arc::new(processes(loaded, dir, &environment, dir, &session)));
        tools(loaded, &environment, processes.as_ref(), &gateways)?;
        let idle = processes.iter().flat_map(|processes| {
            let finds = |name: &str| processes.environment.program(name).is_some();
            // The workdir of a launch is not known here.
            idle_grants(&loaded.manifest, (Path::new("/dev/null"), session.home), finds)
        });
        Ok(idle.collect())
    };
    trial().map_err(|error| unusable(&error))
}

fn unusable(error: &ToolError) -> Failure {
    let hint = match error {
        ToolError::Schema { .. } => "correct `input_schema` in the tool's own `murmur.yaml`",
        _ => "check that the directory can be opened",
    };
    Failure::unusable(error.to_string()).code("E-RUN-003").hint(hint)
}

fn tools(
    loaded: &Loaded,
    environment: &Environment,
    processes: Option<&Arc<Processes>>,
    gateways: &Gateways,
) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
    let capabilities = &loaded.manifest.capabilities;
    let mut made = Vec::new();
    for tool in &capabilities.tools {
        made.extend(builtin(*tool, environment, processes, &loaded.manifest)?);
    }
    if let Some(processes) = processes {
        for name in &capabilities.shell.allow {
            made.push(tools::shell_binary(name.as_str(), environment, processes));
        }
        for (artifact, package) in loaded.manifest.tools() {
            if let manifest::Program::Native { argv } = &package.program {
                let name = artifact.name.as_str();
                let gateway = gateways.of_tool(name);
                made.push(tools::native_tool(name, package, argv, gateway, environment, processes)?);
            }
        }
    }
    let skills = loaded.manifest.skills().map(|(artifact, skill)| (artifact.name.as_str(), skill));
    made.extend(tools::skill_tools(skills));
    Ok(made)
}

/// Below the root, but not the runtime's home; changing nothing that is read-only or that the capsule
/// itself is made of. A rule holds for the name and for what the name leads to. `~` in a command counts as the
/// operator's directory, as in the rules: a command can say so itself (`HOME=…`), whatever its own is.
pub(crate) fn rules(loaded: &Loaded, home: &Home, workdir: &Path, root: &Path, warnings: &mut Vec<String>) -> Rules {
    let mut rules = Rules::new(root.to_owned()).hidden(real(home)).home(settings::operator_home());
    let declared = loaded.manifest.capabilities.filesystem.read_only.iter();
    let declared: Vec<PathBuf> = declared.map(|path| workdir.join(path.as_str())).collect();
    for path in &declared {
        let name = path.strip_prefix(workdir).unwrap_or(path).display();
        if !path.starts_with(root) {
            let scope = root.strip_prefix(workdir).unwrap_or(root).display();
            warnings.push(format!(
                "warning[W-RUN-004]: `capabilities.filesystem.read_only`: `{name}` lies outside `scope`, so it is out of \
                 reach anyway; for `{name}` below `{scope}` write `{scope}/{name}`\n"
            ));
        } else if path.symlink_metadata().is_err() {
            warnings.push(format!(
                "warning[W-RUN-004]: `capabilities.filesystem.read_only`: nothing in the workdir is named `{name}` yet; \
                 patterns are not expanded\n"
            ));
        }
    }
    let own = loaded.manifest.made_of().chain([loaded.path.as_path()]);
    for path in declared.iter().map(PathBuf::as_path).chain(own) {
        rules = rules.read_only(path);
        if let Ok(target) = path.canonicalize() {
            rules = rules.read_only(target);
        }
    }
    rules
}

fn builtin(
    tool: BuiltinTool,
    environment: &Environment,
    processes: Option<&Arc<Processes>>,
    manifest: &Manifest,
) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
    match (tool, processes) {
        (BuiltinTool::ShellExec, Some(processes)) => {
            let shells: Vec<String> =
                manifest.capabilities.shell.allow.iter().map(|name| name.as_str().to_owned()).collect();
            Ok(vec![tools::shell_exec(environment, processes, &shells)])
        }
        // These are made when the session is, of which their servers and subagents are a part.
        (BuiltinTool::Mcp | BuiltinTool::SpawnSubagent, _) => Ok(Vec::new()),
        (BuiltinTool::GitStatus, Some(processes)) => Ok(vec![tools::git_status(environment, processes)]),
        (BuiltinTool::GitDiff, Some(processes)) => Ok(vec![tools::git_diff(environment, processes)]),
        (BuiltinTool::GitCommit, Some(processes)) => {
            Ok(vec![tools::git_commit(environment, processes, &place::git_configs())])
        }
        _ => tools::builtin_tools([tool.as_str()], environment),
    }
}

fn processes(
    loaded: &Loaded,
    workdir: &Path,
    environment: &Environment,
    scratch: &Path,
    session: &Session<'_>,
) -> Processes {
    let capabilities = &loaded.manifest.capabilities;
    let grant = EnvironmentGrant::from(capabilities);
    let (home, tmp) = (scratch.join("home"), scratch.join("tmp"));
    let directories = Directories { root: environment.root(), home: &home, tmp: &tmp };
    let variables = ProcessEnvironment::new(std::env::vars_os(), &grant, directories, session.redactor);
    let programs = capabilities.shell.allow.iter().filter_map(|name| variables.program(name.as_str()));
    let places = (environment.root(), scratch, session.home);
    let mut containment = session.boundary.containment(loaded, places, programs.collect(), session.own);
    containment.pinned = session.pinned.map(|node| (environment.root().to_owned(), node));
    Processes {
        workdir: workdir.to_owned(),
        environment: variables,
        limits: tools::process_limits(&capabilities.resources),
        containment,
        gateways: session.gateways.of_shell.clone(),
        timeout: Duration::from_secs(capabilities.shell.timeout_secs),
        grace: Some(loaded.manifest.lifecycle.shell_grace_secs).filter(|secs| *secs > 0).map(Duration::from_secs),
        redactor: session.redactor.clone(),
    }
}

/// Which declaration a call's tool is missing from.
pub(crate) fn missing_grant(name: &str) -> &'static str {
    if matches!(name, "mcp_providers" | "mcp_capabilities" | "mcp_call") {
        "`capabilities.tools` in its manifest does not list `mcp`"
    } else if BuiltinTool::ALL.iter().any(|tool| tool.as_str() == name) {
        "`capabilities.tools` in its manifest does not list it"
    } else {
        "neither `artifacts` nor `capabilities.shell.allow` in its manifest names it"
    }
}
