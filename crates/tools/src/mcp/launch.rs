//! How a connection's server is reached: which program with which environment, or which address with which token.
//!
//! The program is found once for a call and the real file is what is judged, granted and started. Sealed values are
//! opened at the moment of use: for a process they go into its environment and nowhere else. A program that the agent
//! could replace gets none, and is not started at all.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp::{HttpConfig, Pipes, Start, StartError};
use policy::{Connection, Permit};
use sandbox::{Access, Grant};
use secrets::{Keyring, LiveCredential, Redactor, Secret};
use tempfile::TempDir;
use vocab::BoxFuture;

use super::error::{ConnectError, Forbidden, Unopened};
use super::reach::Writable;
use crate::proc::{self, ProcessEnvironment, Processes, Service, ServiceJob, ServiceLog};

/// Opens the sealed values of connections. One value is opened for one use and not kept by who asks.
pub trait Unseal: Send + Sync {
    /// The value that is sealed in the connection under this name: `env.<NAME>` or `bearer`.
    ///
    /// # Errors
    /// [`Unopened`], in words without a value.
    fn open(&self, connection: &Connection, name: &str) -> Result<Secret, Unopened>;
}

/// What is started for a connection or a mod.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// The real file.
    pub(super) program: PathBuf,
    /// With the name that it is called by in front.
    pub(super) argv: Vec<OsString>,
    /// What it may use besides what the session's processes may.
    pub(super) grants: Vec<Grant>,
}

impl Launch {
    /// A connection's command, which may not lead to where the agent can write.
    pub(super) fn command(
        command: &str,
        args: &[String],
        environment: &ProcessEnvironment,
        writable: &Writable,
    ) -> Result<Self, ConnectError> {
        let program = if Path::new(command).is_absolute() {
            proc::executable(Path::new(command))
        } else {
            proc::find(command, environment.search()).ok()
        };
        let program = program.ok_or_else(|| ConnectError::Command { command: command.to_owned() })?;
        if let Some(word) = writable.command(&program, command, args) {
            return Err(ConnectError::Own { command: word.to_owned() });
        }
        let argv = std::iter::once(command).chain(args.iter().map(String::as_str)).map(OsString::from).collect();
        let grants = vec![Grant::new(&program, Access::ReadExecute)];
        Ok(Self { program, argv, grants })
    }

    /// The program of a package in this directory.
    pub(super) fn package(
        argv: &[OsString],
        dir: &Path,
        environment: &ProcessEnvironment,
    ) -> Result<Self, ConnectError> {
        let first = argv.first().map(PathBuf::from).unwrap_or_default();
        let program = match first.to_str() {
            Some(name) if !name.contains('/') => proc::find(name, environment.search()).ok(),
            _ => proc::executable(&dir.join(&first)),
        };
        let command = || ConnectError::Command { command: crate::show::path(&first) };
        let program = program.ok_or_else(command)?;
        let grants = vec![Grant::new(dir, Access::ReadExecute), Grant::new(&program, Access::ReadExecute)];
        Ok(Self { program, argv: argv.to_vec(), grants })
    }
}

/// Adds a connection's own variables, in place of others of their names. Those in clear are no secrets to anybody.
pub(super) fn add_variables(
    env: &mut Vec<(OsString, OsString)>,
    connection: &Connection,
    unseal: &dyn Unseal,
    redactor: &Redactor,
) -> Result<(), ConnectError> {
    let mut put = |name: &str, value: &str| {
        env.retain(|(other, _)| other != OsStr::new(name));
        env.push((name.into(), value.into()));
    };
    connection.variables.iter().for_each(|(name, value)| put(name, value));
    for name in connection.secrets.keys() {
        let Some(variable) = name.strip_prefix("env.") else { continue };
        put(variable, opened(connection, name, unseal, redactor)?.expose());
    }
    Ok(())
}

/// Whether it is the connection that gives the variable of this name.
fn gives(connection: &Connection, name: &str) -> bool {
    connection.variables.contains_key(name) || connection.secrets.contains_key(&format!("env.{name}"))
}

/// One opened value, which the session knows to be secret from now on.
fn opened(
    connection: &Connection,
    name: &str,
    unseal: &dyn Unseal,
    redactor: &Redactor,
) -> Result<Secret, ConnectError> {
    let value =
        unseal.open(connection, name).map_err(|source| ConnectError::Sealed { name: name.to_owned(), source })?;
    redactor.learn(&value);
    Ok(value)
}

/// The address of a server, with its token.
pub(super) fn http(
    url: &str,
    connection: &Connection,
    unseal: &dyn Unseal,
    redactor: &Redactor,
    roots: Option<&Path>,
) -> Result<HttpConfig, super::error::Unserved> {
    let mut config = HttpConfig::new(url)?;
    if connection.secrets.contains_key("bearer") {
        let token = opened(connection, "bearer", unseal, redactor)?;
        config = config.bearer(Keyring::from(LiveCredential::literal(token, redactor)));
    }
    Ok(match roots {
        Some(roots) => config.extra_roots(roots.to_owned()),
        None => config,
    })
}

/// Starts a server within a session, on the right of one call.
pub(super) struct Starter {
    pub(super) permit: Arc<Permit>,
    pub(super) launch: Launch,
    pub(super) connection: Connection,
    pub(super) processes: Arc<Processes>,
    pub(super) unseal: Arc<dyn Unseal>,
    pub(super) log: Arc<ServiceLog>,
    /// How many were started for that call.
    pub(super) starts: Arc<AtomicUsize>,
}

impl Starter {
    async fn pipes(&self) -> Result<Pipes, StartError> {
        let Self { permit, launch, processes, .. } = self;
        let cleared = permit.confirm_process(&launch.program, &launch.argv, permit.root()).map_err(Forbidden)?;
        let mut env = processes.environment.variables().collect();
        add_variables(&mut env, &self.connection, self.unseal.as_ref(), &processes.redactor)?;
        let own = env.iter().filter_map(|(name, value)| Some((name.to_str()?, value.as_os_str())));
        let own = own.filter(|(name, _)| gives(&self.connection, name));
        if let Some(name) = Writable::of(permit, processes).variable(own) {
            return Err(ConnectError::OwnVariable { name: name.to_owned() }.into());
        }
        let job = ServiceJob {
            argv: launch.argv.clone(),
            env,
            own: own_directory()?,
            grants: launch.grants.clone(),
            log: Arc::clone(&self.log),
        };
        let service = proc::serve(processes, cleared, job).await?;
        self.starts.fetch_add(1, Ordering::SeqCst);
        Ok(pipes(service))
    }
}

/// A directory for one process, gone with it. Its name is one of those that are swept when their runtime was killed.
pub(super) fn own_directory() -> std::io::Result<TempDir> {
    tempfile::Builder::new().prefix(&format!("mur-{}-", std::process::id())).tempdir()
}

impl Start for Starter {
    fn start(&self) -> BoxFuture<'_, Result<Pipes, StartError>> {
        Box::pin(self.pipes())
    }
}

pub(super) fn pipes(service: Service) -> Pipes {
    Pipes { stdin: service.stdin, stdout: service.stdout, keeper: service.keeper }
}
